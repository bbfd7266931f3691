// Every answer is valid by the schema that the execution API publishes: results, null, and errors by form and number.
//
// reads   RPC_URL, KEYS
import assert from 'node:assert/strict';
import { createPublicClient, createWalletClient, defineChain, encodeDeployData, http, parseGwei } from 'viem';
import { privateKeyToAccount } from 'viem/accounts';
import { ask as rpc, contracts, keys, url } from './common.mjs';
import { ask, counts, error, nothing, result, sum, valid } from './validity.mjs';

const chain = defineChain({
  id: 31337,
  name: 'Hearth',
  nativeCurrency: { name: 'Ether', symbol: 'ETH', decimals: 18 },
  rpcUrls: { default: { http: [url] } },
});
const [alice, bob] = keys.map((key) => privateKeyToAccount(key));
// The first blob waits for KZG's trusted setup.
const transport = http(url, { timeout: 120_000 });
const reader = createPublicClient({ chain, transport, pollingInterval: 20, cacheTime: 0 });
const wallet = createWalletClient({ chain, transport, account: alice });
const { Token } = contracts();
const mined = (hash) => reader.waitForTransactionReceipt({ hash });

// A transaction of each type, one that creates, one that logs, one that fails.
const pays = { to: bob.address, value: 1n };
const gasPrice = parseGwei('50');
const infinity = Uint8Array.from([0xc0, ...new Uint8Array(47)]);
const kzg = { blobToKzgCommitment: () => infinity, computeBlobKzgProof: () => infinity };
const accessList = [{ address: bob.address, storageKeys: [`0x${'00'.repeat(32)}`] }];
const filters = {};
for (const name of ['eth_newBlockFilter', 'eth_newPendingTransactionFilter']) filters[name] = await result(name);
const hashes = {
  legacy: await wallet.sendTransaction({ ...pays, type: 'legacy', gasPrice }),
  accessList: await wallet.sendTransaction({ ...pays, type: 'eip2930', gasPrice, accessList }),
  dynamic: await wallet.sendTransaction({ ...pays, type: 'eip1559', accessList }),
  blob: await wallet.sendTransaction({
    type: 'eip4844', ...pays, blobs: [`0x${'00'.repeat(131_072)}`], kzg, maxFeePerBlobGas: parseGwei('1'),
  }),
};
for (const hash of Object.values(hashes)) await mined(hash);
const authorization = await wallet.signAuthorization({ account: bob, contractAddress: alice.address });
hashes.setCode = await wallet.sendTransaction({ ...pays, authorizationList: [authorization] });
hashes.creation = await wallet.deployContract({
  abi: Token.abi, bytecode: Token.bytecode, args: ['Tin', 'SN', 10n ** 21n],
});
const { contractAddress: address } = await mined(hashes.creation);
const token = { address, abi: Token.abi };
const filter = { address, fromBlock: '0x0' };
filters.eth_newFilter = await result('eth_newFilter', filter);
hashes.log = await wallet.writeContract({ ...token, functionName: 'transfer', args: [bob.address, 5n] });
hashes.failed = await wallet.writeContract({
  ...token, functionName: 'transferFrom', args: [bob.address, alice.address, 1n], gas: 100_000n,
});
assert.equal((await mined(hashes.failed)).status, 'reverted');

// Blocks and transactions: each of them, by every name.
const unknown = `0x${'5a'.repeat(32)}`;
const heights = new Set(['0x0', 'earliest', 'latest', 'safe', 'finalized']);
for (const hash of Object.values(hashes)) {
  const tx = await result('eth_getTransactionByHash', hash);
  await result('eth_getTransactionReceipt', hash);
  await result('debug_getRawTransaction', hash);
  await result('debug_traceTransaction', hash);
  await result('debug_traceTransaction', hash, { enableMemory: true, enableReturnData: true });
  await result('eth_getTransactionByBlockHashAndIndex', tx.blockHash, tx.transactionIndex);
  await result('eth_getTransactionByBlockNumberAndIndex', tx.blockNumber, tx.transactionIndex);
  for (const full of [true, false]) await result('eth_getBlockByHash', tx.blockHash, full);
  await result('eth_getBlockTransactionCountByHash', tx.blockHash);
  await result('debug_traceBlockByHash', tx.blockHash);
  heights.add(tx.blockNumber);
}
for (const height of heights) {
  for (const full of [true, false]) await result('eth_getBlockByNumber', height, full);
  await result('eth_getBlockReceipts', height);
  await result('eth_getBlockTransactionCountByNumber', height);
  for (const part of ['Block', 'Header', 'Receipts']) await result(`debug_getRaw${part}`, height);
  if (!['0x0', 'earliest'].includes(height)) await result('debug_traceBlockByNumber', height);
}
await result('debug_getBadBlocks');
for (const name of ['eth_getTransactionByHash', 'eth_getTransactionReceipt']) await nothing(name, unknown);
await nothing('eth_getTransactionByBlockHashAndIndex', unknown, '0x0');
await nothing('eth_getTransactionByBlockNumberAndIndex', 'latest', '0x99');
const beyond = '0x7fffffff';
await nothing('eth_getBlockByNumber', beyond, true);
await nothing('eth_getBlockReceipts', beyond);
await nothing('eth_getBlockTransactionCountByNumber', beyond);
for (const part of ['getRawBlock', 'getRawHeader', 'getRawReceipts', 'traceBlockByNumber']) {
  await error(`debug_${part}`, beyond);
}
await nothing('eth_getBlockByHash', unknown, false);
await nothing('eth_getBlockTransactionCountByHash', unknown);
await error('debug_traceTransaction', unknown);
await error('debug_traceBlockByHash', unknown);

