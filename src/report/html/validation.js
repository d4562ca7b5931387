// Predicted against measured: one point a run, operator or peak memory, coloured by group; the errors by group as tables.

document.title = "phaze validation";
const points = dataset("points"), groups = dataset("groups");
const isOk = p => p.quality === "ok";
const steps = points.filter(p => p.kind !== "operator"), operators = points.filter(p => p.kind === "operator");
const colours = ["--tensor", "--vector", "--buffer", "--network", "--hbm", "--fused", "--best"].map(c => `var(${c})`);
const symbols = ["circle", "square", "triangle-up", "diamond", "cross", "triangle-down"];
const mean = x => x === null ? "–" : percent(x, 1);
const part = x => x === null ? "–" : (x >= 0.0005 ? "+" : x <= -0.0005 ? "−" : "") + Math.abs(100 * x).toFixed(1) + "%";

// ---- head

(() => {
  const page = document.getElementById("page"), total = name => groups.find(g => g.set === "totals" && g.group === name);
  const all = total("all runs"), dense = total("dense bf16 on GPUs"), node = total("dense bf16 on GPUs, single node"), tpu = total("on TPUs");
  el(page, "p", "kicker", "phaze validation");
  el(page, "h1", "", all && all.rows
    ? `Predicted step times of ${plural(all.rows, "training run")} are ${mean(all.mean_error)} from the measured ones on average.`
    : `Predictions beside ${plural(points.length, "measurement")}.`);
  el(page, "p", "note", "An error is predicted over measured minus 1: above 0, the prediction is too long. Means are of absolute errors; bias is the mean with signs. Measurements of another quality than ok are drawn hollow and not counted.");
  const facts = el(page, "dl", "facts");
  const fact = (name, g) => {
    if (!g || !g.rows) return;
    const d = el(facts, "div");
    el(d, "dt", "", name);
    el(el(d, "dd", "", mean(g.mean_error)), "small", "", `${plural(g.rows, "run")}, bias ${part(g.bias)}`);
  };
  fact("all runs", all);
  fact("dense, bf16, GPUs", dense);
  fact("of these, single node", node);
  fact("TPUs", tpu);
  const found = dataset("plan_means").find(m => m.group === "all models");
  if (found) {
    const d = el(facts, "div");
    el(d, "dt", "", "order of plans");
    el(el(d, "dd", "", found.rank_correlation === null ? "–" : found.rank_correlation.toFixed(2)), "small", "",
      `rank correlation of ${plural(found.models, "model")}; regret ${mean(found.regret)}`);
  }
})();

// ---- charts

// A mark for each group of a list: colours first, then shapes.
function marksOf(names) {
  return Object.fromEntries(names.map((name, i) => [name, { colour: colours[i % colours.length],
    symbol: d3.svg.symbol().type(symbols[Math.floor(i / colours.length) % symbols.length]).size(46)() }]));
}

// Powers of ten from below the least to above the most.
function decades(values) {
  const lo = Math.floor(Math.log10(0.8 * d3.min(values))), hi = Math.ceil(Math.log10(1.25 * d3.max(values)));
  return [10 ** lo, 10 ** hi];
}

