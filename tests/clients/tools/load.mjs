// `hearth load` on other nodes: anvil if there is one for this machine, and Hardhat's.
//
// reads   HEARTH: the program; FOLDER: where the nodes may write files; RPC_URL: for Hardhat's configuration
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { createServer } from 'node:net';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);
const at = (path) => fileURLToPath(new URL(path, import.meta.url));
const anvil = at('node_modules/@foundry-rs/anvil-linux-amd64/bin/anvil');
const nodes = [{ name: 'Hardhat', start: (port) => ['node', [at('node_modules/.bin/hardhat'), 'node', '--port', port]] }];
if (existsSync(anvil)) {
  nodes.push({ name: 'anvil', start: (port) => [anvil, ['--port', port, '--silent']] });
} else {
  console.log(`anvil: left out, as its package has no program for ${process.platform} on ${process.arch}`);
}

const freePort = async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return String(port);
};

/** Waits until the node answers, two minutes at most. */
const ready = async (url, child) => {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'eth_chainId', params: [] });
  const deadline = Date.now() + 120_000;
  for (;;) {
    assert.equal(child.exitCode, null, `it has ended: ${child.said}`);
    const request = { method: 'POST', headers: { 'Content-Type': 'application/json' }, body };
    const answer = await fetch(url, request).then((response) => response.json(), () => null);
    if (answer?.result) return;
    assert.ok(Date.now() < deadline, `it does not answer: ${child.said}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
};

const hearth = async (...words) => {
  const { stdout } = await run(process.env.HEARTH, words, { cwd: process.env.FOLDER, timeout: 180_000, maxBuffer: 1 << 28 });
  return stdout;
};

const tryOut = async (url, name) => {
  const load = async (kind) => {
    const words = ['load', 'run', '--url', url, '--kind', kind, '--accounts', '10', '--count', '5', '--json', '-'];
    return JSON.parse(await hearth(...words, '--duration', '120'));
  };
  for (const kind of ['transfer', 'erc20']) {
    const report = await load(kind);
    const { sent, included, rejected, dropped, unknown, failed } = report;
    const ends = { sent, included, rejected, dropped, unknown, failed };
    assert.deepEqual(ends, { sent: 50, included: 50, rejected: 0, dropped: 0, unknown: 0, failed: 0 }, `${name}, ${kind}`);
    assert.ok(report.tps > 0 && report.latency.p50_ms > 0);
    console.log(`${name}: ${kind} ${report.tps.toFixed(0)} txn/s, ${report.client}`);
  }
  assert.match(await hearth('load', 'info', '--url', url), /31337/);
  assert.match(await hearth('load', 'block', '--url', url, '--last', '3'), /txn\/s|transactions/i);
};

for (const { name, start } of nodes) {
  const port = await freePort();
  const child = spawn(...start(port), { cwd: at('.'), env: { ...process.env, CI: '1' }, stdio: ['ignore', 'ignore', 'pipe'] });
  child.said = '';
  child.stderr.on('data', (text) => (child.said = (child.said + text).slice(-4000)));
  const ended = once(child, 'exit');
  try {
    const url = `http://127.0.0.1:${port}`;
    await ready(url, child);
    await tryOut(url, name);
  } finally {
    child.kill();
    await ended;
  }
}
