// Foundry's forge, unmodified: a script that deploys with a salt, and one that is sent as simulated.
//
// reads   RPC_URL
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

// The program itself: the package's wrapper exits with 0 whatever forge returns.
const program = fileURLToPath(new URL('node_modules/@foundry-rs/forge-linux-amd64/bin/forge', import.meta.url));
if (!existsSync(program)) {
  console.log(`forge: left out, as its package has no program for ${process.platform} on ${process.arch}`);
  process.exit(0);
}
const solcjs = fileURLToPath(new URL('node_modules/solc/index.js', import.meta.url));
const key = '0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80';

const rpc = async (method, ...params) => {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
  const response = await fetch(process.env.RPC_URL, {
    method: 'POST', headers: { 'content-type': 'application/json' }, body,
  });
  const { result, error } = await response.json();
  assert.equal(error, undefined, `${method}: ${JSON.stringify(error)}`);
  return result;
};

const folder = mkdtempSync(join(tmpdir(), 'hearth-forge-'));
try {
  // The npm compiler, wrapped so that forge can call it.
  const compiler = join(folder, 'solc');
  writeFileSync(compiler, `#!${process.execPath}
const solc = require(${JSON.stringify(solcjs)});
if (process.argv.includes('--version')) {
  console.log('solc, the solidity compiler commandline interface\\nVersion: ' + solc.version());
} else {
  process.stdout.write(solc.compile(require('node:fs').readFileSync(0, 'utf8')));
}
`);
  chmodSync(compiler, 0o755);
  mkdirSync(join(folder, 'script'));
  writeFileSync(join(folder, 'foundry.toml'), '[profile.default]\nsrc = "script"\nevm_version = "cancun"\n');
  writeFileSync(join(folder, 'script/Deploy.s.sol'), `// SPDX-License-Identifier: MIT
pragma solidity ^0.8.0;

interface Cheats {
  function startBroadcast() external;
  function stopBroadcast() external;
}

contract Counter {
  uint256 public count;

  constructor(uint256 first) {
    count = first;
  }

  function add(uint256 some) external {
    count += some;
  }
}

contract Deploy {
  bool public IS_SCRIPT = true;
  Cheats constant cheats = Cheats(address(uint160(uint256(keccak256("hevm cheat code")))));

  function run() external returns (address) {
    cheats.startBroadcast();
    Counter counter = new Counter{salt: bytes32(uint256(23))}(40);
    counter.add(2);
    cheats.stopBroadcast();
    return address(counter);
  }
}
`);
  const env = { ...process.env, FOUNDRY_DISABLE_NIGHTLY_WARNING: '1' };
  const options = { cwd: folder, env, encoding: 'utf8', timeout: 120_000, stdio: ['ignore', 'pipe', 'pipe'] };
  const deployed = execFileSync(program, [
    'script', 'Deploy', '--use', compiler, '--offline', '--rpc-url', process.env.RPC_URL, '--private-key', key,
    '--broadcast',
  ], options);
  assert.match(deployed, /ONCHAIN EXECUTION COMPLETE/);

  const run = JSON.parse(readFileSync(join(folder, 'broadcast/Deploy.s.sol/31337/run-latest.json'), 'utf8'));
  assert.deepEqual(run.transactions.map((transaction) => transaction.transactionType), ['CREATE2', 'CALL']);
  assert.deepEqual(run.receipts.map((receipt) => receipt.status), ['0x1', '0x1']);
  const { contractAddress } = run.transactions[0];
  // The salted deployment uses the deployer of the genesis, so the address does not depend on the sender.
  assert.equal(run.transactions[0].transaction.to, '0x4e59b44847b379578588920ca78fbf26c0b4956c');
  assert.equal(BigInt(await rpc('eth_call', { to: contractAddress, data: '0x06661abd' }, 'latest')), 42n);
} finally {
  rmSync(folder, { recursive: true });
}
console.log('forge: ok');
