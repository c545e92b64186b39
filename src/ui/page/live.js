// The tab "Live": the events of GET /v1/live as numbers and pictures.
import {$, h, setText, number, ms, bytes, percent, seconds, clock, NONE} from './dom.js';
import {events, isRefused, postJson} from './api.js';
import {Chart} from './chart.js';
import {deviceCard, hasGpu} from './devices.js';

// The stages of a request in their order, with the colours that all tabs use for them: transport
// is grey, text work amber, waiting rose, the model's work blue and green.
export const STAGES = [
  ['receive', 'grey1'], ['parse', 'grey2'], ['load', 'brown'], ['tokenize', 'amber'], ['queue', 'rose'],
  ['form', 'violet'], ['forward', 'blue'], ['prefill', 'sky'], ['decode', 'teal'], ['complete', 'grey3'],
  ['serialise', 'grey4'], ['send', 'grey5'],
];

const POINTS_MAX = 300;
const RETRY_MS = [500, 1000, 2000, 5000];
const SILENT_POINTS = 5;  // so many points that do not come mean that the link is dead
const CLOCK_BACK_MS = 5000;
const TILE_WIDTH = 160, TILE_GAP = 14;  // least width, and what style.css leaves between two

// The state that the events carry. Other tabs read `stats`.
export const feed = {points: [], stats: null, limits: {}, paused: false, version: ''};

let fields = [];
let index = {};
let interval = 1000;  // between two points
let abort = null;
let wake = () => {};
let failures = 0;
let draw = () => {};
let before = null, latest = null;  // the last two answers of /v1/stats of this connection

const at = (name) => (point) => point.values[index[name]] ?? null;

function take(values) {
  const point = {time: values[index.unix_ms], values};
  const last = feed.points[feed.points.length - 1];
  if (last && point.time <= last.time) {
    if (last.time - point.time < CLOCK_BACK_MS) return;
    feed.points = [];  // the server's clock was set back, so the older points lie in the future
  }
  feed.points.push(point);
  if (feed.points.length > POINTS_MAX) feed.points.shift();
}

function link(state, text, why = 'The server does not answer') {
  $('link').dataset.state = state;
  setText($('link').lastElementChild, text);
  const last = feed.points[feed.points.length - 1];
  $('lost').hidden = state !== 'lost';
  setText($('lost'), `${why}; the page tries again.${last ? ` What is shown is from ${clock(last.time)}.` : ''}`);
}

function linkUp() {
  const state = feed.paused ? 'paused' : 'live';
  link(state, state);
}

function beginHistory(value) {
  fields = value.fields;
  index = Object.fromEntries(fields.map((name, i) => [name, i]));
  interval = value.interval_ms;
  feed.limits = value.limits;
  feed.version = value.version;
  feed.points = [];
  before = latest = null;
  value.points.forEach(take);
  setText($('version'), value.version);
}

function receive(event, value) {
  failures = 0;
  if (event === 'history') return beginHistory(value);
  if (event === 'point') take(value);
  if (event === 'stats') [before, latest, feed.stats] = [latest, value, value];
  linkUp();
  if (event === 'stats' && !feed.paused) draw();
}

// Reads one connection to its end. A host that is gone or stands still closes nothing, so silence is
// taken for the end as well.
async function follow() {
  const connection = new AbortController();
  abort = connection;
  let timer = 0;
  const lose = () => {
    link('lost', 'no connection');
    connection.abort();
  };
  const heard = () => {
    clearTimeout(timer);
    timer = setTimeout(lose, SILENT_POINTS * interval);
  };
  heard();
  try {
    for await (const {event, data} of events('v1/live', {signal: connection.signal, heard})) receive(event, JSON.parse(data));
  } finally {
    clearTimeout(timer);
    connection.abort();  // where an event could not be read, the connection is still open
  }
}

// A page that nobody sees holds no connection: browsers open six to a host, and more pages than that
// would wait for each other. The history fills the gap afterwards.
document.addEventListener('visibilitychange', () => document.hidden && abort?.abort());

async function whenSeen() {
  while (document.hidden) await new Promise((go) => document.addEventListener('visibilitychange', go, {once: true}));
}

