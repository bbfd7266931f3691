// Explorer views of this chain: a block, a transaction, an account. Each queries the node and shows the answer.
import { el, fact } from '../dom.mjs';
import { grouped, percent, when } from '../format.mjs';
import { PAGE, key, neighbours, paged, pre, table } from '../pieces.mjs';
import { call, together } from '../rpc.mjs';
import { blockParts, inBlock, transactionParts } from './outputs.mjs';
import { TRANSFER, holdings, movedParts, tokenFacts } from './tokens.mjs';
import { byteCount, ether, gwei, number, quantity } from './words.mjs';

/** Interval between polls of a waiting transaction. */
const AGAIN_MS = 700;
/** Number of recent blocks that are searched for a contract's logs. */
const LOGS_BACK = 1000;
/** Event signatures that nearly every token has. */
const EVENTS = {
  [TRANSFER]: 'Transfer',
  '0x8c5be1e5ebec7d5bd14f71427d1e84f3dd0314c0f7b2291e5b200ac8c7c3b925': 'Approval',
};
const TYPES = ['legacy', 'with an access list (EIP-2930)', 'dynamic fee (EIP-1559)', 'blobs (EIP-4844)', 'sets code (EIP-7702)'];

const blockLink = (block, text = grouped(block)) => el('a', { href: `#/block/${block}`, text });

const outcome = (receipt) => (number(receipt.status) ? el('span', { class: 'good', text: 'success' }) : el('span', { class: 'bad', text: 'failed' }));

/** Destination of a transaction: an account, or the contract that it creates. */
const target = ({ to }, receipt) => (to ? key(to, 'address') : el('span', {}, 'makes ', receipt?.contractAddress ? key(receipt.contractAddress, 'address') : 'a contract'));

const share = (part, whole) => `${grouped(part)} of ${grouped(whole)} (${percent(whole ? part / whole : 0)} %)`;

/** The view `#/block/N`. */
export async function block(value, place) {
  const wanted = Number(value);
  const title = el('h1', { text: `Block ${grouped(wanted)}` });
  const found = await call('eth_getBlockByNumber', quantity(wanted), false);
  if (!found) {
    const head = number(await call('eth_blockNumber'));
    place(title, el('p', { text: `This block has not been made yet: the newest is ${grouped(head)}.` }), neighbours('block', wanted, blockLink));
    return;
  }
  await placeBlock(found, title, place);
}

async function placeBlock(found, title, place) {
  const { transactions } = found;
  const [at, gas, limit] = [found.number, found.gasUsed, found.gasLimit].map(number);
  const outputs = await inBlock(at);
  const frame = transactions.length ? await paged('Transactions of the block', ['hash', 'result', 'from', 'to', 'value', 'gas'], transactions, transactionRows) : [];
  place(
    title,
    neighbours('block', at, blockLink),
    el(
      'dl',
      { class: 'facts' },
      fact('time', when(number(found.timestamp))),
      fact('transactions', outputs.length ? `${grouped(transactions.length)}, and ${grouped(outputs.length)} of the ledger of outputs` : grouped(transactions.length)),
      fact('gas', share(gas, limit)),
      found.baseFeePerGas ? fact('base fee', gwei(found.baseFeePerGas)) : [],
      fact('hash', key(found.hash)),
      at > 0 ? fact('parent', key(found.parentHash, 'transaction')) : [],
      fact('fees go to', key(found.miner, 'address')),
      fact('state root', key(found.stateRoot)),
      fact('size', `${grouped(number(found.size))} bytes`),
      found.withdrawals?.length ? fact('withdrawals', grouped(found.withdrawals.length)) : [],
    ),
    transactions.length ? el('h3', { text: 'Transactions' }) : [],
    ...frame,
    ...(await blockParts(outputs)),
    transactions.length + outputs.length ? [] : el('p', { class: 'quiet', text: 'The block has no transactions.' }),
  );
}

async function transactionRows(hashes) {
  const asked = ['eth_getTransactionByHash', 'eth_getTransactionReceipt'];
  const found = await together(hashes.flatMap((hash) => asked.map((method) => [method, hash])));
  return hashes.map((hash, at) => {
    const [tx, receipt] = [found[2 * at], found[2 * at + 1]];
    // The chain may have been reverted since the block was shown.
    if (!tx || !receipt) return [key(hash, 'transaction'), 'it is in no block any more', '', '', '', ''];
    return [key(hash, 'transaction'), outcome(receipt), key(tx.from, 'address'), target(tx, receipt), ether(tx.value), grouped(number(receipt.gasUsed))];
  });
}

