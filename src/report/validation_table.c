#include "report/validation_table.h"

#include <inttypes.h>
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

static double limit_of(const struct pz_validation *v, const char *group, enum pz_limited what) {
  for (uint32_t i = 0; i < v->n_limits; i++)
    if (strcmp(v->limits[i].group, group) == 0) return v->limits[i].most[what];
  return (double)NAN;
}

static void errors_cells(struct pz_table *t, const struct pz_validation *v,
                         const struct pz_errors *g, bool limits) {
  pz_table_cell(t, "%s", g->name);
  pz_table_cell(t, "%u", g->n);
  pz_table_cell(t, "%u", g->not_predicted);
  percent_cell(t, g->mean);
  percent_cell(t, limits ? limit_of(v, g->name, PZ_LIMITED_TIME) : (double)NAN);
  signed_cell(t, g->bias);
  signed_cell(t, g->worst);
  pz_table_cell(t, "%u", g->n_memory);
  percent_cell(t, g->memory_mean);
  percent_cell(t, limits ? limit_of(v, g->name, PZ_LIMITED_MEMORY) : (double)NAN);
}

struct errors_table {
  const char *title, *first; /* head of the first column */
  const struct pz_errors *list;
  uint32_t n;
  bool kind[PZ_POINT_KINDS]; /* those to show */
  bool limits;
};

static enum pz_status print_errors(const struct pz_validation *v, const struct errors_table *e,
                                   struct pz_arena *arena, FILE *out) {
  const char *heads[] = {e->first, ">rows",  ">not predicted", ">mean error",   ">limit",
                         ">bias",  ">worst", ">with memory",   ">memory error", ">limit",
                         NULL};
  struct pz_table t;
  uint32_t shown = 0;
  pz_table_init(&t, arena, heads);
  for (uint32_t i = 0; i < e->n; i++) {
    if (!e->kind[e->list[i].kind]) continue;
    errors_cells(&t, v, &e->list[i], e->limits);
    shown++;
  }
  if (!shown) return PZ_OK;
  fprintf(out, "%s\n", e->title);
  enum pz_status status = pz_table_print(&t, 2, out);
  fputc('\n', out);
  return status;
}

/* ---- plans ---------------------------------------------------------------------------------- */

static void order_cells(struct pz_table *t, const char *name, uint32_t n, double rank,
                        double regret) {
  pz_table_cell(t, "%s", name);
  pz_table_cell(t, "%u", n);
  if (isnan(rank))
    pz_table_cell(t, "-");
  else
    pz_table_cell(t, "%.3f", rank);
  percent_cell(t, regret);
}

static enum pz_status print_orders(const struct pz_validation *v, struct pz_arena *arena,
                                   FILE *out) {
  static const char *const heads[] = {"model", ">plans", ">rank correlation", ">regret", NULL};
  static const char *const mean_heads[] = {"mean over models of", ">models", ">rank correlation",
                                           ">regret", NULL};
  struct pz_table t;
  if (!v->n_orders) return PZ_OK;
  fprintf(out, "Order of the plans of one model (%d or more on the same devices)\n",
          PZ_LEAST_PLANS);
  pz_table_init(&t, arena, heads);
  for (uint32_t i = 0; i < v->n_orders; i++) {
    const struct pz_plan_order *o = &v->orders[i];
    char name[200];
    snprintf(name, sizeof name, "%.60s on %" PRId64 " x %.30s, batch %" PRId64 " (%.60s)", o->model,
             o->devices, o->chip, o->batch, o->group);
    order_cells(&t, name, o->plans, o->rank_correlation, o->regret);
  }
  enum pz_status status = pz_table_print(&t, 2, out);
  if (status != PZ_OK) return status;
  fputc('\n', out);
  pz_table_init(&t, arena, mean_heads);
  for (uint32_t i = 0; i < v->n_order_means; i++) {
    const struct pz_order_mean *m = &v->order_means[i];
    order_cells(&t, m->name, m->n, m->rank_correlation, m->regret);
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

static void point_cells(struct pz_table *t, const struct pz_point *p) {
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

/* ---- the whole ------------------------------------------------------------------------------ */

enum pz_status pz_validation_print(const struct pz_validation *v, bool rows, struct pz_arena *arena,
                                   FILE *out) {
  if (rows) return print_points(v, arena, out);
  const struct errors_table tables[] = {
      {"Operators, by kind", "operator", v->groups, v->n_groups, {false, false, true}, true},
      {"Forward and backward on one device",
       "group",
       v->groups,
       v->n_groups,
       {false, true, false},
       true},
      {"Training runs, by source", "group", v->groups, v->n_groups, {true, false, false}, true},
      {"Totals over training runs", "total", v->totals, v->n_totals, {true, true, true}, true},
      {"Not counted: quality is not ok", "group", v->apart, v->n_apart, {true, true, true}, false}};
  for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
    enum pz_status status = print_errors(v, &tables[i], arena, out);
    if (status != PZ_OK) return status;
  }
  return print_orders(v, arena, out);
}

char *pz_broken_limit_text(const struct pz_broken_limit *b, char *buf, size_t size) {
  static const char *const names[PZ_LIMITEDS] = {"mean error", "mean error of peak memory",
                                                 "rows not predicted"};
  if (isnan(b->value))
    snprintf(buf, size, "%.80s: %s has a limit, but no row is left to judge", b->group,
             names[b->what]);
  else if (b->what == PZ_LIMITED_MISSING)
    snprintf(buf, size, "%.80s: %.0f %s, limit %.0f", b->group, b->value, names[b->what], b->limit);
  else
    snprintf(buf, size, "%.80s: %s %.2f%%, limit %.2f%%: worse by %.2f points", b->group,
             names[b->what], 100 * b->value, 100 * b->limit, 100 * (b->value - b->limit));
  return buf;
}