// Reads the events for as long as the page is open.
export async function watch() {
  for (;;) {
    await whenSeen();
    try {
      await follow();
    } catch (error) {
      if (error.name === 'AbortError') continue;  // another key, a page that was hidden, or silence
      if (isRefused(error)) {
        link('key', 'needs a key');
        await new Promise((go) => (wake = go));
        continue;
      }
      if (error.status) link('lost', 'refused', `The server says: ${error.message}`);
      else link('lost', 'no connection');
    }
    const wait = RETRY_MS[Math.min(failures++, RETRY_MS.length - 1)];
    await Promise.race([new Promise((go) => setTimeout(go, wait)), new Promise((go) => (wake = go))]);
  }
}

// Connects again, with the key there is now.
export function reconnect() {
  if (abort) abort.abort();
  wake();
}

// What there is to be shown: a server of tensors alone has no tokens.
const models = () => feed.stats?.models || [];
const readsTexts = () => models().length === 0 || models().some((model) => !model.tensors);
const writesTexts = () => models().some((model) => model.text) || feed.points.some((point) => at('kv_blocks_bytes')(point) > 0);
const takesTensors = () => models().some((model) => model.tensors);

// [label, value(point), its unit, line below it(point), whether it is shown()]
const TILES = [
  ['Requests', (p) => number(at('requests_per_s')(p)), '/s', () => `${number(feed.stats?.requests?.count ?? null)} since reset`],
  ['Median latency', (p) => ms(at('p50_ms')(p)), '', (p) => `p99 ${ms(at('p99_ms')(p))}`],
  ['Tokens read', (p) => number(at('tokens_per_s')(p) + at('prompt_tokens_per_s')(p)), '/s',
   (p) => `${number(at('rows_per_s')(p))} texts/s`, readsTexts],
  ['Tokens written', (p) => number(at('generated_tokens_per_s')(p)), '/s',
   (p) => `${number(at('texts_running')(p))} running, ${number(at('texts_waiting')(p))} waiting`, writesTexts],
  ['Text queue', (p) => number(at('interactive_requests')(p) + at('bulk_requests')(p)), 'requests',
   (p) => `${number(at('interactive_requests')(p))} interactive, ${number(at('bulk_requests')(p))} bulk`, readsTexts],
  ['Tensor rows', (p) => number(at('tensor_rows_per_s')(p)), '/s',
   (p) => `${number(at('tensor_requests_per_s')(p))} requests/s`, takesTensors],
  ['Tensor queue', (p) => number(at('tensor_queue_rows')(p)), 'rows',
   (p) => `${bytes(at('tensor_queue_bytes')(p))} of inputs`, takesTensors],
  ['Processors busy', (p) => number(at('processors')(p)), '',
   (p) => `of ${feed.limits.processors} · ${bytes(at('resident_bytes')(p))} RAM`],
];

// The budget of all classes; 0: there is none, or models lie on GPUs too, which have their own.
function budget() {
  const {models_bytes, requests_bytes, caches_bytes} = feed.limits;
  return models_bytes && !hasGpu(feed.stats) ? models_bytes + requests_bytes + caches_bytes : 0;
}
const MEMORY = ['weights_bytes', 'activations_bytes', 'kv_bytes', 'requests_bytes', 'caches_bytes'];
const memory = (point) => MEMORY.reduce((sum, name) => sum + at(name)(point), 0);

