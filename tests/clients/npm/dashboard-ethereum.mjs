// The dashboard of an Ethereum chain in a real browser: a node under load, the explorer, a phone's width, the keyboard.
//
// Environment besides RPC_URL: BROWSER, a Chromium; PICTURES, a folder.
import assert from 'node:assert/strict';
import { amountText, changesBy, decimalsOf, symbolOf, transfersIn } from '../../../crates/base/serve/src/dashboard/page/ethereum/tokens.mjs';
import { ether, gwei, understand } from '../../../crates/base/serve/src/dashboard/page/ethereum/words.mjs';
import { run, until, url } from './common.mjs';
import { DESK, PHONE, fitsItsWidth, itIsLightAndDark, itPrints, nothingWasRefusedNorAskedOutside, page, picture, reachedByTab, search, sees, text } from './page.mjs';

/** Contract code that logs its input under topic 1. */
const LOGS = '365f5f376001365fa100';
/** Contract code that reverts with its input. */
const REVERTS = '365f5f37365ffd';
/**
 * Contract code of a token: decimals 6, symbol TOY (as 32 bytes), supply 1,000,000, balanceOf. Any other call transfers,
 * unchecked, the amount of the second word to the address of the first, and logs that.
 */
const TOKEN =
  '5f3560f81c8060311460645780609514606a5780601814608f57806070146097576024355f526024353354033355602435600435540160043555' +
  '600435337fddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef60205fa3005b6006609f565b7f544f59' +
  '0000000000000000000000000000000000000000000000000000000000609f565b620f4240609f565b60043554609f565b5f5260205ff3';
/** The contract that transfers coins to the UTXO ledger. */
const PRISM = `0x${'707269736d'.padStart(40, '0')}`;
const creates = (code) => `0x60${(code.length / 2).toString(16).padStart(2, '0')}8060095f395ff3${code}`;
/** Solidity's revert data for "no bread today". */
const REASON = `0x08c379a0${'20'.padStart(64, '0')}${'e'.padStart(64, '0')}${Buffer.from('no bread today').toString('hex').padEnd(64, '0')}`;

async function ask(...requests) {
  const body = JSON.stringify(requests.map(([method, ...params], id) => ({ jsonrpc: '2.0', id, method, params })));
  const answers = await (await fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body })).json();
  return answers.map(({ result, error }) => {
    if (error) throw new Error(error.message);
    return result;
  });
}

const call = async (...request) => (await ask(request))[0];

const accounts = await call('eth_accounts');
const [alice, bob] = accounts;

/** Sends from the node's own account, and waits for the receipt. */
async function send(tx) {
  const hash = await call('eth_sendTransaction', { from: alice, gas: '0x30d40', ...tx });
  return until('the receipt', async () => (await call('eth_getTransactionReceipt', hash)) ?? undefined);
}

async function wordsAreUnderstood() {
  const [hash, address] = ['ab'.repeat(32), 'cd'.repeat(20)];
  const owner = `hearth1${'q'.repeat(58)}`;
  const kinds = { ' 1,234 ': ['block', '1234'], [owner.toUpperCase()]: ['owner', owner], [`0x${hash}:3`]: ['transaction', `0x${hash}`], [`0x${hash}`]: ['transaction', `0x${hash}`], [hash]: ['transaction', `0x${hash}`], [`0x${address}`]: ['address', `0x${address}`], '0x10': ['block', '16'] };
  for (const [words, expected] of Object.entries(kinds)) {
    const { kind, value } = understand(words);
    assert.deepEqual([kind, value], expected, words);
  }
  for (const words of ['', 'hello', `0x${hash}0`, '99999999999999999999', 'z'.repeat(500)]) assert.match(understand(words).why, /\w/, words);
  assert.equal(understand('99999999999999999999').kind, undefined);
  assert.deepEqual(['0x0', '0x1', '0xde0b6b3a7640000', -5n * 10n ** 17n].map(ether), ['0 ETH', '0.000000000000000001 ETH', '1 ETH', '−0.5 ETH']);
  assert.equal(gwei('0x59682f00'), '1.5 gwei');
}

