// Figures over the last five minutes as curves; over less until there are figures of so long.
import { svg } from './dom.mjs';
import { Frame, forget, runs } from './frame.mjs';

/**
 * Curves of `series` `{key, value(sample)}` in one drawing: the first with its area, the others as lines alone. Where the
 * first has no value, there is a gap. `told(point)` says in words what a point is, `summary(points)` what all are.
 */
export class Curves {
  constructor(parent, { height, title, id, least, series, told, summary }) {
    Object.assign(this, { series, least, told, summary, points: [] });
    this.frame = new Frame(parent, { height, title, id }, () => this.draw());
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
        // One point alone is a dot.
        parts.push(svg('polyline', { class: `curve curve-${at}`, points: run.length > 1 ? line : `${line} ${line}` }));
      });
    }
    parts.push(...frame.cursor(points, axes, this.told));
    frame.show(parts, this.summary(points));
  }
}

/** The mean of some figures. */
export const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