function charts() {
  const line = (label, color, name, when) => ({label, color, value: at(name), when});
  return [
    new Chart({title: 'Time of a request by stage', stacked: true, format: ms,
               series: STAGES.map(([name, color]) => line(name, color, `stage_${name}_ms`)),
               note: () => 'mean of each second'}),
    new Chart({title: 'Latency', format: ms,
               series: [line('p50', 'teal', 'p50_ms'), line('p90', 'blue', 'p90_ms'), line('p99', 'rose', 'p99_ms')]}),
    new Chart({title: 'Throughput per second', format: number,
               series: [line('requests', 'blue', 'requests_per_s'), line('rows', 'teal', 'rows_per_s', readsTexts),
                        line('refused', 'amber', 'client_errors_per_s'), line('failed', 'rose', 'server_errors_per_s')]}),
    new Chart({title: 'Tokens per second', format: number, when: readsTexts,
               series: [line('read', 'blue', 'tokens_per_s'), line('prompts', 'sky', 'prompt_tokens_per_s'),
                        line('written', 'teal', 'generated_tokens_per_s')]}),
    new Chart({title: 'Text queue', stacked: true, format: number, when: readsTexts, note: () => 'tokens that wait or run',
               series: [line('interactive', 'blue', 'interactive_tokens'), line('bulk', 'amber', 'bulk_tokens')]}),
    new Chart({title: 'Tensors per second', format: number, when: takesTensors,
               series: [line('requests', 'blue', 'tensor_requests_per_s'), line('rows', 'teal', 'tensor_rows_per_s'),
                        line('batches', 'violet', 'tensor_batches_per_s')]}),
    new Chart({title: 'Tensor latency', format: ms, when: takesTensors, note: () => 'from its arrival at the model',
               series: [line('p50', 'teal', 'tensor_p50_ms'), line('p99', 'rose', 'tensor_p99_ms')]}),
    new Chart({title: 'Tensor queue', format: number, when: takesTensors,
               note: (p) => `${bytes(at('tensor_queue_bytes')(p))} of inputs`,
               series: [line('rows that wait or run', 'amber', 'tensor_queue_rows')]}),
    new Chart({title: 'Batch fill', format: percent, max: 1,
               note: (p) => `${number(at('batches_per_s')(p) + at('tensor_batches_per_s')(p))} batches per second`,
               series: [line('texts', 'violet', 'batch_fill', readsTexts), line('tensors', 'teal', 'tensor_batch_fill', takesTensors)]}),
    new Chart({title: 'Cache hits', format: percent, max: 1, when: readsTexts,
               series: [line('tokens', 'amber', 'token_cache_hits'), line('results', 'teal', 'result_cache_hits')]}),
    new Chart({title: 'Processors', format: number, limit: () => feed.limits.processors || 0,
               note: () => `${feed.limits.processors ?? NONE} allowed`,
               series: [line('busy', 'blue', 'processors')]}),
    new Chart({title: 'Memory by class', stacked: true, format: bytes, binary: true,
               limit: () => (feed.points.length && memory(feed.points[feed.points.length - 1]) > 0.4 * budget() ? budget() : 0),
               note: (p) => bytes(memory(p)) + (budget() ? ` of ${bytes(budget())}` : hasGpu(feed.stats) ? ' on all devices' : ''),
               series: [line('weights', 'blue', 'weights_bytes'), line('activations', 'violet', 'activations_bytes'),
                        line('keys and values', 'teal', 'kv_bytes'), line('requests', 'rose', 'requests_bytes'),
                        line('caches', 'amber', 'caches_bytes')]}),
    new Chart({title: 'Keys and values', stacked: true, format: bytes, binary: true, when: writesTexts,
               note: (p) => `of ${bytes(at('kv_blocks_bytes')(p))}`,
               series: [line('used', 'teal', 'kv_used_bytes'), line('cached', 'sky', 'kv_cached_bytes')]}),
    new Chart({title: 'Streams and connections', format: number, note: (p) => `${number(at('watchers')(p))} watching`,
               series: [line('streams', 'teal', 'streams'), line('texts', 'violet', 'texts_running', writesTexts),
                        line('connections', 'grey2', 'connections')]}),
  ];
}

// The stacked bar of a whole and the table below it, from the stages of /v1/stats or a slow request:
// [{stage, share (0 to 1)}]. A thin one has no names.
export function stageBar(parts, thin) {
  const bar = h('div', {class: thin ? 'stack thin' : 'stack', 'aria-hidden': 'true'});
  for (const [name, color] of STAGES) {
    const part = parts.find((one) => one.stage === name);
    if (!part || !(part.share > 0)) continue;
    const text = `${name} ${percent(part.share)}`;
    bar.append(h('div', {class: `k-${color}`, title: text, vars: {'flex-grow': part.share}},
                 !thin && part.share > 0.17 ? text : ''));
  }
  return bar;
}

