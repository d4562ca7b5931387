// The page of 'phaze explore' in Chromium: node tests/cli/explore.js PHAZE PAGE.html DIR [SHOTS]
// Random settings through its address: each answer is, byte for byte, what the command that the page shows prints; the median answer comes
// within 100 ms, or within ten times what the command takes where the machine is busy.  A slider is dragged and keys are pressed, nonsense in the address is named, and nothing is asked of the outside.
"use strict";
const { execFileSync, spawnSync } = require("child_process");
const fs = require("fs"), path = require("path");
const { withPage, complaints, picture } = require("./browser.js");
const [phaze, file, dir, shots] = process.argv.slice(2);
let wrong = 0;
const fail = text => { console.log(text); wrong++; };

// A generator of its own, so that every run asks the same (mulberry32).
let seed = 20240817;
function random() {
  seed = (seed + 0x6D2B79F5) | 0;
  let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
  return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
}
const one = list => list[Math.floor(random() * list.length)], maybe = p => random() < p;

const machines = [["h100", "dgx-h100"], ["h100", ""], ["a100-80", "dgx-a100"], ["b200", "dgx-b200"], ["tpuv5p", "tpuv5p-pod"], ["tpuv4", "tpuv4-pod"], ["mi300x", ""]];
const models = ["llama2-7b", "llama3-8b", "gpt2-xl", "llama2-13b", "qwen3-30b-a3b", "bert-large"];
function randomSettings(given) {
  const [chip, cluster] = one(machines), s = { model: one(models), chip, cluster, devices: one([4, 8, 16, 32, 64]), batch: one([32, 64, 128, 256]), mode: given ? "given" : "search" };
  if (maybe(0.5)) s.seq = one([512, 1024, 2048]);
  if (given) Object.assign(s, { tp: one([1, 2, 4]), pp: one([1, 2, 4]), mbs: one([1, 2]) });
  else if (maybe(0.5)) Object.assign(s, one([{ tp: one([1, 2, 4]) }, { pp: one([1, 2]) }, { mbs: 1 }, { zero: 1 }, { recompute: "full" }]));
  if (maybe(0.2)) s.precision = "fp8";
  const changes = [["cores", () => 8 + Math.floor(random() * 200)], ["rows", () => one([32, 64, 128])], ["cols", () => one([32, 64, 128])], ["vector", () => 1 + Math.floor(random() * 150)],
    ["lanes", () => one([64, 128, 256])], ["glb", () => 16 + Math.floor(random() * 200)], ["local", () => 256 + Math.floor(random() * 1000)], ["clock", () => 900 + Math.floor(random() * 1500)],
    ["hbm", () => one([32, 48, 64, 96, 141, 192])], ["hbm_rate", () => 800 + Math.floor(random() * 8000)], ["level1", () => 50 + Math.floor(random() * 900)]];
  changes.forEach(([key, value]) => { if (maybe(0.2)) s[key] = value(); });
  return s;
}
const address = s => "#" + Object.entries(s).map(([k, v]) => `${k}=${encodeURIComponent(v)}`).join("&");

const state = `document.documentElement?.dataset.state`;
const seen = `(() => { const t = id => document.getElementById(id), d = document.documentElement.dataset, s = document.querySelector(".state");
  return { command: t("command").textContent, chip: t("chip-file").parentNode.hidden ? null : t("chip-file").textContent, cluster: t("cluster-file").parentNode.hidden ? null : t("cluster-file").textContent,
    result: t("result").textContent, quick: +d.quickMs || 0, full: +d.answerMs || 0, wrong: s.classList.contains("wrong"), told: s.textContent, title: document.querySelector("h1").textContent, red: document.querySelector("h1").classList.contains("wrong"), facts: document.querySelector(".facts").textContent,
    launch: t("launch").textContent, launchTold: t("launch-told").textContent }; })()`;

async function settled(page, change) {
  await page.eval(`document.documentElement.dataset.state = "asked"; ${change}; 0`);
  try {
    await page.until(`${state} === "ready"`, 30);
  } catch (e) {
    console.log(JSON.stringify(await page.eval(seen)).slice(0, 600), complaints(page.events).join("\n"));
    throw e;
  }
  return page.eval(seen);
}

// What the command prints, with the files that the page offers for it.
function native(x) {
  const words = x.command.split(" ").slice(1);
  if (x.chip) fs.writeFileSync(path.join(dir, words[words.indexOf("--chip") + 1]), x.chip);
  if (x.cluster) fs.writeFileSync(path.join(dir, words[words.indexOf("--cluster") + 1]), x.cluster);
  const since = performance.now(), r = spawnSync(phaze, words.concat(x.text ? ["-q"] : ["--json", "-q"]), { cwd: dir, encoding: "utf8" });
  return Object.assign(r, { ms: performance.now() - since });
}

