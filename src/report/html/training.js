// The best chip of a space of ranges: what it takes, the chips of today beside it, what limits it, what less would give.

const search = source.search, best = search.best, certificate = search.certificate, inputs = search.inputs;
const chips = dataset("chips"), steps = dataset("sensitivity"), models = unique(chips.map(c => c.model));
const per = inputs.objective.startsWith("per-") ? ` per ${inputs.objective.slice(4)}` : "";
const partNames = {
  tensor_mm2: "tensor arrays", tensor_local_mm2: "tensor buffers", vector_mm2: "vector lanes", vector_local_mm2: "vector buffers",
  fp64_mm2: "64-bit units", glb_mm2: "global buffer", noc_mm2: "network on chip", hbm_mm2: "HBM interface", link_mm2: "links",
  die_link_mm2: "links between dies", io_mm2: "host I/O", other_mm2: "control, wiring, spare",
  static_watts: "static and clock", link_watts: "links", product_watts: "long products", stream_watts: "HBM at full rate",
  die_dollars: "dies", hbm_dollars: "HBM", package_dollars: "package",
  products_s: "GEMMs", attention_s: "attention", elementwise_s: "element-wise", tensor_s: "tensor-parallel collectives",
  expert_s: "expert all-to-all", transfer_s: "transfers", bubble_s: "pipeline bubble", gradient_s: "gradient all-reduce", optimizer_s: "optimizer",
};
const axisNames = { tensor_cores: "tensor cores", local_kib: "local buffer (KiB)", vector_cores: "vector cores", lanes: "lanes", glb_mib: "global buffer (MiB)",
  glb_bytes_per_cycle: "global buffer (B/cycle)", clock_mhz: "clock (MHz)", hbm_stacks: "HBM stacks", link_gb_per_s: "link (GB/s)", array: "array", hbm: "HBM generation" };
const palette = ["--tensor", "--fused", "--vector", "--buffer", "--hbm", "--network", "--bubble", "--front", "--evaluated", "--best", "--rest", "--vector-dark"]
  .map(c => `var(${c})`);
const limits = [inputs.limit_mm2 && `${number(inputs.limit_mm2)} mm²`, inputs.limit_watts && `${number(inputs.limit_watts)} W`,
  inputs.limit_dollars && `$${number(inputs.limit_dollars)}`].filter(x => x);
const within = limits.length ? "within " + limits.join(", ") : "without limits";

(() => {
  const page = document.getElementById("page"), c = best.chip, whom = models.length > 1 ? `these ${models.length} models` : short(models[0]);
  const lowers = best.power && Math.min(...best.power.clock_hz) < c.clock_hz;
  document.title = `phaze: ${best.name}`;
  el(page, "p", "kicker", "phaze chip search");
  el(page, "h1", "", best.value >= 1
    ? `The best chip for ${whom} ${within} is ${times(best.value)} an H100${per}${lowers ? " at full clock" : ""}.`
    : `No chip ${within} reaches an H100 for ${whom}: the best has ${times(best.value)}${per}.`);
  el(page, "p", "standfirst", `It is ${best.name}. No chip of the space ${visible(inputs.space)} (${count(certificate.space)} chips) is more than ${percent(certificate.gap, 2)} better` +
    (certificate.finished ? ", and that is proved." : ": the search ended at its limit with that bound."));
  el(page, "p", "note", `${models.length > 1 ? "Models" : "Model"}: ${models.map(short).join(", ")}; ${count(inputs.devices)} devices in groups of ${count(inputs.scale_up)}, global batch size ${count(inputs.batch)}. ` +
    "The H100 is its description, as this chip is one: peak rates without measured efficiencies, at the clock that its node sustains.");
  if (best.power) {
    const p = best.power, own = Math.max(...p.full_watts), clock = Math.min(...p.clock_hz);
    el(page, "p", "note", `Its operators take up to ${own.toFixed(0)} W` + (lowers
      ? `. Within ${p.limit_watts.toFixed(0)} W it lowers its clock from ${number(c.clock_hz / 1e9)} to ${number(clock / 1e9)} GHz and is ${times(p.times_reference)} an H100 within its own ${search.reference.power.limit_watts.toFixed(0)} W.`
      : ", which it has."));
  }
  const facts = el(page, "dl", "facts");
  const fact = (name, text, small) => {
    const d = el(facts, "div");
    el(d, "dt", "", name);
    const dd = el(d, "dd", "", text);
    if (small) el(dd, "small", "", small);
  };
  fact("tensor cores", `${c.tensor.cores} of ${c.tensor.rows}×${c.tensor.cols}`, si(2 * c.tensor.cores * c.tensor.rows * c.tensor.cols * c.clock_hz, "FLOP/s") + ` at ${number(c.clock_hz / 1e9)} GHz`);
  fact("vector cores", `${c.vector.cores} of ${c.vector.lanes} lanes`, si(c.vector.cores * c.vector.lanes * c.clock_hz, "op/s"));
  fact("global buffer", `${number(c.glb.bytes / 2 ** 20)} MiB`, si(c.glb.bytes_per_s, "B/s"));
  fact("HBM", gib(c.hbm.stacks * c.hbm.bytes_per_stack), `${c.hbm.stacks} stacks, ${si(c.hbm.stacks * c.hbm.bytes_per_s_per_stack, "B/s")}`);
  fact("link", si(c.link.bytes_per_s, "B/s"), c.tech);
  fact("area", `${best.area_mm2.toFixed(0)} mm²`, inputs.limit_mm2 ? `${percent(best.area_mm2 / inputs.limit_mm2)} of the limit` : "");
  fact("power", `${best.watts.toFixed(0)} W`, inputs.limit_watts ? `${percent(best.watts / inputs.limit_watts)} of the limit` : "sustained");
  if (best.dollars) fact("price", `$${number(best.dollars)}`, "dies, HBM, package");
})();

