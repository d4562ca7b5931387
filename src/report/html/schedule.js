// One layer on the chip's cores, forward and backward, on one time axis; below, how busy each resource is.
(() => {
  if (!has("layers")) return;
  const layers = dataset("layers"), operators = dataset("operators");
  const die = search ? { tensor_cores: best.chip.tensor.cores, vector_cores: best.chip.vector.cores } : dataset("dies").find(d => d.role === "found");
  const kinds = [
    { name: "tensor cores", has: o => o.class === "tensor" || o.class === "fused" },
    { name: "vector cores", has: o => o.class === "vector" },
    { name: "network", has: o => o.link > 0 },
  ];
  const resources = [
    { name: "tensor cores", use: "tensor_use", part: o => o.tensor_cores / die.tensor_cores, colour: "var(--tensor)" },
    { name: "vector cores", use: "vector_use", part: o => o.vector_cores / die.vector_cores, colour: "var(--vector)" },
    { name: "network", use: "link_use", part: o => o.link, colour: "var(--network)" },
    { name: "HBM", use: "hbm_use", part: o => o.hbm, colour: "var(--hbm)" },
    { name: "global buffer", use: "glb_use", part: o => o.glb, colour: "var(--buffer)" },
    { name: "watts", use: "power_use", part: o => o.power, colour: "var(--front)" },
  ].filter(r => layers.some(l => l[r.use] > 0));
  const colours = { tensor: "var(--tensor)", fused: "var(--fused)", vector: "var(--vector)", collective: "var(--network)" };
  const s = section("schedule", "Operator schedule of one layer", "",
    "Each bar is an operator; bars in different rows run concurrently. Times are for one microbatch on one chip. An operator uses some or all cores of its kind, and concurrent operators share memory bandwidth" +
    (search ? " and the watts that the chip has beside those at rest" : "") + ". Below: the part of each resource that operators hold.");
  const controls = el(s.root, "div", "controls");
  modelSelect(controls);
  const again = "-recomputed", own = model => layers.filter(l => l.model === model && !l.layer.endsWith(again));
  const repeated = model => own(model).sort((a, b) => b.count - a.count)[0].layer;
  let layer = null, layerBox = el(controls, "span");
  legend(s.root, [{ colour: colours.tensor, text: "matrix product" }, { colour: colours.fused,
    text: "matrix product fused with a vector operator" }, { colour: colours.vector, text: "vector operator" },
    { colour: colours.collective, text: "collective" }]);
  const holder = el(s.root, "div");

  // Bars in rows: of each kind as many as run at a time.
  function lanes(list) {
    const bars = [];
    let n = 0;
    kinds.forEach(kind => {
      const free = [];
      list.filter(kind.has).sort((a, b) => a.start_us - b.start_us || a.end_us - b.end_us).forEach(o => {
        let lane = free.findIndex(end => end <= o.start_us * (1 + 1e-9));
        if (lane < 0) lane = free.push(0) - 1;
        free[lane] = o.end_us;
        bars.push({ o, kind: kind.name, row: n + lane });
      });
      n += free.length;
    });
    return { bars, n };
  }

  // The part of a resource in use, from each time at which it changes to the next.
  function profile(list, part) {
    const at = unique(list.flatMap(o => [o.start_us, o.end_us])).sort((a, b) => a - b);
    return at.slice(1).map((to, i) => ({ from: at[i], to,
      part: d3.sum(list.filter(o => o.start_us <= at[i] && o.end_us >= to), part) }));
  }

  function redraw() {
    const names = unique(own(shown.model).map(l => l.layer));
    if (!names.includes(layer)) layer = repeated(shown.model);
    while (layerBox.firstChild) layerBox.removeChild(layerBox.firstChild);
    select(layerBox, "layer", names.map(n => ({ value: n, text: n })), layer, n => { layer = n; redraw(); });
    const passes = layers.filter(l => l.model === shown.model && (l.layer === layer || l.layer === layer + again)).map(of => {
      const list = operators.filter(o => o.model === of.model && o.layer === of.layer && o.direction === of.direction);
      return { of, list, lanes: lanes(list), title: of.direction + (of.layer === layer ? "" : " with recomputation") };
    });
    const used = resources.filter(r => passes.some(p => p.of[r.use] > 0)), sum = key => d3.sum(passes, p => p.of[key]), open = Math.max(...passes.map(p => 1 - p.of.bound_us / p.of.makespan_us));
    const busy = used.map(r => ({ name: r.name, part: d3.sum(passes, p => p.of[r.use] * p.of.makespan_us) / sum("makespan_us") })).sort((a, b) => b.part - a.part);
    const longer = sum("serial_us") / sum("makespan_us") - 1;
    s.say(`Layer “${layer}” of ${short(shown.model)} takes ${passes.map(p => `${seconds(p.of.makespan_us / 1e6)} ${p.title}`).join(" and ")}` +
      (longer > 5e-4 ? `, ${percent(longer, 1)} more with operators one after another` : "") +
      `. In use: ${busy.map(b => `${b.name} ${percent(b.part)}`).join(", ")}. ` +
      (passes.every(p => p.of.optimal) ? "The schedules are proven optimal." : `No schedule is more than ${percent(open, 1)} shorter.`));
    const narrow = holder.clientWidth < 600, rowHeight = 24, strip = 20, gap = 40, left = narrow ? 88 : 130;
    const tall = p => Math.max(1, p.lanes.n) * rowHeight + used.length * strip + 8;
    const f = frame(holder, d3.sum(passes, p => tall(p) + gap) + 26, { top: 24, right: 12, bottom: 40, left }, "operator schedule of one layer");
    const most = d3.max(passes, p => p.of.makespan_us), unit = most >= 2000 ? 1000 : 1;
    const x = d3.scale.linear().domain([0, most / unit]).range([0, f.width]);
    f.height -= gap - 36;
    axisX(f, x, unit === 1000 ? "time (ms)" : "time (µs)");
    let top = 0;
    passes.forEach(p => {
      const g = f.root.append("g").attr("transform", `translate(0,${top})`);
      const label = (text, y) => g.append("text").attr("class", "soft").attr("x", -8).attr("text-anchor", "end").attr("y", y).text(text);
      g.append("text").attr("class", "title").attr("x", 4 - left).attr("y", -8).text(p.title);
      kinds.forEach(k => {
        const first = p.lanes.bars.filter(b => b.kind === k.name).map(b => b.row);
        if (first.length) label(k.name, d3.min(first) * rowHeight + 15);
      });
      const bar = g.selectAll(".bar").data(p.lanes.bars).enter().append("g")
        .attr("transform", b => `translate(${x(b.o.start_us / unit)},${b.row * rowHeight})`);
      const wide = b => Math.max(0.8, x(b.o.end_us / unit) - x(b.o.start_us / unit));
      bar.append("rect").attr("class", "mark").attr("width", wide).attr("height", rowHeight - 4).attr("rx", 2)
        .style("fill", b => colours[b.o.class]).style("stroke", "var(--bg)").style("stroke-width", 0.6);
      bar.append("text").attr("class", "inside").attr("x", 4).attr("y", 14).style("fill", b => inkOn(colours[b.o.class]))
        .text(b => fitted(b.o.operator, wide(b) - 6));
      const held = o => used.filter(r => r.part(o) > 0).map(r => `${r.name} ${percent(r.part(o))}`).join(", ");
      tells(bar, b => [b.o.operator,
        `${seconds((b.o.end_us - b.o.start_us) / 1e6)}, from ${seconds(b.o.start_us / 1e6)} to ${seconds(b.o.end_us / 1e6)}`,
        [b.o.tensor_cores ? plural(b.o.tensor_cores, "tensor core") : "", b.o.vector_cores ? plural(b.o.vector_cores,
          "vector core") : ""].filter(t => t).join(", "), `holds ${held(b.o)}`]);
      used.forEach((r, i) => {
        const from = Math.max(1, p.lanes.n) * rowHeight + 8 + i * strip, high = strip - 4;
        label(narrow ? r.name : `${r.name} ${percent(p.of[r.use])}`, from + 12);
        g.append("path").attr("d", `M0,${from + high}H${f.width}`).style("stroke", "var(--grid)");
        tells(g.selectAll(".none").data(profile(p.list, r.part).filter(d => d.part > 0)).enter().append("rect")
          .attr("x", d => x(d.from / unit)).attr("width", d => x(d.to / unit) - x(d.from / unit))
          .attr("y", d => from + high * (1 - Math.min(1, d.part))).attr("height", d => high * Math.min(1, d.part)).style("fill", r.colour),
          d => [`${r.name}: ${percent(d.part)}`, `from ${seconds(d.from / 1e6)} to ${seconds(d.to / 1e6)}; ${percent(p.of[r.use], 1)} of the pass`]);
      });
      top += tall(p) + gap;
    });
  }
  shown.listeners.push(redraw);
  draws("schedule", redraw);
})();
