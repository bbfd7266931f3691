// The newest blocks. How many transactions each has is asked while that is little to send. While somebody points at the
// table, or the focus is in it, it stands still, so that a link is not gone before it is followed.
import { byId, el, scroller } from './dom.mjs';
import { grouped, when } from './format.mjs';
import { CONFIRMED, call } from './rpc.mjs';

const SHOWN = 8;
/** Where there is no history, it is asked again after so long whether there is. */
const NO_HISTORY_MS = 30_000;
/** Above this rate the lists of signatures would cost the node more than they tell. */
const COUNTED_BELOW_TXN_PER_S = 500;

const known = new Map();
let body;
let rate = 0;

export function setUp() {
  body = el('tbody');
  const heads = ['slot', 'transactions', 'time', 'blockhash'].map((name, at) => el('th', { scope: 'col', class: at !== 1 && 'text' }, el('span', { text: name })));
  byId('blocks').append(scroller('Recent blocks', el('table', {}, el('caption', { class: 'unseen', text: 'Recent blocks' }), el('thead', {}, el('tr', {}, heads)), body)));
}

let running = false;
let resting = 0;

/** A second has passed, and somebody looks. */
export function draw(sample) {
  rate = sample.txn_per_s;
  if (Date.now() >= resting && !byId('blocks').matches(':hover, :focus-within')) refresh();
}

async function refresh() {
  if (running) return;
  running = true;
  try {
    const newest = await call('getSlot', CONFIRMED);
    const slots = (await call('getBlocks', Math.max(0, newest - 4 * SHOWN), newest, CONFIRMED)).slice(-SHOWN).reverse();
    for (const slot of known.keys()) if (!slots.includes(slot)) known.delete(slot);
    for (const slot of slots) if (!known.has(slot)) known.set(slot, await row(slot));
    note(slots.length ? '' : 'No block yet.');
    const rows = slots.map((slot) => known.get(slot)).filter(Boolean);
    if (rows.some((element, at) => body.children[at] !== element) || body.children.length !== rows.length) place(rows);
  } catch (error) {
    if (error.code === -32011) resting = Date.now() + NO_HISTORY_MS;
    note(error.code === -32011 ? 'This node keeps no history of transactions, so its blocks cannot be shown.' : `Not now: ${error.message}.`);
  } finally {
    running = false;
  }
}

function place(rows) {
  for (const element of [...body.children]) if (!rows.includes(element)) element.remove();
  rows.forEach((element, at) => {
    if (body.children[at] !== element) body.insertBefore(element, body.children[at] ?? null);
  });
}

function note(text) {
  byId('blocks-note').textContent = text;
  byId('blocks-note').hidden = text === '';
}

async function row(slot) {
  const isCounted = rate < COUNTED_BELOW_TXN_PER_S;
  const options = { ...CONFIRMED, transactionDetails: isCounted ? 'signatures' : 'none', rewards: false, maxSupportedTransactionVersion: 0 };
  let block;
  try {
    block = await call('getBlock', slot, options);
  } catch (error) {
    if (error.code === -32011) throw error;
    // Genesis, or a block whose history is not written yet: asked again next time.
    return undefined;
  }
  const cells = [
    el('th', { scope: 'row' }, el('a', { href: `#/slot/${slot}`, text: grouped(slot) })),
    el('td', { text: isCounted ? grouped(block.signatures.length) : 'many', class: isCounted ? undefined : 'nothing' }),
    el('td', { class: 'text', text: when(block.blockTime) }),
    el('td', { class: 'text mono', text: block.blockhash }),
  ];
  return el('tr', {}, cells);
}
