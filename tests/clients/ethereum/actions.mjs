// viem 2, unmodified: every test action that its documentation has, on a node that calls itself as the mode does.
//
// reads   RPC_URL, KEYS; MODE: `anvil` or `hardhat`, anvil without it
import assert from 'node:assert/strict';
import {
  createPublicClient, createTestClient, createWalletClient, defineChain, http, numberToHex, parseEther, parseGwei,
} from 'viem';
import * as actions from 'viem/actions';
import { privateKeyToAccount } from 'viem/accounts';
import { ask, keys, until, url } from './common.mjs';

const mode = process.env.MODE ?? 'anvil';
const chain = defineChain({
  id: 31337,
  name: 'Hearth',
  nativeCurrency: { name: 'Ether', symbol: 'ETH', decimals: 18 },
  rpcUrls: { default: { http: [url] } },
});
const transport = http(url, { timeout: 60_000 });
const reader = createPublicClient({ chain, transport, pollingInterval: 20, cacheTime: 0 });
const wallet = createWalletClient({ chain, transport, account: privateKeyToAccount(keys[1]) });
const sender = wallet.account.address;
const target = '0x00000000000000000000000000000000000beef2';

// Each call is recorded, so that an action which this script does not know fails it.
const called = new Set();
const plain = createTestClient({ chain, transport, mode });
const tester = new Proxy(plain, {
  get(client, name) {
    if (name in actions) called.add(name);
    return client[name];
  },
});
const pays = { to: target, value: 1n };
const mined = async (hash) => {
  const receipt = await reader.waitForTransactionReceipt({ hash });
  assert.equal(receipt.status, 'success');
  return receipt;
};
const height = () => reader.getBlockNumber();

// What has happened before on this chain is kept, and found again at the end.
const beginning = await tester.snapshot();
assert.match(beginning, /^0x[0-9a-f]+$/);
const first = await reader.getBlock();

// Accounts.
await tester.setBalance({ address: target, value: parseEther('3') });
assert.equal(await reader.getBalance({ address: target }), parseEther('3'));
await tester.setNonce({ address: target, nonce: 420 });
assert.equal(await reader.getTransactionCount({ address: target }), 420);
// Code that returns slot 7.
const code = '0x60075460005260206000f3';
await tester.setCode({ address: target, bytecode: code });
assert.equal(await reader.getCode({ address: target }), code);
const value = numberToHex(0x1234, { size: 32 });
await tester.setStorageAt({ address: target, index: 7, value });
assert.equal(await reader.getStorageAt({ address: target, slot: '0x7' }), value);
assert.equal((await reader.call({ to: target })).data, value);
await tester.setStorageAt({ address: target, index: numberToHex(8, { size: 32 }), value });
assert.equal(await reader.getStorageAt({ address: target, slot: '0x8' }), value);

// A contract and a stranger send.
const stranger = '0x00000000000000000000000000000000000beef3';
await tester.setBalance({ address: stranger, value: parseEther('1') });
const played = createWalletClient({ chain, transport, account: stranger });
await assert.rejects(played.sendTransaction({ ...pays, gas: 50_000n }));
for (const address of [target, stranger]) {
  await tester.impersonateAccount({ address });
  const own = createWalletClient({ chain, transport, account: address });
  await mined(await own.sendTransaction({ to: sender, value: 1n }));
  await tester.stopImpersonatingAccount({ address });
}
await assert.rejects(played.sendTransaction({ ...pays, gas: 50_000n }));
const unsigned = await tester.sendUnsignedTransaction({ from: stranger, ...pays, gas: 50_000n });
assert.equal((await mined(unsigned)).from, stranger.toLowerCase());

// Blocks on demand: what waits is seen in the pool, dropped from it, or mined.
if (mode === 'anvil' || mode === 'hardhat') assert.equal(await tester.getAutomine(), true);
await tester.setAutomine(false);
assert.equal(await tester.getAutomine(), false);
const before = await height();
const nonce = await reader.getTransactionCount({ address: sender });
const waits = await wallet.sendTransaction({ ...pays, nonce });
const behind = await wallet.sendTransaction({ ...pays, nonce: nonce + 2, gas: 50_000n });
assert.deepEqual(await tester.getTxpoolStatus(), { pending: 1, queued: 1 });
const { pending, queued } = await tester.getTxpoolContent();
const own = (part) => Object.entries(part).find(([address]) => address.toLowerCase() === sender.toLowerCase())[1];
assert.equal(own(pending)[nonce].hash, waits);
assert.equal(own(queued)[nonce + 2].hash, behind);
assert.match(own((await tester.inspectTxpool()).pending)[nonce], /1 wei \+ \d+ gas × \d+ wei/);
await tester.dropTransaction({ hash: behind });
assert.deepEqual(await tester.getTxpoolStatus(), { pending: 1, queued: 0 });
assert.equal(await height(), before);
await tester.mine({ blocks: 1 });
assert.equal((await mined(waits)).blockNumber, before + 1n);
const dropped = await wallet.sendTransaction({ ...pays, nonce: nonce + 1 });
await tester.dropTransaction({ hash: dropped });
await tester.mine({ blocks: 1 });
assert.equal((await reader.getBlock()).transactions.length, 0);
await assert.rejects(reader.getTransaction({ hash: dropped }), { name: 'TransactionNotFoundError' });
await tester.setAutomine(true);

