// The playground's search: passages that were pasted, ranked by the cosine of their vectors with the query's,
// and the best of them by a reranker where there is one.
import {h, setText, number} from './dom.js';
import {postJson} from './api.js';
import {curlLine, requestsSnippet} from './snippets.js';
import {bars, barsOf, cosine, scoreText, timing} from './results.js';

const PASSAGES_MAX = 1000;
const BATCH = 64;  // texts of a request
const RERANKED_MAX = 20;
const SHOWN_MAX = 20;

const cosineText = (one) => one.cosine.toFixed(3).replace('-', '−');

const EXAMPLE = `A penstock is the pipe that leads water from a reservoir down to the turbines of a power station.

Surge tanks take up the pressure when a valve closes quickly.

Violins are tuned in perfect fifths, from G below middle C upwards.

The generator turns what the turbine gives it into electric power.

Bread rises because yeast makes gas, which the dough holds.`;

// Parts between empty lines; where there are none, lines.
export function passagesOf(text) {
  const cut = (by) => text.split(by).map((one) => one.trim()).filter(Boolean);
  const parts = cut(/\r?\n[ \t]*\r?\n/);
  return parts.length > 1 ? parts : cut('\n');
}

export class Search {
  constructor(snippets, model, rerankers) {
    Object.assign(this, {snippets, model, rerankers});
    this.known = new Map();  // passage -> its vector, of the model `knownModel`
    this.knownModel = '';
    this.query = h('input', {id: 'search-query', autocomplete: 'off'});
    this.query.value = 'What brings water to a turbine?';
    this.passages = h('textarea', {id: 'search-passages', rows: '9'});
    this.passages.value = EXAMPLE;
    this.reranker = h('select', {id: 'search-reranker'});
    this.result = h('div', {class: 'result', 'aria-live': 'polite'});
    this.took = h('span', {class: 'muted small', role: 'status'});
    this.button = h('button', {class: 'main', type: 'submit'}, 'Search');
    this.node = h('form', {}, h('label', {for: 'search-query'}, 'Query'), this.query,
      h('label', {for: 'search-passages'}, 'Passages, with empty lines between them, or one a line'), this.passages,
      h('label', {for: 'search-reranker'}, 'Reranker'), this.reranker,
      h('div', {class: 'row'}, this.button, this.took), this.result);
    this.node.addEventListener('submit', (event) => {
      event.preventDefault();
      this.run();
    });
    this.node.addEventListener('input', () => this.show());
  }

  show() {
    const before = this.reranker.value, none = 'none: by cosine alone';
    const names = this.rerankers().map((one) => one.id);
    if (names.join('\n') !== this.names) {
      this.names = names.join('\n');
      this.reranker.replaceChildren(...names.map((name) => h('option', {value: name}, name)), h('option', {value: ''}, none));
      if (names.includes(before)) this.reranker.value = before;
    }
    const body = {model: this.model(), input: [this.query.value], input_type: 'query'};
    this.snippets.update(curlLine('v1/embeddings', body), requestsSnippet('v1/embeddings', body));
  }

  // The vectors of the texts, asked for in batches.
  async embed(model, input, type, told) {
    const vectors = [];
    for (let i = 0; i < input.length; i += BATCH) {
      if (told) setText(this.took, `${number(i)} of ${number(input.length)} passages`);
      const {data} = await postJson('v1/embeddings', {model, input: input.slice(i, i + BATCH), input_type: type});
      vectors.push(...data.map((one) => one.embedding));
    }
    return vectors;
  }

  // Passages keep their vectors for the next query.
  async vectorsOf(model, passages) {
    if (this.knownModel !== model) this.known.clear();
    this.knownModel = model;
    const wanted = new Set(passages);
    for (const old of this.known.keys()) if (!wanted.has(old)) this.known.delete(old);
    const fresh = [...wanted].filter((one) => !this.known.has(one));
    const vectors = await this.embed(model, fresh, 'document', true);
    fresh.forEach((one, i) => this.known.set(one, vectors[i]));
    return passages.map((one) => this.known.get(one));
  }

  // The best passages, best first: [{text, cosine, place, score}]; `place` of the cosine, `score` of the reranker.
  async search(query, passages) {
    const model = this.model(), reranker = this.reranker.value;
    const vectors = await this.vectorsOf(model, passages);
    const [asked] = await this.embed(model, [query], 'query');
    const found = passages.map((text, i) => ({text, cosine: cosine(asked, vectors[i])}));
    found.sort((a, b) => b.cosine - a.cosine);
    const best = found.slice(0, reranker ? RERANKED_MAX : SHOWN_MAX).map((one, i) => ({...one, place: i + 1}));
    if (!reranker) return best;
    setText(this.took, `reranking ${number(best.length)} passages`);
    const {results} = await postJson('v1/rerank', {model: reranker, query, documents: best.map((one) => one.text)});
    return results.map(({index, relevance_score: score}) => ({...best[index], score}));
  }

  draw(found, count, dropped) {
    const reranked = found[0].score !== undefined;
    const main = (one) => (reranked ? one.score : one.cosine);
    const bar = barsOf(found.map(main));
    const notes = [reranked ? 'By the reranker’s score; behind it the cosine and its place' : 'By cosine similarity',
                   found.length < count ? `the best ${number(found.length)} of ${number(count)} passages` : '',
                   dropped ? `${number(dropped)} more were left out` : ''].filter(Boolean);
    this.result.replaceChildren(
      bars(found.map((one) => ({
        label: one.text, bar: bar(main(one)),
        text: reranked ? `${scoreText(one.score)} · ${cosineText(one)} (${one.place}.)` : cosineText(one),
      })), 'Passages, best first'),
      h('p', {class: 'muted small'}, notes.join('; ')));
  }

  async run() {
    const all = passagesOf(this.passages.value), query = this.query.value.trim();
    const passages = all.slice(0, PASSAGES_MAX);
    this.show();
    if (!query || passages.length === 0) {
      this.result.replaceChildren(h('p', {class: 'error'}, query ? 'There are no passages.' : 'The query is empty.'));
      return;
    }
    this.button.disabled = true;
    const begin = performance.now();
    try {
      const found = await this.search(query, passages);
      setText(this.took, timing(undefined, begin));
      this.draw(found, passages.length, all.length - passages.length);
    } catch (error) {
      setText(this.took, '');
      this.result.replaceChildren(h('p', {class: 'error'}, error.message));
    }
    this.button.disabled = false;
  }
}
