// What charts of a search use: its models and objective, and the model that is shown.

const objective_runs = dataset("objective_runs").map(c => c.objective_run);
const common = dataset("objective_runs")[objective_runs.length - 1];
const models = dataset("models").map(m => m.model);
const runTitle = name => name === "common" && objective_runs.length > 1 ? "all models" : short(name);

const objective = {
  ratio: ["throughput", "weighted"].includes(source.objective.name),
  text: source.objective.meaning,
};
// What ratios are ratios to.
const experts = dataset("models").filter(m => m.reference_expert).length;
const reference = experts === models.length ? "TPUv4 with expert plans" : experts ? "TPUv4 with known plans"
  : "TPUv4 with its best plans";
const value = x => objective.ratio ? times(x) : number(x);

// One model for the charts that show one: choosing it anywhere changes all of them.
// The one that fills its memory most comes first.
const fullest = dataset("stages").reduce((a, b) => b.memory_bytes / b.hbm_bytes > a.memory_bytes / a.hbm_bytes ? b : a);
const shown = { model: fullest.model, listeners: [] };
function modelSelect(parent) {
  if (models.length < 2) return;
  const s = select(parent, "model", models.map(m => ({ value: m, text: m })), shown.model, m => {
    shown.model = m;
    shown.listeners.forEach(f => f());
  });
  shown.listeners.push(() => { s.value = shown.model; });
}
