// The dashboard of a cluster in a real browser: map, slots and rates of nodes, a killed node, a cut, a phone.
//
// Environment besides RPC_URL, the leader's: BROWSER, a Chromium; HEARTH and HEARTH_FOLDER, for commands on the
// cluster, which has six nodes; PICTURES, a folder.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { isLand } from '../../../crates/base/serve/src/dashboard/page/land.mjs';
import { stateOf } from '../../../crates/base/serve/src/dashboard/page/worldmap.mjs';
import { run, until, url } from './common.mjs';
import { DESK, PHONE, fitsItsWidth, nothingWasRefusedNorAskedOutside, page, picture, reachedByTab, sees } from './page.mjs';

const { HEARTH, HEARTH_FOLDER } = process.env;
const REGIONS = ['London', 'New York', 'Frankfurt', 'Singapore'];

const hearth = (command, ...words) => execFileSync(HEARTH, ['cluster', command, '--folder', HEARTH_FOLDER, ...words], { stdio: 'pipe' });

async function landIsWhereItIs() {
  for (const [where, longitude, latitude] of [['Berlin', 13.4, 52.5], ['Kansas', -98, 38.5], ['Mali', -2, 17], ['Brasília', -47.9, -15.8], ['Alice Springs', 133.9, -23.7], ['Novosibirsk', 82.9, 55]]) {
    assert.ok(isLand(longitude, latitude), where);
  }
  for (const [where, longitude, latitude] of [['the Atlantic', -35, 30], ['the Pacific', -150, 0], ['the Indian Ocean', 80, -20], ['the Caspian Sea', 51.5, 42], ['the Mediterranean', 18, 35]]) {
    assert.ok(!isLand(longitude, latitude), where);
  }
}

async function statesAreSaid() {
  const node = { state: 'serves', cut_from: 0, others: 9 };
  assert.deepEqual([node, { ...node, cut_from: 3 }, { ...node, cut_from: 7 }, { ...node, state: 'ended', cut_from: 7 }].map(stateOf), ['up', 'up, without 3', 'cut off from 7', 'ended']);
}

/** The cells of a node's row, by their headings. */
const row = (name) =>
  page.evaluate((wanted) => {
    const heads = [...document.querySelectorAll('#cluster-nodes-place thead th')].map((head) => head.innerText);
    const found = [...document.querySelectorAll('#cluster-nodes-place tbody tr')].find((line) => line.firstChild.innerText === wanted);
    return found && Object.fromEntries([...found.children].map((cell, at) => [heads[at], cell.innerText]));
  }, name);

const rowBecomes = (name, what, is) =>
  until(`${name} ${what}`, async () => {
    const found = await row(name);
    return found && is(found) ? found : undefined;
  });

const hosts = (state, wanted) => until(`${wanted} on the map: ${state}`, async () => (await page.$$(`#cluster-map-place .host.${state}`)).length === wanted || undefined);

async function itShowsEachNode() {
  await page.goto(`${url}/`);
  await page.waitForSelector('#views:not([hidden])');
  await page.click('#views a[href="#/cluster"]');
  await sees(/^\s*6\b/, '#cluster-up');
  for (const name of REGIONS) await sees(name, '#cluster-map-place');
  await sees('175 ms', '#cluster-map-place');
  // A node may answer too late for one poll: that is not a fault of the page.
  await hosts('serves', 6);
  assert.ok((await page.$eval('.land path', (path) => path.getAttribute('d'))).length > 5000);
  for (let number = 1; number <= 6; number++) {
    // The block producer receives nothing before there is a transaction.
    const isSent = (found) => number === 1 || /[1-9]/.test(found['received bps']);
    await rowBecomes(`node-${number}`, 'sends and receives', (found) => found.state === 'up' && /[1-9]/.test(found['sent bps']) && isSent(found));
    // A joining node sends before it has a slot.
    await rowBecomes(`node-${number}`, 'has a slot', ({ slot }) => /[1-9]/.test(slot));
  }
  // Only votes leave the leader's shred tile, and followers make no blocks.
  await rowBecomes('node-1', 'makes blocks', (found) => /[1-9]/.test(found['TPS out']));
  await rowBecomes('node-2', 'makes none', (found) => found.state === 'up' && found['TPS out'] === '-');
  await until('a layer for each host', async () => (await page.$$('#cluster-sent-place .layer')).length === 6 || undefined);
  await sees(/now [\d.]+ [KM]?bps, highest/, '#cluster-sent-place');
  await sees(/nodes execute \d/, '#cluster-left-place');
  assert.equal(await page.$eval('#now', (figures) => figures.hidden), true);
  await picture('cluster-light', { fullPage: true });
}

async function itFitsAPhone() {
  await page.setViewport(PHONE);
  await page.goto(`${url}/dashboard#/cluster`);
  await page.reload();
  await sees('node-6', '#cluster-nodes-place');
  await fitsItsWidth();
  await picture('cluster-phone', { fullPage: true });
  await page.setViewport(DESK);
}

async function theKeyboardIsEnough() {
  await page.reload();
  await sees('node-6', '#cluster-nodes-place');
  await until('all that can be reached', async () => {
    const reached = await reachedByTab();
    return ['Node', 'Cluster', 'query', 'Nodes', 'node-6'].every((what) => reached.has(what)) || undefined;
  });
}

async function aCutAndAnEndAreShown() {
  hearth('partition', 'Singapore');
  await rowBecomes('node-4', 'is cut off', ({ state }) => state === 'cut off from 5');
  await rowBecomes('node-1', 'lacks one', ({ state }) => state === 'up, without 1');
  await until('the lines to it', async () => (await page.$$('#cluster-map-place .link.cut')).length === 3 || undefined);
  await sees(/Cut: .*Singapore/, '#map-words');
  hearth('kill', 'node-5');
  const { slot } = await rowBecomes('node-5', 'has ended', ({ state }) => state === 'ended');
  assert.equal(slot, '-');
  await hosts('ended', 1);
  await sees(/5 of 6 nodes answer\. node-5 \(New York\): ended\./, '#map-words');
  await picture('cluster-cut', { fullPage: true });
  hearth('heal');
  hearth('start', 'node-5');
  for (const name of ['node-4', 'node-5']) await rowBecomes(name, 'is back', ({ state }) => state === 'up');
}

await run([
  ['land is where it is', landIsWhereItIs],
  ['states are said', statesAreSaid],
  ['it shows each node', itShowsEachNode],
  ['it fits a phone', itFitsAPhone],
  ['the keyboard is enough', theKeyboardIsEnough],
  ['a cut and an end are shown', aCutAndAnEndAreShown],
  ['nothing was refused nor asked outside', nothingWasRefusedNorAskedOutside],
]);
