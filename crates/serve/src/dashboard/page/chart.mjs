// Transactions a second over the last five minutes, as a curve; over less until there are figures of so long.
import { byId, svg } from './dom.mjs';
import { grouped } from './format.mjs';
import { Frame, forget, runs } from './frame.mjs';

const points = [];
let frame;

export function setUp() {
  frame = new Frame(byId('chart'), { height: 180, title: 'chart-title', id: 'chart' }, draw);
}

export function add(sample) {
  points.push({ at: sample.unix_ns / 1e9, rate: sample.txn_per_s });
  forget(points);
}

export function draw() {
  const rates = points.map((point) => point.rate);
  const highest = Math.max(...rates);
  const axes = frame.axes(points, highest, 10);
  if (!axes) return;
  const { x, y, parts } = axes;
  for (const run of runs(points)) {
    const line = run.map(({ at, rate }) => `${x(at).toFixed(1)},${y(rate).toFixed(1)}`).join(' ');
    const [first, last] = [x(run[0].at), x(run.at(-1).at)];
    parts.push(svg('polygon', { class: 'area', points: `${first},${y(0)} ${line} ${last},${y(0)}` }));
    // One point alone is a dot.
    parts.push(svg('polyline', { class: 'curve', points: run.length > 1 ? line : `${line} ${line}` }));
  }
  parts.push(...frame.cursor(points, axes, ({ rate }) => `${grouped(rate)} txn/s`));
  const mean = rates.reduce((sum, rate) => sum + rate, 0) / rates.length;
  frame.show(parts, `now ${grouped(rates.at(-1))}, mean ${grouped(mean)}, highest ${grouped(highest)} txn/s`);
}