async function randomTest(page) {
  const quick = [], full = [], command = [], many = 50;
  let answers = 0, refused = 0;
  for (let i = 0; i < many; i++) {
    const x = await settled(page, `location.hash = ${JSON.stringify(address(randomSettings(i % 2 === 0)))}`), r = native(x);
    const none = x.title === "No answer for these settings."; // what does not fit ends with 1, and is an answer in red
    if (none !== (r.stdout === "")) fail(`${x.command}: the command ends with ${r.status}, the page says: ${x.told}`);
    else if (none) {
      refused++;
      const text = r.stderr.split("\n")[0].replace(/^phaze[a-z ]*: /, "");
      if (!x.told.includes(text)) fail(`${x.command}: the page says '${x.told}', the command '${text}'`);
    } else {
      answers++;
      if ((r.status === 1) !== (x.red && x.title.includes("does not fit: "))) fail(`${x.command} ends with ${r.status}, the headline is: ${x.title}`);
      if (x.result !== r.stdout) fail(`${x.command}: the page has other numbers`);
      quick.push(x.quick || x.full);
      command.push(r.ms);
      if (x.full) full.push(x.full);
    }
  }
  const median = list => list.sort((a, b) => a - b)[Math.floor(list.length / 2)];
  console.log(`${answers} answers equal to the command's, ${refused} refused like it; median answer ${median(quick)} ms, median search ${median(full)} ms, median command ${median(command).toFixed(1)} ms`);
  if (answers < 30) fail(`only ${answers} of ${many} settings have an answer`);
  if (!(median(quick) < Math.max(100, 10 * median(command)))) fail(`median answer after ${median(quick)} ms`);
}

// A drag of a slider, step by step without waiting; then keys.
async function dragTest(page) {
  await settled(page, `location.hash = "#model=llama2-7b&devices=64&batch=256"`);
  const steps = `(async () => { const r = document.querySelector("input[name=hbm_rate]"), out = [];
    for (let i = 0; i < 12; i++) { r.value = +r.value + (i < 6 ? 1 : -1); r.dispatchEvent(new Event("input", { bubbles: true })); await new Promise(f => setTimeout(f, 30)); }
    r.value = +r.value + 3; r.dispatchEvent(new Event("input", { bubbles: true })); return r.getAttribute("aria-valuetext"); })()`;
  const value = await page.eval(steps);
  await page.until(`${state} === "ready"`, 30);
  const x = await page.eval(seen), r = native(x);
  if (x.result !== r.stdout) fail(`after a drag: ${x.command}: the page has other numbers`);
  if (!x.chip || !x.chip.includes('"bytes_per_s_per_stack"') || !(+value > 3350)) fail(`a drag does not change the chip: ${value}`);
  await page.eval(`document.querySelector("input[name=devices]").focus()`);
  for (const type of ["keyDown", "keyUp"]) await page.send("Input.dispatchKeyEvent", { type, key: "ArrowRight", code: "ArrowRight", windowsVirtualKeyCode: 39 });
  await page.until(`${state} === "ready" && document.getElementById("command").textContent.includes("--devices 128")`, 30);
  const unnamed = await page.eval(`Array.from(document.querySelectorAll("input, select, button")).filter(e => !(e.labels && e.labels.length) && !e.getAttribute("aria-label") && !e.textContent.trim()).length`);
  if (unnamed) fail(`${unnamed} controls have no name`);
}

async function addressTest(page) {
  const x = await settled(page, `location.hash = "#devices=-3&tp=9999999999&nonsense=1&model=%3Cimg%20src=x%20onerror=alert(1)%3E&rows=NaN&chip=none&%E0%A4%A=1&hbm=1e999&zero=9"`);
  for (const word of ["devices", "tp", "nonsense", "rows", "hbm", "zero", "chip=none"]) if (!x.told.includes(word)) fail(`the address's '${word}' is not named: ${x.told}`);
  if (await page.eval(`document.images.length`)) fail("the address is not text");
  const y = await settled(page, `location.hash = "#devices=7&tp=3&mode=given"`);
  if (y.title !== "No answer for these settings." || !y.told.includes("accepted")) fail(`an impossible plan is told as: ${y.told}`);
  await settled(page, `location.hash = "#cores=1&rows=4096&cols=4096"`);
}

