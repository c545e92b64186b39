// Replies as Markdown: headings, lists, quotes, tables, code, emphasis, links. They are made of elements
// and text nodes alone, so that no reply can become markup of its own; links go to http and https only,
// a picture is a link to it, and what is not known stays text.
//
// The time is linear in the text, whatever it holds: containers nest DEPTH_MAX deep, each mark of
// emphasis has one opener at a time, and no pattern can try the same characters again and again.
import {h, copyButton} from './dom.js';

const DEPTH_MAX = 6;
const COLUMNS_MAX = 100;
const CODE_RUN_MAX = 3;     // backticks around code in a line
const RENDER_WAIT_MS = 30;  // between two pictures of a text that still comes
const WAIT_PER_COST = 4;    // and so many times what the last one took

// ---- Inside a line
const INLINE = /\\([!-/:-@[-`{-~])|(`+)|(\*+|_+|~~)|(!?\[)|(\])|<(https?:\/\/[^\s<>]{1,2000})>|(<br ?\/?>)|\b(https?:\/\/[^\s<>"`*|[\]\\]{1,2000})/gi;
const TARGET = /\( ?(https?:\/\/(?:[^\s<>()]|\([^\s<>()]{0,500}\)){1,2000})(?: "[^"]{0,300}")? ?\)/iy;
const EMPHASIS = {'*': 'em', '_': 'em', '**': 'strong', '__': 'strong', '~~': 'del'};
const SPACE = /\s/, WORD = /[\p{L}\p{N}_]/u;

// Null: no address of http or https.
function linkTo(address) {
  let url;
  try {
    url = new URL(address);
  } catch {
    return null;
  }
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return null;
  return h('a', {href: url.href, title: url.href, target: '_blank', rel: 'noopener noreferrer nofollow'});
}

// A bare address without the full stop, bracket or comma that belongs to the sentence.
function bareAddress(text) {
  let end = text.length;
  const closes = text.includes('(') ? '' : ')';
  while (end > 0 && `.,;:!?'_~${closes}`.includes(text[end - 1])) --end;
  return text.slice(0, end);
}

// Where the next run of exactly so many backticks begins; -1: nowhere.
function codeEnd(text, from, length) {
  for (let at = from; (at = text.indexOf('`', at)) >= 0;) {
    let end = at;
    while (text[end] === '`') ++end;
    if (end - at === length) return at;
    at = end;
  }
  return -1;
}

class Line {
  constructor() {
    this.out = [];          // elements and texts; an opener is a text of its own
    this.open = new Map();  // mark of emphasis -> its opener's place in `out`
    this.bracket = -1;      // place of the last "["
  }

  // Puts what follows the opener at `from` into the element, which takes its place.
  wrap(from, element) {
    const inner = this.out.splice(from);
    for (let i = 1; i < inner.length; ++i) element.append(inner[i]);
    this.out.push(element);
    for (const [mark, at] of this.open) if (at >= from) this.open.delete(mark);
    if (this.bracket >= from) this.bracket = -1;
  }

  emphasis(run, before, after) {
    if (run[0] !== '~' && run.length > 3) return this.out.push(run);
    const inWord = run[0] === '_' && WORD.test(before) && WORD.test(after);
    const opens = after && !SPACE.test(after) && !inWord;
    const closes = before && !SPACE.test(before) && !inWord;
    for (let rest = run; rest;) {
      const marks = [rest.slice(0, 2), rest[0]].filter((one) => closes && this.open.get(one) < this.out.length - 1);
      const mark = marks.sort((a, b) => this.open.get(b) - this.open.get(a))[0];  // the last opened closes first
      const taken = mark || rest.slice(0, 2);
      if (mark) this.wrap(this.open.get(mark), h(EMPHASIS[mark]));
      else {
        if (opens) this.open.set(taken, this.out.length);
        this.out.push(taken);
      }
      rest = rest.slice(taken.length);
    }
  }

  // Of a "]": where the text goes on; 0: it ends no link.
  link(text, at) {
    const from = this.bracket;
    this.bracket = -1;
    if (from < 0) return 0;
    TARGET.lastIndex = at;
    const target = TARGET.exec(text);
    const element = target && linkTo(target[1]);
    if (!element) return 0;
    const empty = from === this.out.length - 1;
    this.wrap(from, element);
    if (empty) element.append(target[1]);
    return TARGET.lastIndex;
  }

  address(text) {
    const element = this.bracket < 0 && linkTo(text);  // a link holds no other one
    if (element) element.append(text);
    this.out.push(element || text);
  }
}

function inline(node, text) {
  const line = new Line();
  const unclosed = new Set();  // lengths of runs of backticks that nothing closes
  let done = 0;
  INLINE.lastIndex = 0;
  for (let found; (found = INLINE.exec(text));) {
    const [all, escaped, ticks, mark, opens, closes, address, lineBreak, bare] = found;
    let next = found.index + all.length;
    if (found.index > done) line.out.push(text.slice(done, found.index));
    if (escaped) line.out.push(escaped);
    else if (ticks) {
      const end = ticks.length > CODE_RUN_MAX || unclosed.has(ticks.length) ? -1 : codeEnd(text, next, ticks.length);
      if (end < 0) {
        unclosed.add(ticks.length);
        line.out.push(ticks);
      } else {
        const code = text.slice(next, end);
        line.out.push(h('code', {}, code.startsWith(' ') && code.endsWith(' ') && code.trim() ? code.slice(1, -1) : code));
        next = end + ticks.length;
      }
    } else if (mark) line.emphasis(mark, text[found.index - 1] || '', text[next] || '');
    else if (opens) {
      line.bracket = line.out.length;
      line.out.push(opens);
    } else if (closes) {
      const end = line.link(text, next);
      if (end) next = end;
      else line.out.push(closes);
    } else if (address) line.address(address);
    else if (lineBreak) line.out.push(h('br'));
    else {
      const whole = bareAddress(bare);
      line.address(whole);
      next = found.index + whole.length;
    }
    done = INLINE.lastIndex = next;
  }
  line.out.push(text.slice(done));
  for (const one of line.out) node.append(one);
  return node;
}

// ---- Blocks
const HEADING = /^ {0,3}(#{1,6})[ \t]/;
const isRule = (line) => line.length < 200 && /^ {0,3}(?:(?:\* *){3,}|(?:- *){3,}|(?:_ *){3,})$/.test(line);
const ITEM = /^( *)([-*+]|\d{1,9}[.)]) +/;
const QUOTE = /^ {0,3}> ?/;
const indentOf = (line) => line.search(/\S/);  // -1: an empty line
const isNumber = (item) => item[2].length > 1;

// The opening line of code: {indent, mark, language}, or null.
function fenceOf(line) {
  const begin = /^( *)(`+|~+)/.exec(line);
  if (!begin || begin[2].length < 3) return null;
  const language = line.slice(begin[0].length).trim();
  return begin[2][0] === '`' && language.includes('`') ? null : {indent: begin[1].length, mark: begin[2], language};
}

// Cells of a row of a table.
function cells(line) {
  const parts = line.trim().split(/(?<!\\)\|/, COLUMNS_MAX + 2).map((cell) => cell.trim().replaceAll('\\|', '|'));
  if (parts[0] === '') parts.shift();
  if (parts.at(-1) === '') parts.pop();
  return parts.slice(0, COLUMNS_MAX);
}

function tableBegins(lines, i) {
  const rule = lines[i + 1];
  if (!rule || !lines[i].includes('|') || !rule.includes('|') || !rule.includes('-') || !/^[\s|:-]+$/.test(rule)) return false;
  return cells(rule).every((cell) => /^:?-+:?$/.test(cell)) && cells(rule).length === cells(lines[i]).length;
}

// Whether the line ends a paragraph above it. A year or another number at its begin does not.
function interrupts(line, depth) {
  if (HEADING.test(line) || isRule(line) || fenceOf(line)) return true;
  if (depth >= DEPTH_MAX) return false;
  const item = ITEM.exec(line);
  return QUOTE.test(line) || (item !== null && (!isNumber(item) || item[2].length === 2 && item[2][0] === '1'));
}

// Each of these reads the block that begins at lines[i]: [element, index of the line after it].
function codeBlock(lines, i, {indent, mark, language}) {
  const text = [];
  for (++i; i < lines.length; ++i) {
    const line = lines[i].trim();
    if (line.length >= mark.length && line[0] === mark[0] && /^(`+|~+)$/.test(line)) break;
    const spaces = indentOf(lines[i]);
    text.push(lines[i].slice(spaces < 0 ? indent : Math.min(indent, spaces)));
  }
  const code = text.join('\n');
  const name = `Code${language ? ` in ${language.slice(0, 40)}` : ''}`;
  return [h('div', {class: 'code'},
    h('div', {class: 'head'}, h('span', {class: 'muted small'}, language.slice(0, 40)), copyButton(() => code, 'Copy code')),
    h('pre', {tabindex: '0', role: 'region', 'aria-label': name}, h('code', {}, code))), i + 1];
}

function heading(line, marks) {
  let text = line.slice(marks[0].length).trim();
  let end = text.length;
  while (text[end - 1] === '#') --end;
  if (end === 0 || text[end - 1] === ' ') text = text.slice(0, end).trimEnd();
  const level = marks[1].length;
  return inline(h('div', {role: 'heading', 'aria-level': String(Math.min(6, level + 3)), class: `h${Math.min(level, 4)}`}), text);
}

function table(lines, i) {
  const heads = cells(lines[i]);
  const sides = cells(lines[i + 1]).map((rule) => (rule.endsWith(':') ? (rule.startsWith(':') ? 'mid' : 'num') : undefined));
  const row = (tag, texts) => {
    const node = h('tr');
    heads.forEach((_, c) => node.append(inline(h(tag, {class: sides[c], scope: tag === 'th' ? 'col' : undefined}), texts[c] || '')));
    return node;
  };
  const body = h('tbody');
  const head = h('thead', {}, row('th', heads));
  for (i += 2; i < lines.length && lines[i].includes('|'); ++i) body.append(row('td', cells(lines[i])));
  return [h('div', {class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Table'}, h('table', {}, head, body)), i];
}

function quote(lines, i, depth) {
  const inner = [];
  for (; i < lines.length && QUOTE.test(lines[i]); ++i) inner.push(lines[i].replace(QUOTE, ''));
  return [put(h('blockquote'), blocks(inner, depth + 1)), i];
}

// The lines of the item that begins at lines[i], without their indent, and the index after it.
function itemLines(lines, i, item, depth) {
  const inside = item[1].length + 2;  // less than this is not part of the item
  const begin = item[1].length + item[2].length + 1;
  const inner = [lines[i].slice(item[0].length)];
  for (++i; i < lines.length; ++i) {
    const indent = indentOf(lines[i]);
    if (indent < 0) {
      let next = i;
      while (next < lines.length && indentOf(lines[next]) < 0) ++next;
      if (next === lines.length || indentOf(lines[next]) < inside) return [inner, next];
      for (; i < next; ++i) inner.push('');
    } else if (indent < inside && (ITEM.test(lines[i]) || interrupts(lines[i], depth))) {
      return [inner, i];
    }
    inner.push(lines[i].slice(Math.min(indentOf(lines[i]), begin)));
  }
  return [inner, i];
}

function list(lines, i, first, depth) {
  const numbered = isNumber(first);
  const start = numbered ? parseInt(first[2], 10) : 1;
  const node = h(numbered ? 'ol' : 'ul', {start: start === 1 ? undefined : String(start)});
  while (i < lines.length) {
    const item = ITEM.exec(lines[i]);
    if (!item || isNumber(item) !== numbered || item[1].length > first[1].length + 1 || isRule(lines[i])) break;
    const [inner, next] = itemLines(lines, i, item, depth);
    node.append(put(h('li'), blocks(inner, depth + 1)));
    i = next;
  }
  return [node, i];
}

function paragraph(lines, i, depth) {
  const text = [lines[i].trim()];
  for (++i; i < lines.length && indentOf(lines[i]) >= 0; ++i) {
    if (interrupts(lines[i], depth) || tableBegins(lines, i)) break;
    text.push(lines[i].trim());
  }
  return [inline(h('p'), text.join('\n')), i];
}

function block(lines, i, depth) {
  const fence = fenceOf(lines[i]);
  if (fence) return codeBlock(lines, i, fence);
  const marks = HEADING.exec(lines[i]);
  if (marks) return [heading(lines[i], marks), i + 1];
  if (isRule(lines[i])) return [h('hr'), i + 1];
  if (tableBegins(lines, i)) return table(lines, i);
  const item = depth < DEPTH_MAX && ITEM.exec(lines[i]);
  if (item) return list(lines, i, item, depth);
  if (depth < DEPTH_MAX && QUOTE.test(lines[i])) return quote(lines, i, depth);
  return paragraph(lines, i, depth);
}

// The blocks of the lines: [{node, line}], with the line that each begins at.
function blocks(lines, depth) {
  const found = [];
  for (let i = 0; i < lines.length;) {
    if (indentOf(lines[i]) < 0) {
      ++i;
      continue;
    }
    const [node, next] = block(lines, i, depth);
    found.push({node, line: i});
    i = next;
  }
  return found;
}

function put(node, found) {
  for (const one of found) node.append(one.node);
  return node;
}

// A text that comes in pieces, shown in `node`. Blocks that later pieces cannot change stay as they are;
// the others are made anew, at most as often as leaves most of the time to the page.
export class Markdown {
  constructor(node, rendered = () => {}) {
    Object.assign(this, {node, rendered, text: '', kept: 0, timer: 0, wait: RENDER_WAIT_MS});
  }

  write(piece) {
    this.text += piece;
    if (!this.timer) this.timer = setTimeout(() => this.render(), this.wait);
  }

  end() {
    clearTimeout(this.timer);
    this.render();
  }

  render() {
    const begin = performance.now();
    this.timer = 0;
    const lines = this.text.replaceAll('\r', '').split('\n').map((line) => line.replace(/^\t+/, (tabs) => '    '.repeat(tabs.length)));
    const found = blocks(lines, 0);
    while (this.node.childNodes.length > this.kept) this.node.lastChild.remove();
    put(this.node, found);
    // The blocks before one whose first line is whole are through.
    let last = found.length - 1;
    while (last > 0 && found[last].line === lines.length - 1) --last;
    if (last > 0) {
      this.kept += last;
      this.text = lines.slice(found[last].line).join('\n');
    }
    this.wait = Math.max(RENDER_WAIT_MS, WAIT_PER_COST * (performance.now() - begin));
    this.rendered();
  }
}

// The whole of a text.
export function showMarkdown(node, text) {
  const markdown = new Markdown(node);
  markdown.text = text;
  markdown.end();
}
