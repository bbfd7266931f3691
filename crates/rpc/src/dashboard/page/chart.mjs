// Transactions a second over the last five minutes, as a curve; over less until there are figures of so long.
import { byId, el, setText, svg } from './dom.mjs';
import { grouped, scaled } from './format.mjs';

const SPANS_S = [60, 120, 300];
/** From one mark to the next of each. */
const MARKS_S = { 60: 15, 120: 30, 300: 60 };
const SPAN_S = SPANS_S.at(-1);
const [HEIGHT, LEFT, BOTTOM, TOP] = [180, 44, 20, 8];
/** Samples further apart than this are not joined: the node was gone, or the page asleep. */
const GAP_S = 4;

const points = [];
let drawing;
let words;
let pointer;

export function setUp() {
  drawing = svg('svg', { role: 'img', 'aria-labelledby': 'chart-title', 'aria-describedby': 'chart-words' });
  words = el('p', { class: 'quiet', id: 'chart-words', text: 'no figures yet' });
  byId('chart').append(drawing, words);
  drawing.addEventListener('pointermove', (event) => {
    pointer = event.clientX - drawing.getBoundingClientRect().left;
    draw();
  });
  drawing.addEventListener('pointerleave', () => {
    pointer = undefined;
    draw();
  });
  new ResizeObserver(draw).observe(drawing);
}

export function add(sample) {
  points.push({ at: sample.unix_ns / 1e9, rate: sample.txn_per_s });
  while (points[0].at < points.at(-1).at - SPAN_S) points.shift();
}

/** 1, 2 or 5 times a power of ten, so that there are about four lines. */
function step(highest) {
  const power = 10 ** Math.floor(Math.log10(highest / 4));
  return power * [1, 2, 5, 10].find((factor) => factor * power * 4 >= highest);
}

export function draw() {
  const width = drawing.clientWidth;
  if (!width || points.length === 0) return;
  const rates = points.map((point) => point.rate);
  const highest = Math.max(...rates);
  const each = step(Math.max(highest, 10));
  const top = Math.ceil(Math.max(highest, 10) / each) * each;
  const now = points.at(-1).at;
  const span = SPANS_S.find((span) => now - points[0].at < span) ?? SPAN_S;
  const x = (at) => LEFT + (width - LEFT - 2) * (1 - (now - at) / span);
  const y = (rate) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - rate / top);
  const parts = [];
  for (let rate = 0; rate <= top; rate += each) {
    parts.push(svg('line', { class: 'grid', x1: LEFT, x2: width, y1: y(rate), y2: y(rate) }));
    parts.push(label(LEFT - 6, y(rate) + 4, 'end', top < 1e4 ? grouped(rate) : scaled(rate).replace(/\.0+(?=[KMG])/, '')));
  }
  const marks = width < 420 ? 1 : span / MARKS_S[span];
  for (let mark = 0; mark <= marks; mark++) {
    const ago = (span * mark) / marks;
    const anchor = { 0: 'end', [marks]: 'start' }[mark] ?? 'middle';
    const text = ago % 60 === 0 && span > 60 ? `−${ago / 60} min` : `−${ago} s`;
    parts.push(label(x(now - ago), HEIGHT - 4, anchor, mark ? text : 'now'));
  }
  for (const run of runs()) {
    const line = run.map(({ at, rate }) => `${x(at).toFixed(1)},${y(rate).toFixed(1)}`).join(' ');
    const [first, last] = [x(run[0].at), x(run.at(-1).at)];
    parts.push(svg('polygon', { class: 'area', points: `${first},${y(0)} ${line} ${last},${y(0)}` }));
    // One point alone is a dot.
    parts.push(svg('polyline', { class: 'curve', points: run.length > 1 ? line : `${line} ${line}` }));
  }
  parts.push(...cursor(x, now));
  drawing.setAttribute('viewBox', `0 0 ${width} ${HEIGHT}`);
  drawing.replaceChildren(...parts);
  const mean = rates.reduce((sum, rate) => sum + rate, 0) / rates.length;
  setText(words, `now ${grouped(rates.at(-1))}, mean ${grouped(mean)}, highest ${grouped(highest)} txn/s`);
}

function label(x, y, anchor, text) {
  const element = svg('text', { x, y, 'text-anchor': anchor });
  element.textContent = text;
  return element;
}

function runs() {
  const found = [];
  for (const point of points) {
    const last = found.at(-1)?.at(-1);
    if (last && point.at - last.at <= GAP_S) found.at(-1).push(point);
    else found.push([point]);
  }
  return found;
}

/** The value under the pointer. */
function cursor(x, now) {
  if (pointer === undefined) return [];
  const near = points.reduce((best, point) => (Math.abs(x(point.at) - pointer) < Math.abs(x(best.at) - pointer) ? point : best));
  const at = x(near.at);
  const text = `${grouped(near.rate)} txn/s, ${Math.round(now - near.at)} s ago`;
  const isRight = at > drawing.clientWidth / 2;
  return [
    svg('line', { class: 'cursor', x1: at, x2: at, y1: TOP, y2: HEIGHT - BOTTOM }),
    label(at + (isRight ? -6 : 6), TOP + 12, isRight ? 'end' : 'start', text),
  ];
}
