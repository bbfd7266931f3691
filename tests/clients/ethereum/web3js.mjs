// web3.js 4, unmodified: transfer, deploy, call, event, revert reason, filters, subscription.
import assert from 'node:assert/strict';
import { Web3 } from 'web3';
import { contracts, keys, until, url, websocketUrl } from './common.mjs';

const { Token } = contracts();
const web3 = new Web3(url);
web3.setConfig({ transactionPollingInterval: 50 });
const [alice, bob] = keys.map((key) => {
  web3.eth.accounts.wallet.add(key);
  return web3.eth.accounts.privateKeyToAccount(key).address;
});

// Transfer: signed here, by each type, and by the node.
assert.equal(await web3.eth.getChainId(), 31337n);
const before = await web3.eth.getBalance(bob);
const gasPrice = web3.utils.toWei('50', 'gwei');
for (const more of [{}, { type: 1, gasPrice }, { gasPrice }]) {
  const receipt = await web3.eth.sendTransaction({ from: alice, to: bob, value: 5n, gas: 21_000n, ...more });
  assert.equal(receipt.status, 1n);
  const found = await web3.eth.getTransaction(receipt.transactionHash);
  assert.equal(found.blockNumber, receipt.blockNumber);
}
assert.equal(await web3.eth.getBalance(bob), before + 15n);
const plain = new Web3(url);
const [account] = await plain.eth.getAccounts();
assert.equal((await plain.eth.sendTransaction({ from: account, to: bob, value: 1n })).status, 1n);

// A contract: deployed, called, its events and refusals.
const contract = new web3.eth.Contract(Token.abi);
const token = await contract
  .deploy({ data: Token.bytecode, arguments: ['Zinc', 'ZN', 10n ** 21n] })
  .send({ from: alice });
assert.equal(await token.methods.symbol().call(), 'ZN');
const moved = await token.methods.transfer(bob, 5n).send({ from: alice });
assert.equal(moved.events.Transfer.returnValues.value, 5n);
const past = await token.getPastEvents('Transfer', { filter: { to: bob }, fromBlock: 0n });
assert.deepEqual(past.map(({ transactionHash }) => transactionHash), [moved.transactionHash]);
await assert.rejects(token.methods.transferFrom(alice, bob, 1n).call({ from: bob }), (error) => {
  assert.match(error.cause?.message ?? error.message, /allowance too small/);
  return true;
});
await assert.rejects(token.methods.transfer(alice, 10n ** 20n).send({ from: bob }), (error) => {
  assert.equal(error.innerError?.errorName ?? error.cause?.errorName, 'TooLittle');
  return true;
});
assert.ok((await token.methods.transfer(bob, 1n).estimateGas({ from: alice })) > 21_000n);
const { accessList } = await token.methods.transfer(bob, 1n).createAccessList({ from: alice });
assert.equal(accessList.length, 1);

// Blocks, fees, proofs.
const block = await web3.eth.getBlock('latest', true);
assert.equal(block.transactions.length, 1);
assert.equal(Number((await web3.eth.getFeeHistory(3n, 'latest', [50])).baseFeePerGas.length), 4);
const proof = await web3.eth.getProof(token.options.address, [`0x${'00'.repeat(32)}`]);
assert.match(String(proof.storageHash), /^0x[0-9a-f]{64}$/);
assert.equal((await web3.eth.getPastLogs({ address: token.options.address, fromBlock: '0x0' })).length, 2);

// Subscriptions over a WebSocket.
const socket = new Web3(websocketUrl);
socket.eth.accounts.wallet.add(keys[0]);
const heads = await socket.eth.subscribe('newBlockHeaders');
const logs = await socket.eth.subscribe('logs', { address: token.options.address });
const [seen, logged] = [[], []];
heads.on('data', (head) => seen.push(head));
logs.on('data', (log) => logged.push(log));
await token.methods.transfer(bob, 6n).send({ from: alice });
await until('a head and a log', async () => (seen.length > 0 && logged.length > 0) || undefined);
assert.equal(logged[0].address.toLowerCase(), token.options.address.toLowerCase());
await heads.unsubscribe();
await logs.unsubscribe();
await socket.provider.disconnect();
console.log('web3.js: ok');
process.exit(0);
