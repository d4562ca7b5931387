#include "cli/compare_chips.h"

#include <math.h>
#include <string.h>

#include "core/progress.h"
#include "core/text.h"
#include "report/table.h"

struct comparison {
  struct pz_chips_call *call;
  struct pz_arena *arena;
  struct pz_error *err;
  struct pz_compared_chip *chips;
  uint32_t n;
};

static enum pz_status load_chip(struct comparison *x, const char *text) {
  if (x->n == PZ_COMPARISON_MOST_CHIPS)
    return pz_fail(x->err, PZ_BAD_USE, "--chips: more than %d chips; accepted: at most %d",
                   PZ_COMPARISON_MOST_CHIPS, PZ_COMPARISON_MOST_CHIPS);
  return pz_compared_chip_load(text, &x->call->q, &x->chips[x->n++], x->err);
}

static enum pz_status load_chips(struct comparison *x) {
  char *list = pz_arena_strdup(x->arena, x->call->chips), *rest = list;
  x->chips = pz_arena_alloc(x->arena, PZ_COMPARISON_MOST_CHIPS, sizeof *x->chips);
  if (!list || !x->chips) return pz_fail(x->err, PZ_NO_MEMORY, "out of memory for the chips");
  enum pz_status status = PZ_OK;
  while (status == PZ_OK && rest) {
    char *word = rest, *comma = strchr(rest, ',');
    rest = comma ? comma + 1 : NULL;
    if (comma) *comma = '\0';
    status = *word ? load_chip(x, word)
                   : pz_fail(x->err, PZ_BAD_USE,
                             "--chips '%s'; accepted: chips separated by commas", x->call->chips);
  }
  return status;
}

static enum pz_status find_plans(struct comparison *x) {
  const struct pz_common *common = x->call->common;
  struct pz_progress progress;
  enum pz_status status = PZ_OK;
  pz_progress_start(&progress, stderr,
                    common->quiet ? PZ_PROGRESS_SILENT : pz_progress_style_of(stderr), "plans",
                    "chips", x->n);
  for (uint32_t i = 0; i < x->n && status == PZ_OK; i++) {
    status = pz_compare_chip(&x->call->q, &x->chips[i], x->arena, x->err);
    pz_progress_add(&progress, 1);
  }
  pz_progress_finish(&progress, NULL);
  return status;
}

/* ---- tables --------------------------------------------------------------------------------- */

static void number_cell(struct pz_table *t, double v) {
  char text[32];
  pz_table_cell(t, "%s", pz_text_number(text, sizeof text, v));
}

static void model_row(struct pz_table *t, const struct comparison *x, uint32_t chip,
                      uint32_t model) {
  const struct pz_compared_model *m = &x->chips[chip].model[model],
                                 *first = &x->chips[0].model[model];
  char plan[PZ_PLAN_TEXT_MOST];
  pz_table_cell(t, "%s", x->chips[chip].chip.name);
  if (!m->fits) {
    for (int i = 0; i < 6; i++) pz_table_cell(t, "-");
    pz_table_cell(t, "no feasible plan: memory");
    return;
  }
  number_cell(t, m->found.p.step_s);
  number_cell(t, m->found.p.samples_per_s);
  if (first->fits)
    pz_table_cell(t, "%.2fx", first->found.p.step_s / m->found.p.step_s);
  else
    pz_table_cell(t, "-");
  pz_table_cell(t, "%.0f%%", 100 * m->found.p.mfu);
  pz_table_cell(t, "%.0f", m->energy.watts);
  number_cell(t, m->energy.joules_per_sample);
  pz_table_cell(t, "%s", pz_plan_text(&m->found.plan, plan, sizeof plan));
}

static enum pz_status print_model(const struct comparison *x, uint32_t model) {
  static const char *const heads[] = {"chip", ">step s", ">samples/s", ">ratio", ">MFU",
                                      ">W",      ">J/sample",  "plan",   NULL};
  struct pz_table t;
  const struct pz_training_question *q = &x->call->q.models;
  pz_table_init(&t, x->arena, heads);
  for (uint32_t i = 0; i < x->n; i++) model_row(&t, x, i, model);
  printf("%s on %lld devices, batch %lld:\n\n", q->models[model], (long long)q->devices,
         (long long)q->batch);
  enum pz_status status = pz_table_print(&t, 0, stdout);
  printf("\n");
  return status;
}

