// The proof that no chip is better: how every chip was evaluated or excluded.
(() => {
  if (search) {
    const s = section("certificate", "Certificate", `${count(certificate.closed)} of ${count(certificate.space)} chips are closed, in ${count(certificate.boxes)} boxes: no chip is more than ${percent(certificate.gap, 2)} better.`,
      "A box is closed where its smallest chip breaks a limit or its largest cannot be better. “phaze verify DIR” checks that the boxes hold every chip once, recomputes a sample of them, the best chip and this page.");
    textTable(s.root, "certificate", ["", ""], [["chips of the space", count(certificate.space)], ["closed", count(certificate.closed)], ["evaluated one by one", count(certificate.evaluated)],
      ["boxes", count(certificate.boxes)], ["rounds", count(certificate.rounds)], ["gap", percent(certificate.gap, 3)], ["finished", certificate.finished ? "yes" : "no"]]);
    return;
  }
  const s = section("certificate", "Proof of optimality",
    common.chips === 1 ? "The only chip of the design space was evaluated in full." : common.evaluated === common.chips ? `All ${count(common.chips)} chips were evaluated in full.` : `Every one of the ${count(common.chips)} chips was evaluated or excluded by an upper bound on its ${objective.ratio ? "throughput" : "objective"}: ${count(common.excluded_by_tables)} by bounds from operator times alone, ${count(common.excluded_after_schedules)} after some of their layers were scheduled; ${count(common.evaluated)} were evaluated in full.`,
    (common.open_schedules ? `${plural(common.open_schedules, "schedule")} could not be proven optimal; even with their lower bounds, no chip could be more than ${percent(common.gap, 2)} better. ` : "All schedules that the result depends on are proven optimal. ") +
    "“phaze verify DIR” repeats the search from its inputs, compares the results, and checks the plans with a checker that shares no code with the solver.");
  const holder = el(s.root, "div");
  const rows = [
    ["chips within the area budget", common.chips],
    ["left after operator bounds", common.evaluated + common.excluded_after_schedules],
    ["evaluated in full", common.evaluated], ["best", 1],
  ];
  draws("certificate", () => {
    const f = frame(holder, rows.length * 30 + 50, { top: 4, right: 70, bottom: 42, left: 186 }, "number of chips left after each step of the search");
    const x = d3.scale.log().domain([0.7, common.chips]).range([0, f.width]);
    const ticks = d3.range(0, 10).map(i => 10 ** i).filter(t => t <= common.chips);
    f.root.append("g").attr("class", "axis grid").attr("transform", `translate(0,${f.height})`)
      .call(d3.svg.axis().scale(x).orient("bottom").tickValues(ticks).tickFormat(count)
        .innerTickSize(-f.height).outerTickSize(0).tickPadding(8));
    f.root.append("text").attr("class", "soft").attr("x", f.width).attr("y", f.height + 36).attr("text-anchor", "end")
      .text("number of chips (log scale)");
    const g = f.root.selectAll(".row").data(rows).enter().append("g").attr("transform", (d, i) => `translate(0,${i * 30})`);
    g.append("text").attr("x", -8).attr("y", 19).attr("text-anchor", "end").text(d => d[0]);
    g.append("rect").attr("class", "mark").attr("y", 5).attr("height", 20).attr("width", d => x(d[1])).attr("rx", 2)
      .style("fill", (d, i) => i === 3 ? "var(--accent)" : "var(--rest)");
    g.append("text").attr("y", 19).attr("x", d => x(d[1]) + 6).text(d => count(d[1]));
    tells(g, d => [d[0], count(d[1])]);
  });
  if (objective_runs.length < 2) return;
  const table = scrollTable(s.root, "best chips and their proofs"), head = el(el(table, "thead"), "tr"), body = el(table, "tbody");
  ["best chip for", "chip", "HBM (GiB)", "area (mm²)", objective.ratio ? "×\u00a0reference" : "objective", "evaluated",
    "excluded after scheduling", "excluded by operator bounds", "schedules not proven optimal", "optimality gap"].forEach(h => el(head, "th", "", h));
  dataset("objective_runs").forEach(c => {
    const tr = el(body, "tr");
    [runTitle(c.objective_run), c.chip, number(c.hbm_gib), c.area_mm2.toFixed(1), value(c.objective), count(c.evaluated),
      count(c.excluded_after_schedules), count(c.excluded_by_tables), count(c.open_schedules), percent(c.gap,
      2)].forEach(t => el(tr, "td", "", t));
  });
})();
