// The newest blocks of the ledger. The table pauses while the pointer or the focus is in it, so that a link does not
// vanish before it is followed.
import { byId, el, scroller } from './dom.mjs';
import { BLOCKS } from './ledger/ledger.mjs';

/** Maximum number of rows. */
const SHOWN = 8;

const known = new Map();
/** The process and the newest block of `known`. */
let of = { pid: undefined, newest: 0 };
let body;

export function setUp() {
  body = el('tbody');
  const heads = BLOCKS.heads.map(({ name, isText }) => el('th', { scope: 'col', class: isText && 'text' }, el('span', { text: name })));
  byId('blocks').append(scroller('Recent blocks', el('table', {}, el('caption', { class: 'unseen', text: 'Recent blocks' }), el('thead', {}, el('tr', {}, heads)), body)));
}

let running = false;
let resting = 0;

/** Called once per second while the section is visible. */
export function draw(sample) {
  if (Date.now() >= resting && !byId('blocks').matches(':hover, :focus-within')) refresh(sample);
}

async function refresh(sample) {
  if (running) return;
  running = true;
  try {
    const numbers = await BLOCKS.newest(SHOWN);
    // Another node, or a chain that was reverted: the same numbers now mean other blocks.
    if (of.pid !== sample.pid || numbers[0] < of.newest) known.clear();
    of = { pid: sample.pid, newest: numbers[0] ?? 0 };
    for (const number of known.keys()) if (!numbers.includes(number)) known.delete(number);
    const fresh = numbers.filter((number) => !known.has(number));
    // A block that cannot be shown yet is requested again next time.
    for (const [number, row] of await BLOCKS.rows(fresh, sample)) known.set(number, row);
    note(numbers.length ? '' : BLOCKS.none);
    const rows = numbers.map((number) => known.get(number)).filter(Boolean);
    if (rows.some((element, at) => body.children[at] !== element) || body.children.length !== rows.length) place(rows);
  } catch (error) {
    const { why, rest_ms: rest = 0 } = BLOCKS.refused?.(error) ?? {};
    resting = Date.now() + rest;
    note(why ?? `Not now: ${error.message}.`);
  } finally {
    running = false;
  }
}

function place(rows) {
  for (const element of [...body.children]) if (!rows.includes(element)) element.remove();
  rows.forEach((element, at) => {
    if (body.children[at] !== element) body.insertBefore(element, body.children[at] ?? null);
  });
}

function note(text) {
  byId('blocks-note').textContent = text;
  byId('blocks-note').hidden = text === '';
}
