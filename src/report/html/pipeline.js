// One training step over time: every stage runs one microbatch after another, and idles at both ends.
(() => {
  if (!has("stages")) return;
  const most = 7000; // rectangles; beyond, neighbours in time are merged
  const s = section("pipeline", "Pipeline schedule of one training step", "",
    "The layers of a model are divided into pipeline stages on different chips, and the batch of a replica into microbatches. A slot is the time of the slowest stage, forward and backward. Grey is idle time (the pipeline bubble): while the pipeline fills and drains, and in every slot of a stage that is faster than the slowest one.");
  const controls = el(s.root, "div", "controls");
  modelSelect(controls);
  legend(s.root, [{ colour: "var(--tensor)", text: "forward" }, { colour: "var(--fused)", text: "backward and transfers" },
    { colour: "var(--bubble)", text: "idle (pipeline bubble)" }, { colour: "var(--vector)", text: "gradient all-reduce" }]);
  const holder = el(s.root, "div");

  function redraw() {
    const m = dataset("models").find(r => r.model === shown.model), stages = dataset("stages").filter(r => r.model === shown.model);
    const n = stages.length, slots = m.rounds + n - 1;
    const busy = d3.sum(stages, k => k.load_s) * m.rounds / (n * m.step_s);
    s.say(`${short(shown.model)}: ${plural(n, "stage")} × ${plural(m.replicas, "replica")}${m.tensor_parallel > 1 ? ` × ${m.tensor_parallel} tensor parallel` : ""} on ${plural(m.devices, "chip")}; each replica processes ${plural(m.rounds, "microbatch")} of ${plural(m.microbatch, "sample")} in ${seconds(m.step_s)}; chips are busy ${percent(busy)} of that time.`);
    const group = Math.max(1, Math.ceil(3 * n * m.rounds / most));
    const blocks = [];
    stages.forEach((k, i) => {
      for (let j = 0; j < m.rounds; j += group) {
        const many = Math.min(group, m.rounds - j), from = (i + j) * m.slot_s, wide = many * m.slot_s;
        const forward = many * k.forward_s, backward = many * (k.load_s - k.forward_s);
        blocks.push({ k, i, from, to: from + forward, kind: "--tensor" }, { k, i, from: from + forward, to: from + forward +
          backward, kind: "--fused" });
        if (forward + backward < 0.999 * wide) blocks.push({ k, i, from: from + forward + backward, to: from + wide,
          kind: "--bubble" });
      }
    });
    stages.forEach((k, i) => {
      if (i) blocks.push({ k, i, from: 0, to: i * m.slot_s, kind: "--bubble", wait: true });
      if (i < n - 1) blocks.push({ k, i, from: (i + m.rounds) * m.slot_s, to: slots * m.slot_s, kind: "--bubble", wait: true });
      if (m.exchange_s > 0) blocks.push({ k, i, from: slots * m.slot_s, to: m.step_s, kind: "--vector" });
    });
    const rowHeight = Math.max(4, Math.min(22, 420 / n));
    const f = frame(holder, n * rowHeight + 74, { top: 24, right: 12, bottom: 50, left: 62 }, "pipeline schedule of one training step");
    const unit = m.step_s < 2 ? 1e3 : 1;
    const x = d3.scale.linear().domain([0, m.step_s * unit]).range([0, f.width]);
    axisX(f, x, unit === 1 ? "time in the step (s)" : "time in the step (ms)");
    f.root.append("text").attr("class", "soft").attr("x", -58).attr("y", -10).text("stage");
    const every = Math.ceil(16 / rowHeight);
    f.root.selectAll(".name").data(stages.filter((k, i) => i % every === 0)).enter().append("text").attr("class", "soft")
      .attr("x", -8).attr("text-anchor", "end").attr("y", k => (k.stage - 0.5) * rowHeight + 4).text(k => k.stage);
    const thin = rowHeight > 8 ? 2 : 0.6;
    const mark = f.root.selectAll(".mark").data(blocks).enter().append("rect")
      .attr("class", b => "mark" + (b.kind === "--bubble" ? " bubble" : ""))
      .attr("x", b => x(b.from * unit)).attr("y", b => b.i * rowHeight)
        .attr("width", b => Math.max(0.1, x(b.to * unit) - x(b.from * unit))).attr("height", rowHeight - thin)
      .style("fill", b => `var(${b.kind})`).style("opacity", b => b.kind === "--bubble" ? 0.45 : 1);
    tells(mark, b => [`stage ${b.k.stage}: ${b.k.layers}`, b.wait
      ? `idle for ${seconds(b.to - b.from)} while the pipeline ${b.from ? "drains" : "fills"}`
      : `microbatch: forward ${seconds(b.k.forward_s)}, backward and transfers ${seconds(b.k.load_s - b.k.forward_s)} of a slot of ${seconds(m.slot_s)}`,
      group > 1 && !b.wait ? `${group} microbatches are drawn as one` : ""]);
  }
  shown.listeners.push(redraw);
  draws("pipeline", redraw);
})();
