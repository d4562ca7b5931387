// The chips of today beside the best one.

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
  if (!search) return;
  const chips = dataset("chips"), first = chips.filter(c => c.model === models[0]), rest = first.filter(c => c.role !== "best");
  const above = rest.filter(c => c.value > best.value);
  const s = section("chips", "Beside the chips of today",
    above.length ? `${above.map(c => c.chip).join(", ")} ${above.length > 1 ? "are" : "is"} above it, with ${above.map(c => `${number(c.area_mm2)} mm²`).join(", ")} of dies.` : "None of them is above it.",
    "All under the same models of time and cost, in the network of this search; built chips as their data sheets describe them. “phaze compare --chips” compares them in their own networks.");
  const holder = el(s.root, "div");
  draws("chips", () => bars(holder, first.map(c => ({ label: c.role === "best" ? "best chip" : c.chip, value: c.value, text: times(c.value), colour: c.role === "best" ? "var(--best)" : "var(--tensor)",
    tip: [c.chip, `${times(c.value)} an H100${per}`, `${number(c.area_mm2)} mm², ${number(c.peak_watts)} W peak, $${number(c.dollars)}`, c.plan] })),
    `× H100${per}`, number, 100));
  textTable(s.root, "chips with their best plans", ["chip", "model", "step (s)", "samples/s", "MFU", "W", "J/sample", "mm²", "peak W", "GHz of GEMMs", "$", "plan"],
    chips.map(c => [c.chip, short(c.model), number(c.step_s), number(c.samples_per_s), percent(c.mfu), number(c.watts), number(c.joules_per_sample),
      number(c.area_mm2), number(c.peak_watts), number(c.gemm_hz / 1e9), number(c.dollars), c.plan]));
})();
