// Shared by the scripts for a node: its address, a deadline, lamports.
//
// reads   RPC_URL: the node's JSON-RPC over HTTP; its WebSocket is one port higher, as the libraries expect
//         FUNDER: the file of a key that pays where the node has no faucet
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { Connection, Keypair, SystemProgram, Transaction } from '@solana/web3.js';

export const url = process.env.RPC_URL;
assert.ok(url, 'RPC_URL is not set: the address of a node, as http://127.0.0.1:8899');

/** URL of the node's WebSocket. */
export const websocketUrl = url.replace(/^http/, 'ws').replace(/:(\d+)$/, (_, port) => `:${Number(port) + 1}`);

/** Fee per signature in lamports. */
export const FEE = 5000;
/** Time limit of a script. */
const DEADLINE_MS = 240_000;

setTimeout(() => {
  console.error(`not done within ${DEADLINE_MS / 1000} s`);
  process.exit(1);
}, DEADLINE_MS).unref();

export const connection = new Connection(url, 'confirmed');

const funder =
  process.env.FUNDER && Keypair.fromSecretKey(Uint8Array.from(JSON.parse(readFileSync(process.env.FUNDER, 'utf8'))));

async function fund(toPubkey, lamports) {
  if (!funder) return connection.requestAirdrop(toPubkey, lamports);
  const transfer = SystemProgram.transfer({ fromPubkey: funder.publicKey, toPubkey, lamports });
  return connection.sendTransaction(new Transaction().add(transfer), [funder]);
}

/** Requests an airdrop, or lets FUNDER pay, and waits for the lamports. */
export async function airdrop(to, lamports) {
  const signature = await fund(to, lamports);
  const { value } = await connection.confirmTransaction({ signature, ...(await connection.getLatestBlockhash()) });
  assert.equal(value.err, null);
  return signature;
}

/** A new key with lamports. */
export async function richKey(lamports) {
  const key = Keypair.generate();
  await airdrop(key.publicKey, lamports);
  return key;
}

/** Polls until `look` returns something other than undefined, since no event reports the change. */
export async function until(what, look) {
  for (const end = Date.now() + 30_000; Date.now() < end; ) {
    const found = await look();
    if (found !== undefined) return found;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  assert.fail(`${what}: not within 30 s`);
}

/** Runs the cases in order, and reports which failed. */
export async function run(cases) {
  for (const [what, test] of cases) {
    try {
      await test();
    } catch (error) {
      console.error(`failed: ${what}`);
      throw error;
    }
    console.log(`  ${what}`);
  }
  console.log('ok');
  process.exit(0);
}
