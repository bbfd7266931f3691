// OpenZeppelin's upgrades, unmodified: each kind of proxy is deployed, upgraded, and found on the chain again.
const assert = require('node:assert/strict');
const { expect } = require('chai');
const { ethers, upgrades } = require('hardhat');
const { getAdminAddress, getBeaconAddress, getImplementationAddress } = require('@openzeppelin/upgrades-core');

const { provider } = ethers;
const factory = (name) => ethers.getContractFactory(name);

describe('a proxy', () => {
  for (const [kind, first, second] of [['transparent', 'Box', 'BoxV2'], ['uups', 'OwnBox', 'OwnBoxV2']]) {
    it(`is upgraded, ${kind}`, async () => {
      const box = await upgrades.deployProxy(await factory(first), [42n], { kind });
      await box.waitForDeployment();
      const address = await box.getAddress();
      assert.equal(await box.value(), 42n);
      await expect(box.initialize(1n)).to.be.revertedWithCustomError(box, 'InvalidInitialization');
      const before = await getImplementationAddress(provider, address);
      const upgraded = await upgrades.upgradeProxy(address, await factory(second));
      await upgraded.waitForDeployment();
      assert.notEqual(await getImplementationAddress(provider, address), before);
      await (await upgraded.increment()).wait();
      assert.equal(await upgraded.value(), 43n);
      const admin = await getAdminAddress(provider, address);
      assert.equal(admin === ethers.ZeroAddress, kind === 'uups');
    });
  }

  it('is upgraded with all others of its beacon', async () => {
    const beacon = await upgrades.deployBeacon(await factory('Box'));
    await beacon.waitForDeployment();
    const boxes = [];
    for (const value of [1n, 2n]) boxes.push(await upgrades.deployBeaconProxy(beacon, await factory('Box'), [value]));
    const address = await boxes[0].getAddress();
    assert.equal(await getBeaconAddress(provider, address), await beacon.getAddress());
    await (await upgrades.upgradeBeacon(beacon, await factory('BoxV2'))).waitForDeployment();
    for (const [index, box] of boxes.entries()) {
      const upgraded = (await factory('BoxV2')).attach(await box.getAddress());
      await (await upgraded.increment()).wait();
      assert.equal(await upgraded.value(), BigInt(index) + 2n);
    }
  });

  it('is not given another layout', async () => {
    const box = await upgrades.deployProxy(await factory('Box'), [7n]);
    const otherwise = upgrades.upgradeProxy(await box.getAddress(), await factory('BoxOtherwise'));
    await assert.rejects(otherwise, /not upgrade safe/);
  });

  it('that the tool does not know is imported', async () => {
    const box = await upgrades.deployProxy(await factory('Box'), [7n]);
    await upgrades.forceImport(await box.getAddress(), await factory('Box'));
    const made = await upgrades.prepareUpgrade(await box.getAddress(), await factory('BoxV2'));
    assert.notEqual(await provider.getCode(made), '0x');
  });
});
