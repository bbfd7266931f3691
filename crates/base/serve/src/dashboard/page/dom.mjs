// Making elements. What comes from the node goes in as text, never as markup.

/** An element with properties (`class`, `text`, `on…` and attributes) and children. */
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

/** The same for drawings. */
export function svg(name, attributes = {}, ...children) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

/** The element of an id, which the page has. */
export const byId = (id) => document.getElementById(id);

/** Sets a text where it is another: what stays costs no layout, and keeps a selection. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** A name and its value for `<dl class="facts">`. */
export const fact = (name, ...value) => (value.some((part) => part !== undefined) ? [el('dt', { text: name }), el('dd', {}, value)] : []);

/** A table's frame that scrolls by itself, by keyboard too, so that the page does not. */
export const scroller = (label, table) => el('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': label }, table);