// The scatter of a list of {d, measured, predicted}: both times on logarithmic axes, and the error against the measured value.
function scatter(id, title, list, unit, note, names) {
  if (!list.length) return;
  const marks = marksOf(names), counted = list.filter(p => isOk(p.d));
  const near = counted.filter(p => Math.abs(p.predicted / p.measured - 1) <= 0.1).length;
  const s = section(id, title, `${count(near)} of ${count(counted.length)} lie within 10% of the measured ${unit.noun}. Point at one (or tap it) to see which it is.`, note);
  const controls = el(s.root, "div", "controls");
  let only = "";
  select(controls, "highlight", [{ value: "", text: "all groups" }].concat(names.map(n => ({ value: n, text: n }))), only, g => { only = g; redraw(); });
  const panels = el(s.root, "div", "panels two"), holders = ["Predicted against measured", "Error"].map(t => {
    const p = el(panels, "div");
    el(p, "h3", "", t);
    return el(p, "div");
  });
  legend(s.root, names.map(n => ({ symbol: marks[n].symbol, colour: marks[n].colour, text: n }))
    .concat(list.some(p => !isOk(p.d)) ? [{ symbol: marks[names[0]].symbol, colour: "none", stroke: "var(--soft)", text: "hollow: not counted" }] : [],
      [{ kind: "line", text: "predicted = measured" }, { kind: "band", text: "within 10%" }]));
  const error = p => p.predicted / p.measured - 1;
  const describe = p => [p.d.run, [p.d.group, p.d.model !== "" && p.d.model, p.d.shape].filter(x => x).join(", "),
    p.d.kind === "operator" ? "" : `${plural(p.d.devices, "device")} (${p.d.chip})${p.d.batch ? `, batch ${count(p.d.batch)}` : ""}, ${p.d.framework}`, p.d.plan,
    `measured ${unit.text(p.measured)}, predicted ${unit.text(p.predicted)}: ${part(error(p))}`, isOk(p.d) ? "" : "not counted: " + p.d.quality];

  function draw(f, x, y, value) {
    const order = list.slice().sort((a, b) => (a.d.group === only) - (b.d.group === only));
    const point = f.root.selectAll(".point").data(order).enter().append("path").attr("class", "point mark")
      .attr("transform", p => `translate(${x(p.measured)},${y(value(p))})`).attr("d", p => marks[p.d.group].symbol)
      .style("fill", p => isOk(p.d) ? marks[p.d.group].colour : "var(--bg)").style("stroke", p => isOk(p.d) ? "var(--bg)" : marks[p.d.group].colour)
      .style("stroke-width", p => isOk(p.d) ? 0.6 : 1.4).style("opacity", p => only && p.d.group !== only ? 0.12 : 0.88);
    tells(point, describe);
  }

  function against(holder) {
    const f = frame(holder, 420, { top: 26, right: 14, bottom: 44, left: 62 }, "predicted against measured " + unit.noun, "group");
    const domain = decades(list.map(p => p.measured).concat(list.map(p => p.predicted)));
    const x = d3.scale.log().domain(domain).range([0, f.width]), y = d3.scale.log().domain(domain).range([f.height, 0]);
    logAxes(f, x, y);
    f.root.append("clipPath").attr("id", "clip-" + id).append("rect").attr("width", f.width).attr("height", f.height);
    const inner = f.root.append("g").attr("clip-path", `url(#clip-${id})`);
    inner.append("path").attr("class", "band").attr("d", "M" + [[0, 1.1], [1, 1.1], [1, 0.9], [0, 0.9]]
      .map(([end, k]) => [x(domain[end]), y(domain[end] * k)]).join("L") + "Z");
    inner.append("line").attr("x1", x(domain[0])).attr("x2", x(domain[1])).attr("y1", y(domain[0])).attr("y2", y(domain[1])).style("stroke", "var(--soft)");
    draw(f, x, y, p => p.predicted);
    f.root.append("text").attr("class", "soft").attr("x", -8).attr("y", -10).text(`predicted ${unit.noun}`);
  }

  // Grid and labels at powers of ten.
  function logAxes(f, x, y) {
    const ticks = d3.range(Math.round(Math.log10(x.domain()[0])), Math.round(Math.log10(x.domain()[1])) + 1).map(e => 10 ** e);
    const every = Math.ceil(ticks.length / Math.max(2, Math.floor(f.width / 70)));
    const axis = (scale, orient, size, shown) => d3.svg.axis().scale(scale).orient(orient).tickValues(ticks).innerTickSize(-size).outerTickSize(0)
      .tickPadding(8).tickFormat(v => shown(ticks.findIndex(t => t === v)) ? unit.text(v) : "");
    f.root.append("g").attr("class", "axis grid").attr("transform", `translate(0,${f.height})`).call(axis(x, "bottom", f.height, i => i % every === 0));
    if (y) f.root.append("g").attr("class", "axis grid").call(axis(y, "left", f.width, () => true));
    f.root.append("text").attr("class", "soft").attr("x", f.width).attr("y", f.height + 36).attr("text-anchor", "end").text(`measured ${unit.noun}`);
  }

  function errors(holder) {
    const f = frame(holder, 420, { top: 26, right: 14, bottom: 44, left: 50 }, "error against measured " + unit.noun, "group");
    const most = Math.min(2, Math.max(0.2, 1.08 * d3.max(list, p => Math.abs(error(p)))));
    const x = d3.scale.log().domain(decades(list.map(p => p.measured))).range([0, f.width]);
    const y = d3.scale.linear().domain([-Math.min(1, most), most]).range([f.height, 0]).clamp(true);
    logAxes(f, x, null);
    axisY(f, y, "predicted / measured − 1", v => part(v).replace(".0%", "%"));
    f.root.append("rect").attr("class", "band").attr("width", f.width).attr("y", y(0.1)).attr("height", y(-0.1) - y(0.1));
    f.root.append("line").attr("x2", f.width).attr("y1", y(0)).attr("y2", y(0)).style("stroke", "var(--soft)");
    draw(f, x, y, error);
  }

  function redraw() {
    against(holders[0]);
    errors(holders[1]);
  }
  draws(id, redraw);
}

const timed = list => list.filter(p => p.measured_s > 0 && p.predicted_s > 0).map(d => ({ d, measured: d.measured_s, predicted: d.predicted_s }));
// Groups of most points first: these get a colour of their own.
const namesOf = list => {
  const n = {};
  list.forEach(p => { n[p.d.group] = (n[p.d.group] || 0) + 1; });
  return Object.keys(n).sort((a, b) => n[b] - n[a] || (a < b ? -1 : 1));
};
const runs = timed(steps), kernels = timed(operators);
const memory = steps.filter(p => p.measured_bytes > 0 && p.predicted_bytes > 0).map(d => ({ d, measured: d.measured_bytes, predicted: d.predicted_bytes }));
scatter("runs", "Training steps", runs, { noun: "time", text: seconds },
  "Step times of training runs; h200_steps are forward and backward on one device.", namesOf(runs));
