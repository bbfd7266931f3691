// The dashboard in a real browser: a live node, the explorer, a phone's width, the keyboard, the node's end.
//
// Environment besides RPC_URL: BROWSER, a Chromium; HEARTH and HEARTH_FOLDER, to restart the node; PICTURES, a folder.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import path from 'node:path';
import { createMint, getOrCreateAssociatedTokenAccount, mintTo, transfer } from '@solana/spl-token';
import { Keypair, LAMPORTS_PER_SOL, SystemProgram, Transaction, sendAndConfirmTransaction } from '@solana/web3.js';
import { arcInWords, flow, inWords, noteOf, troubleOf, troubleText } from '../../../crates/base/serve/src/dashboard/page/flow.mjs';
import { duration, scaled, short, when } from '../../../crates/base/serve/src/dashboard/page/format.mjs';
import { balances, tokens } from '../../../crates/base/serve/src/dashboard/page/solana/tokens.mjs';
import { base58Length, sol, understand } from '../../../crates/base/serve/src/dashboard/page/solana/words.mjs';
import { connection, richKey, run, until, url } from './common.mjs';
import { DESK, PHONE, complaints, fitsItsWidth, itIsLightAndDark, itPrints, nothingWasRefusedNorAskedOutside, page, picture, reachedByTab, search, sees, text } from './page.mjs';

const { HEARTH, HEARTH_FOLDER } = process.env;

async function wordsAreUnderstood() {
  const [address, signature] = [Keypair.generate().publicKey.toBase58(), 'z'.repeat(87)];
  const { kind, value } = understand(' 1,234 ');
  assert.deepEqual([kind, value], ['slot', '1234']);
  assert.equal(understand(address).kind, 'address');
  // All ones is a number too, but people mean the system program.
  assert.equal(understand('1'.repeat(32)).kind, 'address');
  assert.equal(understand('1'.repeat(64)).kind, 'transaction');
  assert.equal(understand('9007199254740991').value, '9007199254740991');
  for (const words of ['99999999999999999999', '18446744073709551615', '9,007,199,254,740,992']) {
    assert.match(understand(words).why, /is no slot: it is larger than any that a chain comes to/);
  }
  const noon = Date.UTC(2026, 10, 22, 12) / 1000;
  const times = [0, 60, -330, 13 * 60].map((ahead) => when(noon, ahead));
  const utc = '2026-11-22 12:00:00 UTC';
  assert.deepEqual(times, [utc, `${utc} (13:00:00 here)`, `${utc} (06:30:00 here)`, `${utc} (2026-11-23 01:00:00 here)`]);
  for (const words of ['', '0x12', `${address}0`, '7'.repeat(25), 'z'.repeat(5000)]) assert.match(understand(words).why, /\w/);
  assert.deepEqual([signature, address, '', '1', 'O'].map(base58Length), [64, 32, 0, 1, undefined]);
  assert.deepEqual([0, 1, -5_000, 1_500_000_000, 2n ** 63n].map(sol), ['0 SOL', '0.000000001 SOL', '−0.000005 SOL', '1.5 SOL', '9,223,372,036.854775808 SOL']);
  assert.deepEqual([2.5, 950, 12_345, 4.56e6].map(scaled), ['2.5', '950', '12.3K', '4.56M']);
  assert.deepEqual([0.00042, 0.004, 12, 600].map(duration), ['420 µs', '4.00 ms', '12 s', '10 min']);
  assert.equal(short(address).length, 13);
}

