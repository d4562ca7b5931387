// What the best chip takes, and the reference: area, watts, dollars by part.

const partNames = {
  tensor_mm2: "tensor arrays", tensor_local_mm2: "tensor buffers", vector_mm2: "vector lanes", vector_local_mm2: "vector buffers",
  fp64_mm2: "64-bit units", glb_mm2: "global buffer", noc_mm2: "network on chip", hbm_mm2: "HBM interface", link_mm2: "links",
  die_link_mm2: "links between dies", io_mm2: "host I/O", other_mm2: "control, wiring, spare",
  static_watts: "static and clock", link_watts: "links", product_watts: "long products", stream_watts: "HBM at full rate",
  die_dollars: "dies", hbm_dollars: "HBM", package_dollars: "package",
};

// Stacked bars: one for each of `rows` {label, parts: [{name, amount, colour}]}.
function stacks(holder, rows, label, format) {
  const left = holder.clientWidth < 600 ? 84 : 130, most = d3.max(rows, r => d3.sum(r.parts, p => p.amount));
  const f = frame(holder, rows.length * 34 + 44, { top: 2, right: 12, bottom: 42, left }, label);
  const x = d3.scale.linear().domain([0, most]).range([0, f.width]);
  axisX(f, x, label, holder.clientWidth < 600 ? 3 : 6, format);
  rows.forEach((r, i) => {
    let at = 0;
    f.root.append("text").attr("x", -left).attr("y", i * 34 + 20).text(fitted(r.label, left - 6, 6.6));
    const parts = r.parts.map(p => Object.assign({ from: (at += p.amount) - p.amount }, p));
    tells(f.root.append("g").selectAll("rect").data(parts).enter().append("rect").attr("class", "mark").attr("x", p => x(p.from))
      .attr("width", p => Math.max(0, x(p.amount) - 0.8)).attr("y", i * 34 + 4).attr("height", 24).style("fill", p => p.colour),
      p => [`${r.label}: ${p.name}`, `${format(p.amount)} (${percent(p.amount / d3.sum(r.parts, q => q.amount), 1)})`]);
  });
}

(() => {
  if (!has("bills")) return;
  const bills = dataset("bills"), die = bills.filter(b => b.role === "best" && b.sum === "area").sort((a, b) => b.amount - a.amount)[0];
  const s = section("bill", "What it takes", `The largest part of its ${best.area_mm2.toFixed(0)} mm² is ${partNames[die.part]} (${number(die.amount)} mm²).`,
    "One bill for both chips (doc/silicon.md). Power counts the larger of long products and HBM at full rate.");
  [["area", "mm²"], ["watts", "W"], ["dollars", "$"]].filter(([sum]) => d3.sum(bills.filter(b => b.sum === sum && b.role === "best"), b => b.amount) > 0).forEach(([sum, unit]) => {
    const rows = bills.filter(b => b.sum === sum), names = unique(rows.map(b => b.part)), colour = p => palette[names.indexOf(p) % palette.length];
    el(s.root, "h3", "", { area: "Area", watts: "Power at peak", dollars: "Price of production" }[sum]);
    legend(s.root, names.map(p => ({ colour: colour(p), text: partNames[p] || p })));
    const holder = el(s.root, "div");
    draws("bill", () => stacks(holder, ["best", "reference"].map(role => {
      const rate = p => /^(product|stream)_/.test(p), mine = rows.filter(b => b.role === role);
      const most = d3.max(mine.filter(b => rate(b.part)), b => b.amount), own = mine.filter(b => !rate(b.part) || b.amount === most);
      return { label: role === "best" ? "best chip" : own[0].chip, parts: own.map(b => ({ name: partNames[b.part] || b.part, amount: b.amount, colour: colour(b.part) })) };
    }), unit, number));
  });
})();
