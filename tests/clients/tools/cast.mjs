// Foundry's cast, unmodified: its commands work on a node, and their answers agree.
//
// reads   RPC_URL; CONTRACTS: the compiled contracts from `../ethereum/contracts.mjs`
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

// The program itself: the package's wrapper exits with 0 whatever cast returns.
const program = fileURLToPath(new URL('node_modules/@foundry-rs/cast-linux-amd64/bin/cast', import.meta.url));
if (!existsSync(program)) {
  console.log(`cast: left out, as its package has no program for ${process.platform} on ${process.arch}`);
  process.exit(0);
}
const ours = { ETH_RPC_URL: process.env.RPC_URL, ETH_RPC_TIMEOUT: '120', FOUNDRY_DISABLE_NIGHTLY_WARNING: '1' };
const env = { ...process.env, ...ours };
/** The output of a command, which may take two minutes: the first blob waits for KZG's trusted setup. */
const cast = (...words) => {
  const options = { env, encoding: 'utf8', timeout: 120_000, stdio: ['ignore', 'pipe', 'pipe'] };
  return execFileSync(program, words, options).trim();
};
const json = (...words) => JSON.parse(cast(...words, '--json'));
const refusal = (...words) => {
  try {
    cast(...words);
  } catch (error) {
    return String(error.stderr);
  }
  return assert.fail(`cast ${words.join(' ')} is not refused`);
};

// The first two well-known development keys.
const key = '0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80';
const otherKey = '0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d';
const alice = cast('wallet', 'address', '--private-key', key);
const bob = cast('wallet', 'address', '--private-key', otherKey);
const { Token } = JSON.parse(readFileSync(process.env.CONTRACTS, 'utf8'));

// The chain.
assert.equal(cast('chain-id'), '31337');
assert.match(cast('client'), /./);
assert.ok(BigInt(cast('gas-price')) > 0n);

// A transfer, with every type of transaction.
const had = BigInt(cast('balance', bob));
for (const kind of [[], ['--legacy'], ['--access-list']]) {
  const receipt = json('send', bob, '--value', '1ether', '--private-key', key, ...kind);
  assert.equal(receipt.status, '0x1');
  assert.equal(cast('tx', receipt.transactionHash, 'to'), bob);
  assert.equal(cast('receipt', receipt.transactionHash, 'status'), 'true');
  assert.match(cast('run', '--quick', receipt.transactionHash), /successfully executed/);
}
assert.equal(BigInt(cast('balance', bob)), had + 3n * 10n ** 18n);
assert.equal(cast('nonce', alice), String(Number(json('rpc', 'eth_getTransactionCount', alice, 'latest'))));

// Signed separately, then published; a second publication reports that it is known.
const raw = cast('mktx', bob, '--value', '7', '--private-key', key);
const published = cast('publish', '--async', raw);
assert.match(published, /^0x[0-9a-f]{64}$/);
cast('receipt', '--confirmations', '1', published);
assert.match(refusal('publish', raw), /nonce too low|already known/);

// A contract: created, called, queried; its logs, its storage and the proof of it.
const words = cast('abi-encode', 'f(string,string,uint256)', 'Gold', 'GLD', '1000').slice(2);
const made = json('send', '--private-key', key, '--create', `0x${Token.bytecode.replace(/^0x/, '')}${words}`);
const token = made.contractAddress;
assert.equal(cast('call', token, 'balanceOf(address)(uint256)', alice), '1000');
assert.equal(cast('call', token, 'name()(string)'), '"Gold"');
const moved = json('send', token, 'transfer(address,uint256)', bob, '5', '--private-key', key);
assert.equal(moved.logs.length, 1);
const logs = json('logs', '--from-block', made.blockNumber, '--address', token, 'Transfer(address,address,uint256)');
assert.ok(logs.some((log) => log.transactionHash === moved.transactionHash));
assert.match(refusal('call', token, 'transferFrom(address,address,uint256)', alice, bob, '1'), /allowance too small/);
assert.ok(Number(cast('estimate', token, 'transfer(address,uint256)', bob, '1', '--from', alice)) > 21_000);
assert.match(cast('access-list', token, 'transfer(address,uint256)', bob, '1', '--from', alice), /storageKeys|keys/i);
assert.ok(Number(cast('codesize', token)) > 100);
assert.equal(cast('codehash', token), cast('keccak', cast('code', token)));
assert.equal(json('proof', token).storageHash, cast('storage-root', token));
assert.match(cast('storage', token, '0'), /^0x[0-9a-f]{64}$/);
assert.match(cast('run', moved.transactionHash), /transfer|Traces/);

// Types 3 and 4: a blob; an account that takes a contract's code, and gives it back.
const withBlob = json('send', bob, '--value', '1', '--private-key', key, '--blob', '--path', process.env.CONTRACTS);
assert.equal(withBlob.type, '0x3');
assert.equal(Number(withBlob.blobGasUsed) % 131_072, 0);
for (const [delegate, code] of [[token, `0xef0100${token.slice(2)}`], [`0x${'00'.repeat(20)}`, '0x']]) {
  assert.equal(json('send', bob, '--value', '1', '--private-key', key, '--auth', delegate).type, '0x4');
  assert.equal(cast('code', alice), code.toLowerCase());
}

// Blocks.
const number = Number(cast('block-number'));
const block = json('block', 'latest');
assert.ok(Number(block.number) >= number);
assert.equal(cast('block', String(number), '--field', 'number'), String(number));
const pending = json('block', 'pending');
assert.ok(Number(pending.number) > number);
assert.match(pending.stateRoot, /^0x[0-9a-f]{64}$/);
assert.equal(json('block', 'pending', '--full').parentHash.length, 66);
assert.equal(cast('balance', bob, '--block', 'pending'), cast('balance', bob));
assert.match(cast('age', String(number)), /20\d\d/);
assert.equal(cast('basefee', String(number)), String(Number(json('block', String(number)).baseFeePerGas)));
assert.ok(Number(cast('find-block', '0')) >= 0);

// Methods that only development nodes allow.
cast('rpc', 'anvil_setBalance', bob, '0x10');
assert.equal(cast('balance', bob), '16');
cast('rpc', 'evm_mine');
assert.match(refusal('send', alice, '--value', '1ether', '--private-key', otherKey), /insufficient funds/);
assert.deepEqual(json('tx-pool', 'status'), { pending: '0x0', queued: '0x0' });
console.log('cast: ok');
