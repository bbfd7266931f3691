// Programs through `@solana/web3.js` and Anchor's client: deploy with the upgradeable loader, call, upgrade; logs,
// return data, durable nonces, history.
//
// reads   PROGRAM: an ELF that counts (tests/clients/programs/counter.s); PROGRAM_BY_TEN: one that counts by ten
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import anchor from '@coral-xyz/anchor';
import {
  ComputeBudgetProgram,
  Keypair,
  LAMPORTS_PER_SOL,
  NONCE_ACCOUNT_LENGTH,
  NonceAccount,
  PublicKey,
  SYSVAR_CLOCK_PUBKEY,
  SYSVAR_RENT_PUBKEY,
  SystemProgram,
  Transaction,
  TransactionInstruction,
  TransactionMessage,
  VersionedTransaction,
  sendAndConfirmTransaction,
} from '@solana/web3.js';
import { FEE, connection, richKey, run, until } from './common.mjs';

const LOADER = new PublicKey('BPFLoaderUpgradeab1e11111111111111111111111');
/** Bytes of a program that fit into a transaction besides the rest. */
const CHUNK = 900;
const BUFFER_HEADER = 37;
const PROGRAM_BYTES = 36;
const COUNTER_BYTES = 16;

const payer = await richKey(100 * LAMPORTS_PER_SOL);
const send = (instructions, ...signers) =>
  sendAndConfirmTransaction(connection, new Transaction().add(...instructions), [payer, ...signers]);

/** An instruction for the upgradeable loader: `number`, then 32- or 64-bit little-endian fields, then bytes. */
function loader(number, keys, ...parts) {
  const head = Buffer.alloc(4);
  head.writeUInt32LE(number);
  return new TransactionInstruction({ programId: LOADER, keys, data: Buffer.concat([head, ...parts]) });
}

const u32 = (value) => Buffer.from(Uint32Array.of(value).buffer);
const u64 = (value) => Buffer.from(BigUint64Array.of(BigInt(value)).buffer);
const writable = (pubkey, isSigner = false) => ({ pubkey, isSigner, isWritable: true });
const readonly = (pubkey, isSigner = false) => ({ pubkey, isSigner, isWritable: false });

async function newAccount(space, programId, lamports) {
  const key = Keypair.generate();
  const rent = lamports ?? (await connection.getMinimumBalanceForRentExemption(space));
  const fields = { fromPubkey: payer.publicKey, newAccountPubkey: key.publicKey, lamports: rent, space, programId };
  return [key, SystemProgram.createAccount(fields)];
}

/** Writes an ELF into a new buffer account. */
async function upload(elf) {
  const [buffer, create] = await newAccount(BUFFER_HEADER + elf.length, LOADER);
  await send([create, loader(0, [writable(buffer.publicKey), readonly(payer.publicKey)])], buffer);
  const writes = [];
  for (let at = 0; at < elf.length; at += CHUNK) {
    const bytes = elf.subarray(at, at + CHUNK);
    const keys = [writable(buffer.publicKey), readonly(payer.publicKey, true)];
    writes.push(send([loader(1, keys, u32(at), u64(bytes.length), bytes)]));
  }
  await Promise.all(writes);
  return buffer.publicKey;
}

const programData = (program) => PublicKey.findProgramAddressSync([program.toBuffer()], LOADER)[0];

async function deploy(elf) {
  const buffer = await upload(elf);
  const [program, create] = await newAccount(PROGRAM_BYTES, LOADER);
  const keys = [
    writable(payer.publicKey, true),
    writable(programData(program.publicKey)),
    writable(program.publicKey),
    writable(buffer),
    readonly(SYSVAR_RENT_PUBKEY),
    readonly(SYSVAR_CLOCK_PUBKEY),
    readonly(SystemProgram.programId),
    readonly(payer.publicKey, true),
  ];
  await send([create, loader(2, keys, u64(elf.length + 1000))], program);
  await nextSlot();
  return program.publicKey;
}

/** A program can be called from the slot after its deployment on. */
async function nextSlot() {
  const now = await connection.getSlot('confirmed');
  await until('the next slot', async () => ((await connection.getSlot('confirmed')) > now ? true : undefined));
}

