// The settings of the page: what there is to set, as text in the address, as files and words of a command.

const GIB = 2 ** 30, MIB = 2 ** 20, KIB = 2 ** 10;
const positive = { min: 1, max: 2 ** 24 };

// Numbers of the run.
const runNumbers = [
  { key: "devices", label: "Devices", min: 1, max: 2 ** 24, values: d3.range(0, 15).map(i => 2 ** i) },
  { key: "batch", label: "Batch (samples)", min: 1, max: 2 ** 24, values: d3.range(0, 16).map(i => 2 ** i) },
  { key: "seq", label: "Sequence (tokens)", min: 1, max: 2 ** 24, values: d3.range(7, 21).map(i => 2 ** i) },
];

// Pins: a choice of the plan, or "" where it is searched (or as 'phaze predict' has it).
const powers = n => d3.range(0, n).map(i => String(2 ** i));
const pins = [
  { key: "tp", label: "tp", title: "tensor-parallel degree", choices: powers(7) },
  { key: "pp", label: "pp", title: "pipeline stages", choices: ["1", "2", "3", "4", "5", "6", "8", "10", "12", "16", "20", "24", "32", "40", "64"] },
  { key: "vpp", label: "vpp", title: "chunks of layers per stage", choices: ["1", "2", "3", "4", "5", "6", "8", "10"] },
  { key: "dp", label: "dp", title: "data-parallel replicas", choices: powers(13) },
  { key: "cp", label: "cp", title: "context-parallel degree", choices: powers(8) },
  { key: "ep", label: "ep", title: "expert-parallel degree", choices: powers(9) },
  { key: "mbs", label: "mbs", title: "microbatch size, samples", choices: powers(6) },
  { key: "zero", label: "ZeRO", title: "ZeRO stage", choices: ["0", "1", "2", "3"], words: true },
  { key: "recompute", label: "recompute", title: "recomputation of activations", choices: ["none", "selective", "full", "alternate", "half"], words: true },
];

// What may be kept on the host.
const offloads = ["activations", "optimizer", "activations,optimizer"];

// Numbers of the chip: where its description has them, and what must follow so that it stays one.
const share = (c, base, key, ratio) => { if (base.package && base.package[key]) c.package[key] = Math.max(1, Math.round(base.package[key] * ratio)); };
const chipNumbers = [
  { key: "cores", label: "Tensor cores", get: c => c.tensor.cores, max: 4096,
    set: (c, v, base) => { c.tensor.cores = v; share(c, base, "cores", v / base.tensor.cores); } },
  { key: "rows", label: "Array rows", get: c => c.tensor.rows, max: 4096, powers: true, set: (c, v) => { c.tensor.rows = v; } },
  { key: "cols", label: "Array columns", get: c => c.tensor.cols, max: 4096, powers: true, set: (c, v) => { c.tensor.cols = v; } },
  { key: "local", label: "Local buffer (KiB)", get: c => c.tensor.local_bytes / KIB, max: 2 ** 20,
    set: (c, v, base) => { c.tensor.local_bytes = Math.round(v * KIB); share(c, base, "core_bytes", v * KIB / base.tensor.local_bytes); } },
  { key: "vector", label: "Vector cores", get: c => c.vector.cores, max: 4096,
    set: (c, v, base) => { c.vector.cores = v; share(c, base, "vector_cores", v / base.vector.cores); } },
  { key: "lanes", label: "Vector lanes", get: c => c.vector.lanes, max: 8192, powers: true, set: (c, v) => { c.vector.lanes = v; } },
  { key: "glb", label: "Global buffer (MiB)", get: c => c.glb.bytes / MIB, max: 8192,
    set: (c, v, base) => {
      c.glb.bytes = Math.round(v * MIB);
      share(c, base, "sram_bytes", c.glb.bytes / base.glb.bytes);
      ["warm_from_bytes", "warm_to_bytes"].forEach(k => { if (c.calibration && c.calibration[k]) c.calibration[k] *= c.glb.bytes / base.glb.bytes; });
    } },
  { key: "clock", label: "Clock (MHz)", get: c => c.clock_hz / 1e6, max: 1e5, set: (c, v) => { c.clock_hz = v * 1e6; } },
  { key: "hbm", label: "HBM (GiB)", get: c => c.hbm.stacks * c.hbm.bytes_per_stack / GIB, max: 65536,
    set: (c, v) => { c.hbm.bytes_per_stack = Math.floor(v * GIB / c.hbm.stacks); } },
  { key: "hbm_rate", label: "HBM rate (GB/s)", get: c => c.hbm.stacks * c.hbm.bytes_per_s_per_stack / 1e9, max: 1e6,
    set: (c, v) => { c.hbm.bytes_per_s_per_stack = v * 1e9 / c.hbm.stacks; } },
  { key: "link", label: "Link of the chip (GB/s)", get: c => c.link ? c.link.bytes_per_s / 1e9 : 0, max: 1e6,
    set: (c, v) => { c.link.bytes_per_s = v * 1e9; } },
];

