// The tab "Playground": tries what the models do, and shows the code that does the same.
import {h, setText, number, tabList} from './dom.js';
import {getJson, postJson} from './api.js';
import {Snippets, curlLine, requestsSnippet, embedSnippet} from './snippets.js';
import {heatMap, bars, barsOf, scoreText, timing} from './results.js';
import {Chat} from './chat.js';
import {Search} from './search.js';
import {Tensors} from './tensors.js';

const LINES_MAX = 40;  // of the heat map
const lines = (text) => text.split('\n').map((line) => line.trim()).filter(Boolean);

const EXAMPLE_LINES = `Water drives the turbine through a steel pipe.
The penstock feeds the turbine at full pressure.
She plays the violin in a small orchestra.
Musicians tune their instruments before a concert.
The recipe needs flour, butter and two eggs.
Bake the cake for half an hour.`;

// What each part asks for and shows. `tasks`: of models that can do it.
const PARTS = {
  embed: {
    title: 'Embed', tasks: ['embedding'],
    fields: [['lines', 'Lines to compare', EXAMPLE_LINES, 8]],
    path: 'v1/embeddings',
    body: (model, values) => ({model, input: lines(values.lines).slice(0, LINES_MAX)}),
    snippet: embedSnippet,
    show(answer, body, values) {
      const vectors = answer.data.map((one) => one.embedding);
      const written = lines(values.lines).length;
      const dropped = written > LINES_MAX ? `. The first ${LINES_MAX} of ${number(written)} lines are compared` : '';
      return [heatMap(body.input, vectors),
              h('p', {class: 'muted small'}, `Cosine similarity; ${number(vectors[0].length)} dimensions${dropped}`)];
    },
    tokens: (answer) => answer.usage.prompt_tokens,
  },
  rerank: {
    title: 'Rerank', tasks: ['reranking'],
    fields: [['query', 'Query', 'What brings water to a turbine?', 2], ['documents', 'Documents, one a line', EXAMPLE_LINES, 7]],
    path: 'v1/rerank',
    body: (model, values) => ({model, query: values.query, documents: lines(values.documents)}),
    show(answer, body) {
      const bar = barsOf(answer.results.map((one) => one.relevance_score));
      return [bars(answer.results.map(({index, relevance_score: score}) => ({
        label: body.documents[index], bar: bar(score), text: scoreText(score),
      })), 'Documents, best first')];
    },
  },
  classify: {
    title: 'Classify', tasks: ['classification', 'reranking'],
    fields: [['lines', 'Texts, one a line', 'What a delightful morning!\nThe train was late again.', 4]],
    path: 'v1/classify',
    body: (model, values) => ({model, input: lines(values.lines)}),
    show(answer, body) {
      const bar = barsOf(answer.data.flatMap((one) => one.predictions.map(({score}) => score)));
      return answer.data.map((one, i) => h('div', {}, h('h3', {}, body.input[i]),
        bars(one.predictions.map(({label, score}) => ({label, bar: bar(score), text: scoreText(score)})),
             `Labels of text ${i + 1}`)));
    },
  },
  search: {title: 'Search', tasks: ['embedding']},
  chat: {title: 'Chat', tasks: ['generation']},
  tensors: {title: 'Tensors', tasks: ['tensors']},
};

function modelsFor(part, models) {
  return [...part.tasks, ''].flatMap((task) => models.filter((model) => model.task === task));
}

// A form, the answer and the code of a part that asks once.
class Trial {
  constructor(name, part, snippets, model) {
    Object.assign(this, {part, snippets, model});
    this.inputs = part.fields.map(([field, , text, rows]) => {
      const area = h('textarea', {id: `${name}-${field}`, name: field, rows: String(rows)});
      area.value = text;
      return area;
    });
    this.result = h('div', {class: 'result', 'aria-live': 'polite'});
    this.took = h('span', {class: 'muted small', role: 'status'});
    this.button = h('button', {class: 'main', type: 'submit'}, 'Run');
    this.node = h('form', {}, part.fields.map(([field, label], i) => [h('label', {for: `${name}-${field}`}, label), this.inputs[i]]),
      h('div', {class: 'row'}, this.button, this.took), this.result);
    this.node.addEventListener('submit', (event) => {
      event.preventDefault();
      this.run();
    });
    this.node.addEventListener('input', () => this.show());
  }

