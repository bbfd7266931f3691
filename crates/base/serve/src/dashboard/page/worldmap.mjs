// The map of a cluster: regions at their places, the network between them, each node with its colour and state. It
// loads nothing from outside: the land is dots from outlines of our own. Regions without places form a ring.
import { el, setText, svg } from './dom.mjs';
import { bps, grouped } from './format.mjs';
import { isLand } from './land.mjs';

/** Radius of a node's circle, px. */
const NODE = 6.5;
/** Distance between the centres of neighbouring nodes. */
const APART = 2 * NODE + 4;
/** With more nodes than this a region is a spiral instead of a ring. */
const RING_MAX = 8;
const GOLDEN = Math.PI * (3 - Math.sqrt(5));
/** Minimum width of the view, degrees from west to east. */
const WIDTH_MIN = 110;
const MARGIN = 26;
/** Northern and southern limits of the view. */
const [NORTH, SOUTH] = [80, -56];
/** Width of a letter, px. */
const LETTER = 7.6;

const STATES = { serves: 'up', silent: 'no answer', ended: 'ended' };

/** Whether a node is cut off from half of the `others` or more. */
const isCutOff = ({ cut_from: from, others }) => from > 0 && from * 2 >= others;

/** Whether a node is down, silent, or cut off. */
export const isOff = (node) => node.state !== 'serves' || isCutOff(node);

/** A node's state in words. */
export function stateOf(node) {
  const { state, cut_from: from } = node;
  if (state !== 'serves' || from === 0) return STATES[state];
  return isCutOff(node) ? `cut off from ${from}` : `up, without ${from}`;
}

/** Latitude in the Miller projection, which stretches the north less than Mercator. */
const upwards = (latitude) => (1.25 * Math.log(Math.tan(Math.PI / 4 + (0.4 * latitude * Math.PI) / 180)) * 180) / Math.PI;
const latitudeOf = (up) => ((Math.atan(Math.exp((up * Math.PI) / 180 / 1.25)) - Math.PI / 4) / 0.4) * (180 / Math.PI);

/** The part of the world that contains the regions, and the scale at which it fills `width`. */
function view(regions, width, height) {
  const [xs, ys] = [regions.map(({ longitude }) => longitude), regions.map(({ latitude }) => upwards(latitude))];
  const [middle, up] = [xs, ys].map((values) => (Math.min(...values) + Math.max(...values)) / 2);
  const wide = Math.min(360, Math.max(WIDTH_MIN, Math.max(...xs) - Math.min(...xs) + 2 * MARGIN));
  const high = Math.max(...ys) - Math.min(...ys) + MARGIN;
  const scale = Math.max(width / 360, Math.min(width / wide, height / high));
  const within = (value, least, most) => (least > most ? (least + most) / 2 : Math.min(most, Math.max(least, value)));
  const half = { x: width / 2 / scale, y: height / 2 / scale };
  const centre = { x: within(middle, -180 + half.x, 180 - half.x), y: within(up, upwards(SOUTH) + half.y, upwards(NORTH) - half.y) };
  return {
    place: ({ longitude, latitude }) => ({ x: width / 2 + (longitude - centre.x) * scale, y: height / 2 - (upwards(latitude) - centre.y) * scale }),
    world: (x, y) => ({ longitude: centre.x + (x - width / 2) / scale, latitude: latitudeOf(centre.y - (y - height / 2) / scale) }),
  };
}

/** Positions of a region's nodes around its centre, and their extent. */
function around(count) {
  if (count === 1) return { spots: [[0, 0]], radius: NODE + 4 };
  const ring = APART / 2 / Math.sin(Math.PI / Math.min(count, RING_MAX));
  const spot = (at) => {
    const [angle, far] = count <= RING_MAX ? [(2 * Math.PI * at) / count - Math.PI / 2, ring] : [at * GOLDEN, APART * 0.6 * Math.sqrt(at + 0.5)];
    return [far * Math.cos(angle), far * Math.sin(angle)];
  };
  const spots = Array.from({ length: count }, (_, at) => spot(at));
  return { spots, radius: Math.max(...spots.map(([x, y]) => Math.hypot(x, y))) + NODE + 4 };
}

/** Moves overlapping groups of nodes apart, and all of them into the drawing. */
function spread(groups, width, height) {
  for (let turn = 0; turn < 60; turn++) {
    groups.forEach((one, at) => {
      for (const other of groups.slice(at + 1)) {
        const [dx, dy] = [other.x - one.x || 0.1, other.y - one.y];
        const [far, wanted] = [Math.hypot(dx, dy), one.radius + other.radius + 6];
        if (far >= wanted) continue;
        const push = (wanted - far) / 2 / far;
        one.x -= dx * push;
        one.y -= dy * push;
        other.x += dx * push;
        other.y += dy * push;
      }
    });
    for (const group of groups) {
      group.x = Math.min(width - group.radius - 2, Math.max(group.radius + 2, group.x));
      group.y = Math.min(height - group.radius - 20, Math.max(group.radius + 2, group.y));
    }
  }
}

