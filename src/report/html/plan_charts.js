// Charts of one answer: the parts of the step, memory of every stage against HBM, the operators under the roofline, how the plan scales.

const memoryParts = [["weight_bytes", "weights", "--tensor"], ["gradient_bytes", "gradients", "--fused"], ["optimizer_bytes", "optimizer", "--hbm"],
  ["activation_bytes", "activations", "--vector"], ["work_bytes", "work of a layer", "--buffer"], ["logit_bytes", "logits and loss", "--best"],
  ["communication_bytes", "communication", "--network"], ["reserve_bytes", "libraries", "--rest"]].map(([key, text, colour]) => ({ key, text, colour: `var(${colour})` }));
const gigabytes = x => number(x / 1e9) + "\u00a0GB";

// A section whose chart is drawn once there is something to draw.
function chartSection(parent, id, title, draw) {
  const s = section(id, title, "");
  parent.appendChild(s.root);
  const box = el(s.root, "div"), holder = el(s.root, "div");
  let data = null;
  draws(id, () => { if (data) draw(data, holder, s); });
  return { root: s.root, say: s.say, update: (next, items) => {
    data = next;
    while (box.firstChild) box.removeChild(box.firstChild);
    if (items) legend(box, items);
    draw(data, holder, s);
  } };
}

function partsSection(parent) {
  const chart = chartSection(parent, "parts", "Parts of the step", (r, holder, s) => {
    const shown = stepParts.filter(p => r.parts[p.key] > 0), most = shown.reduce((a, p) => r.parts[p.key] > r.parts[a.key] ? p : a);
    s.say(`${most.text[0].toUpperCase() + most.text.slice(1)} ${percent(r.parts[most.key] / r.step_s)} of ${seconds(r.step_s)}.`);
    const row = 22, left = widthOf(holder) < 380 ? 130 : 176;
    const f = frame(holder, shown.length * row + 46, { top: 4, right: 50, bottom: 38, left }, "seconds of the step by part", "group");
    const x = d3.scale.linear().domain([0, d3.max(shown, p => r.parts[p.key])]).range([0, f.width]);
    axisX(f, x, "seconds", Math.max(2, Math.floor(f.width / 80)), number);
    f.root.selectAll(".name").data(shown).enter().append("text").attr("class", "soft").attr("x", -8).attr("text-anchor", "end").attr("y", (p, i) => i * row + 15).text(p => fitted(p.text, left - 8, 6.2));
    tells(f.root.selectAll(".mark").data(shown).enter().append("rect").attr("class", "mark").attr("tabindex", 0).attr("y", (p, i) => i * row + 2).attr("height", row - 5)
      .attr("width", p => Math.max(1, x(r.parts[p.key]))).style("fill", p => p.colour), p => [p.text, `${seconds(r.parts[p.key])}, ${percent(r.parts[p.key] / r.step_s, 1)} of the step`]);
    f.root.selectAll(".value").data(shown).enter().append("text").attr("x", p => x(r.parts[p.key]) + 5).attr("y", (p, i) => i * row + 15).text(p => percent(r.parts[p.key] / r.step_s, 1));
  });
  return { update: r => chart.update(r) };
}

