// The inputs, and the command that reproduces the report.
(() => {
  const command = dataset("command")[0];
  const s = section("inputs", "Inputs and reproduction",
    command ? "This command reproduces the report, byte for byte, with any number of threads." : "The same inputs give this report, byte for byte, with any number of threads.");
  if (command) el(s.root, "pre", "", command.command).id = "command";
  const table = scrollTable(s.root, "inputs", "words"), body = el(table, "tbody");
  dataset("inputs").forEach(r => {
    const tr = el(body, "tr");
    el(tr, "td", "", r.input);
    el(tr, "td", "", r.value);
  });
  const refs = dataset("models").filter(m => !m.reference_expert || m.reference_hbm_gib > 32);
  if (refs.length)
    el(s.root, "p", "note", "The reference is TPUv4 with 32 GiB of HBM and the plan that experts published for the model; " +
      refs.map(m => m.reference_samples_per_s > 0
        ? `for ${short(m.model)} ${m.reference_expert ? "the expert plan" : "the best plan"} with ${number(m.reference_hbm_gib)} GiB`
        : `${short(m.model)} does not fit it, and has no reference`).join("; ") + ".");
  el(s.root, "p", "note", "“phaze report DIR --csv CSVDIR” writes the data of all charts as CSV files.");
  el(document.getElementById("page"), "footer", "",
    `phaze ${source.version}. This file is self-contained and loads nothing from the network.`);
  const nav = document.getElementById("contents");
  const names = { baselines: "Baselines", space: "Design space", floorplan: "Die area", schedule: "Layer schedule", pipeline: "Pipeline",
    memory: "Memory", step: "Step time", sensitivity: "Sensitivity", robustness: "Robustness", certificate: "Proof", inputs: "Inputs", chips: "Chips of today", bill: "Cost breakdown", roofline: "Roofline", front: "Watts and dollars" };
  document.querySelectorAll("section").forEach(section => {
    const a = el(nav, "a", "", names[section.id] || section.querySelector("h2").textContent);
    a.href = "#" + section.id;
  });
})();
