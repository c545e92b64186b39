// The playground's part for models that take tensors: what a model wants and gives, and a request
// by the Open Inference Protocol (KServe v2) with values that are typed here.
import {h, setText, number} from './dom.js';
import {getJson, postText} from './api.js';
import {curlLine, requestsSnippet, repeated} from './snippets.js';
import {tensorTable, tensorValues, timing} from './results.js';

const WRITTEN_MAX = 256;       // elements of an input that are written out
const ELEMENTS_MAX = 1 << 18;  // of an input: more is for a client with binary data
const BINARY_ONLY = ['FP16', 'BF16'];

const countOf = (shape) => shape.reduce((product, size) => product * size, 1);

// One of the first dimension, two of others that may be anything.
const exampleShape = (shape) => shape.map((size, i) => (size >= 0 ? size : i === 0 ? 1 : 2));

function exampleValue(type, i) {
  if (type === 'BOOL') return i % 2 === 0;
  if (type === 'BYTES') return `text ${i + 1}`;
  return type.startsWith('FP') ? (i % 10) / 10 : i % 10;
}

// The strings and numbers of JSON. A number is found whole, with its fraction and exponent, so that the
// digits of a fraction are not taken for a number of their own.
const STRING_OR_NUMBER = /"(?:[^"\\]|\\.)*"|-?(?:NaN|Infinity|\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)/g;
const INEXACT = /^-?(?:NaN|Infinity|\d{16,})$/;

// Numbers that JavaScript does not read as they were written, as texts: whole ones of 16 digits and
// more, NaN and infinities, which JSON does not have.
export function parseTensors(text) {
  return JSON.parse(text.replace(STRING_OR_NUMBER, (found) => (INEXACT.test(found) ? `"${found}"` : found)));
}

function parseShape(text, wanted) {
  const sizes = text.split(/[\s,x×]+/).filter(Boolean).map(Number);
  if (sizes.some((size) => !Number.isInteger(size) || size < 0)) throw new Error('a shape is whole numbers, such as 1, 16');
  if (sizes.length !== wanted.length) throw new Error(`the shape has ${wanted.length} dimensions`);
  if (countOf(sizes) > ELEMENTS_MAX) {
    throw new Error(`${number(countOf(sizes))} elements are too many for this page (${number(ELEMENTS_MAX)}); a client sends them as binary data`);
  }
  return sizes;
}

// An input: its shape, and its values or the one value of them all.
class Input {
  constructor(spec, place) {
    this.spec = spec;
    this.shape = h('input', {id: `tensor-${place}-shape`, autocomplete: 'off', spellcheck: 'false'});
    this.shape.value = exampleShape(spec.shape).join(', ');
    this.values = h('textarea', {id: `tensor-${place}-values`, rows: '2', spellcheck: 'false'});
    this.label = h('label', {for: this.values.id});
    this.error = h('p', {class: 'error small', role: 'status', hidden: true});
    this.node = h('fieldset', {class: 'tensor'},
      h('legend', {}, h('code', {}, spec.name)),
      h('div', {}, h('label', {for: this.shape.id}, 'Shape'), this.shape),
      h('div', {}, this.label, this.values), this.error);
    this.shape.addEventListener('input', () => this.example());
    this.example();
  }

  // Writes values that fit the shape.
  example() {
    let shape;
    try {
      shape = parseShape(this.shape.value, this.spec.shape);
    } catch {
      return;  // read() says so
    }
    const count = countOf(shape);
    if (count === this.count) return;  // what was typed still fits
    this.count = count;
    const {datatype} = this.spec;
    this.one = count > WRITTEN_MAX;
    setText(this.label, this.one ? `Value of all ${number(count)} elements` : 'Values');
    this.values.rows = this.one ? 1 : 2;
    this.values.value = this.one ? JSON.stringify(exampleValue(datatype, 0))
      : JSON.stringify(Array.from({length: count}, (_, i) => exampleValue(datatype, i))).replaceAll(',', ', ');
  }

  // As the request has it.
  read() {
    const {name, datatype} = this.spec;
    if (BINARY_ONLY.includes(datatype)) throw new Error(`${datatype} goes as binary data alone, which this page does not send; tritonclient does`);
    const shape = parseShape(this.shape.value, this.spec.shape);
    let data;
    try {
      data = JSON.parse(this.values.value);
    } catch (error) {
      throw new Error(`values are JSON, such as [1, 2]: ${error.message}`);
    }
    if (!this.one && !Array.isArray(data)) throw new Error('values are an array, such as [1, 2]');
    if (datatype.endsWith('INT64') && [data].flat(Infinity).some((x) => typeof x === 'number' && !Number.isSafeInteger(x))) {
      throw new Error('a page has no whole numbers above 9,007,199,254,740,991; other clients have');
    }
    return {name, datatype, shape, data: this.one ? repeated(data, countOf(shape)) : data};
  }

