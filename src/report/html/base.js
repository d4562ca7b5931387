// What every chart uses: the document, numbers for people, elements, frames with axes, the tooltip.
// Texts from the document reach the page through textContent and d3's .text alone.

const source = JSON.parse(document.getElementById("document").textContent);
const datasets = {};

// Characters that print nothing or turn the direction of writing would change what other texts seem to say: shown as codes.
const visible = x => typeof x !== "string" ? x : x.replace(/[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
  c => "‹U+" + c.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0") + "›");

// The rows of a dataset as objects by column; none where the document has no such dataset.
const has = name => name in source.datasets;
function dataset(name) {
  if (!datasets[name]) {
    const { columns, rows } = has(name) ? source.datasets[name] : { columns: [], rows: [] };
    datasets[name] = rows.map(row => Object.fromEntries(columns.map((c, i) => [c, visible(row[i])])));
  }
  return datasets[name];
}

// Other datasets in place of the document's.
function replaceDatasets(others) {
  source.datasets = others;
  Object.keys(datasets).forEach(name => delete datasets[name]);
}

const unique = list => Array.from(new Set(list));
// A name of any length as one of a line.
const short = name => name.length <= 44 ? name : name.slice(0, 20) + "…" + name.slice(-20);

// The parts of a training step (src/step/prediction.c), each with a colour of its own on every page.
const stepParts = [["products_s", "GEMMs", "--tensor"], ["attention_s", "attention", "--fused"], ["elementwise_s", "element-wise", "--vector"],
  ["launch_s", "launches", "--vector-dark"], ["tensor_s", "tensor-parallel collectives", "--hbm"], ["expert_s", "experts' all-to-all", "--best"],
  ["transfer_s", "stage transfers", "--soft"], ["bubble_s", "pipeline bubble", "--bubble"], ["gradient_s", "gradient exchange", "--network"],
  ["waiting_s", "waiting for stragglers", "--rest"], ["optimizer_s", "optimizer", "--buffer"]].map(([key, text, colour]) => ({ key, text, colour: `var(${colour})` }));
const stepColour = name => (stepParts.find(p => p.text === name) || { colour: "var(--rest)" }).colour;

// ---- numbers

const count = d3.format(",d");
function number(x) {
  if (x === null || !isFinite(x)) return "–";
  const size = Math.abs(x);
  return size === 0 ? "0" : size >= 1000 ? count(Math.round(x)) : String(+x.toPrecision(3));
}
const percent = (x, digits = 0) => (100 * x).toFixed(digits) + "%";
const signed = x => (x > 0 ? "+" : x < 0 ? "−" : "±") + Math.abs(100 * x).toFixed(Math.abs(x) < 0.1 ? 2 : 1) + "%";
const times = x => x === null ? "–" : x.toFixed(x < 9.995 ? 2 : 1) + "×";
const gib = x => number(x / 2 ** 30) + "\u00a0GiB";
function si(x, unit) {
  const prefixes = ["", "k", "M", "G", "T", "P", "E"];
  let i = 0;
  while (Math.abs(x) >= 999.5 && i < prefixes.length - 1) x /= 1000, i++;
  return number(x) + "\u00a0" + prefixes[i] + unit;
}
function seconds(s) {
  return s >= 0.9995 ? number(s) + "\u00a0s" : s >= 0.9995e-3 ? number(1e3 * s) + "\u00a0ms" : number(1e6 * s) + "\u00a0µs";
}
const plural = (n, word) => count(n) + " " + word + (n === 1 ? "" : /(ch|s|x)$/.test(word) ? "es" : "s");

// ---- elements

function el(parent, tag, className, text) {
  const e = document.createElement(tag);
  if (className) e.className = className;
  if (text !== undefined) e.textContent = text;
  if (parent) parent.appendChild(e);
  return e;
}

const charts = [];

// A section of the page: title, one line with the finding, a note that explains the terms.
function section(id, title, lead, note) {
  const s = el(document.getElementById("page"), "section");
  s.id = id;
  el(s, "h2", "", title);
  const line = el(s, "p", "lead", lead);
  if (note) el(s, "p", "note", note);
  return { root: s, say: text => { line.textContent = text; }, lead: line };
}

// To be drawn when the whole page is laid out, and again when its width changes.
function draws(id, draw) {
  charts.push({ id, draw });
}

function select(parent, label, options, chosen, onChange) {
  const l = el(parent, "label", "", label);
  const s = el(l, "select");
  options.forEach(o => {
    const option = el(s, "option", "", o.text);
    option.value = o.value;
    option.selected = o.value === chosen;
  });
  s.addEventListener("change", () => onChange(s.value));
  return s;
}

function legend(parent, items) {
  const list = el(parent, "ul", "legend");
  items.forEach(i => {
    const li = el(list, "li");
    const swatch = el(li, "span", "swatch " + (i.kind || ""));
    if (i.symbol) {
      swatch.className = "symbol";
      d3.select(swatch).append("svg").attr("viewBox", "-8 -8 16 16").attr("aria-hidden", true).append("path")
        .attr("d", i.symbol).style("fill", i.colour).style("stroke", i.stroke || "none").style("stroke-width", 1.6);
    } else if (!i.kind) swatch.style.background = i.colour;
    el(li, "span", "", i.text);
  });
  return list;
}

// A table that may be wider than the page.  Where it is, the edge with more columns has a shadow, a line says so, and the
// keyboard can scroll it.
function scrollTable(parent, label, className) {
  const box = el(parent, "div", "scroller"), scroll = el(box, "div", "scroll"), table = el(scroll, "table", className);
  el(box, "p", "hint", "Scroll sideways for more columns →");
  scroll.setAttribute("role", "region");
  scroll.setAttribute("aria-label", label);
  const update = () => scrollCue(box);
  scroll.addEventListener("scroll", update, { passive: true });
  const observer = new ResizeObserver(update);
  observer.observe(scroll);
  observer.observe(table);
  return table;
}

// A table of rows of texts below its heads; a plan is wrapped.
function textTable(parent, label, heads, rows) {
  const table = scrollTable(parent, label), head = el(el(table, "thead"), "tr"), body = el(table, "tbody"), kind = i => heads[i] === "plan" ? "plan" : "";
  heads.forEach((h, i) => el(head, "th", kind(i), h));
  rows.forEach(r => {
    const tr = el(body, "tr");
    r.forEach((t, i) => el(tr, "td", kind(i), t));
  });
}

// For tests: plans that are wider than what is seen of their tables.
const plansCut = () => Array.from(document.querySelectorAll("td.plan")).filter(td => td.offsetWidth + td.parentNode.firstChild.offsetWidth > td.closest(".scroll").clientWidth).length;

function scrollCue(box) {
  const scroll = box.querySelector(".scroll"), first = box.querySelector("th, td"), more = scroll.scrollWidth - scroll.clientWidth;
  box.classList.toggle("wider", more > 1);
  box.classList.toggle("more-left", scroll.scrollLeft > 1);
  box.classList.toggle("more-right", scroll.scrollLeft < more - 1);
  box.style.setProperty("--sticky", (first ? first.offsetWidth : 0) + "px");
  if (more > 1) scroll.setAttribute("tabindex", 0);
  else scroll.removeAttribute("tabindex");
}

// ---- charts

// The width of an element, without making the browser lay out the page for each chart that is drawn again.
let measured = new WeakMap();
const observed = new WeakSet(), widthObserver = new ResizeObserver(list => list.forEach(x => measured.set(x.target, x.contentRect.width)));
function widthOf(e) {
  if (measured.get(e) > 0) return measured.get(e);
  if (!observed.has(e)) widthObserver.observe(e);
  observed.add(e);
  measured.set(e, e.clientWidth);
  return e.clientWidth;
}

// An SVG as wide as its parent, with a group inside the margins.
function frame(parent, height, margin, label, role = "img") {
  while (parent.firstChild) parent.removeChild(parent.firstChild);
  const width = Math.max(240, widthOf(parent) || 320);
  const svg = d3.select(parent).append("svg").attr("viewBox", `0 0 ${width} ${height}`).attr("role", role)
    .attr("aria-label", label);
  const root = svg.append("g").attr("transform", `translate(${margin.left},${margin.top})`);
  return { svg, root, width: width - margin.left - margin.right, height: height - margin.top - margin.bottom };
}

function axisX(f, scale, label, ticks, format) {
  const axis = d3.svg.axis().scale(scale).orient("bottom").ticks(ticks || Math.max(2, Math.floor(f.width / 90)))
    .innerTickSize(-f.height).outerTickSize(0).tickPadding(8);
  if (format) axis.tickFormat(format);
  f.root.append("g").attr("class", "axis grid").attr("transform", `translate(0,${f.height})`).call(axis);
  f.root.append("text").attr("class", "soft").attr("x", f.width).attr("y", f.height + 36).attr("text-anchor", "end").text(label);
}

function axisY(f, scale, label, format) {
  const axis = d3.svg.axis().scale(scale).orient("left").ticks(Math.max(2, Math.floor(f.height / 50)))
    .innerTickSize(-f.width).outerTickSize(0).tickPadding(8);
  if (format) axis.tickFormat(format);
  f.root.append("g").attr("class", "axis grid").call(axis);
  f.root.append("text").attr("class", "soft").attr("x", -8).attr("y", -10).attr("text-anchor", "start").text(label);
}

// What can be read on a mark of that colour.
const inkOn = colour => ["var(--vector)", "var(--bubble)"].includes(colour) ? colour.replace("--", "--on-") : "var(--mark-ink)";

// As much of a text as fits, by an average letter width.
function fitted(text, width, size = 7) {
  const room = Math.floor(width / size);
  return text.length <= room ? text : room < 4 ? "" : text.slice(0, room - 1) + "…";
}

// ---- tooltip

const tip = document.getElementById("tip");
function showTip(event, lines) {
  while (tip.firstChild) tip.removeChild(tip.firstChild);
  lines.filter(l => l).forEach((line, i) => el(tip, i ? "span" : "b", "", line));
  tip.hidden = false;
  const x = Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8);
  const below = event.clientY + 18 + tip.offsetHeight < window.innerHeight;
  tip.style.left = Math.max(8, x) + "px";
  tip.style.top = (below ? event.clientY + 18 : Math.max(4, event.clientY - tip.offsetHeight - 12)) + "px";
}
let focused = null; // redraws the tip of the mark that has the keyboard's focus
function hideTip() {
  tip.hidden = true;
  focused = null;
}
window.addEventListener("scroll", () => focused ? focused() : hideTip(), { passive: true });
window.addEventListener("keydown", e => { if (e.key === "Escape") hideTip(); });

// Marks with a tooltip for pointer, finger and keyboard: lines(d) gives its text.
function tells(selection, lines) {
  return selection
    .on("mousemove", d => showTip(d3.event, lines(d)))
    .on("mouseout", hideTip)
    .on("focus", function (d) {
      focused = () => {
        const box = this.getBoundingClientRect();
        showTip({ clientX: box.right, clientY: box.bottom }, lines(d));
      };
      focused();
    })
    .on("blur", hideTip);
}

// ---- widths

let waiting = 0, drawnAt = window.innerWidth;
function drawAll() {
  measured = new WeakMap(); // the width of the window, or of paper, is another
  charts.forEach(c => c.draw());
  document.querySelectorAll(".scroller").forEach(scrollCue);
}
window.addEventListener("resize", () => {
  clearTimeout(waiting);
  waiting = setTimeout(() => {
    if (window.innerWidth === drawnAt) return;
    drawnAt = window.innerWidth;
    drawAll();
  }, 120);
});

// On paper, charts are drawn for one width, whatever that of the window, so that their text has the size of the page's.
function print(on) {
  document.documentElement.classList.toggle("printing", on);
  drawAll();
}
window.addEventListener("beforeprint", () => print(true));
window.addEventListener("afterprint", () => print(false));