function memorySection(parent) {
  const total = k => d3.sum(memoryParts, p => k[p.key]);
  const chart = chartSection(parent, "hbm", "Memory of every stage", (r, holder, s) => {
    const stages = r.stages, most = d3.max(stages, total), top = 1.1 * Math.max(most, r.hbm_bytes) / 1e9;
    s.say(`Stage ${r.peak_stage + 1} of ${stages.length} holds most: ${gigabytes(r.peak_bytes)}, ${percent(r.peak_bytes / r.hbm_bytes)} of ${gigabytes(r.hbm_bytes)}${r.fits ? "" : ": it does not fit"}.`);
    const f = frame(holder, 250, { top: 24, right: 10, bottom: 40, left: 46 }, "memory of a device by stage", "group");
    const x = d3.scale.ordinal().domain(d3.range(stages.length)).rangeBands([0, f.width], stages.length > 60 ? 0 : 0.15, 0.05), y = d3.scale.linear().domain([0, top]).range([f.height, 0]);
    axisY(f, y, "GB of a device");
    const every = Math.ceil(stages.length * 26 / f.width);
    f.root.append("g").attr("class", "axis").attr("transform", `translate(0,${f.height})`).call(d3.svg.axis().scale(x).orient("bottom").outerTickSize(0)
      .tickValues(d3.range(stages.length).filter(i => i % every === 0)).tickFormat(i => i + 1));
    f.root.append("text").attr("class", "soft").attr("x", f.width).attr("y", f.height + 34).attr("text-anchor", "end").text("stage");
    const g = f.root.selectAll(".stage").data(stages).enter().append("g").attr("class", "mark").attr("tabindex", stages.length > 64 ? null : 0).attr("transform", (k, i) => `translate(${x(i)},0)`);
    memoryParts.forEach((p, n) => {
      const below = k => d3.sum(memoryParts.slice(0, n), q => k[q.key]);
      g.append("rect").attr("width", x.rangeBand()).attr("y", k => y((below(k) + k[p.key]) / 1e9)).attr("height", k => Math.max(0, y(below(k) / 1e9) - y((below(k) + k[p.key]) / 1e9))).style("fill", p.colour);
    });
    tells(g, k => [`stage ${stages.indexOf(k) + 1}: ${gigabytes(total(k))}`].concat(memoryParts.filter(p => k[p.key] > 0).map(p => `${p.text} ${gigabytes(k[p.key])}`)));
    f.root.append("path").attr("d", `M0,${y(r.hbm_bytes / 1e9)}H${f.width}`).style("stroke", "var(--network)").style("stroke-width", 2).style("stroke-dasharray", "6 4");
    f.root.append("text").attr("class", "halo").attr("x", f.width - 4).attr("y", y(r.hbm_bytes / 1e9) - 5).attr("text-anchor", "end").text(`HBM ${gigabytes(r.hbm_bytes)}`);
  });
  return { update: r => chart.update(r, memoryParts.filter(p => r.stages.some(k => k[p.key] > 0)).map(p => ({ colour: p.colour, text: p.text })).concat([{ kind: "dashed", text: "HBM of a device" }])) };
}

// ---- roofline

const opClasses = { tensor: ["matrix products", "--tensor"], fused: ["products with a tail", "--fused"], vector: ["element-wise", "--vector"] };