// A table of rows of texts below its heads.
function textTable(parent, label, heads, rows) {
  const table = scrollTable(parent, label), head = el(el(table, "thead"), "tr"), body = el(table, "tbody");
  heads.forEach(h => el(head, "th", "", h));
  rows.forEach(r => {
    const tr = el(body, "tr");
    r.forEach(t => el(tr, "td", "", t));
  });
}

// Bars of {label, value, colour, text, tip}, from 0 or from a line at 0.
function bars(holder, rows, label, format, left) {
  const low = Math.min(0, d3.min(rows, r => r.value)), high = Math.max(0, d3.max(rows, r => r.value));
  const narrow = holder.clientWidth < 600, side = narrow ? Math.min(left, 150) : left, room = (high - low || 1) * (narrow ? 0.34 : 0.14);
  const f = frame(holder, rows.length * 24 + 48, { top: 4, right: 56, bottom: 44, left: side }, label);
  const x = d3.scale.linear().domain([low < 0 ? low - room : 0, high + (high > 0 ? room * 0.3 : 0)]).range([0, f.width]);
  axisX(f, x, label, narrow ? 3 : 6, format);
  const g = f.root.selectAll(".row").data(rows).enter().append("g").attr("transform", (r, i) => `translate(0,${i * 24})`);
  g.append("text").attr("x", -side).attr("y", 16).text(r => fitted(r.label, side - 6, 6.4));
  g.append("rect").attr("class", "mark").attr("x", r => x(Math.min(0, r.value))).attr("y", 4).attr("height", 16)
    .attr("width", r => Math.max(1.5, Math.abs(x(r.value) - x(0)))).style("fill", r => r.colour)
    .style("fill-opacity", r => r.pale ? 0.25 : 1).style("stroke", r => r.pale ? r.colour : "none");
  g.append("text").attr("y", 16).attr("x", r => r.value < 0 ? x(r.value) - 5 : x(r.value) + 5)
    .attr("text-anchor", r => r.value < 0 ? "end" : "start").text(r => r.text);
  if (low < 0) f.root.append("path").attr("d", `M${x(0)},0V${f.height}`).style("stroke", "var(--ink)");
  tells(g, r => r.tip);
}