const elf = readFileSync(process.env.PROGRAM);
let program;
let counter;
const count = (key) => new TransactionInstruction({ programId: program, keys: [writable(key)] });
const counted = async (key) => (await connection.getAccountInfo(key)).data.readBigUInt64LE(8);

async function aProgramIsDeployedAndCalled() {
  program = await deploy(elf);
  const account = await connection.getAccountInfo(program);
  assert.ok(account.executable && account.owner.equals(LOADER));
  const [key, create] = await newAccount(COUNTER_BYTES, program);
  counter = key.publicKey;
  const signature = await send([create, count(counter)], key);
  assert.equal(await counted(counter), 1n);
  const { meta } = await connection.getTransaction(signature, { maxSupportedTransactionVersion: 0 });
  assert.ok(meta.logMessages.includes('Program log: counted!'), meta.logMessages.join('\n'));
  assert.ok(meta.computeUnitsConsumed > 300);
}

async function aCallIsSimulated() {
  const before = await counted(counter);
  const latest = await connection.getLatestBlockhash();
  const message = new TransactionMessage({
    payerKey: payer.publicKey,
    recentBlockhash: latest.blockhash,
    instructions: [ComputeBudgetProgram.setComputeUnitLimit({ units: 50_000 }), count(counter)],
  }).compileToV0Message();
  const options = { sigVerify: false, accounts: { encoding: 'base64', addresses: [counter.toBase58()] } };
  const { value } = await connection.simulateTransaction(new VersionedTransaction(message), options);
  assert.equal(value.err, null);
  assert.ok(value.logs.includes('Program log: counted!'));
  assert.equal(Buffer.from(value.returnData.data[0], 'base64').readBigUInt64LE(), before + 1n);
  assert.equal(Buffer.from(value.accounts[0].data[0], 'base64').readBigUInt64LE(8), before + 1n);
  assert.equal(await counted(counter), before, 'nothing has changed');
}

async function logsAndProgramAccountsAreTold() {
  const logs = new Promise((resolve) => connection.onLogs(program, resolve, 'confirmed'));
  const changed = new Promise((resolve) => connection.onProgramAccountChange(program, resolve, { commitment: 'confirmed' }));
  const signature = await send([count(counter)]);
  const notified = await logs;
  assert.deepEqual([notified.signature, notified.err], [signature, null]);
  assert.ok(notified.logs.includes('Program log: counted!'));
  assert.ok((await changed).accountId.equals(counter));
}

async function anErrorOfTheProgramIsTold() {
  const [key, create] = await newAccount(8, program);
  const failed = await send([create, count(key.publicKey)], key).then(() => assert.fail('it was counted'), (error) => error);
  assert.match(failed.message, /custom program error: 0x2/);
  assert.equal(await connection.getAccountInfo(key.publicKey), null);
}

async function anchorsClientCalls() {
  const idl = {
    address: program.toBase58(),
    metadata: { name: 'counter', version: '1.0.0', spec: '0.1.0' },
    instructions: [
      { name: 'increment', discriminator: [11, 18, 104, 9, 104, 174, 59, 33], accounts: [{ name: 'counter', writable: true }], args: [] },
    ],
    accounts: [{ name: 'Counter', discriminator: [0, 0, 0, 0, 0, 0, 0, 0] }],
    types: [{ name: 'Counter', type: { kind: 'struct', fields: [{ name: 'count', type: 'u64' }] } }],
  };
  const provider = new anchor.AnchorProvider(connection, new anchor.Wallet(payer), { commitment: 'confirmed' });
  const client = new anchor.Program(idl, provider);
  const before = (await client.account.counter.fetch(counter)).count.toNumber();
  const signature = await client.methods.increment().accounts({ counter }).rpc();
  assert.equal((await client.account.counter.fetch(counter)).count.toNumber(), before + 1);
  assert.equal((await client.account.counter.all()).length, 1);
  const simulated = await client.methods.increment().accounts({ counter }).simulate();
  assert.ok(simulated.raw.includes('Program log: counted!'));
  assert.equal((await connection.getSignatureStatus(signature)).value.err, null);
}

