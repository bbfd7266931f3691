// The node's cluster on this machine: the map, each node's slot and rates, and traffic by host. Any of its nodes serves
// this page; the serving node polls the others once a second.
import { byId, el, setText } from './dom.mjs';
import { bps, grouped, scaled } from './format.mjs';
import { Frame, forget } from './frame.mjs';
import { stack } from './stack.mjs';
import { Table } from './table.mjs';
import { WorldMap, isOff, stateOf } from './worldmap.mjs';

/** Number of nodes with a colour of their own; the others share one. */
const NAMED = 12;
/** A node that reports no cluster for this many seconds is in none. */
const PATIENCE = 4;
const OTHERS = 'peer-others';

const txns = (rate) => `${grouped(rate)} txn/s`;
/** Figures that are stacked by host. */
const CHARTS = [
  { key: 'left_txn_per_s', id: 'left', name: 'Transactions out of the shred tile', least: 10, format: txns, more: executed },
  { key: 'sent_bits_per_s', id: 'sent', name: 'Bandwidth, sent', least: 1000, format: bps },
  { key: 'received_bits_per_s', id: 'received', name: 'Bandwidth, received', least: 1000, format: bps },
];

/** `{at, nodes}`: each node's activity in that second. */
const points = [];
let names = [];
let map;
let table;
let waited = 0;

const colourOf = (node) => {
  const at = names.indexOf(node);
  return at >= 0 && at < NAMED ? `peer-${at}` : OTHERS;
};

const shown = (value, text) => (value === null || value === undefined ? '-' : text(value));
const sum = (nodes, key) => nodes.reduce((all, node) => all + (node[key] ?? 0), 0);
const highest = (nodes, key) => Math.max(...nodes.map((node) => node[key] ?? 0));

/** Figures on top: an id, a name, the value, and a note below it. */
const FIGURES = [
  ['left', 'txn/s out of shred', ({ nodes }) => grouped(sum(nodes, 'left_txn_per_s')), () => 'in blocks that leave their leaders'],
  ['slot', 'slot', ({ nodes }) => grouped(highest(nodes, 'slot')), () => ''],
  ['up', 'nodes up', ({ nodes }) => `${nodes.filter(({ state }) => state === 'serves').length}`, ({ nodes }) => `of ${nodes.length}`],
  ['behind', 'slots behind', ({ nodes }) => grouped(highest(nodes, 'slots_behind')), () => 'the furthest'],
  ['sent', 'sent', ({ nodes }) => bps(sum(nodes, 'sent_bits_per_s')), () => 'by all hosts'],
];

const COLUMNS = [
  { name: 'node', isText: true, order: ({ node }) => node, cell: named },
  { name: 'state', isText: true, text: stateOf, order: stateOf, hot: isOff },
  { name: 'slot', help: 'the last that it has executed', text: ({ slot }) => shown(slot, grouped), order: ({ slot }) => slot ?? -1 },
  { name: 'behind', help: 'slots that another node has executed and it has not', isName: true, text: (row) => shown(row.slots_behind, grouped), order: (row) => row.slots_behind ?? -1, hot: (row) => row.slots_behind > 8 },
  { name: 'TPS out', help: 'transactions a second of its own blocks whose shreds have left its shred tile', text: (row) => shown(row.left_txn_per_s, grouped), order: (row) => row.left_txn_per_s ?? -1 },
  { name: 'TPS executed', help: 'transactions a second that it has executed, its own blocks’ and others’', text: (row) => shown(row.txn_per_s, grouped), order: (row) => row.txn_per_s ?? -1 },
  { name: 'sent bps', help: 'datagrams of its net tiles', text: (row) => shown(row.sent_bits_per_s, scaled), order: (row) => row.sent_bits_per_s ?? -1 },
  { name: 'received bps', help: 'datagrams of its net tiles', text: (row) => shown(row.received_bits_per_s, scaled), order: (row) => row.received_bits_per_s ?? -1 },
  { name: 'region', isText: true, text: ({ place }) => place, order: ({ place }) => place },
  { name: 'role', isText: true, text: ({ role }) => role, order: ({ role }) => role },
];

function card(id, title, note, ...children) {
  const heading = el('h2', { id: `${id}-title` }, `${title} `, el('small', { text: note }));
  return el('section', { class: 'card', 'aria-labelledby': heading.id }, heading, children);
}

