// Address lookup tables: created and extended by `@solana/web3.js`, used by it and by `@solana/kit`.
import assert from 'node:assert/strict';
import {
  address,
  appendTransactionMessageInstructions,
  assertIsTransactionWithBlockhashLifetime,
  compressTransactionMessageUsingAddressLookupTables,
  createSolanaRpc,
  createSolanaRpcSubscriptions,
  createTransactionMessage,
  generateKeyPairSigner,
  getSignatureFromTransaction,
  lamports as kitLamports,
  pipe,
  sendAndConfirmTransactionFactory,
  setTransactionMessageFeePayerSigner,
  setTransactionMessageLifetimeUsingBlockhash,
  signTransactionMessageWithSigners,
} from '@solana/kit';
import { getTransferSolInstruction } from '@solana-program/system';
import {
  AddressLookupTableProgram,
  Keypair,
  LAMPORTS_PER_SOL,
  PublicKey,
  SystemProgram,
  Transaction,
  TransactionMessage,
  VersionedTransaction,
  sendAndConfirmTransaction,
} from '@solana/web3.js';
import { airdrop, connection, richKey, run, until, url, websocketUrl } from './common.mjs';

const payer = await richKey(100 * LAMPORTS_PER_SOL);
const lamports = await connection.getMinimumBalanceForRentExemption(0);
const send = (...instructions) => sendAndConfirmTransaction(connection, new Transaction().add(...instructions), [payer]);
const keys = (count) => Array.from({ length: count }, () => Keypair.generate().publicKey);

/** New addresses of a table can be used from the slot after the one that added them. */
async function nextSlot() {
  const now = await connection.getSlot('confirmed');
  await until('the next slot', async () => ((await connection.getSlot('confirmed')) > now ? true : undefined));
}

let table;
let recipients = keys(20);
const extend = (addresses) =>
  AddressLookupTableProgram.extendLookupTable({ lookupTable: table, authority: payer.publicKey, payer: payer.publicKey, addresses });

async function aTableIsMadeAndExtended() {
  const recentSlot = (await connection.getSlot('confirmed')) - 1;
  const accounts = { authority: payer.publicKey, payer: payer.publicKey, recentSlot };
  const [create, key] = AddressLookupTableProgram.createLookupTable(accounts);
  table = key;
  await send(create, extend(recipients));
  const more = keys(10);
  await send(extend(more));
  recipients = [...recipients, ...more];
  await nextSlot();
  const { value } = await connection.getAddressLookupTable(table);
  assert.deepEqual(value.state.addresses.map(String), recipients.map(String));
}

/** Pays each recipient; their addresses are only in the table. */
async function pay(recipients) {
  const { value } = await connection.getAddressLookupTable(table);
  const latest = await connection.getLatestBlockhash();
  const message = new TransactionMessage({
    payerKey: payer.publicKey,
    recentBlockhash: latest.blockhash,
    instructions: recipients.map((toPubkey) => SystemProgram.transfer({ fromPubkey: payer.publicKey, toPubkey, lamports })),
  }).compileToV0Message([value]);
  assert.equal(message.staticAccountKeys.length, 2);
  const transaction = new VersionedTransaction(message);
  transaction.sign([payer]);
  const signature = await connection.sendTransaction(transaction);
  assert.equal((await connection.confirmTransaction({ signature, ...latest })).value.err, null);
  return signature;
}

async function web3jsUsesIt() {
  const signature = await pay(recipients.slice(0, 25));
  const infos = await connection.getMultipleAccountsInfo(recipients);
  assert.deepEqual(infos.map((info) => info?.lamports), recipients.map((_, index) => (index < 25 ? lamports : undefined)));
  const found = await connection.getTransaction(signature, { maxSupportedTransactionVersion: 0 });
  assert.deepEqual(found.meta.loadedAddresses.writable.map(String).sort(), recipients.slice(0, 25).map(String).sort());
}

async function manyThatConflictAllLand() {
  const before = (await connection.getAccountInfo(recipients[0])).lamports;
  // All write the same account, which only the table names; the amounts distinguish the instructions.
  await Promise.all([1, 2, 3, 4, 5, 6, 7, 8].map((count) => pay(Array(count).fill(recipients[0]))));
  assert.equal((await connection.getAccountInfo(recipients[0])).lamports, before + 36 * lamports);
}

async function kitUsesIt() {
  const [rpc, rpcSubscriptions] = [createSolanaRpc(url), createSolanaRpcSubscriptions(websocketUrl)];
  const [commitment, signer] = ['confirmed', await generateKeyPairSigner()];
  await airdrop(new PublicKey(signer.address), LAMPORTS_PER_SOL);
  const addresses = recipients.map((key) => address(key.toBase58()));
  const amount = kitLamports(BigInt(lamports));
  const transfers = addresses.slice(25).map((destination) => getTransferSolInstruction({ source: signer, destination, amount }));
  const { value: latest } = await rpc.getLatestBlockhash({ commitment }).send();
  const message = pipe(
    createTransactionMessage({ version: 0 }),
    (message) => setTransactionMessageFeePayerSigner(signer, message),
    (message) => setTransactionMessageLifetimeUsingBlockhash(latest, message),
    (message) => appendTransactionMessageInstructions(transfers, message),
    (message) => compressTransactionMessageUsingAddressLookupTables(message, { [table.toBase58()]: addresses }),
  );
  const transaction = await signTransactionMessageWithSigners(message);
  assertIsTransactionWithBlockhashLifetime(transaction);
  await sendAndConfirmTransactionFactory({ rpc, rpcSubscriptions })(transaction, { commitment });
  const options = { commitment, maxSupportedTransactionVersion: 0, encoding: 'json' };
  const found = await rpc.getTransaction(getSignatureFromTransaction(transaction), options).send();
  assert.deepEqual([...found.meta.loadedAddresses.writable].sort(), addresses.slice(25).sort());
}

async function anEndedTableGoesOnForAWhile() {
  await send(AddressLookupTableProgram.deactivateLookupTable({ lookupTable: table, authority: payer.publicKey }));
  await pay(recipients.slice(0, 2));
}

await run([
  ['a table is made and extended', aTableIsMadeAndExtended],
  ['web3.js uses it', web3jsUsesIt],
  ['many that conflict all land', manyThatConflictAllLand],
  ['kit uses it', kitUsesIt],
  ['an ended table goes on for a while', anEndedTableGoesOnForAWhile],
]);
