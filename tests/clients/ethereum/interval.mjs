// viem 2 in its mode for anvil, unmodified: it sets the block interval in seconds, on a node that calls itself anvil.
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
  // Three intervals of a second, whatever a busy machine adds; intervals of a millisecond would be over at once.
  assert.ok(passed_s > 2, `three blocks took ${passed_s} s`);
} finally {
  // An interval of zero stops mining, as with anvil, so automine is restored for later scripts.
  await tester.setIntervalMining({ interval: 0 });
  await tester.setAutomine(true);
}
console.log('viem, interval: ok');