(() => {
  const first = chips.filter(c => c.model === models[0]), rest = first.filter(c => c.role !== "best");
  const above = rest.filter(c => c.value > best.value);
  const s = section("chips", "Beside the chips of today",
    above.length ? `${above.map(c => c.chip).join(", ")} ${above.length > 1 ? "are" : "is"} above it, with ${above.map(c => `${number(c.area_mm2)} mm²`).join(", ")} of dies.` : "None of them is above it.",
    "All under the same models of time and cost, in the network of this search; built chips as their data sheets describe them. “phaze compare --chips” compares them in their own networks.");
  const holder = el(s.root, "div");
  draws("chips", () => bars(holder, first.map(c => ({ label: c.role === "best" ? "best chip" : c.chip, value: c.value, text: times(c.value), colour: c.role === "best" ? "var(--best)" : "var(--tensor)",
    tip: [c.chip, `${times(c.value)} an H100${per}`, `${number(c.area_mm2)} mm², ${number(c.peak_watts)} W peak, $${number(c.dollars)}`, c.plan] })),
    `× H100${per}`, number, 100));
  textTable(s.root, "chips with their best plans", ["chip", "model", "step (s)", "samples/s", "MFU", "W", "J/sample", "mm²", "peak W", "$", "plan"],
    chips.map(c => [c.chip, short(c.model), number(c.step_s), number(c.samples_per_s), percent(c.mfu), number(c.watts), number(c.joules_per_sample),
      number(c.area_mm2), number(c.peak_watts), number(c.dollars), c.plan]));
})();

// Stacked bars: one for each of `rows` {label, parts: [{name, amount, colour}]}.
function stacks(holder, rows, label, format) {
  const left = holder.clientWidth < 600 ? 84 : 130, most = d3.max(rows, r => d3.sum(r.parts, p => p.amount));
  const f = frame(holder, rows.length * 34 + 44, { top: 2, right: 12, bottom: 42, left }, label);
  const x = d3.scale.linear().domain([0, most]).range([0, f.width]);
  axisX(f, x, label, holder.clientWidth < 600 ? 3 : 6, format);
  rows.forEach((r, i) => {
    let at = 0;
    f.root.append("text").attr("x", -left).attr("y", i * 34 + 20).text(fitted(r.label, left - 6, 6.6));
    const parts = r.parts.map(p => Object.assign({ from: (at += p.amount) - p.amount }, p));
    tells(f.root.append("g").selectAll("rect").data(parts).enter().append("rect").attr("class", "mark").attr("x", p => x(p.from))
      .attr("width", p => Math.max(0, x(p.amount) - 0.8)).attr("y", i * 34 + 4).attr("height", 24).style("fill", p => p.colour),
      p => [`${r.label}: ${p.name}`, `${format(p.amount)} (${percent(p.amount / d3.sum(r.parts, q => q.amount), 1)})`]);
  });
}

const sums = [["area", "mm²"], ["watts", "W"], ["dollars", "$"]];
(() => {
  const bills = dataset("bills"), die = bills.filter(b => b.role === "best" && b.sum === "area").sort((a, b) => b.amount - a.amount)[0];
  const s = section("bill", "What it takes", `The largest part of its ${best.area_mm2.toFixed(0)} mm² is ${partNames[die.part]} (${number(die.amount)} mm²).`,
    "One bill for both chips (doc/silicon.md). Power counts the larger of long products and HBM at full rate.");
  sums.filter(([sum]) => d3.sum(bills.filter(b => b.sum === sum && b.role === "best"), b => b.amount) > 0).forEach(([sum, unit]) => {
    const rows = bills.filter(b => b.sum === sum), names = unique(rows.map(b => b.part)), colour = p => palette[names.indexOf(p) % palette.length];
    el(s.root, "h3", "", { area: "Area", watts: "Power at peak", dollars: "Price of production" }[sum]);
    legend(s.root, names.map(p => ({ colour: colour(p), text: partNames[p] || p })));
    const holder = el(s.root, "div");
    draws("bill", () => stacks(holder, ["best", "reference"].map(role => {
      const rate = p => /^(product|stream)_/.test(p), mine = rows.filter(b => b.role === role);
      const most = d3.max(mine.filter(b => rate(b.part)), b => b.amount), own = mine.filter(b => !rate(b.part) || b.amount === most);
      return { label: role === "best" ? "best chip" : own[0].chip, parts: own.map(b => ({ name: partNames[b.part] || b.part, amount: b.amount, colour: colour(b.part) })) };
    }), unit, number));
  });
})();