scatter("memory", "Peak memory", memory, { noun: "memory", text: b => si(b, "B") },
  "Of the device that holds most, for runs whose source reports it.", namesOf(memory));
scatter("operators", "Operators", kernels, { noun: "time", text: seconds },
  "Single kernels, called again and again, so that data which fits on the chip stays there.", namesOf(kernels));

// ---- tables

(() => {
  function errorTable(parent, title, rows, limits) {
    if (!rows.length) return;
    const memory = rows.some(g => g.memory_rows), limited = limits && rows.some(g => g.limit !== null);
    el(parent, "h3", "", title);
    const table = scrollTable(parent, title), head = el(el(table, "thead"), "tr"), body = el(table, "tbody");
    ["group", "rows", "not predicted", "mean error"].concat(limited ? ["limit"] : [], ["bias", "worst"], memory ? ["with memory", "memory error"] : [],
      memory && limited ? ["limit of memory"] : []).forEach(h => el(head, "th", "", h));
    rows.forEach(g => {
      const tr = el(body, "tr");
      [g.group, count(g.rows), count(g.not_predicted), mean(g.mean_error)].concat(limited ? [mean(g.limit)] : [], [part(g.bias), part(g.worst)],
        memory ? [g.memory_rows ? count(g.memory_rows) : "–", mean(g.memory_error)] : [], memory && limited ? [mean(g.memory_limit)] : [])
        .forEach(c => el(tr, "td", "", c));
    });
  }
  const broken = groups.filter(g => g.set !== "apart" && (g.limit !== null && g.mean_error > g.limit || g.memory_limit !== null && g.memory_error > g.memory_limit));
  const limited = groups.some(g => g.limit !== null);
  const s = section("groups", "Errors by group", broken.length ? `Worse than their limit: ${broken.map(g => g.group).join(", ")}.`
    : limited ? "Every group is within its limit." : "Groups as the tables name them; no limits were given.",
    "A limit is an error that was reached before: a change of the model that makes a group worse is found by it.");
  const of = kind => groups.filter(g => g.set === "groups" && g.kind === kind);
  errorTable(s.root, "Training runs", of("run"), true);
  errorTable(s.root, "Totals over training runs", groups.filter(g => g.set === "totals"), true);
  errorTable(s.root, "Forward and backward on one device", of("passes"), true);
  errorTable(s.root, "Operators", of("operator"), true);
  errorTable(s.root, "Not counted: quality is not ok", groups.filter(g => g.set === "apart"), false);
})();

(() => {
  const plans = dataset("plans");
  if (!plans.length) return;
  const s = section("plans", "Order of plans", `Does the plan that is predicted fastest win? ${count(plans.filter(p => p.regret < 0.01).length)} of ${plural(plans.length, "choice")} lose less than 1%.`,
    "Rank correlation (Spearman): 1 where predictions order the plans of a model as measurements do. Regret: measured time of the plan that is predicted fastest over that of the fastest, minus 1.");
  const table = scrollTable(s.root, "order of plans"), head = el(el(table, "thead"), "tr"), body = el(table, "tbody");
  ["model", "plans", "rank correlation", "regret"].forEach(h => el(head, "th", "", h));
  const row = (name, n, r) => {
    const tr = el(body, "tr");
    [name, n, r.rank_correlation === null ? "–" : r.rank_correlation.toFixed(3), mean(r.regret)].forEach(c => el(tr, "td", "", String(c)));
  };
  plans.forEach(p => row(p.model, p.plans, p));
  dataset("plan_means").forEach(m => row(`mean of ${m.group === "all models" ? m.group : plural(m.models, "model") + " of " + m.group}`, "", m));
})();

drawAll();

// For tests: with #selftest the page hovers over a mark of every chart, highlights a group, and leaves what happened as lines
// "WHAT VALUE" in an element with the id "selftest".
if (window.location.hash === "#selftest") {
  const lines = [], say = (...words) => lines.push(words.join(" "));
  document.querySelectorAll("section").forEach(s => {
    const marks = s.querySelectorAll(".mark");
    say("marks", s.id, marks.length);
    say("lead", s.id, s.querySelector(".lead").textContent);
    if (!marks.length) return;
    marks[0].dispatchEvent(new MouseEvent("mousemove", { bubbles: true, view: window, clientX: 50, clientY: 50 }));
    say("tip", s.id, tip.hidden ? "none" : Array.from(tip.children).map(c => c.textContent).join(" | "));
    hideTip();
    const chooser = s.querySelector("select");
    chooser.selectedIndex = 1;
    chooser.dispatchEvent(new Event("change"));
    say("pale", s.id, Array.from(s.querySelectorAll(".mark")).filter(m => m.style.opacity < 0.5).length);
  });
  say("images", document.images.length);
  say("fetched", performance.getEntriesByType("resource").length);
  say("too-wide-by", document.documentElement.scrollWidth - document.documentElement.clientWidth);
  el(document.body, "pre", "", lines.join("\n")).id = "selftest";
}
