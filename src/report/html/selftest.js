// All charts at once.  Then, for tests: with #selftest the page hovers over a mark of every chart, clicks a point, changes the
// model, and leaves what happened as lines "WHAT VALUE" in an element with the id "selftest".
drawAll();

if (window.location.hash === "#selftest") {
  const lines = [], say = (...words) => lines.push(words.join(" "));
  const fire = (node, type) => {
    const box = node.getBoundingClientRect();
    node.dispatchEvent(new MouseEvent(type, { bubbles: true, view: window, clientX: box.left + box.width / 2, clientY: box.top +
      box.height / 2 }));
  };
  say("drawn-after-ms", Math.round(performance.now()));
  document.querySelectorAll("section").forEach(s => {
    const marks = s.querySelectorAll("svg .mark");
    say("marks", s.id, marks.length);
    say("lead", s.id, s.querySelector(".lead").textContent);
    if (!marks.length) return;
    fire(marks[0], "mousemove");
    say("tip", s.id, tip.hidden ? "none" : Array.from(tip.children).map(c => c.textContent).join(" | "));
    fire(marks[0], "mouseout");
  });
  say("tip-after", tip.hidden ? "hidden" : "shown");
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
  window.dispatchEvent(new Event("beforeprint"));
  say("printed-width", document.querySelector("#step svg").viewBox.baseVal.width);
  say("printed-marks", document.querySelectorAll("svg .mark").length);
  window.dispatchEvent(new Event("afterprint"));
  say("hidden-characters", /[\u202a-\u202e]/.test(document.getElementById("page").textContent));
  say("images", document.images.length);
  say("fetched", performance.getEntriesByType("resource").length);
  say("too-wide-by", document.documentElement.scrollWidth - document.documentElement.clientWidth);
  el(document.body, "pre", "", lines.join("\n")).id = "selftest";
}
