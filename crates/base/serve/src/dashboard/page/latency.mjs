// Transaction latency, if the node measures it: `sample.latency`, one row per stage.
import { byId, el } from './dom.mjs';
import { grouped } from './format.mjs';
import { Table, timeColumn } from './table.mjs';

const COLUMNS = [
  { name: 'until', isText: true, text: (row) => row.stage, order: (row) => row.stage },
  { name: 'count', text: (row) => grouped(row.count ?? 0), order: (row) => row.count ?? 0 },
  ...['p50', 'p90', 'p99', 'max'].map((name) => timeColumn(name, `${name}_us`)),
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
