// The picture of the pipeline: a box for each kind of tile in the order of the data flow, an arc for each link. In a
// wide window the boxes are in a row, arcs that go forward are above it and those that go back below; in a narrow one
// they are in a column, with the arcs on its right and left. Nothing in it moves between two samples.
import { byId, el, loadHint, setText, svg } from './dom.mjs';
import { arcInWords, boxInWords, flow, inWords, noteOf, share, troubleOf, troubleText } from './flow.mjs';
import { scaled } from './format.mjs';
import { STEPS } from './ledger/ledger.mjs';

/** The least room of a box in a row; with less, the boxes are in a column. */
const STEP_LEAST = 55;
const ROW = { length: 62, gap: 7, first: 22, each: 14 };
const COLUMN = { length: 46, gap: 14, room: 88, reaches: [14, 25, 46], furthest: 54 };
/** The widest box of a row, and of a column. */
const WIDEST = 130;
const COLUMN_WIDEST = 420;
/** A box narrower than this has small letters, and its count in another line. */
const NARROW = 60;
/** Half an arrow head's width, and its length. */
const HEAD = [4, 7];

let drawing;
let words;
let hint;
let width = 0;
let newest;
/** What the elements were made for, and the functions that fill them in. */
let made = { of: '', fill: [] };

export function setUp() {
  const keys = [['', 'forward above, back below (in a column: right, left)'], ['full', 'half full or more, or its producer waits for room'], ['lost', 'frags were lost']];
  // Stages have no links that could be full.
  const shown = STEPS.length ? keys.slice(0, 1) : keys;
  byId('pipeline-legend').append(...shown.map(([trouble, text]) => el('li', {}, sampleOf(trouble), text)));
  words = el('p', { class: 'quiet', id: 'pipeline-words', text: 'no figures yet: they come a second after the node has started' });
  hint = el('p', { class: 'empty', hidden: true }, loadHint('Nothing is sent to this node now:'));
  drawing = svg('svg', { role: 'img', 'aria-labelledby': 'pipeline-title', 'aria-describedby': 'pipeline-words' });
  byId('pipeline').append(drawing, words, hint);
  new ResizeObserver(([{ contentRect }]) => {
    if (Math.round(contentRect.width) === width) return;
    width = Math.round(contentRect.width);
    if (newest) draw(newest);
  }).observe(byId('pipeline'));
}

/** A short arc for the legend. */
const sampleOf = (trouble) => svg('svg', { class: 'arc-sample', width: 26, height: 10, 'aria-hidden': 'true' }, svg('path', { class: `arc moves ${trouble}`, d: 'M1 5H25' }));

export function draw(sample) {
  newest = sample;
  const found = flow(sample, STEPS);
  setText(words, inWords(found));
  hint.hidden = sample.diagnosis.finding !== 'idle';
  if (!width) return;
  const of = [width, ...found.boxes.map(({ kind }) => kind), ...found.arcs.map(({ from, to }) => `${from} ${to}`)].join();
  if (of !== made.of) made = { of, fill: build(found) };
  for (const fill of made.fill) fill(found);
}

/** Makes the elements; returns functions that fill in the figures of a flow with the same boxes and arcs. */
function build({ boxes, arcs }) {
  const at = new Map(boxes.map(({ kind }, index) => [kind, index]));
  const spans = arcs.map(({ from, to }) => at.get(to) - at.get(from));
  const places = width / boxes.length >= STEP_LEAST ? row(boxes.length, spans) : column(boxes.length, spans);
  drawing.setAttribute('viewBox', `0 0 ${width} ${places.height}`);
  drawing.setAttribute('height', places.height);
  const lines = arcs.map((arc, index) => arcElements(places.arc(at.get(arc.from), at.get(arc.to)), index));
  const cells = boxes.map(({ kind }, index) => boxElements(places.box(index), kind, index));
  // Labels are over all lines.
  drawing.replaceChildren(...lines.map(({ line }) => line), ...cells.map(({ group }) => group), ...lines.map(({ label }) => label));
  return [...lines, ...cells].map(({ fill }) => fill);
}

/** Boxes from left to right. */
function row(count, spans) {
  const high = (spans, sign) => Math.max(0, ...spans.filter((span) => span * sign > 0).map(Math.abs));
  const height = (span) => ROW.first + ROW.each * (span - 1);
  // Room for the highest arc and its label.
  const [above, below] = [1, -1].map((sign) => (high(spans, sign) ? height(high(spans, sign)) + 28 : 6));
  const step = width / count;
  const size = Math.min(step - ROW.gap, WIDEST);
  const middle = (index) => step * (index + 0.5);
  return {
    height: above + ROW.length + below,
    box: (index) => ({ x: middle(index) - size / 2, y: above, width: size, height: ROW.length }),
    arc(from, to) {
      const [forward, span] = [to > from, Math.abs(to - from)];
      const out = forward ? -1 : 1;
      const edge = forward ? above : above + ROW.length;
      // Arcs leave a box on the side to which they go, and reach one on the side from which they come.
      const [start, end] = [middle(from) - (out * size) / 5, middle(to) + (out * size) / 5];
      const apex = edge + out * height(span);
      const control = edge + (out * height(span) * 4) / 3;
      return {
        path: `M${start} ${edge}C${start} ${control} ${end} ${control} ${end} ${edge}`,
        head: `M${end - HEAD[0]} ${edge + out * HEAD[1]}H${end + HEAD[0]}L${end} ${edge}z`,
        label: { x: (start + end) / 2, y: apex + (forward ? -4 : 12), 'text-anchor': 'middle' },
        more: out * 11,
      };
    },
  };
}

