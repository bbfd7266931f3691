// `@solana/kit` with the clients of its programs: airdrop, transfer, confirm over WebSocket, tokens, memo, durable
// nonce, history.
import assert from 'node:assert/strict';
import {
  address,
  airdropFactory,
  appendTransactionMessageInstructions,
  assertIsTransactionWithBlockhashLifetime,
  assertIsTransactionWithDurableNonceLifetime,
  createSolanaRpc,
  createSolanaRpcSubscriptions,
  createTransactionMessage,
  generateKeyPairSigner,
  getBase64EncodedWireTransaction,
  getSignatureFromTransaction,
  lamports,
  pipe,
  sendAndConfirmDurableNonceTransactionFactory,
  sendAndConfirmTransactionFactory,
  setTransactionMessageComputeUnitLimit,
  setTransactionMessageComputeUnitPrice,
  setTransactionMessageFeePayerSigner,
  setTransactionMessageLifetimeUsingBlockhash,
  setTransactionMessageLifetimeUsingDurableNonce,
  signTransactionMessageWithSigners,
} from '@solana/kit';
import { getAddMemoInstruction } from '@solana-program/memo';
import {
  fetchNonce,
  getCreateAccountInstruction,
  getInitializeNonceAccountInstruction,
  getTransferSolInstruction,
} from '@solana-program/system';
import {
  TOKEN_PROGRAM_ADDRESS,
  fetchMint,
  fetchToken,
  findAssociatedTokenPda,
  getCreateAssociatedTokenIdempotentInstructionAsync,
  getInitializeMint2Instruction,
  getMintSize,
  getMintToInstruction,
  getTransferCheckedInstruction,
} from '@solana-program/token';
import { run, url, websocketUrl } from './common.mjs';

const SOL = 1_000_000_000n;
const NONCE_BYTES = 80n;
const commitment = 'confirmed';
const rpc = createSolanaRpc(url);
const rpcSubscriptions = createSolanaRpcSubscriptions(websocketUrl);
const airdrop = airdropFactory({ rpc, rpcSubscriptions });
const sendAndConfirm = sendAndConfirmTransactionFactory({ rpc, rpcSubscriptions });
const sendAndConfirmNonce = sendAndConfirmDurableNonceTransactionFactory({ rpc, rpcSubscriptions });

async function richSigner(amount) {
  const signer = await generateKeyPairSigner();
  await airdrop({ commitment, lamports: lamports(amount), recipientAddress: signer.address });
  return signer;
}

const payer = await richSigner(10n * SOL);

/** Signs instructions with a recent blockhash. */
async function signed(instructions, budget = (message) => message) {
  const { value: latest } = await rpc.getLatestBlockhash({ commitment }).send();
  const message = pipe(
    createTransactionMessage({ version: 0 }),
    (message) => setTransactionMessageFeePayerSigner(payer, message),
    (message) => setTransactionMessageLifetimeUsingBlockhash(latest, message),
    (message) => appendTransactionMessageInstructions(instructions, message),
    budget,
  );
  const transaction = await signTransactionMessageWithSigners(message);
  assertIsTransactionWithBlockhashLifetime(transaction);
  return transaction;
}

async function send(instructions, budget) {
  const transaction = await signed(instructions, budget);
  await sendAndConfirm(transaction, { commitment });
  return getSignatureFromTransaction(transaction);
}

const balance = async (of) => (await rpc.getBalance(of, { commitment }).send()).value;
const rent = (space) => rpc.getMinimumBalanceForRentExemption(space).send();

async function aTransferIsConfirmed() {
  const bob = await generateKeyPairSigner();
  const transfer = getTransferSolInstruction({ source: payer, destination: bob.address, amount: lamports(SOL) });
  const signature = await send([transfer]);
  assert.equal(await balance(bob.address), SOL);
  const { value } = await rpc.getSignatureStatuses([signature]).send();
  assert.equal(value[0].err, null);
}

async function priorityFeesArePaid() {
  const bob = await generateKeyPairSigner();
  const transfer = getTransferSolInstruction({ source: payer, destination: bob.address, amount: lamports(SOL) });
  const before = await balance(payer.address);
  const budget = (message) =>
    setTransactionMessageComputeUnitPrice(1_000_000n, setTransactionMessageComputeUnitLimit(10_000, message));
  const signature = await send([transfer], budget);
  // 10,000 units at 1,000,000 millionths of a lamport each, plus 5,000 for the signature.
  assert.equal(before - (await balance(payer.address)), SOL + 15_000n);
  const found = await rpc.getTransaction(signature, { commitment, maxSupportedTransactionVersion: 0, encoding: 'json' }).send();
  assert.equal(found.meta.fee, 15_000n);
  assert.equal(found.meta.computeUnitsConsumed, 450n);
}

