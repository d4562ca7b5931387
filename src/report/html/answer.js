// The result in a sentence, the chip in numbers.
(() => {
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
  const facts = el(page, "dl", "facts");
  const fact = (name, text, small) => {
    const d = el(facts, "div");
    el(d, "dt", "", name);
    const dd = el(d, "dd", "", text);
    if (small) el(dd, "small", "", small);
  };
  fact("tensor cores", `${die.tensor_cores} of ${die.rows}×${die.cols}`, si(die.tensor_flop_per_s, "FLOP/s"));
  fact("vector cores", `${die.vector_cores} of ${die.lanes} lanes`, si(die.vector_op_per_s, "op/s"));
  fact("global buffer", `${number(die.glb_mib)} MiB`, "on-chip SRAM");
  fact("HBM", `${number(common.hbm_gib)} GiB`, si(die.hbm_bytes_per_s, "B/s"));
  fact("area", `${common.area_mm2.toFixed(1)} mm²`, `${percent(common.area_part, 1)} of the budget`);
  fact("peak power", `${number(common.watts)} W`, "all units at full rate");
  el(page, "nav").id = "contents";
})();
