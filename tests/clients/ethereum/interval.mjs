// viem 2 in its mode for anvil, unmodified: it gives the interval of blocks in seconds, to a node that calls itself
// anvil.
import assert from 'node:assert/strict';
import { createPublicClient, createTestClient, http } from 'viem';
import { until, url } from './common.mjs';

const transport = http(url);
const reader = createPublicClient({ transport, cacheTime: 0 });
const tester = createTestClient({ transport, mode: 'anvil' });

const first = await reader.getBlockNumber();
const begin = performance.now();
await tester.setIntervalMining({ interval: 1 });
try {
  await until('three blocks', async () => (await reader.getBlockNumber()) >= first + 3n || undefined);
  const passed_s = (performance.now() - begin) / 1000;
  // Three intervals of a second, whatever a busy machine adds; of a millisecond they would be over at once.
  assert.ok(passed_s > 2, `three blocks took ${passed_s} s`);
} finally {
  // No interval is no mining at all, as with anvil: what comes next expects a block for each transaction.
  await tester.setIntervalMining({ interval: 0 });
  await tester.setAutomine(true);
}
console.log('viem, interval: ok');
