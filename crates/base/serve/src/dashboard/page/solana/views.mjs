// Explorer views of this chain: a block, a transaction, an account. Each queries the node and shows the answer.
import { el, fact } from '../dom.mjs';
import { grouped, when } from '../format.mjs';
import { PAGE, key, neighbours, paged, pre, table } from '../pieces.mjs';
import { call } from '../rpc.mjs';
import { CONFIRMED } from './confirmed.mjs';
import { balances, balancesTable, decimalsIn, holdings, signed, tokenFacts, tokens } from './tokens.mjs';
import { sol } from './words.mjs';

/** Interval between polls of a pending transaction. */
const AGAIN_MS = 700;
/** Number of polls for a transaction that has landed but is not in the history yet. */
const LOOKS = 20;

const ANY = { ...CONFIRMED, maxSupportedTransactionVersion: 0 };

const slotLink = (slot, text = grouped(slot)) => el('a', { href: `#/slot/${slot}`, text });

const outcome = (err) => (err ? el('span', { class: 'bad', text: `failed: ${reason(err)}` }) : el('span', { class: 'good', text: 'success' }));

const reason = (err) => (typeof err === 'string' ? err : JSON.stringify(err));

/** The view `#/slot/N`. */
export async function block(value, place) {
  const slot = Number(value);
  const title = el('h1', { text: `Slot ${grouped(slot)}` });
  let found;
  try {
    found = await call('getBlock', slot, { ...ANY, transactionDetails: 'accounts', rewards: false });
  } catch (error) {
    place(title, el('p', { text: await whyNoBlock(slot, error) }), neighbours('slot', slot, slotLink));
    return;
  }
  const { transactions } = found;
  const failed = transactions.filter(({ meta }) => meta.err).length;
  const row = ({ transaction, meta }) => [
    key(transaction.signatures[0], 'transaction'),
    outcome(meta.err),
    key(transaction.accountKeys[0].pubkey, 'address'),
    meta.fee === undefined ? '' : sol(meta.fee),
  ];
  const frame = transactions.length ? await paged('Transactions of the block', ['signature', 'result', 'fee payer', 'fee'], transactions, (page) => page.map(row)) : [];
  place(
    title,
    neighbours('slot', slot, slotLink),
    el(
      'dl',
      { class: 'facts' },
      fact('time', when(found.blockTime)),
      fact('height', grouped(found.blockHeight ?? slot)),
      fact('transactions', `${grouped(transactions.length)}${failed ? `, ${grouped(failed)} of them failed` : ''}`),
      fact('blockhash', key(found.blockhash)),
      fact('parent', slotLink(found.parentSlot)),
    ),
    transactions.length ? el('h3', { text: 'Transactions' }) : el('p', { class: 'quiet', text: 'The block has no transactions.' }),
    ...frame,
  );
}

async function whyNoBlock(slot, error) {
  const [newest, first] = await Promise.all([call('getSlot', CONFIRMED), call('getFirstAvailableBlock')]);
  if (slot > newest) return `This slot has not been confirmed yet: the newest confirmed slot is ${grouped(newest)}.`;
  if (slot < first) return `This block is no longer kept: the oldest kept block is ${grouped(first)}.`;
  if (slot === 0) return 'This is genesis: it has no transactions.';
  if (error.code === -32007 || error.code === -32009) return 'No block was made in this slot.';
  return `The node does not show this block: ${error.message}.`;
}

/** The view `#/transaction/SIGNATURE`. */
export async function transaction(signature, place, isCurrent) {
  const title = el('h1', {}, 'Transaction ', key(signature));
  for (let looks = 0; isCurrent(); looks++) {
    const found = await call('getTransaction', signature, { ...ANY, encoding: 'jsonParsed' }).catch((error) => {
      // Without a history the fate is still known.
      if (error.code === -32011) return null;
      throw error;
    });
    if (found) {
      place(title, ...landed(found));
      return;
    }
    const { value: fate } = await call('getTransactionFate', signature);
    place(title, ...fateOf(fate));
    if (fate.fate !== 'pending' && (fate.fate !== 'landed' || looks >= LOOKS)) return;
    await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
  }
}

function fateOf(fate) {
  const words = { landed: `It has landed, and is ${fate.confirmationStatus}.`, dropped: 'It was dropped.', pending: 'It is being processed.', unknown: 'This node does not know this transaction.' };
  const { drop } = fate;
  return [
    el('p', { class: fate.fate === 'dropped' ? 'bad' : undefined, text: words[fate.fate] ?? fate.fate }),
    el(
      'dl',
      { class: 'facts' },
      fate.slot === undefined || fate.slot === null ? [] : fact('slot', slotLink(fate.slot)),
      drop ? fact('dropped by', `${drop.tile}: ${drop.reason}`) : [],
      drop?.err ? fact('error', reason(drop.err)) : [],
      fate.explanation ? fact('that means', fate.explanation) : [],
      fate.hint ? fact('what to do', fate.hint) : [],
    ),
  ];
}

