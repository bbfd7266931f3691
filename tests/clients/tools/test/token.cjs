// Hardhat 2, unmodified, with its network helpers: a suite as its users write them, against a running chain.
const assert = require('node:assert/strict');
const { ethers, network } = require('hardhat');
const helpers = require('@nomicfoundation/hardhat-network-helpers');

async function deployed() {
  const [owner, other] = await ethers.getSigners();
  const token = await ethers.deployContract('Token', ['Gold', 'GLD', ethers.parseEther('1000')]);
  await token.waitForDeployment();
  return { token, owner, other };
}

describe('a token', () => {
  it('belongs to its creator', async () => {
    const { token, owner } = await helpers.loadFixture(deployed);
    assert.equal(await token.balanceOf(owner.address), ethers.parseEther('1000'));
  });

  it('moves, and tells so', async () => {
    const { token, owner, other } = await helpers.loadFixture(deployed);
    assert.equal(await token.balanceOf(other.address), 0n);
    const receipt = await (await token.transfer(other.address, 5n)).wait();
    const [event] = await token.queryFilter(token.filters.Transfer(owner.address), receipt.blockNumber);
    assert.equal(event.args.value, 5n);
    assert.equal(await token.balanceOf(other.address), 5n);
  });

  it('is as it was for each test', async () => {
    const { token, other } = await helpers.loadFixture(deployed);
    assert.equal(await token.balanceOf(other.address), 0n);
  });

  it('says why it refuses', async () => {
    const { token, owner, other } = await helpers.loadFixture(deployed);
    const poor = token.connect(other);
    await assert.rejects(poor.transferFrom(owner.address, other.address, 1n), /allowance too small/);
    await assert.rejects(poor.transfer(owner.address, 1n), (error) => {
      assert.equal(token.interface.parseError(error.data).name, 'TooLittle');
      return true;
    });
  });
});

describe('the chain', () => {
  // What Hardhat's own sample project begins with.
  it('has a time of its own from the first block on', async () => {
    const now = Math.floor(Date.now() / 1000);
    const zero = await ethers.provider.getBlock(0);
    assert.ok(Math.abs(zero.timestamp - now) < 3600, `block 0 is of ${zero.timestamp}`);
    const unlock = (await helpers.time.latest()) + 365 * 24 * 3600;
    assert.ok(unlock > now);
  });

  it('deploys by CREATE2', async () => {
    const [owner] = await ethers.getSigners();
    const deployer = '0x4e59b44847b379578588920ca78fbf26c0b4956c';
    const [salt, code] = [ethers.id('salt'), '0x60018060095f395ff300'];
    await (await owner.sendTransaction({ to: deployer, data: ethers.concat([salt, code]) })).wait();
    const made = ethers.getCreate2Address(deployer, salt, ethers.keccak256(code));
    assert.equal(await ethers.provider.getCode(made), '0x00');
  });

  it('lets a contract be played', async () => {
    const [owner] = await ethers.getSigners();
    const contract = ethers.getAddress('0x00000000000000000000000000000000c0de0001');
    await helpers.setBalance(contract, ethers.parseEther('2'));
    await helpers.setCode(contract, '0x6001600055');
    await helpers.impersonateAccount(contract);
    const signer = await ethers.getSigner(contract);
    const receipt = await (await signer.sendTransaction({ to: owner.address, value: 1n })).wait();
    assert.equal(receipt.status, 1);
    await helpers.stopImpersonatingAccount(contract);
  });

  it('mines, and time passes', async () => {
    const before = await helpers.time.latestBlock();
    await helpers.mine(1000, { interval: 12 });
    assert.equal(await helpers.time.latestBlock(), before + 1000);
    const then = await helpers.time.latest();
    await helpers.time.increase(3600);
    assert.ok((await helpers.time.latest()) >= then + 3600);
    await helpers.time.setNextBlockTimestamp(then + 10_000);
    await helpers.mine();
    assert.equal(await helpers.time.latest(), then + 10_000);
  });

  it('goes back to a snapshot', async () => {
    const [, other] = await ethers.getSigners();
    const had = await ethers.provider.getBalance(other.address);
    const snapshot = await helpers.takeSnapshot();
    await helpers.setBalance(other.address, 7n);
    await helpers.mine(200);
    assert.equal(await ethers.provider.getBalance(other.address), 7n);
    await snapshot.restore();
    assert.equal(await ethers.provider.getBalance(other.address), had);
  });

  it('lets anybody be played, and anything be set', async () => {
    const [owner] = await ethers.getSigners();
    const someone = ethers.getAddress('0x00000000000000000000000000000000deadbeef');
    await helpers.setBalance(someone, ethers.parseEther('2'));
    await helpers.impersonateAccount(someone);
    const signer = await ethers.getSigner(someone);
    await (await signer.sendTransaction({ to: owner.address, value: 1n })).wait();
    await helpers.stopImpersonatingAccount(someone);
    await helpers.setNonce(someone, 9);
    assert.equal(await ethers.provider.getTransactionCount(someone), 9);
    await helpers.setCode(someone, '0x6001600055');
    assert.equal(await ethers.provider.getCode(someone), '0x6001600055');
    await helpers.setStorageAt(someone, 3, 5);
    assert.equal(BigInt(await helpers.getStorageAt(someone, 3)), 5n);
    await helpers.setNextBlockBaseFeePerGas(2_000_000_000n);
    await helpers.mine();
    assert.equal((await ethers.provider.getBlock('latest')).baseFeePerGas, 2_000_000_000n);
    await helpers.setPrevRandao(11);
    await helpers.setCoinbase(someone);
    await helpers.mine();
    assert.equal((await ethers.provider.getBlock('latest')).miner, someone);
    assert.equal(await network.provider.send('net_version', []), '31337');
  });
});
