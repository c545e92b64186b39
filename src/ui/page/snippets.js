// The same request as a curl line and as Python.
import {h, tabList, copyText} from './dom.js';
import {key} from './api.js';

const shellQuoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

function base() {
  return new URL('.', document.baseURI).href.replace(/\/$/, '');
}

// `count` times the same value: as JSON all of them, as code short.
export const repeated = (value, count) => Object.defineProperty(Array(count).fill(value), 'repeats', {value: true});
const hasRepeats = (value) => value?.repeats || (value && typeof value === 'object' && Object.values(value).some(hasRepeats));

export function curlLine(path, body) {
  const lines = [`curl -s${body && body.stream ? 'N' : ''} ${shellQuoted(`${base()}/${path}`)}`];
  if (key.get()) lines.push('-H "Authorization: Bearer $PENSTOCK_API_KEY"');
  if (body) lines.push("-H 'Content-Type: application/json'");
  const made = body && hasRepeats(body);
  if (body) lines.push(made ? '-d @-' : `-d ${shellQuoted(JSON.stringify(body))}`);
  const call = lines.join(' \\\n  ');
  return made ? `python3 -c ${shellQuoted(`import json\nprint(json.dumps(${python(body)}))`)} |\n${call}` : call;
}

// A JSON value as Python writes it.
export function python(value, indent = '') {
  if (value?.repeats) return `[${python(value[0])}] * ${value.length}`;
  const deeper = indent + '    ';
  if (value === true) return 'True';
  if (value === false) return 'False';
  if (value === null) return 'None';
  if (typeof value !== 'object') return JSON.stringify(value);
  const array = Array.isArray(value);
  const parts = array ? value.map((one) => python(one, deeper))
    : Object.entries(value).map(([name, one]) => `${JSON.stringify(name)}: ${python(one, deeper)}`);
  const [open, close] = array ? '[]' : '{}';
  const line = open + parts.join(', ') + close;
  return line.length <= 72 ? line : `${open}\n${parts.map((part) => deeper + part).join(',\n')}\n${indent}${close}`;
}

const keyOf = () => (key.get() ? 'os.environ["PENSTOCK_API_KEY"]' : '"-"');
const importOs = () => (key.get() ? 'import os\n' : '');

export function requestsSnippet(path, body) {
  const headers = key.get() ? `,\n    headers={"Authorization": f"Bearer {${keyOf().replaceAll('"', "'")}}"}` : '';
  const call = body ? `requests.post(\n    "${base()}/${path}",\n    json=${python(body, '    ')}${headers},\n)`
    : `requests.get(\n    "${base()}/${path}"${headers},\n)`;
  return `${importOs()}import requests\n\nanswer = ${call}\nanswer.raise_for_status()\nprint(answer.json())`;
}

const client = () =>
  `${importOs()}from openai import OpenAI\n\nclient = OpenAI(base_url="${base()}/v1", api_key=${keyOf()})\n`;

export function embedSnippet(body) {
  return `${client()}answer = client.embeddings.create(\n    model=${python(body.model)},\n    input=${python(body.input, '    ')},\n)\n` +
    'print(len(answer.data), len(answer.data[0].embedding))';
}

export function chatSnippet(body) {
  const fields = Object.entries(body).filter(([name]) => name !== 'stream_options')
    .map(([name, value]) => `    ${name}=${python(value, '    ')},`).join('\n');
  return `${client()}for part in client.chat.completions.create(\n${fields}\n):\n` +
    '    if part.choices:\n        print(part.choices[0].delta.content or "", end="", flush=True)';
}

// A box that shows both; update(curl, python).
export class Snippets {
  constructor() {
    this.texts = {curl: '', python: ''};
    this.code = h('code');
    const copied = h('span', {class: 'muted small', role: 'status'});
    const tabs = tabList('Language', [['curl', 'curl'], ['python', 'Python']], (name) => {
      this.shown = name;
      this.code.textContent = this.texts[name];
    });
    const copy = h('button', {class: 'quiet', onclick: async () => {
      const done = await copyText(this.code.textContent);
      copied.textContent = done ? 'Copied.' : 'Press Ctrl+C to copy.';
      if (!done) getSelection().selectAllChildren(this.code);
      setTimeout(() => (copied.textContent = ''), 3000);
    }}, 'Copy');
    this.node = h('div', {class: 'snippets'},
      h('div', {class: 'head'}, h('h3', {}, 'The same request'), h('div', {class: 'row'}, copied, copy, tabs)),
      h('pre', {tabindex: '0', role: 'region', 'aria-label': 'The request as code'}, this.code));
    tabs.choose('curl');
  }

  update(curl, pythonText) {
    this.texts = {curl, python: pythonText};
    this.code.textContent = this.texts[this.shown];
  }
}