// State, at tags, heights and hashes.
const { hash: blockHash } = await reader.getBlock();
const slot = `0x${'00'.repeat(32)}`;
for (const at of ['latest', 'pending', 'safe', 'earliest', { blockHash }, { blockNumber: '0x1' }]) {
  await result('eth_getBalance', alice.address, at);
  await result('eth_getCode', address, at);
  await result('eth_getStorageAt', address, '0x0', at);
  await result('eth_getStorageValues', { [address]: [slot] }, at);
  await result('eth_getTransactionCount', alice.address, at);
  await result('eth_call', { to: alice.address }, at);
  if (at !== 'pending') await result('eth_getProof', address, [slot, '0x1'], at);
}
for (const [name, ...more] of [
  ['eth_getBalance', alice.address], ['eth_getCode', address], ['eth_getStorageAt', address, '0x0'],
  ['eth_getTransactionCount', alice.address], ['eth_getProof', address, []], ['eth_call', { to: address }],
  ['eth_getStorageValues', { [address]: [slot] }], ['eth_estimateGas', { to: address }],
  ['eth_createAccessList', { to: address }], ['eth_simulateV1', { blockStateCalls: [] }],
]) await error(name, ...more, beyond);

// Execution.
const data = encodeDeployData({ abi: Token.abi, bytecode: Token.bytecode, args: ['Tin', 'SN', 1n] });
const moves = '0xa9059cbb' + bob.address.slice(2).padStart(64, '0').toLowerCase() + '1'.padStart(64, '0');
for (const call of [{ from: alice.address, to: address, input: moves }, { from: alice.address, data }]) {
  await result('eth_call', call, 'latest');
  await result('eth_estimateGas', call);
  await result('eth_createAccessList', call, 'latest');
  await result('eth_fillTransaction', call);
}
const reverts = { from: bob.address, to: address, input: moves.slice(0, -64) + 'f'.repeat(64) };
assert.equal(await error('eth_call', reverts, 'latest'), 3);
assert.equal(await error('eth_estimateGas', reverts), 3);
await result('eth_createAccessList', reverts, 'latest');
for (const kind of [{ gasPrice: '0xba43b7400' }, { accessList }, { blobVersionedHashes: [`0x01${'00'.repeat(31)}`] }]) {
  await ask('eth_fillTransaction', { ...pays, value: '0x1', from: alice.address, ...kind });
}
const calls = [{ from: alice.address, to: address, input: moves }, reverts];
const number = `0x${((await reader.getBlockNumber()) + 5n).toString(16)}`;
const simulated = { blockStateCalls: [{ calls }, { calls, blockOverrides: { number } }] };
for (const more of [{}, { returnFullTransactions: true }, { traceTransfers: true }]) {
  assert.equal((await result('eth_simulateV1', { ...simulated, ...more }, 'latest')).length, 5);
}
const used = { blockStateCalls: [{ calls: [{ nonce: '0x0', from: alice.address }] }], validation: true };
assert.equal(await error('eth_simulateV1', used), -38_010);
const { timestamp } = await result('eth_getBlockByNumber', 'latest', false);
const attributes = {
  timestamp: `0x${(BigInt(timestamp) + 9n).toString(16)}`, prevRandao: slot, suggestedFeeRecipient: bob.address,
  withdrawals: [], parentBeaconBlockRoot: slot,
};
await result('testing_buildBlockV1', blockHash, attributes, [], '0x');
await error('testing_buildBlockV1', unknown, attributes, [], '0x');

