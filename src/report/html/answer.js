// The result in a sentence, the chip in numbers: by the evaluator original, and by training plans.
(() => {
  if (search) return;
  const page = document.getElementById("page");
  const die = dataset("dies").find(d => d.role === "found");
  const whom = models.length > 1 ? `these ${models.length} models` : short(models[0]);
  document.title = `phaze: ${common.chip} for ${models.length > 1 ? models.length + " models" : short(models[0])}`;
  el(page, "p", "kicker", "phaze report");
  const r = source.ratios, weighted = source.objective.name === "weighted" ? "weighted " : "";
  const spread = r ? ` (${weighted}geometric mean; median ${times(r.median)}, from ${times(r.least.ratio)} for ${short(visible(r.least.model))} to ${times(r.most.ratio)} for ${short(visible(r.most.model))})` : "";
  el(page, "h1", "", objective.ratio
    ? `The best chip for ${whom} trains ${models.length > 1 ? "them" : "it"} ${value(common.objective)} as fast as ${reference}${spread}, on ${percent(common.area_part)} of the area budget.`
    : `The best chip for ${whom} is ${common.chip}: ${number(common.objective)} ${objective.text}.`);
  const proof = common.open_schedules
    ? `no other is more than ${percent(common.gap, common.gap < 0.01 ? 2 : 1)} better`
    : "none is better";
  const all = models.slice(0, 12).map(short).concat(models.length > 12 ? [`${models.length - 12} more`] : []);
  const list = all.length > 1 ? all.slice(0, -1).join(", ") + " and " + all[all.length - 1] : all[0];
  const cluster = dataset("inputs").find(r => r.input === "chips in the cluster").value;
  el(page, "p", "standfirst", (common.chips > 1
    ? `It is ${common.chip}: of the ${count(common.chips)} chips of the design space that fit the area budget ${proof}, and that is proven. `
    : `It is ${common.chip}, the only chip of the design space that fits the area budget. `) +
    "The chip, the parallelization plan of its cluster and the schedule of every layer were optimized together.");
  el(page, "p", "note", `${models.length > 1 ? "Models" : "Model"}: ${list}; ${models.length > 1 ? "each " : ""}on at most ${plural(+cluster, "chip")}, global batch size ${count(dataset("models")[0].batch)}. ` +
    "A chip’s name gives its tensor cores × rows × columns, its vector cores × lanes, and its global buffer in MiB.");
  const fact = factList(page);
  fact("tensor cores", `${die.tensor_cores} of ${die.rows}×${die.cols}`, si(die.tensor_flop_per_s, "FLOP/s"));
  fact("vector cores", `${die.vector_cores} of ${die.lanes} lanes`, si(die.vector_op_per_s, "op/s"));
  fact("global buffer", `${number(die.glb_mib)} MiB`, "on-chip SRAM");
  fact("HBM", `${number(common.hbm_gib)} GiB`, si(die.hbm_bytes_per_s, "B/s"));
  fact("area", `${common.area_mm2.toFixed(1)} mm²`, `${percent(common.area_part, 1)} of the budget`);
  fact("peak power", `${number(common.watts)} W`, "all units at full rate");
  el(page, "nav").id = "contents";
})();

(() => {
  if (!search) return;
  const page = document.getElementById("page"), c = best.chip, whom = models.length > 1 ? `these ${models.length} models` : short(models[0]);
  document.title = `phaze: ${best.name}`;
  el(page, "p", "kicker", "phaze report");
  const u = best.uncertainty, range = u ? ` (${times(u.low)} to ${times(u.high)})` : "";
  el(page, "h1", "", best.value >= 1
    ? `The best chip for ${whom} ${within} is ${times(best.value)}${range} an H100${per}.`
    : `No chip ${within} reaches an H100 for ${whom}: the best has ${times(best.value)}${range}${per}.`);
  el(page, "p", "standfirst", `It is ${best.name}. No chip of the space ${visible(inputs.space)} (${count(certificate.space)} chips) is more than ${percent(certificate.gap, 2)} better` +
    (certificate.finished ? ", and that is proved." : ": the search ended at its limit with that bound."));
  el(page, "p", "note", `${models.length > 1 ? "Models" : "Model"}: ${models.map(short).join(", ")}; ${count(inputs.devices)} devices in groups of ${count(inputs.scale_up)}, global batch size ${count(inputs.batch)}. ` +
    "The H100 is taken by its data sheet, as this chip is: what programs reach on chips of its class, at the clock that its watts allow, and nothing that was measured on it." +
    (u ? ` Predictions without measurements differ by ${percent(u.spread, 1)} from chip to chip: both have that error, hence the range.` : ""));
  if (best.power) {
    const most = p => Math.max(...p.full_watts).toFixed(0), mfu = m => percent(Math.min(...m.map(x => x.mfu)));
    el(page, "p", "note", `Its steps take up to ${most(best.power)} W at an MFU of ${mfu(best.models)} and more, those of the H100 ${most(search.reference.power)} W at ${mfu(search.reference.models)}.`);
  }
  const fact = factList(page);
  fact("tensor cores", `${c.tensor.cores} of ${c.tensor.rows}×${c.tensor.cols}`, si(2 * c.tensor.cores * c.tensor.rows * c.tensor.cols * c.clock_hz, "FLOP/s") + ` at ${number(c.clock_hz / 1e9)} GHz`);
  fact("vector cores", `${c.vector.cores} of ${c.vector.lanes} lanes`, si(c.vector.cores * c.vector.lanes * c.clock_hz, "op/s"));
  fact("global buffer", `${number(c.glb.bytes / 2 ** 20)} MiB`, si(c.glb.bytes_per_s, "B/s"));
  fact("HBM", gib(c.hbm.stacks * c.hbm.bytes_per_stack), `${c.hbm.stacks} stacks, ${si(c.hbm.stacks * c.hbm.bytes_per_s_per_stack, "B/s")}`);
  fact("link", si(c.link.bytes_per_s, "B/s"), c.tech);
  fact("area", `${best.area_mm2.toFixed(0)} mm²`, inputs.limit_mm2 ? `${percent(best.area_mm2 / inputs.limit_mm2)} of the limit` : "");
  const slowed = best.gemm_hz < 0.99 * c.clock_hz ? `, GEMMs at ${number(best.gemm_hz / 1e9)} GHz, ${percent(best.gemm_hz / c.clock_hz)} of its clock` : "";
  fact("power", `${best.watts.toFixed(0)} W`, (inputs.limit_watts ? `${percent(best.watts / inputs.limit_watts)} of the limit` : "sustained") + slowed);
  if (best.dollars) fact("price", `$${number(best.dollars)}`, "dies, HBM, package");
  el(page, "nav").id = "contents";
})();