function bottleneckCard() {
  const name = h('strong', {id: 'bottleneck-name'});
  const badge = h('span', {class: 'badge', hidden: true}, 'saturated');
  const why = h('p', {class: 'muted', id: 'bottleneck-why'});
  const bar = h('div');
  const head = h('tr', {}, ['Stage', 'Share', 'Requests', 'Mean', 'p50', 'p90', 'p99', 'Max'].map(
    (text, i) => h('th', {scope: 'col', class: i ? 'num' : ''}, text)));
  const body = h('tbody', {id: 'stage-table'});
  const since = h('span', {class: 'when'});
  // The rows stay, so that a text can be marked and a reader keeps its place.
  const rows = new Map([...STAGES, ['whole request', '']].map(([label, color]) =>
    [label, h('tr', {class: color ? `k-${color}` : 'total'},
      h('th', {scope: 'row'}, color ? h('i', {'aria-hidden': 'true'}) : '', label),
      Array.from({length: 7}, () => h('td', {class: 'num'})))]));
  body.append(...rows.values());
  const fill = (label, latency, share) => {
    const row = rows.get(label);
    row.hidden = latency.count === 0 && label !== 'whole request';
    const texts = [percent(share), number(latency.count), ms(latency.mean_ms), ms(latency.p50_ms), ms(latency.p90_ms),
                   ms(latency.p99_ms), ms(latency.max_ms)];
    texts.forEach((text, i) => setText(row.cells[i + 1], latency.count ? text : i === 1 ? '0' : NONE));
  };
  const node = h('div', {class: 'card'},
    h('div', {class: 'head'}, h('h2', {}, 'Where the time goes'), since),
    h('p', {class: 'bottleneck'}, 'Bottleneck: ', name, ' ', badge), why, bar,
    h('div', {class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Stages since the reset'},
      h('table', {class: 'stages'}, h('thead', {}, head), body)));
  return {node, update() {
    const stats = feed.stats;
    if (!stats) return;
    setText(name, stats.bottleneck.name);
    badge.hidden = !stats.bottleneck.saturated;
    setText(why, stats.bottleneck.why);
    setText(since, `since the reset, ${seconds(stats.window_s)} ago`);
    if (!stats.stage_timers) return bar.replaceChildren(h('p', {}, 'The server runs with --stage-timers off.'));
    bar.hidden = stats.requests.count === 0;
    bar.replaceChildren(stageBar(stats.stages.map((one) => ({stage: one.stage, share: one.percent / 100}))));
    for (const one of stats.stages) fill(one.stage, one, one.percent / 100);
    fill('whole request', stats.requests, 1);
  }};
}

export function makeLive(root, say) {
  const pause = h('button', {class: 'quiet', 'aria-pressed': 'false', id: 'pause'}, 'Pause');
  const reset = h('button', {class: 'quiet', id: 'reset'}, 'Reset statistics');
  pause.addEventListener('click', () => {
    feed.paused = !feed.paused;
    pause.setAttribute('aria-pressed', String(feed.paused));
    setText(pause, feed.paused ? 'Go on' : 'Pause');
    if (['live', 'paused'].includes($('link').dataset.state)) linkUp();  // else it is still lost
    if (!feed.paused) draw();
  });
  reset.addEventListener('click', async () => {
    try {
      await postJson('v1/stats/reset', {});
    } catch (error) {
      say(error.message);
    }
  });
  const tiles = TILES.map(([label, value, unit, more, when = () => true]) => {
    const big = h('span', {class: 'big'}, NONE);
    const small = h('span', {class: 'muted small'});
    return {value, more, when, big, small,
            node: h('div', {class: 'card tile'}, h('span', {class: 'label'}, label), h('div', {}, big, ' ', h('span', {class: 'muted'}, unit)), small)};
  });
  const strip = h('div', {class: 'tiles'}, tiles.map((tile) => tile.node));
  // As few rows as fit, and as many tiles in each.
  const wrap = () => {
    const count = tiles.filter((tile) => !tile.node.hidden).length;
    const fit = Math.max(2, Math.floor((strip.clientWidth + TILE_GAP) / (TILE_WIDTH + TILE_GAP)));
    strip.style.setProperty('--columns', Math.ceil(count / Math.ceil(count / fit)));
  };
  new ResizeObserver(wrap).observe(strip);
  const stages = bottleneckCard();
  const devices = deviceCard();
  const pictures = charts();
  const [byStage, latency, ...others] = pictures.map((chart) => chart.node);
  root.append(
    h('div', {class: 'head page'}, h('h2', {}, 'The last five minutes'), h('div', {class: 'row'}, pause, reset)),
    strip,
    h('div', {class: 'timing'}, stages.node, byStage, latency),
    h('div', {class: 'cards'}, devices.node, others));
  draw = () => {
    if (root.hidden || document.hidden) return;
    const point = feed.points[feed.points.length - 1];
    for (const tile of tiles) tile.node.hidden = !tile.when();
    wrap();
    if (point) {
      for (const tile of tiles) {
        setText(tile.big, tile.value(point));
        setText(tile.small, tile.more(point));
      }
    }
    stages.update();
    devices.update(feed.stats, before);
    for (const chart of pictures) chart.update(feed.points);
  };
  const show = () => !feed.paused && draw();
  document.addEventListener('visibilitychange', show);
  return {show() {
    show();
    if ($('link').dataset.state === 'key') wake();  // shown anew, it asks anew, as the other tabs do
  }};
}
