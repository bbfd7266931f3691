// The figures on top and their diagnosis, in the sentence of `hearth monitor`.
import { byId, el, setText } from './dom.mjs';
import { scaled } from './format.mjs';
import { FIGURES } from './ledger/ledger.mjs';

/** Findings that need no change. */
const WELL = ['room', 'idle'];

const cells = new Map();

export function setUp() {
  for (const [id, name] of FIGURES) {
    const [value, note] = [el('span', { text: '–' }), el('small')];
    cells.set(id, { value, note });
    byId('figures').append(el('div', { class: id === 'txn' ? 'first' : undefined }, el('dt', { text: name }), el('dd', { id: `figure-${id}` }, value, note)));
  }
}

/** A new title costs a browser more than all the figures on top. */
const TITLE_EVERY_MS = 5000;
let entitled = -Infinity;

function entitle(title) {
  if (document.title === title || performance.now() < entitled + TITLE_EVERY_MS) return;
  document.title = title;
  entitled = performance.now();
}

let spoken = '';

export function show(sample) {
  const { node, pid, diagnosis } = sample;
  setText(byId('node'), `${node} (pid ${pid})`);
  entitle(`${scaled(sample.txn_per_s)} txn/s – ${node}`);
  for (const [id, , value, note] of FIGURES) {
    setText(cells.get(id).value, value(sample));
    setText(cells.get(id).note, note(sample));
  }
  setText(byId('says'), diagnosis.says);
  byId('diagnosis').classList.toggle('well', WELL.includes(diagnosis.finding));
  const { advice } = diagnosis;
  byId('advice').hidden = !advice;
  if (advice) {
    const key = advice.value ? `${advice.key} = ${advice.value}` : advice.key;
    const shown = `→ ${advice.says} ${key ?? ''}`;
    // In most seconds it stays the same.
    if (byId('advice').textContent !== shown) byId('advice').replaceChildren(`→ ${advice.says} `, key ? el('code', { text: key }) : '');
  }
  // Figures in the sentence change every second: announce it to screen readers only when its meaning changes.
  const meaning = `${diagnosis.finding} ${diagnosis.kind}`;
  if (meaning !== spoken) byId('announcement').textContent = diagnosis.says;
  spoken = meaning;
}

let lost;

/** Shows whether the node is connected. */
export function connection(state, why) {
  const line = byId('connection');
  line.hidden = state === 'live';
  line.classList.toggle('gone', state !== 'live');
  document.querySelector('.now').classList.toggle('old', state !== 'live');
  if (state === 'live') {
    lost = undefined;
    return;
  }
  lost ??= new Date();
  const since = lost.toLocaleTimeString();
  const text = state === 'refused' ? `The node shows nothing: ${why}. Trying again.` : `The node is gone (since ${since}). This page comes back when the node does.`;
  setText(line, text);
  if (state === 'gone') document.title = 'the node is gone – Hearth';
  entitled = -Infinity;
}
