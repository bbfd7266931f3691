// The figures on top that both ledgers have: an id, a name, the value, and a note below it.
import { grouped } from './format.mjs';

const total = (rates) => Object.values(rates).reduce((sum, rate) => sum + rate, 0);

function worst(rates) {
  const [reason] = Object.entries(rates).sort((a, b) => b[1] - a[1])[0] ?? [];
  return reason ? `most: ${reason}` : '';
}

export const TXN = ['txn', 'txn/s', (s) => grouped(s.txn_per_s), (s) => (s.failed_per_s >= 0.5 ? `${grouped(s.failed_per_s)} failed` : '')];
export const DROPPED = ['dropped', 'dropped/s', (s) => grouped(total(s.dropped_per_s)), (s) => worst(s.dropped_per_s)];

/** The number of busy cores, which `busy` computes from a sample. */
export const cores = (busy) => ['cores', 'cores busy', (s) => busy(s).toFixed(2), (s) => (s.cores_allowed ? `of ${s.cores_allowed}` : '')];