/** What the picture of the pipeline says of two verify tiles, one link that is full, one that lost frags. */
async function thePipelineIsComputed() {
  const tile = (name, regimes) => ({ tile: name, kind: name.split(':')[0], state: 'run', regimes: { wait: 0, backp: 0, elsewhere: 0, ...regimes } });
  const link = (producer, consumer, more) => ({ link: `${producer}_${consumer}`, producer, consumer, unique_per_s: 1000, depth: 100, waiting: 0, slow_delta: 0, overrun_poll_delta: 0, overrun_read_delta: 0, ...more });
  const sample = {
    tiles: [tile('quic:0', { wait: 0.1, backp: 0.6 }), tile('verify:0', { wait: 0.5 }), tile('verify:1', { elsewhere: 0.1 }), tile('sign:0', { wait: 1 })],
    links: [link('quic:0', 'verify:0', { waiting: 90, slow_delta: 4 }), link('quic:0', 'verify:1', { waiting: 10 }), link('rpc', 'verify:0'), link('verify:0', 'sign:0', { overrun_poll_delta: 7 })],
    dropped_per_s: { verify_signature: 3, verify_parse: 2 },
    diagnosis: { finding: 'kind_full', kind: 'verify' },
  };
  const found = flow(sample);
  assert.deepEqual(found.boxes.map(({ kind, count }) => `${kind} ${count}`), ['rpc 0', 'quic 1', 'verify 2', 'sign 1']);
  const [, quic, verify] = found.boxes;
  assert.deepEqual([verify.busy, verify.dropped, verify.isLimit].map((value) => (typeof value === 'number' ? Number(value.toFixed(3)) : value)), [0.7, 5, true]);
  assert.deepEqual([quic, verify, { ...quic, blocked: 0 }, { ...quic, isDead: true }].map((box) => noteOf(box)[0]), ['waits 60 %', 'drops 5.0', '', 'died']);
  const [full, , lost] = found.arcs;
  assert.deepEqual([full.rate, full.waiting, full.depth, full.held], [2000, 90, 100, 4]);
  assert.deepEqual(found.arcs.map(troubleOf), ['full', '', 'lost']);
  assert.deepEqual([full, { ...full, filled: 0.1 }, lost].map(troubleText), ['90 % full', 'held 4×', '7 lost']);
  assert.equal(arcInWords(full), 'quic to verify: 2.0K frags a second, 90 of 100 waiting, held quic up 4 times in the last second');
  assert.equal(inWords(found), 'Busiest: verify, 70 %. Most waits from quic to verify: 90 of 100 waiting. Back-pressure: verify holds quic up. Lost on links: verify to sign 7. Dropped a second: verify 5.0.');
  // Stages that no link joins have steps instead.
  const steps = flow({ ...sample, links: [] }, [['quic', 'sign', 'blocks', () => 3, () => 12]]);
  assert.equal(arcInWords(steps.arcs[0]), 'quic to sign: 3.0 blocks a second, 12 waiting');
}

async function tokenAmountsAreComputed() {
  const at = (accountIndex, amount) => ({ accountIndex, mint: 'mint', owner: 'owner', uiTokenAmount: { amount, decimals: 6 } });
  const found = balances({ preTokenBalances: [at(2, '5'), at(1, '1000000')], postTokenBalances: [at(1, '400000'), at(3, '600000')] });
  assert.deepEqual(found.map(({ at: index, before, after }) => [index, before, after]), [[1, 1_000_000n, 400_000n], [2, 5n, 0n], [3, 0n, 600_000n]]);
  assert.deepEqual(balances({ preTokenBalances: null, postTokenBalances: undefined }), []);
  assert.equal(tokens({ amount: '1234500000', decimals: 6 }), '1,234.5');
}

async function itShowsALiveNode() {
  const answer = await page.goto(`${url}/`);
  assert.match(answer.headers()['content-security-policy'], /default-src 'none'/);
  await sees(/^test-\d+ \(pid \d+\)$/, '#node');
  await sees(/is sent to the node/i, '#says');
  await sees(/^\d/, '#figure-txn');
  for (const kind of ['net:0', 'quic:0', 'verify:0', 'pack', 'bank:0', 'poh', 'store']) await sees(kind, '#tiles');
  await sees('% finish', '#tiles');
  // The picture of the pipeline: each kind of tile, what goes over links, and the same in words.
  for (const kind of ['rpc', 'net', 'quic', 'verify', 'dedup', 'pack', 'bank', 'poh', 'shred', 'store', 'tower', 'sign']) {
    await until(`a box of ${kind}`, async () => (await page.$$eval('.pipeline .box .kind', (boxes) => boxes.map((box) => box.textContent))).some((name) => name.split(' ')[0] === kind) || undefined);
  }
  await until('something that moves', async () => (await page.$$('.pipeline .arc.moves')).length > 5 || undefined);
  await sees(/^Busiest: \w+, \d+ %\./, '#pipeline-words');
  // A node without traffic says what makes some.
  await sees(`hearth load run --url ${url}`, '#pipeline');
  await sees(`hearth load run --url ${url}`, '#peers-table');
  await sees('net_quic:0', '#links');
  const [first] = (await sees(/\d/, '#figure-slot')).match(/[\d,]+/);
  await until('the next slot', async () => ((await text('#figure-slot')).startsWith(first) ? undefined : true));
  await sees(/\d+\s+\d+\s+20\d\d-/, '#blocks');
  assert.ok(await page.$eval('.strip', (canvas) => canvas.getContext('2d').getImageData(119, 0, 1, 22).data.some((byte) => byte > 0)));
}

