// Settings of the page for an Ethereum ledger.
import { DROPPED, TXN, cores } from '../figures.mjs';
import { grouped, percent, scaled } from '../format.mjs';
import * as BLOCKS from './blocks.mjs';
import { owner } from './outputs.mjs';
import { account, block, transaction } from './views.mjs';

export { BLOCKS };
export { PANELS } from './panels.mjs';
export { understand } from './words.mjs';

/** Kinds of views. */
export const VIEWS = { block, transaction, address: account, owner };

/** How full the blocks of the last second were. */
function fullness({ evm }) {
  const full = evm && evm.gas_per_s / evm.blocks_per_s / evm.gas_limit;
  return Number.isFinite(full) ? `blocks ${percent(full).replace(/\.\d+/, '')} % full` : '';
}

export const FIGURES = [
  TXN,
  ['block', 'block', (s) => grouped(s.slot), ({ evm }) => (evm?.blocks_per_s ? `${scaled(evm.blocks_per_s)} a second` : '')],
  ['gas', 'gas/s', ({ evm }) => scaled(evm?.gas_per_s ?? 0), fullness],
  DROPPED,
  ['pending', 'wait in the pool', (s) => grouped(s.pending), ({ evm }) => (evm?.queued ? `${grouped(evm.queued)} behind a gap` : '')],
  cores((sample) => sample.tiles.reduce((sum, tile) => sum + tile.cpu, 0)),
];

/** Hidden sections: no links join the stages, no packets have a peer address, and no transaction carries its receipt time. */
export const WITHOUT = ['latency', 'peers', 'links'];

/** Columns of the stages, whose threads share the cores. */
export const TILES = {
  title: 'Stages',
  columns: ['tile', 'time', 'sig', 'stale', '% wait', '% finish', 'heart', 'cores'],
  regimes: ['finish', 'wait'],
};

/** Transactions a second that did not decode. */
const undecodable = (sample) => sample.dropped_per_s.recover_undecodable ?? 0;

/** Steps between the stages, which call each other: no link joins them. */
export const STEPS = [
  ['web3', 'recover', 'transactions', ({ evm }) => evm?.submitted_per_s ?? 0],
  ['recover', 'pool', 'transactions', (sample) => Math.max(0, (sample.evm?.submitted_per_s ?? 0) - undecodable(sample))],
  ['pool', 'exec', 'transactions', (sample) => sample.txn_per_s, (sample) => sample.pending],
  ['exec', 'commit', 'blocks', ({ evm }) => evm?.blocks_per_s ?? 0],
];
