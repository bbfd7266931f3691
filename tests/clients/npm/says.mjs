// The dashboard's diagnosis of a node as one line of JSON: the sentence, and the key to change as a line for the file.
//
// Environment besides RPC_URL: BROWSER, a Chromium; ADVICE, the text to wait for; PICTURES, a folder.
import { mkdirSync } from 'node:fs';
import path from 'node:path';
import { openPage } from './browser.mjs';
import { until, url } from './common.mjs';

const { ADVICE, PICTURES } = process.env;

const page = await openPage({ width: 1280, height: 900 });
await page.goto(`${url}/dashboard`);
const said = await until(`"${ADVICE}" on the page`, async () => {
  const [says, advice] = await page.evaluate(() => ['#says', '#advice code'].map((what) => document.querySelector(what)?.textContent));
  return advice === ADVICE ? { says, advice } : undefined;
});
mkdirSync(PICTURES, { recursive: true });
await page.screenshot({ path: path.join(PICTURES, 'walk.png') });
console.log(JSON.stringify(said));
process.exit(0);
