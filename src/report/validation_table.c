#include "report/validation_table.h"

#include <math.h>
#include <string.h>

#include "core/text.h"
#include "report/table.h"

/* ---- errors --------------------------------------------------------------------------------- */

static void percent_cell(struct pz_table *t, double part) {
  if (isnan(part))
    pz_table_cell(t, "-");
  else
    pz_table_cell(t, "%.1f%%", 100 * part);
}

static void signed_cell(struct pz_table *t, double part) {
  if (isnan(part))
    pz_table_cell(t, "-");
  else
    pz_table_cell(t, "%+.1f%%", 100 * part);
}

struct errors_table {
  const char *title, *first; /* head of the first column */
  const struct pz_errors *list;
  uint32_t n;
  bool kind[PZ_POINT_KINDS]; /* those to show */
  bool limits, memory;       /* columns */
};

static void errors_cells(struct pz_table *t, const struct pz_validation *v,
                         const struct errors_table *e, const struct pz_errors *g) {
  pz_table_cell(t, "%s", g->name);
  pz_table_cell(t, "%u", g->n);
  pz_table_cell(t, "%u", g->not_predicted);
  percent_cell(t, g->mean);
  if (e->limits) percent_cell(t, pz_limit_of(v, g->name, PZ_LIMITED_TIME));
  signed_cell(t, g->bias);
  signed_cell(t, g->worst);
  if (!e->memory) return;
  pz_table_cell(t, "%u", g->n_memory);
  percent_cell(t, g->memory_mean);
  if (e->limits) percent_cell(t, pz_limit_of(v, g->name, PZ_LIMITED_MEMORY));
}

static void errors_heads(const struct errors_table *e, const char *heads[]) {
  int n = 0;
  heads[n++] = e->first;
  heads[n++] = ">rows";
  heads[n++] = ">not predicted";
  heads[n++] = ">mean error";
  if (e->limits) heads[n++] = ">limit";
  heads[n++] = ">bias";
  heads[n++] = ">worst";
  if (e->memory) heads[n++] = ">with memory";
  if (e->memory) heads[n++] = ">memory error";
  if (e->memory && e->limits) heads[n++] = ">limit";
  heads[n] = NULL;
}

static enum pz_status print_errors(const struct pz_validation *v, struct errors_table e,
                                   struct pz_arena *arena, FILE *out) {
  const char *heads[PZ_TABLE_MOST_COLUMNS];
  struct pz_table t;
  uint32_t shown = 0;
  for (uint32_t i = 0; i < e.n; i++) {
    if (!e.kind[e.list[i].kind]) continue;
    shown++;
    e.memory |= e.list[i].n_memory > 0;
  }
  if (!shown) return PZ_OK;
  e.limits &= v->n_limits > 0;
  errors_heads(&e, heads);
  pz_table_init(&t, arena, heads);
  for (uint32_t i = 0; i < e.n; i++)
    if (e.kind[e.list[i].kind]) errors_cells(&t, v, &e, &e.list[i]);
  fprintf(out, "%s\n", e.title);
  enum pz_status status = pz_table_print(&t, 2, out);
  fputc('\n', out);
  return status;
}

/* ---- plans ---------------------------------------------------------------------------------- */

static void rank_cell(struct pz_table *t, double rank) {
  if (isnan(rank))
    pz_table_cell(t, "-");
  else
    pz_table_cell(t, "%.3f", rank);
}

static void order_cells(const struct pz_validation *v, struct pz_table *t, const char *name,
                        uint32_t n, double rank, double regret) {
  pz_table_cell(t, "%s", name);
  pz_table_cell(t, "%u", n);
  rank_cell(t, rank);
  if (v->n_limits) rank_cell(t, pz_limit_of(v, name, PZ_LIMITED_RANK));
  percent_cell(t, regret);
  if (v->n_limits) percent_cell(t, pz_limit_of(v, name, PZ_LIMITED_REGRET));
}

