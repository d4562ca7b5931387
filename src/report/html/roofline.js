// What limits the operators of the models on the best chip.
(() => {
  if (!search) return;
  const c = best.chip, rate = c.hbm.stacks * c.hbm.bytes_per_s_per_stack;
  const peaks = { tensor: 2 * c.tensor.cores * c.tensor.rows * c.tensor.cols * c.clock_hz, vector: c.vector.cores * c.vector.lanes * c.clock_hz };
  const ops = dataset("roofline").filter(o => o.operations > 0 && o.hbm_bytes > 0 && o.seconds > 0)
    .map(o => Object.assign({ x: o.operations / o.hbm_bytes, y: o.operations / o.seconds, time: o.seconds * o.times }, o));
  if (!ops.length) return;
  const words = { hbm: "HBM", glb: "global buffer", local: "buffers of tensor cores", startup: "start-up" }, bound = b => words[b] || b;
  const total = d3.sum(ops, o => o.time), bounds = unique(ops.map(o => o.bound));
  const by = bounds.map(b => ({ b, part: d3.sum(ops.filter(o => o.bound === b), o => o.time) / total })).sort((a, b) => b.part - a.part);
  const s = section("roofline", "Roofline of its operators", `${percent(by[0].part)} of the operators’ time is bound by ${by.map((x, i) => (i ? `${percent(x.part)} by ` : "") + bound(x.b)).join(", ")}.`,
    "One point for each operator of a layer, alone on the chip; larger where it takes more of the step. Lines: the HBM rate, the peak of the tensor cores, and of the vector cores. Of GEMMs and attention FLOP are counted (of causal attention those of keys before a token), of other operators lane operations.");
  const colour = b => palette[bounds.indexOf(b) % palette.length], holder = el(s.root, "div");
  legend(s.root, bounds.map(b => ({ colour: colour(b), text: `bound by ${bound(b)}` })).concat([{ kind: "pale", text: "hollow: on vector cores" }], [{ kind: "line", text: "HBM rate, peaks" }]));
  draws("roofline", () => {
    const f = frame(holder, 380, { top: 26, right: 14, bottom: 44, left: 62 }, "operations per second by operations per byte of HBM", "group");
    const decade = (v, i) => 10 ** (i ? Math.ceil(Math.log10(v)) : Math.floor(Math.log10(v))), most = Math.max(peaks.tensor, peaks.vector);
    const xs = d3.extent(ops, o => o.x).map(decade), ys = [decade(d3.min(ops, o => o.y), 0), decade(most, 1)];
    xs[1] = Math.max(xs[1], decade(2 * most / rate, 1));
    const x = d3.scale.log().domain(xs).range([0, f.width]), y = d3.scale.log().domain(ys).range([f.height, 0]);
    const tens = d => d3.range(Math.round(Math.log10(d[0])), Math.round(Math.log10(d[1])) + 1).map(i => 10 ** i);
    f.root.append("g").attr("class", "axis grid").attr("transform", `translate(0,${f.height})`).call(d3.svg.axis().scale(x).orient("bottom")
      .tickValues(tens(xs)).tickFormat(number).innerTickSize(-f.height).outerTickSize(0).tickPadding(8));
    f.root.append("g").attr("class", "axis grid").call(d3.svg.axis().scale(y).orient("left").tickValues(tens(ys)).tickFormat(v => si(v, ""))
      .innerTickSize(-f.width).outerTickSize(0).tickPadding(8));
    f.root.append("text").attr("class", "soft").attr("x", f.width).attr("y", f.height + 36).attr("text-anchor", "end").text("operations per byte of HBM");
    f.root.append("text").attr("class", "soft").attr("x", -8).attr("y", -10).text("operations/s");
    const from = Math.max(xs[0], ys[0] / rate);
    ["tensor", "vector"].forEach(cores => {
      const peak = peaks[cores], knee = Math.max(from, peak / rate), first = peak < most ? knee : from;
      f.root.append("path").attr("d", `M${x(first)},${y(Math.min(peak, first * rate))}L${x(knee)},${y(peak)}H${f.width}`)
        .style("fill", "none").style("stroke", "var(--ink)").style("stroke-width", 1.6);
      f.root.append("text").attr("class", "soft").attr("x", f.width).attr("y", y(peak) - 5).attr("text-anchor", "end").text(`${cores} cores`);
    });
    tells(f.root.selectAll(".point").data(ops.slice().sort((a, b) => b.time - a.time)).enter().append("circle").attr("class", "point mark").attr("tabindex", 0)
      .attr("cx", o => x(o.x)).attr("cy", o => y(o.y)).attr("r", o => 3 + 14 * Math.sqrt(o.time / total)).style("fill", o => colour(o.bound)).style("stroke", o => colour(o.bound)).style("fill-opacity", o => o.cores === "tensor" ? 0.7 : 0.15),
      o => [`${o.operator} (${o.direction}), ${o.layer} of ${short(o.model)}`,
        `${si(o.y, o.cores === "tensor" ? "FLOP/s" : "op/s")}, ${number(o.x)} per byte: ${percent(o.y / peaks[o.cores])} of the ${o.cores} cores’ peak`,
        `${seconds(o.seconds)} each, ${percent(o.time / total, 1)} of all; bound by ${bound(o.bound)}`]);
  });
})();
