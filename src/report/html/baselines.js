// The search beside the baselines: a row for each method, as one chip shared by all models and as one chip per model.
// Dots give throughput over the reference on a log axis, one for each model and a large one for the geometric mean; the cells
// beside them give the values.
(() => {
  if (!has("baselines")) return;
  const methods = {
    "tpuv4-expert": ["TPUv4, expert plan", "TPUv4 as the paper describes it, with the parallelization plans of experts"],
    "tpuv4-placed": ["TPUv4, best plan", "TPUv4 as the paper describes it, with the plans of the placement solver"],
    "tpuv4-real-expert": ["real TPUv4, expert plan", "TPUv4 with the vector units of the product, and the plans of experts"],
    "tpuv4-real-placed": ["real TPUv4, best plan", "TPUv4 with the vector units of the product, and the plans of the placement solver"],
    "spotlight-expert": ["Spotlight, expert plan", "Bayesian optimization of the chip alone, then the plans of experts"],
    "spotlight-placed": ["Spotlight, best plan", "Bayesian optimization of the chip alone, then the plans of the placement solver"],
    original: ["original Phaze search", "heuristic of the original system: buckets of area from the largest down"],
    random: ["random search", "the best of as many random chips as the search evaluated"],
    search: ["this search", "every chip of the space evaluated or excluded by a bound"],
  };
  const data = dataset("baselines"), many = models.length > 1;
  const at = (objective_run, way, model) => data.find(r => r.objective_run === objective_run && r.method === way && r.model === model);
  const ways = unique(data.filter(r => r.objective_run === common.objective_run).map(r => r.method));

  // A row of the table: what a method reaches for every model, with one chip for all of them or with one for each.
  function makeRow(way, scope, runOf) {
    const cells = models.map(model => at(runOf(model), way, model));
    const logs = cells.map(c => c && c.ratio > 0 ? Math.log(c.ratio) : null);
    const mean = logs.includes(null) ? null : Math.exp(d3.mean(logs));
    return { method: way, scope, cells, mean, name: (methods[way] || [way])[0], about: (methods[way] || [0, cells[0].about])[1] };
  }
  const same = (a, b) => a.cells.every((c, i) => c.chip === b.cells[i].chip && c.ratio === b.cells[i].ratio);
  const rows = [];
  ways.forEach(way => {
    const all = makeRow(way, many ? "one chip for all" : "", () => common.objective_run);
    if (!many) return void rows.push(all);
    const each = makeRow(way, "one per model", model => model);
    if (same(all, each)) rows.push(Object.assign(all, { scope: way.startsWith("tpuv4") ? "fixed chip" : "for all and each" }));
    else rows.push(all, each);
  });

  const objectives = (objective_run, way) => data.find(r => r.objective_run === objective_run && r.method === way).objective;
  const unbeaten = objective_runs.every(c => ways.every(w => objectives(c, w) <= objectives(c, "search")));
  const expert = rows.find(r => r.method === "tpuv4-expert"), placed = rows.find(r => r.method === "tpuv4-placed");
  const found = rows.find(r => r.method === "search");
  const ahead = objective.ratio ? "is ahead of" : "has a higher objective than";
  const s = section("baselines", "Comparison with baselines",
    (objective.ratio && placed && expert && placed.mean > 1.005 * expert.mean && found.mean
      ? `Better plans alone make TPUv4 ${times(placed.mean / expert.mean)} as fast as expert plans do; the searched chip with its plans is ${times(found.mean / expert.mean)} as fast. ` : "") +
    (unbeaten ? `No baseline ${ahead} the search${many ? ", neither with one chip for all models nor with one chip per model" : ""}.`
      : `Only a chip outside the design space ${ahead} the search.`),
    "All use the same cost model, schedules and placement model. A plan is the number of pipeline stages and of data-parallel replicas, the tensor-parallel degree, the microbatch size and activation checkpointing; the best plan comes from the placement solver, the expert plan from publications. Spotlight optimizes the chip alone, without the cluster." +
    (experts < models.length ? " Where no expert plan is published or none fits, the best plan stands in for it." : ""));

  // ---- scales: position and tint, both logarithmic

  const ratios = rows.reduce((list, r) => list.concat(r.cells.map(c => c && c.ratio)), []).filter(x => x > 0);
  const low = Math.min(1, d3.min(ratios) || 1), high = Math.max(1.05, d3.max(ratios) || 1);
  const pad = Math.max(1.06, Math.pow(high / low, 0.05));
  const x = d3.scale.log().domain([low / pad, high * pad]).range([0, 100]);
  const steps = high / low > 300 ? [1] : high / low > 3 ? [1, 2, 5] : [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 7];
  const ticks = d3.range(-6, 7).reduce((list, e) => list.concat(steps.map(k => +(k * Math.pow(10, e)).toPrecision(2))), [])
    .filter(t => t >= x.domain()[0] && t <= x.domain()[1]);
  const strength = Math.max(Math.log(high), -Math.log(low));
  const tint = ratio => ratio > 0 ? (0.6 * Math.abs(Math.log(ratio)) / strength).toFixed(3) : 0;

  el(s.root, "h3", "", `Training throughput relative to ${reference}, log scale`);
  legend(s.root, [{ kind: "dot searched", text: "this search" }, { kind: "dot", text: "baseline" },
    many ? { kind: "dot small", text: "large dot: geometric mean, small dots: models" } : null,
    { kind: "tint", text: "cell tint: ratio, log scale" },
    low < 0.995 ? { kind: "tint below", text: "slower than the reference" } : null].filter(i => i));
  const table = scrollTable(s.root, "throughput relative to the reference, by method and model", "heat");
  const head = el(el(table, "thead"), "tr"), body = el(table, "tbody");
  const axisHead = (el(head, "th", "", "method"), el(head, "th", "dots"));
  el(axisHead, "span", "unseen", "dot plot");
  const axis = el(axisHead, "div", "track");
  ticks.forEach(t => { el(axis, "span", "tick", t + "×").style.left = x(t) + "%"; });
  const columns = (many ? [{ title: "geometric mean", of: r => r.mean }] : [])
    .concat(models.map((m, i) => ({ title: short(m), model: i, of: r => r.cells[i] && r.cells[i].ratio })));
  columns.forEach(c => {
    el(head, "th", c.model === undefined ? "value mean-value" : "value", c.title).title = c.model === undefined ? c.title
      : models[c.model];
  });

  const cellLines = (r, c) => {
    const cell = c.model === undefined ? null : r.cells[c.model];
    return [`${r.name}${r.scope ? ", " + r.scope : ""}`, r.about].concat(cell
      ? [cell.chip === null ? "no chip that it evaluated can hold the model" : `${short(cell.model)}: ${times(cell.ratio)}, ${number(cell.samples_per_s)} samples/s`,
        cell.chip === null ? "" : `chip ${cell.chip}, ${cell.area_mm2.toFixed(1)} mm², ${number(cell.hbm_gib)} GiB of HBM`]
      : [`geometric mean over ${plural(models.length, "model")}: ${r.mean ? times(r.mean) : "not defined, a model does not fit"}`,
        r.mean ? `from ${times(d3.min(r.cells, k => k.ratio))} to ${times(d3.max(r.cells, k => k.ratio))}` : "",
        r.scope === "one per model" || !r.cells[0].chip ? "" : `chip ${r.cells[0].chip}, ${r.cells[0].area_mm2.toFixed(1)} mm²`]);
  };
  // The dots of a model stand out in every row while one of them, or a cell of it, is looked at.
  const emphasize = model => table.querySelectorAll(".dot").forEach(d => d.classList.toggle("on", model !== undefined && +d.dataset.model === model));

  const grid = rows.map((r, k) => {
    const tr = el(body, "tr", (r.method === "search" ? "searched " : "") + (k && rows[k - 1].way === r.method ? "second" : ""));
    const name = el(tr, "th", "", "");
    name.scope = "row";
    el(name, "span", "name", r.name);
    if (r.scope) el(name, "span", "scope", r.scope);
    const track = el(el(tr, "td", "dots"), "div", "track");
    ticks.forEach(t => { el(track, "span", t === 1 ? "rule one" : "rule").style.left = x(t) + "%"; });
    const known = columns.filter(c => c.of(r) > 0);
    if (known.length > 1) {
      const range = el(track, "span", "range"), ends = d3.extent(known, c => x(c.of(r)));
      range.style.left = ends[0] + "%";
      range.style.width = ends[1] - ends[0] + "%";
    }
    known.slice().reverse().forEach(c => {
      const dot = el(track, "span", "mark dot" + (c.model === undefined || !many ? " mean" : ""));
      dot.style.left = x(c.of(r)) + "%";
      if (c.model !== undefined) dot.dataset.model = c.model;
      tells(d3.select(dot).datum([r, c]), d => cellLines(d[0], d[1]));
    });
    return columns.map(c => {
      const td = el(tr, "td", "mark value" + (c.of(r) < 1 ? " below" : "") + (c.model === undefined ? " mean-value" : ""), c.of(r) > 0 ? times(c.of(r)) : c.of(r) === 0 ? "no fit" : "–");
      td.style.setProperty("--tint", tint(c.of(r)));
      tells(d3.select(td).datum([r, c]), d => { emphasize(d[1].model); return cellLines(d[0], d[1]); });
      td.addEventListener("mouseout", () => emphasize());
      td.addEventListener("blur", () => emphasize());
      return td;
    });
  });

  // One cell is in the tab order; arrow keys, Home and End go to the others.
  const found0 = rows.indexOf(found);
  grid.forEach((cells, i) => cells.forEach((td, j) => {
    td.tabIndex = i === found0 && j === 0 ? 0 : -1;
    td.addEventListener("keydown", e => {
      const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], Home: [0, -j],
        End: [0, cells.length - 1 - j] }[e.key];
      const next = move && grid[i + move[0]] && grid[i + move[0]][j + move[1]];
      if (!move) return;
      e.preventDefault();
      if (!next || next === td) return;
      td.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    });
  }));
  if (!objective.ratio)
    el(s.root, "p", "note", `The objective of the search is not throughput but “${objective.text}”. With one chip for all models: ` + ways.map(w =>
      `${(methods[w] || [w])[0]} ${number(objectives(common.objective_run, w))}`).join(", ") + ".");
})();
