// Building blocks of the views of both chains.
import { el, scroller } from './dom.mjs';
import { grouped, short } from './format.mjs';

/** Rows per page. */
export const PAGE = 25;

/** A long name, shortened, with a button that copies the whole. */
export function key(value, kind) {
  const name = kind ? el('a', { href: `#/${kind}/${value}`, class: 'mono', title: value, text: short(value) }) : el('span', { class: 'mono', title: value, text: short(value) });
  const copy = el('button', { type: 'button', class: 'copy', 'aria-label': `Copy ${value}`, text: 'copy' });
  copy.addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(value);
      copy.textContent = 'copied';
    } catch {
      // Not permitted on a plain address of another machine: then show it for manual selection.
      name.textContent = value;
    }
  });
  return el('span', { class: 'key' }, name, copy);
}

/** A text of several lines in its own scroll frame. */
export const pre = (label, text) => el('pre', { tabindex: '0', 'aria-label': label, text });

/** Links to the previous and next `thing`; `link` makes a link to a number, with a text. */
export const neighbours = (thing, number, link) => el('p', {}, number > 0 ? link(number - 1, `← ${thing} ${grouped(number - 1)}`) : '', ' ', link(number + 1, `${thing} ${grouped(number + 1)} →`));

const row = (cells) => el('tr', {}, cells.map((cell) => el('td', { class: 'text' }, cell)));

export function table(label, heads, rows) {
  const head = el('tr', {}, heads.map((text) => el('th', { scope: 'col', class: 'text' }, el('span', { text }))));
  return scroller(label, el('table', {}, el('caption', { class: 'unseen', text: label }), el('thead', {}, head), el('tbody', {}, rows.map(row))));
}

/** A row of the newest blocks: the number as a link, and cells `[text, class]`. */
export function blockRow(kind, number, cells) {
  const link = el('a', { href: `#/${kind}/${number}`, text: grouped(number) });
  return el('tr', {}, el('th', { scope: 'row' }, link), cells.map(([text, kind]) => el('td', { text, class: kind })));
}

/** A table with paging; `rows` returns the rows of some items, now or later. */
export async function paged(label, heads, items, rows) {
  const frame = table(label, heads, await rows(items.slice(0, PAGE)));
  if (items.length <= PAGE) return [frame];
  let shown = PAGE;
  const more = el('button', { type: 'button', class: 'more' });
  const say = () => {
    more.textContent = `Show ${Math.min(PAGE * 4, items.length - shown)} more of ${grouped(items.length)}`;
    more.hidden = shown >= items.length;
  };
  more.addEventListener('click', async () => {
    more.disabled = true;
    try {
      const next = await rows(items.slice(shown, shown + PAGE * 4));
      frame.querySelector('tbody').append(...next.map(row));
      shown += next.length;
      say();
    } catch (error) {
      more.textContent = `Not now: ${error.message}. Again`;
    } finally {
      more.disabled = false;
    }
  });
  say();
  return [frame, more];
}
