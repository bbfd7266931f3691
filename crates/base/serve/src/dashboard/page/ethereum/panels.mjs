// Panels that only nodes of this chain have: blocks with their gas and durations, and the pool.
import { Curves, mean } from '../curves.mjs';
import { el, loadHint } from '../dom.mjs';
import { duration, grouped, scaled } from '../format.mjs';
import { Table, timeColumn } from '../table.mjs';

const TOTAL = 'total';

/** Description of each part of a block's time. */
const PARTS = {
  begin: 'transactions are chosen',
  check: 'what was submitted meanwhile is checked, on all threads',
  deliver: 'transactions are executed',
  end: 'receipts and their roots are made',
  evm_commit: "the state's root is made, and the state is committed",
  commit: 'the block is written and published',
  [TOTAL]: 'all of it, from choosing to publishing',
};

/** A card `{section, place(id, title)}` with charts next to each other. */
function card(id, title, note) {
  const heading = el('h2', { id: `${id}-title` }, `${title} `, el('small', { text: note }));
  const charts = el('div', { class: 'charts' });
  const section = el('section', { class: 'card', 'aria-labelledby': heading.id }, heading, charts);
  const chart = (name, options) => {
    const place = el('div', { id: `${id}-${name}` });
    const subtitle = options.title && el('h3', { id: `${id}-${name}-title`, text: options.title });
    charts.append(el('div', {}, subtitle, place));
    return new Curves(place, { height: 150, id: place.id, ...options, title: subtitle?.id ?? heading.id });
  };
  return { section, chart };
}

/** Median duration of a second's blocks, in milliseconds; undefined if there were none. */
function took({ evm }) {
  const total = evm?.block_parts.find(({ stage }) => stage === TOTAL);
  return total && total.p50_us / 1000;
}

const ms = (value) => duration(value / 1000);

function blocksPanel() {
  let gas;
  let time;
  let table;
  const columns = [
    { name: 'part', isText: true, text: ({ stage }) => stage, order: ({ stage }) => stage },
    { name: 'blocks', text: ({ count }) => grouped(count), order: ({ count }) => count },
    ...['p50', 'p90', 'p99', 'max'].map((name) => timeColumn(name, `${name}_us`)),
    { name: 'which is', isText: true, text: ({ stage }) => PARTS[stage] ?? '' },
  ];
  return {
    setUp() {
      const { section, chart } = card('making', 'Making blocks', 'gas, and time of their parts in the last second that had one');
      gas = chart('gas', {
        title: 'Gas a second',
        least: 100_000,
        series: [{ key: 'gas', value: ({ evm }) => evm?.gas_per_s }],
        describe: (point) => `${scaled(point.gas)} gas/s`,
        summary: (points) => `now ${scaled(points.at(-1).gas)}, mean ${scaled(mean(points.map((point) => point.gas)))} gas/s`,
      });
      time = chart('time', {
        title: 'Time of a block, ms',
        empty: 'no block since this page was opened',
        least: 4,
        series: [{ key: 'took', value: took }],
        describe: (point) => ms(point.took),
        summary: (points) => `last ${ms(points.at(-1).took)}, longest ${ms(Math.max(...points.map((point) => point.took)))}; medians of a second`,
      });
      table = new Table('Parts of a block’s time', columns, ({ stage }) => stage, loadHint('No block has been made since this page was opened:'));
      section.append(table.element);
      return section;
    },
    add(sample) {
      gas.add(sample);
      time.add(sample);
    },
    draw({ evm }) {
      gas.draw();
      time.draw();
      // In a second without blocks the last figures stay.
      if (evm?.block_parts.length || table.data.length === 0) table.show(evm?.block_parts ?? []);
    },
  };
}

function poolPanel() {
  let curves;
  return {
    setUp() {
      const { section, chart } = card('pool', 'Pool', 'transactions that wait, up to 5 minutes back');
      curves = chart('depth', {
        least: 10,
        series: [
          { key: 'pending', value: (sample) => sample.pending },
          { key: 'queued', value: ({ evm }) => evm?.queued ?? 0 },
        ],
        describe: ({ pending, queued }) => `${grouped(pending)} ready${queued ? `, ${grouped(queued)} behind a gap` : ''}`,
        summary(points) {
          const { pending, queued } = points.at(-1);
          const isEmpty = points.every((point) => point.pending + point.queued === 0);
          return `now ${grouped(pending)} that can be executed, ${grouped(queued)} behind a gap in their account’s nonces (dashed); most ${grouped(Math.max(...points.map((point) => point.pending)))}${isEmpty ? '; blocks take transactions as they come' : ''}`;
        },
      });
      return section;
    },
    add: (sample) => curves.add(sample),
    draw: () => curves.draw(),
  };
}

export const PANELS = [blocksPanel(), poolPanel()];
