// Zooms and searches the flame graphs of the page. What it reads are numbers and text of elements; it makes no HTML.
for (const flame of document.querySelectorAll('.flame')) {
  const [search, whole, found] = ['input', 'button', 'output'].map((name) => flame.querySelector(name));
  const bars = [...flame.querySelectorAll('.bars > i')].map((element) => {
    const { l, w, d } = element.dataset;
    return { element, left: Number(l), width: Number(w), depth: Number(d), name: element.textContent.toLowerCase() };
  });
  const zoom = (to) => {
    const [from, until] = [to.left, to.left + to.width];
    for (const { element, left, width, depth } of bars) {
      const begin = Math.max(left, from);
      const end = Math.min(left + width, until);
      const isSeen = end - begin > to.width / 2000;
      element.hidden = !isSeen;
      element.classList.toggle('below', depth < to.depth);
      if (!isSeen) continue;
      element.style.left = `${(100 * (begin - from)) / to.width}%`;
      element.style.width = `${(100 * (end - begin)) / to.width}%`;
    }
    whole.hidden = to === bars[0];
  };
  flame.querySelector('.bars').addEventListener('click', ({ target }) => {
    const bar = bars.find(({ element }) => element === target);
    if (bar) zoom(bar);
  });
  whole.addEventListener('click', () => zoom(bars[0]));
  search.addEventListener('input', () => {
    const words = search.value.trim().toLowerCase();
    let [share, end] = [0, 0];
    for (const { element, left, width, name } of bars) {
      const isFound = words !== '' && name.includes(words);
      element.classList.toggle('found', isFound);
      // What lies on a found bar is counted with it.
      if (isFound && left >= end - 1e-9) {
        share += width;
        end = left + width;
      }
    }
    found.textContent = words === '' ? '' : `${share.toFixed(1)} % of all samples`;
  });
}
