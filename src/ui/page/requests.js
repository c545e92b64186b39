// The tab "Requests": those that were slow, with their stages, and answers that failed.
import {h, setText, number, ms, bytes, clock} from './dom.js';
import {getJson, poller} from './api.js';
import {stageBar, STAGES} from './live.js';

const POLL_MS = 3000;

const partsOf = (slow) => Object.entries(slow.stages).map(([stage, time]) => ({stage, share: time / slow.ms}));

function slowItem(slow) {
  const facts = slow.stages
    ? [slow.model && `model ${slow.model}`, `${number(slow.rows)} rows`, `${number(slow.tokens)} tokens`] : [];
  const texts = [...facts, `${bytes(slow.bytes_in)} in`, `${bytes(slow.bytes_out)} out`].filter(Boolean).join(' · ');
  const summary = h('summary', {},
    h('span', {class: 'time'}, clock(slow.unix_ms)),
    h('span', {class: 'route'}, slow.route ? `${slow.method} ${slow.route}` : 'no route'),
    slow.stages ? stageBar(partsOf(slow), true) : h('span'),
    h('span', {class: slow.status >= 400 ? 'status bad' : 'status'}, String(slow.status)),
    h('b', {class: 'num'}, ms(slow.ms)));
  const details = h('details', {'data-id': slow.request_id}, summary);
  if (slow.stages) {
    details.append(stageBar(partsOf(slow)));
  }
  details.append(h('p', {class: 'muted small'}, texts));
  if (slow.stages) {
    details.append(h('ul', {class: 'legend'}, STAGES.filter(([stage]) => slow.stages[stage] > 0).map(([stage, color]) =>
      h('li', {class: `k-${color}`}, h('i', {'aria-hidden': 'true'}), stage, ' ', h('b', {}, ms(slow.stages[stage]))))));
  }
  details.append(h('p', {class: 'muted small'}, 'Request id ', h('code', {}, slow.request_id)));
  return details;
}

function table(caption, heads, rows, none) {
  if (rows.length === 0) return h('p', {class: 'muted'}, none);
  return h('table', {}, h('caption', {class: 'hidden'}, caption),
    h('thead', {}, h('tr', {}, heads.map((text, i) => h('th', {scope: 'col', class: i === heads.length - 1 ? 'num' : ''}, text)))),
    h('tbody', {}, rows.map((row) => h('tr', {}, row.map((text, i) =>
      h(i ? 'td' : 'th', {scope: i ? undefined : 'row', class: i === row.length - 1 ? 'num' : ''}, text))))));
}

const MEANINGS = {
  400: 'malformed', 401: 'no or wrong key', 403: 'not allowed', 404: 'no such model or route', 405: 'no such method of the route',
  408: 'the request came too slowly', 413: 'over a limit of size', 415: 'a type that is not taken', 422: 'cannot be done as asked',
  424: 'the model has no part for it', 429: 'a queue or limit was full', 431: 'too long a header', 499: 'the client left',
  500: 'a fault of the server', 501: 'not supported', 503: 'not ready, or out of time',
};
const statusText = (status) => (status ? String(status) : 'other');

// [[status, meaning, count]] of all routes, in the order of the statuses.
function byStatus(failures) {
  const counts = new Map();
  for (const {status, count} of failures) counts.set(status, (counts.get(status) || 0) + count);
  return [...counts].sort(([a], [b]) => (a || 1000) - (b || 1000))
    .map(([status, count]) => [statusText(status), MEANINGS[status] || 'a status that is seldom', number(count)]);
}

export function makeRequests(root) {
  const summary = h('p', {class: 'muted', role: 'status'});
  const slow = h('div', {class: 'slow', id: 'slow'});
  const errors = h('div');
  const failures = h('div');
  const all = h('span', {class: 'when'});
  root.append(
    h('div', {class: 'head page'}, h('h2', {}, 'Requests'), summary),
    h('div', {class: 'cards two'},
      h('div', {class: 'card'}, h('div', {class: 'head'}, h('h3', {}, 'Failed answers by status'), all), errors),
      h('div', {class: 'card'}, h('h3', {}, 'Failed answers by route'), failures),
      h('div', {class: 'card wide'}, h('h3', {}, 'Slow requests, newest first'), slow)));

  function update(value) {
    setText(summary, value.slow_request_ms
      ? `${number(value.slow_count)} interactive requests took longer than ${ms(value.slow_request_ms)}; the last ${value.slow.length} are shown`
      : 'the server runs with --slow-request-ms 0, so nothing counts as slow');
    const open = new Set([...slow.querySelectorAll('details[open]')].map((one) => one.dataset.id));
    if (!slow.contains(document.activeElement)) {  // a list that is read with the keyboard stays
      slow.replaceChildren(...value.slow.map(slowItem));
      for (const one of slow.children) one.open = open.has(one.dataset.id);
      if (value.slow.length === 0) slow.append(h('p', {class: 'muted'}, 'None so far.'));
    }
    // Both tables and their sum are of the same answers.
    const sum = value.failures.reduce((count, one) => count + one.count, 0);
    setText(all, sum ? `${number(sum)} since the start` : '');
    errors.replaceChildren(table('Failed answers by status', ['Status', 'Meaning', 'Count'], byStatus(value.failures), 'None since the start.'));
    failures.replaceChildren(table('Failed answers by route', ['Route', 'Status', 'Count'],
      value.failures.map(({method, route, status, count}) =>
        [route ? `${method} ${route}` : 'no route', statusText(status), number(count)]), 'None since the start.'));
  }

  const read = async () => update(await getJson('v1/requests'));
  return {show: poller(root, POLL_MS, read, (message) => setText(summary, message))};
}
