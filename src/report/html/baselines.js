// The search beside other ways to choose: a panel of bars for each contest.
(() => {
  const names = {
    "tpuv4-expert": "TPUv4, expert plan", "tpuv4-placed": "TPUv4, best plan",
    "tpuv4-real-expert": "real TPUv4, expert plan", "tpuv4-real-placed": "real TPUv4, best plan",
    "spotlight-expert": "Spotlight, expert plan", "spotlight-placed": "Spotlight, best plan",
    original: "original's walk", random: "random chips", search: "this search",
  };
  const rows = sheet("baselines");
  const ways = contest => {
    const seen = {};
    rows.filter(r => r.contest === contest).forEach(r => { if (!seen[r.way]) seen[r.way] = r; });
    return Object.values(seen);
  };
  const of = way => ways(common.contest).find(w => w.way === way);
  const placed = of("tpuv4-placed"), expert = of("tpuv4-expert");
  const unbeaten = contests.every(c => ways(c).every(w => w.objective <= ways(c).find(x => x.way === "search").objective));
  const s = section("baselines", "Against other ways to choose",
    "Longer bars are better" + (unbeaten ? ", and no bar is longer than the search’s."
      : "; only a chip outside of the design space can be longer than the search’s.") + (objective.ratio && placed && expert && placed.objective > 1.005 * expert.objective
      ? ` Better plans alone make TPUv4 ${times(placed.objective / expert.objective)} as fast; the chip that was searched with its plans makes it ${times(common.objective / expert.objective)}.`
      : ""),
    "All are judged by the same costs, schedules and placements. “Best plan” is the placement search; “expert plan” is what experts chose for the model. “Real TPUv4” has the vector units of the product, TPUv4 those of the paper’s description. Spotlight looks for the chip alone, blind to how a cluster is divided." +
    (experts < models.length ? " Where no expert plan is known or none fits, the best plan stands for it." : ""));
  const panels = el(s.root, "div", [2, 4].includes(models.length) ? "panels two" : "panels");
  const order = contests.length > 1 ? [common.contest].concat(contests.slice(0, -1)) : contests;
  order.forEach(contest => {
    const list = ways(contest);
    const box = el(panels, "div", contest === common.contest && contests.length > 1 ? "wide" : "");
    el(box, "h3", "", contestTitle(contest)).title = contest;
    const holder = el(box, "div");
    draws("baselines", () => {
      const f = frame(holder, list.length * 22 + 44, { top: 4, right: 48, bottom: 40, left: 156 }, "bars: " +
        contestTitle(contest));
      const x = d3.scale.linear().domain([0, d3.max(list, d => d.objective) || 1]).range([0, f.width]);
      axisX(f, x, objective.ratio ? "times " + reference : objective.text, Math.max(3, Math.floor(f.width / 110)),
        d => objective.ratio ? +d.toFixed(6) + "×" : number(d));
      const row = f.root.selectAll(".row").data(list).enter().append("g").attr("transform", (d, i) => `translate(0,${i * 22})`);
      row.append("text").attr("x", -8).attr("y", 15).attr("text-anchor", "end")
        .style("font-weight", d => d.way === "search" ? 650 : 400).text(d => names[d.way] || d.way);
      row.append("rect").attr("class", "mark").attr("y", 3).attr("height", 16).attr("rx", 2)
        .attr("width", d => Math.max(1, x(d.objective)))
        .style("fill", d => d.way === "search" ? "var(--accent)" : "var(--rest)");
      row.append("text").attr("x", d => x(d.objective) + 6).attr("y", 15)
        .style("font-weight", d => d.way === "search" ? 650 : 400).text(d => d.objective > 0 ? value(d.objective) : "no fit");
      tells(row, d => [names[d.way] || d.way, d.about, d.chip === null ? "none of the chips it looked at takes all models"
        : `chip ${d.chip}, ${d.area_mm2.toFixed(1)} mm², ${number(d.hbm_gib)} GiB`]
        .concat(rows.filter(r => r.contest === contest && r.way === d.way)
          .map(r => `${short(r.model)}: ${number(r.samples_per_s)} samples/s, ${times(r.ratio)}`)));
    });
  });
})();
