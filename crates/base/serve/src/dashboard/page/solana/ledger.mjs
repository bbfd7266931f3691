// Settings of the page for a Solana ledger.
import { DROPPED, TXN, cores } from '../figures.mjs';
import { grouped } from '../format.mjs';
import * as BLOCKS from './blocks.mjs';
import { account, block, transaction } from './views.mjs';

export { BLOCKS };
export { understand } from './words.mjs';

/** Kinds of views. */
export const VIEWS = { slot: block, transaction, address: account };

export const FIGURES = [
  TXN,
  ['slot', 'slot', (s) => grouped(s.slot), () => ''],
  DROPPED,
  ['pending', 'wait in pack', (s) => grouped(s.pending), (s) => (s.held_back ? `${grouped(s.held_back)} held back` : '')],
  cores((sample) => sample.cores.reduce((sum, core) => sum + core.busy, 0)),
];

/** Additional panels. */
export const PANELS = [];

/** Sections of the page without data. */
export const WITHOUT = [];

/** Columns of the tiles. */
export const TILES = { title: 'Tiles', columns: undefined, regimes: undefined };

/** Steps between stages that no link joins. */
export const STEPS = [];
