// Hardhat's own sample project, as its package has it: the suite with its matchers, and the deployment by Ignition.
//
// reads   the sample project in Hardhat's package
// writes  `ignition/deployments`, and removes it
const assert = require('node:assert/strict');
const { rmSync } = require('node:fs');
const Module = require('node:module');
const { dirname, join } = require('node:path');
const { config, ethers, ignition } = require('hardhat');

const sample = join(dirname(require.resolve('hardhat/package.json')), 'sample-projects/javascript');

// Two of the toolbox's parts are installed, not the toolbox, which has two hundred packages more.
const PARTS = {
  '@nomicfoundation/hardhat-toolbox/network-helpers': '@nomicfoundation/hardhat-network-helpers',
};
const here = Module.createRequire(__filename);
const resolve = Module._resolveFilename;
Module._resolveFilename = (name, ...rest) =>
  name in PARTS ? here.resolve(PARTS[name]) : resolve.call(Module, name, ...rest);

require(join(sample, 'test/Lock.js'));

describe('the sample project', () => {
  const module = require(join(sample, 'ignition/modules/Lock.js'));
  const parameters = { LockModule: { unlockTime: 4_000_000_000n } };

  // What Ignition has written of another chain would count as deployed.
  const forget = () => rmSync(join(config.paths.root, 'ignition/deployments'), { recursive: true, force: true });
  beforeEach(forget);
  after(forget);

  it('is deployed by Ignition', async () => {
    const { lock } = await ignition.deploy(module, { parameters });
    assert.equal(await lock.unlockTime(), 4_000_000_000n);
    assert.equal(await ethers.provider.getBalance(await lock.getAddress()), 1_000_000_000n);
  });

  it('is deployed by Ignition with a salt', async () => {
    // The factory, CreateX, comes by a transaction that was signed once for all chains.
    const strategyConfig = { salt: `0x${'00'.repeat(31)}17` };
    const { lock } = await ignition.deploy(module, { parameters, strategy: 'create2', strategyConfig });
    assert.equal(await lock.unlockTime(), 4_000_000_000n);
    assert.notEqual(await ethers.provider.getCode('0xba5Ed099633D3B313e4D5F7bdc1305d3c28ba5Ed'), '0x');
  });
});
