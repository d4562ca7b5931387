// The best plans: how they scale, where there are several (step time and tokens/s of a device by the number of devices), the parts of
// the step, its pipeline and memory over time, the plans.

document.title = "phaze plan";
const about = dataset("about")[0], rows = dataset("scaling"), found = rows.filter(r => r.found), first = found[0];
const weak = about.scaling === "weak";
const efficiency = r => r.tokens_per_s_per_device / first.tokens_per_s_per_device;
const describe = r => [plural(r.devices, "device"), `batch ${count(r.batch)}: ${seconds(r.step_s)} per step, MFU ${percent(r.mfu, 1)}`,
  `${number(r.tokens_per_s_per_device)} tokens/s per device, efficiency ${percent(efficiency(r), 1)}`, r.plan,
  `${si(r.peak_bytes, "B")} of memory`, r.devices_used < r.devices ? `${plural(r.devices - r.devices_used, "device")} idle` : ""];

(() => {
  const page = document.getElementById("page"), last = found[found.length - 1];
  el(page, "p", "kicker", "phaze");
  const where = `${short(about.model)} on ${rows.length > 1 ? "" : count(last.devices) + " × "}${about.chip}${about.cluster ? " in " + about.cluster : ""}`;
  if (rows.length === 1) {
    const fits = last.fits ? "" : `does not fit in memory, ${si(last.needed_bytes, "B")} needed, ${si(last.usable_bytes, "B")} usable; `;
    el(page, "h1", "", `${where}: ${fits}a step takes ${seconds(last.step_s)}, MFU ${percent(last.mfu, 1)}.`);
    el(page, "p", "note", `${last.plan}; batch ${count(last.batch)}, ${number(last.tokens_per_s_per_device)} tokens/s per device.`);
    return;
  }
  el(page, "h1", "", `${where}: on ${plural(last.devices, "device")} each does ` +
    `${percent(efficiency(last), 1)} of what it does on ${count(first.devices)}.`);
  el(page, "p", "note", (weak ? "Weak scaling: the batch grows with the devices." : "Strong scaling: the batch stays the same.") +
    " Each point is the best plan for that number of devices, found by a search of its own; idle devices count.");
})();

// The page of 'phaze explore' that lies beside this one, with the settings of the last plan.
if (source.explore) (() => {
  const last = found[found.length - 1], settings = { model: about.model, chip: about.chip, cluster: about.cluster, devices: last.devices, batch: last.batch };
  const a = el(el(document.getElementById("page"), "p", "note", "To change chip, run or plan: "), "a", "", source.explore);
  a.href = source.explore + "#" + Object.keys(settings).map(k => `${k}=${encodeURIComponent(settings[k])}`).join("&");
})();

// Devices on a logarithmic axis, with a tick for each number where there is room.
function devicesAxis(f) {
  const list = rows.map(r => r.devices), lo = d3.min(list), hi = d3.max(list);
  const x = d3.scale.log().domain([lo / 1.15, hi * 1.15]).range([0, f.width]);
  let end = -Infinity;
  const shown = new Set(list.filter(n => x(n) - end >= 42 && (end = x(n), true)));
  f.root.append("g").attr("class", "axis grid").attr("transform", `translate(0,${f.height})`).call(d3.svg.axis().scale(x).orient("bottom")
    .tickValues(list).innerTickSize(-f.height).outerTickSize(0).tickPadding(8).tickFormat(n => shown.has(n) ? count(n) : ""));
  f.root.append("text").attr("class", "soft").attr("x", f.width).attr("y", f.height + 36).attr("text-anchor", "end").text("devices");
  return x;
}

function curve(f, x, y, value) {
  f.root.append("path").attr("d", d3.svg.line().x(r => x(r.devices)).y(r => y(value(r)))(found))
    .style("fill", "none").style("stroke", "var(--tensor)").style("stroke-width", 1.6);
  tells(f.root.selectAll(".point").data(found).enter().append("circle").attr("class", "point mark").attr("tabindex", 0)
    .attr("cx", r => x(r.devices)).attr("cy", r => y(value(r))).attr("r", 4.5).style("fill", "var(--tensor)"), describe);
}

function ideal(f, x, y, value) {
  f.root.append("path").attr("d", d3.svg.line().x(r => x(r.devices)).y(r => y(value(r)))(found))
    .style("fill", "none").style("stroke", "var(--soft)").style("stroke-dasharray", "4 3");
}