/** One second of the node, fetched without the page. */
async function sample() {
  const answer = await fetch(`${url}/dashboard/live`);
  let text = '';
  for await (const bytes of answer.body) {
    text += Buffer.from(bytes).toString();
    const [, found] = text.match(/data: (.*)\n\n/) ?? [];
    if (found) return JSON.parse(found);
  }
  return assert.fail('the stream ended');
}

async function theChartMoves(rich) {
  const pay = async () => {
    const { blockhash } = await connection.getLatestBlockhash();
    for (let n = 0; n < 200; n++) {
      const transfer = SystemProgram.transfer({ fromPubkey: rich.publicKey, toPubkey: rich.publicKey, lamports: n });
      const transaction = new Transaction({ recentBlockhash: blockhash, feePayer: rich.publicKey }).add(transfer);
      transaction.sign(rich);
      await connection.sendRawTransaction(transaction.serialize(), { skipPreflight: true });
    }
  };
  await pay();
  await until('a rate above that of votes', async () => {
    const [, highest] = (await text('#chart-words')).match(/highest ([\d,]+)/) ?? [];
    return Number((highest ?? '0').replaceAll(',', '')) > 20 || undefined;
  });
  assert.ok(await page.$('#chart .curve'));
  // There are no empty panels for figures that the node does not measure.
  const { latency } = await sample();
  if (latency === undefined) assert.equal(await page.$eval('#latency', (panel) => panel.hidden), true);
  else await sees(/executed\s+\d+\s+\d/, '#latency');
  const { x, y, width } = await (await page.$('#chart svg')).boundingBox();
  await page.mouse.move(x + width - 10, y + 40);
  await sees(/txn\/s, \d+ s ago/, '#chart');
}

/** Two senders on the plain UDP port, one with three times as much traffic as the other. */
async function bandwidthIsToldByPeer() {
  const [{ tpu }] = await connection.getClusterNodes();
  const [address, port] = tpu.split(':');
  const senders = await Promise.all([3, 1].map(async (datagrams) => {
    const socket = createSocket('udp4').bind(0, '127.0.0.1');
    await once(socket, 'listening');
    const send = () => Array.from({ length: datagrams }, () => socket.send(Buffer.alloc(1000, 7), Number(port), address));
    return { name: `127.0.0.1:${socket.address().port}`, socket, timer: setInterval(send, 20) };
  }));
  const [most, less] = senders.map(({ name }) => name);
  try {
    for (const where of ['#peers-legend', '#peers-table']) for (const name of [most, less]) await sees(name, where);
    // Stacked in this order, each by its share: the highest point of both is a third above that of the first.
    const height = await until('two layers of right heights', async () => {
      const layers = await page.$$eval('#peers-received .layer', (found) =>
        found.map((layer) => ({ name: layer.textContent, ys: layer.getAttribute('points').split(' ').map((point) => Number(point.split(',')[1])) })),
      );
      const [below, above] = [most, less].map((name) => layers.find((layer) => layer.name === name));
      if (!below || !above) return undefined;
      const ground = Math.max(...below.ys);
      const [first, both] = [below, above].map(({ ys }) => ground - Math.min(...ys));
      return first > 20 && both / first > 1.15 && both / first < 1.6 ? [first, both] : undefined;
    });
    assert.ok(height);
    // On a busy machine a second may pass without a datagram of either.
    const { bandwidth } = await until('a second in which the heavier sends more', async () => {
      const second = await sample();
      return second.bandwidth.peers[0]?.peer === most ? second : undefined;
    });
    const rows = [...bandwidth.peers, bandwidth.others];
    for (const way of ['received_bits_per_s', 'sent_bits_per_s']) {
      const sum = rows.reduce((bits, row) => bits + row[way], 0);
      assert.ok(Math.abs(sum - bandwidth[way]) <= 1, `${way}: ${sum} of ${bandwidth[way]}`);
    }
    await sees(/now [\d.]+ [KM]bps, highest [\d.]+ [KM]bps/, '#peers-received-words');
    await page.$eval('#peers', (charts) => charts.scrollIntoView({ block: 'center' }));
    const { x, y, width } = await (await page.$('#peers-received svg')).boundingBox();
    await page.mouse.move(x + width - 10, y + 40);
    await sees(/bps, \d+ s ago/, '#peers-received');
    await picture('peers');
    await page.evaluate(() => scrollTo(0, 0));
  } finally {
    for (const { socket, timer } of senders) {
      clearInterval(timer);
      socket.close();
    }
  }
}

