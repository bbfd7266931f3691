// Light or dark: by the system, or by the button; kept for the next visit.
import { byId, el } from './dom.mjs';

const KEY = 'hearth-theme';
const CHOICES = ['system', 'light', 'dark'];
const dark = matchMedia('(prefers-color-scheme: dark)');

export function setUp(changed) {
  apply(stored());
  byId('theme').addEventListener('click', () => {
    const next = CHOICES[(CHOICES.indexOf(stored()) + 1) % CHOICES.length];
    try {
      localStorage.setItem(KEY, next);
    } catch {
      // If storage is not permitted, the choice lasts as long as the page.
    }
    chosen = next;
    apply(next);
    changed();
  });
  dark.addEventListener('change', changed);
}

let chosen;

function stored() {
  try {
    chosen ??= localStorage.getItem(KEY);
  } catch {
    // Reading storage may be forbidden, too.
  }
  return CHOICES.includes(chosen) ? chosen : 'system';
}

function apply(theme) {
  if (theme === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  const button = byId('theme');
  button.replaceChildren({ system: '◐', light: '☀', dark: '☾' }[theme], el('span', { text: ` ${theme}` }));
  button.setAttribute('aria-label', `Colours: ${theme}. Change`);
}