if (rows.length > 1) (() => {
  const best = d3.max(found, r => r.tokens_per_s_per_device);
  const s = section("rates", "Rate of a device", `At most ${number(best)} tokens/s per device.`,
    "Dashed: the rate on the fewest devices. A plan may be better on more devices, where memory leaves more choice.");
  const holder = el(s.root, "div");
  draws("rates", () => {
    const f = frame(holder, 320, { top: 26, right: 14, bottom: 44, left: 62 }, "tokens/s of a device by devices", "group");
    const x = devicesAxis(f), y = d3.scale.linear().domain([0, 1.08 * best]).range([f.height, 0]);
    axisY(f, y, "tokens/s per device", number);
    ideal(f, x, y, () => first.tokens_per_s_per_device);
    curve(f, x, y, r => r.tokens_per_s_per_device);
  });
})();

if (rows.length > 1) (() => {
  const least = d3.min(found, r => r.step_s);
  const s = section("steps", "Step time", `The shortest step takes ${seconds(least)}.`,
    "Both axes are logarithmic. Dashed: the time at the rate of the fewest devices.");
  const holder = el(s.root, "div");
  const perfect = r => first.step_s * (r.batch / first.batch) * (first.devices / r.devices);
  draws("steps", () => {
    const f = frame(holder, 320, { top: 26, right: 14, bottom: 44, left: 62 }, "step time by devices", "group");
    const all = found.map(r => r.step_s).concat(found.map(perfect));
    const x = devicesAxis(f), y = d3.scale.log().domain([d3.min(all) / 1.5, d3.max(all) * 1.5]).range([f.height, 0]);
    const leading = t => Math.round(t / 10 ** Math.floor(Math.log10(t) + 1e-9)), decades = Math.log10(d3.max(all) / d3.min(all));
    const ticks = y.ticks().filter(t => (decades > 3 ? [1] : decades > 0.6 ? [1, 2, 5] : [1, 2, 3, 4, 5, 6, 7, 8, 9]).includes(leading(t)));
    f.root.append("g").attr("class", "axis grid").call(d3.svg.axis().scale(y).orient("left").tickValues(ticks)
      .innerTickSize(-f.width).outerTickSize(0).tickPadding(8).tickFormat(seconds));
    f.root.append("text").attr("class", "soft").attr("x", -8).attr("y", -10).text("time of a step");
    ideal(f, x, y, perfect);
    curve(f, x, y, r => r.step_s);
  });
})();

(() => {
  const parts = dataset("parts"), names = unique(parts.filter(p => p.seconds > 0).map(p => p.part));
  const s = section("parts", "Parts of the step", rows.length > 1 ? "What a step of each plan is made of." : "What the step is made of.", "Shares of the step's time.");
  const holder = el(s.root, "div");
  legend(s.root, names.map(n => ({ colour: stepColour(n), text: n })));
  draws("parts", () => {
    const f = frame(holder, 24 * found.length + 60, { top: 10, right: 14, bottom: 44, left: 72 }, "parts of the step by devices", "group");
    const x = d3.scale.linear().domain([0, 1]).range([0, f.width]);
    axisX(f, x, "share of the step", 5, v => percent(v));
    found.forEach((r, i) => {
      let at = 0;
      const bars = parts.filter(p => p.devices === r.devices && p.seconds > 0).map(p => {
        const bar = { p, from: at };
        at += p.seconds / r.step_s;
        return bar;
      });
      f.root.append("text").attr("x", -8).attr("y", 24 * i + 15).attr("text-anchor", "end").text(count(r.devices));
      tells(f.root.append("g").selectAll("rect").data(bars).enter().append("rect").attr("class", "mark").attr("tabindex", 0)
        .attr("x", b => x(b.from)).attr("y", 24 * i + 2).attr("height", 20).attr("width", b => x(b.p.seconds / r.step_s))
        .style("fill", b => stepColour(b.p.part)),
      b => [b.p.part, plural(r.devices, "device"), `${seconds(b.p.seconds)}, ${percent(b.p.seconds / r.step_s, 1)} of the step`]);
    });
  });
})();

const timeline = stepSections();

