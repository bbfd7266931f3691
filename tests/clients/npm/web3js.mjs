// `@solana/web3.js`: fund a key, transfer, see it confirmed, read it back.
import assert from 'node:assert/strict';
import {
  ComputeBudgetProgram,
  Keypair,
  LAMPORTS_PER_SOL,
  SendTransactionError,
  SystemProgram,
  Transaction,
  TransactionMessage,
  VersionedTransaction,
  sendAndConfirmTransaction,
} from '@solana/web3.js';
import { FEE, airdrop, connection, run, until } from './common.mjs';

/** A transfer that has not been signed. */
function transfer(from, to, lamports) {
  const keys = { fromPubkey: from.publicKey, toPubkey: to.publicKey };
  return new Transaction().add(SystemProgram.transfer({ ...keys, lamports }));
}

async function theNodeIntroducesItself() {
  const version = await connection.getVersion();
  assert.match(version['solana-core'], /^\d+\.\d+\.\d+/);
  assert.ok(version['feature-set'] > 0);
  const [node] = await connection.getClusterNodes();
  assert.equal(typeof node.pubkey, 'string');
  assert.equal(await connection.getSlotLeader(), node.pubkey);
  const epoch = await connection.getEpochInfo();
  assert.equal(epoch.slotIndex, epoch.absoluteSlot - epoch.epoch * epoch.slotsInEpoch);
  assert.equal(await connection.getMinimumBalanceForRentExemption(0), 890_880);
}

async function anAirdropArrives(alice) {
  const first = await airdrop(alice.publicKey, LAMPORTS_PER_SOL);
  // The same transfer again is another transaction.
  const second = await airdrop(alice.publicKey, LAMPORTS_PER_SOL);
  assert.notEqual(first, second);
  assert.equal(await connection.getBalance(alice.publicKey), 2 * LAMPORTS_PER_SOL);
}

async function aTransferIsConfirmed(alice, bob) {
  const amount = 123_456_789;
  const before = await connection.getBalance(alice.publicKey);
  const countBefore = await connection.getTransactionCount('processed');
  const signature = await sendAndConfirmTransaction(connection, transfer(alice, bob, amount), [alice]);
  assert.equal(await connection.getBalance(bob.publicKey), amount);
  assert.equal(await connection.getBalance(alice.publicKey), before - amount - FEE);
  assert.ok((await connection.getTransactionCount('processed')) > countBefore);

  const { value } = await connection.getSignatureStatuses([signature, '1'.repeat(64)]);
  assert.equal(value[0].err, null);
  assert.ok(['confirmed', 'finalized'].includes(value[0].confirmationStatus), value[0].confirmationStatus);
  assert.equal(value[1], null);
  const account = await connection.getAccountInfo(bob.publicKey);
  assert.equal(account.lamports, amount);
  assert.ok(account.owner.equals(SystemProgram.programId));
  assert.equal(account.data.length, 0);
}

async function aVersionedTransferIsConfirmed(alice, bob) {
  const before = await connection.getBalance(bob.publicKey);
  const latest = await connection.getLatestBlockhash();
  const { instructions } = transfer(alice, bob, 1_000);
  const message = new TransactionMessage({
    payerKey: alice.publicKey,
    recentBlockhash: latest.blockhash,
    instructions,
  }).compileToV0Message();
  assert.equal((await connection.getFeeForMessage(message)).value, FEE);
  const transaction = new VersionedTransaction(message);
  transaction.sign([alice]);
  const simulated = await connection.simulateTransaction(transaction, { sigVerify: true });
  assert.equal(simulated.value.err, null);
  assert.equal(simulated.value.unitsConsumed, 150);
  const signature = await connection.sendTransaction(transaction);
  const { value } = await connection.confirmTransaction({ signature, ...latest });
  assert.equal(value.err, null);
  assert.equal(await connection.getBalance(bob.publicKey), before + 1_000);
}

