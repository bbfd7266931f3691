// Explorer views of the UTXO ledger: its transactions, its part of a block, an owner.
import { el, fact } from '../dom.mjs';
import { decimal, grouped, when } from '../format.mjs';
import { key, paged, table } from '../pieces.mjs';
import { call, together } from '../rpc.mjs';
import { number, quantity } from './words.mjs';

/** Decimals of the native coin in this ledger. */
const NATIVE_DECIMALS = 6;
const NATIVE = { code: 'native', decimals: quantity(NATIVE_DECIMALS) };
const KINDS = { transfer: 'sends outputs', issue: 'issues an asset', prism: 'takes coins to the EVM', received: 'came from the EVM' };

const kindOf = (tx) => KINDS[tx.kind] ?? tx.kind;

const amount = (units, { code, decimals }) => `${decimal(units, number(decimals))} ${code}`;

const native = (units) => amount(units, NATIVE);

/** Known assets by id; an unknown one is counted in its smallest units. */
async function assetsOf(outputs) {
  const ids = [...new Set(outputs.map(({ asset }) => asset))].filter((id) => id !== 'native');
  const found = await together(ids.map((id) => ['utxo_getAsset', id]));
  return new Map([['native', NATIVE], ...ids.map((id, at) => [id, found[at] ?? { code: `of ${id}`, decimals: '0x0' }])]);
}

/** The transaction of an output `0x…:index`. */
const origin = (outPoint) => el('span', {}, key(outPoint.split(':')[0], 'transaction'), `, output ${grouped(Number(outPoint.split(':')[1]))}`);

/** A memo: as text if it is text, else as bytes. */
function memoText(memo) {
  const bytes = new Uint8Array((memo.slice(2).match(/../g) ?? []).map((byte) => parseInt(byte, 16)));
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return memo;
  }
}

async function outputsTable(label, outputs) {
  const assets = await assetsOf(outputs);
  const row = ({ outPoint, asset, amount: units, owner, memo }) => [origin(outPoint), amount(units, assets.get(asset)), key(owner, 'owner'), memo === '0x' ? '' : memoText(memo)];
  return paged(label, ['output', 'amount', 'owner', 'memo'], outputs, (some) => some.map(row));
}

/** The parts of a transaction of this ledger that is in a block or waits: `tx` as returned by `utxo_getTransaction`. */
export async function transactionParts(tx, blockLink) {
  if (tx.status === 'dropped') return [el('p', { class: 'bad', text: 'It was dropped.' }), el('dl', { class: 'facts' }, fact('why', tx.reason))];
  const landed = tx.status === 'included';
  const header = landed ? await call('eth_getHeaderByNumber', tx.blockNumber) : undefined;
  const outputs = tx.outputs ?? [];
  return [
    landed ? [] : el('p', { text: 'It is pending in the pool.' }),
    el(
      'dl',
      { class: 'facts' },
      fact('ledger', 'outputs'),
      fact('what', kindOf(tx)),
      landed ? fact('block', blockLink(number(tx.blockNumber)), `, number ${grouped(number(tx.index))} in it`) : [],
      header ? fact('time', when(number(header.timestamp))) : [],
      tx.sender ? fact('from', key(tx.sender, 'address')) : [],
      tx.transaction ? fact('by', key(tx.transaction, 'transaction')) : [],
      (tx.signers ?? []).map((signer) => fact('signed by', key(signer, 'owner'))),
      tx.recipient ? fact('to', key(tx.recipient, 'address')) : [],
      tx.kind === 'prism' ? fact('takes', native(tx.amount)) : [],
      tx.kind === 'issue' ? fact('asset', `${tx.code ? `${tx.code}, ` : ''}${tx.asset}`) : [],
      tx.fee === undefined ? [] : fact('fee', native(tx.fee)),
    ),
    tx.inputs?.length ? [el('h3', { text: 'Inputs' }), ...(await paged('Outputs that it spends', ['output'], tx.inputs, (some) => some.map((at) => [origin(at)])))] : [],
    outputs.length ? [el('h3', { text: 'Outputs' }), ...(await outputsTable('Outputs that it makes', outputs))] : [],
  ].flat();
}

/** A block's transactions on this ledger. */
export const inBlock = (at) => call('utxo_getBlock', quantity(at));

/** The same as a table. */
export async function blockParts(transactions) {
  if (transactions.length === 0) return [];
  const row = (tx) => [key(tx.id, 'transaction'), kindOf(tx), grouped(number(tx.inputs)), grouped(number(tx.outputs)), native(tx.fee)];
  const heads = ['id', 'what', 'inputs', 'outputs', 'fee'];
  return [el('h3', { text: 'Transactions of the UTXO ledger' }), ...(await paged('Transactions of the UTXO ledger in the block', heads, transactions, (some) => some.map(row)))];
}

/** The view `#/owner/hearth1…`. */
export async function owner(address, place) {
  const [balances, { outputs, next }] = await together([
    ['utxo_getBalances', address],
    ['utxo_getOutputs', address],
  ]);
  const rows = balances.map((one) => [amount(one.amount, one), grouped(number(one.outputs)), one.asset === 'native' ? '' : key(one.asset)]);
  place(
    el('h1', {}, 'Owner ', key(address)),
    rows.length ? table('Balances of the owner', ['amount', 'outputs', 'asset'], rows) : el('p', { class: 'quiet', text: 'It owns no unspent outputs.' }),
    outputs.length ? [el('h3', {}, 'Outputs ', el('small', { text: next ? `the first ${grouped(outputs.length)}` : grouped(outputs.length) })), ...(await outputsTable('Outputs of the owner', outputs))] : [],
  );
}
