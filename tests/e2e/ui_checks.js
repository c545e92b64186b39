// What cannot be read or named on the page as it is shown: contrast (WCAG 2.2, 1.4.3), names of
// controls (4.1.2), ids, labels, headings, roles. Returns sentences; none is good.
const found = [];
const shown = (node) => node.checkVisibility({checkOpacity: true, checkVisibilityCSS: true}) && node.getClientRects().length > 0;
const where = (node) => `${node.tagName.toLowerCase()}${node.id ? '#' + node.id : ''}${typeof node.className === 'string' && node.className ? '.' + node.className : ''} "${(node.textContent || '').trim().slice(0, 30)}"`;

// ---- Contrast. Colours go through a canvas, so that color-mix() and the like become numbers.
const canvas = document.createElement('canvas');
canvas.width = canvas.height = 1;
const brush = canvas.getContext('2d', {willReadFrequently: true});
function rgba(color) {
  brush.clearRect(0, 0, 1, 1);
  brush.fillStyle = color;
  brush.fillRect(0, 0, 1, 1);
  const [r, g, b, a] = brush.getImageData(0, 0, 1, 1).data;
  return [r, g, b, a / 255];
}
const over = ([r, g, b, a], below) => [r * a + below[0] * (1 - a), g * a + below[1] * (1 - a), b * a + below[2] * (1 - a), 1];
function background(node) {
  const layers = [];
  for (let at = node; at; at = at.parentElement) layers.push(rgba(getComputedStyle(at).backgroundColor));
  return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255, 1]);
}
function luminance([r, g, b]) {
  const linear = (x) => (x / 255 <= 0.04045 ? x / 255 / 12.92 : ((x / 255 + 0.055) / 1.055) ** 2.4);
  return 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
}
function contrast(a, b) {
  const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p);
  return (x + 0.05) / (y + 0.05);
}
for (const node of document.querySelectorAll('body *')) {
  const texts = [...node.childNodes].some((child) => child.nodeType === Node.TEXT_NODE && child.textContent.trim());
  if (!texts || !shown(node) || node.closest('.hidden, noscript, :disabled')) continue;
  const style = getComputedStyle(node);
  const below = background(node);
  const color = over(rgba(node instanceof SVGElement ? style.fill : style.color), below);
  const size = parseFloat(style.fontSize);
  const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
  const ratio = contrast(color, below);
  if (ratio < (large ? 3 : 4.5) - 0.005) found.push(`contrast ${ratio.toFixed(2)}: ${where(node)}`);
}

// ---- Names.
function nameOf(node) {
  const by = (node.getAttribute('aria-labelledby') || '').split(' ').map((id) => document.getElementById(id)?.textContent || '').join('');
  const labels = node.labels ? [...node.labels].map((label) => label.textContent).join('') : '';
  return (node.getAttribute('aria-label') || by || labels || node.textContent || '').trim();
}
for (const node of document.querySelectorAll('button, a[href], select, input, textarea, progress, [role=tab], [role=tabpanel], [role=region], [role=group], dialog')) {
  if (!shown(node)) continue;
  const field = node.matches('select, input, textarea');
  const name = field ? (node.getAttribute('aria-label') || [...node.labels].map((label) => label.textContent).join('')).trim() : nameOf(node);
  if (!name) found.push(`no name: ${where(node)}`);
}
for (const node of document.querySelectorAll('[tabindex="0"]')) {
  if (shown(node) && !node.getAttribute('role') && !node.matches('button, a, input, select, textarea')) found.push(`focus without a role: ${where(node)}`);
}
for (const node of document.querySelectorAll('[aria-controls], [aria-labelledby], label[for]')) {
  for (const name of ['aria-controls', 'aria-labelledby', 'for']) {
    for (const id of (node.getAttribute(name) || '').split(' ').filter(Boolean)) {
      if (!document.getElementById(id) && shown(node)) found.push(`${name} names no element: ${where(node)}`);
    }
  }
}

// ---- The document.
const ids = [...document.querySelectorAll('[id]')].map((node) => node.id);
for (const id of new Set(ids)) if (ids.filter((one) => one === id).length > 1) found.push(`the id ${id} twice`);
if (!document.documentElement.lang) found.push('no language');
if (!document.title) found.push('no title');
if (document.querySelectorAll('h1').length !== 1) found.push('not one h1');
let level = 0;
for (const heading of document.querySelectorAll('h1, h2, h3, h4')) {
  if (!shown(heading)) continue;
  const next = Number(heading.tagName[1]);
  if (next > level + 1) found.push(`a heading skips a level: ${where(heading)}`);
  level = next;
}
for (const list of document.querySelectorAll('[role=tablist]')) {
  if (!shown(list)) continue;
  const tabs = [...list.querySelectorAll('[role=tab]')];
  if (tabs.filter((tab) => tab.getAttribute('aria-selected') === 'true').length !== 1) found.push(`not one tab is selected: ${where(list)}`);
  if (tabs.filter((tab) => tab.tabIndex === 0).length !== 1) found.push(`not one tab has the focus: ${where(list)}`);
}
for (const target of document.querySelectorAll('button, select, input, summary')) {
  if (!shown(target)) continue;
  const box = target.getBoundingClientRect();
  if (box.width < 24 || box.height < 24) found.push(`smaller than 24 pixels: ${where(target)}`);
}
return found;