async function balancesAreThoseOfTheCommitment(alice) {
  const dave = Keypair.generate();
  const final = await connection.getBalance(alice.publicKey, 'finalized');
  const signature = await connection.sendTransaction(transfer(alice, dave, 2_000_000), [alice]);
  const landed = async () => (await connection.getSignatureStatus(signature)).value ?? undefined;
  await until('the transfer', landed);
  // A client of the finalized state does not see transactions that are not final yet.
  const { context, value } = await connection.getBalanceAndContext(dave.publicKey, 'finalized');
  const { slot } = await landed();
  assert.ok(context.slot < slot, `${context.slot} is before ${slot}`);
  assert.equal(value, 0);
  assert.equal(await connection.getBalance(dave.publicKey, 'processed'), 2_000_000);
  await connection.confirmTransaction({ signature, ...(await connection.getLatestBlockhash()) }, 'finalized');
  assert.equal(await connection.getBalance(dave.publicKey, 'finalized'), 2_000_000);
  assert.ok((await connection.getBalance(alice.publicKey, 'finalized')) !== final);
}

async function pricesOfBlocksAreTold(alice, bob) {
  const pay = transfer(alice, bob, 1_000).add(ComputeBudgetProgram.setComputeUnitPrice({ microLamports: 70_000 }));
  const signature = await sendAndConfirmTransaction(connection, pay, [alice]);
  const { slot } = (await connection.getSignatureStatus(signature)).value;
  const fees = await connection.getRecentPrioritizationFees({ lockedWritableAccounts: [alice.publicKey] });
  assert.ok(fees.length <= 150);
  assert.equal(fees.find((block) => block.slot === slot).prioritizationFee, 70_000);
  const others = await connection.getRecentPrioritizationFees({ lockedWritableAccounts: [Keypair.generate().publicKey] });
  assert.ok(others.some(({ prioritizationFee }) => prioritizationFee === 0));
}

async function anOverdrawnTransferIsRefused(bob, alice) {
  const before = await connection.getBalance(bob.publicKey);
  const sending = sendAndConfirmTransaction(connection, transfer(bob, alice, before + 1), [bob]);
  const error = await sending.then(
    () => assert.fail('it was sent'),
    (error) => error,
  );
  assert.ok(error instanceof SendTransactionError, String(error));
  assert.match(error.message, /custom program error: 0x1/);
  const logs = error.logs ?? (await error.getLogs(connection));
  assert.ok(logs.some((line) => line.includes('failed: custom program error: 0x1')), String(logs));
  assert.equal(await connection.getBalance(bob.publicKey), before);
}

async function aFailureIsToldOverWebSocket(bob, alice) {
  // Without preflight it lands, fails and pays its fee.
  const before = await connection.getBalance(bob.publicKey);
  const overdrawn = transfer(bob, alice, before);
  const signature = await connection.sendTransaction(overdrawn, [bob], { skipPreflight: true });
  const notified = await new Promise((resolve) => connection.onSignature(signature, resolve, 'confirmed'));
  assert.deepEqual(notified.err, { InstructionError: [0, { Custom: 1 }] });
  assert.equal(await connection.getBalance(bob.publicKey), before - FEE);
}

async function changesAreTold(alice, carol) {
  const slots = new Set();
  const slotSubscription = connection.onSlotChange(({ slot }) => slots.add(slot));
  const changed = new Promise((resolve) => {
    connection.onAccountChange(carol.publicKey, resolve, { commitment: 'confirmed' });
  });
  await sendAndConfirmTransaction(connection, transfer(alice, carol, 1_000_000), [alice]);
  assert.equal((await changed).lamports, 1_000_000);
  assert.ok(slots.size > 0);
  await connection.removeSlotChangeListener(slotSubscription);
}

const [alice, bob, carol] = [Keypair.generate(), Keypair.generate(), Keypair.generate()];
await run([
  ['the node introduces itself', theNodeIntroducesItself],
  ['an airdrop arrives', () => anAirdropArrives(alice)],
  ['a transfer is confirmed', () => aTransferIsConfirmed(alice, bob)],
  ['a versioned transfer is confirmed', () => aVersionedTransferIsConfirmed(alice, bob)],
  ['balances are those of the commitment', () => balancesAreThoseOfTheCommitment(alice)],
  ['prices of blocks are listed', () => pricesOfBlocksAreTold(alice, bob)],
  ['an overdrawn transfer is refused', () => anOverdrawnTransferIsRefused(bob, alice)],
  ['a failure is reported over WebSocket', () => aFailureIsToldOverWebSocket(bob, alice)],
  ['changes are notified', () => changesAreTold(alice, carol)],
]);
