// The playground's chat: a conversation that is streamed, with its pace and a way to stop it.
import {h, setText, number, ms} from './dom.js';
import {events} from './api.js';
import {chatSnippet, curlLine} from './snippets.js';

const field = (label, name, attributes) => h('label', {class: 'field small'}, label, h('input', {type: 'number', name, ...attributes}));

export class Chat {
  constructor(snippets, model, say) {
    this.snippets = snippets;
    this.model = model;  // () => the chosen model's id
    this.say = say;
    this.messages = [];
    this.abort = null;
    this.log = h('div', {class: 'chat-log', role: 'log', 'aria-label': 'Conversation', tabindex: '0'});
    this.input = h('textarea', {rows: '3', id: 'chat-input', placeholder: 'Write a message'});
    this.sendButton = h('button', {class: 'main', type: 'submit'}, 'Send');
    this.stopButton = h('button', {class: 'quiet', type: 'button', disabled: true, onclick: () => this.stop()}, 'Stop');
    this.pace = h('p', {class: 'muted small pace', role: 'status'});
    this.system = h('textarea', {rows: '2', id: 'chat-system'});
    this.parameters = h('div', {class: 'fields'},
      field('Temperature', 'temperature', {min: '0', max: '2', step: '0.1', placeholder: 'model’s'}),
      field('Top p', 'top_p', {min: '0', max: '1', step: '0.05', placeholder: 'model’s'}),
      field('Tokens at most', 'max_completion_tokens', {min: '1', step: '1', value: '256'}),
      field('Seed', 'seed', {min: '0', step: '1', placeholder: 'any'}));
    const form = h('form', {}, h('label', {for: 'chat-input'}, 'Message'), this.input,
      h('div', {class: 'row'}, this.sendButton, this.stopButton,
        h('button', {class: 'quiet', type: 'button', onclick: () => this.clear()}, 'New chat')), this.pace);
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      this.send();
    });
    form.addEventListener('input', () => this.show());
    this.input.addEventListener('keydown', (event) => {
      if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.send();
    });
    const settings = h('details', {}, h('summary', {}, 'Parameters'), h('label', {for: 'chat-system'}, 'System message'), this.system, this.parameters);
    settings.addEventListener('input', () => this.show());
    this.node = h('div', {class: 'chat'}, settings, this.log, form);
  }

  body(text) {
    const system = this.system.value ? [{role: 'system', content: this.system.value}] : [];
    const body = {model: this.model(), messages: [...system, ...this.messages, {role: 'user', content: text}], stream: true,
                  stream_options: {include_usage: true}};
    for (const input of this.parameters.querySelectorAll('input')) {
      if (input.value !== '') body[input.name] = Number(input.value);
    }
    return body;
  }

  show() {
    const body = this.body(this.input.value || 'Hello');
    this.snippets.update(curlLine('v1/chat/completions', body), chatSnippet(body));
  }

  bubble(role) {
    const thought = h('p', {class: 'muted thought', hidden: true});
    const text = h('p');
    const node = h('div', {class: `bubble ${role}`}, h('span', {class: 'who'}, role === 'user' ? 'You' : this.model()), thought, text);
    this.log.append(node);
    return {node, text, thought};
  }

  async send() {
    const text = this.input.value.trim();
    if (!text || this.abort) return;
    const body = this.body(text);
    this.snippets.update(curlLine('v1/chat/completions', body), chatSnippet(body));
    const {messages} = this;
    const current = () => this.messages === messages;  // until a new chat begins
    const question = this.bubble('user');
    question.text.textContent = text;
    const answer = this.bubble('assistant');
    this.input.value = '';
    this.busy(true);
    this.abort = new AbortController();
    this.log.setAttribute('aria-busy', 'true');
    const begin = performance.now();
    let first = 0, parts = 0, content = '', why = '', ended = false;
    const pace = (tokens, now) => {
      const rate = tokens > 1 ? (tokens - 1) / ((now - first) / 1000) : null;
      const times = first ? `, first after ${ms(first - begin)}, then ${number(rate)} tokens/s` : '';
      if (current()) setText(this.pace, `${number(tokens)} tokens${times}${why}`);
    };
    try {
      for await (const {data} of events('v1/chat/completions', {body, signal: this.abort.signal})) {
        if (data === '[DONE]') break;
        const chunk = JSON.parse(data);
        if (chunk.error) throw new Error(chunk.error.message);
        const delta = chunk.choices[0]?.delta;
        const piece = delta?.content || '', thought = delta?.reasoning_content || '';
        if (piece || thought) {
          if (!first) first = performance.now();
          ++parts;
          content += piece;
          answer.text.append(piece);
          answer.thought.append(thought);
          if (thought) answer.thought.hidden = false;
          this.log.scrollTop = this.log.scrollHeight;
          this.last = performance.now();
          pace(parts, this.last);
        }
        if (chunk.choices[0]?.finish_reason === 'length') why = '; the limit of tokens was reached';
        if (chunk.usage && first) pace(chunk.usage.completion_tokens, this.last);
      }
    } catch (error) {
      ended = true;
      if (error.name === 'AbortError') {
        why = '; stopped';
        pace(parts, performance.now());
      } else if (current()) {
        this.say(error.message);
      }
    }
    if (!ended || content) messages.push({role: 'user', content: text}, {role: 'assistant', content});
    else if (current()) this.takeBack(text, question, answer);
    this.abort = null;
    this.log.setAttribute('aria-busy', 'false');
    this.busy(false);
  }

  // A message that got no answer is no part of the conversation: the next request would carry it as
  // well, and fail as this one did. Its text goes back into the field, before what was typed meanwhile.
  takeBack(text, ...bubbles) {
    for (const {node} of bubbles) node.remove();
    this.input.value = [text, this.input.value].filter(Boolean).join('\n');
    this.show();
  }

  busy(on) {
    this.sendButton.disabled = on;
    this.stopButton.disabled = !on;
  }

  stop() {
    if (this.abort) this.abort.abort();
    this.input.focus();
  }

  clear() {
    this.stop();
    this.messages = [];  // another array, by which send() knows that its conversation is over
    this.log.replaceChildren();
    setText(this.pace, '');
    this.show();
  }
}