if (rows.length > 1) (() => {
  const s = section("plans", "Best plans", `${plural(found.length, "number")} of devices with a plan that fits.`);
  textTable(s.root, "best plans", ["devices", "batch", "s per step", "tokens/s/device", "efficiency", "MFU", "plan"],
    rows.map(r => [count(r.devices), count(r.batch)].concat(r.found ? [number(r.step_s), number(r.tokens_per_s_per_device), percent(efficiency(r), 1), percent(r.mfu, 1), r.plan]
      : ["–", "–", "–", "–", "nothing fits"])));
})();

drawAll();

// The timeline by pointer and keys.
function timelineTest(say) {
  const { canvas, holder, state, draw } = timeline, told = () => tip.hidden ? "none" : Array.from(tip.children).map(c => c.textContent).join(" | ");
  const span = () => ((state().view[1] - state().view[0]) / 1e6 / state().run.step_s).toFixed(3);
  const box = canvas.getBoundingClientRect(), at = { bubbles: true, cancelable: true, view: window, clientX: box.left + 0.4 * box.width, clientY: box.top + 4 };
  const pixels = () => new Set(new Uint32Array(canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.buffer)).size;
  const key = k => { holder.dispatchEvent(new KeyboardEvent("keydown", { key: k, bubbles: true, cancelable: true })); draw(); };
  const press = label => { document.querySelector(`#pipeline [aria-label="${label}"]`).click(); draw(); return span(); };
  say("note-of-pipeline", document.querySelector("#pipeline .note").textContent);
  say("pipeline-rows", state().stages.length);
  say("pipeline-colours", pixels() >= 4);
  canvas.dispatchEvent(new MouseEvent("mousemove", at));
  say("pipeline-hover", told());
  hideTip();
  canvas.dispatchEvent(new WheelEvent("wheel", Object.assign({ deltaY: -200 }, at)));
  draw();
  say("pipeline-wheel", span());
  say("pipeline-buttons", press("zoom in"), press("zoom out"), press("show the whole step"));
  key("+");
  say("pipeline-key", span());
  const before = state().view[0];
  canvas.dispatchEvent(new PointerEvent("pointerdown", Object.assign({ pointerId: 1, button: 0 }, at)));
  window.dispatchEvent(new PointerEvent("pointermove", { pointerId: 1, clientX: at.clientX - 50, clientY: at.clientY }));
  window.dispatchEvent(new PointerEvent("pointerup", { pointerId: 1 }));
  draw();
  say("pipeline-dragged", state().view[0] > before);
  holder.focus();
  key("ArrowRight");
  say("pipeline-focus", told());
  holder.blur();
  key("0");
  const began = performance.now();
  for (let i = 0; i < 20; i++) draw();
  say("pipeline-draw-ms", Math.ceil((performance.now() - began) / 20));
  say("memory-lead", document.querySelector("#memory .lead").textContent);
  say("memory-curve", document.querySelector("#memory .activations").getAttribute("d").length > 20);
  const choice = document.querySelector("#memory select");
  choice.value = String(state().stages.length - 1);
  choice.dispatchEvent(new Event("change"));
  say("memory-stage", state().chosen + 1, document.querySelector("#memory .lead").textContent.split(" holds")[0]);
}

// For tests: with #selftest the page points at a mark of every chart and leaves what happened as lines "WHAT VALUE" in an element
// with the id "selftest".
if (window.location.hash === "#selftest") {
  const lines = [], say = (...words) => lines.push(words.join(" "));
  document.querySelectorAll("section").forEach(s => {
    const marks = s.querySelectorAll(".mark");
    say("marks", s.id, marks.length);
    if (!marks.length) return;
    marks[0].dispatchEvent(new MouseEvent("mousemove", { bubbles: true, view: window, clientX: 50, clientY: 50 }));
    say("tip", s.id, tip.hidden ? "none" : Array.from(tip.children).map(c => c.textContent).join(" | "));
    hideTip();
  });
  timelineTest(say);
  say("step-colours", stepParts.length, "of", unique(stepParts.map(p => getComputedStyle(document.documentElement).getPropertyValue(p.colour.slice(4, -1)))).length);
  say("plans-cut", plansCut());
  say("images", document.images.length);
  say("fetched", performance.getEntriesByType("resource").length);
  say("too-wide-by", document.documentElement.scrollWidth - document.documentElement.clientWidth);
  el(document.body, "pre", "", lines.join("\n")).id = "selftest";
  if (window.parent !== window) window.parent.postMessage(lines.join("\n"), "*");
}