async function tokensAreDecoded() {
  const word = (value) => BigInt(value).toString(16).padStart(64, '0');
  const bytes = (text) => Buffer.from(text).toString('hex').padEnd(64, '0');
  const string = (text) => `0x${word(32)}${word(Buffer.from(text).length)}${bytes(text)}`;
  assert.deepEqual([string('USDC'), `0x${bytes('MKR')}`, string('a\u202eb\nc'), '0x', undefined, string(''), string('x'.repeat(30))].map(symbolOf), ['USDC', 'MKR', 'a b c', undefined, undefined, undefined, 'x'.repeat(16)]);
  assert.deepEqual([`0x${word(18)}`, `0x${word(2n ** 200n)}`, '0x12', undefined].map(decimalsOf), [18, undefined, undefined, undefined]);
  assert.deepEqual([amountText(1_500_000n, { decimals: 6, symbol: 'TOY' }), amountText(-5n, {}), amountText(7n)], ['1.5 TOY', '−5 units', '7 units']);
  const [TRANSFER, a, b] = ['0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef', word(10), word(11)];
  const log = (topics, data) => ({ address: '0xt', topics: [TRANSFER, ...topics.map((topic) => `0x${topic}`)], data });
  const found = transfersIn([log([a, b], `0x${word(9)}`), log([b, a], `0x${word(2)}`), log([word(0), a], `0x${word(1)}`), log([a, b, word(77)], '0x'), log([a, b], '0x01'), log([a], '0x')]);
  assert.deepEqual(found.map(({ amount, id }) => [amount, id]), [[9n, undefined], [2n, undefined], [1n, undefined], [undefined, 77n]]);
  assert.deepEqual(changesBy(found).map(({ account, change }) => [Number(account), change]), [[10, -6n], [11, 7n]]);
}

async function itShowsALiveNode() {
  const answer = await page.goto(`${url}/`);
  assert.match(answer.headers()['content-security-policy'], /default-src 'none'/);
  await sees(/^evm-\d+ \(pid \d+\)$/, '#node');
  await sees(/is sent to the node/i, '#says');
  for (const stage of ['web3', 'recover', 'pool', 'exec', 'commit']) await sees(stage, '#tiles');
  await until('a box for each stage', async () => (await page.$$('.pipeline .box')).length === 5 || undefined);
  await until('steps between them', async () => (await page.$$('.pipeline g.arc')).length === 4 || undefined);
  // A node without traffic says what makes some.
  for (const card of ['#pipeline', '#making-title ~ .scroll']) await sees(`hearth load run --url ${url}`, card);
  await sees('Stages', '#tiles-title');
  await sees(/\d+\s+\d+\s+[\d.]+/, '#blocks');
  // Such a node has no panel for what it does not measure.
  for (const id of ['#links', '#peers', '#latency']) assert.equal(await page.$(id), null, id);
}

/** Sends transfers from all accounts until the returned function is called. */
function load() {
  let isOver = false;
  const sending = (async () => {
    while (!isOver) {
      const transfer = (from, at) => ['eth_sendTransaction', { from, to: accounts[(at + 1) % accounts.length], gas: '0x5208', value: '0x1' }];
      // Other senders with the same accounts may be ahead.
      await ask(...accounts.flatMap((from, at) => Array.from({ length: 20 }, () => transfer(from, at)))).catch(() => {});
    }
  })();
  return () => {
    isOver = true;
    return sending;
  };
}

async function loadIsSeen() {
  const end = load();
  await until('a rate', async () => Number((await text('#figure-txn')).replace(/[^\d]/g, '')) > 20 || undefined);
  await sees(/^[\d.]+[KMG]?/, '#figure-gas');
  await sees(/now [\d.]+[KMG]?, mean .* gas\/s/, '#making-gas-words');
  await sees(/total\s+\d/, '#making-title ~ .scroll');
  await sees(/last [\d.]+ (µs|ms|s)/, '#making-time-words');
  await sees(/can be executed/, '#pool-depth-words');
  await until('steps that move', async () => (await page.$$('.pipeline .arc.moves')).length > 2 || undefined);
  await end();
  for (const id of ['#making-gas', '#making-time', '#pool-depth', '#chart']) assert.ok(await page.$(`${id} .curve`), id);
}

