// ethers 6, unmodified: transfer, deploy, call, event, revert reason, filters, subscription; a token and a market.
import assert from 'node:assert/strict';
import {
  Contract, ContractFactory, JsonRpcProvider, NonceManager, Wallet, WebSocketProvider, parseEther, parseUnits,
  verifyMessage, verifyTypedData, zeroPadValue,
} from 'ethers';
import { contracts, keys, url, websocketUrl } from './common.mjs';

// Blocks come faster than its cache of answers expires.
const provider = new JsonRpcProvider(url, undefined, { polling: true, pollingInterval: 50, cacheTimeout: -1 });
const socket = new WebSocketProvider(websocketUrl);
const [alice, bob] = keys.map((key) => new Wallet(key, provider));
const { Token, Amm } = contracts();

// Transfer.
const network = await provider.getNetwork();
const before = await provider.getBalance(bob.address);
const sent = await alice.sendTransaction({ to: bob.address, value: parseEther('1') });
const receipt = await sent.wait();
assert.equal(receipt.status, 1);
assert.equal(await provider.getBalance(bob.address), before + parseEther('1'));
const mined = await provider.getTransaction(sent.hash);
assert.equal(mined.blockNumber, receipt.blockNumber);
assert.equal(mined.chainId, network.chainId);
const block = await provider.getBlock(receipt.blockNumber, true);
assert.ok(block.prefetchedTransactions.some(({ hash }) => hash === sent.hash));
const gasPrice = parseUnits('50', 'gwei');
for (const [type, fee] of [[0, { gasPrice }], [1, { gasPrice, accessList: [] }]]) {
  const old = await (await alice.sendTransaction({ to: bob.address, value: 1n, type, ...fee })).wait();
  assert.equal(old.type, type);
}

// Deploy, call.
const owner = new NonceManager(alice);
const deploy = async (artifact, ...args) => {
  const contract = await new ContractFactory(artifact.abi, artifact.bytecode, owner).deploy(...args);
  return contract.waitForDeployment();
};
const gold = await deploy(Token, 'Gold', 'GLD', parseEther('1000000'));
const silver = await deploy(Token, 'Silver', 'SLV', parseEther('1000000'));
assert.equal(await gold.name(), 'Gold');
assert.equal(await gold.balanceOf(alice.address), parseEther('1000000'));

// Event, over polling and over a subscription.
const polled = new Promise((resolve) => gold.once('Transfer', (from, to, value) => resolve({ from, to, value })));
const live = new Contract(await gold.getAddress(), Token.abi, socket);
const notified = new Promise((resolve) => live.once('Transfer', (from, to, value) => resolve({ from, to, value })));
const heads = new Promise((resolve) => socket.once('block', resolve));
await provider.getBlockNumber();
const transfer = await (await gold.transfer(bob.address, 500n)).wait();
const expected = { from: alice.address, to: bob.address, value: 500n };
assert.deepEqual(await notified, expected);
assert.ok(Number.isInteger(await heads));
// A poller starts with the block after its first poll, and reports only later events.
const poke = setInterval(() => gold.transfer(bob.address, 1n).catch(() => {}), 200);
assert.equal((await polled).to, bob.address);
clearInterval(poke);
const logs = await gold.queryFilter(gold.filters.Transfer(alice.address), transfer.blockNumber, transfer.blockNumber);
assert.ok(logs.some(({ args, transactionHash }) => args.value === 500n && transactionHash === transfer.hash));
assert.equal(transfer.logs[0].topics[1], zeroPadValue(alice.address, 32).toLowerCase());

// Revert reasons.
const poor = gold.connect(bob);
await assert.rejects(poor.transferFrom.staticCall(alice.address, bob.address, 1n), (error) => {
  assert.equal(error.reason, 'allowance too small');
  return true;
});
await assert.rejects(poor.transfer(alice.address, parseEther('5')), (error) => {
  assert.equal(error.code, 'CALL_EXCEPTION');
  assert.equal(gold.interface.parseError(error.data).name, 'TooLittle');
  return true;
});
const forced = await poor.transfer(alice.address, parseEther('5'), { gasLimit: 100_000n });
await assert.rejects(forced.wait(), { code: 'CALL_EXCEPTION' });

// A market of the two tokens.
const amm = await deploy(Amm, await gold.getAddress(), await silver.getAddress());
const market = await amm.getAddress();
for (const token of [gold, silver]) await (await token.approve(market, parseEther('1000'))).wait();
await (await amm.add(parseEther('100'), parseEther('400'))).wait();
const paid = await gold.getAddress();
const out = await amm.swap.staticCall(paid, parseEther('1'), 0n);
const had = await silver.balanceOf(alice.address);
const swapped = await (await amm.swap(paid, parseEther('1'), out)).wait();
assert.equal(await silver.balanceOf(alice.address), had + out);
assert.equal(swapped.logs.length, 3);
await assert.rejects(amm.swap.staticCall(paid, parseEther('1'), parseEther('9')), { reason: 'too little comes out' });

// Transactions that the node signs.
const signer = await provider.getSigner(alice.address);
assert.equal(verifyMessage('hello', await signer.signMessage('hello')), alice.address);
const domain = { name: 'Hearth', version: '1', chainId: network.chainId, verifyingContract: market };
const types = { Order: [{ name: 'to', type: 'address' }, { name: 'amounts', type: 'uint256[]' }] };
const order = { to: bob.address, amounts: [1n, 2n] };
assert.equal(verifyTypedData(domain, types, order, await signer.signTypedData(domain, types, order)), alice.address);
await (await signer.sendTransaction({ to: bob.address, value: 7n })).wait();

// Fees.
const fees = await provider.getFeeData();
assert.ok(fees.maxFeePerGas > fees.maxPriorityFeePerGas && fees.gasPrice > 0n);
const tooMuch = { to: alice.address, value: parseEther('100000000') };
await assert.rejects(bob.sendTransaction(tooMuch), { code: 'INSUFFICIENT_FUNDS' });

await socket.destroy();
provider.destroy();
console.log('ethers: ok');