// Time.
const at = async () => (await reader.getBlock()).timestamp;
const then = await at();
await tester.mine({ blocks: 3, interval: 60 });
assert.equal((await at()) - (await reader.getBlock({ blockNumber: (await height()) - 1n })).timestamp, 60n);
await tester.increaseTime({ seconds: 3600 });
await tester.mine({ blocks: 1 });
assert.ok((await at()) >= then + 3600n);
const planned = (await at()) + 10_000n;
await tester.setNextBlockTimestamp({ timestamp: planned });
await mined(await wallet.sendTransaction(pays));
assert.equal(await at(), planned);
await assert.rejects(tester.setNextBlockTimestamp({ timestamp: planned - 1n }));
if (mode === 'anvil') {
  await tester.setBlockTimestampInterval({ interval: 5 });
  for (let block = 1n; block <= 2n; block += 1n) {
    await tester.mine({ blocks: 1 });
    assert.equal(await at(), planned + block * 5n);
  }
  await tester.removeBlockTimestampInterval();
}

// The next block's price, limit and recipient.
const baseFeePerGas = parseGwei('3');
await tester.setNextBlockBaseFeePerGas({ baseFeePerGas });
await tester.mine({ blocks: 1 });
assert.equal((await reader.getBlock()).baseFeePerGas, baseFeePerGas);
await tester.setBlockGasLimit({ gasLimit: 20_000_000n });
await tester.setCoinbase({ address: stranger });
await tester.mine({ blocks: 1 });
assert.equal((await reader.getBlock()).gasLimit, 20_000_000n);
assert.equal((await reader.getBlock()).miner, stranger.toLowerCase());
// Since London there is no least price: anvil and Hardhat refuse it, too.
await assert.rejects(tester.setMinGasPrice({ gasPrice: parseGwei('20') }));
await tester.setLoggingEnabled(false);
await tester.setLoggingEnabled(true);
if (mode === 'anvil') await tester.setRpcUrl('http://127.0.0.1:1');

// Blocks by the clock. Without an interval blocks come on demand.
const clock = await height();
await tester.setIntervalMining({ interval: 1 });
await until('a block by the clock', async () => (await height()) > clock || undefined);
await tester.setIntervalMining({ interval: 0 });
await tester.setAutomine(true);

// The whole state, set again after it was changed.
if (mode === 'anvil') {
  const had = await reader.getBalance({ address: target });
  const state = await tester.dumpState();
  assert.match(state, /^0x([0-9a-f]{2})+$/);
  await tester.setBalance({ address: target, value: 5n });
  await tester.loadState({ state });
  assert.equal(await reader.getBalance({ address: target }), had);
}

// Back: to a snapshot, once, and to the beginning of the chain.
const later = await tester.snapshot();
await tester.setBalance({ address: target, value: 9n });
await tester.revert({ id: later });
assert.notEqual(await reader.getBalance({ address: target }), 9n);
assert.equal(await ask('evm_revert', [later]), false);
await tester.revert({ id: beginning });
assert.equal((await reader.getBlock()).hash, first.hash);
assert.equal(await reader.getCode({ address: target }), undefined);
await tester.reset();
assert.equal(await height(), 0n);

/** Actions that this mode's program has not. */
const NOT_HERE = {
  anvil: [],
  hardhat: ['dumpState', 'loadState', 'removeBlockTimestampInterval', 'setBlockTimestampInterval', 'setRpcUrl'],
};
const documented = Object.keys(plain).filter((name) => name in actions);
assert.deepEqual(documented.filter((name) => !called.has(name) && !NOT_HERE[mode].includes(name)), []);
console.log(`viem, test actions: ok (${called.size} as ${mode})`);
process.exit(0);
