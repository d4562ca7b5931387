// The time of a training step by cause.
(() => {
  const colour = { compute: "var(--tensor)", "tensor-parallel collectives": "var(--hbm)",
    "transfers between stages": "var(--network)", "pipeline bubble": "var(--bubble)", "gradient all-reduce": "var(--vector)" };
  const rows = dataset("step"), parts = unique(rows.map(r => r.part));
  const colours = Object.fromEntries(parts.map(p => [p, search ? stepColour(p) : colour[p]]));
  const byShare = part => rows.filter(r => r.part === part).sort((a, b) => a.share - b.share);
  const computing = byShare("compute"), bubble = byShare("pipeline bubble").pop();
  const total = d3.sum(rows, r => r.seconds), largest = parts.map(part => ({ part, share: d3.sum(byShare(part), r => r.seconds) / total }))
    .sort((a, b) => b.share - a.share)[0];
  const s = section("step", "Breakdown of the training step time",
    search ? `${percent(largest.share)} is ${largest.part}.` : `Compute takes ${percent(computing[0].share)} of the step${models.length > 1 ? ` for ${short(computing[0].model)}, ${percent(computing[computing.length - 1].share)} for ${short(computing[computing.length - 1].model)}` : ""}. The pipeline bubble takes at most ${percent(bubble.share)}${models.length > 1 ? `, for ${short(bubble.model)}` : ""}.`,
    search ? "The best training plan of each model on this chip; collectives count where compute does not hide them." : "Compute, collectives and transfers are those of the slowest pipeline stage, which sets the rate of all stages.");
  legend(s.root, parts.map(p => ({ colour: colours[p], text: p })));
  const holder = el(s.root, "div");
  draws("step", () => {
    const narrow = holder.clientWidth < 600, left = narrow ? 4 : 190, rowHeight = narrow ? 50 : 34;
    const f = frame(holder, models.length * rowHeight + 50, { top: 4, right: 12, bottom: 44, left }, "breakdown of the training step time");
    const x = d3.scale.linear().domain([0, 1]).range([0, f.width]);
    axisX(f, x, "share of the step time (%)", 5, d => percent(d));
    models.forEach((model, i) => {
      const own = parts.map(p => rows.find(r => r.model === model && r.part === p)).filter(r => r);
      const step_s = seconds(own[0].seconds / own[0].share), name = fitted(model, narrow ? f.width - 90 : 110);
      const g = f.root.append("g").attr("transform", `translate(0,${i * rowHeight})`);
      if (narrow) g.append("text").attr("y", 14).text(`${name}, ${step_s}`);
      else {
        g.append("text").attr("x", -78).attr("y", 21).attr("text-anchor", "end").text(name);
        g.append("text").attr("class", "soft").attr("x", -10).attr("y", 21).attr("text-anchor", "end").text(step_s);
      }
      let at = 0;
      const list = own.map(r => ({ r, from: at, to: at += r.share }));
      const bar = g.selectAll(".part").data(list).enter().append("g")
        .attr("transform", d => `translate(${x(d.from)},${narrow ? 19 : 5})`);
      bar.append("rect").attr("class", "mark").attr("width", d => Math.max(0, x(d.to) - x(d.from))).attr("height", 22)
        .style("fill", d => colours[d.r.part]);
      bar.filter(d => x(d.to) - x(d.from) > 34).append("text").attr("class", "inside").attr("x", 5).attr("y", 15)
        .style("fill", d => inkOn(colours[d.r.part])).text(d => percent(d.r.share));
      tells(bar, d => [`${short(d.r.model)}: ${d.r.part}`, `${seconds(d.r.seconds)}, ${percent(d.r.share, 1)} of ${step_s}`]);
    });
  });
})();
