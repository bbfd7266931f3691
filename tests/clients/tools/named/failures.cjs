// Hardhat 2, unmodified, on a node that calls itself Hardhat's: what is mined and fails is an error, with its reason.
const assert = require('node:assert/strict');
const { ethers, network } = require('hardhat');

describe('a transaction that fails', () => {
  // With gas, so that no estimate fails before it is sent.
  const gasLimit = 200_000;

  it('is refused with the reason, and mined', async () => {
    const [owner, other] = await ethers.getSigners();
    const token = await ethers.deployContract('Token', ['Gold', 'GLD', 1000n]);
    await token.waitForDeployment();
    const poor = token.connect(other);
    const sent = () => poor.transferFrom(owner.address, other.address, 1n, { gasLimit });
    await assert.rejects(sent(), /reverted with reason string 'allowance too small'/);
    await assert.rejects(poor.transfer(owner.address, 1n, { gasLimit }), (error) => {
      assert.match(error.message, /unrecognized custom error/);
      assert.equal(token.interface.parseError(error.data.data ?? error.data).name, 'TooLittle');
      return true;
    });
    assert.equal(await ethers.provider.getTransactionCount(other.address), 2);
  });

  it('has another number of the chain after a reset', async () => {
    const { instanceId } = await network.provider.send('hardhat_metadata', []);
    assert.match(instanceId, /^0x[0-9a-f]{64}$/);
    await network.provider.send('hardhat_reset', []);
    assert.notEqual((await network.provider.send('hardhat_metadata', [])).instanceId, instanceId);
  });
});
