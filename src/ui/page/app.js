// The frame of the page: tabs, key, theme, notices.
import {$, setText, arrows} from './dom.js';
import {key, whenRefused} from './api.js';
import {makeLive, watch, reconnect} from './live.js';
import {makeModels} from './models.js';
import {makePlayground} from './playground.js';
import {makeRequests} from './requests.js';

function say(text) {
  setText($('notice').firstElementChild, text);
  $('notice').hidden = !text;
}
$('notice').lastElementChild.addEventListener('click', () => say(''));

// ---- Views. A view is a tab, or a part of one: "models", "playground/chat". The address names it after
// the "#", so that Back, links and bookmarks find it; "live" is the address without one.
const viewOf = () => location.hash.slice(1) || 'live';
const addressOf = (view) => (view === 'live' ? location.pathname + location.search : `#${view}`);
const tabOf = (view) => view.split('/')[0];

const tabs = {
  live: makeLive($('live'), say),
  models: makeModels($('models'), say),
  playground: makePlayground($('playground'), say, {go, settle}),
  requests: makeRequests($('requests')),
};

function show(view) {
  const name = tabOf(view);
  if (!Object.hasOwn(tabs, name)) return;  // the address of an element, such as "#main"
  const anew = $(name).hidden;
  for (const other of Object.keys(tabs)) {
    const on = other === name;
    $(other).hidden = !on;
    $(`tab-${other}`).setAttribute('aria-selected', String(on));
    $(`tab-${other}`).tabIndex = on ? 0 : -1;
  }
  document.title = name === 'live' ? 'Penstock' : `${$(`tab-${name}`).textContent} – Penstock`;
  say('');
  tabs[name].show(view.split('/')[1], anew);
}

// What the user chose.
function go(view) {
  if (view !== viewOf()) history.pushState(null, '', addressOf(view));
  show(view);
}

// The address of what is shown without having been chosen, if it is still shown.
function settle(view) {
  if (tabOf(viewOf()) === tabOf(view)) history.replaceState(null, '', addressOf(view));
}

const goTo = (button) => {
  const name = button.id.slice('tab-'.length);
  if (tabOf(viewOf()) !== name) go(name);
  else show(viewOf());
};
for (const name of Object.keys(tabs)) $(`tab-${name}`).addEventListener('click', (event) => goTo(event.currentTarget));
arrows(document.querySelector('.tabs'), goTo);
addEventListener('popstate', () => show(viewOf()));  // Back, Forward, and another hash

// ---- Theme: as the system has it, until the other one is chosen.
function dark() {
  return document.documentElement.dataset.theme === 'dark' ||
    (!document.documentElement.dataset.theme && matchMedia('(prefers-color-scheme: dark)').matches);
}
const nameTheme = () => setText($('theme'), dark() ? 'Light' : 'Dark');
$('theme').addEventListener('click', () => {
  const theme = dark() ? 'light' : 'dark';
  document.documentElement.dataset.theme = theme;
  localStorage.setItem('penstock-theme', theme);
  nameTheme();
});
nameTheme();

// ---- Key
function askForKey(why) {
  setText($('key-why'), why);
  if ($('key-dialog').open) return;
  $('key-input').value = '';
  $('key-dialog').showModal();
}
const KEPT = 'It is sent to this server alone and kept until this browser tab is closed.';
$('key').addEventListener('click', () => askForKey(KEPT));
whenRefused((status, message) => {
  if (status === 401) askForKey(`${key.get() ? 'The key is not valid.' : 'This server asks for a key.'} ${KEPT}`);
  else say(message);
});
function useKey(value) {
  key.set(value);
  $('key').dataset.set = String(Boolean(value));
  setText($('key'), value ? 'Key set' : 'Key');
  $('key-dialog').close();
  reconnect();
  const shown = Object.keys(tabs).find((name) => !$(name).hidden);
  tabs[shown].show();
}
$('key-dialog').querySelector('form').addEventListener('submit', (event) => {
  event.preventDefault();
  if ($('key-input').value) useKey($('key-input').value);
});
$('key-forget').addEventListener('click', () => useKey(''));
$('key-cancel').addEventListener('click', () => $('key-dialog').close());
if (key.get()) setText($('key'), 'Key set');

if (viewOf() !== 'live') show(viewOf());
watch();