function rooflineSection(parent) {
  const chart = chartSection(parent, "roofline", "Operators under the roofline", ({ ops, chip }, holder, s) => {
    const peak = chip.derived.tensor_flop_per_s, vector = chip.derived.vector_op_per_s, rate = chip.derived.hbm_bytes_per_s, all = d3.sum(ops, o => o.time);
    const bound = d3.sum(ops.filter(o => o.x >= peak / rate), o => o.time) / all;
    s.say(`${percent(bound)} of the operators' time is right of the ridge at ${number(peak / rate)} FLOP a byte.`);
    const f = frame(holder, 280, { top: 24, right: 12, bottom: 40, left: 62 }, "rate of operators by arithmetic intensity", "group");
    const lo = Math.min(d3.min(ops, o => o.x), peak / rate / 100), hi = Math.max(d3.max(ops, o => o.x), peak / rate) * 3;
    const least = Math.min(d3.min(ops, o => o.y), rate * lo) / 2;
    const x = d3.scale.log().domain([lo / 1.5, hi]).range([0, f.width]), y = d3.scale.log().domain([least, peak * 2]).range([f.height, 0]);
    const decades = scale => { const [a, b] = scale.domain(), step = Math.max(1, Math.round(Math.log10(b / a) / 5)); return d3.range(Math.ceil(Math.log10(a)), Math.floor(Math.log10(b)) + 1, step).map(e => 10 ** e); };
    f.root.append("g").attr("class", "axis grid").attr("transform", `translate(0,${f.height})`).call(d3.svg.axis().scale(x).orient("bottom").tickValues(decades(x)).innerTickSize(-f.height).outerTickSize(0).tickPadding(8).tickFormat(number));
    f.root.append("g").attr("class", "axis grid").call(d3.svg.axis().scale(y).orient("left").tickValues(decades(y)).innerTickSize(-f.width).outerTickSize(0).tickPadding(8).tickFormat(v => si(v, "")));
    f.root.append("text").attr("class", "soft").attr("x", f.width).attr("y", f.height + 34).attr("text-anchor", "end").text("FLOP per byte of HBM");
    f.root.append("text").attr("class", "soft").attr("x", -8).attr("y", -10).text("FLOP/s");
    const roof = (top, colour) => f.root.append("path").attr("d", `M${x(lo / 1.5)},${y(Math.max(least, rate * lo / 1.5))}L${x(top / rate)},${y(top)}H${f.width}`)
      .style("fill", "none").style("stroke", `var(${colour})`).style("stroke-width", 1.5);
    if (vector > 0 && vector < peak) roof(vector, "--vector");
    roof(peak, "--ink");
    f.root.append("text").attr("class", "halo").attr("x", f.width - 2).attr("y", y(peak) - 6).attr("text-anchor", "end").text(`peak ${si(peak, "FLOP/s")}`);
    const radius = o => 2.5 + 16 * Math.sqrt(o.time / all);
    tells(f.root.selectAll(".mark").data(ops.slice().sort((a, b) => b.time - a.time)).enter().append("circle").attr("class", "mark").attr("tabindex", 0)
      .attr("cx", o => x(o.x)).attr("cy", o => y(o.y)).attr("r", radius).style("fill", o => `var(${opClasses[o.op.class][1]})`).style("fill-opacity", 0.6).style("stroke", o => `var(${opClasses[o.op.class][1]})`),
    o => [o.op.name, `${o.layer}, ${o.direction}`, `${seconds(o.op.latency_s)}, ${percent(o.time / all, 1)} of the operators' time`, `${si(o.y, "FLOP/s")}, ${number(o.x)} FLOP a byte, limited by ${o.op.bound}`]);
  });
  return { update: (estimate, chip) => {
    const ops = [];
    estimate.layers.forEach(l => ["forward", "backward"].forEach(direction => l[direction].forEach(op => {
      if (opClasses[op.class] && op.flop > 0 && op.bytes > 0 && op.latency_s > 0)
        ops.push({ op, layer: l.name, direction, time: op.latency_s * l.count, x: op.flop / op.bytes, y: op.flop / op.latency_s });
    })));
    if (!ops.length) return;
    const items = Object.keys(opClasses).filter(c => ops.some(o => o.op.class === c)).map(c => ({ colour: `var(${opClasses[c][1]})`, text: opClasses[c][0] }));
    chart.update({ ops, chip }, items.concat([{ kind: "line", text: "peak of the chip and of HBM" }]));
  } };
}

// ---- scaling