/** Boxes from top to bottom. */
function column(count, spans) {
  const { length: near } = COLUMN.reaches;
  const most = Math.max(near + 1, ...spans.map(Math.abs));
  // Arcs with the same middle, of one place and of three, have their labels beside each other.
  const reach = (span) => COLUMN.reaches[span - 1] ?? COLUMN.reaches[near - 1] + ((COLUMN.furthest - COLUMN.reaches[near - 1]) * (span - near)) / (most - near);
  const step = COLUMN.length + COLUMN.gap;
  const size = Math.min(width - 2 * COLUMN.room, COLUMN_WIDEST);
  const left = (width - size) / 2;
  return {
    height: step * count,
    box: (index) => ({ x: left, y: index * step + 1, width: size, height: COLUMN.length }),
    arc(from, to) {
      const [forward, span] = [to > from, Math.abs(to - from)];
      const out = forward ? 1 : -1;
      const edge = forward ? left + size : left;
      const middle = (index) => index * step + 1 + COLUMN.length / 2;
      const [start, end] = [middle(from) + out * 9, middle(to) - out * 9];
      const control = edge + (out * reach(span) * 4) / 3;
      return {
        path: `M${edge} ${start}C${control} ${start} ${control} ${end} ${edge} ${end}`,
        head: `M${edge + out * HEAD[1]} ${end - HEAD[0]}V${end + HEAD[0]}L${edge} ${end}z`,
        label: { x: edge + out * (reach(span) + 3), y: (start + end) / 2 + 4, 'text-anchor': forward ? 'start' : 'end' },
        more: 11,
      };
    },
  };
}

/** Sets an attribute only if it changes. */
function set(element, name, value) {
  if (element.getAttribute(name) !== `${value}`) element.setAttribute(name, value);
}

function arcElements({ path, head, label: place, more }, index) {
  const title = svg('title');
  const line = svg('g', {}, title, svg('path', { class: 'reach', d: path }), svg('path', { class: 'line', d: path }), svg('path', { class: 'head', d: head }));
  const [rate, trouble] = [svg('text', place), svg('text', { ...place, y: place.y + more })];
  const label = svg('g', { class: 'arc-label' }, rate, trouble);
  return {
    line,
    label,
    fill({ arcs }) {
      const arc = arcs[index];
      const [kind, moves] = [troubleOf(arc), arc.rate > 0];
      set(line, 'class', `arc ${moves ? 'moves' : ''} ${kind}`);
      set(label, 'class', `arc-label ${kind}`);
      setText(title, arcInWords(arc));
      setText(rate, moves || kind ? scaled(arc.rate) : '');
      setText(trouble, troubleText(arc));
    },
  };
}

function boxElements({ x, y, width: size, height }, kind, index) {
  const title = svg('title');
  const text = (name, line, content = '') => {
    const element = svg('text', { class: name, x: x + size / 2, y: y + line, 'text-anchor': 'middle' });
    element.textContent = content;
    return element;
  };
  // In a column the boxes are flat: the last two lines are one.
  const isFlat = height < ROW.length;
  const isNarrow = size < NARROW;
  const [name, busy, note] = [text('kind', 15, kind), text('busy', isFlat ? 40 : 42), text('note', 55)];
  const meter = { x: x + 8, y: y + 21, height: 7 };
  const whole = svg('rect', { class: 'meter', ...meter, width: size - 16, rx: 2 });
  const [own, held] = ['own', 'held'].map((name) => svg('rect', { class: name, ...meter, width: 0 }));
  const group = svg('g', {}, title, svg('rect', { class: 'frame', x, y, width: size, height, rx: 7 }), name, whole, own, held, busy, note);
  const length = (part) => Math.max(0, Math.min(1, part) * (size - 16)).toFixed(1);
  return {
    group,
    fill({ boxes }) {
      const box = boxes[index];
      const [said, style] = noteOf(box);
      set(group, 'class', `box ${isNarrow ? 'narrow' : ''} ${box.count ? '' : 'outside'} ${box.isLimit ? 'is-limit' : ''} ${style === 'bad' ? 'is-bad' : ''}`);
      setText(title, boxInWords(box));
      const count = box.count > 1 ? `×${box.count}` : '';
      setText(name, isNarrow ? kind : `${kind} ${count}`.trim());
      set(own, 'width', length(box.busy));
      set(held, 'width', length(box.blocked));
      set(held, 'x', x + 8 + Number(length(box.busy)));
      const shown = box.count ? `${isNarrow ? count : ''} ${share(box.busy)}`.trim() : '';
      setText(busy, isFlat && said ? `${shown} · ${said}` : shown);
      setText(note, isFlat ? '' : said);
      set(isFlat ? busy : note, 'class', `${isFlat ? 'busy' : 'note'} ${style}`);
    },
  };
}
