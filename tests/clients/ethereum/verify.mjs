// ethereumjs, an independent implementation, executes every block again: hashes, roots, receipts, logs.
//
// reads   the whole chain: blocks as RLP, the genesis accounts from the state after block 0
import assert from 'node:assert/strict';
import { createBlockFromRLP } from '@ethereumjs/block';
import { Common, Hardfork, Mainnet } from '@ethereumjs/common';
import { MerkleStateManager } from '@ethereumjs/statemanager';
import { Account, bytesToHex, createAddressFromString, hexToBytes } from '@ethereumjs/util';
import { createVM, runBlock } from '@ethereumjs/vm';
import { ask } from './common.mjs';

const chainId = Number(await ask('eth_chainId'));
const common = new Common({ chain: { ...Mainnet, chainId }, hardfork: Hardfork.Osaka });
const number = (n) => `0x${n.toString(16)}`;

// The caller names the accounts of block 0: those it funds, and its contracts.
const SYSTEM = [
  '0x000f3df6d732807ef1319fb7b8bb8522d0beac02',
  '0x0000f90827f1c53a10cb7a02335b175320002935',
  '0x00000961ef480eb55e80d19ad83579a64c007002',
  '0x0000bbddc7ce488642fb579f8b00f3a590007251',
  // The CREATE2 deployer.
  '0x4e59b44847b379578588920ca78fbf26c0b4956c',
  // The contract that transfers to the UTXO ledger.
  '0x000000000000000000000000000000707269736d',
];
const stateManager = new MerkleStateManager({ common });
for (const address of new Set([...(await ask('eth_accounts')), ...SYSTEM])) {
  const at = createAddressFromString(address);
  const [balance, nonce, code] = await Promise.all([
    ask('eth_getBalance', [address, '0x0']), ask('eth_getTransactionCount', [address, '0x0']),
    ask('eth_getCode', [address, '0x0']),
  ]);
  await stateManager.putAccount(at, new Account(BigInt(nonce), BigInt(balance)));
  if (code !== '0x') await stateManager.putCode(at, hexToBytes(code));
}
await stateManager.flush();
const genesis = await ask('eth_getBlockByNumber', ['0x0', false]);
assert.equal(bytesToHex(await stateManager.getStateRoot()), genesis.stateRoot, 'the root of block 0');

const hashes = new Map([[0n, hexToBytes(genesis.hash)]]);
const blockchain = {
  async getBlock(height) {
    return { hash: () => hashes.get(BigInt(height)) };
  },
  shallowCopy() {
    return this;
  },
};
const vm = await createVM({ common, stateManager, blockchain });
const head = Number(await ask('eth_blockNumber'));
let [executed, logs] = [0, 0];
for (let height = 1; height <= head; height += 1) {
  const expected = await ask('eth_getBlockByNumber', [number(height), false]);
  const block = createBlockFromRLP(hexToBytes(await ask('debug_getRawBlock', [number(height)])), { common });
  assert.equal(bytesToHex(block.hash()), expected.hash, `the hash of block ${height}`);
  assert.equal(bytesToHex(block.header.parentHash), bytesToHex(hashes.get(BigInt(height - 1))));
  assert.ok(await block.transactionsTrieIsValid(), `the transactions of block ${height}`);
  hashes.set(BigInt(height), block.hash());
  // Checks gas, the bloom, and the roots of receipts and state against the header.
  const result = await runBlock(vm, { block, skipBlockValidation: true, skipHeaderValidation: true });
  assert.equal(bytesToHex(await vm.stateManager.getStateRoot()), expected.stateRoot, `the state of block ${height}`);
  const receipts = await ask('eth_getBlockReceipts', [number(height)]);
  assert.equal(receipts.length, result.receipts.length);
  for (const [index, receipt] of result.receipts.entries()) {
    const ours = receipts[index];
    assert.equal(BigInt(ours.cumulativeGasUsed), receipt.cumulativeBlockGasUsed);
    assert.equal(Number(ours.status), receipt.status);
    assert.equal(ours.logsBloom, bytesToHex(receipt.bitvector));
    const theirs = receipt.logs.map(([address, topics, data]) => [address, ...topics, data].map(bytesToHex));
    assert.deepEqual(ours.logs.map(({ address, topics, data }) => [address, ...topics, data]), theirs);
    logs += theirs.length;
  }
  executed += result.receipts.length;
}
assert.ok(executed > 0, 'there was nothing to check');
console.log(`ethereumjs: ok (${head} blocks, ${executed} transactions, ${logs} logs)`);
