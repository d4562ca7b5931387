// The best chip, the chips of today, and chips under tighter limits.
(() => {
  if (!has("front")) return;
  const chips = dataset("chips");
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
