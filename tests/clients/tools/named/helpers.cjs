// Every one of Hardhat's network helpers, unmodified, on a node that calls itself Hardhat's.
const assert = require('node:assert/strict');
const { ethers, network } = require('hardhat');
const helpers = require('@nomicfoundation/hardhat-network-helpers');

const { provider } = ethers;
const someone = ethers.getAddress('0x00000000000000000000000000000000deadbee5');
const pays = { to: someone, value: 1n };

/** Helpers that a test below has called, so that a new one of the package is missed. */
const called = new Set();
const watched = (functions) =>
  new Proxy(functions, {
    get(target, name) {
      called.add(name);
      return target[name];
    },
  });
const own = watched(helpers);
const time = watched(helpers.time);

describe('network helpers', () => {
  it('set an account', async () => {
    await own.setBalance(someone, 5n);
    await own.setNonce(someone, 3);
    await own.setCode(someone, '0x6001');
    await own.setStorageAt(someone, 1, 9);
    assert.equal(await provider.getBalance(someone), 5n);
    assert.equal(await provider.getTransactionCount(someone), 3);
    assert.equal(await provider.getCode(someone), '0x6001');
    assert.equal(BigInt(await own.getStorageAt(someone, 1)), 9n);
  });

  it('play an account', async () => {
    const played = ethers.getAddress('0x00000000000000000000000000000000deadbee6');
    await own.setBalance(played, ethers.parseEther('1'));
    await own.impersonateAccount(played);
    const signer = await ethers.getImpersonatedSigner(played);
    await (await signer.sendTransaction(pays)).wait();
    await own.stopImpersonatingAccount(played);
    await assert.rejects(signer.sendTransaction(pays));
  });

  it('drop what waits', async () => {
    const [owner] = await ethers.getSigners();
    await network.provider.send('evm_setAutomine', [false]);
    try {
      const { hash } = await owner.sendTransaction(pays);
      assert.equal((await provider.send('eth_getBlockByNumber', ['pending', false])).transactions[0], hash);
      assert.equal(await own.dropTransaction(hash), true);
      assert.equal(await own.dropTransaction(hash), false);
      const mined = await owner.sendTransaction(pays);
      await own.mine();
      assert.deepEqual((await provider.getBlock('latest')).transactions, [mined.hash]);
      await assert.rejects(own.dropTransaction(mined.hash), /already mined/);
    } finally {
      await network.provider.send('evm_setAutomine', [true]);
    }
  });

  it('make blocks', async () => {
    const before = await time.latestBlock();
    await own.mine(10, { interval: 15 });
    await own.mineUpTo(before + 20);
    assert.equal(await time.latestBlock(), before + 20);
    await assert.rejects(own.mineUpTo(before));
    await time.advanceBlock();
    await time.advanceBlockTo(before + 30);
    assert.equal(await time.latestBlock(), before + 30);
  });

  it('set the time', async () => {
    const then = await time.latest();
    assert.ok((await time.increase(time.duration.hours(1))) >= then + 3600);
    await time.increaseTo(then + 7200);
    assert.equal(await time.latest(), then + 7200);
    await time.setNextBlockTimestamp(then + 9000);
    await own.mine();
    assert.equal(await time.latest(), then + 9000);
    await assert.rejects(time.increaseTo(then));
  });

  it('set the next block', async () => {
    await own.setNextBlockBaseFeePerGas(7n * 10n ** 9n);
    await own.setCoinbase(someone);
    await own.setPrevRandao(77);
    await own.mine();
    const block = await provider.getBlock('latest');
    assert.equal(block.baseFeePerGas, 7n * 10n ** 9n);
    assert.equal(block.miner, someone);
    const { mixHash } = await provider.send('eth_getBlockByNumber', ['latest', false]);
    assert.equal(BigInt(mixHash), 77n);
    await own.setBlockGasLimit(25_000_000);
    await own.mine();
    assert.equal((await provider.getBlock('latest')).gasLimit, 25_000_000n);
  });

  it('go back', async () => {
    const fixture = async () => own.setBalance(someone, 11n);
    await own.loadFixture(fixture);
    await own.setBalance(someone, 12n);
    await own.loadFixture(fixture);
    assert.equal(await provider.getBalance(someone), 11n);
    await own.clearSnapshots();
    const snapshot = await own.takeSnapshot();
    await own.setBalance(someone, 13n);
    await snapshot.restore();
    await snapshot.restore();
    assert.equal(await provider.getBalance(someone), 11n);
    await own.reset();
    assert.equal(await time.latestBlock(), 0);
    await assert.rejects(own.reset('http://127.0.0.1:1'));
  });

  it('are all of them here', () => {
    called.add('time');
    const all = [...Object.keys(helpers), ...Object.keys(helpers.time)];
    assert.deepEqual(all.filter((name) => !called.has(name)), []);
  });
});