// Names in any case of letters.  Where there is no answer the charts are dim and named as those of other settings, and there is nothing to copy.
async function noAnswerTest(page) {
  const with_ = "&devices=32&batch=128&emit=megatron", shown = `({ charts: +getComputedStyle(document.querySelector(".charts")).opacity, old: (e => e.hidden ? "" : e.textContent)(document.getElementById("old")) })`;
  const x = await settled(page, `location.hash = "#model=Llama2-7B&chip=H100&cluster=DGX-H100${with_}"`);
  await page.until(`document.documentElement.dataset.launch === "ready"`, 30);
  const y = await page.eval(seen), before = await page.eval(shown);
  if (!x.command.startsWith("phaze place llama2-7b --chip h100 --cluster dgx-h100 ") || x.told.includes("Not understood")) fail(`names in other letters: ${x.command}: ${x.told}`);
  if (!y.result || !y.launch || before.charts !== 1 || before.old) fail(`an answer is shown as none: ${JSON.stringify(before)}`);
  for (const [other, told] of [["#model=llama3.1-70b&devices=8&batch=64&emit=megatron", "charts are of"], ["#model=llama2-7b&mode=given&devices=7&tp=3&emit=megatron", "previous settings"]]) {
    const z = await settled(page, `location.hash = ${JSON.stringify(other)}`), after = await page.eval(shown);
    if (z.title !== "No answer for these settings.") fail(`${other} has an answer: ${z.title}`);
    if (z.result || z.launch || z.launchTold || z.facts || !(after.charts < 1) || !after.old.includes(told)) fail(`${other}: shown of other settings: ${JSON.stringify([after, z]).slice(0, 400)}`);
    await page.eval(`(s => { s.value = "nemo"; s.dispatchEvent(new Event("change")); })(document.querySelector("select[name=emit]"))`);
    if ((await page.eval(seen)).launchTold) fail(`${other}: a script is written without an answer`);
  }
}

// The error of a chip that own steps corrected is theirs.
async function ownStepsTest() {
  await withPage("file://" + path.join(dir, "own.html"), { width: 1280, height: 900 }, async page => {
    await page.until(`${state} === "ready"`, 30);
    const { facts } = await page.eval(seen);
    if (!facts.includes(" in 8 of 10 runs (your own steps")) fail(`the error of own steps is told as: ${facts}`);
  });
}

// Days and dollars of a run are those of the command; so is the launch script, in the plan's framework and in another, or the reason why there is none.
async function runTest(page) {
  const x = await settled(page, `location.hash = "#model=llama2-7b&devices=32&batch=128&tokens=2T&price=2.5&emit=megatron"`), cost = JSON.parse(native(x).stdout).cost;
  const days = String(+(cost.seconds / 86400).toPrecision(3)), dollars = Math.round(cost.dollars).toLocaleString("en-US");
  if (!x.facts.includes(`${days} days, $${dollars}`)) fail(`the run of ${days} days and ${dollars} dollars is shown as: ${x.facts}`);
  for (const [framework, answered] of [["megatron", true], ["torchtitan", true], ["nemo", true], ["deepspeed", true], ["megatron", false]]) {
    await settled(page, `location.hash = "#model=llama2-7b&devices=32&batch=128&emit=${framework}${answered ? "" : "&chip=tpuv5p&cluster="}"`);
    await page.until(`document.documentElement.dataset.launch === "ready"`, 30);
    const y = await page.eval(seen);
    if (answered && y.launch !== native({ command: y.launchTold, text: true }).stdout) fail(`${framework}: the script is not that of: ${y.launchTold}`);
    if (answered !== y.launch.startsWith("#!") && answered !== /cannot run this plan/.test(y.launchTold)) fail(`${framework}: ${y.launchTold}`);
    if (!answered && (y.launch || !/GPU|tpu/i.test(y.launchTold))) fail(`a script for a TPU: ${y.launchTold}`);
  }
  const z = await settled(page, `location.hash = "#model=llama2-7b&devices=32&batch=128&tokens=abc&price=-1"`);
  if (!z.told.includes("tokens") || !z.told.includes("price")) fail(`nonsense for tokens and price is not named: ${z.told}`);
}

