// Bandwidth by peer over the last five minutes, stacked: received in one chart, sent in another. The peers with most
// traffic in that time have a colour each; all others share one.
import { byId, el, loadHint } from './dom.mjs';
import { bps, scaled } from './format.mjs';
import { Frame, forget } from './frame.mjs';
import { stack } from './stack.mjs';
import { Table } from './table.mjs';

/** Number of peers with a colour. */
const NAMED = 8;
const OTHERS = 'others';
const WAYS = [
  { key: 'received', name: 'In', rate: (row) => row.received_bits_per_s },
  { key: 'sent', name: 'Out', rate: (row) => row.sent_bits_per_s },
];

/** `{at, seconds, received, sent}`, the directions as maps from peer to bits per second. */
const points = [];
/** Colours by peer; a peer keeps its colour while it is among the first. */
const colours = new Map();
let table;

const COLUMNS = [
  { name: 'peer', isText: true, order: (row) => row.peer, cell: named },
  ...WAYS.map(({ name, rate }) => ({ name: `${name} bps`, help: 'in the last second', text: (row) => scaled(rate(row)), order: rate })),
  ...WAYS.map(({ key, name }) => ({ name: `${name} bytes`, help: 'in the time of the charts', text: (row) => scaled(sum(row.peer, key) / 8), order: (row) => sum(row.peer, key) })),
];

export function setUp() {
  for (const way of WAYS) {
    const title = el('h3', { id: `peers-${way.key}-title`, text: way.name });
    const place = el('div', { id: `peers-${way.key}` });
    byId('peers').append(el('div', {}, title, place));
    way.frame = new Frame(place, { height: 150, title: title.id, id: place.id }, drawCharts);
  }
  table = new Table('Bandwidth by peer', COLUMNS, (row) => row.peer, loadHint('No peer sends or receives datagrams now:'));
  byId('peers-table').append(table.element);
}

export function add({ unix_ns, seconds, bandwidth }) {
  const rows = [...bandwidth.peers, bandwidth.others];
  const [received, sent] = WAYS.map(({ rate }) => new Map(rows.map((row) => [row.peer, rate(row)])));
  points.push({ at: unix_ns / 1e9, seconds, received, sent });
  forget(points);
}

/** Bits of a peer within the time of the charts. */
const sum = (peer, key) => points.reduce((bits, point) => bits + point.seconds * (point[key].get(peer) ?? 0), 0);

/** Assigns colours to the heaviest peers; a peer that leaves this group returns its own. */
function colour() {
  const peers = new Set(points.flatMap(({ received }) => [...received.keys()]));
  peers.delete(OTHERS);
  const bits = new Map([...peers].map((peer) => [peer, sum(peer, 'received') + sum(peer, 'sent')]));
  const first = [...peers].sort((a, b) => bits.get(b) - bits.get(a)).slice(0, NAMED);
  for (const peer of colours.keys()) if (!first.includes(peer)) colours.delete(peer);
  for (const peer of first) {
    if (colours.has(peer)) continue;
    const taken = new Set(colours.values());
    colours.set(peer, Array.from({ length: NAMED }, (_, at) => `peer-${at}`).find((one) => !taken.has(one)));
  }
  return first;
}

export function draw({ bandwidth }) {
  const { peers, others } = bandwidth;
  // Charts without any traffic in their time give way to the words below them.
  const isEmpty = points.every(({ received, sent }) => total(received) + total(sent) === 0);
  for (const id of ['peers', 'peers-legend']) byId(id).hidden = isEmpty;
  drawCharts();
  table.show(others.received_bits_per_s + others.sent_bits_per_s > 0 ? [...peers, others] : peers);
}

function drawCharts() {
  const first = colour();
  const layers = [...first.map((peer) => [peer, colours.get(peer)]), [OTHERS, 'peer-others']];
  const own = new Set(first);
  for (const { key, frame } of WAYS) {
    const value = (peer) => (peer === OTHERS ? (point) => total(point[key]) - ofNamed(point[key], own) : (point) => point[key].get(peer) ?? 0);
    stack(frame, points, layers.map(([peer, colour]) => ({ name: peer, colour, value: value(peer) })), { least: 1000, format: bps });
  }
  byId('peers-legend').replaceChildren(...layers.map(([peer, colour]) => el('li', {}, el('span', { class: `swatch ${colour}` }), peer)));
}

const total = (rates) => [...rates.values()].reduce((bits, rate) => bits + rate, 0);

/** Total of the peers that have a layer of their own. */
const ofNamed = (rates, own) => [...rates].reduce((bits, [peer, rate]) => (peer !== OTHERS && own.has(peer) ? bits + rate : bits), 0);

/** A name with its colour. */
function named({ peer }, cell) {
  const colour = colours.get(peer) ?? 'peer-others';
  if (cell.dataset.colour === colour) return;
  cell.dataset.colour = colour;
  cell.replaceChildren(el('span', { class: 'key' }, el('span', { class: `swatch ${colour}` }), peer));
}
