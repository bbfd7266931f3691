// How long transactions took, where the node measures that: `sample.latency`, a stage a row, or nothing at all.
import { byId, el } from './dom.mjs';
import { duration, grouped } from './format.mjs';
import { Table } from './table.mjs';

const time = (name, key) => ({
  name,
  text: (row) => (row[key] === null || row[key] === undefined ? '-' : duration(row[key] / 1e6)),
  order: (row) => row[key] ?? -1,
});

const COLUMNS = [
  { name: 'until', isText: true, text: (row) => row.stage, order: (row) => row.stage },
  { name: 'count', text: (row) => grouped(row.count ?? 0), order: (row) => row.count ?? 0 },
  time('p50', 'p50_us'),
  time('p90', 'p90_us'),
  time('p99', 'p99_us'),
  time('max', 'max_us'),
];

let table;

export function setUp() {
  table = new Table('Latency from receipt', COLUMNS, (row) => row.stage);
  byId('latency-table').append(table.element);
}

/** In a second without transactions the last figures stay. */
export function draw({ latency = [] }) {
  if (latency.length === 0) return;
  byId('latency').hidden = false;
  table.show(latency);
}
