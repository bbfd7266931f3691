// viem 2, unmodified: transfer, deploy, call, event, revert reason, filters, subscription, a blob, tests' actions.
import assert from 'node:assert/strict';
import {
  BaseError, ContractFunctionRevertedError, createPublicClient, createTestClient, createWalletClient, defineChain, http,
  parseEther, parseGwei, webSocket,
} from 'viem';
import { privateKeyToAccount } from 'viem/accounts';
import { contracts, keys, until, url, websocketUrl } from './common.mjs';

const chain = defineChain({
  id: 31337,
  name: 'Hearth',
  nativeCurrency: { name: 'Ether', symbol: 'ETH', decimals: 18 },
  rpcUrls: { default: { http: [url], webSocket: [websocketUrl] } },
});
const [alice, bob] = keys.slice(1).map((key) => privateKeyToAccount(key));
// The first blob waits for KZG's trusted setup.
const transport = http(url, { batch: true, timeout: 120_000 });
const reader = createPublicClient({ chain, transport, pollingInterval: 50, cacheTime: 0 });
const listener = createPublicClient({ chain, transport: webSocket(websocketUrl) });
const wallet = createWalletClient({ chain, transport, account: alice });
const tester = createTestClient({ chain, transport, mode: 'anvil' });
const { Token } = contracts();
const done = async (hash) => {
  const receipt = await reader.waitForTransactionReceipt({ hash });
  assert.equal(receipt.status, 'success');
  return receipt;
};

assert.equal(await reader.getChainId(), 31337);
const before = await reader.getBalance({ address: bob.address });
await done(await wallet.sendTransaction({ to: bob.address, value: parseEther('2') }));
assert.equal(await reader.getBalance({ address: bob.address }), before + parseEther('2'));

const supply = parseEther('1000');
const { contractAddress: address } = await done(
  await wallet.deployContract({ abi: Token.abi, bytecode: Token.bytecode, args: ['Iron', 'FE', supply] }),
);
const token = { address, abi: Token.abi };
assert.equal(await reader.readContract({ ...token, functionName: 'totalSupply' }), supply);

const [notified, polled, heads] = [[], [], []];
const stops = [
  listener.watchContractEvent({ ...token, eventName: 'Transfer', onLogs: (logs) => notified.push(...logs) }),
  reader.watchContractEvent({ ...token, eventName: 'Transfer', onLogs: (logs) => polled.push(...logs) }),
  listener.watchBlocks({ onBlock: (block) => heads.push(block) }),
];
await until('the event, notified and polled', async () => {
  const { request } = await reader.simulateContract({
    ...token, account: alice, functionName: 'transfer', args: [bob.address, 5n],
  });
  await done(await wallet.writeContract(request));
  return notified.length > 0 && polled.length > 0 && heads.length > 0 ? true : undefined;
});
assert.equal(notified[0].args.value, 5n);
assert.equal(polled[0].args.to, bob.address);
stops.forEach((stop) => stop());

const filter = await reader.createContractEventFilter({ ...token, eventName: 'Transfer', args: { to: bob.address } });
await done(await wallet.writeContract({ ...token, functionName: 'transfer', args: [bob.address, 9n] }));
const changes = await reader.getFilterChanges({ filter });
assert.equal(changes.at(-1).args.value, 9n);
assert.equal(await reader.uninstallFilter({ filter }), true);

await assert.rejects(
  reader.simulateContract({ ...token, account: bob, functionName: 'transfer', args: [alice.address, supply] }),
  (error) => {
    assert.ok(error instanceof BaseError);
    const reverted = error.walk((cause) => cause instanceof ContractFunctionRevertedError);
    assert.equal(reverted.data.errorName, 'TooLittle');
    return true;
  },
);
const args = [alice.address, bob.address, 1n];
await assert.rejects(
  reader.simulateContract({ ...token, account: bob, functionName: 'transferFrom', args }),
  /allowance too small/,
);

const block = await reader.getBlock({ includeTransactions: true });
assert.equal(block.transactions.length, 1);
const history = await reader.getFeeHistory({ blockCount: 4, rewardPercentiles: [10, 90] });
assert.equal(history.baseFeePerGas.length, history.gasUsedRatio.length + 1);
const proof = await reader.getProof({ address, storageKeys: [`0x${'00'.repeat(32)}`] });
assert.equal(proof.address.toLowerCase(), address.toLowerCase());
await reader.getTransactionCount({ address: alice.address, blockTag: 'pending' });

// A blob. The commitment and the proof of an all-zero blob are the point at infinity, so it takes no library.
const infinity = Uint8Array.from([0xc0, ...new Uint8Array(47)]);
const kzg = { blobToKzgCommitment: () => infinity, computeBlobKzgProof: () => infinity };
const blobs = [`0x${'00'.repeat(131_072)}`];
const blobHash = await wallet.sendTransaction({
  type: 'eip4844', to: bob.address, blobs, kzg, maxFeePerBlobGas: parseGwei('1'),
});
const withBlob = await done(blobHash);
assert.equal(withBlob.blobGasUsed, 131_072n);
assert.equal(withBlob.blobGasPrice, 1n);
assert.equal((await reader.getTransaction({ hash: blobHash })).blobVersionedHashes.length, 1);
assert.ok((await reader.getBlobBaseFee()) >= 1n);
const { blobSidecar } = await reader.request({ method: 'eth_getBlobSidecarByTxHash', params: [blobHash] });
assert.equal(blobSidecar.blobs[0], blobs[0]);

// Methods for contract tests.
const id = await tester.snapshot();
await tester.setBalance({ address: bob.address, value: parseEther('3') });
assert.equal(await reader.getBalance({ address: bob.address }), parseEther('3'));
const whale = '0x00000000000000000000000000000000000Beef1';
await tester.setBalance({ address: whale, value: parseEther('9') });
await tester.impersonateAccount({ address: whale });
const asWhale = createWalletClient({ chain, transport, account: whale });
await done(await asWhale.sendTransaction({ to: bob.address, value: parseEther('1') }));
await tester.stopImpersonatingAccount({ address: whale });
await tester.increaseTime({ seconds: 3600 });
await tester.mine({ blocks: 3 });
await tester.setNextBlockBaseFeePerGas({ baseFeePerGas: parseGwei('3') });
await tester.mine({ blocks: 1 });
assert.equal((await reader.getBlock()).baseFeePerGas, parseGwei('3'));
await tester.revert({ id });
assert.notEqual(await reader.getBalance({ address: bob.address }), parseEther('4'));

const socket = await listener.transport.getRpcClient();
socket.close();
console.log('viem: ok');
process.exit(0);
