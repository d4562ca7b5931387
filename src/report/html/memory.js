// What each pipeline stage stores in the HBM of a chip.
(() => {
  if (!has("stages")) return;
  const parts = [
    { key: "parameter_bytes", colour: "var(--tensor)", text: "parameters" },
    { key: "gradient_and_optimizer_bytes", colour: "var(--fused)", text: "gradients and optimizer state" },
    { key: "activation_bytes", colour: "var(--vector)", text: "activations of one microbatch" },
    { key: "in_flight_bytes", colour: "var(--hbm)", text: "activations of further microbatches in flight" },
  ];
  const s = section("memory", "HBM use of every pipeline stage", "",
    "A plan fits if every bar stays below the dashed line. Early stages have more microbatches in flight and store more activations; with activation checkpointing only the inputs of a stage are stored.");
  const controls = el(s.root, "div", "controls");
  modelSelect(controls);
  legend(s.root, parts.map(p => ({ colour: p.colour, text: p.text })).concat([{ kind: "dashed", text: "HBM capacity of a chip" }]));
  const holder = el(s.root, "div");
  function redraw() {
    const stages = dataset("stages").filter(r => r.model === shown.model), m = dataset("models").find(r => r.model === shown.model);
    const fullest = stages.reduce((a, b) => b.memory_bytes > a.memory_bytes ? b : a);
    s.say(`${short(shown.model)}: stage ${fullest.stage} uses the most, ${gib(fullest.memory_bytes)}, ${percent(fullest.memory_bytes / m.hbm_bytes)} of ${gib(m.hbm_bytes)}; ${m.recompute ? "with" : "without"} activation checkpointing.`);
    const f = frame(holder, 300, { top: 26, right: 12, bottom: 44, left: 50 }, "HBM use of every pipeline stage");
    const x = d3.scale.ordinal().domain(stages.map(k => k.stage)).rangeBands([0, f.width], 0.15, 0.1);
    const y = d3.scale.linear().domain([0, 1.06 * m.hbm_bytes / 2 ** 30]).range([f.height, 0]);
    axisY(f, y, "HBM per chip (GiB)");
    const every = Math.ceil(stages.length * 26 / f.width);
    f.root.append("g").attr("class", "axis").attr("transform", `translate(0,${f.height})`)
      .call(d3.svg.axis().scale(x).orient("bottom").outerTickSize(0).tickValues(stages.map(k => k.stage)
        .filter((k, i) => i % every === 0)));
    f.root.append("text").attr("class", "soft").attr("x", f.width).attr("y", f.height + 36).attr("text-anchor", "end")
      .text("pipeline stage");
    const g = f.root.selectAll(".stage").data(stages).enter().append("g").attr("transform", k => `translate(${x(k.stage)},0)`);
    let below = stages.map(() => 0);
    parts.forEach(p => {
      const from = below.slice();
      g.append("rect").attr("class", "mark").attr("width", x.rangeBand()).style("fill", p.colour)
        .attr("y", (k, i) => y((from[i] + k[p.key]) / 2 ** 30))
          .attr("height", (k, i) => y(from[i] / 2 ** 30) - y((from[i] + k[p.key]) / 2 ** 30));
      below = below.map((b, i) => b + stages[i][p.key]);
    });
    tells(g, k => [`stage ${k.stage}: ${k.layers}`].concat(parts.map(p => `${p.text}: ${gib(k[p.key])}`),
      `total ${gib(k.memory_bytes)}, ${percent(k.memory_bytes / k.hbm_bytes)} of HBM`));
    const line = y(m.hbm_bytes / 2 ** 30);
    f.root.append("path").attr("class", "limit").attr("d", `M0,${line}H${f.width}`).style("stroke", "var(--network)")
      .style("stroke-width", 2).style("stroke-dasharray", "6 4");
  }
  shown.listeners.push(redraw);
  draws("memory", redraw);
})();