// A page that begins with precision, recipe, adapters and what is on the host has them in its fields and its command; changes of
// each are answered as the command answers them, or refused with its words.
async function planFieldsTest() {
  const fields = { precision: "fp8", fp8_recipe: "current", peft: "lora:16:all", offload: "activations,optimizer" };
  await withPage("file://" + path.join(dir, "fields.html"), { width: 1280, height: 900 }, async page => {
    await page.until(`${state} === "ready"`, 30);
    for (const [key, value] of Object.entries(fields))
      if ((await page.eval(`document.querySelector("[name=${key}]").value`)) !== value) fail(`the page does not begin with ${key} ${value}`);
    const change = (key, value) => settled(page, `(e => { e.value = ${JSON.stringify(value)}; e.dispatchEvent(new Event("change")); })(document.querySelector("[name=${key}]"))`);
    const same = x => {
      const r = native(x), text = r.stderr.split("\n")[0].replace(/^phaze[a-z ]*: /, "");
      if (r.stdout === "" ? !x.told.includes(text) : x.result !== r.stdout) fail(`${x.command}: the page says '${x.told}', the command '${text}'`);
    };
    const x = await page.eval(seen);
    for (const [key, value] of Object.entries(fields)) if (!x.command.includes(` --${key.replace("_", "-")} ${value}`)) fail(`${key} is not in: ${x.command}`);
    if (!x.facts.includes("fp8 GEMMs (current), lora:16:all")) fail(`the plan is shown as: ${x.facts}`);
    same(x);
    for (const [key, value] of [["peft", "lora:8:attention"], ["precision", "nvfp4"], ["fp8_recipe", ""], ["peft", ""], ["offload", ""], ["offload", "activations"]]) same(await change(key, value));
    if (!(await page.eval(seen)).command.includes(" --precision nvfp4 --offload activations")) fail(`changed fields are not in: ${(await page.eval(seen)).command}`);
    complaints(page.events).forEach(fail);
  });
}

// Every chart has marks at every width, and nothing is wider than the page.
async function widthTest() {
  for (const [width, dark] of [[1280, false], [390, true]])
    await withPage("file://" + file, { width, height: width > 600 ? 900 : 844, dark }, async page => {
      await page.until(`${state} === "ready"`, 30);
      for (const id of ["parts", "hbm", "roofline", "memory"])
        if (!(await page.eval(`document.querySelectorAll("#${id} .mark").length`))) fail(`${width}: ${id} has no marks`);
      if (!(await page.eval(`document.querySelector("#pipeline canvas").width > 100`))) fail(`${width}: the pipeline is not drawn`);
      const over = await page.eval(`document.documentElement.scrollWidth - document.documentElement.clientWidth`);
      if (over > 0) fail(`${width}: the page is wider by ${over}`);
      if (shots) await picture(page, path.join(shots, `explore-${width}${dark ? "-dark" : ""}.png`));
      complaints(page.events).forEach(fail);
    });
}

// Errors are raised and caught inside of the module: it answers after a hundred of them as before.
async function raisedErrorsTest(page) {
  const wrongWords = Array.from({ length: 100 }, (_, i) => ({ words: [`nonsense${i}`], may_fail: true }));
  const { trap, results } = await page.eval(`(async () => {
    const text = id => document.getElementById(id).textContent;
    const worker = new Worker(URL.createObjectURL(new Blob([text("engine")], { type: "text/javascript" })));
    worker.postMessage({ module: await WebAssembly.compile(Uint8Array.from(atob(JSON.parse(text("document")).wasm), c => c.charCodeAt(0))) });
    const answer = new Promise(resolve => { worker.onmessage = e => resolve(e.data); });
    worker.postMessage({ id: 1, files: {}, commands: ${JSON.stringify(wrongWords.concat({ words: ["chips", "--json"] }))} });
    return answer;
  })()`);
  if (trap) return fail(`a raised error ends the module: ${trap}`);
  wrongWords.forEach(({ words }, i) => {
    if (results[i].code !== 2 || !results[i].err.includes(`unknown command '${words[0]}'`)) fail(`${words[0]}: ${results[i].code} ${results[i].err}`);
  });
  if (results[100].code !== 0 || JSON.parse(results[100].out).chips.length < 10) fail("no answer after errors");
}

(async () => {
  await withPage("file://" + file, { width: 1280, height: 900 }, async page => {
    await page.until(`${state} === "ready"`, 30);
    await page.until(`document.documentElement.dataset.scaling === "ready"`, 30);
    if (!(await page.eval(`document.querySelectorAll("#scaling .mark").length > 1`))) fail("the scaling curve has no marks");
    const version = execFileSync(phaze, ["--version"], { encoding: "utf8" });
    if (!version.startsWith("phaze ")) fail(version);
    await randomTest(page);
    await dragTest(page);
    await addressTest(page);
    await noAnswerTest(page);
    await runTest(page);
    await raisedErrorsTest(page);
    complaints(page.events).forEach(fail);
  });
  await ownStepsTest();
  await planFieldsTest();
  await widthTest();
  process.exit(wrong ? 1 : 0);
})().catch(e => { console.log(e); process.exit(1); });
