// Why nothing better was missed.
(() => {
  const s = section("certificate", "The certificate",
    common.chips === 1 ? "The one chip of the space was evaluated in full." : `Every one of the ${count(common.chips)} chips was evaluated or excluded by a bound that holds for it: ${count(common.excluded_by_tables)} by bounds from tables of operator times, ${count(common.excluded_after_schedules)} after some of their schedules, ${count(common.evaluated)} evaluated in full.`,
    (common.open_schedules ? `${plural(common.open_schedules, "schedule")} could not be proven the shortest; with their lower bounds instead, no chip could be more than ${percent(common.gap, 2)} better. ` : "All schedules that decide are proven the shortest. ") +
    "“phaze verify DIR” makes everything again from the inputs and compares, and checks plans by code that shares nothing with their solver.");
  const holder = el(s.root, "div");
  const rows = [
    ["chips within the budget", common.chips],
    ["left by the first bounds", common.evaluated + common.excluded_after_schedules],
    ["evaluated in full", common.evaluated], ["the best", 1],
  ];
  draws("certificate", () => {
    const f = frame(holder, rows.length * 30 + 50, { top: 4, right: 70, bottom: 42, left: 176 }, "chips that were left");
    const x = d3.scale.log().domain([0.7, common.chips]).range([0, f.width]);
    const ticks = d3.range(0, 10).map(i => 10 ** i).filter(t => t <= common.chips);
    f.root.append("g").attr("class", "axis grid").attr("transform", `translate(0,${f.height})`)
      .call(d3.svg.axis().scale(x).orient("bottom").tickValues(ticks).tickFormat(count)
        .innerTickSize(-f.height).outerTickSize(0).tickPadding(8));
    f.root.append("text").attr("class", "soft").attr("x", f.width).attr("y", f.height + 36).attr("text-anchor", "end")
      .text("chips, each line ten times as many");
    const g = f.root.selectAll(".row").data(rows).enter().append("g").attr("transform", (d, i) => `translate(0,${i * 30})`);
    g.append("text").attr("x", -8).attr("y", 19).attr("text-anchor", "end").text(d => d[0]);
    g.append("rect").attr("class", "mark").attr("y", 5).attr("height", 20).attr("width", d => x(d[1])).attr("rx", 2)
      .style("fill", (d, i) => i === 3 ? "var(--accent)" : "var(--rest)");
    g.append("text").attr("y", 19).attr("x", d => x(d[1]) + 6).text(d => count(d[1]));
    tells(g, d => [d[0], count(d[1])]);
  });
  if (contests.length < 2) return;
  const table = el(el(s.root, "div", "scroll"), "table"), head = el(el(table, "thead"), "tr"), body = el(table, "tbody");
  ["best for", "chip", "HBM GiB", "mm²", objective.ratio ? "×\u00a0TPUv4" : "objective", "chips evaluated",
    "excluded after schedules", "excluded by tables", "schedules not proven", "a better one by at most"].forEach(h => el(head, "th", "", h));
  sheet("contests").forEach(c => {
    const tr = el(body, "tr");
    [contestTitle(c.contest), c.chip, number(c.hbm_gib), c.area_mm2.toFixed(1), value(c.objective), count(c.evaluated),
      count(c.excluded_after_schedules), count(c.excluded_by_tables), count(c.open_schedules), percent(c.gap,
      2)].forEach(t => el(tr, "td", "", t));
  });
})();
