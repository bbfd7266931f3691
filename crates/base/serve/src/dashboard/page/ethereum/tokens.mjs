// Amounts of ERC-20 tokens with the decimals and the symbol of their contract, and what a transaction did to balances.
//
// A contract may answer anything: a symbol is shortened text, and an amount without usable decimals is a whole number.
import { el, fact } from '../dom.mjs';
import { decimal, grouped } from '../format.mjs';
import { key, table } from '../pieces.mjs';
import { attempted } from '../rpc.mjs';
import { ether, number, quantity } from './words.mjs';

export const TRANSFER = '0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef';
/** Function selectors of a token. */
const [DECIMALS, SYMBOL, SUPPLY, BALANCE_OF] = ['0x313ce567', '0x95d89b41', '0x18160ddd', '0x70a08231'];
const DECIMALS_MAX = 36;
const SYMBOL_MAX = 16;
/** Maximum number of rows, and of tokens that are queried. */
const ROWS = 50;
const TOKENS = 20;
/** Gas of a query, many times what a token needs: a contract that loops must not hold the page up. */
const GAS = '0xf4240';
/** Stands for a balance that is not known. */
const UNKNOWN = '–';
const NOBODY = `0x${'0'.repeat(40)}`;

const addressOf = (topic) => `0x${topic.slice(26)}`;
const word = (address) => address.slice(2).padStart(64, '0');
const isWord = (data) => /^0x[0-9a-f]{64}$/i.test(data ?? '');
/** The call of a token's function, at a block. */
const query = (to, data, at = 'latest') => ['eth_call', { to, data, gas: GAS }, at];

/** Text of a contract without control characters and marks that turn the direction of text. */
const clean = (text) => text.replace(/[\p{C}\p{Z}]+/gu, ' ').trim().slice(0, SYMBOL_MAX);

/** Decodes a symbol: a string of the ABI, or 32 bytes as older tokens have. */
export function symbolOf(data) {
  const digits = (data ?? '0x').slice(2);
  if (digits.length < 64 || digits.length > 4096) return undefined;
  const isString = digits.length >= 128 && BigInt(`0x${digits.slice(0, 64)}`) === 32n;
  const length = isString ? Number(BigInt(`0x${digits.slice(64, 128)}`)) : 32;
  const hex = (isString ? digits.slice(128) : digits).slice(0, Math.min(2 * length, 256));
  const bytes = Uint8Array.from(hex.match(/../g) ?? [], (byte) => parseInt(byte, 16));
  return clean(new TextDecoder().decode(bytes).replace(/\0/g, '')) || undefined;
}

/** Decodes decimals; undefined if they are unusable. */
export function decimalsOf(data) {
  const value = isWord(data) ? BigInt(data) : 256n;
  return value <= DECIMALS_MAX ? Number(value) : undefined;
}

/** Token transfers among logs: `{token, from, to, amount}`; a transfer of a single, numbered token has an `id` instead. */
export const transfersIn = (logs) =>
  logs.flatMap(({ address: token, topics, data }) => {
    if (topics[0] !== TRANSFER || topics.length < 3) return [];
    const ends = { token, from: addressOf(topics[1]), to: addressOf(topics[2]) };
    if (topics.length === 4) return [{ ...ends, id: BigInt(topics[3]) }];
    return isWord(data) ? [{ ...ends, amount: BigInt(data) }] : [];
  });

/** What each transfer adds to the balance of an account: `{token, account, change}`, without accounts that end where they began. */
export function changesBy(transfers) {
  const found = new Map();
  for (const { token, from, to, amount } of transfers) {
    if (amount === undefined) continue;
    for (const [account, change] of [[from, -amount], [to, amount]]) {
      if (account === NOBODY) continue;
      const name = `${token} ${account}`;
      const entry = found.get(name) ?? { token, account, change: 0n };
      entry.change += change;
      found.set(name, entry);
    }
  }
  return [...found.values()].filter(({ change }) => change !== 0n);
}

/** Decimals and symbols of tokens, by address. */
async function described(tokens) {
  const asked = [...new Set(tokens)].slice(0, TOKENS);
  const found = await attempted(asked.flatMap((to) => [DECIMALS, SYMBOL].map((data) => query(to, data))));
  return new Map(asked.map((token, at) => [token, { decimals: decimalsOf(found[2 * at]), symbol: symbolOf(found[2 * at + 1]) }]));
}

/** An amount with its symbol, as the token's contract describes it. */
export function amountText(units, { decimals, symbol } = {}) {
  const text = decimal(units, decimals ?? 0);
  return symbol ? `${text} ${symbol}` : decimals === undefined ? `${text} units` : text;
}

const signed = (change, text) => el('span', { class: change > 0n ? 'good' : 'bad', text: `${change > 0n ? '+' : ''}${text}` });

const end = (account, word) => (account === NOBODY ? el('span', { class: 'quiet', text: word }) : key(account, 'address'));

