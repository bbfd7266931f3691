// Curves over the last five minutes, or less until there are samples of that age.
import { svg } from './dom.mjs';
import { Frame, forget, runs } from './frame.mjs';

/**
 * Curves of `series` `{key, value(sample)}` in one drawing: the first with its area, the others as lines. A missing
 * value of the first leaves a gap. `describe(point)` describes a point in words, `summary(points)` all of them; `empty`
 * stands there until there is one.
 */
export class Curves {
  constructor(parent, { height, title, id, empty, least, series, describe, summary }) {
    Object.assign(this, { series, least, describe, summary, points: [] });
    this.frame = new Frame(parent, { height, title, id, empty }, () => this.draw());
  }

  add(sample) {
    const point = { at: sample.unix_ns / 1e9 };
    for (const { key, value } of this.series) point[key] = value(sample);
    this.points.push(point);
    forget(this.points);
  }

  draw() {
    const { frame, series } = this;
    const points = this.points.filter((point) => point[series[0].key] !== undefined);
    if (points.length === 0) return;
    const highest = Math.max(...series.flatMap(({ key }) => points.map((point) => point[key])));
    const axes = frame.axes(this.points, highest, this.least);
    if (!axes) return;
    const { x, y, parts } = axes;
    for (const run of runs(points)) {
      series.forEach(({ key }, at) => {
        const line = run.map((point) => `${x(point.at).toFixed(1)},${y(point[key]).toFixed(1)}`).join(' ');
        const [first, last] = [x(run[0].at), x(run.at(-1).at)];
        if (at === 0) parts.push(svg('polygon', { class: 'area', points: `${first},${y(0)} ${line} ${last},${y(0)}` }));
        // A single point is a dot.
        parts.push(svg('polyline', { class: `curve curve-${at}`, points: run.length > 1 ? line : `${line} ${line}` }));
      });
    }
    parts.push(...frame.cursor(points, axes, this.describe));
    frame.show(parts, this.summary(points));
  }
}

/** The mean of the numbers. */
export const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