/* Columns of order_cells. */
static void order_heads(const struct pz_validation *v, const char *first, const char *count,
                        const char *heads[]) {
  int n = 0;
  heads[n++] = first;
  heads[n++] = count;
  heads[n++] = ">rank correlation";
  if (v->n_limits) heads[n++] = ">at least";
  heads[n++] = ">regret";
  if (v->n_limits) heads[n++] = ">limit";
  heads[n] = NULL;
}

static enum pz_status print_orders(const struct pz_validation *v, struct pz_arena *arena,
                                   FILE *out) {
  const char *heads[PZ_TABLE_MOST_COLUMNS];
  struct pz_table t;
  if (!v->n_orders) return PZ_OK;
  order_heads(v, "model", ">plans", heads);
  fprintf(out, "Order of the plans of one model (%d or more on the same devices)\n",
          PZ_LEAST_PLANS);
  pz_table_init(&t, arena, heads);
  for (uint32_t i = 0; i < v->n_orders; i++) {
    const struct pz_plan_order *o = &v->orders[i];
    order_cells(v, &t, o->name, o->plans, o->rank_correlation, o->regret);
  }
  enum pz_status status = pz_table_print(&t, 2, out);
  if (status != PZ_OK) return status;
  fputc('\n', out);
  order_heads(v, "mean over models of", ">models", heads);
  pz_table_init(&t, arena, heads);
  for (uint32_t i = 0; i < v->n_order_means; i++) {
    const struct pz_order_mean *m = &v->order_means[i];
    order_cells(v, &t, m->name, m->n, m->rank_correlation, m->regret);
  }
  return pz_table_print(&t, 2, out);
}

/* ---- rows ----------------------------------------------------------------------------------- */

static void seconds_cell(struct pz_table *t, double s) {
  char text[32];
  if (s > 0)
    pz_table_cell(t, "%s", pz_text_number(text, sizeof text, 1e3 * s));
  else
    pz_table_cell(t, "-");
}

static void point_cells(struct pz_table *t, const struct pz_validation_point *p) {
  pz_table_cell(t, "%s", p->group);
  pz_table_cell(t, "%s", p->id);
  pz_table_cell(t, "%s", p->plan);
  seconds_cell(t, p->measured_s);
  seconds_cell(t, p->predicted_s);
  bool both = p->measured_s > 0 && p->predicted_s > 0;
  signed_cell(t, both ? p->predicted_s / p->measured_s - 1 : (double)NAN);
  bool memory = p->measured_bytes > 0 && p->predicted_bytes > 0;
  signed_cell(t, memory ? p->predicted_bytes / p->measured_bytes - 1 : (double)NAN);
  bool ok = strcmp(p->quality, "ok") == 0;
  pz_table_cell(t, "%s", *p->reason ? p->reason : ok ? "" : p->quality);
}

static enum pz_status print_points(const struct pz_validation *v, struct pz_arena *arena,
                                   FILE *out) {
  static const char *const heads[] = {"group",         "run",           "plan",
                                      ">measured ms",  ">predicted ms", ">error",
                                      ">memory error", "note",          NULL};
  struct pz_table t;
  pz_table_init(&t, arena, heads);
  for (uint32_t i = 0; i < v->n_points; i++) point_cells(&t, &v->points[i]);
  return pz_table_print(&t, 0, out);
}

/* ---- chips without their measurements ------------------------------------------------------- */

static enum pz_status print_families(const struct pz_cold_errors *c, struct pz_arena *arena,
                                     FILE *out) {
  static const char *const heads[] = {
      "family", ">rows", ">mean error", ">bias", "constants fitted on the others", NULL};
  struct pz_table t;
  pz_table_init(&t, arena, heads);
  for (uint32_t i = 0; i < c->n_families; i++) {
    const struct pz_cold_family *f = &c->families[i];
    const char *text = "";
    for (uint32_t k = 0; k < f->n_constants && text; k++)
      text = pz_arena_printf(arena, "%s%s%s %.4g", text, k ? ", " : "", f->constants[k].name,
                             f->constants[k].value);
    if (!text) return PZ_NO_MEMORY;
    pz_table_cell(&t, "%s", f->name);
    pz_table_cell(&t, "%u", f->n);
    percent_cell(&t, f->mean);
    signed_cell(&t, f->bias);
    pz_table_cell(&t, "%s", text);
  }
  fputs("Each family with constants fitted on the runs of the others\n", out);
  enum pz_status status = pz_table_print(&t, 2, out);
  fprintf(out, "  mean over families: %.1f%%\n", 100 * c->families_mean);
  return status;
}

