// The page that computes: settings on one side, answers on the other.  A change is answered at once with a prediction (of the plan found
// last, where one is searched), and with the best plan when its search has ended.  Three workers: one for quick answers, one that searches
// and is ended when its question is stale, one for launch scripts, whose plan may have to be searched again.

const begin = Object.assign({ mode: "search" }, Object.fromEntries(Object.entries(source.state).filter(([, v]) => v !== null && v !== undefined)));
if (begin.zero !== undefined) begin.zero = String(begin.zero);
pins.forEach(p => { if (begin[p.key] !== undefined) begin[p.key] = String(begin[p.key]); });
let state = begin, ignored = [];
const chips = {}, clusters = {}; // descriptions by name or path
const root = document.documentElement;

// ---- workers

let module_ = null;
const script = URL.createObjectURL(new Blob([document.getElementById("engine").textContent], { type: "text/javascript" }));

// Asks one thing at a time: of the questions that come meanwhile the last one stays, and ends one that has been asked for longer than `patience` ms.
function asker(patience) {
  let worker = null, busy = null, next = null, id = 0;
  function start() {
    worker = new Worker(script);
    worker.postMessage({ module: module_ });
    worker.onmessage = e => {
      if (!busy || e.data.id !== busy.id) return;
      const { resolve } = busy;
      busy = null;
      resolve(e.data);
      if (next) post();
    };
    worker.onerror = e => {
      e.preventDefault();
      const { resolve } = busy || { resolve() {} };
      stop();
      resolve({ trap: e.message || "the worker ended" });
    };
  }
  function stop() {
    if (worker) worker.terminate();
    worker = busy = null;
  }
  function post() {
    busy = next;
    busy.since = performance.now();
    next = null;
    if (!worker) start();
    worker.postMessage({ id: busy.id, files: busy.files, commands: busy.commands });
  }
  return {
    ask: (files, commands) => new Promise(resolve => {
      if (next) next.resolve({ stale: true });
      next = { id: ++id, files, commands, resolve };
      if (busy && performance.now() - busy.since >= patience) {
        busy.resolve({ stale: true });
        stop();
      }
      if (!busy) post();
    }),
    cancel: () => {
      if (next) next.resolve({ stale: true });
      next = null;
      if (!busy) return;
      busy.resolve({ stale: true });
      stop();
    },
  };
}
const quick = asker(300), searching = asker(0), launching = asker(0);

// ---- the answer

