// One layer on the chip's cores, forward and backward, on one time axis.
(() => {
  if (!has("layers")) return;
  const layers = dataset("layers"), operators = dataset("operators");
  const kinds = [
    { name: "tensor cores", classes: ["tensor", "fused"] },
    { name: "vector cores", classes: ["vector"] },
    { name: "network", classes: ["collective"] },
  ];
  const colours = { tensor: "var(--tensor)", fused: "var(--fused)", vector: "var(--vector)", collective: "var(--network)" };
  const s = section("schedule", "Operator schedule of one layer", "",
    "Each bar is an operator; bars in different rows run concurrently. Times are for one microbatch on one chip. An operator uses some or all cores of its kind, and concurrent operators share memory bandwidth.");
  const controls = el(s.root, "div", "controls");
  modelSelect(controls);
  const repeated = model => layers.filter(l => l.model === model).sort((a, b) => b.count - a.count)[0].layer;
  let layer = null, layerBox = el(controls, "span");
  legend(s.root, [{ colour: colours.tensor, text: "matrix product" }, { colour: colours.fused,
    text: "matrix product fused with a vector operator" }, { colour: colours.vector, text: "vector operator" },
    { colour: colours.collective, text: "collective" }]);
  const holder = el(s.root, "div");

  function lanes(list) {
    const out = [];
    kinds.forEach(kind => {
      const free = [];
      list.filter(o => kind.classes.includes(o.class))
        .sort((a, b) => a.start_us - b.start_us || a.end_us - b.end_us).forEach(o => {
        let lane = free.findIndex(end => end <= o.start_us * (1 + 1e-9));
        if (lane < 0) lane = free.push(0) - 1;
        free[lane] = o.end_us;
        out.push({ o, kind: kind.name, lane });
      });
    });
    let row = -1;
    const seen = {};
    kinds.forEach(k => out.filter(x => x.kind === k.name).sort((a, b) => a.lane - b.lane).forEach(x => {
      const id = k.name + x.lane;
      if (!(id in seen)) seen[id] = ++row;
      x.row = seen[id];
    }));
    return { bars: out, n: row + 1 };
  }

  function redraw() {
    const names = unique(layers.filter(l => l.model === shown.model).map(l => l.layer));
    if (!names.includes(layer)) layer = repeated(shown.model);
    while (layerBox.firstChild) layerBox.removeChild(layerBox.firstChild);
    select(layerBox, "layer", names.map(n => ({ value: n, text: n })), layer, n => { layer = n; redraw(); });
    const passes = ["forward", "backward"].map(direction => ({
      direction,
      of: layers.find(l => l.model === shown.model && l.layer === layer && l.direction === direction),
      lanes: lanes(operators.filter(o => o.model === shown.model && o.layer === layer && o.direction === direction)),
    }));
    const [fw, bw] = passes.map(p => p.of);
    s.say(`Layer “${layer}” of ${short(shown.model)} takes ${seconds(fw.makespan_us / 1e6)} forward and ${seconds(bw.makespan_us / 1e6)} backward; tensor cores are ${percent(fw.tensor_use)} and ${percent(bw.tensor_use)} utilized, vector cores ${percent(fw.vector_use)} and ${percent(bw.vector_use)}. ` +
      (fw.optimal && bw.optimal ? "Both schedules are proven optimal."
        : `No schedule is more than ${percent(Math.max(1 - fw.bound_us / fw.makespan_us, 1 - bw.bound_us / bw.makespan_us), 1)} shorter.`));
    const rowHeight = 24, gap = 40;
    const height = passes.reduce((h, p) => h + Math.max(1, p.lanes.n) * rowHeight + gap, 0) + 26;
    const f = frame(holder, height, { top: 24, right: 12, bottom: 40, left: 88 }, "operator schedule of one layer");
    const most = Math.max(fw.makespan_us, bw.makespan_us), unit = most >= 2000 ? 1000 : 1;
    const x = d3.scale.linear().domain([0, most / unit]).range([0, f.width]);
    f.height -= gap - 36;
    axisX(f, x, unit === 1000 ? "time (ms)" : "time (µs)");
    let top = 0;
    passes.forEach(p => {
      const g = f.root.append("g").attr("transform", `translate(0,${top})`);
      g.append("text").attr("class", "title").attr("x", -84).attr("y", -8).text(p.direction);
      kinds.forEach(k => {
        const first = p.lanes.bars.filter(b => b.kind === k.name).map(b => b.row);
        if (first.length) g.append("text").attr("class", "soft").attr("x", -8).attr("text-anchor", "end")
          .attr("y", d3.min(first) * rowHeight + 15).text(k.name);
      });
      const bar = g.selectAll(".bar").data(p.lanes.bars).enter().append("g")
        .attr("transform", b => `translate(${x(b.o.start_us / unit)},${b.row * rowHeight})`);
      const wide = b => Math.max(0.8, x(b.o.end_us / unit) - x(b.o.start_us / unit));
      bar.append("rect").attr("class", "mark").attr("width", wide).attr("height", rowHeight - 4).attr("rx", 2)
        .style("fill", b => colours[b.o.class]).style("stroke", "var(--bg)").style("stroke-width", 0.6);
      bar.append("text").attr("class", "inside").attr("x", 4).attr("y", 14).style("fill", b => inkOn(colours[b.o.class]))
        .text(b => fitted(b.o.operator, wide(b) - 6));
      tells(bar, b => [b.o.operator,
        `${seconds((b.o.end_us - b.o.start_us) / 1e6)}, from ${seconds(b.o.start_us / 1e6)} to ${seconds(b.o.end_us / 1e6)}`,
        [b.o.tensor_cores ? plural(b.o.tensor_cores, "tensor core") : "", b.o.vector_cores ? plural(b.o.vector_cores,
          "vector core") : ""].filter(t => t).join(", ")]);
      top += Math.max(1, p.lanes.n) * rowHeight + gap;
    });
  }
  shown.listeners.push(redraw);
  draws("schedule", redraw);
})();
