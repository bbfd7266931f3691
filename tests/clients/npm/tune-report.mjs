// The page of a study in a real browser: it opens without errors or requests, and its plots show the figures of the
// JSON, in light and dark, on a desktop and on a phone.
//
// Environment besides RPC_URL, where nothing listens: BROWSER, a Chromium; PICTURES, a folder; REPORT: the page; JSON: the answer.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { run } from './common.mjs';
import { DESK, PHONE, complaints, fitsItsWidth, page, picture, text } from './page.mjs';

const { REPORT, JSON: ANSWER } = process.env;
const answer = JSON.parse(readFileSync(ANSWER, 'utf8'));
const metrics = answer.goals.map(({ metric }) => metric);
const builds = Object.keys(answer.p_front);

const requests = [];
page.on('request', (request) => requests.push(request.url()));

async function open(viewport = DESK) {
  await page.setViewport(viewport);
  await page.goto(pathToFileURL(REPORT).href);
}

const plot = (name) => `[data-plot="${name}"]`;
const boxesOf = (selector) => page.$$eval(selector, (all) => all.map((one) => { const { x, y, width, height } = one.getBoundingClientRect(); return { x, y, width, height }; }));

async function everyPlotIsThere() {
  await open();
  for (const metric of metrics) {
    assert.equal((await page.$$(`${plot(`values of ${metric}`)} .median`)).length, builds.length, metric);
    const bars = await boxesOf(`${plot(`effects on ${metric}`)} .bar`);
    assert.equal(bars.length, answer.effects.main.length, metric);
  }
  assert.ok((await page.$$('.outlier')).length > 0, 'no outlier');
  const points = await boxesOf(`${plot(metrics.slice(0, 2).join(' and '))} .point circle`);
  assert.equal(points.length, builds.length);
  for (const { width, height } of points) assert.ok(Math.abs(width - height) < 0.5, 'circles are round');
}

async function itsFiguresAreThose() {
  const rows = await page.$$eval('#estimates tbody tr', (all) => all.map((row) => {
    const name = [...row.cells[0].childNodes].filter(({ nodeType }) => nodeType === Node.TEXT_NODE).map((one) => one.textContent);
    return [name.join('').trim(), ...[...row.cells].slice(1).map((cell) => cell.dataset.value ?? cell.innerText)];
  }));
  assert.equal(rows.length, builds.length);
  for (const [name, ...cells] of rows) {
    const build = builds.find((one) => name === one);
    assert.ok(build, name);
    assert.equal(Number(cells.at(-2)), Number(answer.p_front[build].toFixed(2)));
    answer.estimates[build].forEach(({ estimate, median, verdict }, at) => {
      assert.ok(Math.abs(cells[2 * at] / median - 1) < 1e-9, `${cells[2 * at]} of ${median}`);
      if (build === answer.reference) return;
      assert.ok(Math.abs(parseFloat(cells[2 * at + 1]) / 100 - (estimate - 1)) < 0.0006, `${cells[2 * at + 1]} of ${estimate}`);
      assert.equal(cells[2 * at + 1].includes(' better'), verdict === 'better');
    });
  }
  assert.ok((await text('#answer')).includes(answer.better_than_reference.join(', ')), await text('#answer'));
}

/** The median of a faster build is farther right, and the front's points are marked. */
async function placesAreThoseOfTheFigures() {
  const [metric] = metrics;
  const lanes = await page.$$eval(`${plot(`values of ${metric}`)} .lane:not(.steps)`, (all) =>
    all.map((lane) => ({ name: lane.querySelector('span').innerText, at: lane.querySelector('.median').getBoundingClientRect().x })));
  const of = (name) => answer.estimates[name].find((one) => one.metric === metric).median;
  for (const [at, { name }] of lanes.entries()) {
    if (at === 0) continue;
    const before = lanes[at - 1];
    assert.ok(of(before.name) >= of(name) && before.at >= lanes[at].at - 0.5, `${before.name}, ${name}`);
  }
  const front = await page.$$eval('.point.front title', (all) => all.map((title) => title.textContent.split(':')[0]));
  assert.deepEqual([...new Set(front)].sort(), answer.exact_pareto.filter((name) => name !== answer.reference).sort());
}

async function itIsLightAndDarkAndFitsAPhone() {
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number)[0]);
  for (const [name, viewport] of [['study', { width: 1200, height: 900 }], ['study-phone', PHONE]]) {
    await open(viewport);
    for (const [value, is] of [['light', (lightness) => lightness > 200], ['dark', (lightness) => lightness < 60]]) {
      await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value }]);
      assert.ok(is(await ground()), `${name} ${value}`);
      await picture(`${name}-${value}`, { fullPage: true });
    }
    await fitsItsWidth();
  }
}

async function nobodyIsAskedAndNothingRefused() {
  assert.deepEqual(complaints, []);
  assert.deepEqual(requests.filter((request) => !request.startsWith('file:') && !request.startsWith('data:')), []);
}

await run([
  ['every plot is there', everyPlotIsThere],
  ['its figures are those of the JSON', itsFiguresAreThose],
  ['places are those of the figures', placesAreThoseOfTheFigures],
  ['it is light and dark, and fits a phone', itIsLightAndDarkAndFitsAPhone],
  ['nobody is asked, and nothing refused', nobodyIsAskedAndNothingRefused],
]);