const head = document.getElementById("head"), page = document.getElementById("page");
head.className = "answer";
el(head, "p", "kicker", "phaze explore");
const title = el(head, "h1", "", "Starting …"), told = el(head, "p", "state", ""), facts = el(head, "dl", "facts");
told.setAttribute("role", "status");
title.setAttribute("aria-live", "off");
const commandBox = el(head, "div", "commands");
const commandLine = el(commandBox, "div", "command"), commandText = el(commandLine, "pre", "", "");
commandText.id = "command";
commandText.setAttribute("aria-label", "the command that prints the same numbers");
const buttons = el(commandLine, "p", "controls"), notes = el(commandBox, "div", "files");
function button(parent, text, act) {
  const b = el(parent, "button", "", text);
  b.type = "button";
  b.addEventListener("click", () => act(b));
  return b;
}
function copied(b, text) {
  const done = word => { b.textContent = word; setTimeout(() => { b.textContent = b.title; }, 1200); };
  const area = el(document.body, "textarea");
  area.value = text;
  area.select();
  done(document.execCommand("copy") ? "Copied" : "Copy failed");
  area.remove();
}
function copyButton(parent, text, what) {
  const b = button(parent, text, () => copied(b, what()));
  b.title = text;
  return b;
}
copyButton(buttons, "Copy command", () => commandText.textContent);
copyButton(buttons, "Copy address", () => window.location.href.replace(/#.*/, "") + writeAddress(state, begin));
function fileBox(label) {
  const box = el(notes, "details"), summary = el(box, "summary", "", label), line = el(box, "p", "controls"), pre = el(box, "pre");
  let name = label;
  copyButton(line, "Copy", () => pre.textContent);
  button(line, "Download", () => {
    const a = el(document.body, "a"), url = URL.createObjectURL(new Blob([pre.textContent], { type: "text/plain" }));
    a.href = url;
    a.download = name;
    a.click();
    a.remove();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  });
  return { box, line, pre, show(fileName, text, words) {
    box.hidden = text === null;
    if (text === null) return pre.replaceChildren();
    name = fileName.replace(/^\.\//, "");
    summary.textContent = words;
    if (pre.textContent !== text) pre.textContent = text;
  } };
}
const chipFile = fileBox("chip"), clusterFile = fileBox("cluster"), resultFile = fileBox("answer");
chipFile.pre.id = "chip-file";
clusterFile.pre.id = "cluster-file";
resultFile.pre.id = "result";

// The launch script of the shown plan, for the framework that is chosen.
const launchBox = fileBox("launch script"), launchTold = el(launchBox.box, "p", "state"), launchChoice = el(el(launchBox.line, "label", "", "for"), "select");
launchBox.pre.id = "launch";
launchTold.id = "launch-told";
launchBox.box.insertBefore(launchTold, launchBox.pre);
launchBox.line.insertBefore(launchChoice.parentNode, launchBox.line.firstChild);
launchChoice.name = "emit";
[["", "…"]].concat(source.launches.map(f => [f, f])).forEach(([v, text]) => { el(launchChoice, "option", "", text).value = v; });
launchChoice.addEventListener("change", () => {
  state = Object.assign({}, state, { emit: launchChoice.value });
  if (!launchChoice.value) delete state.emit;
  keepAddress();
  if (root.dataset.state === "ready" && answer) launch(shownJob, round);
});
launchBox.box.addEventListener("toggle", () => {
  if (!launchBox.box.open || launchChoice.value) return;
  launchChoice.value = answer && source.launches.includes(answer.plan.framework) ? answer.plan.framework : source.launches[0];
  launchChoice.dispatchEvent(new Event("change"));
});

function fact(name, value, small, wide) {
  const d = el(facts, "div", wide ? "wide" : "");
  el(d, "dt", "", name);
  const dd = el(d, "dd", "", value);
  if (small) el(dd, "small", "", small);
}

let working = 0;
function say(text, kind) {
  clearInterval(working);
  if (kind === "working") { // the time spent; how long a search takes is not known before it ends
    const since = performance.now();
    working = setInterval(() => { told.textContent = `${text} ${Math.round((performance.now() - since) / 1000)} s`; }, 1000);
  }
  told.className = "state" + (kind ? " " + kind : "");
  const more = ignored.length ? ` Not understood in the address: ${ignored.map(visible).map(short).join(", ").slice(0, 200)}.` : "";
  told.textContent = text + more;
}

const old = el(page, "p", "chart-note"), charts_ = el(page, "div", "charts");
old.id = "old";
old.hidden = true;
const partsChart = partsSection(charts_), memoryChart = memorySection(charts_), rooflineChart = rooflineSection(charts_), scalingChart = scalingSection(charts_);
let timeline = null, answer = null, answered = null, bill = null, lastPlan = null; // answered: the question whose charts are shown

// There is no answer for the settings (yet): what is shown of others is dim, and there is nothing to copy.
function showOld() {
  head.classList.add("old");
  old.hidden = !answered;
  old.textContent = answered === shownJob ? "The charts are of the plan found last, which is no answer for these settings." : "The charts are of the previous settings.";
  answer = null;
  resultFile.show("", null);
  launchBox.pre.textContent = launchTold.textContent = "";
  launchTold.className = "state";
}

function showFacts(r, job) {
  const p = r.plan;
  while (facts.firstChild) facts.removeChild(facts.firstChild);
  fact("step", seconds(r.step_s), !r.expected_error ? "" : `${seconds(r.step_s * (1 - r.expected_error.error))} to ${seconds(r.step_s * (1 + r.expected_error.error))} in 8 of 10 runs (${visible(r.expected_error.of)})` +
    (r.expected_error.beyond.length ? `; beyond the validated: ${visible(r.expected_error.beyond.join("; "))}` : ""));
  fact("tokens/s per device", number(r.tokens_per_s_per_device), `${number(r.samples_per_s)} samples/s`);
  fact("MFU", percent(r.mfu, 1), `conventional ${percent(r.mfu_conventional, 1)}, HFU ${percent(r.hfu, 1)}`);
  fact("memory of a device", gigabytes(r.peak_bytes), `${percent(r.peak_bytes / r.hbm_bytes)} of HBM${r.fits ? "" : ", does not fit"}`);
  if (r.host_bytes) fact("on the host", gigabytes(r.host_bytes), `of ${gigabytes(r.usable_host_bytes)} for each device`);
  fact("plan", planText(p), `${plural(r.microbatches, "microbatch")}, ${p.framework}`, true);
  if (bill) fact("chip by its bill", `${number(bill.area_mm2)} mm²`, `${number(bill.watts)} W${bill.dollars ? `, $${number(bill.dollars)} to make` : ""}`);
  const cost = r.cost, dollars = cost && cost.dollars;
  if (cost) fact(`run of ${visible(job.state.tokens)} tokens`, `${number(cost.seconds / 86400)} days${dollars ? `, $${number(dollars)}` : ""}`,
    `${number(cost.device_hours)} device-hours${dollars ? ` at $${number(job.state.price)}` : "; dollars with a price"}`, true);
  const where = `${short(visible(job.state.model))} on ${count(job.state.devices)} × ${visible(job.chipName)}${job.clusterName ? " in " + visible(job.clusterName) : ""}`;
  title.className = r.fits ? "" : "wrong";
  title.textContent = r.fits ? `${where}: ${seconds(r.step_s)} per step, MFU ${percent(r.mfu, 1)}.`
    : `${where}: does not fit: ${r.needed_bytes > r.usable_bytes ? `${number(r.needed_bytes / 1e9)} of ${number(r.usable_bytes / 1e9)} GB`
      : `${number(r.host_bytes / 1e9)} of ${number(r.usable_host_bytes / 1e9)} GB on the host`}.`;
}

function showView(text) {
  replaceDatasets(JSON.parse(text).datasets);
  if (timeline) timeline.update();
  else {
    timeline = stepSections();
    timeline.draw();
  }
}

function showAnswer(r, job, view, estimate) {
  answer = r;
  answered = job;
  head.classList.remove("old");
  old.hidden = true;
  showFacts(r, job);
  partsChart.update(r);
  memoryChart.update(r);
  if (estimate && bill) rooflineChart.update(estimate, bill.chip);
  if (view) showView(view);
  syncs.forEach(f => f());
}

// ---- questions

// The settings as a question: words for chip and cluster, the files that they and the model are in.
function question() {
  const s = state, chip = chips[s.chip], cluster = s.cluster ? clusters[s.cluster] : null, files = Object.assign({}, source.files);
  const otherChip = changedChip(chip, s), otherCluster = changedCluster(cluster, s);
  const job = { state: s, files, chipWord: s.chip, clusterWord: s.cluster || null, chipName: chip.name, clusterName: cluster && cluster.name, chipText: null, clusterText: null };
  if (otherChip) {
    job.chipName = otherChip.name;
    job.chipWord = `./${otherChip.name}.json`;
    files[job.chipWord] = job.chipText = JSON.stringify(otherChip, null, 1) + "\n";
  }
  if (otherCluster) {
    job.clusterName = otherCluster.name;
    job.clusterWord = `./${otherCluster.name}.json`;
    files[job.clusterWord] = job.clusterText = JSON.stringify(otherCluster, null, 1) + "\n";
  }
  job.search = s.mode !== "given";
  job.words = job.search ? placeWords(job) : predictWords(job);
  return job;
}

const plainMessage = r => (r.err || "").split("\n").filter(l => l && !/ devices, scaled out from /.test(l) && !l.startsWith("usage:"))
  .map(l => l.replace(/^phaze[a-z ]*: /, "")).join(" ") || `it ended with status ${r.code}`;

function showJob(job) {
  commandText.textContent = shellLine(job.words);
  chipFile.show(job.chipWord, job.chipText, `${job.chipWord}: the changed chip, to be saved for the command`);
  clusterFile.show(job.clusterWord || "", job.clusterText, `${job.clusterWord}: the changed network, to be saved for the command`);
}

function failed(message) {
  showOld();
  facts.replaceChildren();
  say(message, "wrong");
  title.className = "";
  title.textContent = "No answer for these settings.";
}

// 'phaze predict' ends with 1 where the plan does not fit, and has its numbers all the same.
const predicted = r => r && r.code <= 1 && r.out !== "";

let round = 0, pause = 0, writing = 0, shownJob = null;
function keepAddress() { // browsers take few changes a second
  clearTimeout(writing);
  writing = setTimeout(() => history.replaceState(null, "", writeAddress(state, begin)), 300);
}
async function change() {
  const mine = ++round, began = performance.now(), stale = () => mine !== round;
  const job = question();
  root.dataset.state = "busy";
  delete root.dataset.quickMs;
  delete root.dataset.answerMs;
  clearTimeout(pause);
  searching.cancel();
  launching.cancel();
  shownJob = job;
  showJob(job);
  keepAddress();
  say(job.search ? "Searching for the best plan …" : "Computing …", "working");
  const c = await quick.ask(job.files, [{ words: ["chip", job.chipWord, "--json"] }]);
  if (c.stale || stale()) return;
  if (c.trap || c.results[0].code) return end(failed(c.trap || plainMessage(c.results[0])));
  const chip = JSON.parse(c.results[0].out);
  bill = Object.assign({ chip }, chip.bill);
  if (job.search) search(job, mine, began);
  const first = job.search ? (lastPlan ? lastPlanWords(job, lastPlan) : null) : job.words;
  if (!first) return;
  const commands = [{ words: first.concat(["--json", "--report", "./view.json"]), read: "./view.json", may_fail: true }];
  if (job.search) commands.push({ words: estimateWords(job, Object.assign({}, lastPlan, { seq: job.state.seq || lastPlan.seq })).concat("--json"), may_fail: true });
  const q = await quick.ask(job.files, commands);
  if (q.stale || stale() || root.dataset.state === "ready") return;
  const [r, estimate] = q.results || [];
  if (predicted(r)) {
    showAnswer(JSON.parse(r.out), job, r.file, estimate && estimate.code === 0 ? JSON.parse(estimate.out) : null);
    root.dataset.quickMs = (performance.now() - began).toFixed(1);
  }
  if (job.search) {
    if (predicted(r)) say("The plan found last, with these settings; searching for the best …", "working");
    else showOld();
    return;
  }
  if (q.trap) return end(failed(q.trap));
  if (!predicted(r)) return end(failed(plainMessage(r)));
  resultFile.show("prediction.json", r.out, "the answer as JSON");
  lastPlan = answer.plan;
  const e = await quick.ask(job.files, [{ words: estimateWords(job, answer.plan).concat("--json"), may_fail: true }]);
  if (e.stale || stale()) return;
  if (!e.trap && e.results[0].code === 0) rooflineChart.update(JSON.parse(e.results[0].out), bill.chip);
  say(`Predicted in ${number(r.ms)} ms.${answer.fits ? "" : " It does not fit in memory."}`, answer.fits ? "" : "wrong");
  end();
  launch(job, mine);
  scaling(job, mine);
}

function end() {
  root.dataset.state = "ready";
}

async function search(job, mine, began) {
  const a = await searching.ask(job.files, [{ words: job.words.concat(["--json", "--report", "./view.json"]), read: "./view.json" }]);
  if (a.stale || mine !== round) return;
  if (a.trap || a.results[0].code) return end(failed(a.trap ? `The search ended: ${a.trap}` : plainMessage(a.results[0])));
  const [r] = a.results, found = JSON.parse(r.out), c = found.certificate;
  const e = await quick.ask(job.files, [{ words: estimateWords(job, found.plan).concat("--json"), may_fail: true }]);
  if (e.stale || mine !== round) return;
  showAnswer(found, job, r.file, !e.trap && e.results[0].code === 0 ? JSON.parse(e.results[0].out) : null);
  lastPlan = found.plan;
  resultFile.show("plan.json", r.out, "the answer as JSON");
  const idle = job.state.devices - found.devices_used;
  say(`Proved the best of ${count(c.plans)} plans in ${number(r.ms)} ms: ${count(c.solved)} simulated, the others excluded by bounds${idle ? `; ${plural(idle, "device")} idle` : ""}.`);
  root.dataset.answerMs = (performance.now() - began).toFixed(1);
  end();
  launch(job, mine);
  scaling(job, mine);
}

// The script of the answer's plan, where one is asked for; what cannot be run says why.
async function launch(job, mine) {
  const framework = state.emit;
  delete root.dataset.launch;
  launchBox.show("launch.sh", framework ? "" : launchBox.pre.textContent, "launch script");
  if (!framework) return;
  launchBox.box.open = true;
  launchTold.className = "state working";
  launchTold.textContent = "Writing …";
  const words = launchWords(job, answer, framework), a = await launching.ask(job.files, [{ words }]);
  if (a.stale || mine !== round || state.emit !== framework) return;
  const r = a.results && a.results[0], wrote = predicted(r);
  launchBox.pre.textContent = wrote ? r.out : "";
  launchBox.pre.hidden = !wrote;
  launchTold.className = "state" + (wrote ? "" : " wrong");
  launchTold.textContent = a.trap || (wrote ? shellLine(words) : plainMessage(r));
  root.dataset.launch = "ready";
}

// Best plans for other numbers of devices, one after another while nothing else is asked.
function scaling(job, mine) {
  const n = job.state.devices, list = unique([n / 8, n / 4, n / 2, n, 2 * n, 4 * n].filter(x => x >= 1 && Number.isInteger(x))).sort((a, b) => a - b);
  const rows = list.map(devices => ({ devices, answer: devices === n && answer.fits ? answer : null }));
  clearTimeout(pause);
  scalingChart.update({ rows, asked: n, busy: true });
  pause = setTimeout(async () => {
    for (const row of rows.filter(x => x.devices !== n)) {
      const other = Object.assign({}, job, { state: Object.assign({}, job.state, { devices: row.devices }) });
      if (!job.search) degrees.forEach(k => delete other.state[k]);
      const a = await searching.ask(job.files, [{ words: placeWords(other).concat("--json") }]);
      if (a.stale || mine !== round) return;
      if (!a.trap && a.results[0].code === 0) row.answer = JSON.parse(a.results[0].out);
      scalingChart.update({ rows, asked: n, busy: true });
    }
    scalingChart.update({ rows, asked: n, busy: false });
    root.dataset.scaling = "ready";
  }, 250);
  delete root.dataset.scaling;
}

// ---- controls

const form = document.getElementById("controls");
form.addEventListener("submit", e => e.preventDefault());
const syncs = []; // put the state into the controls

function set(key, value) {
  const next = Object.assign({}, state);
  if (value === undefined || value === "") delete next[key];
  else next[key] = value;
  if (key === "chip") chipNumbers.forEach(n => delete next[n.key]);
  if (key === "cluster") levelNumbers.forEach(n => delete next[n.key]);
  state = next;
  ignored = [];
  syncs.forEach(f => f());
  change();
}

function group(name, open) {
  const d = el(el(form, "fieldset"), "details");
  d.open = open;
  el(d, "summary", "", name);
  return d;
}

function choice(parent, key, label, list) { // list: [{ name, items: [[value, text]] }]
  const l = el(parent, "label", "choice", label), s = el(l, "select");
  s.name = key;
  list.forEach(g => {
    const to = g.name ? el(s, "optgroup") : s;
    if (g.name) to.label = g.name;
    g.items.forEach(([v, text]) => { el(to, "option", "", text).value = v; });
  });
  s.addEventListener("change", () => set(key, s.value));
  syncs.push(() => { s.value = state[key] === undefined ? "" : state[key]; });
  return s;
}

// A text that may be left empty; what is not understood turns back.
function entry(parent, key, label, hint) {
  const l = el(parent, "label", "choice entry", label), t = el(l, "input");
  t.type = "text";
  t.name = key;
  t.title = hint;
  t.placeholder = hint.split(":")[0];
  t.addEventListener("change", () => {
    const v = t.value.trim() === "" ? "" : settingValue(key, t.value.trim());
    if (v === undefined) t.value = state[key] === undefined ? "" : state[key];
    else set(key, v);
  });
  syncs.push(() => { if (document.activeElement !== t || state[key] === undefined) t.value = state[key] === undefined ? "" : state[key]; });
}

// A number by slider and by digits.  `values`: what the slider can be set to; `base`: the value without a change.
let serial = 0;
function slider(parent, n, values, base) {
  const box = el(parent, "div", "slider"), label = el(box, "label", "", n.label), range = el(box, "input"), digits = el(box, "input");
  const id = "n" + serial++;
  range.type = "range";
  range.min = 0;
  range.step = 1;
  digits.type = "number";
  digits.min = 0;
  digits.step = "any";
  digits.id = id;
  label.htmlFor = id;
  range.setAttribute("aria-label", n.label);
  range.name = n.key;
  const current = () => state[n.key] === undefined ? base() : state[n.key];
  const list = () => values().concat([base()]).filter((v, i, a) => v > 0 && a.indexOf(v) === i).sort((a, b) => a - b);
  const accept = v => v > 0 && v <= n.max ? v : undefined;
  const put = v => { if (accept(v) !== undefined) set(n.key, v === base() && n.free ? undefined : v); };
  range.addEventListener("input", () => put(list()[+range.value]));
  digits.addEventListener("change", () => {
    const v = n.whole ? Math.round(+digits.value) : +digits.value;
    if (accept(v) === undefined) digits.value = String(+current().toPrecision(9));
    else put(v);
  });
  syncs.push(() => {
    const v = current(), all = list();
    range.max = all.length - 1;
    range.value = all.reduce((a, x, i) => Math.abs(Math.log(x / v)) < Math.abs(Math.log(all[a] / v)) ? i : a, 0);
    range.setAttribute("aria-valuetext", String(+v.toPrecision(6)));
    if (document.activeElement !== digits || +digits.value !== v) digits.value = String(+v.toPrecision(9));
    box.classList.toggle("changed", !!n.free && v !== base());
  });
}

// Steps around a value of the chip, an eighth of a doubling apart; of an array's sides powers of two.
function around(n, base) {
  if (n.powers) return d3.range(2, 11).map(i => 2 ** i);
  const round = base >= 64 ? x => Math.round(x) : x => +x.toPrecision(2);
  return d3.range(-12, 13).map(k => n.whole ? Math.max(1, Math.round(base * 2 ** (k / 4))) : round(base * 2 ** (k / 4)));
}

function buildControls() {
  const run = group("Training run", true);
  const others = source.presets.filter(m => !source.models.includes(m));
  choice(run, "model", "Model", [{ name: "of this page", items: source.models.map(m => [m, short(visible(m))]) }, { name: "built in", items: others.map(m => [m, m]) }]);
  choice(run, "chip", "Chip", [{ items: Object.keys(chips).map(c => [c, short(visible(c))]) }]);
  choice(run, "cluster", "Network", [{ items: [["", "the chip's link"]].concat(Object.keys(clusters).map(c => [c, short(visible(c))])) }]);
  runNumbers.forEach(n => slider(run, Object.assign({ whole: true, free: n.key === "seq" }, n), () => n.values, () => n.key === "seq" ? (answer ? answer.plan.seq : begin.seq || 4096) : begin[n.key]));
  entry(run, "tokens", "Tokens of the run", "15T, 300B: days of the run");
  entry(run, "price", "Dollars per device-hour", "2.5: dollars of the run, with tokens");
  choice(run, "precision", "Precision of GEMMs", [{ items: [["", "16 bit"]].concat(source.precisions.map(p => [p, p])) }]);
  choice(run, "fp8_recipe", "Scales of fp8", [{ items: [["", "by framework and chip"]].concat(source.recipes.map(r => [r, r])) }]);
  entry(run, "peft", "Fine-tuning", "all weights: or frozen weights with adapters, lora:16:all");
  choice(run, "offload", "Kept on the host", [{ items: [["", "nothing"]].concat(offloads.map(o => [o, o.replace(",", " and ")])) }]);
  choice(run, "framework", "Framework", [{ items: [["", "by the chip"]].concat(source.frameworks.map(f => [f, f])) }]);

  const plan = group("Plan", true), modes = el(plan, "div", "modes");
  modes.setAttribute("role", "radiogroup");
  modes.setAttribute("aria-label", "what is asked");
  [["search", "Find the best plan with these pins"], ["given", "Predict the plan that is given"]].forEach(([v, text]) => {
    const l = el(modes, "label"), r = el(l, "input");
    r.type = "radio";
    r.name = "mode";
    r.value = v;
    l.appendChild(document.createTextNode(" " + text));
    r.addEventListener("change", () => set("mode", v));
    syncs.push(() => { r.checked = (state.mode || "search") === v; });
  });
  const box = el(plan, "div", "pins");
  const pin = (key, label, title, choices) => {
    const l = el(box, "label", "", label), s = el(l, "select");
    l.title = title;
    s.name = key;
    s.setAttribute("aria-label", `${label}: ${title}`);
    const free = el(s, "option", "", "auto");
    free.value = "";
    choices.forEach(c => { el(s, "option", "", c).value = c; });
    s.addEventListener("change", () => set(key, s.value));
    syncs.push(() => {
      const v = state[key] === undefined ? "" : String(state[key]);
      if (v && !Array.from(s.options).some(o => o.value === v)) el(s, "option", "", v).value = v;
      s.value = v;
      free.textContent = state.mode === "given" ? "default" : "auto";
      l.classList.toggle("changed", v !== "");
    });
  };
  pins.forEach(p => pin(p.key, p.label, p.title, p.choices));
  pin("sp", "sp", "sequence parallelism", ["on", "off"]);
  const line = el(plan, "p", "controls");
  button(line, "Pin the plan shown", () => {
    if (!answer) return;
    const next = Object.assign({}, state, { mode: "given" }), p = answer.plan;
    ["tp", "pp", "vpp", "dp", "cp", "ep", "mbs", "zero", "recompute"].forEach(k => { if (p[k] !== undefined) next[k] = String(p[k]); });
    if (p.recompute === "full" && (p.recompute_by_stage || [1]).every(x => !x)) next.recompute = "none";
    if (!(p.ep > 1)) delete next.ep;
    if (p.offload) next.offload = p.offload;
    else delete next.offload;
    if (p.tp > 1) next.sp = p.sp ? "on" : "off";
    else delete next.sp;
    if (answer.devices_used && answer.devices_used < state.devices) next.devices = answer.devices_used;
    state = next;
    syncs.forEach(f => f());
    change();
  });
  button(line, "Unpin all", () => {
    state = Object.assign({}, state, { mode: "search" });
    degrees.concat("sp").forEach(k => delete state[k]);
    syncs.forEach(f => f());
    change();
  });

  const chip = group("Chip", window.innerWidth > 900);
  chipNumbers.forEach(n => {
    const whole = ["cores", "rows", "cols", "vector", "lanes"].includes(n.key), with_ = Object.assign({ free: true, whole }, n), base = () => n.get(chips[state.chip]);
    slider(chip, with_, () => around(with_, base()), base);
  });
  button(el(chip, "p"), "Chip as it was", () => {
    state = Object.assign({}, state);
    chipNumbers.forEach(n => delete state[n.key]);
    syncs.forEach(f => f());
    change();
  });

  const net = group("Network", window.innerWidth > 900);
  levelNumbers.forEach(n => {
    const level = () => state.cluster ? clusters[state.cluster].levels[n.level] : null, base = () => level() ? level().bytes_per_s / 1e9 : 1;
    const holder = el(net, "div"), with_ = Object.assign({ free: true }, n, { label: "rate" });
    slider(holder, with_, () => around(with_, base()), base);
    syncs.push(() => {
      holder.hidden = !level();
      if (!level()) return;
      const text = `${visible(level().name)} of ${count(level().devices)} (GB/s)`;
      holder.querySelector("label").textContent = text;
      holder.querySelector("input").setAttribute("aria-label", text);
    });
  });
}

// ---- start

syncs.push(() => { launchChoice.value = state.emit || ""; });

function readState() {
  const read = readAddress(window.location.hash, begin);
  ignored = read.ignored;
  state = read.state;
  const known = { model: source.models.concat(source.presets), chip: Object.keys(chips), cluster: Object.keys(clusters) };
  Object.keys(known).forEach(k => {
    if (state[k] === undefined || known[k].includes(state[k])) return;
    const same = known[k].find(name => name.toLowerCase() === state[k].toLowerCase());
    if (same) return void (state = Object.assign({}, state, { [k]: same }));
    ignored.push(`${k}=${state[k]}`);
    state = Object.assign({}, state, { [k]: begin[k] });
    if (begin[k] === undefined) delete state[k];
  });
}

async function start() {
  const bytes = Uint8Array.from(atob(source.wasm), c => c.charCodeAt(0));
  delete source.wasm;
  module_ = await WebAssembly.compile(bytes);
  const files = Object.keys(source.files), own = files.includes(begin.chip) ? [{ words: ["chip", begin.chip, "--json"] }] : [];
  const a = await quick.ask(source.files, [{ words: ["chips", "--json"] }].concat(own));
  if (a.trap || a.results.some(r => r.code)) throw new Error(a.trap || plainMessage(a.results.find(r => r.code)));
  const all = JSON.parse(a.results[0].out);
  if (own.length) chips[begin.chip] = JSON.parse(a.results[1].out);
  if (files.includes(begin.cluster)) clusters[begin.cluster] = JSON.parse(source.files[begin.cluster]);
  all.chips.forEach(c => { chips[c.name] = c; });
  all.clusters.forEach(c => { clusters[c.name] = c; });
  readState();
  buildControls();
  syncs.forEach(f => f());
  window.addEventListener("hashchange", () => {
    clearTimeout(writing);
    readState();
    syncs.forEach(f => f());
    change();
  });
  change();
}
start().catch(e => failed(`The page cannot compute: ${e.message}`));