// Levels of a network, at most so many.
const levelNumbers = d3.range(0, 4).map(i => ({ key: "level" + (i + 1), level: i, max: 1e6 }));

const clone = x => JSON.parse(JSON.stringify(x));

// ---- the address

const numbers = Object.fromEntries(runNumbers.concat(chipNumbers, levelNumbers, [{ key: "price", max: 1e6 }]).map(n => [n.key, n]));
const words = {
  model: () => true, chip: () => true, cluster: () => true, // checked against what the page has
  mode: v => ["search", "given"].includes(v),
  precision: v => source.precisions.includes(v),
  fp8_recipe: v => source.recipes.includes(v),
  peft: v => v === "none" || /^lora:[0-9]{1,6}:[a-z0-9_+]+(:[0-9.]{1,9})?$/.test(v),
  offload: v => offloads.includes(v),
  framework: v => source.frameworks.includes(v),
  sp: v => ["on", "off"].includes(v),
  tokens: v => /^[0-9]{1,19}(\.[0-9]{1,6})?[KMGBT]?$/.test(v) && Number(v.replace(/[KMGBT]$/, "")) > 0,
  emit: v => source.launches.includes(v),
};

// The value of a setting, or undefined where the text is none.
function settingValue(key, text) {
  const pin = pins.find(p => p.key === key);
  if (pin) return (pin.words ? pin.choices.includes(text) : /^[1-9][0-9]{0,6}$/.test(text)) ? text : undefined;
  if (numbers[key]) {
    const v = /^[0-9]{1,9}(\.[0-9]{1,12})?$/.test(text) ? Number(text) : NaN;
    return v > 0 && v <= numbers[key].max ? v : undefined;
  }
  return words[key] && text.length <= 200 && words[key](text) ? text : undefined;
}

// Settings in the address, over those that the page begins with; what is nonsense is left out, and named.
function readAddress(hash, begin) {
  const state = Object.assign({}, begin), ignored = [];
  hash.slice(1, 4000).split("&").filter(x => x).forEach(part => {
    let key = part, text = "";
    try {
      key = decodeURIComponent(part.split("=")[0]);
      text = decodeURIComponent(part.slice(part.indexOf("=") + 1));
    } catch (e) {
      ignored.push(part);
      return;
    }
    const v = text === "" && key in begin ? null : settingValue(key, text);
    if (v === undefined) ignored.push(key);
    else if (v === null) delete state[key];
    else state[key] = v;
  });
  return { state, ignored };
}

function writeAddress(state, begin) {
  const keys = unique(Object.keys(begin).concat(Object.keys(state))).filter(k => state[k] !== begin[k]);
  return "#" + keys.map(k => encodeURIComponent(k) + "=" + (state[k] === undefined ? "" : encodeURIComponent(state[k]))).join("&");
}

// ---- descriptions that were changed

// A chip as 'phaze chip --json' prints it, without what it derives.
function plainChip(c) {
  const out = clone(c);
  ["derived", "area_mm2", "dollars", "bill", "known"].forEach(k => delete out[k]);
  return out;
}

// All cores together can draw everything: the least rate of one that a description may have.
function coreRate(part, rate, c) {
  const least = rate / Math.min(c.tensor.cores, c.vector.cores);
  if (part.core_bytes_per_s && part.core_bytes_per_s < least) part.core_bytes_per_s = least;
}

function changedChip(base, state) {
  const list = chipNumbers.filter(n => state[n.key] !== undefined && state[n.key] !== n.get(base));
  if (!list.length) return null;
  const c = plainChip(base);
  list.forEach(n => n.set(c, state[n.key], base));
  coreRate(c.glb, c.glb.bytes_per_s, c);
  coreRate(c.hbm, c.hbm.stacks * c.hbm.bytes_per_s_per_stack, c);
  c.name = (base.name + "-changed").slice(0, 40);
  c.about = (`${base.name} with ` + list.map(n => `${n.label.toLowerCase()} ${+state[n.key].toPrecision(9)}`).join(", ")).slice(0, 150);
  return c;
}

