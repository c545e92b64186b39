// The tab "Models": what is served, where it stands, and what an administrator may do with it.
import {h, setText, number, bytes, seconds, percent, ms, NONE} from './dom.js';
import {getJson, poller, postJson} from './api.js';
import {hasGpu, memoryOf} from './devices.js';
import {feed} from './live.js';
import {makePull} from './pull.js';

const POLL_MS = 2000;
const FAST_POLL_MS = 500;  // while something is being loaded

const LOADED = ['ready', 'parked'];
const BUSY = ['waiting', 'loading', 'draining'];
const NAMES = {
  absent: 'not loaded', waiting: 'waits to load', loading: 'loading', ready: 'ready', parked: 'parked',
  draining: 'unloading', failed: 'failed',
};

function memory(model) {
  const {weights_bytes: w, activations_bytes: a, cache_bytes: c} = model.lifecycle.memory;
  return {total: w + a + c, parts: [['weights', 'blue', w], ['activations', 'violet', a], ['keys and values', 'teal', c]]};
}

function lastUse(life) {
  if (life.idle_s === undefined) return life.loads ? 'was loaded before' : 'never used';
  const leaves = life.unload_in_s !== undefined ? `, leaves in ${seconds(life.unload_in_s)}` : '';
  return `${life.idle_s < 1 ? 'just now' : `${seconds(life.idle_s)} ago`}${leaves}`;
}

const paceOf = (stats) => (stats.tensors ? `${number(stats.tensors.rows_per_s)} rows/s` : `${number(stats.tokens_per_s)} tokens/s`);

function queueOf({tensors, queued_requests: requests}) {
  return tensors ? `${number(tensors.queued_rows)} rows, ${bytes(tensors.queued_bytes)}` : `${number(requests)} waiting or running`;
}

function limitsOf(model) {
  if (model.context_length) return `${number(model.context_length)} tokens of context`;
  if (model.max_tokens) return `${number(model.max_tokens)} tokens a text`;
  if (model.max_batch_size === undefined) return LOADED.includes(model.lifecycle.state) ? NONE : 'told by a load';
  return model.max_batch_size ? `${number(model.max_batch_size)} rows a batch` : 'no batches';
}

// What all models take: by device, where there is a GPU, else `total` bytes of the host's memory.
function allMemory(total) {
  if (hasGpu(feed.stats)) return feed.stats.devices.map((one) => `${memoryOf(one)} on ${one.device}`).join(', ');
  return bytes(total) + (feed.limits.models_bytes ? ` of ${bytes(feed.limits.models_bytes)}` : '');
}

// One model. Its elements stay, so that the focus stays where it is.
class Card {
  constructor(id, act) {
    this.id = id;
    this.title = h('h3', {}, id);
    this.kind = h('p', {class: 'muted small'});
    this.state = h('span', {class: 'state'}, h('i', {'aria-hidden': 'true'}), h('span'));
    this.progress = h('progress', {max: '100', 'aria-label': `Progress of ${id}`, hidden: true});
    this.error = h('p', {class: 'error', hidden: true});
    this.bar = h('div', {class: 'stack thin', 'aria-hidden': 'true'});
    this.parts = h('ul', {class: 'legend'});
    this.facts = Object.fromEntries(['Memory', 'Last use', 'Load', 'Work', 'Queue', 'Limits'].map((name) => [name, h('dd')]));
    const button = (text, action) => h('button', {class: 'quiet', 'aria-label': `${text} ${id}`, onclick: () => act(action, id)}, text);
    this.load = button('Load', 'preload');
    this.unload = button('Unload', 'unload');
    this.pin = button('Pin', 'pin');
    this.unpin = button('Unpin', 'unpin');
    this.node = h('article', {class: 'card model', 'data-model': id},
      h('div', {class: 'head'}, h('div', {}, this.title, this.kind), this.state),
      this.progress, this.error,
      h('dl', {class: 'facts'}, Object.entries(this.facts).map(([name, value]) => h('div', {}, h('dt', {}, name), value))),
      h('div', {}, this.bar, this.parts),
      h('div', {class: 'row'}, this.load, this.unload, this.pin, this.unpin));
  }