function landed({ slot, blockTime, meta, transaction: { message }, version }) {
  const keys = message.accountKeys;
  const inTokens = balances(meta);
  const decimalsOf = decimalsIn(inTokens, keys);
  const accounts = keys.map(({ pubkey, signer, writable }, at) => {
    const change = BigInt(meta.postBalances[at]) - BigInt(meta.preBalances[at]);
    return [
      key(pubkey, 'address'),
      [signer && 'signs', writable && 'written'].filter(Boolean).join(', '),
      sol(meta.preBalances[at]),
      signed(change, sol),
      sol(meta.postBalances[at]),
    ];
  });
  return [
    el(
      'dl',
      { class: 'facts' },
      fact('result', outcome(meta.err)),
      fact('slot', slotLink(slot)),
      fact('time', when(blockTime)),
      fact('fee', sol(meta.fee)),
      meta.computeUnitsConsumed === undefined ? [] : fact('compute units', grouped(meta.computeUnitsConsumed)),
      fact('version', `${version}`),
      fact('blockhash', key(message.recentBlockhash)),
    ),
    el('h3', { text: 'Accounts' }),
    table('Accounts of the transaction', ['account', '', 'before', 'change', 'after'], accounts),
    ...balancesTable(inTokens, keys),
    el('h3', { text: 'Instructions' }),
    ...message.instructions.map((found, at) => instruction(found, at, decimalsOf)),
    ...(meta.logMessages?.length ? [el('h3', { text: 'Log' }), pre('Log', meta.logMessages.join('\n'))] : []),
  ];
}

function instruction(found, at, decimalsOf) {
  const { program, programId, parsed, data, accounts } = found;
  const name = parsed?.type ?? (parsed ? 'memo' : 'not parsed');
  const values = typeof parsed === 'string' ? { text: parsed } : (parsed?.info ?? { data, accounts: accounts?.join(', ') });
  const shown = Object.entries(values ?? {}).flatMap(([what, value]) => fact(what, plain(what, value, decimalsOf(values))));
  return el('div', {}, el('p', {}, `${at + 1}. `, el('strong', { text: program ? `${program}: ${name}` : name }), ' ', key(programId, 'address')), el('dl', { class: 'facts' }, shown));
}

const isAddress = (value) => typeof value === 'string' && /^[1-9A-HJ-NP-Za-km-z]{32,44}$/.test(value);

/** A value in words; `decimals` are those of the tokens that the instruction moves, if it is known to move some. */
function plain(what, value, decimals) {
  if (isAddress(value)) return key(value, 'address');
  if (what === 'tokenAmount' && value?.amount) return `${tokens(value)} tokens`;
  if (what === 'amount' && decimals !== undefined && /^\d+$/.test(value)) return `${tokens({ amount: value, decimals })} tokens`;
  if (what === 'lamports') return `${sol(value)} (${grouped(value)} lamports)`;
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

/** The view `#/address/ADDRESS`. */
export async function account(address, place) {
  const { value } = await call('getAccountInfo', address, { ...CONFIRMED, encoding: 'jsonParsed' });
  const history = await call('getSignaturesForAddress', address, { ...CONFIRMED, limit: PAGE }).catch((error) => error);
  const title = el('h1', {}, 'Account ', key(address));
  const owned = isToken(value) ? [] : await holdings(address);
  place(title, ...(value ? held(value) : [el('p', { text: 'There is no account at this address: it has never had lamports, or has none any more.' })]), ...owned, el('h3', { text: 'Transactions' }), ...signatures(address, history));
}

/** Whether an account is a mint or holds tokens: such a one owns none itself. */
const isToken = (value) => value?.data?.program?.startsWith('spl-token');

function held({ lamports, owner, executable, space, data }) {
  const { parsed } = data;
  return [
    el(
      'dl',
      { class: 'facts' },
      fact('balance', sol(lamports)),
      parsed && data.program.startsWith('spl-token') ? tokenFacts(parsed) : [],
      fact('owner', key(owner, 'address')),
      fact('data', `${grouped(space ?? 0)} bytes${parsed ? `, ${data.program} ${parsed.type ?? ''}` : ''}`),
      executable ? fact('program', 'it can be called') : [],
    ),
    ...(parsed ? [el('h3', { text: 'Data' }), pre('Data', JSON.stringify(parsed.info ?? parsed, null, 2))] : []),
  ];
}

const signatureRow = ({ signature, slot, err, blockTime }) => [key(signature, 'transaction'), slotLink(slot), outcome(err), blockTime ? when(blockTime) : ''];

function signatures(address, history) {
  if (history instanceof Error) return [el('p', { class: 'quiet', text: history.code === -32011 ? 'This node keeps no history of transactions.' : `${history.message}.` })];
  if (history.length === 0) return [el('p', { class: 'quiet', text: 'No kept and confirmed transaction names this account.' })];
  const frame = table('Transactions of the account', ['signature', 'slot', 'result', 'time'], history.map(signatureRow));
  const older = el('button', { type: 'button', class: 'more', text: 'Older' });
  let last = history.at(-1).signature;
  older.hidden = history.length < PAGE;
  older.addEventListener('click', async () => {
    const next = await call('getSignaturesForAddress', address, { ...CONFIRMED, limit: PAGE, before: last }).catch(() => []);
    frame.querySelector('tbody').append(...next.map((entry) => el('tr', {}, signatureRow(entry).map((cell) => el('td', { class: 'text' }, cell)))));
    last = next.at(-1)?.signature ?? last;
    older.hidden = next.length < PAGE;
  });
  return [frame, older];
}