/** The tables of what a transaction moved: transfers of tokens, and balances of ether and of tokens. */
export async function movedParts(tx, receipt) {
  const transfers = transfersIn(receipt.logs);
  const about = await described(transfers.map(({ token }) => token));
  const rows = transfers.slice(0, ROWS).map(({ token, from, to, amount, id }) => [key(token, 'address'), end(from, 'minted'), end(to, 'burned'), id === undefined ? amountText(amount, about.get(token)) : `number ${id}`]);
  const [ethers, tokens] = await Promise.all([etherChanges(tx.hash), tokenChanges(changesBy(transfers), about, number(receipt.blockNumber))]);
  const changes = [...ethers, ...tokens].slice(0, ROWS);
  const isUnknown = changes.some(([, before]) => before === UNKNOWN);
  return [
    ...(rows.length ? [el('h3', {}, 'Token transfers ', more(transfers)), table('Token transfers', ['token', 'from', 'to', 'amount'], rows)] : []),
    ...(changes.length ? [el('h3', { text: 'Balances' }), table('Balances', ['account', 'before', 'change', 'after'], changes)] : []),
    isUnknown ? el('p', { class: 'quiet', text: `${UNKNOWN}: the block changed this balance by another amount than the transaction, or the node no longer keeps its state.` }) : '',
  ];
}

const more = ({ length }) => (length > ROWS ? el('small', { text: `the first ${ROWS} of ${grouped(length)}` }) : '');

/** Balances of ether before and after the transaction, by executing it again; nothing if its state is no longer kept. */
async function etherChanges(hash) {
  const [found] = await attempted([['debug_traceTransaction', hash, { tracer: 'prestateTracer', tracerConfig: { diffMode: true, disableCode: true, disableStorage: true } }]]);
  const { pre = {}, post = {} } = found ?? {};
  return [...new Set([...Object.keys(pre), ...Object.keys(post)])].flatMap((account) => {
    const before = BigInt(pre[account]?.balance ?? 0);
    // What is unchanged is left out of `post`; an account that is not there any more has no balance.
    const after = post[account] ? BigInt(post[account].balance ?? before) : 0n;
    return before === after ? [] : [[key(account, 'address'), ether(before), signed(after - before, ether(after - before)), ether(after)]];
  });
}

/** Balances of tokens around the block; shown only where they agree with this transaction's change. */
async function tokenChanges(changes, about, block) {
  const shown = changes.slice(0, TOKENS);
  const at = [block - 1, block].map((value) => quantity(Math.max(0, value)));
  const found = await attempted(shown.flatMap(({ token, account }) => at.map((when) => query(token, `${BALANCE_OF}${word(account)}`, when))));
  return shown.map(({ token, account, change }, index) => {
    const [before, after] = [found[2 * index], found[2 * index + 1]].map((data) => (isWord(data) ? BigInt(data) : undefined));
    const text = (units) => amountText(units, about.get(token));
    // Another transaction of the block may have moved the token, too; its contract may not exist before the block.
    const isExact = after !== undefined && after - (before ?? 0n) === change;
    return [key(account, 'address'), isExact ? text(before ?? 0n) : UNKNOWN, signed(change, text(change)), isExact ? text(after) : UNKNOWN];
  });
}

/** Facts about a contract that describes itself as a token. */
export async function tokenFacts(address) {
  const [decimals, symbol, supply] = await attempted([DECIMALS, SYMBOL, SUPPLY].map((data) => query(address, data)));
  const about = { decimals: decimalsOf(decimals), symbol: symbolOf(symbol) };
  if (about.decimals === undefined || !isWord(supply)) return [];
  return [about.symbol ? fact('token', about.symbol) : [], fact('supply', amountText(BigInt(supply), about)), fact('decimals', `${about.decimals}`)];
}

/** Tokens that an address owns, among those that it got from block `from` to `head`. */
export async function holdings(address, from, head) {
  const [logs] = await attempted([['eth_getLogs', { fromBlock: from, toBlock: head, topics: [TRANSFER, null, `0x${word(address)}`] }]]);
  const tokens = [...new Set(transfersIn(logs ?? []).filter(({ amount }) => amount !== undefined).map(({ token }) => token))].slice(0, TOKENS);
  if (tokens.length === 0) return [];
  const [about, found] = await Promise.all([described(tokens), attempted(tokens.map((to) => query(to, `${BALANCE_OF}${word(address)}`)))]);
  const rows = tokens.flatMap((token, at) => (isWord(found[at]) && BigInt(found[at]) > 0n ? [[key(token, 'address'), amountText(BigInt(found[at]), about.get(token))]] : []));
  if (rows.length === 0) return [];
  const blocks = number(head) - number(from);
  return [el('h3', {}, 'Tokens ', el('small', { text: `of those that it got in the last ${grouped(blocks)} blocks` })), table('Tokens that the address owns', ['token', 'amount'], rows)];
}
