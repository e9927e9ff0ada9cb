// Text whose contrast to what is behind it is below 4.5 (WCAG 2.2, 1.4.3), as a list of sentences.
(() => {
  const parse = text => { const [r, g, b, a = 1] = text.match(/[\d.]+/g).map(Number); return [r, g, b, a]; };
  const over = (top, below) => [0, 1, 2].map(n => top[n] * top[3] + below[n] * (1 - top[3])).concat(1);
  const light = color => {
    const [r, g, b] = color.slice(0, 3).map(c => c / 255).map(c => c <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4);
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + .05) / (y + .05); };
  const behind = element => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) layers.push(parse(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255, 1]);
  };
  const found = new Set();
  for (const element of document.body.querySelectorAll("*:not(script, svg, svg *)")) {
    const own = [...element.childNodes].some(node => node.nodeType === 3 && node.textContent.trim());
    if (!own || !element.checkVisibility()) continue;
    const value = ratio(parse(getComputedStyle(element).color), behind(element));
    if (value < 4.5) found.add(`${value.toFixed(2)} ${element.tagName}.${element.className}: ${element.textContent.trim().slice(0, 40)}`);
  }
  for (const svg of document.querySelectorAll("svg[role=img]")) {
    const boxes = [...svg.querySelectorAll("rect.box")].map(box => [box.getBoundingClientRect(), parse(getComputedStyle(box).fill)]);
    for (const text of svg.querySelectorAll("text")) {
      const at = text.getBoundingClientRect(), x = at.left + 2, y = (at.top + at.bottom) / 2;
      const on = boxes.find(([box]) => x >= box.left && x <= box.right && y >= box.top && y <= box.bottom);
      const value = ratio(parse(getComputedStyle(text).fill), on ? on[1] : behind(svg.parentElement));
      if (value < 4.5) found.add(`${value.toFixed(2)} ${text.getAttribute("class")}: ${text.textContent.slice(0, 40)}`);
    }
  }
  return [...found];
})()
