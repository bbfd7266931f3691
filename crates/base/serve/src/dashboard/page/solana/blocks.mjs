// The newest blocks of this chain. Their transaction counts are requested only while that is little data.
import { grouped, when } from '../format.mjs';
import { blockRow } from '../pieces.mjs';
import { call } from '../rpc.mjs';
import { CONFIRMED } from './confirmed.mjs';

/** Without a history, how long until the next check for one. */
const NO_HISTORY_MS = 30_000;
const NO_HISTORY = -32011;
/** Above this rate, fetching the lists of signatures would cost the node more than they are worth. */
const COUNTED_BELOW_TXN_PER_S = 500;

export const heads = [{ name: 'slot', isText: true }, { name: 'transactions' }, { name: 'time', isText: true }, { name: 'blockhash', isText: true }];

/** Said while there is no block. */
export const none = 'No confirmed block yet: the first comes a few slots after the start. Where slots come on demand, it comes with the first transaction.';

/** The last slots that have blocks, newest first. */
export async function newest(count) {
  const newest = await call('getSlot', CONFIRMED);
  return (await call('getBlocks', Math.max(0, newest - 4 * count), newest, CONFIRMED)).slice(-count).reverse();
}

/** `[slot, row]` of the blocks that can be shown. */
export async function rows(slots, { txn_per_s: rate }) {
  const isCounted = rate < COUNTED_BELOW_TXN_PER_S;
  const options = { ...CONFIRMED, transactionDetails: isCounted ? 'signatures' : 'none', rewards: false, maxSupportedTransactionVersion: 0 };
  const found = [];
  for (const slot of slots) {
    try {
      const block = await call('getBlock', slot, options);
      const count = isCounted ? [grouped(block.signatures.length)] : ['many', 'nothing'];
      found.push([slot, blockRow('slot', slot, [count, [when(block.blockTime), 'text'], [block.blockhash, 'text mono']])]);
    } catch (error) {
      if (error.code === NO_HISTORY) throw error;
      // Genesis, or a block whose history is not written yet.
    }
  }
  return found;
}

export const refused = ({ code }) =>
  code === NO_HISTORY ? { why: 'This node keeps no history of transactions, so its blocks cannot be shown. A node of `hearth run` keeps one unless `rpc.transaction_history` is false.', rest_ms: NO_HISTORY_MS } : undefined;