(() => {
  const parts = dataset("parts").filter(p => p.seconds > 0), names = unique(parts.map(p => p.part)), colour = p => palette[names.indexOf(p) % palette.length];
  const total = d3.sum(parts, p => p.seconds), largest = names.map(n => ({ n, s: d3.sum(parts.filter(p => p.part === n), p => p.seconds) })).sort((a, b) => b.s - a.s)[0];
  const s = section("step", "Where a step’s time goes", `${percent(largest.s / total)} is ${partNames[largest.n]}.`, "The best training plan of each model on this chip; collectives count where compute does not hide them.");
  legend(s.root, names.map(p => ({ colour: colour(p), text: partNames[p] || p })));
  const holder = el(s.root, "div"), list = unique(parts.map(p => p.model));
  draws("step", () => stacks(holder, list.map(m => {
    const own = parts.filter(p => p.model === m), all = d3.sum(own, p => p.seconds);
    return { label: short(m), parts: own.map(p => ({ name: partNames[p.part] || p.part, amount: p.seconds / all, colour: colour(p.part) })) };
  }), "part of the step", x => percent(x)));
})();

(() => {
  const gain = steps.slice().sort((a, b) => b.change - a.change)[0], loss = steps.slice().sort((a, b) => a.change - b.change)[0];
  const name = r => axisNames[r.axis] || r.axis, text = r => `${name(r)} ${r.from} → ${r.to}`;
  const s = section("sensitivity", "What limits this chip", !steps.length ? "The space has no other value on any axis." :
    (gain.change > 5e-5 ? `It would gain most from ${text(gain)}: ${signed(gain.change)}${gain.breaks ? `, which breaks the limit of ${gain.breaks}` : ""}. ` : "No single step is a gain. ") +
    `It would lose most from ${text(loss)}: ${signed(loss.change)}.`,
    "Each bar changes one axis of the chip to the next lower or higher value of the space and finds the best plans anew. Pale: outside the limits.");
  if (!steps.length) return;
  const holder = el(s.root, "div");
  draws("sensitivity", () => bars(holder, steps.map(r => ({ label: text(r), value: r.change, text: signed(r.change), pale: r.breaks !== null,
    colour: r.change < 0 ? "var(--front)" : "var(--evaluated)", tip: [text(r), `${signed(r.change)} throughput${per}`,
      `${number(r.area_mm2)} mm², ${number(r.watts)} W, $${number(r.dollars)}${r.breaks ? "; breaks the limit of " + r.breaks : ""}`] })),
    "change of the objective", d => (+(100 * d).toFixed(4) + "%").replace("-", "−"), 260));
})();

