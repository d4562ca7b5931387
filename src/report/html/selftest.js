// Draws all charts.  Then, for tests: with #selftest the page hovers over a mark of every chart and, where they are, moves through the table of
// baselines by keyboard, scrolls tables, clicks a point, changes the model, and leaves what happened as lines "WHAT VALUE" in
// an element with the id "selftest".
drawAll();

if (window.location.hash === "#selftest") {
  const lines = [], say = (...words) => lines.push(words.join(" "));
  const fire = (node, type) => {
    const box = node.getBoundingClientRect();
    node.dispatchEvent(new MouseEvent(type, { bubbles: true, view: window, clientX: box.left + box.width / 2, clientY: box.top +
      box.height / 2 }));
  };
  say("drawn-after-ms", Math.round(performance.now()));
  say("page-width", document.documentElement.clientWidth);
  document.querySelectorAll("section").forEach(s => {
    const marks = s.querySelectorAll(".mark");
    say("marks", s.id, marks.length);
    say("lead", s.id, s.querySelector(".lead").textContent);
    if (!marks.length) return;
    fire(marks[0], "mousemove");
    say("tip", s.id, tip.hidden ? "none" : Array.from(tip.children).map(c => c.textContent).join(" | "));
    fire(marks[0], "mouseout");
  });
  say("tip-after", tip.hidden ? "hidden" : "shown");
  const over = Array.from(document.querySelectorAll(".scroll")).filter(b => b.scrollWidth > b.clientWidth + 1);
  const seen = (box, pseudo) => getComputedStyle(box.parentNode, pseudo).content !== "none" && box.parentNode.className;
  say("tables-wider", over.length, "with cue", over.filter(b => / more-right/.test(seen(b, "::after")) &&
    b.parentNode.querySelector(".hint").offsetHeight > 0 && b.tabIndex === 0 &&
    getComputedStyle(b.querySelector("td, tbody th")).position === "sticky").length);
  over.forEach(b => {
    b.scrollLeft = b.scrollWidth;
    b.dispatchEvent(new Event("scroll"));
  });
  // Nothing may show through the first column while others scroll below it.
  const uncovered = b => Array.from(b.querySelectorAll("tr > :first-child")).every(c => {
    c.scrollIntoView({ block: "center" });
    const r = c.getBoundingClientRect();
    return d3.range(0.5, 10).every(i => c.contains(document.elementFromPoint(r.left + r.width * i / 10, r.top + r.height / 2)));
  });
  say("tables-scrolled", over.length, "with cue", over.filter(b => / more-left/.test(seen(b, "::before")) &&
    !/ more-right/.test(seen(b, "::after")) && uncovered(b)).length);
  say("private-words", (document.getElementById("page").textContent.match(/\b(contests?|objective_runs?|standings?|ways|held|made again|makes everything again|exchange of gradients)\b/gi) || []).join() || "none");
  if (!search) {
    const tipText = () => tip.hidden ? "none" : Array.from(tip.children).map(c => c.textContent).join(" | ");
    const cells = Array.from(document.querySelectorAll(".heat td.value")), dots = document.querySelectorAll(".heat .dot");
    const wide = models.length > 1 ? models.length + 1 : 1;
    say("baseline-cells", cells.length, "in rows of", cells.length / document.querySelectorAll(".heat tbody tr").length, "for", wide);
    say("baseline-dots", dots.length === cells.filter(c => /×$/.test(c.textContent)).length);
    say("baseline-methods", unique(Array.from(document.querySelectorAll(".heat .name"), n => n.textContent)).length);
    say("baseline-searched", unique(Array.from(document.querySelectorAll(".heat .searched .name"), n => n.textContent)).join());
    say("baseline-tab-stops", cells.filter(c => c.tabIndex === 0).length);
    const stop = cells.find(c => c.tabIndex === 0) || document.body, press = key =>
      document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
    stop.focus();
    say("baseline-focus", stop.textContent, "|", tipText());
    press("Home");
    press("ArrowUp");
    press("End");
    say("baseline-moved", cells.indexOf(document.activeElement) === cells.indexOf(stop) - 1, tipText() !== "none");
    say("baseline-emphasized", document.querySelectorAll(".heat .dot.on").length > 0);
    document.activeElement.blur();
    say("baseline-left", tipText(), document.querySelectorAll(".heat .dot.on").length);
    fire(dots[dots.length - 1] || document.body, "mousemove");
    say("baseline-dot-tip", tipText());
    hideTip();
    const fills = ["best", "front", "evaluated"].map(k => document.querySelector("#space .point." + k)).filter(p => p)
      .map(p => getComputedStyle(p).fill);
    say("statuses", fills.length, "of", unique(fills).length, "colours");
    say("legend", Array.from(document.querySelectorAll("#space .legend li"), li => li.textContent).join(" | "));
    const pinned = document.getElementById("pinned"), points = Array.from(document.querySelectorAll("#space .point"));
    const other = points.find(p => d3.select(p).datum().chip !== common.chip) || points[0];
    say("pinned-first", pinned.querySelector("h3").textContent);
    fire(other, "click");
    say("clicked", d3.select(other).datum().chip);
    say("pinned-then", pinned.querySelector("h3").textContent);
    say("plans", pinned.querySelectorAll("tbody tr").length);
    const chooser = document.querySelector("#pipeline select");
    if (chooser) {
      chooser.value = models[0];
      chooser.dispatchEvent(new Event("change"));
      say("model-chosen", document.querySelector("#pipeline .lead").textContent);
    }
    points[0].dispatchEvent(new FocusEvent("focus"));
    say("tip-of-focus", tip.hidden ? "none" : tip.firstChild.textContent);
    window.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape" }));
    say("tip-after-escape", tip.hidden ? "hidden" : "shown");
  }
  window.dispatchEvent(new Event("beforeprint"));
  say("printed-width", document.querySelector("#step svg").viewBox.baseVal.width);
  say("printed-marks", document.querySelectorAll(".mark").length);
  window.dispatchEvent(new Event("afterprint"));
  say("hidden-characters", /[\u202a-\u202e]/.test(document.getElementById("page").textContent));
  say("images", document.images.length);
  say("fetched", performance.getEntriesByType("resource").length);
  say("plans-cut", plansCut());
  say("too-wide-by", document.documentElement.scrollWidth - document.documentElement.clientWidth);
  el(document.body, "pre", "", lines.join("\n")).id = "selftest";
  // A browser's window has a least width; a frame in the page of a test has any.
  if (window.parent !== window) window.parent.postMessage(lines.join("\n"), "*");
}