/* Geometric mean over the models of the energy of a sample over that of the first chip. */
static double joules_ratio(const struct comparison *x, const struct pz_compared_chip *c) {
  double sum = 0;
  uint32_t n = x->call->q.models.n_models;
  for (uint32_t i = 0; i < n; i++)
    sum += log(c->model[i].energy.joules_per_sample /
               x->chips[0].model[i].energy.joules_per_sample);
  return exp(sum / n);
}

/* The chips themselves, and what their throughput costs. */
static enum pz_status print_bills(const struct comparison *x) {
  static const char *const heads[] = {"chip",    "as",      ">TFLOP/s", ">GHz",        ">mm2",
                                      ">peak W", ">TDP",    ">$",       ">throughput", ">per J",
                                      ">per $",  "network", NULL};
  const struct pz_compared_chip *first = &x->chips[0];
  struct pz_table t;
  pz_table_init(&t, x->arena, heads);
  for (uint32_t i = 0; i < x->n; i++) {
    const struct pz_compared_chip *c = &x->chips[i];
    double ratio = pz_compared_ratio(&x->call->q.models, c, first);
    pz_table_cell(&t, "%s", c->chip.name);
    pz_table_cell(&t, "%s", c->measured ? "measured" : "described");
    pz_table_cell(&t, "%.0f", pz_chip_tensor_flop_per_s(&c->chip) / 1e12);
    pz_table_cell(&t, "%.2f", c->chip.clock_hz / 1e9);
    pz_table_cell(&t, "%.0f", c->taken.mm2);
    pz_table_cell(&t, "%.0f", c->taken.watts);
    if (c->tdp_watts > 0)
      pz_table_cell(&t, "%.0f", c->tdp_watts);
    else
      pz_table_cell(&t, "-");
    pz_table_cell(&t, "%.0f", c->taken.dollars);
    if (ratio > 0) {
      pz_table_cell(&t, "%.2fx", ratio);
      pz_table_cell(&t, "%.2fx", 1 / joules_ratio(x, c));
      pz_table_cell(&t, "%.2fx", ratio * first->taken.dollars / c->taken.dollars);
    } else {
      for (int k = 0; k < 3; k++) pz_table_cell(&t, "-");
    }
    pz_table_cell(&t, "%s", c->net.name);
  }
  return pz_table_print(&t, 0, stdout);
}

static void print_notes(const struct comparison *x) {
  uint32_t measured = 0;
  for (uint32_t i = 0; i < x->n; i++) measured += x->chips[i].measured;
  printf(
      "\nRatios are to %s%s. Area, peak W and dollars are those of one bill for all chips ('phaze "
      "chip'; of described\nchips with arrays at full rate, where the bill counts 0.8), W and "
      "J/sample those of the plan's operators and static power.\n",
      x->chips[0].chip.name,
      x->call->q.models.n_models > 1 ? ", throughput by the geometric mean over the models" : "");
  if (measured < x->n)
    printf("described: peak rates of the data sheet without measured efficiencies, as a chip that "
           "nobody has built\nis known; GPUs at the clock that their node sustains in long "
           "products. A chip whose plan would take\nmore than its peak watts lowers its clock "
           "until it does not: GHz of the plan.\n");
  if (measured && measured < x->n)
    printf("measured and described chips do not compare: leave out --measured.\n");
}

static enum pz_status tell(const struct comparison *x) {
  if (x->call->common->json) {
    json_t *rows = pz_compared_chips_json(&x->call->q, x->chips, x->n);
    return rows ? pz_command_json(json_pack("{s:o}", "chips", rows), x->err)
                : pz_fail(x->err, PZ_NO_MEMORY, "out of memory for the comparison");
  }
  enum pz_status status = PZ_OK;
  for (uint32_t i = 0; i < x->call->q.models.n_models && status == PZ_OK; i++)
    status = print_model(x, i);
  if (status == PZ_OK) status = print_bills(x);
  print_notes(x);
  return status;
}

enum pz_status pz_compare_chips(struct pz_chips_call *call, struct pz_error *err) {
  struct pz_training_question *q = &call->q.models;
  struct pz_arena arena;
  struct comparison x = {.call = call, .arena = &arena, .err = err};
  if (call->n_models > PZ_SEARCH_MOST_MODELS)
    return pz_fail(err, PZ_BAD_USE, "%d models; accepted: at most %d", call->n_models,
                   PZ_SEARCH_MOST_MODELS);
  for (int i = 0; i < call->n_models; i++) q->models[q->n_models++] = call->models[i];
  pz_arena_init(&arena, NULL);
  enum pz_status status = load_chips(&x);
  if (status == PZ_OK) status = find_plans(&x);
  if (status == PZ_OK) status = tell(&x);
  pz_arena_release(&arena);
  return status;
}