  update(model, stats) {
    const life = model.lifecycle;
    setText(this.kind, [model.task || 'unknown task', model.platform, model.dtype, model.aliases.length ? `also ${model.aliases.join(', ')}` : '',
                        life.version ? `version ${life.version}` : '', stats && hasGpu(feed.stats) ? `on ${stats.device}` : '', life.pinned ? 'pinned' : ''].filter(Boolean).join(' · '));
    this.state.dataset.state = life.state;
    setText(this.state.lastElementChild, NAMES[life.state] || life.state);
    const loading = BUSY.includes(life.state);
    this.progress.hidden = !loading;
    if (life.load_percent === undefined) this.progress.removeAttribute('value');
    else this.progress.value = life.load_percent;
    const refused = life.refused_version;
    const error = life.error || (refused ? `version ${refused.version} was not taken: ${refused.error}` : '');
    this.error.hidden = !error;
    setText(this.error, error);
    const held = memory(model);
    setText(this.facts.Memory, held.total ? bytes(held.total) : 'none');
    const parts = held.parts.filter(([, , size]) => size);
    this.bar.hidden = this.parts.hidden = !held.total;
    this.bar.replaceChildren(...parts.map(([, color, size]) => h('div', {class: `k-${color}`, vars: {'flex-grow': size}})));
    this.parts.replaceChildren(...parts.map(([name, color, size]) =>
      h('li', {class: `k-${color}`}, h('i', {'aria-hidden': 'true'}), name, ' ', h('b', {}, bytes(size)))));
    setText(this.facts['Last use'], lastUse(life));
    setText(this.facts.Load, loading && life.load_percent !== undefined ? percent(life.load_percent / 100)
      : life.loads ? `${ms(life.load_s * 1000)}, ${life.loads === 1 ? 'once' : `${number(life.loads)} times`}` : NONE);
    setText(this.facts.Work, stats ? `${percent(stats.busy_percent / 100)} busy, ${paceOf(stats)}` : NONE);
    setText(this.facts.Queue, stats ? queueOf(stats) : NONE);
    setText(this.facts.Limits, limitsOf(model));
    this.load.hidden = LOADED.includes(life.state) || loading;
    this.unload.hidden = !LOADED.includes(life.state);
    this.pin.hidden = life.pinned;
    this.unpin.hidden = !life.pinned;
  }
}

export function makeModels(root, say) {
  const summary = h('p', {class: 'muted', role: 'status'});
  const list = h('div', {class: 'cards models'});
  const cards = new Map();
  const pull = makePull(() => poll());
  root.append(h('div', {class: 'head page'}, h('h2', {}, 'Models'), summary), pull.node, list);

  async function act(action, id) {
    try {
      await postJson(`admin/models/${action}`, {model: id});
    } catch (error) {
      say(error.message);
    }
    await poll();
  }

  function update(models) {
    for (const [id, card] of cards) {
      if (models.some((model) => model.id === id)) continue;
      card.node.remove();
      cards.delete(id);
    }
    let total = 0;
    for (const model of models) {
      if (!cards.has(model.id)) {
        cards.set(model.id, new Card(model.id, act));
        list.append(cards.get(model.id).node);
      }
      cards.get(model.id).update(model, feed.stats?.models.find((one) => one.model === model.id));
      total += memory(model).total;
    }
    const loaded = models.filter((model) => LOADED.includes(model.lifecycle.state)).length;
    setText(summary, `${loaded} of ${models.length} loaded, ${allMemory(total)}`);
  }

  async function read() {
    pull.update();
    const {data} = await getJson('v1/models');
    update(data);
    return data.some((model) => BUSY.includes(model.lifecycle.state)) ? FAST_POLL_MS : POLL_MS;
  }
  const poll = poller(root, POLL_MS, read, (message) => setText(summary, message));
  return {show: poll};
}
