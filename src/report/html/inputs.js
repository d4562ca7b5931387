// What it was made of, and how to make it again.
(() => {
  const s = section("inputs", "Inputs, and how to make this again",
    "The same command gives the same bytes, on any number of threads.");
  el(s.root, "pre", "", sheet("command")[0].command).id = "command";
  const table = el(el(s.root, "div", "scroll"), "table", "words"), body = el(table, "tbody");
  sheet("inputs").forEach(r => {
    const tr = el(body, "tr");
    el(tr, "td", "", r.input);
    el(tr, "td", "", r.value);
  });
  const refs = sheet("models").filter(m => !m.reference_expert || m.reference_hbm_gib > 32);
  if (refs.length)
    el(s.root, "p", "note", "The reference is TPUv4 with the plan experts gave for the model and 32 GiB; " +
      refs.map(m => m.reference_samples_per_s > 0
        ? `for ${short(m.model)} ${m.reference_expert ? "the expert plan" : "the best plan"} with ${number(m.reference_hbm_gib)} GiB`
        : `for ${short(m.model)} nothing fits`).join("; ") + ".");
  el(s.root, "p", "note", "“phaze report DIR --csv CSVDIR” writes everything that is plotted here as CSV files.");
  el(document.getElementById("page"), "footer", "",
    `Made by phaze ${source.version}. This file is complete: it fetches nothing.`);
  const nav = document.getElementById("contents");
  document.querySelectorAll("section").forEach(section => {
    const a = el(nav, "a", "", section.querySelector("h2").textContent);
    a.href = "#" + section.id;
  });
})();