function changedCluster(base, state) {
  const list = levelNumbers.filter(n => base && base.levels[n.level] && state[n.key] !== undefined && state[n.key] !== base.levels[n.level].bytes_per_s / 1e9);
  if (!list.length) return null;
  const c = clone(base);
  list.forEach(n => { c.levels[n.level].bytes_per_s = state[n.key] * 1e9; });
  c.levels.forEach((l, i) => { if (i) l.bytes_per_s = Math.min(l.bytes_per_s, c.levels[i - 1].bytes_per_s); }); // none is faster than the one inside it
  c.name = (base.name + "-changed").slice(0, 40);
  return c;
}

// ---- commands

const quoted = w => /^[A-Za-z0-9_./:=,+-]+$/.test(w) ? w : "'" + w.replace(/'/g, "'\\''") + "'";
const shellLine = list => "phaze " + list.map(w => quoted(String(w))).join(" ");

// Options that all commands about a plan have.
function machineWords(job) {
  return ["--chip", job.chipWord].concat(job.clusterWord ? ["--cluster", job.clusterWord] : []);
}
function given(state, keys) {
  return [].concat(...keys.filter(k => state[k] !== undefined).map(k => ["--" + k.replace("_", "-"), String(state[k])]));
}
const degrees = pins.map(p => p.key), planKeys = ["devices", "batch", "seq"].concat(degrees, ["precision", "fp8_recipe", "peft", "offload", "framework"]);
const costWords = state => state.tokens === undefined ? [] : given(state, ["tokens", "price"]);
const spWords = state => state.sp === "on" ? ["--sp"] : state.sp === "off" ? ["--no-sp"] : [];

const placeWords = job => ["place", job.state.model].concat(machineWords(job), ["--semantics", "training"],
  given(job.state, planKeys), spWords(job.state), costWords(job.state));

const predictWords = job => ["predict", job.state.model].concat(machineWords(job),
  given(job.state, planKeys), spWords(job.state), costWords(job.state));

// The plan of an answer as a launch script: by the command that found it; in another framework by 'phaze predict' with the plan given.
function launchWords(job, answer, framework) {
  const bare = Object.assign({}, job.state);
  ["tokens", "price", "framework"].forEach(k => delete bare[k]);
  const emit = ["--emit", framework], plain = Object.assign({}, job, { state: bare });
  if (!job.search) return predictWords(plain).concat(emit);
  if (answer.plan.framework === framework) return placeWords(plain).concat(emit);
  bare.dp = answer.plan.dp;
  bare.devices = answer.devices_used;
  return lastPlanWords(plain, Object.assign({}, answer.plan, { framework: undefined })).concat(emit);
}

// The plan that was found last, for other settings: what is pinned stays so.
function lastPlanWords(job, plan) {
  const again = Math.max(...(plan.recompute_by_stage || [0])), state = Object.assign({}, job.state);
  ["tp", "pp", "vpp", "cp", "mbs", "zero", "recompute", "framework", "ep"].forEach(k => { if (state[k] === undefined && plan[k] !== undefined) state[k] = plan[k]; });
  if (job.state.recompute === undefined && plan.recompute === "full" && !again) state.recompute = "none";
  if (!plan.offload) delete state.offload;
  else if (state.offload) state.offload = plan.offload;
  delete state.dp;
  if (job.state.dp !== undefined) state.dp = job.state.dp;
  if (!(state.ep > 1)) delete state.ep;
  if (state.sp === undefined && Number(state.tp) > 1) state.sp = plan.sp ? "on" : "off";
  if (Number(state.tp) === 1) delete state.sp;
  const partly = state.recompute === "full" && job.state.recompute === undefined && again ? ["--recompute-layers", String(Math.max(1, Math.ceil(again / plan.vpp)))] : [];
  const order = Number(state.vpp) > 1 || ["1f1b", "interleaved"].includes(plan.pipeline) ? [] : ["--pipeline", plan.pipeline];
  const away = state.offload ? given(plan, ["offload_layers", "offload_fraction"].filter(k => plan[k])) : [];
  return predictWords(Object.assign({}, job, { state })).concat(partly, away, order, ["--overlap", plan.overlap]);
}

// The operators of a plan's layers, on one device.
function estimateWords(job, plan) {
  return ["estimate", job.state.model].concat(machineWords(job), ["--seq", String(plan.seq), "--mbs", String(plan.mbs), "--tp", String(plan.tp), "--attention", plan.attention],
    plan.sp ? ["--sp"] : [], plan.cp > 1 ? ["--cp", String(plan.cp)] : [], plan.ep > 1 ? ["--ep", String(plan.ep), "--etp", String(plan.etp || 1)] : []);
}
