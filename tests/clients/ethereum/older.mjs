// Answers under the rules of an older fork are valid by the published schemas, too.
//
// reads   RPC_URL: a chain of such rules, without blocks
import assert from 'node:assert/strict';
import { error, nothing, result, sum } from './validity.mjs';

const [from] = await result('eth_accounts');
for (const more of [{ to: from }, { to: from, gasPrice: '0xba43b7400' }, { data: '0x60018060095f395ff300' }]) {
  await result('eth_sendTransaction', { from, gas: '0x30000', ...more });
}
const head = Number(await result('eth_blockNumber'));
assert.ok(head > 0);
for (let number = 0; number <= head; number += 1) {
  const at = `0x${number.toString(16)}`;
  await result('eth_getBlockByNumber', at, false);
  await result('eth_getBlockReceipts', at);
  await result('eth_feeHistory', '0x2', at, [50]);
  await result('eth_simulateV1', { blockStateCalls: [{ calls: [{ from, to: from }] }] }, at);
  const { hash, transactions } = await result('eth_getBlockByNumber', at, true);
  await result('eth_getLogs', { blockHash: hash });
  for (const tx of transactions) {
    await result('eth_getTransactionByHash', tx.hash);
    await result('eth_getTransactionReceipt', tx.hash);
    await result('debug_traceTransaction', tx.hash);
  }
}
for (const name of ['eth_config', 'eth_capabilities', 'eth_baseFee', 'eth_gasPrice', 'eth_maxPriorityFeePerGas']) {
  await result(name);
}
await nothing('eth_getBlockByNumber', '0x7fffffff', false);
await error('eth_getBalance', from, '0x7fffffff');
console.log(`schemas, older rules: ok (${sum('result')} results)`);
process.exit(0);
