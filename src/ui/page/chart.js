// Pictures of the last minutes, as SVG: lines, or areas that lie on each other.
//
// The newest values stand in the legend as text, for all readers. A pointer, or the arrow keys on a
// focused chart, show those of another moment; a screen reader hears them after a key, and is not told
// of the new ones each second.
import {h, svg, setText, clock, NONE} from './dom.js';

const SPAN_MS = 300_000;
const GAP_MS = 3_500;  // points further apart are not joined
const LEFT = 54, RIGHT = 10, TOP = 8, BOTTOM = 18;

// The least round number above x, of ten, or of two for bytes.
export function niceMax(x, binary) {
  if (!(x > 0)) return 1;
  if (binary) {
    const unit = 2 ** (10 * Math.floor(Math.log2(x) / 10));
    return unit * [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024].find((step) => step * unit >= x * 0.999);
  }
  const unit = 10 ** Math.floor(Math.log10(x));
  return unit * [1, 1.5, 2, 3, 4, 5, 6, 8, 10].find((step) => step * unit >= x * 0.999);
}

export class Chart {
  // title; series: [{label, color, value(point), when()}]; format(number); stacked; max: fixed top;
  // limit(): a line that values should stay below, or 0; binary: ticks of bytes; note(point): text
  // beside the title; when(): whether there is anything to show.
  constructor(options) {
    this.options = {max: 0, limit: () => 0, note: () => '', when: () => true, ...options};
    this.points = [];
    this.cursor = null;  // time of the moment shown; null: the newest
    const legend = h('ul', {class: 'legend'});
    this.values = options.series.map((series) => {
      const value = h('b', {}, NONE);
      const item = h('li', {class: `k-${series.color}`}, h('i', {'aria-hidden': 'true'}), series.label, ' ', value);
      legend.append(item);
      return {item, value};
    });
    this.svg = svg('svg', {'aria-hidden': 'true'});
    this.when = h('span', {class: 'when'});
    this.plot = h('div', {class: 'plot', tabindex: '0', role: 'group',
                          'aria-label': `${options.title}, the last five minutes. Arrow keys show earlier values.`},
                  this.svg);
    this.spoken = h('p', {class: 'hidden'});
    this.node = h('figure', {class: 'card chart'},
                  h('figcaption', {}, h('h3', {}, options.title), this.when), legend, this.plot, this.spoken);
    this.plot.addEventListener('pointermove', (event) => this.point(event));
    this.plot.addEventListener('pointerleave', () => this.move(null));
    this.plot.addEventListener('focus', () => this.spoken.setAttribute('aria-live', 'polite'));
    this.plot.addEventListener('blur', () => {
      this.spoken.removeAttribute('aria-live');
      setText(this.spoken, '');
      this.move(null);
    });
    this.plot.addEventListener('keydown', (event) => this.step(event));
    new ResizeObserver(() => this.draw()).observe(this.plot);
  }

  update(points) {
    const begin = points.length ? points[points.length - 1].time - SPAN_MS : 0;
    this.points = points.filter((point) => point.time >= begin);
    this.draw();
  }

  move(time) {
    this.cursor = time;
    this.draw();
  }

  point(event) {
    const box = this.plot.getBoundingClientRect();
    const share = (event.clientX - box.left - LEFT) / (box.width - LEFT - RIGHT);
    this.move(this.end() - SPAN_MS * (1 - share));
  }

  step(event) {
    const by = {ArrowLeft: -1, ArrowRight: 1, PageUp: -30, PageDown: 30}[event.key];
    if (event.key === 'Escape') this.move(null);
    if (!by || this.points.length === 0) return;
    event.preventDefault();
    const at = this.shown() + by;
    this.move(this.points[Math.max(0, Math.min(this.points.length - 1, at))].time);
    this.speak();
  }

  speak() {
    const values = this.values.filter(({item}) => !item.hidden).map(({item}) => item.textContent);
    setText(this.spoken, `${this.when.textContent}: ${values.join(', ')}`);
  }

  end() {
    return this.points.length ? this.points[this.points.length - 1].time : Date.now();
  }

  // Index of the point the legend shows.
  shown() {
    if (this.cursor === null) return this.points.length - 1;
    let best = this.points.length - 1;
    for (let i = best; i >= 0; --i) {
      if (Math.abs(this.points[i].time - this.cursor) < Math.abs(this.points[best].time - this.cursor)) best = i;
    }
    return best;
  }

