// One step away from the best chip on every parameter: a row for each parameter that the run varied, whichever they are.
(() => {
  const rows = dataset("sensitivity"), what = objective.ratio ? "throughput" : "the objective";
  const title = `Sensitivity of ${what} to the chip’s parameters`;
  if (!rows.length) {
    section("sensitivity", title, "The design space has one value for every parameter of the chip: nothing can be varied.");
    return;
  }
  const amount = x => typeof x === "number" ? number(x) : x;
  const withUnit = (r, x) => amount(x) + (r.unit ? "\u00a0" + r.unit : "");
  const step = r => `${amount(r.from)} → ${withUnit(r, r.to)}`;
  const gain = rows.slice().sort((a, b) => b.change - a.change)[0], loss = rows.slice().sort((a, b) => a.change - b.change)[0];
  const inside = rows.some(r => !r.breaks && r.change > 5e-5), where = r => r.breaks ? `beyond the limit of ${r.breaks}` : "within the limits";
  const whereText = r => r.where ? `${r.where} ${signed(r.where_change)}` : search && r.change <= -1 ? "out of memory" : "";
  // What the nearest other arrays and numbers of vector cores lose, and in which term of the step.
  const next = [["array", /^(array|rows|columns)/], ["number of vector cores", /^vector cores/]].map(([name, which]) => {
    const r = rows.filter(r => which.test(r.parameter) && r.where).sort((a, b) => b.change - a.change)[0];
    return r && ` The next best ${name} (${r.parameter} ${step(r)}) ${r.change < 0 ? "loses" : "gains"} ${signed(r.change).slice(1)}: ${r.where} ${signed(r.where_change)} of the step${r.breaks ? `; it is ${where(r)}` : ""}.`;
  }).filter(t => t).join("");
  const s = section("sensitivity", title,
    `The largest loss is ${signed(loss.change)}, for ${loss.parameter} ${step(loss)}` +
    (gain.change > 5e-5 ? `; the largest gain is ${signed(gain.change)}, for ${gain.parameter} ${step(gain)}, ${where(gain)}.` : "; no single change is a gain.") +
    (inside || gain.change <= 5e-5 ? "" : " No single change within the limits is a gain.") + next,
    `Each bar changes one parameter of the best chip to the next lower or next higher value of the design space, keeps the others, and optimizes all ${search ? "" : "schedules and "}plans for the changed chip.${search ? " Beside it: the term of the step that changes most, in parts of the step on the best chip." : ""}`);
  legend(s.root, [{ colour: "var(--front)", text: "loss" }, { colour: "var(--evaluated)", text: "gain" },
    { kind: "pale", text: "outline: beyond a limit" }]);
  const parameters = unique(rows.map(r => r.parameter)).map(name => ({ name, steps: rows.filter(r => r.parameter === name) }));
  const holder = el(s.root, "div");
  // Of each model the terms that change most, and the plan of the changed chip.
  const terms = r => models.slice(0, 4).map(model => {
    const own = dataset("neighbours").filter(t => t.model === model && t.parameter === r.parameter && t.from === r.from && t.to === r.to);
    const most = own.filter(t => Math.abs(t.change) > 5e-4).sort((a, b) => Math.abs(b.change) - Math.abs(a.change)).slice(0, 3);
    return own.length ? `${short(model)}: ${most.map(t => `${t.term} ${signed(t.change)}`).join(", ") || "no change"}; ${own[0].plan}` : "";
  });
  draws("sensitivity", () => {
    const narrow = holder.clientWidth < 600, barHeight = 22, title = narrow ? 20 : 0, gap = 10;
    let height = 0;
    parameters.forEach(p => {
      p.top = height;
      height += title + p.steps.length * barHeight + gap;
    });
    const left = narrow ? Math.max(92, 16 + 6.2 * d3.max(rows, r => step(r).length)) : 290;
    const label = r => signed(r.change) + (narrow || !r.where ? "" : ` (${whereText(r)})`);
    const right = Math.max(64, 8 + 6.6 * d3.max(rows, r => r.change < 0 ? 0 : label(r).length));
    const f = frame(holder, height + 48, { top: 4, right, bottom: 44, left }, `change of ${what} for one step of each parameter`);
    const low = Math.min(0, d3.min(rows, r => r.change)), high = Math.max(0, d3.max(rows, r => r.change)),
      room = (high - low || 0.01) * (narrow ? 0.62 : search ? 0.36 : 0.12);
    const x = d3.scale.linear().domain([low - room, high + room * 0.2]).range([0, f.width]);
    axisX(f, x, `change of ${what} (%)`, narrow ? 3 : 6, d => (+(100 * d).toFixed(6) + "%").replace("-", "−"));
    const g = f.root.selectAll(".parameter").data(parameters).enter().append("g").attr("class", "parameter")
      .attr("transform", p => `translate(0,${p.top})`);
    g.append("path").attr("d", p => `M${-left},${-gap / 2}H${f.width}`).style("stroke", (p, i) => i ? "var(--grid)" : "none");
    g.append("text").attr("x", -left).attr("y", p => narrow ? 14 : p.steps.length * barHeight / 2 + 4)
      .style("font-weight", 600).text(p => fitted(p.name, narrow ? left + f.width : 180));
    const bar = g.selectAll(".step").data(p => p.steps).enter().append("g").attr("class", "step")
      .attr("transform", (r, i) => `translate(0,${title + i * barHeight})`);
    bar.append("text").attr("class", "soft").attr("x", -10).attr("y", 15).attr("text-anchor", "end").text(step);
    const colour = r => r.change < 0 ? "var(--front)" : "var(--evaluated)";
    bar.append("rect").attr("class", "mark").attr("x", r => x(Math.min(0, r.change)))
      .attr("width", r => Math.max(1.5, Math.abs(x(r.change) - x(0)))).attr("y", 3).attr("height", barHeight - 6)
      .style("fill", colour).style("fill-opacity", r => r.breaks ? 0.25 : 1).style("stroke", r => r.breaks ? colour(r) : "none");
    // a long bar to the left has its label inside, where the one before it would be in its way
    const inside = r => r.change < 0 && x(r.change) - 5 < 6.6 * label(r).length;
    bar.append("text").attr("y", 15).attr("x", r => r.change < 0 && !inside(r) ? x(r.change) - 5 : x(inside(r) ? r.change : Math.max(0, r.change)) + 5)
      .attr("text-anchor", r => r.change < 0 && !inside(r) ? "end" : "start").style("fill", r => inside(r) && !r.breaks ? "#fff" : null).text(label);
    f.root.append("path").attr("d", `M${x(0)},0V${f.height}`).style("stroke", "var(--ink)");
    tells(bar, r => [`${r.parameter}: ${step(r)}`, `${signed(r.change)} ${what}` +
      (r.change_at_most > r.change + 5e-6 ? `; at most ${signed(r.change_at_most)}, if schedules not proven optimal met their lower bounds` : ""),
      whereText(r) && `by term of the step: ${whereText(r)}`, ...terms(r),
      `${r.area_mm2.toFixed(1)} mm², ${number(r.watts)} W${r.dollars ? `, $${number(r.dollars)}` : ""}; ${where(r)}`]);
  });
})();
