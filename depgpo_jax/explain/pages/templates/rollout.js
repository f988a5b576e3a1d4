"use strict";
(() => {
  const root = document.documentElement;
  const lines = [...document.querySelectorAll(".line")];
  const edges = JSON.parse(document.getElementById("edges").textContent);
  const panel = document.getElementById("panel");
  const only = document.getElementById("only");
  const svg = document.querySelector(".arcs");
  root.classList.add("js");
  if (!lines.length) return;

  const before = lines.map(() => []), after = lines.map(() => []);
  for (const [producer, consumer] of edges) {
    before[consumer].push(producer);
    after[producer].push(consumer);
  }
  const onPath = lines.map((line) => line.parentElement.classList.contains("on"));
  let shown = -1, pinned = -1, middles = [];

  const visible = (i) => !lines[i].parentElement.hidden;

  // Arcs bow out into the gutter, long ones further, never beyond it.
  function arcs(pairs) {
    const width = svg.clientWidth, tall = Math.max(1, Math.sqrt(root.scrollHeight));
    return pairs.filter(([a, b]) => visible(a) && visible(b)).map(([a, b]) => {
      const reach = Math.min(width - 2, 6 + (width * Math.sqrt(Math.abs(middles[b] - middles[a]))) / tall);
      const x = width - (reach * 4) / 3;
      return `M${width} ${middles[a]}C${x} ${middles[a]} ${x} ${middles[b]} ${width} ${middles[b]}`;
    }).join("");
  }

  function draw() {
    const top = svg.parentElement.getBoundingClientRect().top;
    middles = lines.map((line) => {
      const box = line.getBoundingClientRect();
      return Math.round(box.top - top + box.height / 2);
    });
    svg.querySelector(".rest").setAttribute("d", arcs(edges.filter(([a, b]) => !(onPath[a] && onPath[b]))));
    svg.querySelector(".flow").setAttribute("d", arcs(edges.filter(([a, b]) => onPath[a] && onPath[b])));
    mark();
  }

  function mark() {
    const ins = shown < 0 ? [] : before[shown], outs = shown < 0 ? [] : after[shown];
    svg.querySelector(".in").setAttribute("d", arcs(ins.map((i) => [i, shown])));
    svg.querySelector(".out").setAttribute("d", arcs(outs.map((i) => [shown, i])));
    for (const line of document.querySelectorAll(".shown, .before, .after")) line.classList.remove("shown", "before", "after");
    document.querySelector("[aria-current]")?.removeAttribute("aria-current");
    for (const i of ins) lines[i].classList.add("before");
    for (const i of outs) lines[i].classList.add("after");
    if (shown < 0) return;
    lines[shown].classList.add("shown");
    lines[shown].setAttribute("aria-current", "true");
  }

  function show(i) {
    if (i === shown) return;
    shown = i;
    panel.hidden = i < 0;
    if (i >= 0) {
      const why = lines[i].parentElement.querySelector(".why");
      document.getElementById("panel-title").textContent = lines[i].dataset.name;
      document.getElementById("panel-body").replaceChildren(...[...why.childNodes].map((node) => node.cloneNode(true)));
      document.querySelector("#panel ul").removeAttribute("id");
      document.getElementById("panel-body").scrollTop = 0;
      // On a small screen the panel would cover the very line that it speaks of.
      const box = lines[i].getBoundingClientRect();
      panel.classList.toggle("above", box.top + box.height / 2 > innerHeight / 2);
    }
    mark();
  }

  function go(i) {
    if (!visible(i)) { only.checked = false; filter(); }
    lines[i].focus();
    pin(i);
  }

  // The list is one stop of the Tab key, and the panel the next: arrows walk inside of it.
  let stop = 0;
  function reach(i) {
    lines[stop].tabIndex = -1;
    lines[i].tabIndex = 0;
    stop = i;
  }

  function pin(i) {
    pinned = i;
    reach(i);
    show(i);
    if (location.hash !== `#c${i}`) history.replaceState(null, "", `#c${i}`);
  }

  function filter() {
    for (const line of lines) line.parentElement.hidden = only.checked && !line.parentElement.classList.contains("on");
    if (shown >= 0 && !visible(shown)) { pinned = -1; show(-1); }
    draw();
  }

  // Only a mouse that moves counts: when the panel closes, a line may come to lie under one at rest.
  let rest = "";
  function moved(event) {
    const before = rest;
    rest = `${event.screenX} ${event.screenY}`;
    return rest !== before;
  }

  lines.forEach((line, i) => {
    line.addEventListener("pointermove", (event) => {
      if (event.pointerType === "mouse" && moved(event)) show(i);
    });
    line.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse" && pinned >= 0) show(pinned); });
    line.addEventListener("focus", () => pin(i));
    line.addEventListener("click", () => pin(i));
  });

  document.addEventListener("keydown", (event) => {
    const at = lines.indexOf(document.activeElement);
    if (event.key === "Escape") { pinned = -1; show(-1); return; }
    const step = { ArrowDown: 1, ArrowUp: -1, Home: 1, End: -1 }[event.key];
    if (at < 0 || !step || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const from = { Home: -1, End: lines.length }[event.key] ?? at;
    for (let i = from + step; i >= 0 && i < lines.length; i += step) if (visible(i)) { lines[i].focus(); break; }
  });

  document.addEventListener("click", (event) => {
    const link = event.target.closest('a[href^="#c"]');
    if (!link) return;
    event.preventDefault();
    go(Number(link.getAttribute("href").slice(2)));
  });

  document.querySelector(".overview").addEventListener("click", (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    go(Math.min(lines.length - 1, Math.floor(((event.clientX - box.left) / box.width) * lines.length)));
  });

  document.getElementById("close").addEventListener("click", (event) => {
    moved(event);
    if (pinned >= 0) lines[pinned].focus({ preventScroll: true });
    pinned = -1;
    show(-1);
  });
  only.addEventListener("change", filter);
  addEventListener("hashchange", follow);
  for (const line of lines) line.tabIndex = -1;
  const best = Number(root.querySelector("ol").dataset.best);
  reach(best);
  new ResizeObserver(draw).observe(document.querySelector(".board"));
  draw();
  if (!follow() && matchMedia("(min-width: 80rem)").matches) show(best);

  function follow() {
    const asked = /^#c(\d+)$/.exec(location.hash);
    if (!asked || !lines[asked[1]]) return false;
    go(Number(asked[1]));
    return true;
  }
})();
