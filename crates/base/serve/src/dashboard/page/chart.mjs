// The chart of transactions per second.
import { Curves, mean } from './curves.mjs';
import { byId } from './dom.mjs';
import { grouped } from './format.mjs';

let curves;

export function setUp() {
  curves = new Curves(byId('chart'), {
    height: 180,
    title: 'chart-title',
    id: 'chart',
    least: 10,
    series: [{ key: 'rate', value: (sample) => sample.txn_per_s }],
    describe: ({ rate }) => `${grouped(rate)} txn/s`,
    summary(points) {
      const rates = points.map(({ rate }) => rate);
      if (rates.every((rate) => rate === 0)) return 'no transaction in the time shown: the curve rises with the next';
      return `now ${grouped(rates.at(-1))}, mean ${grouped(mean(rates))}, highest ${grouped(Math.max(...rates))} txn/s`;
    },
  });
}

export const add = (sample) => curves.add(sample);
export const draw = () => curves.draw();