const overlaps = (a, b) => a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;

/** The map, drawn in `parent`. */
export class WorldMap {
  constructor(parent, title) {
    this.words = el('p', { class: 'quiet', id: 'map-words', text: 'no figures yet' });
    this.land = svg('svg', { class: 'land', 'aria-hidden': 'true' });
    this.drawing = svg('svg', { role: 'img', 'aria-labelledby': title, 'aria-describedby': this.words.id });
    this.frame = el('div', { class: 'map' }, this.land, this.drawing);
    parent.append(this.frame, this.words);
    this.width = 0;
    new ResizeObserver(([{ contentRect }]) => {
      this.width = Math.round(contentRect.width);
      if (this.cluster) this.show(this.cluster, this.colours);
    }).observe(this.frame);
  }

  /** Shows a cluster; `colours` maps node names to colours. */
  show(cluster, colours) {
    Object.assign(this, { cluster, colours });
    const { width } = this;
    if (!width) return;
    const height = Math.round(Math.min(460, Math.max(230, width * 0.42)));
    for (const drawing of [this.land, this.drawing]) {
      drawing.setAttribute('viewBox', `0 0 ${width} ${height}`);
      drawing.setAttribute('height', height);
    }
    const groups = this.groups(width, height);
    const taken = groups.map(({ x, y, radius }) => ({ x: x - radius, y: y - radius, width: 2 * radius, height: 2 * radius }));
    const names = groups.map((group) => name(group, taken, width, height));
    const links = cluster.links.map((link) => between(link, groups, taken));
    this.drawing.replaceChildren(...links.map(({ line }) => line), ...groups.flatMap((group) => this.nodes(group)), ...names, ...links.flatMap(({ label }) => label));
    setText(this.words, inWords(cluster, links.filter(({ label }) => label.length === 0).map(({ link }) => link)));
  }

  /** The regions that have nodes: `{name, region, nodes, x, y, radius, spots}`. */
  groups(width, height) {
    const { regions, nodes } = this.cluster;
    const used = regions.map((region, number) => ({ ...region, number, nodes: nodes.filter((node) => node.region === number).map((node) => ({ ...node, others: nodes.length - 1 })) })).filter(({ nodes: own }) => own.length);
    const isPlaced = used.every(({ latitude, longitude }) => typeof latitude === 'number' && typeof longitude === 'number');
    const seen = isPlaced ? view(used, width, height) : undefined;
    this.drawLand(seen, width, height);
    const ring = (at) => ({ x: width / 2 - 0.32 * width * Math.cos((2 * Math.PI * at) / used.length), y: height / 2 - 0.32 * height * Math.sin((2 * Math.PI * at) / used.length) });
    const groups = used.map((region, at) => ({ ...region, ...(seen ? seen.place(region) : ring(at)), ...around(region.nodes.length) }));
    spread(groups, width, height);
    return groups;
  }

  /** Redraws the dots only if the view has changed. */
  drawLand(seen, width, height) {
    const corner = seen ? Object.values(seen.world(0, 0)).map((value) => value.toFixed(3)) : 'none';
    const key = `${width} ${height} ${corner}`;
    if (this.drawn === key) return;
    this.drawn = key;
    const step = width < 600 ? 5 : 7.5;
    let dots = '';
    for (let y = step / 2; seen && y < height; y += step) {
      for (let x = step / 2; x < width; x += step) {
        const { longitude, latitude } = seen.world(x, y);
        if (isLand(longitude, latitude)) dots += `M${x.toFixed(1)} ${y.toFixed(1)}h0`;
      }
    }
    this.land.replaceChildren(svg('path', { d: dots, 'stroke-width': (step * 0.52).toFixed(1) }));
  }

  nodes({ x, y, radius, nodes, spots, name: region }) {
    const drawn = nodes.map((node, at) => {
      const [dx, dy] = spots[at];
      const { left_txn_per_s: left, slot, sent_bits_per_s: sent } = node;
      const title = svg('title');
      const figures = [slot !== null && `slot ${grouped(slot)}`, left !== null && `${grouped(left)} txn/s out of shred`, sent !== null && `sends ${bps(sent)}`];
      title.textContent = [`${node.node}, ${region}: ${node.role}, ${stateOf(node)}`, ...figures.filter(Boolean)].join(', ');
      const state = node.state === 'serves' && isCutOff(node) ? 'cut' : node.state;
      const parts = [svg('circle', { r: NODE })];
      if (node.role !== 'follower') parts.unshift(svg('circle', { class: 'maker', r: NODE + 2.2 }));
      if (node.state !== 'serves') parts.push(svg('path', { class: 'mark', d: 'M-3 -3L3 3M3 -3L-3 3' }));
      return svg('g', { class: `host ${state} ${this.colours(node.node)}`, transform: `translate(${(x + dx).toFixed(1)} ${(y + dy).toFixed(1)})` }, title, ...parts);
    });
    return [svg('circle', { class: 'region', cx: x, cy: y, r: radius }), ...drawn];
  }
}

