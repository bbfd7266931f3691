// What the picture of the pipeline shows, computed from a sample: a box for each kind of tile, an arc for each pair of
// kinds that a link joins. Needs no document.
import { grouped, percent, scaled } from './format.mjs';

/** A link filled to this share is nearly full: its consumer does not keep up. */
const NEARLY_FULL = 0.5;
/** A smaller share of blocked time is not worth a word. */
const NOTABLE = 0.05;
/** Findings that name no limit. */
const WELL = ['room', 'idle'];

const kindOf = (tile) => tile.split(':')[0];
const used = ({ wait, backp, elsewhere }) => 1 - wait - backp - elsewhere;
const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

/**
 * `steps` are the arcs of a ledger whose stages no link joins: `[from, to, unit, rate(sample), waiting(sample)]`.
 * Returns `{boxes, arcs}`; `from` and `to` of an arc are kinds, both of which have a box.
 */
export function flow(sample, steps = []) {
  const arcs = new Map();
  for (const link of sample.links) add(arcs, link);
  for (const [from, to, unit, rate, waiting] of steps) {
    arcs.set(`${from} ${to}`, { from, to, unit, rate: rate(sample), waiting: waiting?.(sample) ?? 0, depth: 0, filled: 0, held: 0, lost: 0 });
  }
  const boxes = new Map();
  for (const tile of sample.tiles) {
    if (!boxes.has(tile.kind)) boxes.set(tile.kind, []);
    boxes.get(tile.kind).push(tile);
  }
  // A producer that is no tile, such as the RPC, has a box in front.
  const outside = [...arcs.values()].flatMap(({ from, to }) => [from, to]).filter((kind) => !boxes.has(kind));
  const { finding, kind: limit } = sample.diagnosis;
  return {
    boxes: [
      ...[...new Set(outside)].map((kind) => ({ kind, count: 0, busy: 0, blocked: 0, dropped: 0 })),
      ...[...boxes].map(([kind, tiles]) => ({
        kind,
        count: tiles.length,
        busy: mean(tiles.map(({ regimes }) => used(regimes))),
        blocked: mean(tiles.map(({ regimes }) => regimes.backp)),
        dropped: droppedBy(kind, sample),
        isDead: tiles.some(({ state }) => state === 'died'),
        isLimit: kind === limit && !WELL.includes(finding),
      })),
    ],
    arcs: [...arcs.values()],
  };
}

/** Adds one consumer of one link to the arc of its kinds. */
function add(arcs, link) {
  const [from, to] = [kindOf(link.producer || link.link.split('_')[0]), kindOf(link.consumer)];
  const key = `${from} ${to}`;
  const arc = arcs.get(key) ?? { from, to, unit: 'frags', rate: 0, waiting: 0, depth: 0, filled: 0, held: 0, lost: 0 };
  arcs.set(key, arc);
  arc.rate += link.unique_per_s;
  arc.held += link.slow_delta;
  arc.lost += link.overrun_poll_delta + link.overrun_read_delta;
  const filled = link.depth ? link.waiting / link.depth : 0;
  if (filled >= arc.filled) Object.assign(arc, { filled, waiting: link.waiting, depth: link.depth });
}

/** Reasons begin with the kind of the tile that drops. */
const droppedBy = (kind, { dropped_per_s: all }) => Object.entries(all).reduce((sum, [reason, rate]) => (kindOf(reason.replace('_', ':')) === kind ? sum + rate : sum), 0);

/** What is remarkable about an arc: `lost`, `full`, or nothing. */
export const troubleOf = ({ lost, held, filled }) => (lost > 0 ? 'lost' : held > 0 || filled >= NEARLY_FULL ? 'full' : '');

/** The same in a few letters: how full its link is, how often it has stopped its producer, or how much was lost. */
export function troubleText(arc) {
  const { lost, held, filled } = arc;
  return { lost: `${grouped(lost)} lost`, full: filled >= NEARLY_FULL ? `${share(filled)} full` : `held ${grouped(held)}×`, '': '' }[troubleOf(arc)];
}

/** How much waits on an arc. */
export const backlogOf = ({ waiting, depth }) => (depth ? `${grouped(waiting)} of ${grouped(depth)} waiting` : `${grouped(waiting)} waiting`);

export function arcInWords(arc) {
  const { from, to, unit, rate, held, lost } = arc;
  const more = [held > 0 && `held ${from} up ${grouped(held)} times in the last second`, lost > 0 && `${grouped(lost)} lost in the last second`].filter(Boolean);
  return [`${from} to ${to}: ${scaled(rate)} ${unit} a second`, backlogOf(arc), ...more].join(', ');
}

/** The short text in a box's last line, with its class. */
export function noteOf({ isDead, dropped, blocked, isLimit }) {
  if (isDead) return ['died', 'bad'];
  if (dropped > 0) return [`drops ${scaled(dropped)}`, 'bad'];
  if (blocked >= NOTABLE) return [`waits ${share(blocked)}`, 'waits'];
  return isLimit ? ['the limit', 'limit'] : ['', ''];
}

export const share = (part) => `${percent(part).replace(/\.\d+/, '')} %`;

export function boxInWords({ kind, count, busy, blocked, dropped, isDead, isLimit }) {
  if (count === 0) return `${kind}: threads beside the tiles`;
  const parts = [`${count} ${count > 1 ? 'tiles' : 'tile'}`, `${share(busy)} busy`, blocked >= NOTABLE && `${share(blocked)} waiting for a full consumer`, dropped > 0 && `${scaled(dropped)} dropped a second`, isDead && 'one has died', isLimit && 'it is the limit'];
  return `${kind}: ${parts.filter(Boolean).join(', ')}`;
}

/** The picture in a few sentences: the busiest kind, the fullest link, what is lost and dropped. */
export function inWords({ boxes, arcs }) {
  const tiles = boxes.filter(({ count }) => count > 0);
  if (tiles.length === 0) return 'no figures yet';
  const most = (items, value) => items.reduce((best, item) => (value(item) > value(best) ? item : best));
  const busiest = most(tiles, ({ busy }) => busy);
  const said = [`Busiest: ${busiest.kind}, ${share(busiest.busy)}.`];
  const waiting = arcs.filter((arc) => arc.waiting > 0);
  if (waiting.length) {
    const fullest = most(waiting, ({ filled, depth, waiting: count }) => (depth ? filled : count));
    said.push(`Most waits from ${fullest.from} to ${fullest.to}: ${backlogOf(fullest)}.`);
  } else said.push('Nothing waits.');
  const held = arcs.filter((arc) => arc.held > 0).map(({ from, to }) => `${to} holds ${from} up`);
  if (held.length) said.push(`Back-pressure: ${held.join(', ')}.`);
  const lost = arcs.filter((arc) => arc.lost > 0).map(({ from, to, lost: count }) => `${from} to ${to} ${grouped(count)}`);
  if (lost.length) said.push(`Lost on links: ${lost.join(', ')}.`);
  const dropped = tiles.filter((box) => box.dropped > 0).map((box) => `${box.kind} ${scaled(box.dropped)}`);
  said.push(dropped.length ? `Dropped a second: ${dropped.join(', ')}.` : 'Nothing is dropped.');
  return said.join(' ');
}
