// Hardhat's own network, as a fork of a running chain of ours.
//
// reads   FORK_URL
const assert = require('node:assert/strict');
const { network } = require('hardhat');

const whale = '0x00000000000000000000000000000000000f0041';
const rpc = async (method, ...params) => {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
  const headers = { 'content-type': 'application/json' };
  const { result, error } = await (await fetch(process.env.FORK_URL, { method: 'POST', headers, body })).json();
  assert.equal(error, undefined, `${method}: ${JSON.stringify(error)}`);
  return result;
};

describe('a fork of the chain', () => {
  it('has its state and blocks, and goes its own way', async () => {
    const fork = (method, ...params) => network.provider.send(method, params);
    await rpc('anvil_setBalance', whale, '0xde0b6b3a7640000');
    await rpc('anvil_setCode', whale, '0x60075460005260206000f3');
    await rpc('anvil_setStorageAt', whale, '0x7', `0x${'12'.repeat(32)}`);
    const head = await rpc('eth_getBlockByNumber', 'latest', false);
    await fork('hardhat_reset', { forking: { jsonRpcUrl: process.env.FORK_URL } });
    assert.equal((await fork('eth_getBlockByNumber', head.number, false)).hash, head.hash);
    // Of the blocks before its own, Hardhat does not know the rules.
    await fork('hardhat_mine', '0x1');
    assert.equal(await fork('eth_call', { to: whale }, 'latest'), `0x${'12'.repeat(32)}`);
    await fork('hardhat_impersonateAccount', whale);
    const [account] = await fork('eth_accounts');
    const sent = await fork('eth_sendTransaction', { from: whale, to: account, value: '0x1', gas: '0x30000' });
    assert.equal((await fork('eth_getTransactionReceipt', sent)).status, '0x1');
    assert.equal(await rpc('eth_getBalance', whale, 'latest'), '0xde0b6b3a7640000');
  });
});
