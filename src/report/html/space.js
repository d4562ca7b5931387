// The design space: evaluated chips as points, chips that bounds excluded as counts in cells, baselines as other symbols.
(() => {
  if (search) return;
  const bottlenecks = {
    "tensor cores": "var(--tensor)", "vector cores": "var(--vector)", "HBM bandwidth": "var(--hbm)",
    "global-buffer bandwidth": "var(--buffer)", "transfers and collectives": "var(--network)",
    "gradient all-reduce": "var(--fused)", "pipeline bubble": "var(--bubble)",
  };
  const statuses = {
    best: ["var(--best)", "best chip", "star"], front: ["var(--front)", "evaluated, on the Pareto front", "circle"],
    evaluated: ["var(--evaluated)", "evaluated, not on the front", "circle"],
  };
  const status = d => d.best ? "best" : d.front ? "front" : "evaluated";
  // Symbols of baselines: outlined with the plans of experts, filled with the best plans.
  const others = [
    ["tpuv4", "TPUv4", "diamond"], ["tpuv4-real", "real TPUv4", "square"], ["spotlight", "Spotlight", "triangle-up"],
    ["original", "original Phaze search", "cross"], ["random", "random search", "triangle-down"],
  ];
  const star = "M" + d3.range(10).map(i => { // d3 has none
    const r = i % 2 ? 3.6 : 8.5, a = Math.PI * (i / 5 - 0.5);
    return (r * Math.cos(a)).toFixed(2) + "," + (r * Math.sin(a)).toFixed(2);
  }).join("L") + "Z";
  const symbol = (type, size) => type === "star" ? star : d3.svg.symbol().type(type).size(size)();
  const chips = dataset("chips"), excluded = dataset("excluded"), baselines = dataset("baselines");
  const s = section("space", "Design space: throughput against die area", "",
    "Grey cells count chips that were not evaluated in full, because an upper bound on their " + (objective.ratio ? "throughput" : "objective") + " lies below the best chip; a cell stands at that bound. A bottleneck is what takes most of a training step: the busiest resource while a stage computes, communication between chips, the gradient all-reduce between replicas, or the pipeline bubble.");
  const controls = el(s.root, "div", "controls");
  let objective_run = common.objective_run, pinned = null, coloured = "status";
  if (objective_runs.length > 1)
    select(controls, "chip optimized for", objective_runs.slice(-1).concat(objective_runs.slice(0, -1))
      .map(c => ({ value: c, text: runTitle(c) })), objective_run, c => {
      objective_run = c;
      pinned = null;
      redraw();
    });
  if (unique(chips.map(d => d.limit)).length > 1)
    select(controls, "colour of points", [{ value: "status", text: "status in the search" }, { value: "limit", text: "bottleneck" }],
      coloured, c => { coloured = c; redraw(); });
  const colour = d => coloured === "status" || d.best ? statuses[status(d)][0] : bottlenecks[d.limit] || "var(--rest)";
  const key = el(s.root, "div");
  const panels = el(s.root, "div", "panels two");
  const whole = el(panels, "div"), near = el(panels, "div");
  const holders = [[whole, "All chips"], [near, "Evaluated chips, enlarged"]].map(([p, title]) => {
    el(p, "h3", "", title);
    return el(p, "div");
  });
  const pin = el(s.root, "div", "pinned");
  pin.id = "pinned";

  const describe = d => [d.chip,
    `${value(d.objective)} ${objective.ratio ? "the throughput of " + reference : objective.text}, ${d.area_mm2.toFixed(1)} mm², ${number(d.watts)} W peak`,
    `${plural(d.tensor_cores, "tensor core")} of ${d.rows}×${d.cols}, ${plural(d.vector_cores, "vector core")} of ${d.lanes} lanes, ${number(d.glb_mib)} MiB global buffer`,
    `bottleneck: ${d.limit}`, d.front ? "on the Pareto front of objective and area" : ""];

  function showPlans(d) {
    while (pin.firstChild) pin.removeChild(pin.firstChild);
    el(pin, "h3", "", d.chip + (d.best ? ", the best chip" : ""));
    el(pin, "p", "note", describe(d).slice(1).filter(x => x).join("; "));
    const table = scrollTable(pin, "plans of the chip");
    const head = el(el(table, "thead"), "tr");
    ["model", "samples/s", "×\u00a0reference", "pipeline stages", "replicas", "tensor parallel", "microbatch size",
      "activations", "bottleneck", "compute, communication, bubble"].forEach(h => el(head, "th", "", h));
    const body = el(table, "tbody");
    dataset("plans").filter(p => p.chip_id === d.chip_id).forEach(p => {
      const tr = el(body, "tr");
      [short(p.model), number(p.samples_per_s), times(p.ratio), p.stages, p.replicas, p.tensor_parallel, p.microbatch, p.recompute
        ? "checkpointed" : "stored", p.limit].forEach(c => el(tr, "td", "", String(c)));
      const bar = el(el(tr, "td"), "span", "parts");
      bar.title = `compute ${percent(p.compute_part)}, communication ${percent(p.network_part)}, pipeline bubble ${percent(p.bubble_part)}`;
      [[p.compute_part, "--tensor"], [p.network_part, "--network"], [p.bubble_part, "--bubble"]].forEach(([part, c]) => {
        const e = el(bar, "span");
        e.style.cssText = `width:${100 * part}%;background:var(${c})`;
      });
    });
  }

  // The baselines of an objective run that have a chip.
  const placed = () => unique(baselines.filter(b => b.objective_run === objective_run && b.method !== "search" && b.objective > 0).map(b => b.method))
    .map(way => baselines.find(b => b.objective_run === objective_run && b.method === way))
    .map(b => ({ b, kind: others.find(o => o[0] === b.method.replace(/-(expert|placed)$/, "")) })).filter(o => o.kind)
    .map(({ b, kind }) => ({ b, type: kind[2], hollow: /-expert$/.test(b.method),
      name: kind[1] + (/-expert$/.test(b.method) ? ", expert plan" : /-placed$/.test(b.method) ? ", best plan" : "") }));

  function drawBaselines(inner, x, y, list, size) {
    const o = inner.selectAll(".other").data(list).enter().append("g").attr("class", "other")
      .attr("transform", d => `translate(${x(d.at_mm2)},${y(d.b.objective)})`);
    o.append("path").attr("class", "mark").attr("d", d => symbol(d.type, size)).style("fill", d => d.hollow ? "var(--bg)" : "var(--ink)")
      .style("stroke", d => d.hollow ? "var(--ink)" : "var(--bg)").style("stroke-width", d => d.hollow ? 1.6 : 0.8);
    // Only those that stand clear of the others are named; the legend has all of them.
    const clear = d => /^tpuv4/.test(d.b.method) && list.every(e => e === d || Math.abs(y(e.b.objective) - y(d.b.objective)) > 15 ||
      e.at_mm2 > d.at_mm2 + 1e-9);
    o.filter(clear).append("text").attr("class", "halo").attr("x", -10).attr("y", 4).attr("text-anchor", "end").text(d => d.name);
    tells(o, d => [d.name, `${value(d.b.objective)}, chip ${d.b.chip}, ${d.b.area_mm2.toFixed(1)} mm²`]);
  }

  function drawPanel(holder, list, zoom) {
    // A built chip far beyond the area budget (the real TPUv4 with its whole die) stands at the edge; its tip has its area.
    const budget = common.area_part > 0 ? common.area_mm2 / common.area_part : Infinity;
    const cells = excluded.filter(e => e.objective_run === objective_run), extra = placed().map(o => Object.assign({ at_mm2: Math.min(o.b.area_mm2, 1.1 * budget) }, o));
    const f = frame(holder, 380, { top: 26, right: 14, bottom: 44, left: 50 }, zoom ? "objective against area, evaluated chips"
      : "objective against area, all chips", "group");
    const values = list.map(d => d.objective), areas = list.map(d => d.area_mm2);
    const pad = (lo, hi) => { const p = (hi - lo || hi || 1) * 0.08; return [lo - p, hi + p]; };
    const x = d3.scale.linear().range([0, f.width])
      .domain(zoom ? pad(d3.min(areas), d3.max(areas)) : [0, 1.04 * d3.max(cells.map(c => c.area_to_mm2)
      .concat(areas, extra.map(o => o.at_mm2)))]);
    const y = d3.scale.linear().range([f.height, 0])
      .domain(zoom ? pad(d3.min(values), d3.max(values)) : [0, 1.08 * d3.max(values.concat(extra.map(o => o.b.objective)))]);
    axisX(f, x, "die area (mm²)", Math.max(3, Math.floor(f.width / 80)));
    axisY(f, y, objective.ratio ? `throughput relative to ${reference} (×)` : objective.text, d => String(+d.toPrecision(4)));
    const clip = "clip" + (zoom ? 1 : 0);
    f.svg.append("clipPath").attr("id", clip).append("rect").attr("width", f.width).attr("height", f.height);
    const inner = f.root.append("g").attr("clip-path", `url(#${clip})`);
    const most = Math.log(1 + (d3.max(cells, c => c.chips) || 1));
    const cell = inner.selectAll(".cell").data(cells).enter().append("rect").attr("class", "cell")
      .attr("x", c => x(c.area_from_mm2)).attr("y", c => y(c.bound_to))
      .attr("width", c => x(c.area_to_mm2) - x(c.area_from_mm2) + 0.5).attr("height", c => y(c.bound_from) - y(c.bound_to) + 0.5)
      .style("fill", "var(--rest)").style("opacity", c => (zoom ? 0.12 : 0.2) + 0.65 * Math.log(1 + c.chips) / most * (zoom ? 0.4
        : 1));
    tells(cell, c => [plural(c.chips, "excluded chip"), `${c.area_from_mm2.toFixed(0)} to ${c.area_to_mm2.toFixed(0)} mm²`,
      `upper bound ${value(c.bound_to)}`]);
    const front = list.filter(d => d.front).sort((a, b) => a.area_mm2 - b.area_mm2);
    inner.append("path").attr("class", "front").attr("d", d3.svg.line().x(d => x(d.area_mm2)).y(d => y(d.objective))
      .interpolate("step-after")(front))
      .style("fill", "none").style("stroke", "var(--front)").style("stroke-width", 1.5);
    const inside = (v, scale) => v >= scale.domain()[0] && v <= scale.domain()[1];
    // A chip of the space that a baseline found is a point, too: its symbol shows behind the point.
    drawBaselines(inner, x, y, extra.filter(o => inside(o.at_mm2, x) && inside(o.b.objective, y)), zoom ? 240 : 75);
    // The best last, above the others, then those on the front.
    const order = list.slice().reverse().sort((a, b) => (a.best - b.best) || (a.front - b.front));
    const point = inner.selectAll(".point").data(order).enter().append("path").attr("class", d => "point mark " + status(d))
      .attr("transform", d => `translate(${x(d.area_mm2)},${y(d.objective)})`)
      .attr("d", d => symbol(statuses[status(d)][2], zoom ? 75 : 30))
      .attr("tabindex", zoom ? 0 : null).attr("role", zoom ? "button" : null).attr("aria-label", d => `${d.chip}: ${statuses[status(d)][1]}`)
      .style("fill", colour).style("stroke", "var(--bg)").style("stroke-width", d => d.best ? 1.2 : 0.8);
    tells(point, describe);
    const choose = d => { pinned = d; showPlans(d); mark(); };
    point.on("click", choose).on("keydown",
      d => { if (d3.event.key === "Enter" || d3.event.key === " ") { d3.event.preventDefault(); choose(d); } });
    const ring = inner.append("circle").attr("class", "ring").attr("r", 11).style("pointer-events", "none").style("fill", "none")
      .style("stroke", "var(--ink)").style("stroke-width", 1.5);
    const best = list.find(d => d.best) || list[0];
    return () => { const d = pinned || best; ring.attr("cx", x(d.area_mm2)).attr("cy", y(d.objective)); };
  }

  function drawLegend(list) {
    while (key.firstChild) key.removeChild(key.firstChild);
    const at = name => list.some(d => status(d) === name), extra = placed();
    const points = coloured === "status"
      ? Object.keys(statuses).filter(at).map(k => ({ symbol: symbol(statuses[k][2], 70), colour: statuses[k][0], text: statuses[k][1] }))
      : [{ symbol: star, colour: statuses.best[0], text: statuses.best[1] }]
        .concat(unique(list.map(d => d.limit)).map(l => ({ symbol: symbol("circle", 70), colour: bottlenecks[l], text: l })));
    legend(key, points.concat([{ kind: "line", text: "Pareto front of the evaluated chips" },
      { kind: "ring", text: "chip shown below" }],
      excluded.some(e => e.objective_run === objective_run) ? [{ colour: "var(--rest)", text: "excluded by a bound (darker: more chips)" }] : []));
    legend(key, others.filter(o => extra.some(e => e.type === o[2])).map(o => ({ symbol: symbol(o[2], 70), colour: "var(--ink)",
      text: o[1] })).concat(extra.some(e => e.hollow) ? [{ symbol: symbol("diamond", 55), colour: "none", stroke: "var(--ink)",
      text: "outlined: with expert plans" }] : []));
  }

  let marks = [];
  function mark() { marks.forEach(m => m()); }
  function redraw() {
    const list = chips.filter(c => c.objective_run === objective_run);
    const at = dataset("objective_runs").find(c => c.objective_run === objective_run);
    const reached = value(at.objective) + (objective.ratio ? "" : ` (${objective.text})`);
    s.say((at.chips === 1 ? `There is one chip, at ${reached}` : at.evaluated === at.chips ? `All ${count(at.chips)} chips were evaluated; the best reaches ${reached}`
      : `${count(at.evaluated)} of ${count(at.chips)} chips were evaluated; upper bounds exclude the others. The best reaches ${reached}`) + ` at ${at.area_mm2.toFixed(1)} mm². Point at a chip (or tap it) for its parameters; click it for its plans.`);
    drawLegend(list);
    marks = holders.map((h, i) => drawPanel(h, list, i === 1));
    showPlans(pinned || list.find(d => d.best) || list[0]);
    mark();
  }
  draws("space", redraw);
})();
