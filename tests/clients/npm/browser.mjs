// A headless browser, and a page in it.
//
// reads   BROWSER: path or name of a Chromium
import assert from 'node:assert/strict';
import { access } from 'node:fs/promises';
import path from 'node:path';
import puppeteer from 'puppeteer-core';

const { BROWSER, PATH } = process.env;

/** A new page of a browser that ends with this process. */
export async function openPage(viewport) {
  const browser = await puppeteer.launch({
    executablePath: BROWSER.includes('/') ? BROWSER : await which(BROWSER),
    // A browser run by root has no sandbox; it opens only our page on loopback.
    args: [...(process.getuid() === 0 ? ['--no-sandbox'] : []), '--disable-dev-shm-usage', '--disable-gpu'],
  });
  process.on('exit', () => browser.process()?.kill('SIGKILL'));
  const page = await browser.newPage();
  await page.setViewport(viewport);
  return page;
}

async function which(name) {
  for (const folder of PATH.split(':')) {
    const file = path.join(folder, name);
    if (await access(file).then(() => true, () => false)) return file;
  }
  return assert.fail(`${name} is not in PATH`);
}
