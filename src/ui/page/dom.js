// Elements and numbers. Texts go into the page as text nodes only, so that what a model or a client
// named cannot become markup.

const SVG = 'http://www.w3.org/2000/svg';

function fill(node, properties, children) {
  for (const [name, value] of Object.entries(properties || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else if (name === 'vars') for (const [key, one] of Object.entries(value)) node.style.setProperty(key, one);
    else node.setAttribute(name, value === true ? '' : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== undefined && child !== null && child !== false));
  return node;
}

// h('p', {class: 'muted', onclick: f, vars: {'--x': 1}}, 'text', child, ...)
export const h = (tag, properties, ...children) => fill(document.createElement(tag), properties, children);
export const svg = (tag, properties, ...children) => fill(document.createElementNS(SVG, tag), properties, children);
export const $ = (id) => document.getElementById(id);

// Writes only where something changed, so that nothing is laid out anew in vain.
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export const NONE = '–';
const known = (x) => typeof x === 'number' && Number.isFinite(x);

// Three digits: "0.42", "12.3", "1,234", "45.6k", "1.2M".
export function number(x) {
  if (!known(x)) return NONE;
  const size = Math.abs(x);
  if (size >= 1e9) return digits(x / 1e9) + 'G';
  if (size >= 1e6) return digits(x / 1e6) + 'M';
  if (size >= 1e4) return digits(x / 1e3) + 'k';
  return digits(x);
}

function digits(x) {
  const size = Math.abs(x);
  if (size > 0 && size < 0.005) return '<0.01';
  if (size >= 100 || Math.abs(x - Math.round(x)) < 1e-6) return Math.round(x).toLocaleString('en');
  return x.toFixed(size >= 10 ? 1 : 2);
}

export function ms(x) {
  if (!known(x)) return NONE;
  if (x >= 600000) return digits(x / 60000) + ' min';
  if (x >= 1000) return digits(x / 1000) + ' s';
  if (x >= 1 || x === 0) return digits(x) + ' ms';
  return digits(x * 1000) + ' µs';
}

export function bytes(x) {
  if (!known(x)) return NONE;
  for (const [unit, size] of [['GiB', 2 ** 30], ['MiB', 2 ** 20], ['KiB', 2 ** 10]]) {
    if (x >= size) return digits(x / size) + ' ' + unit;
  }
  return Math.round(x) + ' B';
}

// At most one digit after the point, as the server's sentences have it: "66.2 %", "67 %".
export function percent(share) {
  return known(share) ? `${Number((share * 100).toFixed(1))} %` : NONE;
}

export function seconds(x) {
  if (!known(x)) return NONE;
  if (x < 1) return ms(x * 1000);
  if (x < 90) return Math.round(x) + ' s';
  if (x < 5400) return Math.round(x / 60) + ' min';
  if (x < 129600) return Math.round(x / 3600) + ' h';
  return Math.round(x / 86400) + ' d';
}

export const clock = (unixMs) => new Date(unixMs).toLocaleTimeString('en-GB');

// False: the browser allows it in no way.
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {  // not allowed without https
    const area = h('textarea', {class: 'hidden', readonly: true});
    area.value = text;
    document.body.append(area);
    area.select();
    const copied = document.execCommand('copy');
    area.remove();
    return copied;
  }
}

// A button that copies what text() gives, and says so.
export function copyButton(text, label) {
  const button = h('button', {class: 'quiet mini', type: 'button', 'aria-label': label, onclick: async () => {
    setText(button, await copyText(text()) ? 'Copied' : 'Not allowed');
    button.focus();
    setTimeout(() => setText(button, 'Copy'), 2000);
  }}, 'Copy');
  return button;
}

// A list of buttons of which one is chosen, with the arrow keys too: tabs and kinds of tabs.
export function arrows(list, choose) {
  list.addEventListener('keydown', (event) => {
    const buttons = [...list.querySelectorAll('[role=tab]')];
    const at = buttons.indexOf(document.activeElement);
    const to = {ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: buttons.length - 1}[event.key];
    if (at < 0 || to === undefined) return;
    event.preventDefault();
    const next = buttons[(to + buttons.length) % buttons.length];
    next.focus();
    choose(next);
  });
}

// A tab list: names, and what is done when one is chosen. mark(name) shows one as chosen.
export function tabList(label, names, choose) {
  const list = h('div', {class: 'segments', role: 'tablist', 'aria-label': label});
  list.mark = (name) => {
    for (const one of list.children) {
      one.setAttribute('aria-selected', String(one.dataset.name === name));
      one.tabIndex = one.dataset.name === name ? 0 : -1;
    }
  };
  const take = (button) => {
    list.mark(button.dataset.name);
    choose(button.dataset.name);
  };
  for (const [name, text] of names) {
    list.append(h('button', {role: 'tab', type: 'button', 'data-name': name, onclick: (event) => take(event.currentTarget)}, text));
  }
  arrows(list, take);
  list.choose = (name) => take([...list.children].find((one) => one.dataset.name === name));
  return list;
}