  request() {
    const values = Object.fromEntries(this.inputs.map((input) => [input.name, input.value]));
    const model = this.model();
    return {path: this.part.path, body: this.part.body(model, values), values};
  }

  show() {
    const {path, body} = this.request();
    this.snippets.update(curlLine(path, body), this.part.snippet ? this.part.snippet(body) : requestsSnippet(path, body));
  }

  async run() {
    const {path, body, values} = this.request();
    this.show();
    this.button.disabled = true;
    const begin = performance.now();
    try {
      const answer = await postJson(path, body);
      setText(this.took, timing(this.part.tokens ? this.part.tokens(answer) : answer.usage?.total_tokens, begin));
      this.result.replaceChildren(...this.part.show(answer, body, values));
    } catch (error) {
      setText(this.took, '');
      this.result.replaceChildren(h('p', {class: 'error'}, error.message));
    }
    this.button.disabled = false;
  }
}

// go(view): the user has chosen another part. settle(view): what is shown without having been chosen.
export function makePlayground(root, say, {go, settle}) {
  const select = h('select', {id: 'playground-model'});
  const none = h('p', {class: 'muted', hidden: true});
  const snippets = new Snippets();
  const place = h('div', {class: 'card try', role: 'tabpanel', 'aria-label': 'Try'});
  const trials = {};
  let models = [];
  let shown = 'embed';
  const chosen = {};  // models that the user chose, by part

  const model = () => select.value;
  for (const [name, part] of Object.entries(PARTS)) {
    if (name === 'chat') trials[name] = new Chat(snippets, model, say);
    else if (name === 'search') trials[name] = new Search(snippets, model, () => models.filter((one) => one.task === 'reranking'));
    else if (name === 'tensors') trials[name] = new Tensors(snippets, () => models.find((one) => one.id === model()));
    else trials[name] = new Trial(name, part, snippets, model);
  }
  const pick = h('div', {class: 'field'}, h('label', {for: 'playground-model'}, 'Model'), select);
  const tabs = tabList('What to try', Object.entries(PARTS).map(([name, part]) => [name, part.title]), (name) => go(`playground/${name}`));

  // The model that was chosen for this part; else the one of the part before, where it fits as well as any.
  function pickModel(fitting, before) {
    const kept = fitting.find((one) => one.id === chosen[shown]) ||
      fitting.find((one) => one.id === before && one.task === fitting[0].task) || fitting[0];
    select.replaceChildren(...fitting.map((one) => h('option', {value: one.id}, one.id)));
    if (kept) select.value = kept.id;
  }

  function draw() {
    const fitting = modelsFor(PARTS[shown], models);
    pickModel(fitting, select.value);
    const any = fitting.length > 0;
    none.hidden = any;
    setText(none, `No model here ${shown === 'tensors' ? 'takes tensors' : `does ${PARTS[shown].tasks.join(' or ')}`}.`);
    pick.hidden = trials[shown].node.hidden = snippets.node.hidden = !any;
    place.replaceChildren(pick, none, trials[shown].node);
    if (any) trials[shown].show();
  }
  select.addEventListener('change', () => {
    chosen[shown] = select.value;
    trials[shown].show();
  });
  root.append(h('div', {class: 'head page'}, h('h2', {}, 'Playground'), tabs),
              h('div', {class: 'playground'}, place, h('div', {class: 'card'}, snippets.node)));

  function update() {
    tabs.mark(shown);
    settle(`playground/${shown}`);
    draw();
  }

  // `part`: of PARTS, else the one that was shown last or the first that a model here can do. `anew`: the
  // models may be others than they were.
  async function show(part, anew = true) {
    if (PARTS[part]) shown = part;
    if (models.length) update();
    if (!anew && models.length) return;
    try {
      models = (await getJson('v1/models')).data;
    } catch (error) {
      say(error.message);
    }
    const fits = (name) => modelsFor(PARTS[name], models).length > 0;
    if (!PARTS[part] && !fits(shown)) shown = Object.keys(PARTS).find(fits) || shown;
    update();
  }
  return {show};
}
