// Pictures of answers in the playground.
import {h, number} from './dom.js';

export function cosine(a, b) {
  let dot = 0, aa = 0, bb = 0;
  for (let i = 0; i < a.length; ++i) {
    dot += a[i] * b[i];
    aa += a[i] * a[i];
    bb += b[i] * b[i];
  }
  return aa > 0 && bb > 0 ? dot / Math.sqrt(aa * bb) : 0;
}

// Similarities of all pairs as a table whose cells are the darker the more alike: from the least
// similarity there is, which differs from model to model, to 1.
export function heatMap(texts, vectors) {
  const values = vectors.map((a) => vectors.map((b) => cosine(a, b)));
  const least = Math.min(...values.flat(), 0.999);
  const cell = (value, i, j) => {
    const share = Math.max(0, Math.min(1, (value - least) / (1 - least)));
    return h('td', {title: `${texts[i]}\n${texts[j]}`, vars: {'--share': share.toFixed(3)}}, value.toFixed(2).replace(/^-(0\.00)$/, '$1').replace('-', '−'));
  };
  return h('div', {class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Cosine similarity of all pairs'},
    h('table', {class: 'heat'},
      h('caption', {class: 'hidden'}, 'Cosine similarity of all pairs of lines'),
      h('thead', {}, h('tr', {}, h('td'), texts.map((text, i) => h('th', {scope: 'col', title: text}, String(i + 1))))),
      h('tbody', {}, values.map((row, i) => h('tr', {},
        h('th', {scope: 'row', title: texts[i]}, h('span', {class: 'muted'}, `${i + 1} `), texts[i]),
        row.map((value, j) => cell(value, i, j)))))));
}

// Gives the begin and the length of a score's bar, in shares of the width. Scores that all lie from 0 to 1
// are shown as they are. Others have no bounds: their bars go from zero, which is in the middle where one is
// below it, and the greatest score fills its side. So a better score always reaches further to the right.
export function barsOf(scores) {
  if (scores.every((score) => score >= 0 && score <= 1)) return (score) => ({begin: 0, length: score});
  const most = scores.reduce((a, b) => Math.max(a, Math.abs(b)), 0);
  const zero = scores.some((score) => score < 0) ? 0.5 : 0;
  return (score) => {
    const end = zero + (score / most) * (1 - zero);
    return {begin: Math.min(zero, end), length: Math.abs(end - zero), zero};
  };
}

// The digits of a score.
export const scoreText = (score) => score.toPrecision(3).replace('-', '−');

const share = (x) => `${(x * 100).toFixed(1)}%`;

// [{label, bar, text}], `bar` of barsOf().
export function bars(items, label) {
  return h('ol', {class: 'bars', 'aria-label': label}, items.map(({label: name, bar, text}) => h('li', {},
    h('div', {class: 'head'}, h('span', {}, name), h('b', {class: 'num'}, text)),
    h('div', {class: bar.zero ? 'bar signed' : 'bar', 'aria-hidden': 'true'},
      h('div', {class: bar.zero && bar.begin < bar.zero ? 'below' : '', vars: {'margin-left': share(bar.begin), width: share(bar.length)}})))));
}

// Input and output tensors of a model, as the KServe protocol (v2) describes them.
export function tensorTable(title, tensors) {
  return h('div', {class: 'scroll', tabindex: '0', role: 'region', 'aria-label': title},
    h('table', {},
      h('caption', {}, title),
      h('thead', {}, h('tr', {}, ['Name', 'Type', 'Shape'].map((text) => h('th', {scope: 'col'}, text)))),
      h('tbody', {}, tensors.map((tensor) => h('tr', {}, h('th', {scope: 'row'}, h('code', {}, tensor.name)),
        h('td', {}, tensor.datatype), h('td', {}, h('code', {}, `[${tensor.shape.map((n) => (n < 0 ? 'any' : n)).join(', ')}]`)))))));
}

const VALUES_MAX = 128;  // shown of an output
const ROW_MAX = 8;

// Six digits of what is no whole number.
function valueText(value) {
  if (typeof value !== 'number' || Number.isInteger(value)) return String(value);
  const size = Math.abs(value);
  return size < 1e-3 || size >= 1e7 ? value.toExponential(4) : String(Number(value.toPrecision(6)));
}

// The elements of an output, a line for each row of its last dimension.
export function tensorValues(name, shape, data) {
  const all = data.flat(Infinity);
  const row = Math.max(1, Math.min(shape[shape.length - 1] ?? 1, ROW_MAX));
  const texts = all.slice(0, VALUES_MAX).map(valueText);
  const width = Math.min(24, Math.max(...texts.map((text) => text.length), 0));
  const lines = [];
  for (let i = 0; i < texts.length; i += row) {
    lines.push(texts.slice(i, i + row).map((text) => text.padStart(width)).join('  '));
  }
  const more = all.length - texts.length;
  return [h('pre', {tabindex: '0', role: 'region', 'aria-label': `Values of ${name}`}, h('code', {}, lines.join('\n') || 'no elements')),
          more > 0 ? h('p', {class: 'muted small more'}, `and ${number(more)} more`) : ''];
}

export const timing = (tokens, startMs) =>
  `${number(performance.now() - startMs)} ms${tokens !== undefined ? `, ${number(tokens)} tokens` : ''}`;
