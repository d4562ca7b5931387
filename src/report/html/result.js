// What charts of a search use: its models and objective, the model that is shown, and what tables and bars have in common.

const search = source.search; // by training plans; null: by the evaluator original, with every chip listed
const models = unique(dataset("step").map(r => r.model));
const objective = {
  ratio: ["throughput", "weighted"].includes(source.objective.name),
  text: source.objective.meaning,
};
const value = x => objective.ratio ? times(x) : number(x);
const palette = ["--tensor", "--fused", "--vector", "--buffer", "--hbm", "--network", "--bubble", "--best", "--vector-dark", "--soft", "--ink", "--front"]
  .map(c => `var(${c})`);

// ---- by training plans

const { best, certificate, inputs } = search || { inputs: { objective: "" } };
const per = inputs.objective.startsWith("per-") ? ` per ${inputs.objective.slice(4)}` : "";
const limits = [inputs.limit_mm2 && `${number(inputs.limit_mm2)} mm²`, inputs.limit_watts && `${number(inputs.limit_watts)} W`,
  inputs.limit_dollars && `$${number(inputs.limit_dollars)}`].filter(x => x);
const within = limits.length ? "within " + limits.join(", ") : "without limits";

// ---- by the evaluator original

const objective_runs = dataset("objective_runs").map(c => c.objective_run);
const common = dataset("objective_runs")[objective_runs.length - 1];
const runTitle = name => name === "common" && objective_runs.length > 1 ? "all models" : short(name);
// What ratios are ratios to.
const experts = dataset("models").filter(m => m.reference_expert).length;
const reference = experts === models.length ? "TPUv4 with expert plans" : experts ? "TPUv4 with known plans"
  : "TPUv4 with its best plans";

// One model for the charts that show one: choosing it anywhere changes all of them.
// The one that fills its memory most comes first.
const fullest = dataset("stages").reduce((a, b) => a && b.memory_bytes / b.hbm_bytes <= a.memory_bytes / a.hbm_bytes ? a : b, null);
const shown = { model: fullest ? fullest.model : models[0], listeners: [] };
function modelSelect(parent) {
  if (models.length < 2) return;
  const s = select(parent, "model", models.map(m => ({ value: m, text: m })), shown.model, m => {
    shown.model = m;
    shown.listeners.forEach(f => f());
  });
  shown.listeners.push(() => { s.value = shown.model; });
}

// ---- facts and tables

// A list of facts; adds one: its name, its text, and a line below.
function factList(parent) {
  const facts = el(parent, "dl", "facts");
  return (name, text, small) => {
    const d = el(facts, "div");
    el(d, "dt", "", name);
    const dd = el(d, "dd", "", text);
    if (small) el(dd, "small", "", small);
  };
}
