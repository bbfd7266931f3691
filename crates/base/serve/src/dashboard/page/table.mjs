// A table whose rows change every second, sorted by a click on a heading.
//
// By default a browser measures every cell of a table whenever one changes. So the columns are measured only when a
// longer text than ever appears or the width changes, and are fixed in between.
import { el, scroller } from './dom.mjs';
import { duration } from './format.mjs';

/** A column of times in microseconds, from `key` of a row if it has that. */
export const timeColumn = (name, key) => ({
  name,
  text: (row) => (row[key] === null || row[key] === undefined ? '-' : duration(row[key] / 1e6)),
  order: (row) => row[key] ?? -1,
});

/**
 * `columns`: `{name, help, text(row), order(row), isText, isName, hot(row), cell(row, td)}`. `order` makes a column
 * sortable, `cell` lets the caller fill the cell; zeros are dim except in names; the first column is the row header.
 * `key(row)` identifies rows. `empty` stands in place of a table without rows.
 */
export class Table {
  constructor(label, columns, key, empty = 'There is nothing to show yet.') {
    Object.assign(this, { columns, key, rows: new Map(), sorted: undefined, data: [], longest: columns.map(() => 0), isMeasured: false });
    this.headings = columns.map((column, at) => this.heading(column, at));
    this.body = el('tbody');
    this.widths = columns.map(() => el('col'));
    this.table = el('table', { class: 'live' }, el('caption', { class: 'unseen', text: label }), el('colgroup', {}, this.widths), el('thead', {}, el('tr', {}, this.headings)), this.body);
    this.empty = el('p', { class: 'empty', hidden: true }, empty);
    this.element = scroller(label, [this.table, this.empty]);
    let width = 0;
    new ResizeObserver(([{ contentRect }]) => {
      if (contentRect.width !== width) this.measure();
      width = contentRect.width;
    }).observe(this.element);
  }

  /** Lets the columns take their natural width, and keeps that. */
  measure() {
    this.isMeasured = this.element.clientWidth > 0 && this.rows.size > 0;
    this.table.classList.toggle('fixed', false);
    for (const column of this.widths) column.style.width = '';
    this.table.style.width = '';
    if (!this.isMeasured) return;
    const widths = this.headings.map((heading) => heading.getBoundingClientRect().width);
    this.widths.forEach((column, at) => {
      column.style.width = `${widths[at]}px`;
    });
    this.table.style.width = `${widths.reduce((sum, width) => sum + width, 0)}px`;
    this.table.classList.toggle('fixed', true);
  }

  heading({ name, help, order, isText }, at) {
    const inner = order ? el('button', { type: 'button', text: name, title: help, onclick: () => this.sort(at) }) : el('span', { text: name, title: help });
    return el('th', { scope: 'col', class: isText && 'text' }, inner);
  }

  /** Numbers sort descending first; a third click restores the order of the data flow. */
  sort(at) {
    const first = this.columns[at].isText ? 1 : -1;
    if (this.sorted?.at !== at) this.sorted = { at, direction: first };
    else if (this.sorted.direction === first) this.sorted.direction = -first;
    else this.sorted = undefined;
    this.headings.forEach((heading, index) => {
      if (this.sorted?.at === index) heading.setAttribute('aria-sort', this.sorted.direction > 0 ? 'ascending' : 'descending');
      else heading.removeAttribute('aria-sort');
    });
    // The arrow takes room.
    this.isMeasured = false;
    this.show(this.data);
  }

  show(data) {
    this.data = data;
    this.table.hidden = data.length === 0;
    this.empty.hidden = data.length > 0;
    const ordered = this.sorted ? [...data].sort((a, b) => this.compare(a, b)) : data;
    const known = new Set(ordered.map(this.key));
    for (const [key, row] of this.rows) {
      if (known.has(key)) continue;
      row.element.remove();
      this.rows.delete(key);
    }
    ordered.forEach((item, index) => {
      const row = this.row(item);
      if (this.body.children[index] !== row.element) this.body.insertBefore(row.element, this.body.children[index] ?? null);
      this.columns.forEach((column, at) => this.fill(column, item, row.cells[at], at));
    });
    if (!this.isMeasured) this.measure();
  }

  compare(a, b) {
    const { order } = this.columns[this.sorted.at];
    const [left, right] = [order(a), order(b)];
    return this.sorted.direction * (typeof left === 'string' ? left.localeCompare(right, 'en', { numeric: true }) : left - right);
  }

  row(item) {
    const key = this.key(item);
    const found = this.rows.get(key);
    if (found) return found;
    const cells = this.columns.map(({ isText }, at) => (at === 0 ? el('th', { scope: 'row' }) : el('td', { class: isText && 'text' })));
    const row = { element: el('tr', {}, cells), cells };
    this.rows.set(key, row);
    return row;
  }

  fill({ text, cell, hot, isName }, item, td, at) {
    if (cell) {
      cell(item, td);
      this.sees(td.textContent, at);
      return;
    }
    const value = text(item);
    if (td.textContent === value) return;
    td.textContent = value;
    this.sees(value, at);
    td.classList.toggle('hot', Boolean(hot?.(item)));
    td.classList.toggle('nothing', !isName && ['0', '0.00', '-'].includes(value));
  }

  /** A column has a longer text than ever. */
  sees({ length }, at) {
    if (length <= this.longest[at]) return;
    this.longest[at] = length;
    this.isMeasured = false;
  }
}