(() => {
  const c = best.chip, peak = 2 * c.tensor.cores * c.tensor.rows * c.tensor.cols * c.clock_hz, rate = c.hbm.stacks * c.hbm.bytes_per_s_per_stack;
  const ops = dataset("operators").filter(o => o.flop > 0 && o.hbm_bytes > 0 && o.seconds > 0)
    .map(o => Object.assign({ x: o.flop / o.hbm_bytes, y: o.flop / o.seconds, time: o.seconds * o.times }, o));
  if (!ops.length) return;
  const total = d3.sum(ops, o => o.time), bounds = unique(ops.map(o => o.bound));
  const by = bounds.map(b => ({ b, part: d3.sum(ops.filter(o => o.bound === b), o => o.time) / total })).sort((a, b) => b.part - a.part);
  const s = section("roofline", "Roofline of its operators", `${percent(by[0].part)} of the operators’ time is bound by ${by[0].b}.`,
    "One point for each operator of a layer, larger where it takes more of the step. Lines: the HBM rate, and the peak of the tensor cores.");
  const colour = b => palette[bounds.indexOf(b) % palette.length], holder = el(s.root, "div");
  legend(s.root, bounds.map(b => ({ colour: colour(b), text: `bound by ${b}` })).concat([{ kind: "line", text: "HBM rate, peak" }]));
  draws("roofline", () => {
    const f = frame(holder, 380, { top: 26, right: 14, bottom: 44, left: 62 }, "FLOP/s of operators by FLOP per byte of HBM", "group");
    const decade = (v, i) => 10 ** (i ? Math.ceil(Math.log10(v)) : Math.floor(Math.log10(v)));
    const xs = d3.extent(ops, o => o.x).map(decade), ys = [decade(d3.min(ops, o => o.y), 0), decade(peak, 1)];
    xs[1] = Math.max(xs[1], decade(2 * peak / rate, 1));
    const x = d3.scale.log().domain(xs).range([0, f.width]), y = d3.scale.log().domain(ys).range([f.height, 0]);
    const tens = d => d3.range(Math.round(Math.log10(d[0])), Math.round(Math.log10(d[1])) + 1).map(i => 10 ** i);
    f.root.append("g").attr("class", "axis grid").attr("transform", `translate(0,${f.height})`).call(d3.svg.axis().scale(x).orient("bottom")
      .tickValues(tens(xs)).tickFormat(number).innerTickSize(-f.height).outerTickSize(0).tickPadding(8));
    f.root.append("g").attr("class", "axis grid").call(d3.svg.axis().scale(y).orient("left").tickValues(tens(ys)).tickFormat(v => si(v, ""))
      .innerTickSize(-f.width).outerTickSize(0).tickPadding(8));
    f.root.append("text").attr("class", "soft").attr("x", f.width).attr("y", f.height + 36).attr("text-anchor", "end").text("FLOP per byte of HBM");
    f.root.append("text").attr("class", "soft").attr("x", -8).attr("y", -10).text("FLOP/s");
    const knee = peak / rate, from = Math.max(xs[0], ys[0] / rate);
    f.root.append("path").attr("d", `M${x(from)},${y(from * rate)}L${x(knee)},${y(peak)}H${f.width}`).style("fill", "none").style("stroke", "var(--ink)").style("stroke-width", 1.6);
    tells(f.root.selectAll(".point").data(ops.slice().sort((a, b) => b.time - a.time)).enter().append("circle").attr("class", "point mark").attr("tabindex", 0)
      .attr("cx", o => x(o.x)).attr("cy", o => y(Math.max(ys[0], o.y))).attr("r", o => 3 + 14 * Math.sqrt(o.time / total)).style("fill", o => colour(o.bound)).style("fill-opacity", 0.7),
      o => [`${o.operator} (${o.direction}), ${o.layer} of ${short(o.model)}`, `${si(o.y, "FLOP/s")}, ${number(o.x)} FLOP/byte: ${percent(o.y / peak)} of the peak`,
        `${seconds(o.seconds)} each, ${percent(o.time / total, 1)} of all; bound by ${o.bound}`]);
  });
})();

