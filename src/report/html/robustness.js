// The best chip when a constant of chips without measurements has the least or the most of its range.
(() => {
  if (!search || !search.robustness) return;
  const rows = dataset("robustness"), x = search.robustness, wins = rows.filter(r => r.better);
  const worst = wins.slice().sort((a, b) => b.better_by - a.better_by)[0];
  const s = section("robustness", "Robustness of the best chip",
    worst ? `With ${worst.constant} at ${number(worst.value)} another chip wins: ${worst.better}, ${percent(worst.better_by, 1)} better.`
      : `No candidate of ${count(x.candidates)} is more than ${percent(x.tolerance, 1)} better when a constant moves over its range.`,
    "Each row sets one constant of chips without measurements to the least or the most of its range, for this chip, the H100 and the candidates: evaluated chips of every kind, " +
    "and those one or two steps away within the limits, which come near the best. Constants of launched kernels move the H100 alone.");
  textTable(s.root, "constants at the ends of their ranges", ["constant", "usual", "here", "objective", "change", "another chip wins"],
    rows.map(r => [r.constant, number(r.usual), number(r.value), value(r.objective), signed(r.change), r.better ? `${r.better}, ${signed(r.better_by)}` : ""]));
})();
