// The page of a load in a real browser: it opens without errors or requests, its plots show the figures of the JSON,
// and the flame graph zooms and searches.
//
// Environment besides RPC_URL, of the loaded node: BROWSER, a Chromium; PICTURES, a folder; REPORT, PAIR: pages of one
// and of two reports; JSON: the report.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { run } from './common.mjs';
import { DESK, complaints, fitsItsWidth, page, picture, text } from './page.mjs';

const { REPORT, PAIR, JSON: FIGURES } = process.env;
const PHONE = { width: 400, height: 800, isMobile: true, hasTouch: true };
const figures = JSON.parse(readFileSync(FIGURES, 'utf8'));

/** Every request that the page makes, its own included. */
const requests = [];
page.on('request', (request) => requests.push(request.url()));

async function open(file, viewport = DESK) {
  await page.setViewport(viewport);
  await page.goto(pathToFileURL(file).href);
}

const plot = (name) => `[data-plot="${name}"]`;
/** The measured time as drawn, without the warm-up. */
const titles = (name) => page.$$eval(`${plot(name)} title`, (all) => all.map((title) => title.textContent).filter((title) => title !== 'warm-up'));
/** Parses `4,512` from `3 s: in blocks 4,512`. */
const numbers = (title) => [...title.split(':').slice(1).join(':').matchAll(/[\d,]+(?:\.\d+)?/g)].map(([number]) => Number(number.replaceAll(',', '')));
const sum = (all) => all.reduce((one, other) => one + other, 0);

async function everyPlotIsThere() {
  await open(REPORT);
  for (const name of ['transactions a second', 'transactions in blocks', 'block time', 'latency', 'waiting', 'CPU']) {
    const boxes = await page.$$eval(`${plot(name)} .bar, ${plot(name)} .line`, (shapes) => shapes.map((shape) => shape.getBoundingClientRect()).filter(({ height }) => height > 0).length);
    assert.ok(boxes > 0, `${name} has nothing drawn`);
  }
  assert.match(await text('.says'), /The limit was/);
  for (const section of ['#figures', '#errors', '#configuration']) assert.ok(await page.$(section), section);
}

async function itsFiguresAreThose() {
  const shown = Number((await text('.big dd')).replaceAll(',', ''));
  assert.ok(Math.abs(shown - figures.tps) <= 0.5, `${shown} of ${figures.tps}`);
  // Each block's transactions, unless blocks share a line.
  const blocks = (await titles('transactions in blocks')).map(numbers);
  if (figures.blocks.length <= 300) {
    assert.equal(sum(blocks.flat()), sum(figures.blocks.map(({ ours }) => ours)));
    assert.equal(blocks.length, figures.blocks.length);
  }
  const seconds = (await titles('transactions a second')).map(numbers);
  assert.equal(seconds.length, Math.floor(figures.seconds));
  const measured = (await titles('latency')).map(numbers).flat();
  assert.equal(sum(measured), sum(figures.latency_distribution.map(({ count }) => count)));
  assert.match(await text(plot('waiting')), /txpool_status/);
  assert.match(await text(plot('latency')), /p50[\s\S]*p90[\s\S]*p99[\s\S]*p99\.9/);
}

async function theFlameGraphZoomsAndSearches() {
  const bars = plot('flame graph');
  const samples = figures.profile.folded.trim().split('\n').map((line) => Number(line.split(' ').pop()));
  const all = await page.$eval(`${bars} > i`, (bar) => bar.title);
  assert.equal(numbers(`:${all}`)[0], sum(samples));
  const widths = () => page.$$eval(`${bars} > i:not([hidden])`, (elements) => elements.map((element) => element.getBoundingClientRect().width));
  const before = await widths();
  assert.ok(before.length > 5, `${before.length} bars`);
  // The narrowest bar of the second row becomes as wide as the graph.
  await page.$$eval(`${bars} > i[data-d="1"]`, (row) => row.sort((one, other) => one.dataset.w - other.dataset.w)[0].click());
  const after = await page.$$eval(`${bars} > i[data-d="1"]:not([hidden])`, (row) => row.map((element) => element.getBoundingClientRect().width));
  assert.equal(after.length, 1);
  assert.ok(Math.abs(after[0] - before[0]) < 2, `${after[0]} of ${before[0]}`);
  await page.click('.flame button');
  assert.equal((await widths()).length, before.length);
  await page.type('.flame input', 'evm');
  assert.match(await text('.flame output'), /^[\d.]+ % of all samples$/);
  assert.ok((await page.$$(`${bars} > i.found`)).length > 0);
}

async function itIsLightAndDarkAndFitsAPhone() {
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number)[0]);
  for (const [name, file, viewport] of [['report', REPORT, { width: 1200, height: 900 }], ['report-phone', REPORT, PHONE], ['report-pair', PAIR, { width: 1200, height: 900 }], ['report-pair-phone', PAIR, PHONE]]) {
    await open(file, viewport);
    for (const [value, is] of [['light', (lightness) => lightness > 200], ['dark', (lightness) => lightness < 60]]) {
      await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value }]);
      assert.ok(is(await ground()), `${name} ${value}`);
      await picture(`${name}-${value}`, { fullPage: true });
    }
    await fitsItsWidth();
  }
}

async function twoAreSideBySide() {
  await open(PAIR);
  assert.equal((await page.$$(plot('latency'))).length, 2);
  const tops = await page.$$eval(`${plot('transactions in blocks')} .up span:last-child`, (all) => all.map((top) => top.textContent));
  assert.equal(tops[0], tops[1], 'they have one scale');
  const [one, other] = await page.$$eval(plot('latency'), (all) => all.map((element) => element.getBoundingClientRect()));
  assert.equal(Math.round(one.top), Math.round(other.top));
}

async function nobodyIsAskedAndNothingRefused() {
  assert.deepEqual(complaints, []);
  assert.deepEqual(requests.filter((request) => !request.startsWith('file:') && !request.startsWith('data:')), []);
}

await run([
  ['every plot is there', everyPlotIsThere],
  ['its figures are those of the JSON', itsFiguresAreThose],
  ['the flame graph zooms and searches', theFlameGraphZoomsAndSearches],
  ['two are side by side', twoAreSideBySide],
  ['it is light and dark, and fits a phone', itIsLightAndDarkAndFitsAPhone],
  ['nobody is asked, and nothing refused', nobodyIsAskedAndNothingRefused],
]);
