// `@solana/spl-token` on `@solana/web3.js`: mints and transfers of SPL Token and Token-2022, as wallets do them.
import assert from 'node:assert/strict';
import { LAMPORTS_PER_SOL } from '@solana/web3.js';
import {
  TOKEN_2022_PROGRAM_ID,
  TOKEN_PROGRAM_ID,
  approve,
  closeAccount,
  createMint,
  getAccount,
  getMint,
  getOrCreateAssociatedTokenAccount,
  mintTo,
  transferChecked,
} from '@solana/spl-token';
import { connection, richKey, run } from './common.mjs';

const DECIMALS = 6;

async function mintAndTransfer(program) {
  const [alice, bob] = [await richKey(2 * LAMPORTS_PER_SOL), await richKey(LAMPORTS_PER_SOL)];
  const mint = await createMint(connection, alice, alice.publicKey, null, DECIMALS, undefined, undefined, program);
  const account = async (owner) =>
    (await getOrCreateAssociatedTokenAccount(connection, alice, mint, owner, false, undefined, undefined, program))
      .address;
  const [from, to] = [await account(alice.publicKey), await account(bob.publicKey)];
  await mintTo(connection, alice, mint, from, alice, 1_000_000n, [], undefined, program);
  const signature = await transferChecked(
    connection, alice, from, mint, to, alice, 400_000n, DECIMALS, [], undefined, program,
  );
  assert.equal((await getAccount(connection, from, undefined, program)).amount, 600_000n);
  assert.equal((await getAccount(connection, to, undefined, program)).amount, 400_000n);
  assert.equal((await getMint(connection, mint, undefined, program)).supply, 1_000_000n);

  assert.equal((await connection.getTokenAccountBalance(to)).value.uiAmountString, '0.4');
  assert.equal((await connection.getTokenSupply(mint)).value.amount, '1000000');
  const largest = await connection.getTokenLargestAccounts(mint);
  assert.deepEqual(largest.value.map(({ amount }) => amount), ['600000', '400000']);
  const owned = await connection.getParsedTokenAccountsByOwner(bob.publicKey, { mint });
  assert.equal(owned.value.length, 1);
  assert.equal(owned.value[0].account.data.parsed.info.tokenAmount.amount, '400000');
  const byProgram = await connection.getProgramAccounts(program, {
    filters: [{ memcmp: { offset: 0, bytes: mint.toBase58() } }],
  });
  assert.equal(byProgram.length, 2);

  const found = await connection.getParsedTransaction(signature, { maxSupportedTransactionVersion: 0 });
  assert.equal(found.transaction.message.instructions[0].parsed.type, 'transferChecked');
  assert.deepEqual(
    found.meta.postTokenBalances.map(({ uiTokenAmount }) => uiTokenAmount.amount).sort(),
    ['400000', '600000'],
  );

  await approve(connection, alice, from, bob.publicKey, alice, 5n, [], undefined, program);
  const delegated = await connection.getParsedAccountInfo(from);
  assert.equal(delegated.value.data.parsed.info.delegate, bob.publicKey.toBase58());
  await transferChecked(connection, alice, from, mint, to, bob, 5n, DECIMALS, [bob], undefined, program);

  // An account that holds tokens cannot be closed; the program's error reaches the client.
  const refused = await closeAccount(connection, bob, to, bob.publicKey, bob, [], undefined, program).then(
    () => assert.fail('it was closed'),
    (error) => error,
  );
  assert.match(String(refused), /custom program error: 0xb/);
}

await run([
  ['SPL Token: mint, transfer, delegate', () => mintAndTransfer(TOKEN_PROGRAM_ID)],
  ['Token-2022: mint, transfer, delegate', () => mintAndTransfer(TOKEN_2022_PROGRAM_ID)],
]);