async function tokensMove() {
  const mint = await generateKeyPairSigner();
  const space = BigInt(getMintSize());
  const owners = [payer.address, (await generateKeyPairSigner()).address];
  const accounts = await Promise.all(
    owners.map(async (owner) => (await findAssociatedTokenPda({ mint: mint.address, owner, tokenProgram: TOKEN_PROGRAM_ADDRESS }))[0]),
  );
  const creates = await Promise.all(
    owners.map((owner) => getCreateAssociatedTokenIdempotentInstructionAsync({ payer, mint: mint.address, owner })),
  );
  await send([
    getCreateAccountInstruction({
      payer, newAccount: mint, lamports: await rent(space), space, programAddress: TOKEN_PROGRAM_ADDRESS,
    }),
    getInitializeMint2Instruction({ mint: mint.address, decimals: 2, mintAuthority: payer.address }),
    ...creates,
    getMintToInstruction({ mint: mint.address, token: accounts[0], mintAuthority: payer, amount: 1_000n }),
    getTransferCheckedInstruction({
      source: accounts[0], mint: mint.address, destination: accounts[1], authority: payer, amount: 250n, decimals: 2,
    }),
  ]);
  assert.equal((await fetchMint(rpc, mint.address, { commitment })).data.supply, 1_000n);
  assert.equal((await fetchToken(rpc, accounts[0], { commitment })).data.amount, 750n);
  assert.equal((await fetchToken(rpc, accounts[1], { commitment })).data.amount, 250n);
  const parsed = await rpc.getAccountInfo(accounts[1], { commitment, encoding: 'jsonParsed' }).send();
  assert.equal(parsed.value.data.parsed.info.tokenAmount.uiAmountString, '2.5');
  const zipped = await rpc.getAccountInfo(mint.address, { commitment, encoding: 'base64+zstd' }).send();
  assert.equal(zipped.value.data[1], 'base64+zstd');
}

async function aMemoIsLoggedAndTold() {
  const abort = new AbortController();
  const memoProgram = getAddMemoInstruction({ memo: 'x' }).programAddress;
  const notifications = await rpcSubscriptions
    .logsNotifications({ mentions: [memoProgram] }, { commitment })
    .subscribe({ abortSignal: abort.signal });
  // Notifications that arrive before the iterator is read are not kept.
  const next = notifications[Symbol.asyncIterator]().next();
  const signature = await send([getAddMemoInstruction({ memo: 'hello from kit' })]);
  const { value } = (await next).value;
  assert.equal(value.signature, signature);
  assert.ok(value.logs.some((line) => line.includes('hello from kit')));
  abort.abort();
  const listed = await rpc.getSignaturesForAddress(payer.address, { commitment, limit: 1 }).send();
  assert.equal(listed[0].signature, signature);
  assert.match(listed[0].memo, /hello from kit/);
}

async function aDurableNonceServes() {
  const nonce = await generateKeyPairSigner();
  await send([
    getCreateAccountInstruction({
      payer, newAccount: nonce, lamports: await rent(NONCE_BYTES), space: NONCE_BYTES,
      programAddress: address('11111111111111111111111111111111'),
    }),
    getInitializeNonceAccountInstruction({ nonceAccount: nonce.address, nonceAuthority: payer.address }),
  ]);
  const before = await fetchNonce(rpc, nonce.address, { commitment });
  const bob = await generateKeyPairSigner();
  const lifetime = { nonce: before.data.blockhash, nonceAccountAddress: nonce.address, nonceAuthorityAddress: payer.address };
  const message = pipe(
    createTransactionMessage({ version: 0 }),
    (message) => setTransactionMessageFeePayerSigner(payer, message),
    (message) => setTransactionMessageLifetimeUsingDurableNonce(lifetime, message),
    (message) =>
      appendTransactionMessageInstructions(
        [getTransferSolInstruction({ source: payer, destination: bob.address, amount: lamports(SOL) })], message,
      ),
  );
  const transaction = await signTransactionMessageWithSigners(message);
  assertIsTransactionWithDurableNonceLifetime(transaction);
  await sendAndConfirmNonce(transaction, { commitment });
  assert.equal(await balance(bob.address), SOL);
  assert.notEqual((await fetchNonce(rpc, nonce.address, { commitment })).data.blockhash, before.data.blockhash);
}

async function anOverdrawnTransferIsRefused() {
  const bob = await richSigner(SOL);
  const transfer = getTransferSolInstruction({ source: bob, destination: payer.address, amount: lamports(2n * SOL) });
  const simulated = await rpc
    .simulateTransaction(getBase64EncodedWireTransaction(await signed([transfer])), { encoding: 'base64', sigVerify: true })
    .send();
  assert.deepEqual(simulated.value.err, { InstructionError: [0n, { Custom: 1n }] });
  await assert.rejects(send([transfer]));
  assert.equal(await balance(bob.address), SOL);
}

await run([
  ['a transfer is confirmed', aTransferIsConfirmed],
  ['priority fees are paid', priorityFeesArePaid],
  ['tokens move', tokensMove],
  ['a memo is logged and notified', aMemoIsLoggedAndTold],
  ['a durable nonce serves', aDurableNonceServes],
  ['an overdrawn transfer is refused', anOverdrawnTransferIsRefused],
]);