async function aProgramIsUpgraded() {
  const buffer = await upload(readFileSync(process.env.PROGRAM_BY_TEN));
  const keys = [
    writable(programData(program)),
    writable(program),
    writable(buffer),
    writable(payer.publicKey),
    readonly(SYSVAR_RENT_PUBKEY),
    readonly(SYSVAR_CLOCK_PUBKEY),
    readonly(payer.publicKey, true),
  ];
  const before = await counted(counter);
  await send([loader(3, keys)]);
  await nextSlot();
  await send([count(counter)]);
  assert.equal(await counted(counter), before + 10n);
  assert.equal(await connection.getAccountInfo(buffer), null, 'the buffer is gone');
}

async function aDurableNonceServes() {
  const [nonce, create] = await newAccount(NONCE_ACCOUNT_LENGTH, SystemProgram.programId);
  const own = { noncePubkey: nonce.publicKey, authorizedPubkey: payer.publicKey };
  await send([create, SystemProgram.nonceInitialize(own)], nonce);
  const stored = async () => NonceAccount.fromAccountData((await connection.getAccountInfo(nonce.publicKey)).data).nonce;
  const to = Keypair.generate().publicKey;
  // Each is confirmed by a subscription, by the nonce that advances, or by the status, whichever comes first.
  for (let round = 1; round <= 5; round += 1) {
    const value = await stored();
    const nonceInfo = { nonce: value, nonceInstruction: SystemProgram.nonceAdvance(own) };
    const transaction = new Transaction({ nonceInfo, feePayer: payer.publicKey });
    transaction.add(SystemProgram.transfer({ fromPubkey: payer.publicKey, toPubkey: to, lamports: LAMPORTS_PER_SOL }));
    transaction.sign(payer);
    const minContextSlot = await connection.getSlot();
    const signature = await connection.sendRawTransaction(transaction.serialize());
    const strategy = { signature, nonceAccountPubkey: nonce.publicKey, nonceValue: value, minContextSlot };
    const confirmed = await connection.confirmTransaction(strategy);
    assert.equal(confirmed.value.err, null);
    assert.equal(await connection.getBalance(to), round * LAMPORTS_PER_SOL);
    assert.notEqual(await stored(), value);
  }
}

async function aMalformedProgramIsRefused() {
  const error = await deploy(Buffer.alloc(500, 7)).then(() => assert.fail('it was deployed'), (error) => error);
  assert.match(error.message, /invalid account data|InvalidAccountData|failed/i);
}

async function historyIsKept() {
  const alice = await richKey(LAMPORTS_PER_SOL);
  const signatures = [];
  for (const lamports of [890_880, 1, 2]) {
    const transfer = SystemProgram.transfer({ fromPubkey: alice.publicKey, toPubkey: counter, lamports });
    signatures.push(await sendAndConfirmTransaction(connection, new Transaction().add(transfer), [alice]));
  }
  const listed = await connection.getSignaturesForAddress(alice.publicKey);
  assert.deepEqual(listed.slice(0, 3).map(({ signature }) => signature), [...signatures].reverse());
  assert.equal(listed.length, 4, 'the airdrop too');
  const before = await connection.getSignaturesForAddress(alice.publicKey, { before: signatures[2], limit: 1 });
  assert.deepEqual(before.map(({ signature }) => signature), [signatures[1]]);
  const found = await connection.getParsedTransaction(signatures[0]);
  assert.equal(found.meta.fee, FEE);
  assert.equal(found.transaction.message.instructions[0].parsed.info.lamports, 890_880);
  assert.equal(found.meta.postBalances[0], found.meta.preBalances[0] - 890_880 - FEE);
  const block = await connection.getBlock(found.slot, { maxSupportedTransactionVersion: 0 });
  assert.ok(block.transactions.some(({ transaction }) => transaction.signatures[0] === signatures[0]));
  assert.equal(await connection.getBlockTime(found.slot), block.blockTime);
  assert.ok((await connection.getBlocks(found.slot, found.slot)).includes(found.slot));
}

await run([
  ['a program is deployed and called', aProgramIsDeployedAndCalled],
  ['a call is simulated', aCallIsSimulated],
  ['logs and program accounts are notified', logsAndProgramAccountsAreTold],
  ['an error of the program is reported', anErrorOfTheProgramIsTold],
  ["Anchor's client calls", anchorsClientCalls],
  ['a durable nonce serves', aDurableNonceServes],
  ['history is kept', historyIsKept],
  ['a malformed program is refused', aMalformedProgramIsRefused],
  ['a program is upgraded', aProgramIsUpgraded],
]);
