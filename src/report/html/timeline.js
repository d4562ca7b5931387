// One simulated step: the passes of every stage on a canvas, and below it what a stage holds over the same time.  Both show the
// same part of the step; wheel, buttons, keys and dragging change it.
function stepSections() {
  let runs = dataset("pipelines");
  const kinds = { f: { name: "forward", colour: "--tensor" }, b: { name: "backward", colour: "--fused" },
    w: { name: "gradients of weights", colour: "--hbm" } };
  const parts = [{ key: "weight_bytes", colour: "--tensor", text: "weights" }, { key: "gradient_bytes", colour: "--fused", text: "gradients" },
    { key: "optimizer_bytes", colour: "--hbm", text: "optimizer state" }, { key: "other_bytes", colour: "--rest", text: "libraries and constants" }];
  const gb = x => number(x / 1e9) + "\u00a0GB";
  const constant = k => d3.sum(parts, p => k[p.key]);
  const margin = { top: 24, right: 12, bottom: 46, left: 56 };
  let run, stages, end, chosen, view, cursor, width = 0; // times in µs; chosen: stage of the memory chart; cursor: [stage, pass] of the keyboard

  const s = section("pipeline", "Pipeline of one step", "");
  const note = el(s.root, "p", "note");
  const controls = el(s.root, "div", "controls");
  if (runs.length > 1)
    select(controls, "devices", runs.map(r => ({ value: String(r.devices), text: count(r.devices) })), String(runs[runs.length - 1].devices),
      v => { choose(runs.find(r => String(r.devices) === v)); drawBoth(); });
  [["+", "zoom in", () => zoom(0.5)], ["−", "zoom out", () => zoom(2)], ["←", "earlier", () => pan(-0.25)], ["→", "later", () => pan(0.25)],
    ["whole step", "show the whole step", () => show(0, end)]].forEach(([text, label, act]) => {
    const b = el(controls, "button", "", text);
    b.type = "button";
    b.setAttribute("aria-label", label);
    b.addEventListener("click", act);
  });
  const shownSpan = el(controls, "span", "span");
  const legendBox = el(s.root, "div");
  const holder = el(s.root, "div", "timeline"), canvas = document.createElement("canvas"), ctx = canvas.getContext("2d");
  holder.tabIndex = 0;
  holder.setAttribute("role", "group");
  holder.setAttribute("aria-label", "passes of every stage: arrow keys go from pass to pass and from stage to stage, plus and minus zoom, 0 shows the whole step");

  const m = section("memory", "Memory of a stage over the step", "");
  const memoryNote = el(m.root, "p", "note"), memoryControls = el(m.root, "div", "controls");
  legend(m.root, [{ colour: "var(--vector)", text: "activations of chunks in flight" }].concat(parts.map(p => ({ colour: `var(${p.colour})`, text: p.text })),
    [{ kind: "line", text: "predicted peak of the stage" }, { kind: "dashed", text: "HBM of a device" }]));
  const memoryHolder = el(m.root, "div");

  // ---- what is shown

  function choose(r) {
    run = r;
    stages = dataset("stages").filter(k => k.devices === r.devices);
    end = run.step_s * 1e6;
    chosen = stages.reduce((a, k, i) => k.peak_bytes > stages[a].peak_bytes ? i : a, 0);
    view = [0, end];
    cursor = null;
    while (legendBox.firstChild) legendBox.removeChild(legendBox.firstChild);
    const zb = stages.some(k => k.kind.includes("w")), cut = stages.some(k => k.left_out), items = Object.keys(kinds).filter(k => k !== "w" || zb)
      .map(k => ({ colour: `var(${kinds[k].colour})`, text: k === "b" && zb ? "backward: gradients of inputs" : kinds[k].name }));
    items.push({ colour: "var(--bubble)", text: "idle (bubble)" });
    if (run.exchange_s > 0) items.push({ colour: "var(--network)", text: "gradient exchange that is not hidden" });
    items.push({ colour: "var(--buffer)", text: "optimizer" });
    legend(legendBox, items);
    s.say(`${plural(run.stages, "stage")}${run.chunks > 1 ? ` of ${plural(run.chunks, "chunk")}` : ""}, ${plural(run.microbatches, "microbatch")} (${run.order}): ` +
      `${plural(run.passes, "pass")} in a step of ${seconds(run.step_s)}${cut ? "" : `; stages compute ${percent(busy() / (run.stages * end))} of it`}.`);
    note.textContent = "One replica, as simulated; the same events as in a trace. Wheel or buttons zoom, dragging moves; a click chooses the stage of the chart below. " +
      "Passes narrower than a pixel are drawn as a mixture of their colours." +
      (cut ? ` The page has ${count(run.passes - d3.sum(stages, k => k.left_out))} of ${count(run.passes)} passes: the first and the last of each stage; those between, hatched, are left out.` : "");
    memoryNote.textContent = "From the same events: what the chunks in flight keep for their backward passes grows evenly during a forward pass and is freed evenly during the backward pass" +
      (zb ? " (the first of the two; what gradients of weights still read is not counted, as in the predicted peak)" : "") +
      ", above what stays for the whole step. What the layer at hand needs besides (work space, logits, communication) comes and goes within a pass: it is in the predicted peak, not in the curve." +
      (run.chunks > 1 ? " The predicted peak counts the chunks in flight when the warm-up ends; where chunks differ in size, later moments may hold a little more." : "");
    stageSelect();
  }

  const busy = () => d3.sum(stages, k => d3.sum(k.end_us) - d3.sum(k.start_us));

  function stageSelect() {
    while (memoryControls.firstChild) memoryControls.removeChild(memoryControls.firstChild);
    select(memoryControls, "stage", stages.map((k, i) => ({ value: String(i), text: `${k.stage}` })), String(chosen), v => { chosen = +v; drawBoth(); });
  }

  // ---- zoom

  let asked = 0;
  function changed() {
    if (!asked) asked = requestAnimationFrame(() => { asked = 0; drawBoth(); });
  }
  function show(from, to) {
    const least = Math.min(end, 20), span = Math.min(end, Math.max(least, to - from)), at = Math.max(0, Math.min(end - span, from));
    view = [at, at + span];
    hideTip();
    changed();
  }
  function zoom(factor, at = (view[0] + view[1]) / 2) {
    show(at - (at - view[0]) * factor, at + (view[1] - at) * factor);
  }
  const pan = part => show(view[0] + part * (view[1] - view[0]), view[1] + part * (view[1] - view[0]));
  const timeAt = x => view[0] + x / width * (view[1] - view[0]);

  // The first pass that ends after a time.
  function firstAfter(k, t) {
    let low = 0, high = k.end_us.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (k.end_us[middle] > t) high = middle;
      else low = middle + 1;
    }
    return low;
  }
  // Between the passes that were left out: index of the first one behind them, or -1.
  const behindCut = k => k.left_out ? k.end_us.length / 2 : -1;
  const span = (from, to) => `from ${seconds(from / 1e6)} to ${seconds(to / 1e6)}, ${seconds((to - from) / 1e6)}`;

  function describePass(k, i) {
    const kind = kinds[k.kind[i]].name;
    return [`stage ${k.stage}: ${kind} of microbatch ${count(k.microbatch[i])}`, run.chunks > 1 ? `chunk ${k.chunk[i]} of ${run.chunks}` : "",
      span(k.start_us[i], k.end_us[i]), `activations then: ${gb(k.held_mb[i] * 1e6)}`];
  }
  function describe(k, t) {
    const i = firstAfter(k, t), update = end - run.optimizer_s * 1e6, exchange = update - run.exchange_s * 1e6;
    if (i < k.end_us.length && k.start_us[i] <= t) return describePass(k, i);
    if (t >= update) return [`stage ${k.stage}: optimizer`, span(update, end)];
    if (t >= exchange) return [`stage ${k.stage}: gradient exchange`, span(exchange, update), "what is not hidden behind compute"];
    if (i === behindCut(k)) return [`stage ${k.stage}: ${plural(k.left_out, "pass")} left out of the page`];
    const from = i ? k.end_us[i - 1] : 0, to = i < k.start_us.length ? k.start_us[i] : exchange;
    return [`stage ${k.stage}: idle`, span(from, to)];
  }

  // ---- the passes

  const rowHeight = () => Math.max(5, Math.min(22, Math.floor(420 / stages.length)));
  function hex(name) {
    ctx.fillStyle = "#000000";
    ctx.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    return ctx.fillStyle;
  }
  const channels = colour => [1, 3, 5].map(i => parseInt(colour.slice(i, i + 2), 16));

  function drawPipeline() {
    const h = rowHeight(), f = frame(holder, stages.length * h + margin.top + margin.bottom, margin, "pipeline of one step", "presentation");
    width = f.width;
    const step = (view[1] - view[0]) / 1e6, unit = step < 2e-3 ? ["µs", 1] : step < 2 ? ["ms", 1e3] : ["s", 1e6];
    axisX(f, d3.scale.linear().domain(view.map(t => t / unit[1])).range([0, f.width]), `time in the step (${unit[0]})`);
    f.root.append("text").attr("class", "soft").attr("x", -8).attr("y", -10).attr("text-anchor", "end").text("stage");
    const every = Math.ceil(16 / h);
    f.root.selectAll(".name").data(stages.filter((k, i) => i % every === 0)).enter().append("text").attr("class", "soft name")
      .attr("x", -8).attr("text-anchor", "end").attr("y", k => (k.stage - 0.5) * h + 4).text(k => k.stage);
    f.root.append("path").attr("d", `M-4,${chosen * h}v${h}`).style("stroke", "var(--accent)").style("stroke-width", 3);
    const zoomed = (end / (view[1] - view[0]));
    shownSpan.textContent = zoomed > 1.001 ? `${seconds(step)} of ${seconds(run.step_s)}` : "";
    holder.appendChild(canvas);
    paint(f.width, f.height, h);
  }

  function paint(w, height, h) {
    const scale = window.devicePixelRatio || 1;
    canvas.width = Math.round(w * scale);
    canvas.height = Math.round(height * scale);
    Object.assign(canvas.style, { left: margin.left + "px", top: margin.top + "px", width: w + "px", height: height + "px" });
    ctx.setTransform(scale, 0, 0, scale, 0, 0);
    const colours = Object.fromEntries(Object.keys(kinds).map(k => [k, hex(kinds[k].colour)]));
    const inks = { f: hex("--mark-ink"), b: hex("--mark-ink"), w: hex("--mark-ink") };
    const other = { idle: hex("--bubble"), exchange: hex("--network"), optimizer: hex("--buffer"), cut: hex("--grid"), line: hex("--soft"), ink: hex("--ink") };
    const x = t => (t - view[0]) / (view[1] - view[0]) * w, thin = h > 8 ? 2 : 1, columns = Math.ceil(w);
    const rgb = { f: channels(colours.f), b: channels(colours.b), w: channels(colours.w) };
    const image = ctx.createImageData(columns, stages.length);
    stages.forEach((k, row) => mix(k, row, image, x, columns, rgb));
    const strip = document.createElement("canvas");
    strip.width = columns;
    strip.height = stages.length;
    strip.getContext("2d").putImageData(image, 0, 0);
    ctx.imageSmoothingEnabled = false;
    ctx.textAlign = "center";
    ctx.textBaseline = "middle";
    ctx.font = "11px system-ui, sans-serif";
    stages.forEach((k, row) => {
      const y = row * h, tall = h - thin;
      ends(k, y, tall, x, other);
      ctx.drawImage(strip, 0, row, columns, 1, 0, y, columns, tall);
      wide(k, y, tall, x, w, colours, inks);
    });
    if (cursor && document.activeElement === holder) {
      const k = stages[cursor[0]], from = x(k.start_us[cursor[1]]), to = x(k.end_us[cursor[1]]);
      ctx.strokeStyle = other.ink;
      ctx.lineWidth = 2;
      ctx.strokeRect(from - 1, cursor[0] * h - 1, Math.max(2, to - from) + 2, h);
    }
  }

  // Passes narrower than this are mixed, column by column.
  const narrow = 2.5;
  const inView = (k, each) => {
    for (let i = firstAfter(k, view[0]); i < k.end_us.length && k.start_us[i] < view[1]; i++) each(i);
  };
  function mix(k, row, image, x, columns, rgb) {
    const cover = { f: new Float32Array(columns), b: new Float32Array(columns), w: new Float32Array(columns) };
    let any = false;
    inView(k, i => {
      const from = Math.max(0, x(k.start_us[i])), to = Math.min(columns, x(k.end_us[i]));
      if (to - from >= narrow) return;
      any = true;
      const list = cover[k.kind[i]];
      for (let c = Math.floor(from); c < to; c++) list[c] += Math.min(to, c + 1) - Math.max(from, c);
    });
    for (let c = 0; any && c < columns; c++) {
      const f = cover.f[c], b = cover.b[c], w = cover.w[c], all = f + b + w, at = 4 * (row * columns + c);
      if (!(all > 0)) continue;
      for (let j = 0; j < 3; j++) image.data[at + j] = (f * rgb.f[j] + b * rgb.b[j] + w * rgb.w[j]) / all;
      image.data[at + 3] = 255 * Math.min(1, all);
    }
  }
  function wide(k, y, tall, x, w, colours, inks) {
    let last = "";
    inView(k, i => {
      const from = x(k.start_us[i]), to = x(k.end_us[i]), kind = k.kind[i];
      if (Math.min(w, to) - Math.max(0, from) < narrow && to - from < narrow) return;
      if (kind !== last) ctx.fillStyle = colours[last = kind];
      ctx.fillRect(from, y, Math.max(1, to - from - (to - from > 5 ? 1 : 0)), tall);
      const text = String(k.microbatch[i]), left = Math.max(0, from), right = Math.min(w, to);
      if (tall < 12 || right - left < 8 + 7 * text.length) return;
      ctx.fillStyle = inks[kind];
      ctx.fillText(text, (left + right) / 2, y + tall / 2 + 0.5);
      last = "";
    });
  }
  function ends(k, y, tall, x, other) {
    const update = end - run.optimizer_s * 1e6, exchange = update - run.exchange_s * 1e6, cut = behindCut(k);
    const bar = (from, to, colour, alpha) => {
      ctx.globalAlpha = alpha;
      ctx.fillStyle = colour;
      ctx.fillRect(x(from), y, x(to) - x(from), tall);
      ctx.globalAlpha = 1;
    };
    bar(0, exchange, other.idle, 0.3);
    bar(exchange, update, other.exchange, 1);
    bar(update, end, other.optimizer, 1);
    if (cut < 0) return;
    const from = x(k.end_us[cut - 1]), to = x(k.start_us[cut]);
    ctx.save();
    ctx.beginPath();
    ctx.rect(from, y, to - from, tall);
    ctx.clip();
    ctx.fillStyle = other.cut;
    ctx.fill();
    ctx.strokeStyle = other.line;
    ctx.globalAlpha = 0.5;
    ctx.beginPath();
    for (let at = Math.max(from, -20) - (Math.max(from, -20) - from) % 8 - tall; at < Math.min(to, width + 20); at += 8) {
      ctx.moveTo(at, y + tall);
      ctx.lineTo(at + tall, y);
    }
    ctx.stroke();
    ctx.restore();
  }

  // ---- memory

  // What the stage holds at the ends of passes, [µs, bytes], where time is shown; no value: left out.  Of many in a pixel the first,
  // the least, the most and the last.
  function curve(k) {
    const points = [], cut = behindCut(k), i0 = Math.max(0, firstAfter(k, view[0]) - 1);
    for (let i = i0; i < k.end_us.length && (i === i0 || k.start_us[i - 1] < view[1]); i++) {
      if (i === cut) points.push([k.start_us[i], null], [k.end_us[i], k.held_mb[i] * 1e6]);
      else points.push([k.start_us[i], i ? k.held_mb[i - 1] * 1e6 : 0], [k.end_us[i], k.held_mb[i] * 1e6]);
    }
    points.push([Math.max(view[1], k.end_us[k.end_us.length - 1]), points.length ? points[points.length - 1][1] : 0]);
    return points.length > 6 * width ? thinned(points) : points;
  }
  function thinned(points) {
    const out = [], column = p => Math.floor((p[0] - view[0]) / (view[1] - view[0]) * width);
    for (let i = 0; i < points.length;) {
      let j = i, low = i, high = i;
      for (; j < points.length && column(points[j]) === column(points[i]); j++) {
        if (points[j][1] < points[low][1]) low = j;
        if (points[j][1] > points[high][1]) high = j;
      }
      unique([i, low, high, j - 1]).sort((a, b) => a - b).forEach(n => out.push(points[n]));
      i = j;
    }
    return out;
  }
  function heldAt(k, t) {
    const i = firstAfter(k, t);
    if (i === behindCut(k)) return null;
    const before = i ? k.held_mb[i - 1] * 1e6 : 0;
    if (i >= k.end_us.length || k.start_us[i] > t) return before;
    return before + (k.held_mb[i] * 1e6 - before) * (t - k.start_us[i]) / (k.end_us[i] - k.start_us[i]);
  }
  function describeMemory(k, t) {
    const held = heldAt(k, t);
    return [`stage ${k.stage} at ${seconds(t / 1e6)}`, held === null ? "left out of the page" : `activations ${gb(held)}, in all ${gb(constant(k) + held)}`]
      .concat(parts.map(p => `${p.text} ${gb(k[p.key])}`));
  }

  function drawMemory() {
    const k = stages[chosen], top = Math.max(run.hbm_bytes, k.peak_bytes, constant(k) + k.most_bytes);
    m.say(`Stage ${k.stage} holds at most ${gb(constant(k) + k.most_bytes)}, ${gb(k.most_bytes)} of it activations; its predicted peak, with up to ${gb(k.working_bytes)} ` +
      `within a pass, is ${gb(k.peak_bytes)}, ${percent(k.peak_bytes / run.hbm_bytes)} of ${gb(run.hbm_bytes)}.`);
    const f = frame(memoryHolder, 320, margin, "memory of the stage over the step", "group");
    const step = (view[1] - view[0]) / 1e6, unit = step < 2e-3 ? ["µs", 1] : step < 2 ? ["ms", 1e3] : ["s", 1e6];
    const time = d3.scale.linear().domain(view).range([0, f.width]), y = d3.scale.linear().domain([0, 1.1 * top / 1e9]).range([f.height, 0]);
    axisX(f, d3.scale.linear().domain(view.map(t => t / unit[1])).range([0, f.width]), `time in the step (${unit[0]})`);
    axisY(f, y, "GB of a device");
    let below = 0;
    parts.forEach(p => {
      f.root.append("rect").attr("width", f.width).attr("y", y((below + k[p.key]) / 1e9)).attr("height", Math.max(0, y(below / 1e9) - y((below + k[p.key]) / 1e9)))
        .style("fill", `var(${p.colour})`);
      below += k[p.key];
    });
    const clip = f.root.append("svg").attr("width", f.width).attr("height", f.height).style("overflow", "hidden");
    clip.append("path").attr("class", "activations").style("fill", "var(--vector)").attr("d", d3.svg.area().defined(p => p[1] !== null).x(p => time(p[0])).y0(y(below / 1e9))
      .y1(p => y((below + p[1]) / 1e9))(curve(k)));
    const cut = behindCut(k), gap = cut < 0 ? [0, 0] : [k.end_us[cut - 1], k.start_us[cut]].map(t => Math.max(0, Math.min(f.width, time(t))));
    if (gap[1] - gap[0] > 130) f.root.append("text").attr("class", "soft").attr("x", (gap[0] + gap[1]) / 2).attr("y", y(below / 1e9) - 8).attr("text-anchor", "middle")
      .text("left out of the page");
    const line = (bytes, colour, dash, text) => {
      f.root.append("path").attr("d", `M0,${y(bytes / 1e9)}H${f.width}`).style("stroke", `var(${colour})`).style("stroke-width", dash ? 2 : 1.2).style("stroke-dasharray", dash);
      f.root.append("text").attr("class", "halo").attr("x", f.width - 4).attr("y", y(bytes / 1e9) - 6).attr("text-anchor", "end").text(text);
    };
    const near = Math.abs(y(k.peak_bytes / 1e9) - y(run.hbm_bytes / 1e9)) < 24, over = k.peak_bytes > run.hbm_bytes;
    const peak = `predicted peak ${gb(k.peak_bytes)}`, hbm = `HBM ${gb(run.hbm_bytes)}`;
    line(k.peak_bytes, "--ink", "", near ? over ? `${peak}, ${hbm}` : "" : peak);
    line(run.hbm_bytes, "--network", "6 4", near ? over ? "" : `${peak}, ${hbm}` : hbm);
    const box = f.root.append("rect").attr("class", "mark sensor").attr("tabindex", 0).attr("width", f.width).attr("height", f.height).style("fill", "transparent");
    box.on("mousemove", function () { showTip(d3.event, describeMemory(k, Math.max(0, Math.min(end, time.invert(d3.event.clientX - this.getBoundingClientRect().left))))); })
      .on("mouseout", hideTip).on("blur", hideTip).on("focus", function () {
        const busiest = k.held_mb.indexOf(d3.max(k.held_mb)), at = this.getBoundingClientRect();
        focused = () => showTip({ clientX: at.left + at.width / 2, clientY: at.bottom }, describeMemory(k, k.end_us[busiest] - 1e-6));
        focused();
      });
    zooms(box.node());
  }

  function drawBoth() {
    drawPipeline();
    drawMemory();
  }

  // ---- pointer and keys

  const touches = new Map();
  let moved = 0;
  function zooms(node) {
    node.addEventListener("wheel", e => {
      const across = Math.abs(e.deltaX) > Math.abs(e.deltaY);
      if (!across && e.deltaY > 0 && view[1] - view[0] >= end * 0.999) return; // nothing to zoom out of: the page scrolls
      e.preventDefault();
      const size = (e.deltaMode === 1 ? 20 : 1) * (across ? e.deltaX : e.deltaY);
      if (across) pan(size / width);
      else zoom(Math.exp(Math.max(-200, Math.min(200, size)) * 0.003), timeAt(e.clientX - node.getBoundingClientRect().left));
    }, { passive: false });
    node.addEventListener("pointerdown", e => {
      if (e.button) return;
      touches.set(e.pointerId, e.clientX);
      moved = 0;
    });
  }
  window.addEventListener("pointermove", e => {
    if (!touches.has(e.pointerId)) return;
    const before = Array.from(touches.values()), by = e.clientX - touches.get(e.pointerId);
    touches.set(e.pointerId, e.clientX);
    moved += Math.abs(by);
    const after = Array.from(touches.values());
    if (after.length === 2 && Math.abs(after[0] - after[1]) > 10)
      zoom(Math.abs(before[0] - before[1]) / Math.abs(after[0] - after[1]), timeAt((after[0] + after[1]) / 2 - canvas.getBoundingClientRect().left));
    else if (moved > 3) pan(-by / width);
  });
  ["pointerup", "pointercancel"].forEach(name => window.addEventListener(name, e => touches.delete(e.pointerId)));
  zooms(canvas);

  const rowAt = e => Math.max(0, Math.min(stages.length - 1, Math.floor((e.clientY - canvas.getBoundingClientRect().top) / rowHeight())));
  canvas.addEventListener("mousemove", e => {
    if (!touches.size) showTip(e, describe(stages[rowAt(e)], timeAt(e.clientX - canvas.getBoundingClientRect().left)));
  });
  canvas.addEventListener("mouseleave", hideTip);
  canvas.addEventListener("click", e => {
    if (moved > 3) return;
    chosen = rowAt(e);
    stageSelect();
    changed();
  });

  function showCursor() {
    const k = stages[cursor[0]], from = k.start_us[cursor[1]], to = k.end_us[cursor[1]];
    if (from < view[0] || to > view[1]) show(Math.min(from, (from + to) / 2 - (view[1] - view[0]) / 2), Math.min(from, (from + to) / 2 - (view[1] - view[0]) / 2) + view[1] - view[0]);
    drawBoth();
    focused = () => {
      const box = canvas.getBoundingClientRect();
      showTip({ clientX: box.left + Math.max(0, Math.min(width, ((from + to) / 2 - view[0]) / (view[1] - view[0]) * width)), clientY: box.top + (cursor[0] + 1) * rowHeight() },
        describePass(k, cursor[1]));
    };
    focused();
  }
  function move(stage, pass) {
    stage = Math.max(0, Math.min(stages.length - 1, stage));
    cursor = [stage, Math.max(0, Math.min(stages[stage].end_us.length - 1, pass))];
    showCursor();
  }
  holder.addEventListener("focus", () => { if (!touches.size) move(cursor ? cursor[0] : chosen, cursor ? cursor[1] : firstAfter(stages[chosen], view[0])); });
  holder.addEventListener("blur", () => { hideTip(); changed(); });
  holder.addEventListener("keydown", e => {
    const at = cursor || [chosen, firstAfter(stages[chosen], view[0])], k = stages[at[0]];
    const middle = (k.start_us[at[1]] + k.end_us[at[1]]) / 2;
    const level = d => move(at[0] + d, firstAfter(stages[Math.max(0, Math.min(stages.length - 1, at[0] + d))], middle));
    const acts = { ArrowRight: () => move(at[0], at[1] + 1), ArrowLeft: () => move(at[0], at[1] - 1), ArrowDown: () => level(1), ArrowUp: () => level(-1),
      Home: () => move(at[0], 0), End: () => move(at[0], k.end_us.length - 1), "+": () => zoom(0.5, middle), "=": () => zoom(0.5, middle), "-": () => zoom(2, middle),
      0: () => show(0, end), PageUp: () => pan(-0.5), PageDown: () => pan(0.5), Enter: () => { chosen = at[0]; stageSelect(); changed(); } };
    if (!acts[e.key] || e.ctrlKey || e.metaKey || e.altKey) return;
    e.preventDefault();
    acts[e.key]();
  });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);

  choose(runs[runs.length - 1]);
  draws("pipeline", drawPipeline);
  draws("memory", drawMemory);
  // With other datasets: the part of the step that is shown and the stage stay, as far as they are there.
  function update() {
    const part = view.map(t => t / end), stage = chosen;
    runs = dataset("pipelines");
    choose(runs[runs.length - 1]);
    view = part.map(x => x * end);
    chosen = stage < stages.length && stage !== 0 ? stage : chosen;
    stageSelect();
    drawBoth();
  }
  return { update, holder, canvas, runs: () => runs, state: () => ({ run, stages, view, chosen, cursor }), draw: drawBoth };
}