async function tablesSort() {
  const first = () => page.$eval('#tiles tbody tr', (row) => row.innerText.split(/\s/)[0]);
  assert.equal(await first(), 'net:0');
  const heading = await page.$('#tiles thead th button');
  await heading.click();
  assert.equal(await first(), 'bank:0');
  assert.equal(await page.$eval('#tiles thead th', (th) => th.getAttribute('aria-sort')), 'ascending');
  await heading.click();
  assert.match(await first(), /^verify/);
  await heading.click();
  assert.equal(await first(), 'net:0');
}

async function aTransferIsFound(rich) {
  const bob = Keypair.generate();
  const transfer = SystemProgram.transfer({ fromPubkey: rich.publicKey, toPubkey: bob.publicKey, lamports: 1_500_000_000 });
  const signature = await sendAndConfirmTransaction(connection, new Transaction().add(transfer), [rich]);
  await search(signature);
  await sees('success', '#result');
  const shown = await sees('1.5 SOL', '#result');
  for (const part of ['system: transfer', '0.000005 SOL', bob.publicKey.toBase58().slice(0, 6)]) assert.ok(shown.includes(part), `${part}: ${shown}`);
  // A shortened name can be copied as a whole.
  assert.equal(await page.$eval('#result h1 .mono', (name) => name.title), signature);
  await picture('transaction');

  await page.click(`#result a[title="${bob.publicKey}"]`);
  await sees('1.5 SOL', '#result');
  await sees(signature.slice(0, 6), '#result');
  assert.equal(await page.$eval('#query', (input) => input.value), bob.publicKey.toBase58());

  const { slot } = await connection.getTransaction(signature, { commitment: 'confirmed', maxSupportedTransactionVersion: 0 });
  await search(String(slot));
  await sees(`Slot ${slot.toLocaleString('en-US')}`, '#result h1');
  await until('the transaction in its block', async () => {
    if ((await text('#result')).includes(signature.slice(0, 6))) return true;
    // The block has more transactions than are shown at first.
    await page.$eval('#result .more', (more) => more.click()).catch(() => {});
    return undefined;
  });
  await page.goBack();
  await sees('Account', '#result h1');
  await page.goBack();
  await sees('Transaction', '#result h1');

  // Each view has its own link.
  await page.goto(`${url}/dashboard#/transaction/${signature}`);
  await page.reload();
  await sees('success', '#result');
}

async function tokensAreFound(rich) {
  const bob = Keypair.generate().publicKey;
  const mint = await createMint(connection, rich, rich.publicKey, null, 6);
  const account = async (owner) => (await getOrCreateAssociatedTokenAccount(connection, rich, mint, owner)).address;
  const [from, to] = [await account(rich.publicKey), await account(bob)];
  await mintTo(connection, rich, mint, from, rich, 1_000_000n);
  const signature = await transfer(connection, rich, from, to, rich, 400_000n);
  await search(signature);
  const shown = await sees('+0.4', '#result');
  for (const part of ['−0.4', '0.6', '0.4 tokens', to.toBase58().slice(0, 6), mint.toBase58().slice(0, 6)]) assert.ok(shown.includes(part), `${part}: ${shown}`);
  await picture('tokens');
  await search(bob.toBase58());
  await sees(/0\.4/, '#result');
  await search(to.toBase58());
  await sees(/holds\s+0\.4 of/, '#result');
  await search(mint.toBase58());
  await sees(/supply\s+1\s+decimals\s+6/, '#result');
}