async function refusalsAreNamed() {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'eth_sendTransaction', params: [{ from: alice, to: bob, gas: '0x5208', value: '0x1', nonce: '0x0' }] });
  const timer = setInterval(() => fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body }).catch(() => {}), 50);
  try {
    await sees(/all that is sent is refused.*nonce, funds, gas or fees/i, '#says');
    await picture('ethereum-refused');
  } finally {
    clearInterval(timer);
  }
}

async function aTransferIsFound() {
  const receipt = await send({ to: bob, gas: '0x5208', value: '0x14d1120d7b160000' });
  await search(receipt.transactionHash);
  await sees('success', '#result');
  const shown = await sees('1.5 ETH', '#result');
  for (const part of ['21,000 of 21,000', 'EIP-1559', bob.slice(0, 6)]) assert.ok(shown.toLowerCase().includes(part.toLowerCase()), `${part}: ${shown}`);
  assert.equal(await page.$eval('#result h1 .mono', (name) => name.title), receipt.transactionHash);
  await picture('ethereum-transaction');
  await page.click(`#result a[href="#/block/${Number(receipt.blockNumber)}"]`);
  await sees(/^Block /, '#result h1');
  await sees(receipt.transactionHash.slice(0, 6), '#result');
  await picture('ethereum-block');
  await page.goBack();
  await sees('Transaction', '#result h1');
  // The hash of its block opens the block.
  await search(receipt.blockHash);
  await sees(`Block ${Number(receipt.blockNumber).toLocaleString('en-US')}`, '#result h1');
  await search(bob);
  await sees('Account', '#result h1');
  await sees(/\d ETH/, '#result');
  // Each view has its own link.
  await page.goto(`${url}/dashboard#/transaction/${receipt.transactionHash}`);
  await page.reload();
  await sees('success', '#result');
}

async function contractsLogsAndRevertsAreShown() {
  const [logs, reverts] = [await send({ data: creates(LOGS) }), await send({ data: creates(REVERTS) })].map(({ contractAddress }) => contractAddress);
  const receipt = await send({ to: logs, data: `0x${'07'.repeat(40)}` });
  await search(receipt.transactionHash);
  const shown = await sees('Logs', '#result');
  assert.ok(shown.includes('07'.repeat(40)), shown);
  await search(logs);
  await sees('Contract', '#result h1');
  await sees('10 bytes', '#result');
  await sees(receipt.transactionHash.slice(0, 6), '#result');
  await picture('ethereum-contract');
  const failed = await send({ to: reverts, data: REASON });
  assert.equal(failed.status, '0x0');
  await search(failed.transactionHash);
  await sees(/failed[\s\S]*execution reverted: no bread today/, '#result');
  await picture('ethereum-reverted');
}

async function tokensAreFound() {
  const { contractAddress: token } = await send({ data: creates(TOKEN) });
  const to = `0x${'7'.repeat(40)}`;
  const receipt = await send({ to: token, data: `0xa9059cbb${to.slice(2).padStart(64, '0')}${(1_500_000).toString(16).padStart(64, '0')}` });
  await search(receipt.transactionHash);
  const shown = await sees('Token transfers', '#result');
  for (const part of ['1.5 TOY', '+1.5 TOY', '−1.5 TOY', '0 TOY']) assert.ok(shown.includes(part), `${part}: ${shown}`);
  // The fee is a change of ether, from one exact balance to another.
  assert.match(shown, /[\d.,]+ ETH\s+−0\.0[\d.]+ ETH\s+[\d.,]+ ETH/);
  await picture('ethereum-token');
  await search(token);
  await sees(/token\s+TOY\s+supply\s+1 TOY\s+decimals\s+6/, '#result');
  await search(to);
  await sees(/Tokens[\s\S]*1\.5 TOY/, '#result');
}

/** Transfers coins to the UTXO ledger, where they appear as a transaction of their own. */
async function theLedgerOfOutputsIsShown() {
  const receipt = await send({ to: PRISM, data: `0x359acd36${'01'.repeat(32)}`, value: '0x4563918244f40000' });
  assert.equal(receipt.status, '0x1');
  const [{ id }] = await call('utxo_getBlock', receipt.blockNumber);
  const { outputs } = await call('utxo_getTransaction', id);
  await search(id);
  const shown = await sees('came from the EVM', '#result');
  for (const part of ['5 native', Number(receipt.blockNumber).toLocaleString('en-US'), alice.slice(0, 6)]) assert.ok(shown.toLowerCase().includes(part.toLowerCase()), `${part}: ${shown}`);
  await search(outputs[0].owner);
  await sees('Owner', '#result h1');
  await sees('5 native', '#result');
  await search(String(Number(receipt.blockNumber)));
  await sees(id.slice(0, 6), '#result');
}

