// Amounts of SPL tokens, with the decimals of their mint: balances before and after a transaction, and holdings.
import { el, fact } from '../dom.mjs';
import { decimal } from '../format.mjs';
import { key, table } from '../pieces.mjs';
import { together } from '../rpc.mjs';
import { CONFIRMED } from './confirmed.mjs';

/** SPL Token and Token-2022. */
const PROGRAMS = ['TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA', 'TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb'];
/** Maximum number of holdings in a view. */
const HELD = 50;

/** An amount `{amount, decimals}` of the node. */
export const tokens = ({ amount, decimals }) => decimal(amount, decimals);

/** A difference with its sign, in colour; `text` formats an amount. */
export const signed = (change, text) => el('span', { class: change > 0n ? 'good' : change < 0n ? 'bad' : 'quiet', text: `${change > 0n ? '+' : ''}${text(change)}` });

/** Token accounts of a transaction: `{at, mint, owner, decimals, before, after}`; an account that did not exist had none. */
export function balances({ preTokenBalances: before, postTokenBalances: after }) {
  const found = new Map();
  for (const [side, all] of Object.entries({ before: before ?? [], after: after ?? [] })) {
    for (const { accountIndex: at, mint, owner, uiTokenAmount: { amount, decimals } } of all) {
      const name = `${at} ${mint}`;
      const entry = found.get(name) ?? { at, mint, owner, decimals, before: 0n, after: 0n };
      found.set(name, Object.assign(entry, { [side]: BigInt(amount) }));
    }
  }
  return [...found.values()].sort((a, b) => a.at - b.at);
}

/** The table of what a transaction did to token accounts, if it names any. */
export function balancesTable(found, keys) {
  if (found.length === 0) return [];
  const rows = found.map(({ at, mint, owner, decimals, before, after }) => {
    const text = (amount) => decimal(amount, decimals);
    return [key(keys[at].pubkey, 'address'), owner ? key(owner, 'address') : '', key(mint, 'address'), text(before), signed(after - before, text), text(after)];
  });
  return [el('h3', { text: 'Tokens' }), table('Token balances', ['token account', 'owner', 'mint', 'before', 'change', 'after'], rows)];
}

/** A function from an instruction's values to the decimals of the mint that it moves, where the balances tell. */
export function decimalsIn(found, keys) {
  const known = new Map(found.flatMap(({ at, mint, decimals }) => [[keys[at].pubkey, decimals], [mint, decimals]]));
  return (info) => ['mint', 'source', 'destination', 'account'].map((name) => known.get(info?.[name])).find((decimals) => decimals !== undefined);
}

/** Facts of a mint or a token account, from its parsed data. */
export function tokenFacts({ type, info }) {
  if (type === 'mint') return [fact('supply', tokens({ amount: info.supply, decimals: info.decimals })), fact('decimals', `${info.decimals}`)];
  if (type !== 'account' || !info.tokenAmount) return [];
  return [fact('holds', `${tokens(info.tokenAmount)} of `, key(info.mint, 'address')), fact('for', key(info.owner, 'address'))];
}

/** The tokens that an address owns; nothing if it has none, or the node cannot say. */
export async function holdings(address) {
  const calls = PROGRAMS.map((programId) => ['getTokenAccountsByOwner', address, { programId }, { ...CONFIRMED, encoding: 'jsonParsed' }]);
  const found = await together(calls).catch(() => []);
  const rows = found.flatMap(({ value }) => value).flatMap(({ pubkey, account: { data: { parsed } } }) => (parsed?.info?.tokenAmount ? [[key(pubkey, 'address'), key(parsed.info.mint, 'address'), tokens(parsed.info.tokenAmount)]] : []));
  if (rows.length === 0) return [];
  const heading = el('h3', {}, 'Tokens ', rows.length > HELD ? el('small', { text: `the first ${HELD} of ${rows.length} accounts` }) : '');
  return [heading, table('Tokens that the address owns', ['token account', 'mint', 'amount'], rows.slice(0, HELD))];
}
