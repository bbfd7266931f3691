// A dashboard in a browser: its page, its contents, and what it must never do.
//
// Environment besides RPC_URL: BROWSER, a Chromium; PICTURES, a folder.
import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import path from 'node:path';
import { openPage } from './browser.mjs';
import { until, url } from './common.mjs';

const { PICTURES } = process.env;
export const DESK = { width: 1280, height: 900 };
export const PHONE = { width: 360, height: 740, isMobile: true, hasTouch: true };

export const page = await openPage(DESK);
/** Errors that the browser reports: blocked by the policy, not found, thrown. */
export const complaints = [];
page.on('pageerror', (error) => complaints.push(String(error)));
page.on('console', (message) => ['error', 'warn'].includes(message.type()) && complaints.push(message.text()));
/** Addresses that the page has requested. */
const asked = new Set();
page.on('request', (request) => asked.add(new URL(request.url()).origin));

export const text = (selector) => page.$eval(selector, (element) => element.innerText);

export const sees = (what, selector) =>
  until(`${what} in ${selector}`, async () => {
    const found = await text(selector).catch(() => '');
    return (typeof what === 'string' ? found.includes(what) : what.test(found)) ? found : undefined;
  });

export async function picture(name, options = {}) {
  mkdirSync(PICTURES, { recursive: true });
  await page.screenshot({ path: path.join(PICTURES, `${name}.png`), ...options });
}

export async function search(words) {
  await page.$eval('#query', (input) => input.select());
  await page.type('#query', words);
  await page.keyboard.press('Enter');
}

/** No part of the page is wider than the window: tables scroll by themselves. */
export async function fitsItsWidth() {
  const [content, window] = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
  assert.ok(content <= window, `${content} px in a window of ${window}`);
}

/** Checks the system's theme and the button's; saves pictures of both under this name. */
export async function itIsLightAndDark(name = '') {
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number)[0]);
  await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: 'light' }]);
  assert.ok((await ground()) > 200);
  await picture(`${name}light`);
  await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: 'dark' }]);
  assert.ok((await ground()) < 60);
  await picture(`${name}dark`);
  await page.click('#theme');
  assert.ok((await ground()) > 200, 'the button says light');
  await page.reload();
  await sees('light', '#theme');
  await page.click('#theme');
  await page.click('#theme');
  await sees('system', '#theme');
  assert.ok((await ground()) < 60);
}

/** Elements that receive the focus, by id or text; each is checked to show it. */
export async function reachedByTab() {
  const reached = new Set();
  for (let presses = 0; presses < 80; presses++) {
    await page.keyboard.press('Tab');
    const { id, name, outline } = await page.evaluate(() => {
      const { id, innerText, ariaLabel, tagName } = document.activeElement;
      if (tagName === 'BODY') return {};
      return { id, name: ariaLabel ?? innerText, outline: getComputedStyle(document.activeElement).outlineStyle };
    });
    // Past the end.
    if (id === undefined) break;
    assert.notEqual(outline, 'none', `the focus on ${id || name} is not seen`);
    if (presses < 3 && id === 'query') reached.add('search soon');
    reached.add(id || name);
  }
  return reached;
}

export async function nothingWasRefusedNorAskedOutside() {
  // The browser's own message about a node that does not answer is not a fault of the page.
  assert.deepEqual(complaints.filter((line) => !/ERR_|Failed to load resource/.test(line)), []);
  assert.deepEqual([...asked], [url]);
}

/** On paper: light whatever the theme, without controls, and no table is cut off. Saves a picture under this name. */
export async function itPrints(name) {
  const shown = (selector) => page.$eval(selector, (element) => element.getClientRects().length > 0);
  await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: 'dark' }]);
  // The width of A4 within its margins.
  await page.setViewport({ width: 703, height: 1000 });
  await page.emulateMediaType('print');
  assert.ok((await page.evaluate(() => getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number)[0])) > 200);
  for (const control of ['#search', '#theme']) assert.equal(await shown(control), false, control);
  await fitsItsWidth();
  const cut = await page.$$eval('#overview .scroll', (frames) => frames.filter((frame) => frame.clientWidth > 0 && frame.scrollWidth > frame.clientWidth + 1).map((frame) => frame.ariaLabel));
  assert.deepEqual(cut, []);
  await picture(name, { fullPage: true });
  assert.ok((await page.pdf({ format: 'a4' })).length > 10_000);
  await page.emulateMediaType('screen');
  await page.setViewport(DESK);
}
