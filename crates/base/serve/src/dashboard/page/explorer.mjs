// Selects the view by the address after `#`, so that links can be kept and the back button works.
//
// `#/` the node, `#/cluster` its cluster, `#/KIND/VALUE` for each kind of view of the ledger, `#/search/WORDS` for everything else.
import { byId, el } from './dom.mjs';
import { VIEWS, understand } from './ledger/ledger.mjs';

/** `partShown` is called when a part of the page becomes visible. */
export function setUp(partShown) {
  byId('search').addEventListener('submit', (event) => {
    event.preventDefault();
    const query = byId('query').value;
    const { kind = 'search', value = query.trim() } = understand(query);
    const hash = `#/${kind}/${encodeURIComponent(value)}`;
    if (location.hash === hash) show(partShown);
    else location.hash = hash;
  });
  addEventListener('hashchange', () => show(partShown));
  show(partShown);
}

/** Views that are parts of the page, by the text after `#/`: they are redrawn with each sample. */
const PARTS = { '': 'overview', cluster: 'cluster' };

/** The latest requested view: an answer to an earlier request is not shown. */
let turn = 0;

async function show(partShown) {
  const mine = ++turn;
  const [, kind = '', encoded = ''] = location.hash.split('/');
  const result = byId('result');
  for (const [part, id] of Object.entries(PARTS)) byId(id).hidden = kind !== part;
  result.hidden = kind in PARTS;
  // The node's own figures do not belong above those of the cluster.
  byId('now').hidden = kind === 'cluster';
  for (const link of byId('views').children) {
    if (link.getAttribute('href') === `#/${kind}`) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  if (kind in PARTS) {
    byId('query').value = '';
    partShown();
    return;
  }
  const value = decoded(encoded);
  byId('query').value = value;
  place(el('p', { class: 'quiet', text: 'looking …' }));
  // Screen readers and keyboard users continue at the answer.
  result.focus({ preventScroll: true });
  scrollTo(0, 0);
  const isCurrent = () => mine === turn;
  const found = understand(value);
  if (!VIEWS[kind] || found.kind !== kind) {
    place(el('h1', { text: 'Nothing to look for' }), el('p', { text: found.why ?? `“${value}” is not a valid ${kind}.` }));
    return;
  }
  try {
    await VIEWS[kind](found.value, (...parts) => isCurrent() && place(...parts), isCurrent);
  } catch (error) {
    if (isCurrent()) place(el('h1', { text: 'No answer' }), el('p', { text: `${error.message}.` }));
  }
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function place(...parts) {
  byId('result').replaceChildren(el('a', { class: 'back', href: '#/', text: '← the node' }), el('section', { class: 'card' }, parts));
}