async function itIsPrinted() {
  await page.goto(`${url}/dashboard#/`);
  await page.reload();
  await sees('net:0', '#tiles');
  await itPrints('print');
}

async function whatIsNotThereIsSaid() {
  const cases = [
    ['hello world', 'it is not base58'],
    ['<img src=x onerror=alert(1)>', 'it is not base58'],
    ['abc', 'base58 of 3 bytes'],
    ['99999999', 'has not been confirmed yet'],
    ['99999999999999999999', 'larger than any that a chain comes to'],
    [Keypair.generate().publicKey.toBase58(), 'There is no account at this address'],
    ['1'.repeat(64), 'does not know this transaction'],
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
  await sees('net:0', '#tiles');
  await fitsItsWidth();
  // The boxes are in a column.
  const lefts = await page.$$eval('.pipeline .box .frame', (frames) => frames.map((frame) => frame.getAttribute('x')));
  assert.ok(lefts.length > 10 && new Set(lefts).size === 1, `${lefts}`);
  await picture('phone');
  for (const [kind, value] of [['slot', await connection.getSlot('confirmed')], ['address', SystemProgram.programId.toBase58()], ['search', 'x'.repeat(90)]]) {
    await page.goto(`${url}/dashboard#/${kind}/${value}`);
    await page.waitForFunction(() => document.querySelector('#result h1'));
    await fitsItsWidth();
  }
  await page.setViewport(DESK);
}

async function theKeyboardIsEnough() {
  await page.goto(`${url}/dashboard#/`);
  await page.reload();
  await sees('net:0', '#tiles');
  const reached = await reachedByTab();
  for (const what of ['search soon', 'query', 'theme', 'Tiles', 'Bandwidth by peer', 'Links', '% finish']) assert.ok(reached.has(what), `${what} of ${[...reached]}`);
  await page.focus('#query');
  await page.keyboard.type('0');
  await page.keyboard.press('Enter');
  await sees('Slot 0', '#result h1');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'result');
}

async function theNodesEndIsSaid() {
  await page.goto(`${url}/dashboard#/`);
  const [, pid] = (await sees(/pid \d+/, '#node')).match(/pid (\d+)/);
  assert.equal(await page.$eval('#connection', (line) => line.hidden), true);
  process.kill(Number(pid), 'SIGKILL');
  await sees('The node is gone', '#connection');
  assert.match(await page.title(), /the node is gone/);
  await picture('gone');
  // The browser's own message about a node that does not answer is not a fault of the page.
  complaints.splice(0, complaints.length, ...complaints.filter((line) => !/ERR_|Failed to load resource/.test(line)));

  const again = spawn(HEARTH, ['run', '--config', path.join(HEARTH_FOLDER, 'hearth.toml')], { cwd: HEARTH_FOLDER, stdio: 'ignore' });
  process.on('exit', () => again.kill('SIGKILL'));
  await until('the node is back', async () => (await page.$eval('#connection', (line) => line.hidden)) || undefined);
  await sees(`pid ${again.pid}`, '#node');
  again.kill('SIGINT');
  const [code] = await once(again, 'exit');
  assert.equal(code, 0, 'a stream that is open holds no node up');
  await sees('The node is gone', '#connection');
}

const rich = await richKey(10 * LAMPORTS_PER_SOL);
await run([
  ['words are understood', wordsAreUnderstood],
  ['the pipeline is computed', thePipelineIsComputed],
  ['token amounts are computed', tokenAmountsAreComputed],
  ['it shows a live node', itShowsALiveNode],
  ['the chart moves', () => theChartMoves(rich)],
  ['bandwidth is shown by peer', bandwidthIsToldByPeer],
  ['tables sort', tablesSort],
  ['a transfer is found', () => aTransferIsFound(rich)],
  ['tokens are found', () => tokensAreFound(rich)],
  ['what is not there is said', whatIsNotThereIsSaid],
  ['it is light and dark', () => itIsLightAndDark()],
  ['it prints', itIsPrinted],
  ['it fits a phone', itFitsAPhone],
  ['the keyboard is enough', theKeyboardIsEnough],
  ["the node's end is said", theNodesEndIsSaid],
  ['nothing was refused nor asked outside', nothingWasRefusedNorAskedOutside],
]);
