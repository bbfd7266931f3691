// The ledger of this node is Ethereum's.
import { DROPPED, TXN, cores } from '../figures.mjs';
import { grouped, percent, scaled } from '../format.mjs';
import * as BLOCKS from './blocks.mjs';
import { owner } from './outputs.mjs';
import { account, block, transaction } from './views.mjs';

export { BLOCKS };
export { PANELS } from './panels.mjs';
export { understand } from './words.mjs';

/** What there is a view of. */
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

/** No links join its stages, no packets come by address, and no transaction carries the time of its receipt. */
export const WITHOUT = ['latency', 'peers', 'links'];

/** Its stages are work on threads that share the cores. */
export const TILES = {
  title: 'Stages',
  columns: ['tile', 'time', 'sig', 'stale', '% wait', '% finish', 'heart', 'cores'],
  regimes: ['finish', 'wait'],
};
