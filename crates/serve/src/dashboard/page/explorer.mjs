// Which view is shown: the address after `#` says it, so that links can be kept and the back button works.
//
// `#/` the node, `#/KIND/VALUE` for each kind of view that the ledger has, `#/search/WORDS` for what is none of them.
import { byId, el } from './dom.mjs';
import { VIEWS, understand } from './ledger/ledger.mjs';

export function setUp(overviewShown) {
  byId('search').addEventListener('submit', (event) => {
    event.preventDefault();
    const query = byId('query').value;
    const { kind = 'search', value = query.trim() } = understand(query);
    const hash = `#/${kind}/${encodeURIComponent(value)}`;
    if (location.hash === hash) show(overviewShown);
    else location.hash = hash;
  });
  addEventListener('hashchange', () => show(overviewShown));
  show(overviewShown);
}

/** The latest view asked for: an answer that comes after another was asked for is not shown. */
let turn = 0;

async function show(overviewShown) {
  const mine = ++turn;
  const [, kind = '', encoded = ''] = location.hash.split('/');
  const result = byId('result');
  const isOverview = kind === '';
  byId('overview').hidden = !isOverview;
  result.hidden = isOverview;
  if (isOverview) {
    byId('query').value = '';
    overviewShown();
    return;
  }
  const value = decoded(encoded);
  byId('query').value = value;
  place(el('p', { class: 'quiet', text: 'looking …' }));
  // Whoever listens or uses the keyboard goes on where the answer is.
  result.focus({ preventScroll: true });
  scrollTo(0, 0);
  const isCurrent = () => mine === turn;
  const found = understand(value);
  if (!VIEWS[kind] || found.kind !== kind) {
    place(el('h1', { text: 'Nothing to look for' }), el('p', { text: found.why ?? `“${value}” is no ${kind}.` }));
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
