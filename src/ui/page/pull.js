// The box of the tab "Models" that downloads a model of the hub and has it served (POST /api/pull).
import {h, setText, bytes, percent} from './dom.js';
import {jsonLines} from './api.js';
import {feed} from './live.js';

const REFUSED = 'This server takes no models from clients. It does where it was started with --allow-pull, or, from ' +
  'administrators, with --admin-api-key.';

// whenServed(): a model has been added. update() shows whether the server takes models, as far as it is known.
export function makePull(whenServed) {
  const input = h('input', {id: 'pull-model', placeholder: 'owner/name, owner/name:QUANT', autocomplete: 'off', spellcheck: 'false', required: true});
  const add = h('button', {class: 'main', type: 'submit'}, 'Add');
  const stop = h('button', {class: 'quiet', type: 'button', hidden: true, onclick: () => abort.abort()}, 'Stop');
  const progress = h('progress', {max: '1', 'aria-label': 'Progress of the download', hidden: true});
  const status = h('p', {class: 'muted small', role: 'status'});
  const form = h('form', {}, h('label', {for: 'pull-model'}, 'Add a model of the Hugging Face hub'),
    h('div', {class: 'row'}, input, add, stop), progress);
  const node = h('div', {class: 'card pull'}, form, status);
  let abort = null;

  function tell(text, failed) {
    status.className = failed ? 'error' : 'muted small';
    setText(status, text);
  }

  function show({status: text, total, completed}) {
    if (total) {
      progress.value = completed / total;
      tell(`${text}: ${bytes(completed)} of ${bytes(total)}, ${percent(completed / total)}`);
    } else {
      progress.removeAttribute('value');
      tell(text);
    }
  }

  async function pull(model) {
    abort = new AbortController();
    let done = false;
    try {
      for await (const line of jsonLines('api/pull', {body: {model}, signal: abort.signal})) {
        if (line.error) throw new Error(line.error);
        done = line.status === 'success';
        if (!done) show(line);
      }
      if (!done) throw new Error('The connection was lost. What was downloaded is kept: add the model again to go on.');
      tell(`${model} is served now.`);
      input.value = '';
    } catch (error) {
      if (error.name === 'AbortError') tell('Stopped. What was downloaded is kept: add the model again to go on.');
      else tell(error.message, true);
    }
    abort = null;
    if (done) whenServed();
  }

  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    const model = input.value.trim();
    if (!model || abort) return;
    add.disabled = true;
    stop.hidden = progress.hidden = false;
    show({status: 'asking the hub'});
    await pull(model);
    add.disabled = false;
    stop.hidden = progress.hidden = true;
  });
  return {node, update() {
    const refused = feed.limits.pulls === false;
    form.hidden = refused;
    if (refused) tell(REFUSED);
    else if (status.textContent === REFUSED) tell('');
  }};
}