  draw() {
    const {series, format, stacked, binary} = this.options;
    const at = this.shown();
    const shown = this.points[at];
    this.node.hidden = !this.options.when();
    series.forEach((one, i) => {
      const {item, value} = this.values[i];
      item.hidden = Boolean(one.when && !one.when());
      setText(value, shown ? format(one.value(shown)) : NONE);
    });
    setText(this.when, !shown ? '' : this.cursor !== null ? clock(shown.time) : this.options.note(shown));
    const width = this.plot.clientWidth, height = this.plot.clientHeight;
    if (width === 0) return;  // its tab is not shown

    const rows = this.points.map((point) => series.map((one) => one.value(point)));
    let top = this.options.limit() || 0;
    for (const row of rows) {
      top = Math.max(top, stacked ? row.reduce((sum, x) => sum + (x || 0), 0) : Math.max(...row.map((x) => x || 0)));
    }
    const max = this.options.max || niceMax(top, binary);
    const end = this.end();
    const x = (time) => LEFT + (width - LEFT - RIGHT) * (1 - (end - time) / SPAN_MS);
    const y = (value) => height - BOTTOM - (height - TOP - BOTTOM) * Math.min(1, value / max);

    const parts = this.axes(width, height, max, x, y, end);
    parts.push(...(stacked ? this.areas(rows, x, y) : this.lines(rows, x, y)));
    const limit = this.options.limit();
    if (limit > 0) parts.push(svg('line', {class: 'limit', x1: LEFT, x2: width - RIGHT, y1: y(limit), y2: y(limit)}));
    if (this.cursor !== null && shown) {
      parts.push(svg('line', {class: 'cursor', x1: x(shown.time), x2: x(shown.time), y1: TOP, y2: height - BOTTOM}));
    }
    this.svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
    this.svg.replaceChildren(...parts);
  }

  axes(width, height, max, x, y, end) {
    const parts = [];
    for (const share of [0, 0.5, 1]) {
      const at = y(max * share);
      parts.push(svg('line', {class: share ? 'grid' : 'base', x1: LEFT, x2: width - RIGHT, y1: at, y2: at}));
      parts.push(svg('text', {x: LEFT - 6, y: at + 3.5, 'text-anchor': 'end'}, this.options.format(max * share)));
    }
    for (const minutes of width < 560 ? [4, 2, 0] : [5, 4, 3, 2, 1, 0]) {
      const anchor = minutes === 0 ? 'end' : minutes === 5 ? 'start' : 'middle';
      const label = minutes === 0 ? 'now' : `−${minutes} min`;
      parts.push(svg('text', {x: x(end - minutes * 60_000), y: height - 4, 'text-anchor': anchor}, label));
    }
    return parts;
  }

  lines(rows, x, y) {
    return this.options.series.map((one, s) => {
      let path = '';
      let last = -Infinity;
      rows.forEach((row, i) => {
        const time = this.points[i].time;
        if (row[s] === null) return;
        path += `${time - last > GAP_MS ? 'M' : 'L'}${x(time).toFixed(1)} ${y(row[s]).toFixed(1)}`;
        last = time;
      });
      return svg('path', {class: `line k-${one.color}`, d: path || 'M0 0'});
    });
  }

  areas(rows, x, y) {
    const below = rows.map(() => 0);
    return this.options.series.map((one, s) => {
      let path = '';
      for (let begin = 0; begin < rows.length;) {
        let end = begin + 1;
        while (end < rows.length && this.points[end].time - this.points[end - 1].time <= GAP_MS) ++end;
        let upper = '', lower = '';
        for (let i = begin; i < end; ++i) {
          const at = x(this.points[i].time).toFixed(1);
          const above = below[i] + (rows[i][s] || 0);
          upper += `${upper ? 'L' : 'M'}${at} ${y(above).toFixed(1)}`;
          lower = `L${at} ${y(below[i]).toFixed(1)}` + lower;
          below[i] = above;
        }
        path += upper + lower + 'Z';
        begin = end;
      }
      return svg('path', {class: `area k-${one.color}`, d: path || 'M0 0'});
    });
  }
}