/** Creates the elements; returns the section that holds them. */
export function setUp() {
  const figure = ([id, name], at) => el('div', { class: at === 0 && 'first' }, el('dt', { text: name }), el('dd', { id: `cluster-${id}` }, el('span', { text: '–' }), el('small')));
  const places = Object.fromEntries(['map', 'nodes', ...CHARTS.map(({ id }) => id)].map((id) => [id, el('div', { id: `cluster-${id}-place` })]));
  const legend = el('ul', { class: 'legend', id: 'cluster-legend', 'aria-label': 'Colours of the hosts' });
  const charts = CHARTS.map(({ id, name }) => el('div', {}, el('h3', { id: `cluster-${id}-title`, text: name }), places[id]));
  const inner = el(
    'div',
    { id: 'cluster-shown', hidden: true },
    el('div', { class: 'now' }, el('dl', { class: 'figures' }, FIGURES.map(figure))),
    card('cluster-map', 'Map', 'regions, round trips, nodes', places.map),
    card('cluster-hosts', 'By host', 'a second, one on the other; up to 5 minutes back', legend, el('div', { class: 'charts three' }, charts)),
    card('cluster-nodes', 'Nodes', 'in the last second', places.nodes),
  );
  const section = el('section', { 'aria-label': 'Cluster' }, el('p', { class: 'quiet', id: 'cluster-note', text: 'asking the nodes …' }), inner);
  byId('cluster').append(section);
  map = new WorldMap(places.map, 'cluster-map-title');
  table = new Table('Nodes', COLUMNS, ({ node }) => node);
  places.nodes.append(table.element);
  for (const chart of CHARTS) chart.frame = new Frame(places[chart.id], { height: 180, title: `cluster-${chart.id}-title`, id: `cluster-chart-${chart.id}` }, drawCharts);
  return section;
}

/** Keeps a sample, even while the section is hidden. */
export function add({ cluster }) {
  waited += 1;
  byId('views').hidden = !cluster;
  // A round that takes longer than a second is reported twice.
  if (!cluster || points.at(-1)?.at === cluster.unix_ns / 1e9) return;
  names = cluster.nodes.map(({ node }) => node);
  points.push({ at: cluster.unix_ns / 1e9, nodes: new Map(cluster.nodes.map((node) => [node.node, node])) });
  forget(points);
}

export function draw({ cluster }) {
  byId('cluster-note').hidden = Boolean(cluster);
  byId('cluster-shown').hidden = !cluster;
  if (!cluster) {
    if (waited > PATIENCE) setText(byId('cluster-note'), 'This node is not part of a cluster on this machine; `hearth cluster up` starts one.');
    return;
  }
  for (const [id, , value, note] of FIGURES) {
    const [figure, small] = byId(`cluster-${id}`).children;
    setText(figure, value(cluster));
    setText(small, note(cluster));
  }
  map.show(cluster, colourOf);
  table.show(cluster.nodes.map((node) => ({ ...node, others: cluster.nodes.length - 1, place: cluster.regions[node.region].name })));
  drawCharts();
}

/** A layer for each node with a colour of its own, and one for the rest. */
function layers(key) {
  const of = (name) => (point) => point.nodes.get(name)?.[key] ?? 0;
  const rest = names.slice(NAMED).map(of);
  const own = names.slice(0, NAMED).map((name) => ({ name, colour: colourOf(name), value: of(name) }));
  return rest.length ? [...own, { name: 'others', colour: OTHERS, value: (point) => rest.reduce((all, value) => all + value(point), 0) }] : own;
}

function drawCharts() {
  if (points.length === 0) return;
  for (const { key, frame, least, format, more } of CHARTS) stack(frame, points, layers(key), { least, format, more: more?.() });
  const colours = layers('slot').map(({ name, colour }) => el('li', {}, el('span', { class: `swatch ${colour}` }), name));
  byId('cluster-legend').replaceChildren(...colours);
}

/** Transactions that nodes execute, from their own blocks or from others'. */
function executed() {
  const found = [...points.at(-1).nodes.values()].map((node) => node.txn_per_s).filter((rate) => rate !== null);
  return found.length ? `; nodes execute ${grouped(Math.min(...found))} to ${grouped(Math.max(...found))}` : '';
}

/** A node with its colour; a click opens its own dashboard. */
function named({ node, rpc, state }, cell) {
  const key = `${node} ${rpc} ${state} ${colourOf(node)}`;
  if (cell.dataset.key === key) return;
  cell.dataset.key = key;
  const link = state === 'serves' ? el('a', { href: `${rpc}/dashboard#/cluster`, text: node }) : node;
  cell.replaceChildren(el('span', { class: 'key' }, el('span', { class: `swatch ${colourOf(node)}` }), link));
}
