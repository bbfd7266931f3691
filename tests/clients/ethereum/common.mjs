// Shared by the scripts for a chain: its address, a deadline, compiled contracts, funded keys.
//
// reads   RPC_URL: JSON-RPC over HTTP, and over WebSocket on the same port; KEYS: secret keys of funded accounts
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import solc from 'solc';

export const url = process.env.RPC_URL;
assert.ok(url, 'RPC_URL is not set: the address of a chain, as http://127.0.0.1:8545');

/** URL of the WebSocket on the same port. */
export const websocketUrl = url.replace(/^http/, 'ws');

/** Secret keys of funded accounts. */
export const keys = (process.env.KEYS ?? '').split(',');
assert.ok(keys.length >= 3, 'KEYS is not set: at least three secret keys with funds, commas between');

/** Time limit of a script. */
const DEADLINE_MS = 240_000;

setTimeout(() => {
  console.error(`not done within ${DEADLINE_MS / 1000} s`);
  process.exit(1);
}, DEADLINE_MS).unref();

/** Token and Amm, compiled from the sources next to this file. */
export function contracts() {
  const source = (name) => ({ content: readFileSync(new URL(name, import.meta.url), 'utf8') });
  const input = {
    language: 'Solidity',
    sources: { 'Token.sol': source('Token.sol'), 'Amm.sol': source('Amm.sol') },
    settings: {
      optimizer: { enabled: true, runs: 200 },
      outputSelection: { '*': { '*': ['abi', 'evm.bytecode.object'] } },
    },
  };
  const output = JSON.parse(solc.compile(JSON.stringify(input)));
  const errors = (output.errors ?? []).filter(({ severity }) => severity === 'error');
  assert.deepEqual(errors.map(({ formattedMessage }) => formattedMessage), []);
  const one = (file, name) => {
    const { abi, evm } = output.contracts[file][name];
    return { abi, bytecode: `0x${evm.bytecode.object}` };
  };
  return { Token: one('Token.sol', 'Token'), Amm: one('Amm.sol', 'Amm') };
}

/** Calls a method without any library. */
export async function ask(method, params = []) {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
  const response = await fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
  const { result, error } = await response.json();
  if (error) throw Object.assign(new Error(error.message), error);
  return result;
}

/** Polls until `look` returns something other than undefined. */
export async function until(what, look) {
  const end = Date.now() + 60_000;
  for (;;) {
    const found = await look();
    if (found !== undefined) return found;
    assert.ok(Date.now() < end, `in vain: ${what}`);
    await new Promise((wake) => setTimeout(wake, 20));
  }
}
