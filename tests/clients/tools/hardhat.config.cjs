// A project as Hardhat's users have it, with its contracts and a running chain.
//
// reads   RPC_URL; the contracts of `../ethereum`, of `sources` and of Hardhat's own sample project
// writes  `contracts`, `artifacts`, `cache` beside this file
const { cpSync, mkdirSync } = require('node:fs');
const { dirname, join } = require('node:path');
const { subtask } = require('hardhat/config');
const { TASK_COMPILE_SOLIDITY_GET_SOLC_BUILD } = require('hardhat/builtin-tasks/task-names');
require('@nomicfoundation/hardhat-ethers');
require('@nomicfoundation/hardhat-chai-matchers');
require('@nomicfoundation/hardhat-ignition-ethers');
require('@openzeppelin/hardhat-upgrades');

// Sources must lie in the project.
const sample = join(dirname(require.resolve('hardhat/package.json')), 'sample-projects/javascript/contracts');
const sources = [
  [join(__dirname, '../ethereum'), 'Token.sol'], [join(__dirname, '../ethereum'), 'Amm.sol'],
  [join(__dirname, 'sources'), 'Box.sol'], [sample, 'Lock.sol'],
];
mkdirSync(join(__dirname, 'contracts'), { recursive: true });
for (const [folder, name] of sources) cpSync(join(folder, name), join(__dirname, 'contracts', name));

// The compiler from npm: Hardhat would download one from elsewhere.
const version = '0.8.37';
subtask(TASK_COMPILE_SOLIDITY_GET_SOLC_BUILD, async () => {
  const longVersion = require('solc').version();
  return { version, longVersion, compilerPath: require.resolve('solc/soljson.js'), isSolcJs: true };
});

module.exports = {
  solidity: version,
  defaultNetwork: 'hearth',
  networks: { hearth: { url: process.env.RPC_URL, accounts: 'remote' } },
};
