// Stacked rates over the last five minutes.
import { svg } from './dom.mjs';
import { runs } from './frame.mjs';

/**
 * Draws `points` `{at}` in a frame: `layers` `{name, colour, value(point)}` from below, with a scale of at least
 * `least`. `format` formats a value, `more` is appended to the caption.
 */
export function stack(frame, points, layers, { least, format, more = '' }) {
  const total = (point) => layers.reduce((sum, { value }) => sum + value(point), 0);
  const all = points.map(total);
  const highest = Math.max(...all);
  const axes = frame.axes(points, highest, least);
  if (!axes) return;
  const { x, y, parts } = axes;
  for (const run of runs(points)) {
    let below = run.map(() => 0);
    for (const { name, colour, value } of layers) {
      const above = run.map((point, at) => below[at] + value(point));
      const edge = (values) => values.map((height, at) => `${x(run[at].at).toFixed(1)},${y(height).toFixed(1)}`);
      if (above.some((height, at) => height > below[at])) parts.push(layer(name, colour, [...edge(above), ...edge(below).reverse()]));
      below = above;
    }
  }
  parts.push(...frame.cursor(points, axes, (point) => format(total(point))));
  frame.show(parts, `now ${format(all.at(-1))}, highest ${format(highest)}${more}`);
}

function layer(name, colour, corners) {
  const title = svg('title');
  title.textContent = name;
  return svg('polygon', { class: `layer ${colour}`, points: corners.join(' ') }, title);
}
