// Every chip: those that were evaluated as points, those that bounds excluded as a cloud.
(() => {
  const colours = {
    "tensor cores": "var(--tensor)", "vector cores": "var(--vector)", "HBM bandwidth": "var(--hbm)",
    "buffer bandwidth": "var(--buffer)", "transfers and collectives": "var(--network)",
    "exchange of gradients": "var(--fused)", "pipeline bubble": "var(--bubble)",
  };
  const chips = sheet("chips"), excluded = sheet("excluded"), baselines = sheet("baselines");
  const s = section("space", "Every chip of the space", "",
    "Grey cells count chips that were not evaluated in full because a bound shows that they cannot be above that height. A point’s colour is what takes most of its step: the kind of core or memory that is busiest while a stage computes, waiting for data from other chips, exchanging gradients between replicas, or the pipeline’s idle time.");
  const controls = el(s.root, "div", "controls");
  let contest = common.contest, pinned = null;
  if (contests.length > 1)
    select(controls, "best chip for", contests.slice(-1).concat(contests.slice(0, -1))
      .map(c => ({ value: c, text: contestTitle(c) })), contest, c => {
      contest = c;
      pinned = null;
      redraw();
    });
  const key = el(s.root, "div");
  const panels = el(s.root, "div", "panels two");
  const whole = el(panels, "div"), near = el(panels, "div");
  const holders = [[whole, "the whole space"], [near, "the chips that were evaluated"]].map(([p, title]) => {
    el(p, "h3", "", title);
    return el(p, "div");
  });
  const pin = el(s.root, "div", "pinned");
  pin.id = "pinned";

  const describe = d => [d.chip,
    `${value(d.objective)} ${objective.ratio ? reference : objective.text}, ${d.area_mm2.toFixed(1)} mm², ${number(d.watts)} W peak`,
    `${plural(d.tensor_cores, "tensor core")} of ${d.rows}×${d.cols}, ${plural(d.vector_cores, "vector core")} of ${d.lanes} lanes, ${number(d.glb_mib)} MiB`,
    `limited by: ${d.limit}`, d.front ? "on the front of throughput against area" : ""];

  function showPlans(d) {
    while (pin.firstChild) pin.removeChild(pin.firstChild);
    el(pin, "h3", "", d.chip + (d.best ? ", the best" : ""));
    el(pin, "p", "note", describe(d).slice(1).filter(x => x).join("; "));
    const table = el(el(pin, "div", "scroll"), "table");
    const head = el(el(table, "thead"), "tr");
    ["model", "samples/s", "×\u00a0TPUv4", "stages", "replicas", "tensor parallel", "microbatch", "activations", "limited by",
      "compute, network, bubble"].forEach(h => el(head, "th", "", h));
    const body = el(table, "tbody");
    sheet("plans").filter(p => p.chip_id === d.chip_id).forEach(p => {
      const tr = el(body, "tr");
      [short(p.model), number(p.samples_per_s), times(p.ratio), p.stages, p.replicas, p.tensor_parallel, p.microbatch, p.recompute
        ? "recomputed" : "kept", p.limit].forEach(c => el(tr, "td", "", String(c)));
      const bar = el(el(tr, "td"), "span", "parts");
      bar.title = `compute ${percent(p.compute_part)}, network ${percent(p.network_part)}, bubble ${percent(p.bubble_part)}`;
      [[p.compute_part, "--tensor"], [p.network_part, "--network"], [p.bubble_part, "--bubble"]].forEach(([part, c]) => {
        const e = el(bar, "span");
        e.style.cssText = `width:${100 * part}%;background:var(${c})`;
      });
    });
  }

  function drawPanel(holder, list, zoom) {
    const cells = excluded.filter(e => e.contest === contest);
    const best = list.find(d => d.best) || list[0];
    const others = ["tpuv4-expert", "tpuv4-placed"].map(w => baselines.find(b => b.contest === contest && b.way === w))
      .filter(b => b && b.objective > 0);
    const f = frame(holder, 380, { top: 26, right: 14, bottom: 44, left: 50 }, "throughput against area", "group");
    const values = list.map(d => d.objective), areas = list.map(d => d.area_mm2);
    const pad = (lo, hi) => { const p = (hi - lo || hi || 1) * 0.08; return [lo - p, hi + p]; };
    const x = d3.scale.linear().range([0, f.width])
      .domain(zoom ? pad(d3.min(areas), d3.max(areas)) : [0, 1.04 * d3.max(cells.map(c => c.area_to_mm2)
      .concat(areas, others.map(o => o.area_mm2)))]);
    const y = d3.scale.linear().range([f.height, 0])
      .domain(zoom ? pad(d3.min(values), d3.max(values)) : [0, 1.08 * d3.max(values)]);
    axisX(f, x, "area, mm²", Math.max(3, Math.floor(f.width / 80)));
    axisY(f, y, objective.ratio ? "times " + reference : objective.text, d => String(+d.toPrecision(4)));
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
      `at most ${value(c.bound_to)}`]);
    const front = list.filter(d => d.front).sort((a, b) => a.area_mm2 - b.area_mm2);
    inner.append("path").attr("class", "front").attr("d", d3.svg.line().x(d => x(d.area_mm2)).y(d => y(d.objective))
      .interpolate("step-after")(front))
      .style("fill", "none").style("stroke", "var(--ink)").style("stroke-width", 1.5);
    if (!zoom) {
      const near = others.length > 1 && Math.abs(y(others[0].objective) - y(others[1].objective)) < 14;
      const o = f.root.selectAll(".other").data(others).enter().append("g")
        .attr("transform", d => `translate(${x(d.area_mm2)},${y(d.objective)})`);
      o.append("path").attr("class", "mark").attr("d", d3.svg.symbol().type("diamond").size(90)).style("fill", "var(--bg)")
        .style("stroke", "var(--ink)").style("stroke-width", 1.6);
      o.append("text").attr("x", -10).attr("y", 4).attr("text-anchor", "end")
        .text((d, i) => near ? (i ? "" : "TPUv4") : d.way === "tpuv4-expert" ? "TPUv4, expert plan" : "TPUv4, best plan");
      tells(o, d => [d.about, `${value(d.objective)}, ${d.area_mm2.toFixed(1)} mm²`]);
    }
    const point = inner.selectAll(".point").data(list.slice().reverse()).enter().append("circle").attr("class", "point mark")
      .attr("cx", d => x(d.area_mm2)).attr("cy", d => y(d.objective)).attr("r", d => d.best ? 6.5 : zoom ? 5 : 3.2)
      .attr("tabindex", zoom ? 0 : null).attr("role", zoom ? "button" : null).attr("aria-label", d => d.chip)
      .style("fill", d => colours[d.limit] || "var(--rest)").style("stroke", d => d.best ? "var(--ink)" : "var(--bg)")
        .style("stroke-width", d => d.best ? 2 : 0.8);
    tells(point, describe);
    const choose = d => { pinned = d; showPlans(d); mark(); };
    point.on("click", choose).on("keydown",
      d => { if (d3.event.key === "Enter" || d3.event.key === " ") { d3.event.preventDefault(); choose(d); } });
    const ring = inner.append("circle").attr("class", "ring").attr("r", 10).style("pointer-events", "none").style("fill", "none")
      .style("stroke", "var(--accent)").style("stroke-width", 2);
    return () => { const d = pinned || best; ring.attr("cx", x(d.area_mm2)).attr("cy", y(d.objective)); };
  }

  let marks = [];
  function mark() { marks.forEach(m => m()); }
  function redraw() {
    const list = chips.filter(c => c.contest === contest);
    const at = sheet("contests").find(c => c.contest === contest), limits = unique(list.map(d => d.limit));
    s.say((at.chips === 1 ? `There is one chip, with ${value(at.objective)}` : at.evaluated === at.chips ? `All ${count(at.chips)} chips were evaluated; the best has ${value(at.objective)}`
      : `${count(at.evaluated)} of ${count(at.chips)} chips had to be evaluated; by their bounds none of the others is above the best, ${value(at.objective)}`) + ` at ${at.area_mm2.toFixed(1)} mm². Hover over a point (or tap it) for its chip, click it for its plans.`);
    while (key.firstChild) key.removeChild(key.firstChild);
    legend(key, limits.map(l => ({ colour: colours[l], text: "limited by " + l }))
      .concat([{ kind: "ring", text: "best" }, { kind: "line", text: "front of the evaluated chips" }, { colour: "var(--rest)",
        text: "excluded by bounds" }, { kind: "diamond", text: "TPUv4" }]));
    marks = holders.map((h, i) => drawPanel(h, list, i === 1));
    showPlans(pinned || list.find(d => d.best) || list[0]);
    mark();
  }
  draws("space", redraw);
})();