/** The region's name next to its nodes, where there is room. */
function name(group, taken, width, height) {
  const { x, y, radius, name: text } = group;
  const wide = text.length * LETTER;
  const boxes = [
    [x - wide / 2, y + radius + 2],
    [x - wide / 2, y - radius - 17],
    [x + radius + 4, y - 7],
    [x - radius - wide - 4, y - 7],
  ].map(([left, top]) => ({ x: left, y: top, width: wide, height: 15 }));
  const fits = (box) => box.x >= 0 && box.x + box.width <= width && box.y >= 0 && box.y + box.height <= height && !taken.some((other) => overlaps(box, other));
  const box = boxes.find(fits) ?? boxes[0];
  taken.push(box);
  const label = svg('text', { class: 'name', x: box.x + wide / 2, y: box.y + 12, 'text-anchor': 'middle' });
  label.textContent = text;
  return label;
}

/** The arc between two regions, with its round trip if there is room. */
function between(link, groups, taken) {
  const { regions, rtt_ms: rtt, cut } = link;
  const [a, b] = regions.map((region) => groups.find(({ number }) => number === region)).sort((one, other) => one.x - other.x);
  const [dx, dy] = [b.x - a.x, b.y - a.y];
  // Bent northwards, so that arcs from one region to two close ones stay apart.
  const bend = 0.16 + 0.05 * ((regions[0] + regions[1]) % 3);
  const top = { x: (a.x + b.x) / 2 + dy * bend, y: (a.y + b.y) / 2 - dx * bend };
  const state = cut === 0 ? '' : cut < 1 ? ' partly' : ' cut';
  const title = svg('title');
  const what = cut === 0 ? '' : cut < 1 ? `, cut for ${Math.round(100 * cut)} % of the pairs of nodes` : ', cut';
  title.textContent = `${a.name} – ${b.name}: ${rtt} ms there and back${what}`;
  const line = svg('path', { class: `link${state}`, d: `M${a.x.toFixed(1)} ${a.y.toFixed(1)}Q${top.x.toFixed(1)} ${top.y.toFixed(1)} ${b.x.toFixed(1)} ${b.y.toFixed(1)}` }, title);
  const text = cut === 1 ? `✕ ${rtt} ms` : `${rtt} ms`;
  const wide = text.length * LETTER;
  const spots = [0.5, 0.4, 0.6, 0.3, 0.7].map((part) => {
    const along = (from, over, to) => (1 - part) ** 2 * from + 2 * part * (1 - part) * over + part ** 2 * to;
    return { x: along(a.x, top.x, b.x) - wide / 2, y: along(a.y, top.y, b.y) - 7, width: wide, height: 14 };
  });
  const box = spots.find((spot) => !taken.some((other) => overlaps(spot, other)));
  if (!box || Math.hypot(dx, dy) < wide + a.radius + b.radius) return { link, line, label: [] };
  taken.push(box);
  const label = svg('text', { class: `rtt${state}`, x: box.x + wide / 2, y: box.y + 11, 'text-anchor': 'middle' });
  label.textContent = text;
  return { link, line, label: [label] };
}

/** A text alternative of the map, including the round trips that had no room in it. */
function inWords({ nodes, regions, links }, unsaid) {
  const of = (state) => nodes.filter((node) => node.state === state);
  const listed = (some, what) => (some.length ? ` ${some.map(({ node, region }) => `${node} (${regions[region].name})`).join(', ')}: ${what}.` : '');
  const name = ([a, b]) => `${regions[a].name} – ${regions[b].name}`;
  const cuts = links.filter(({ cut }) => cut > 0).map(({ regions: ends, cut }) => `${name(ends)}${cut < 1 ? ' in part' : ''}`);
  const trips = unsaid.slice(0, 6).map(({ regions: ends, rtt_ms: rtt }) => `; ${name(ends)} ${rtt} ms`).join('');
  const state = `${of('serves').length} of ${nodes.length} nodes answer.${listed(of('silent'), 'no answer')}${listed(of('ended'), 'ended')}`;
  return `${state}${cuts.length ? ` Cut: ${cuts.join(', ')}.` : ''} At the lines: round trips by the map${trips}. A ring: makes blocks.`;
}