function scalingSection(parent) {
  const chart = chartSection(parent, "scaling", "Throughput by devices", ({ rows, asked, busy }, holder, s) => {
    const fits = rows.filter(r => r.answer), first = fits[0], rate = r => r.answer.tokens / r.answer.step_s;
    if (!fits.length) {
      s.say(busy ? "Plans for other numbers of devices are being searched." : "No plan fits on these numbers of devices.");
      return;
    }
    const last = fits[fits.length - 1], each = r => rate(r) / r.devices;
    const compared = first === last ? "" : `, each ${percent(each(last) / each(first))} of what one of ${count(first.devices)} does`;
    s.say(`${plural(last.devices, "device")}: ${number(rate(last))} tokens/s${compared}${busy ? " …" : "."}`);
    const f = frame(holder, 250, { top: 24, right: 16, bottom: 40, left: 62 }, "tokens per second by devices", "group"), list = rows.map(r => r.devices);
    const x = d3.scale.log().domain([d3.min(list) / 1.2, d3.max(list) * 1.2]).range([0, f.width]);
    const values = fits.map(rate).concat([each(first) * last.devices]), y = d3.scale.log().domain([d3.min(values) / 1.6, d3.max(values) * 1.6]).range([f.height, 0]);
    f.root.append("g").attr("class", "axis grid").attr("transform", `translate(0,${f.height})`).call(d3.svg.axis().scale(x).orient("bottom").tickValues(list)
      .innerTickSize(-f.height).outerTickSize(0).tickPadding(8).tickFormat(count));
    const leading = t => Math.round(t / 10 ** Math.floor(Math.log10(t) + 1e-9));
    f.root.append("g").attr("class", "axis grid").call(d3.svg.axis().scale(y).orient("left").tickValues(y.ticks().filter(t => [1, 2, 5].includes(leading(t))))
      .innerTickSize(-f.width).outerTickSize(0).tickPadding(8).tickFormat(v => si(v, "")));
    f.root.append("text").attr("class", "soft").attr("x", f.width).attr("y", f.height + 34).attr("text-anchor", "end").text("devices");
    f.root.append("text").attr("class", "soft").attr("x", -8).attr("y", -10).text("tokens/s");
    const line = (value, colour, dash) => f.root.append("path").attr("d", d3.svg.line().x(r => x(r.devices)).y(r => y(value(r)))(fits)).style("fill", "none").style("stroke", `var(${colour})`).style("stroke-dasharray", dash).style("stroke-width", 1.6);
    line(r => each(first) * r.devices, "--soft", "4 3");
    line(rate, "--tensor", "");
    tells(f.root.selectAll(".mark").data(fits).enter().append("circle").attr("class", "mark").attr("tabindex", 0).attr("cx", r => x(r.devices)).attr("cy", r => y(rate(r)))
      .attr("r", r => r.devices === asked ? 6 : 4.5).style("fill", r => r.devices === asked ? "var(--best)" : "var(--tensor)"),
    r => [`${count(r.devices)} devices: ${number(rate(r))} tokens/s`, `${seconds(r.answer.step_s)} per step, MFU ${percent(r.answer.mfu, 1)}`, planText(r.answer.plan)]);
  });
  return { update: d => chart.update(d, [{ kind: "dot searched", text: "best plan for so many devices, the same batch" }, { kind: "rule", text: "at the rate of the fewest devices" }]) };
}

// "tp 8 sp, pp 4 x 2, dp 16, mbs 1, zero 1, recompute none"
function planText(p) {
  const some = (p.recompute_by_stage || []).some(n => n > 0);
  return [`tp ${p.tp}${p.sp && p.tp > 1 ? " sp" : ""}`, p.cp > 1 ? `cp ${p.cp}` : "", `pp ${p.pp}${p.vpp > 1 ? ` × ${p.vpp}` : ""}`, `dp ${p.dp}`, p.ep > 1 ? `ep ${p.ep}` : "",
    `mbs ${p.mbs}`, `zero ${p.zero}`, `recompute ${p.recompute === "full" && p.recompute_by_stage ? some ? "some layers" : "none" : p.recompute}`,
    ["fp8", "nvfp4"].includes(p.precision) ? `${p.precision} GEMMs${p.fp8_recipe ? ` (${p.fp8_recipe})` : ""}` : "", p.bf16_first_layers ? `the first ${p.bf16_first_layers} layers bf16` : "", p.bf16_layers ? `the last ${p.bf16_layers} layers bf16` : "", p.bf16_modules ? `bf16 ${p.bf16_modules}` : "",
    p.peft ? visible(p.peft) : "", p.offload && p.offload !== "none" ? `${p.offload.replace(",", " and ")} on the host` : ""].filter(x => x).join(", ");
}