async function thePoolIsShown() {
  await call('evm_setAutomine', false);
  const hash = await call('eth_sendTransaction', { from: alice, to: bob, gas: '0x5208', value: '0x1' });
  await search(hash);
  await sees('It is pending in the pool', '#result');
  await search(alice);
  await sees(/In the pool/, '#result');
  await search(hash);
  await sees('It is pending in the pool', '#result');
  await call('evm_setAutomine', true);
  await call('evm_mine');
  await sees('success', '#result');
}

async function itIsPrinted() {
  await page.goto(`${url}/dashboard#/`);
  await page.reload();
  await sees('exec', '#tiles');
  await itPrints('ethereum-print');
}

async function whatIsNotThereIsSaid() {
  const cases = [
    ['hello world', 'it is not hexadecimal'],
    ['<img src=x onerror=alert(1)>', 'it is not hexadecimal'],
    ['0xabcdef0123456789ab', 'it has 18 hexadecimal digits'],
    ['99999999', 'has not been made yet'],
    ['99999999999999999999', 'larger than any that a chain comes to'],
    ['0x'.padEnd(66, '7'), 'knows neither a transaction nor a block'],
  ];
  for (const [words, said] of cases) {
    await search(words);
    await sees(said, '#result');
  }
  assert.equal(await page.$('#result img'), null);
  await page.click('#result a.back');
  await page.waitForSelector('#overview:not([hidden])');
}

async function itFitsAPhone() {
  await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: 'light' }]);
  await page.setViewport(PHONE);
  await page.goto(`${url}/dashboard`);
  await sees('exec', '#tiles');
  await fitsItsWidth();
  await picture('ethereum-phone', { fullPage: true });
  const [head] = await ask(['eth_blockNumber']);
  for (const [kind, value] of [['block', Number(head)], ['address', alice], ['search', 'x'.repeat(90)]]) {
    await page.goto(`${url}/dashboard#/${kind}/${value}`);
    await page.waitForFunction(() => document.querySelector('#result h1'));
    await fitsItsWidth();
  }
  await page.setViewport(DESK);
}

async function theKeyboardIsEnough() {
  await page.goto(`${url}/dashboard#/`);
  await page.reload();
  await sees('exec', '#tiles');
  const reached = await reachedByTab();
  for (const what of ['search soon', 'query', 'theme', 'Stages', 'Recent blocks', '% finish']) assert.ok(reached.has(what), `${what} of ${[...reached]}`);
  await page.focus('#query');
  await page.keyboard.type('0');
  await page.keyboard.press('Enter');
  await sees('Block 0', '#result h1');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'result');
}

async function seenUnderLoad() {
  await page.goto(`${url}/dashboard#/`);
  const end = load();
  await sees(/total\s+\d/, '#making-title ~ .scroll');
  const points = () => page.$$eval('#making-gas .curve', (curves) => Math.max(0, ...curves.map((curve) => curve.points.length)));
  await until('a curve of some seconds', async () => (await points()) > 5 || undefined);
  await itIsLightAndDark('ethereum-');
  await end();
}

await run([
  ['words are understood', wordsAreUnderstood],
  ['tokens are decoded', tokensAreDecoded],
  ['it shows a live node', itShowsALiveNode],
  ['load is seen', loadIsSeen],
  ['refusals are named', refusalsAreNamed],
  ['a transfer is found', aTransferIsFound],
  ['contracts, logs and reverts are shown', contractsLogsAndRevertsAreShown],
  ['tokens are found', tokensAreFound],
  ['the ledger of outputs is shown', theLedgerOfOutputsIsShown],
  ['the pool is shown', thePoolIsShown],
  ['what is not there is said', whatIsNotThereIsSaid],
  ['it is light and dark', seenUnderLoad],
  ['it prints', itIsPrinted],
  ['it fits a phone', itFitsAPhone],
  ['the keyboard is enough', theKeyboardIsEnough],
  ['nothing was refused nor asked outside', nothingWasRefusedNorAskedOutside],
]);
