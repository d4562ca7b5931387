// Two dies to one scale; areas are exact, positions are not a layout.
(() => {
  if (!has("floorplan")) return;
  const rows = dataset("floorplan"), dies = dataset("dies");
  const total = role => d3.sum(rows.filter(r => r.role === role), r => r.area_mm2);
  const part = (role, names) => d3.sum(rows.filter(r => r.role === role && names.includes(r.part)),
    r => r.area_mm2) / total(role);
  const found = dies.find(d => d.role === "found"), ref = dies.find(d => d.role === "reference");
  const s = section("floorplan", "Die area by component, beside TPUv4",
    `Tensor cores take ${percent(part("found", ["tensor arrays", "tensor buffers"]))} of the die (TPUv4: ${percent(part("reference", ["tensor arrays", "tensor buffers"]))}); ` +
    `peak vector throughput is ${times(found.vector_op_per_s / ref.vector_op_per_s)} and peak matrix throughput ${times(found.tensor_flop_per_s / ref.tensor_flop_per_s)} that of TPUv4.`,
    "Tensor cores multiply matrices; vector cores run everything else (softmax, normalization, activation functions). Both dies are drawn to the same scale and every area is exact; positions are schematic, not a layout.");
  const colours = {
    "tensor arrays": "var(--tensor)", "tensor buffers": "var(--fused)", "vector lanes": "var(--vector)",
    "vector buffers": "var(--vector-dark)", "global buffer": "var(--buffer)", "HBM interface": "var(--bubble)",
    "64-bit units": "var(--front)", "network on chip": "var(--hbm)", "links": "var(--network)", "host I/O": "var(--evaluated)", "control, wiring, spare": "var(--rest)",
  };
  const there = name => rows.some(r => r.part === name && r.area_mm2 > 0);
  legend(s.root, Object.keys(colours).filter(there).map(k => ({ colour: colours[k], text: k })));
  const panels = el(s.root, "div", "panels two");

  const get = (role, name) => rows.find(r => r.role === role && r.part === name);
  // Cores are arrays, each with its buffer below; the other parts stand alone.
  const groups = role => [["tensor arrays", "tensor buffers"], ["vector lanes", "vector buffers"]]
    .concat(Object.keys(colours).slice(4).map(k => [k]))
    .map(parts => ({ parts: parts.map(p => get(role, p)), mm2: d3.sum(parts, p => get(role, p).area_mm2) }))
      .filter(g => g.mm2 > 0);

  // A group's cores in equal rows, as near to squares as their number allows.
  function cores(g) {
    const n = g.parts[0].count, squareness = c => Math.abs(Math.log(g.dx / c / (g.dy / (n / c))));
    const columns = d3.range(1, n + 1).filter(c => n % c === 0).sort((a, b) => squareness(a) - squareness(b))[0];
    const w = g.dx / columns, h = g.dy / (n / columns), out = [];
    d3.range(n).forEach(i => {
      let y = g.y + Math.floor(i / columns) * h;
      g.parts.forEach(row => {
        const dy = h * row.area_mm2 / g.mm2;
        if (dy > 0) out.push({ part: row.part, row, mm2: row.area_mm2 / n, x: g.x + i % columns * w, y, dx: w, dy });
        y += dy;
      });
    });
    return out;
  }

  const largest = Math.sqrt(Math.max(total("found"), total("reference")));
  ["found", "reference"].forEach(role => {
    const box = el(panels, "div"), die = dies.find(d => d.role === role);
    el(box, "h3", "", `${die.chip}, ${die.area_mm2.toFixed(1)} mm²`);
    el(box, "p", "note", `${plural(die.tensor_cores, "tensor core")} of ${die.rows}×${die.cols}, ${plural(die.vector_cores, "vector core")} of ${die.lanes} lanes, ${number(die.glb_mib)} MiB global buffer; ${si(die.tensor_flop_per_s, "FLOP/s")}, ${number(die.watts)} W peak`);
    const holder = el(box, "div");
    draws("floorplan", () => {
      const width = Math.max(240, holder.clientWidth || 320), scale = Math.min(width, 460) / largest;
      const side = Math.sqrt(total(role)) * scale;
      const f = frame(holder, side + 30, { top: 2, right: 2, bottom: 28, left: 2 }, "floorplan of " + die.chip);
      const blocks = d3.layout.treemap().size([side, side]).value(d => d.mm2).sort((a, b) => a.value - b.value).round(false)
        .nodes({ children: groups(role) }).filter(d => d.parts);
      const nodes = blocks.map(cores).reduce((a, b) => a.concat(b), []);
      const g = f.root.selectAll("g").data(nodes).enter().append("g").attr("transform", d => `translate(${d.x},${d.y})`);
      g.append("rect").attr("class", "mark").attr("width", d => d.dx).attr("height", d => d.dy)
        .style("fill", d => colours[d.part]).style("stroke", "var(--bg)")
        .style("stroke-width", d => Math.min(1.2, d.dx / 12, d.dy / 12));
      const label = d => d.part.replace(/s$/, "");
      g.filter(d => d.dx > 12 + 6.8 * label(d).length && d.dy > 18).append("text").attr("class", "inside").attr("x", 6).attr("y", 16)
        .style("fill", d => inkOn(colours[d.part])).text(label);
      tells(g, d => [d.part, d.row.count > 1
        ? `${d.row.count} of ${number(d.mm2)} mm² each, ${number(d.row.area_mm2)} mm² in total` : `${number(d.mm2)} mm²`,
        `${percent(d.row.area_mm2 / total(role), 1)} of the die`]);
      f.root.append("rect").attr("width", side).attr("height", side).style("fill", "none").style("stroke", "var(--ink)")
        .style("stroke-width", 1.2);
      const mm = 5 * scale;
      f.root.append("path").attr("d", `M0,${side + 12}h${mm}`).style("stroke", "var(--ink)").style("stroke-width", 2);
      f.root.append("text").attr("class", "soft").attr("x", mm + 8).attr("y", side + 16).text("5 mm");
    });
  });
})();
