// One step away from the winner on every axis.
(() => {
  const rows = sheet("sensitivity");
  if (!rows.length) {
    section("sensitivity", "What limits it", "The design space has one value for every number of the chip: there is no step to take.");
    return;
  }
  const what = objective.ratio ? "throughput" : "the objective";
  const gain = rows.slice().sort((a, b) => b.change - a.change)[0], loss = rows.slice().sort((a, b) => a.change - b.change)[0];
  const inside = rows.filter(r => r.within_budget && r.change > 5e-5).length;
  const s = section("sensitivity", "What limits it",
    `The largest loss is ${loss.parameter} ${number(loss.from)} → ${number(loss.to)} (${signed(loss.change)})` +
    (gain.change > 5e-5 ? `; the largest gain, ${gain.parameter} ${number(gain.from)} → ${number(gain.to)} (${signed(gain.change)}), ${gain.within_budget ? "is within the budget" : "does not fit the area budget"}.` : "; no single step gains anything.") +
    (inside ? "" : " Nothing within the budget is better."),
    "Each bar changes one number of the chip by one step of the design space and makes all schedules and plans again. Pale bars lie outside the area budget.");
  const holder = el(s.root, "div");
  draws("sensitivity", () => {
    const narrow = holder.clientWidth < 600, left = narrow ? 4 : 230, rowHeight = narrow ? 42 : 26;
    const f = frame(holder, rows.length * rowHeight + 54, { top: 4, right: 64, bottom: 44, left }, "changes of " + what);
    const low = Math.min(0, d3.min(rows, r => r.change)), high = Math.max(0, d3.max(rows, r => r.change)),
      room = (high - low || 0.01) * 0.16;
    const x = d3.scale.linear().domain([low - room, high + room * 0.3]).range([0, f.width]);
    axisX(f, x, "change of " + what, narrow ? 3 : 6, d => (+(100 * d).toFixed(6) + "%").replace("-", "−"));
    const g = f.root.selectAll(".row").data(rows).enter().append("g")
      .attr("transform", (d, i) => `translate(0,${i * rowHeight})`);
    g.append("text").attr("x", narrow ? 0 : -10).attr("y", narrow ? 13 : 17).attr("text-anchor", narrow ? "start" : "end")
      .text(d => `${d.parameter} ${number(d.from)} → ${number(d.to)}`);
    g.append("rect").attr("class", "mark").attr("x", d => x(Math.min(0, d.change)))
      .attr("width", d => Math.max(1.5, Math.abs(x(d.change) - x(0)))).attr("y", narrow ? 19 : 4).attr("height", 17)
      .style("fill", d => d.change < 0 ? "var(--network)" : "var(--buffer)").style("opacity", d => d.within_budget ? 1 : 0.45);
    g.append("text").attr("y", narrow ? 32 : 17).attr("x", d => d.change < 0 ? x(d.change) - 5 : x(Math.max(0, d.change)) + 5)
      .attr("text-anchor", d => d.change < 0 ? "end" : "start").text(d => signed(d.change));
    f.root.append("path").attr("d", `M${x(0)},0V${f.height}`).style("stroke", "var(--ink)");
    tells(g, d => [`${d.parameter} ${number(d.from)} → ${number(d.to)}`, `${signed(d.change)} of ${what}`,
      `${d.area_mm2.toFixed(1)} mm², ${d.within_budget ? "within" : "outside"} the budget`]);
  });
})();
