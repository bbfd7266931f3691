// The dashboard: one page, live figures from /dashboard/live, the explorer by JSON-RPC.
//
// live.mjs tells a sample a second; header, chart, peers, tiles, links and latency show it. explorer.mjs follows the
// address after the `#`; views.mjs asks and shows blocks, transactions and accounts.
import { byId } from './dom.mjs';
import * as blocks from './blocks.mjs';
import * as chart from './chart.mjs';
import * as explorer from './explorer.mjs';
import * as header from './header.mjs';
import * as latency from './latency.mjs';
import * as links from './links.mjs';
import { follow } from './live.mjs';
import * as peers from './peers.mjs';
import * as theme from './theme.mjs';
import * as tiles from './tiles.mjs';

const isSeen = () => !document.hidden && !byId('overview').hidden;
let newest;

function draw() {
  if (!newest || !isSeen()) return;
  for (const part of [chart, peers, tiles, links, latency]) part.draw(newest);
}

for (const part of [header, chart, peers, tiles, links, latency]) part.setUp();
theme.setUp(() => tiles.recolour());
blocks.setUp(isSeen);
explorer.setUp(draw);
document.addEventListener('visibilitychange', draw);
follow((sample) => {
  newest = sample;
  header.show(sample);
  for (const part of [chart, peers, tiles, blocks]) part.add(sample);
  draw();
}, header.connection);