/** The view `#/transaction/HASH`; the hash may also be one of the UTXO ledger, or a block's. */
export async function transaction(hash, place, isCurrent) {
  const title = el('h1', {}, 'Transaction ', key(hash));
  while (isCurrent()) {
    const [tx, receipt] = await together([['eth_getTransactionByHash', hash], ['eth_getTransactionReceipt', hash]]);
    if (tx && receipt) {
      place(title, ...(await landed(tx, receipt)));
      return;
    }
    const output = tx ? undefined : await call('utxo_getTransaction', hash);
    if (output) {
      place(title, ...(await transactionParts(output, blockLink)));
      if (output.status !== 'pending') return;
    } else if (!tx) {
      const of = await call('eth_getBlockByHash', hash, false);
      if (of) await placeBlock(of, el('h1', { text: `Block ${grouped(number(of.number))}` }), place);
      else place(title, ...fateOf(await call('hearth_transactionFate', hash)));
      return;
    } else {
      place(title, ...waiting(tx, await call('hearth_transactionFate', hash)));
    }
    await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
  }
}

const FATES = {
  included: 'A block has included it since the page asked: search again.',
  pending: 'It has just entered the pool.',
  dropped: 'It was dropped.',
  unknown: 'This node knows neither a transaction nor a block of this hash.',
};

function fateOf({ status, reason }) {
  const words = el('p', { class: status === 'dropped' ? 'bad' : undefined, text: FATES[status] ?? status });
  return reason ? [words, el('dl', { class: 'facts' }, fact('why', reason))] : [words];
}

function waiting(tx, { reason }) {
  return [
    el('p', { text: 'It is pending in the pool.' }),
    el('dl', { class: 'facts' }, sent(tx), fact('gas limit', grouped(number(tx.gas))), fact('pays at most', `${gwei(tx.maxFeePerGas ?? tx.gasPrice)} for each gas`), detail(tx), fact('why it waits', reason)),
    ...input(tx),
  ];
}

/** Sender, recipient and value. */
const sent = (tx, receipt) => [fact('from', key(tx.from, 'address')), fact('to', target(tx, receipt)), fact('value', ether(tx.value))];

const detail = (tx) => [fact('nonce', grouped(number(tx.nonce))), fact('type', TYPES[number(tx.type)] ?? tx.type)];

async function landed(tx, receipt) {
  const [at, used, limit] = [receipt.blockNumber, receipt.gasUsed, tx.gas].map(number);
  const failed = number(receipt.status) === 0;
  const [why, header, moved] = await Promise.all([failed ? reason(tx.hash) : undefined, call('eth_getHeaderByNumber', receipt.blockNumber), movedParts(tx, receipt)]);
  return [
    el(
      'dl',
      { class: 'facts' },
      fact('result', outcome(receipt)),
      failed ? fact('because', why) : [],
      fact('block', blockLink(at), `, number ${grouped(number(receipt.transactionIndex))} in it`),
      header ? fact('time', when(number(header.timestamp))) : [],
      sent(tx, receipt),
      fact('fee', ether(BigInt(receipt.gasUsed) * BigInt(receipt.effectiveGasPrice))),
      fact('gas', share(used, limit)),
      fact('price', `${gwei(receipt.effectiveGasPrice)} for each gas`),
      detail(tx),
    ),
    ...moved,
    ...input(tx),
    ...(receipt.logs.length ? [el('h3', { text: 'Logs' }), ...receipt.logs.map(log)] : []),
  ];
}

/** Finds the reason of a failure by executing it again; only while the state of its block is kept. */
async function reason(hash) {
  try {
    const { error, revertReason: said, output } = await call('debug_traceTransaction', hash, { tracer: 'callTracer', tracerConfig: { onlyTopCall: true } });
    if (said) return `${error}: ${said}`;
    return output && output !== '0x' ? `${error}, with ${output}` : (error ?? 'it has no reason');
  } catch ({ message }) {
    return /is not available/.test(message) ? 'the node no longer keeps the state on which it could be executed again' : message;
  }
}

function input({ input: data, to }) {
  if (data === '0x') return [];
  const what = to ? 'Input' : 'Init code of the contract';
  const selector = to && data.length >= 10 ? `, function ${data.slice(0, 10)}` : '';
  return [el('h3', {}, `${what} `, el('small', { text: `${grouped(byteCount(data))} bytes${selector}` })), pre(what, lines(data))];
}

