// The card "Devices" of the tab "Live", where a server has GPUs beside its processors.
import {h, setText, number, bytes, percent, NONE} from './dom.js';

// A GPU counts its own work; that of the host is in the figures of the process.
const isGpu = (device) => device.busy_s !== undefined;
export const hasGpu = (stats) => Boolean(stats?.devices.some(isGpu));

// What the models of a device may take, of its budget.
export function memoryOf({memory_used_bytes: used, memory_budget_bytes: budget}) {
  return budget ? `${bytes(used)} of ${bytes(budget)}` : bytes(used);
}

// How much a counter of a device grew in a second, between two answers of /v1/stats; NaN: not known.
function perSecond(name, device, stats, before) {
  const earlier = before?.devices.find((one) => one.device === device.device);
  return earlier ? (device[name] - earlier[name]) / (stats.uptime_s - before.uptime_s) : NaN;
}

// A batch counts when it is done, with what it took of the second before: this may be more than 1.
const busy = (...which) => percent(Math.min(1, perSecond('busy_s', ...which)));

function copied(name, ...which) {
  const rate = perSecond(name, ...which);
  return Number.isNaN(rate) ? NONE : `${bytes(rate)}/s`;
}

// What a GPU does: [name, its text of (device, stats, before)]
const FACTS = [
  ['Busy', busy],
  ['Copied to it', (...which) => copied('copied_in_bytes', ...which)],
  ['Copied from it', (...which) => copied('copied_out_bytes', ...which)],
  ['Graphs', ({graphs, graph_captures: captures}) => `${number(graphs)} kept, ${number(captures)} captured`],
];

// One device. Its elements stay, so that a text can be marked and a reader keeps its place.
class Row {
  constructor(name) {
    this.memory = h('span', {class: 'when'});
    this.lost = h('span', {class: 'state', 'data-state': 'failed', hidden: true}, h('i', {'aria-hidden': 'true'}), 'lost');
    this.why = h('p', {class: 'error', hidden: true});
    this.fill = h('div');
    this.values = FACTS.map(() => h('dd'));
    this.facts = h('dl', {class: 'facts'}, FACTS.map(([fact], i) => h('div', {}, h('dt', {}, fact), this.values[i])));
    this.node = h('div', {'data-device': name}, h('div', {class: 'head'}, h('h4', {}, name, ' ', this.lost), this.memory),
      h('div', {class: 'bar', 'aria-hidden': 'true'}, this.fill), this.why, this.facts);
  }

  update(device, stats, before) {
    setText(this.memory, `memory of models: ${memoryOf(device)}`);
    const share = device.memory_used_bytes / device.memory_budget_bytes;  // not finite where there is no budget
    this.fill.style.setProperty('width', Number.isFinite(share) ? `${Math.min(100, 100 * share)}%` : '0');
    this.lost.hidden = this.why.hidden = !device.lost;
    setText(this.why, device.lost || '');
    this.facts.hidden = !isGpu(device);
    FACTS.forEach(([, text], i) => setText(this.values[i], text(device, stats, before)));
  }
}

export function deviceCard() {
  const rows = new Map();
  const list = h('div', {class: 'list'});
  const node = h('div', {class: 'card wide devices', id: 'devices', hidden: true},
    h('div', {class: 'head'}, h('h3', {}, 'Devices'), h('span', {class: 'when'}, 'busy and copied in the last second')), list);
  // `before` is the answer of /v1/stats before `stats`, of the same server; null: there was none.
  return {node, update(stats, before) {
    node.hidden = !hasGpu(stats);
    if (node.hidden) return;
    for (const device of stats.devices) {
      const name = device.device;
      if (!rows.has(name)) {
        rows.set(name, new Row(name));
        list.append(rows.get(name).node);
      }
      rows.get(name).update(device, stats, before);
    }
    // The server may have been started anew, with other devices.
    for (const [name, row] of rows) row.node.hidden = !stats.devices.some((device) => device.device === name);
  }};
}
