// The dashboard: one page, live figures from /dashboard/live, the explorer by JSON-RPC.
//
// live.mjs delivers a sample a second; header, pipeline, chart, peers, tiles, links and latency show it, cluster shows all nodes.
// explorer.mjs follows the address after the `#`. Code for one chain is in ledger/ledger.mjs, of which each node serves
// its own version: searches and views, the rows of blocks, the figures on top, and additional panels.
import { byId } from './dom.mjs';
import * as blocks from './blocks.mjs';
import * as chart from './chart.mjs';
import * as cluster from './cluster.mjs';
import * as explorer from './explorer.mjs';
import * as header from './header.mjs';
import * as latency from './latency.mjs';
import { PANELS, WITHOUT } from './ledger/ledger.mjs';
import * as links from './links.mjs';
import { follow } from './live.mjs';
import * as peers from './peers.mjs';
import * as pipeline from './pipeline.mjs';
import * as theme from './theme.mjs';
import * as tiles from './tiles.mjs';

/** Seconds between redraws of charts and tables: on a machine whose cores are full the browser takes CPU time from the node. */
const DRAWN_EVERY = 2;
/** Parts outside the window are redrawn at this interval all the same, for screen readers. */
const UNSEEN_EVERY = 10;

/** Whether the part of the page with this section is shown. */
const isShown = (section) => !section.closest('main > div').hidden;
/** Each drawing module with its section of the page. */
const parts = new Map();
const inWindow = new Set();
let newest;
let seconds = 0;

function draw() {
  if (!newest || document.hidden) return;
  const isTurn = seconds % UNSEEN_EVERY === 0;
  // A hidden section appears with its first figures.
  for (const [part, section] of parts) {
    if (isShown(section) && (isTurn || inWindow.has(section) || section.hidden)) part.draw(newest);
  }
}

/** Draws a section at once when it enters the window. */
function watchWindow() {
  const ofSection = new Map([...parts].map(([part, section]) => [section, part]));
  const watcher = new IntersectionObserver((changes) => {
    for (const { target, isIntersecting } of changes) {
      if (!isIntersecting) inWindow.delete(target);
      else if (!inWindow.has(target)) {
        inWindow.add(target);
        if (newest && !document.hidden) ofSection.get(target).draw(newest);
      }
    }
  });
  for (const section of parts.values()) watcher.observe(section);
}

/** Removes the sections that the ledger has no data for, and adds its own below the chart. */
function setUp() {
  header.setUp();
  for (const [id, part] of Object.entries({ pipeline, chart, latency, tiles, blocks, peers, links })) {
    const section = byId(id).closest('section');
    if (WITHOUT.includes(id)) {
      section.remove();
      continue;
    }
    part.setUp();
    parts.set(part, section);
    if (part === chart) {
      for (const panel of PANELS) parts.set(panel, panel.setUp());
      section.after(...PANELS.map((panel) => parts.get(panel)));
    }
  }
  parts.set(cluster, cluster.setUp());
}

setUp();
theme.setUp(() => tiles.recolour());
watchWindow();
explorer.setUp(draw);
document.addEventListener('visibilitychange', draw);
// On paper there is no window that parts could be outside of.
addEventListener('beforeprint', () => {
  for (const [part, section] of parts) if (newest && isShown(section)) part.draw(newest);
});
follow((sample) => {
  newest = sample;
  header.show(sample);
  for (const part of parts.keys()) part.add?.(sample);
  if (seconds % DRAWN_EVERY === 0) draw();
  seconds += 1;
}, header.connection);