// Logs and filters.
assert.ok((await result('eth_getLogs', filter)).length > 0);
assert.equal((await result('eth_getLogs', { ...filter, address: bob.address })).length, 0);
await error('eth_getLogs', { blockHash: unknown });
assert.ok((await result('eth_getFilterLogs', filters.eth_newFilter)).length > 0);
for (const name of Object.keys(filters)) {
  await result('eth_getFilterChanges', filters[name]);
  await result('eth_getFilterChanges', filters[name]);
  assert.equal(await ask('eth_uninstallFilter', filters[name]), true);
  assert.equal(await ask('eth_uninstallFilter', filters[name]), false);
  await error('eth_getFilterChanges', filters[name]);
}
await error('eth_getFilterLogs', '0x1');
await error('eth_newFilter', { blockHash: unknown, fromBlock: '0x1' });

// What the node signs and takes.
const message = { from: alice.address, to: bob.address, value: '0x1' };
await result('eth_sign', alice.address, '0xdeadbeaf');
await error('eth_sign', unknown.slice(0, 42), '0xdeadbeaf');
const fees = { maxFeePerGas: '0xba43b7400', maxPriorityFeePerGas: '0x1', gas: '0x5208' };
const nonce = `0x${(await reader.getTransactionCount({ address: alice.address })).toString(16)}`;
const signed = await result('eth_signTransaction', { ...message, ...fees, nonce });
await result('eth_signTransaction', { ...message, gasPrice: fees.maxFeePerGas, gas: fees.gas, nonce });
await result('eth_signTransaction', { ...message, ...fees, nonce, accessList });
await result('eth_signTransaction', message);
await error('eth_signTransaction', { ...message, from: unknown.slice(0, 42) });
await mined(await result('eth_sendRawTransaction', signed.raw));
await error('eth_sendRawTransaction', signed.raw);
await error('eth_sendRawTransaction', '0x00');
await mined(await result('eth_sendTransaction', message));
await error('eth_sendTransaction', { ...message, value: `0x${'f'.repeat(60)}` });

// What waits.
await ask('evm_setAutomine', false);
try {
  await wallet.sendTransaction(pays);
  await wallet.sendTransaction({ ...pays, type: 'legacy', gasPrice });
  const next = await reader.getTransactionCount({ address: alice.address, blockTag: 'pending' });
  const gapped = await wallet.sendTransaction({ ...pays, nonce: next + 3, gas: 50_000n });
  await wallet.sendTransaction({ ...pays, nonce: next + 4, gas: 50_000n, authorizationList: [authorization] });
  assert.equal((await result('txpool_status')).pending, '0x2');
  assert.equal((await result('txpool_content')).queued[alice.address][next + 3].hash, gapped);
  await result('txpool_contentFrom', alice.address);
  await result('txpool_contentFrom', bob.address);
  // Null, as with geth, while the schema has no word for a block that is not made yet.
  const { hash, nonce: none, miner, ...pending } = await rpc('eth_getBlockByNumber', ['pending', true]);
  assert.deepEqual([hash, none, miner], [null, null, null]);
  assert.equal(pending.transactions.length, 2);
  const made = { ...pending, hash: unknown, nonce: `0x${'0'.repeat(16)}`, miner: bob.address };
  assert.ok(valid.eth_getBlockByNumber(made), JSON.stringify(valid.eth_getBlockByNumber.errors));
  await ask('anvil_dropAllTransactions');
} finally {
  await ask('evm_setAutomine', true);
}

// The chain.
for (const name of [
  'eth_accounts', 'eth_baseFee', 'eth_blobBaseFee', 'eth_blockNumber', 'eth_capabilities', 'eth_chainId',
  'eth_coinbase', 'eth_config', 'eth_gasPrice', 'eth_maxPriorityFeePerGas', 'net_version',
]) {
  await result(name);
  await error(name, 1);
}
await ask('eth_syncing');
for (const rewards of [[], [10, 90], undefined]) await result('eth_feeHistory', '0x5', 'latest', rewards);
await error('eth_feeHistory', '0x5', 'latest', [90, 10]);

// What no fork here has yet.
const LATER = ['eth_getBlockAccessList', 'debug_getRawBlockAccessList'];
for (const name of LATER) await error(name, 'latest');

const missed = Object.entries(counts).filter(([name, { result: has }]) => has === 0 && !LATER.includes(name));
assert.deepEqual(missed.map(([name]) => name), []);
// Whatever takes parameters refuses those that are no parameters.
for (const name of Object.keys(valid)) await error(name, { not: 'a parameter' }, { nor: 'this' }, 'x', 'y', 'z');
const counted = `${sum('result')} results, ${sum('null')} null, ${sum('error')} errors`;
console.log(`schemas: ok (${Object.keys(valid).length} methods; ${counted})`);
process.exit(0);