static enum pz_status print_cold(const struct pz_validation *v, struct pz_arena *arena, FILE *out) {
  const struct pz_cold_errors *c = &v->cold;
  struct errors_table chips = {.title = "Chips without their measurements: dense 16-bit runs",
                               .first = "chip",
                               .list = c->chips,
                               .n = c->n_chips,
                               .kind = {[PZ_POINT_RUN] = true}};
  struct errors_table others = {.title = "The same: runs in 8 bits or with experts",
                                .first = "chip",
                                .list = c->others,
                                .n = c->n_others,
                                .kind = {[PZ_POINT_RUN] = true}};
  enum pz_status status = print_errors(v, chips, arena, out);
  if (status == PZ_OK && !isnan(c->spread))
    fprintf(out, "  mean over chips: %.1f%%; standard deviation of their biases: %.1f%%\n\n",
            100 * c->mean, 100 * c->spread);
  if (status == PZ_OK) status = print_errors(v, others, arena, out);
  return status == PZ_OK && c->n_families ? print_families(c, arena, out) : status;
}

/* ---- the whole ------------------------------------------------------------------------------ */

enum pz_status pz_validation_print(const struct pz_validation *v, bool rows, struct pz_arena *arena,
                                   FILE *out) {
  if (rows) return print_points(v, arena, out);
  if (v->cold.n_chips + v->cold.n_others) return print_cold(v, arena, out);
  bool runs = v->n_totals && v->totals[0].n + v->totals[0].not_predicted > 0;
  const struct errors_table tables[] = {{.title = "Operators, by kind",
                                         .first = "operator",
                                         .list = v->groups,
                                         .n = v->n_groups,
                                         .kind = {[PZ_POINT_OPERATOR] = true},
                                         .limits = true},
                                        {.title = "Forward and backward on one device",
                                         .first = "group",
                                         .list = v->groups,
                                         .n = v->n_groups,
                                         .kind = {[PZ_POINT_PASSES] = true},
                                         .limits = true},
                                        {.title = "Training runs, by source",
                                         .first = "group",
                                         .list = v->groups,
                                         .n = v->n_groups,
                                         .kind = {[PZ_POINT_RUN] = true},
                                         .limits = true},
                                        {.title = "Totals over training runs",
                                         .first = "total",
                                         .list = v->totals,
                                         .n = runs ? v->n_totals : 0,
                                         .kind = {[PZ_POINT_RUN] = true},
                                         .limits = true},
                                        {.title = "Not counted: quality is not ok",
                                         .first = "group",
                                         .list = v->apart,
                                         .n = v->n_apart,
                                         .kind = {true, true, true}}};
  for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
    enum pz_status status = print_errors(v, tables[i], arena, out);
    if (status != PZ_OK) return status;
  }
  return print_orders(v, arena, out);
}

char *pz_broken_limit_text(const struct pz_broken_limit *b, char *buf, size_t size) {
  static const char *const names[PZ_LIMITEDS] = {"mean error", "mean error of peak memory",
                                                 "rows not predicted", "rank correlation",
                                                 "regret"};
  if (isnan(b->value))
    snprintf(buf, size, "%.80s: %s has a limit, but no row is left to judge", b->group,
             names[b->what]);
  else if (b->what == PZ_LIMITED_MISSING)
    snprintf(buf, size, "%.80s: %.0f %s, limit %.0f", b->group, b->value, names[b->what], b->limit);
  else if (b->what == PZ_LIMITED_RANK)
    snprintf(buf, size, "%.80s: %s %.3f, at least %.3f", b->group, names[b->what], b->value,
             b->limit);
  else
    snprintf(buf, size, "%.80s: %s %.2f%%, limit %.2f%%: worse by %.2f points", b->group,
             names[b->what], 100 * b->value, 100 * b->limit, 100 * (b->value - b->limit));
  return pz_text_plain(buf);
}
