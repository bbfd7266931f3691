// Creates elements. Data from the node is inserted as text, never as markup.

/** An HTML element with properties (`class`, `text`, `on…` and attributes) and children. */
export function el(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (key === 'text') element.textContent = value;
    else if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? '' : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== undefined && child !== null));
  return element;
}

/** An SVG element, likewise. */
export function svg(name, attributes = {}, ...children) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

/** The element with this id, which must exist. */
export const byId = (id) => document.getElementById(id);

/** Sets a text only if it changes: an unchanged text costs no layout, and keeps a selection. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** A name and its value for a `<dl class="facts">`. */
export const fact = (name, ...value) => (value.some((part) => part !== undefined) ? [el('dt', { text: name }), el('dd', {}, value)] : []);

/** A sentence for a card without data: what puts some there. */
export const loadHint = (before) => el('span', {}, `${before} `, el('code', { text: `hearth load run --url ${location.origin}` }), ' sends transactions.');

/** A frame in which a table scrolls, also by keyboard, so that the page does not. */
export const scroller = (label, table) => el('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': label }, table);
