// All charts at once; then, for tests: with #selftest the page counts its marks, hovers over a point, clicks another, changes the model, and leaves
// what happened as JSON in an element with the id "selftest".
charts.forEach(c => c.draw());

if (window.location.hash === "#selftest") {
  const fire = (node, type) => {
    const box = node.getBoundingClientRect();
    node.dispatchEvent(new MouseEvent(type, { bubbles: true, view: window, clientX: box.left + box.width / 2, clientY: box.top + box.height / 2 }));
  };
  const seen = { marks: {}, leads: {}, tips: {} };
  document.querySelectorAll("section").forEach(s => {
    seen.marks[s.id] = s.querySelectorAll("svg .mark").length;
    seen.leads[s.id] = s.querySelector(".lead").textContent;
    const mark = s.querySelector("svg .mark");
    if (!mark) return;
    fire(mark, "mousemove");
    seen.tips[s.id] = tip.hidden ? "" : tip.textContent;
    fire(mark, "mouseout");
  });
  seen.hidden = tip.hidden;
  const points = Array.from(document.querySelectorAll("#space .point"));
  const other = points.find(p => p.__data__.chip !== common.chip) || points[0];
  seen.before = document.getElementById("pinned").textContent;
  fire(other, "click");
  seen.clicked = other.__data__.chip;
  seen.pinned = document.getElementById("pinned").querySelector("h3").textContent;
  seen.plans = document.querySelectorAll("#pinned tbody tr").length;
  const chooser = document.querySelector("#pipeline select");
  if (chooser) {
    chooser.value = models[models.length - 1];
    chooser.dispatchEvent(new Event("change"));
    seen.pipeline = document.querySelector("#pipeline .lead").textContent;
  }
  seen.images = document.querySelectorAll("img").length;
  seen.overflow = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  el(document.body, "pre", "", JSON.stringify(seen)).id = "selftest";
}
