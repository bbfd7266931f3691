// Shared by charts over the last five minutes: a drawing with axes, runs without gaps, the pointer.
import { el, setText, svg } from './dom.mjs';
import { grouped, scaled } from './format.mjs';

const SPANS_S = [60, 120, 300];
/** Seconds between axis marks, by the span shown. */
const MARKS_S = { 60: 15, 120: 30, 300: 60 };
const SPAN_S = SPANS_S.at(-1);
const [LEFT, BOTTOM, TOP] = [44, 20, 8];
/** Samples further apart than this are not joined: the node was gone, or the page asleep. */
const GAP_S = 4;

/** Drops points that no chart shows any more. */
export function forget(points) {
  while (points[0].at < points.at(-1).at - SPAN_S) points.shift();
}

/** Splits points `{at}` into runs without gaps. */
export function runs(points) {
  const found = [];
  for (const point of points) {
    const last = found.at(-1)?.at(-1);
    if (last && point.at - last.at <= GAP_S) found.at(-1).push(point);
    else found.push([point]);
  }
  return found;
}

/** A step of 1, 2 or 5 times a power of ten that gives about four lines. */
function step(highest) {
  const power = 10 ** Math.floor(Math.log10(highest / 4));
  return power * [1, 2, 5, 10].find((factor) => factor * power * 4 >= highest);
}

function label(x, y, anchor, text) {
  const element = svg('text', { x, y, 'text-anchor': anchor });
  element.textContent = text;
  return element;
}

/** A drawing with a caption below it, in `parent`. Calls `redraw` when its width changes or the pointer moves. */
export class Frame {
  constructor(parent, { height, title, id, empty = 'no figures yet' }, redraw) {
    this.height = height;
    this.words = el('p', { class: 'quiet', id: `${id}-words`, text: empty });
    this.drawing = svg('svg', { role: 'img', 'aria-labelledby': title, 'aria-describedby': this.words.id, height });
    parent.classList.add('chart');
    parent.append(this.drawing, this.words);
    this.drawing.addEventListener('pointermove', (event) => {
      this.pointer = event.clientX - this.drawing.getBoundingClientRect().left;
      redraw();
    });
    this.drawing.addEventListener('pointerleave', () => {
      this.pointer = undefined;
      redraw();
    });
    // Read only on changes: each read would make the browser lay the page out.
    this.width = 0;
    new ResizeObserver(([{ contentRect }]) => {
      this.width = contentRect.width;
      redraw();
    }).observe(this.drawing);
  }

  /** Scales for points up to `highest`, and the axes as elements; undefined while the drawing has no size. */
  axes(points, highest, least) {
    const { width } = this;
    if (!width || points.length === 0) return undefined;
    const each = step(Math.max(highest, least));
    const top = Math.ceil(Math.max(highest, least) / each) * each;
    const now = points.at(-1).at;
    const span = SPANS_S.find((span) => now - points[0].at < span) ?? SPAN_S;
    const x = (at) => LEFT + (width - LEFT - 2) * (1 - (now - at) / span);
    const y = (value) => TOP + (this.height - TOP - BOTTOM) * (1 - value / top);
    const parts = [];
    for (let value = 0; value <= top; value += each) {
      parts.push(svg('line', { class: 'grid', x1: LEFT, x2: width, y1: y(value), y2: y(value) }));
      parts.push(label(LEFT - 6, y(value) + 4, 'end', top < 1e4 ? grouped(value) : scaled(value).replace(/\.0+(?=[KMG])/, '')));
    }
    const marks = width < 420 ? 1 : span / MARKS_S[span];
    for (let mark = 0; mark <= marks; mark++) {
      const ago = (span * mark) / marks;
      const anchor = { 0: 'end', [marks]: 'start' }[mark] ?? 'middle';
      const text = ago % 60 === 0 && span > 60 ? `−${ago / 60} min` : `−${ago} s`;
      parts.push(label(x(now - ago), this.height - 4, anchor, mark ? text : 'now'));
    }
    return { x, y, now, parts };
  }

  /** The point under the pointer, with its description from `tell`. */
  cursor(points, { x, now }, tell) {
    if (this.pointer === undefined) return [];
    const near = points.reduce((best, point) => (Math.abs(x(point.at) - this.pointer) < Math.abs(x(best.at) - this.pointer) ? point : best));
    const at = x(near.at);
    const text = `${tell(near)}, ${Math.round(now - near.at)} s ago`;
    const isRight = at > this.width / 2;
    return [
      svg('line', { class: 'cursor', x1: at, x2: at, y1: TOP, y2: this.height - BOTTOM }),
      label(at + (isRight ? -6 : 6), TOP + 12, isRight ? 'end' : 'start', text),
    ];
  }

  show(parts, words) {
    this.drawing.setAttribute('viewBox', `0 0 ${this.width} ${this.height}`);
    this.drawing.replaceChildren(...parts);
    setText(this.words, words);
  }
}
