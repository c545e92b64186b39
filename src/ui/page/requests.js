// The tab "Requests": those that were slow, with their stages, and errors by kind.
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

const KINDS = {
  invalid_argument: 'malformed', unauthenticated: 'no or wrong key', not_found: 'no such model or route',
  payload_too_large: 'over a limit of size', unprocessable: 'cannot be done as asked', resource_exhausted: 'a queue was full',
  unavailable: 'not ready', deadline_exceeded: 'out of time', cancelled: 'the client left', unsupported: 'not supported',
  internal: 'a fault of the server',
};

export function makeRequests(root) {
  const summary = h('p', {class: 'muted', role: 'status'});
  const slow = h('div', {class: 'slow', id: 'slow'});
  const errors = h('div');
  const failures = h('div');
  root.append(
    h('div', {class: 'head page'}, h('h2', {}, 'Requests'), summary),
    h('div', {class: 'cards two'},
      h('div', {class: 'card'}, h('h3', {}, 'Errors by kind'), errors),
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
    errors.replaceChildren(table('Errors by kind', ['Kind', 'Meaning', 'Count'],
      value.errors.map(({kind, count}) => [kind, KINDS[kind] || '', number(count)]), 'None since the start.'));
    failures.replaceChildren(table('Failed answers by route', ['Route', 'Status', 'Count'],
      value.failures.map(({method, route, status, count}) =>
        [route ? `${method} ${route}` : 'no route', status ? String(status) : 'other', number(count)]), 'None since the start.'));
  }

  const read = async () => update(await getJson('v1/requests'));
  return {show: poller(root, POLL_MS, read, (message) => setText(summary, message))};
}