/** Splits input into words of 32 bytes, after the four of the function selector. */
function lines(data) {
  const begin = (data.length - 2) % 64 === 8 ? 10 : 2;
  const words = data.slice(begin).match(/.{1,64}/g) ?? [];
  return [...(begin > 2 ? [data.slice(0, begin)] : []), ...words].join('\n');
}

function log({ address, topics, data, logIndex }) {
  const name = EVENTS[topics[0]];
  return el(
    'div',
    {},
    el('p', {}, `${grouped(number(logIndex))}. `, name ? el('strong', { text: `${name} ` }) : '', 'by ', key(address, 'address')),
    el('dl', { class: 'facts' }, topics.flatMap((topic, at) => fact(at === 0 ? 'event' : `topic ${at}`, topicText(topic, at))), data === '0x' ? [] : fact('data', el('span', { class: 'mono', text: data }))),
  );
}

/** A topic as an address, if it can be one. */
const topicText = (topic, at) => (at > 0 && /^0x0{24}[0-9a-f]{40}$/.test(topic) && !/^0x0{48}/.test(topic) ? key(`0x${topic.slice(26)}`, 'address') : el('span', { class: 'mono', text: topic }));

/** The view `#/address/ADDRESS`. */
export async function account(address, place) {
  const head = await call('eth_blockNumber');
  const [balance, nonce, next, code, pool] = await together([
    ['eth_getBalance', address, 'latest'],
    ['eth_getTransactionCount', address, 'latest'],
    ['eth_getTransactionCount', address, 'pending'],
    ['eth_getCode', address, 'latest'],
    ['txpool_contentFrom', address],
  ]);
  const isContract = code !== '0x';
  const from = quantity(Math.max(0, number(head) - LOGS_BACK));
  const [logs, token, owned] = await Promise.all([isContract ? recentLogs(address, from, head) : [], isContract ? tokenFacts(address) : [], holdings(address, from, head)]);
  place(
    el('h1', {}, isContract ? 'Contract ' : 'Account ', key(address)),
    el(
      'dl',
      { class: 'facts' },
      fact('balance', ether(balance)),
      fact('nonce', `${grouped(number(nonce))}${next === nonce ? '' : `, ${grouped(number(next))} with what waits in the pool`}`),
      isContract ? fact('code', delegated(code) ?? `${grouped(byteCount(code))} bytes`) : [],
      token,
      fact('as of block', blockLink(number(head))),
    ),
    ...owned,
    ...inPool(pool),
    ...logs,
    ...(isContract ? [el('h3', { text: 'Code' }), pre('Code', code.slice(2).match(/.{1,64}/g).join('\n'))] : []),
  );
}

/** The contract whose code an account has delegated to (EIP-7702). */
function delegated(code) {
  const [, to] = code.match(/^0xef0100([0-9a-f]{40})$/) ?? [];
  return to && el('span', {}, 'that of ', key(`0x${to}`, 'address'));
}

function inPool({ pending, queued }) {
  const rows = Object.entries({ pending, queued }).flatMap(([place, txs]) =>
    Object.entries(txs).map(([nonce, tx]) => [nonce, key(tx.hash, 'transaction'), target(tx), ether(tx.value), place === 'pending' ? 'can be executed' : 'behind a gap']),
  );
  if (rows.length === 0) return [];
  return [el('h3', {}, 'In the pool ', el('small', { text: `${grouped(rows.length)} transactions` })), table('Transactions in the pool', ['nonce', 'hash', 'to', 'value', ''], rows.slice(0, PAGE))];
}

async function recentLogs(address, from, head) {
  const heading = el('h3', {}, 'Logs ', el('small', { text: `the last ${PAGE} of ${grouped(LOGS_BACK)} blocks` }));
  let found;
  try {
    found = await call('eth_getLogs', { address, fromBlock: from, toBlock: head });
  } catch (error) {
    return [heading, el('p', { class: 'quiet', text: `${error.message}.` })];
  }
  if (found.length === 0) return [];
  const row = ({ blockNumber, transactionHash, topics, data }) => [
    blockLink(number(blockNumber)),
    key(transactionHash, 'transaction'),
    EVENTS[topics[0]] ?? (topics[0] ? key(topics[0]) : ''),
    `${topics.length} topics, ${grouped(byteCount(data))} bytes`,
  ];
  return [heading, table('Logs of the contract', ['block', 'transaction', 'event', ''], found.slice(-PAGE).reverse().map(row))];
}