(() => {
  const h100 = chips.find(c => c.chip === "h100"), speed = c => Math.pow(models.map(m => chips.find(d => d.chip === c.chip && d.model === m)).reduce((p, d) => p * d.samples_per_s /
    chips.find(e => e.chip === "h100" && e.model === d.model).samples_per_s, 1), 1 / models.length);
  const built = unique(chips.map(c => c.chip)).map(name => chips.find(c => c.chip === name))
    .map(c => ({ chip: c.chip, role: c.role, throughput: h100 ? speed(c) : c.value, watts: c.peak_watts, dollars: c.dollars, area_mm2: c.area_mm2 }));
  const found = dataset("front").map(p => Object.assign({ role: "found" }, p)), all = built.concat(found), own = built.find(p => p.role === "best");
  const beats = (a, b) => a.throughput >= b.throughput && a.watts <= b.watts && a.dollars <= b.dollars && (a.throughput > b.throughput || a.watts < b.watts || a.dollars < b.dollars);
  all.forEach(p => { p.front = !all.some(q => beats(q, p)); });
  const s = section("front", "Throughput, watts and dollars", `${count(all.filter(p => p.front).length)} of these ${count(all.length)} chips are beaten by none of the others in all three.`,
    `Besides the best chip, whose gap of ${percent(certificate.gap, 2)} is proved, points were searched under tighter limits of watts and dollars among chips with its array and HBM: their throughput is exact; the gap that is proved among these chips is told with each point, other arrays may be better.` +
    (found.some(p => p.throughput > own.throughput) ? " Points above the best chip lie within the gap that the search left." : ""));
  const marks = { best: "var(--best)", built: "var(--vector)", found: "var(--evaluated)" };
  legend(s.root, [{ colour: marks.best, text: "best chip" }, { colour: marks.found, text: "under tighter limits" }, { colour: marks.built, text: "built chips" }, { kind: "ring", text: "beaten by none" }]);
  const panels = el(s.root, "div", "panels two");
  [["watts", "peak W"], ["dollars", "$"]].forEach(([key, label]) => {
    const holder = el(panels, "div");
    draws("front", () => {
      const f = frame(holder, 300, { top: 26, right: 16, bottom: 44, left: 46 }, `throughput by ${label}`, "group");
      const x = d3.scale.linear().domain([0, 1.06 * d3.max(all, p => p[key])]).range([0, f.width]), y = d3.scale.linear().domain([0, 1.1 * d3.max(all, p => p.throughput)]).range([f.height, 0]);
      axisX(f, x, label, Math.max(2, Math.floor(f.width / 90)), number);
      axisY(f, y, "× H100", number);
      const g = f.root.selectAll(".point").data(all).enter().append("circle").attr("class", "point mark").attr("tabindex", 0).attr("cx", p => x(p[key])).attr("cy", p => y(p.throughput))
        .attr("r", p => p.role === "best" ? 7 : 5).style("fill", p => marks[p.role]).style("stroke", p => p.front ? "var(--ink)" : "none").style("stroke-width", 1.5);
      tells(g, p => [p.chip, `${times(p.throughput)} an H100`, `${number(p.area_mm2)} mm², ${number(p.watts)} W, $${number(p.dollars)}`, p.role === "found" ? (p.gap === null ? "no gap is proved" : `proved: none with this array and HBM is more than ${percent(p.gap, 1)} better within ${number(p.limit_watts)} W and $${number(p.limit_dollars)}`) : "",
        p.front ? "beaten by none of these chips" : "another is better in all three"]);
      const placed = [], clear = p => placed.every(q => Math.abs(x(q[key]) - x(p[key])) > 74 || Math.abs(y(q.throughput) - y(p.throughput)) > 13) && placed.push(p);
      f.root.selectAll(".name").data(all.filter(p => p.role === "built").filter(clear)).enter().append("text").attr("class", "soft halo").attr("x", p => x(p[key]) + (x(p[key]) > f.width - 70 ? -8 : 8))
        .attr("text-anchor", p => x(p[key]) > f.width - 70 ? "end" : "start").attr("y", p => y(p.throughput) + 4).text(p => p.chip);
    });
  });
})();

(() => {
  const s = section("certificate", "Certificate", `${count(certificate.closed)} of ${count(certificate.space)} chips are closed, in ${count(certificate.boxes)} boxes: no chip is more than ${percent(certificate.gap, 2)} better.`,
    "A box is closed where its smallest chip breaks a limit or its largest cannot be better. “phaze verify DIR” checks that the boxes hold every chip once, recomputes a sample of them, the best chip and this page.");
  textTable(s.root, "certificate", ["", ""], [["chips of the space", count(certificate.space)], ["closed", count(certificate.closed)], ["evaluated one by one", count(certificate.evaluated)],
    ["boxes", count(certificate.boxes)], ["rounds", count(certificate.rounds)], ["gap", percent(certificate.gap, 3)], ["finished", certificate.finished ? "yes" : "no"],
    ["limits", limits.join(", ") || "none"], ["objective", "throughput" + per], ["devices", count(inputs.devices)], ["global batch size", count(inputs.batch)],
    ["sequence length", inputs.seq ? count(inputs.seq) : "each model’s"], ["scale-up group", count(inputs.scale_up)], ["rate between groups", si(inputs.outer_bytes_per_s, "B/s")], ["phaze", source.version]]);
})();

drawAll();
if (window.location.hash === "#selftest") {
  const lines = Array.from(document.querySelectorAll("section"), s => `marks ${s.id} ${s.querySelectorAll(".mark").length}`);
  lines.push(`too-wide-by ${document.documentElement.scrollWidth - document.documentElement.clientWidth}`, `fetched ${performance.getEntriesByType("resource").length}`);
  el(document.body, "pre", "", lines.join("\n")).id = "selftest";
  if (window.parent !== window) window.parent.postMessage(lines.join("\n"), "*");
}