  // Null, and a sentence below the field, where it cannot be sent.
  check() {
    try {
      const input = this.read();
      this.error.hidden = true;
      return input;
    } catch (error) {
      this.error.hidden = false;
      setText(this.error, error.message);
      return null;
    }
  }
}

export const shapeText = (shape) => `[${shape.map((size) => (size < 0 ? 'any' : size)).join(', ')}]`;

const outputNode = (output) => h('div', {class: 'output'},
  h('h3', {}, h('code', {}, output.name), ' ', h('span', {class: 'muted'}, `${output.datatype} ${shapeText(output.shape)}`)),
  tensorValues(output.name, output.shape, output.data));

export class Tensors {
  // `model`: () => the chosen model of /v1/models.
  constructor(snippets, model) {
    Object.assign(this, {snippets, model, inputs: [], shown: null});
    this.about = h('p', {class: 'muted'});
    this.tables = h('div', {class: 'tables'});
    this.fields = h('div', {class: 'inputs'});
    this.button = h('button', {class: 'main', type: 'submit'}, 'Run');
    this.took = h('span', {class: 'muted small', role: 'status'});
    this.error = h('p', {class: 'error', role: 'status', hidden: true});
    this.result = h('div', {class: 'result', 'aria-live': 'polite'});
    this.load = h('button', {class: 'quiet', type: 'button', hidden: true, onclick: () => this.describe()}, 'Load and show');
    this.form = h('form', {hidden: true}, this.fields, h('div', {class: 'row'}, this.button, this.took), this.result);
    this.form.addEventListener('submit', (event) => {
      event.preventDefault();
      this.run();
    });
    this.form.addEventListener('input', () => this.snippet());
    this.node = h('div', {class: 'tensors'}, this.about, this.load, this.error, this.tables, this.form);
  }

  path(rest = '') {
    return `v2/models/${this.model().id.split('/').map(encodeURIComponent).join('/')}${rest}`;
  }

  show() {
    const model = this.model();
    if (this.shown === model.id) return this.snippet();
    this.shown = null;
    this.inputs = [];
    this.fail('');
    this.tables.replaceChildren();
    this.form.hidden = true;
    const loaded = model.lifecycle.state === 'ready';
    this.load.hidden = loaded;
    setText(this.about, loaded ? '' : `${model.id} is not loaded. Its inputs and outputs are known once it is.`);
    this.snippets.update(curlLine(this.path()), requestsSnippet(this.path()));
    if (loaded) this.describe();
  }

  fail(text) {
    this.error.hidden = !text;
    setText(this.error, text);
  }

  // Asks for the model's metadata, which loads it.
  async describe() {
    const {id} = this.model();
    this.load.disabled = true;
    try {
      const told = await getJson(this.path());
      if (this.model()?.id !== id) return;  // another one was chosen meanwhile
      this.shown = id;
      this.load.hidden = true;
      setText(this.about, `Platform ${told.platform}, version ${told.versions.join(', ')}`);
      this.tables.replaceChildren(tensorTable('Inputs', told.inputs), tensorTable('Outputs', told.outputs));
      this.inputs = told.inputs.map((spec, i) => new Input(spec, i));
      this.fields.replaceChildren(...this.inputs.map((input) => input.node));
      this.result.replaceChildren();
      setText(this.took, '');
      this.form.hidden = false;
      this.snippet();
    } catch (error) {
      this.fail(error.message);
    } finally {
      this.load.disabled = false;
    }
  }

  // Null where an input cannot be sent.
  body() {
    const inputs = this.inputs.map((input) => input.check());
    return inputs.includes(null) ? null : {inputs};
  }

  snippet() {
    const body = this.body();
    this.button.disabled = !body;
    if (body) this.snippets.update(curlLine(this.path('/infer'), body), requestsSnippet(this.path('/infer'), body));
  }

  async run() {
    const body = this.body();
    if (!body) return;
    const {shown} = this;
    this.button.disabled = true;
    const begin = performance.now();
    try {
      const answer = parseTensors(await postText(this.path('/infer'), body));
      if (this.shown !== shown) return;
      setText(this.took, timing(undefined, begin));
      this.result.replaceChildren(...answer.outputs.map(outputNode));
    } catch (error) {
      setText(this.took, '');
      this.result.replaceChildren(h('p', {class: 'error'}, error.message));
    } finally {
      this.button.disabled = false;
    }
  }
}
