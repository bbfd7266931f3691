// The newest blocks of this chain: headers and transaction counts, which are little data at any rate.
import { grouped, scaled, when } from '../format.mjs';
import { blockRow } from '../pieces.mjs';
import { call, together } from '../rpc.mjs';
import { gwei, number, quantity } from './words.mjs';

export const heads = [
  { name: 'block', isText: true },
  { name: 'transactions' },
  { name: 'gas' },
  { name: '% full' },
  { name: 'base fee' },
  { name: 'time', isText: true },
  { name: 'hash', isText: true },
];

/** Said while there is no block. */
export const none = 'No block yet: the chain has not begun.';

/** The last blocks, newest first. */
export async function newest(count) {
  const head = number(await call('eth_blockNumber'));
  return Array.from({ length: Math.min(count, head + 1) }, (_, back) => head - back);
}

/** `[number, row]` of the blocks that can be shown: a chain may be reverted meanwhile. */
export async function rows(numbers) {
  const asked = ['eth_getHeaderByNumber', 'eth_getBlockTransactionCountByNumber'];
  const found = await together(numbers.flatMap((block) => asked.map((method) => [method, quantity(block)])));
  return numbers.flatMap((block, at) => {
    const [header, count] = [found[2 * at], found[2 * at + 1]];
    return header && count ? [[block, row(block, header, number(count))]] : [];
  });
}

function row(block, { gasUsed, gasLimit, baseFeePerGas, timestamp, hash }, count) {
  const gas = number(gasUsed);
  return blockRow('block', block, [
    [grouped(count), count ? undefined : 'nothing'],
    [scaled(gas), gas ? undefined : 'nothing'],
    [((100 * gas) / number(gasLimit)).toFixed(1)],
    [baseFeePerGas ? gwei(baseFeePerGas) : '-'],
    [when(number(timestamp)), 'text'],
    [hash, 'text mono'],
  ]);
}
