// What is wrong with the looks of a page, as a list of sentences; nothing on a page that is in order.
(() => {
  const found = [], root = document.documentElement;
  const say = (what, element) => found.push(`${what}: ${(element.textContent || element.tagName).trim().slice(0, 60)}`);
  const shown = element => element.checkVisibility() && element.getBoundingClientRect().width > 0;
  if (root.scrollWidth > root.clientWidth) found.push(`the page is ${root.scrollWidth} wide, the window ${root.clientWidth}`);

  for (const svg of document.querySelectorAll("svg[role=img]")) {
    if (!shown(svg)) continue;
    const frame = svg.getBoundingClientRect();
    const texts = [...svg.querySelectorAll("text")].map(text => [text, text.getBoundingClientRect()]);
    texts.forEach(([text, box], n) => {
      if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.bottom > frame.bottom + 1) say("cut in the drawing", text);
      for (const [other, its] of texts.slice(n + 1)) {
        const across = Math.min(box.right, its.right) - Math.max(box.left, its.left);
        const down = Math.min(box.bottom, its.bottom) - Math.max(box.top, its.top);
        // Boxes of lines that stand close are higher than the letters in them.
        if (across > 1 && down > 4) say(`overlaps "${other.textContent.slice(0, 30)}"`, text);
      }
    });
    for (const box of svg.querySelectorAll("rect.box")) {
      const its = box.getBoundingClientRect();
      for (const [text, at] of texts) {
        const inside = at.left >= its.left && at.left <= its.right && at.top >= its.top - 2 && at.bottom <= its.bottom + 4;
        if (inside && at.right > its.right) say("sticks out of its box", text);
      }
    }
  }

  for (const element of document.body.querySelectorAll("*:not(svg, svg *, script, .unseen)")) {
    if (!shown(element)) continue;
    const style = getComputedStyle(element), box = element.getBoundingClientRect();
    const scrolls = element.closest(".scroll");
    if (!scrolls && (box.right > root.clientWidth + 1 || box.left < -1)) say("reaches out of the window", element);
    if (!scrolls && style.overflowX !== "visible" && element.scrollWidth > element.clientWidth + 1) say("is cut", element);
  }
  return [...new Set(found)];
})()
