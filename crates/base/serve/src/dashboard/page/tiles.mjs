// The tiles: the monitor's figures, and a strip of where each tile's time went in the last two minutes.
import { byId, el } from './dom.mjs';
import { duration, percent, withDelta } from './format.mjs';
import { TILES } from './ledger/ledger.mjs';
import { Table } from './table.mjs';

/** Regimes in the order in which a strip stacks them, from below; the rest is waiting. */
const ALL_REGIMES = [
  ['finish', 'finish', 'useful work'],
  ['filt2', 'filt2', 'dropped after reading'],
  ['filt1', 'filt1', 'filtered by metadata'],
  ['hkeep', 'hkeep', 'housekeeping'],
  ['ovrnr', 'ovrnr', 'lapped while reading'],
  ['ovrnp', 'ovrnp', 'lapped while polling'],
  ['backp', 'backp', 'a reliable consumer has no room'],
  ['elsewhere', 'other', 'the core ran other tiles'],
  ['wait', 'wait', 'nothing to do'],
];
const REGIMES = ALL_REGIMES.filter(([regime]) => TILES.regimes?.includes(regime) ?? true);
const SECONDS = 120;
const HEIGHT = 22;

/** Each tile's shares of the last seconds, and the total number of seconds. */
const histories = new Map();
const colours = new Map();
let table;

const share = (regime, name, help) => ({
  name: `% ${name}`,
  help,
  text: ({ regimes }) => percent(regimes[regime]),
  order: ({ regimes }) => regimes[regime],
  hot: regime === 'backp' || regime.startsWith('ovrn') ? ({ regimes }) => regimes[regime] >= 0.1 : undefined,
});

const inOrder = ['hkeep', 'backp', 'wait', 'ovrnp', 'ovrnr', 'filt1', 'filt2', 'finish', 'elsewhere'].filter((key) => REGIMES.some(([regime]) => regime === key));

const ALL_COLUMNS = [
  { name: 'tile', isText: true, text: (t) => t.tile, order: (t) => t.tile },
  { name: 'time', help: 'its last two minutes', isText: true, cell: strip },
  { name: 'core', help: 'f floats', isName: true, text: (t) => (t.core === null ? 'f' : `${t.core}`), order: (t) => t.core ?? 1e9 },
  { name: 'sig', help: 'what its loop says', text: (t) => t.state, order: (t) => t.state, hot: (t) => t.state === 'died' },
  { name: 'stale', help: 'since its last heartbeat', text: (t) => (t.stale_s === null ? '-' : duration(t.stale_s)), order: (t) => t.stale_s ?? -1, hot: (t) => t.stale_s > 2 },
  ...inOrder.map((regime) => share(...REGIMES.find(([key]) => key === regime))),
  { name: 'in backp', text: (t) => (t.in_backpressure ? 'yes' : '-'), order: (t) => Number(t.in_backpressure) },
  { name: 'backp cnt', text: (t) => withDelta(t.backpressure_count, t.backpressure_delta), order: (t) => t.backpressure_count },
  { name: 'preempt/s', text: (t) => t.preempted_per_s.toFixed(0), order: (t) => t.preempted_per_s },
  { name: '% taken', help: 'ready, while another program had the core; by the clock this is in finish, too', text: (t) => (t.waited_for_core === null ? '-' : percent(t.waited_for_core)), order: (t) => t.waited_for_core ?? -1, hot: (t) => t.waited_for_core >= 0.1 },
  { name: 'heart', text: (t) => (t.heart ? '♥' : '-'), order: (t) => Number(t.heart) },
  { name: 'tid', text: (t) => `${t.tid}`, order: (t) => t.tid },
  { name: 'cores', help: 'CPU time in a second', text: (t) => t.cpu.toFixed(2), order: (t) => t.cpu },
];
/** The columns that the ledger's tiles use; by default all but the last. */
const COLUMNS = TILES.columns ? ALL_COLUMNS.filter(({ name }) => TILES.columns.includes(name)) : ALL_COLUMNS.slice(0, -1);

export function setUp() {
  byId('tiles-title').firstChild.textContent = `${TILES.title} `;
  byId('legend').append(
    ...REGIMES.map(([key, name, help]) => el('li', { title: help }, el('span', { class: `swatch ${key}` }), name, el('span', { class: 'unseen', text: `: ${help}` }))),
  );
  table = new Table(TILES.title, COLUMNS, (tile) => tile.tile, 'The node has not started its tiles yet: they appear here when it has.');
  byId('tiles').append(table.element);
}

/** Keeps a sample, even while the section is hidden. */
export function add(sample) {
  const known = new Set(sample.tiles.map(({ tile }) => tile));
  for (const name of histories.keys()) if (!known.has(name)) histories.delete(name);
  for (const { tile, regimes } of sample.tiles) {
    const history = histories.get(tile) ?? { shares: [], count: 0 };
    history.shares.push(REGIMES.map(([regime]) => regimes[regime]));
    if (history.shares.length > SECONDS) history.shares.shift();
    history.count += 1;
    histories.set(tile, history);
  }
}

export const draw = (sample) => table.show(sample.tiles);

/** After a change of theme the strips are redrawn with the next sample. */
export function recolour() {
  colours.clear();
  document.querySelectorAll('.strip').forEach((canvas) => delete canvas.drawn);
  table.show(table.data);
}

/** The current colours of the style sheet. */
function colour(regime) {
  if (!colours.has(regime)) colours.set(regime, getComputedStyle(document.querySelector(`.swatch.${regime}`)).backgroundColor);
  return colours.get(regime);
}

function strip({ tile, regimes }, cell) {
  const canvas = cell.firstChild ?? cell.appendChild(el('canvas', { class: 'strip', role: 'img', width: SECONDS, height: HEIGHT }));
  const { shares, count } = histories.get(tile) ?? { shares: [], count: 0 };
  const context = canvas.getContext('2d');
  // Shifts the existing drawing; redraws all of it after a change of theme, or a long time out of sight.
  const fresh = Math.min(count - (canvas.drawn ?? -Infinity), shares.length);
  if (fresh < shares.length) context.drawImage(canvas, -fresh, 0);
  else context.clearRect(0, 0, SECONDS, HEIGHT);
  shares.slice(shares.length - fresh).forEach((each, at) => column(context, SECONDS - fresh + at, each));
  canvas.drawn = count;
  const busiest = REGIMES.reduce((best, regime) => (regimes[regime[0]] > regimes[best[0]] ? regime : best));
  const label = `mostly ${busiest[1]} (${busiest[2]})`;
  if (canvas.getAttribute('aria-label') !== label) canvas.setAttribute('aria-label', label);
}

function column(context, x, shares) {
  let below = 0;
  shares.forEach((value, at) => {
    const [from, to] = [HEIGHT * (1 - below), HEIGHT * (1 - below - value)];
    context.fillStyle = colour(REGIMES[at][0]);
    context.fillRect(x, to, 1, from - to);
    below += value;
  });
}
