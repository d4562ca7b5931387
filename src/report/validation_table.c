/* Tables of a validation: errors by group, the order of plans, single points, and chips without their measurements.  Limits
 * are columns of these tables if the validation was given any. */
#include "report/validation_table.h"

#include <math.h>
#include <string.h>

#include "core/text.h"
#include "report/table.h"

static void percent_cell(struct pz_table *t, double part) {
  pz_table_known(t, !isnan(part), "%.1f%%", 100 * part);
}

static void signed_percent_cell(struct pz_table *t, double part) {
  pz_table_known(t, !isnan(part), "%+.1f%%", 100 * part);
}

static void rank_cell(struct pz_table *t, double rank) {
  pz_table_known(t, !isnan(rank), "%.3f", rank);
}

/* ---- errors --------------------------------------------------------------------------------- */

struct errors_table {
  const char *title, *first_head;
  const struct pz_errors *list;
  uint32_t n;
  bool kind_shown[PZ_POINT_KINDS];
  bool limits, memory; /* whether the table has these columns */
};

static struct pz_table *new_errors_table(struct pz_call *call, const struct errors_table *e) {
  const char *heads[PZ_TABLE_MOST_COLUMNS] = {e->first_head, ">rows", ">not predicted",
                                              ">mean error"};
  int n = 4;
  if (e->limits) heads[n++] = ">limit";
  heads[n++] = ">bias";
  heads[n++] = ">worst";
  if (e->memory) heads[n++] = ">with memory";
  if (e->memory) heads[n++] = ">memory error";
  if (e->memory && e->limits) heads[n++] = ">limit";
  heads[n] = NULL;
  return pz_table_new(call, heads);
}

static void append_errors_row(struct pz_table *t, const struct pz_validation *v,
                              const struct errors_table *e, const struct pz_errors *g) {
  pz_table_cell(t, "%s", g->name);
  pz_table_cell(t, "%u", g->n);
  pz_table_cell(t, "%u", g->not_predicted);
  percent_cell(t, g->mean);
  if (e->limits) percent_cell(t, pz_limit_of(v, g->name, PZ_LIMITED_TIME));
  signed_percent_cell(t, g->bias);
  signed_percent_cell(t, g->worst);
  if (!e->memory) return;
  pz_table_cell(t, "%u", g->n_memory);
  percent_cell(t, g->memory_mean);
  if (e->limits) percent_cell(t, pz_limit_of(v, g->name, PZ_LIMITED_MEMORY));
}

/* Prints nothing if the list has no row of the kinds that are shown. */
static void print_errors(struct pz_call *call, const struct pz_validation *v, struct errors_table e,
                         FILE *out) {
  uint32_t n_shown = 0;
  for (uint32_t i = 0; i < e.n; i++) {
    if (!e.kind_shown[e.list[i].kind]) continue;
    n_shown++;
    if (e.list[i].n_memory > 0) e.memory = true;
  }
  if (n_shown == 0) return;
  e.limits = e.limits && v->n_limits > 0;
  struct pz_table *t = new_errors_table(call, &e);
  for (uint32_t i = 0; i < e.n; i++)
    if (e.kind_shown[e.list[i].kind]) append_errors_row(t, v, &e, &e.list[i]);
  fprintf(out, "%s\n", e.title);
  pz_table_print(t, 2, out);
  fputc('\n', out);
}

/* ---- the order of plans --------------------------------------------------------------------- */

static struct pz_table *new_order_table(struct pz_call *call, const struct pz_validation *v,
                                        const char *first_head, const char *count_head) {
  const char *heads[PZ_TABLE_MOST_COLUMNS] = {first_head, count_head, ">rank correlation"};
  int n = 3;
  if (v->n_limits) heads[n++] = ">at least";
  heads[n++] = ">regret";
  if (v->n_limits) heads[n++] = ">limit";
  heads[n] = NULL;
  return pz_table_new(call, heads);
}

static void append_order_row(struct pz_table *t, const struct pz_validation *v, const char *name,
                             uint32_t n, double rank, double regret) {
  pz_table_cell(t, "%s", name);
  pz_table_cell(t, "%u", n);
  rank_cell(t, rank);
  if (v->n_limits) rank_cell(t, pz_limit_of(v, name, PZ_LIMITED_RANK));
  percent_cell(t, regret);
  if (v->n_limits) percent_cell(t, pz_limit_of(v, name, PZ_LIMITED_REGRET));
}

static void print_orders(struct pz_call *call, const struct pz_validation *v, FILE *out) {
  if (!v->n_orders) return;
  struct pz_table *t = new_order_table(call, v, "model", ">plans");
  for (uint32_t i = 0; i < v->n_orders; i++) {
    const struct pz_plan_order *o = &v->orders[i];
    append_order_row(t, v, o->name, o->plans, o->rank_correlation, o->regret);
  }
  fprintf(out, "Order of the plans of one model (%d or more on the same devices)\n",
          PZ_LEAST_PLANS);
  pz_table_print(t, 2, out);
  fputc('\n', out);
  t = new_order_table(call, v, "mean over models of", ">models");
  for (uint32_t i = 0; i < v->n_order_means; i++) {
    const struct pz_order_mean *m = &v->order_means[i];
    append_order_row(t, v, m->name, m->n, m->rank_correlation, m->regret);
  }
  pz_table_print(t, 2, out);
}

/* ---- points --------------------------------------------------------------------------------- */

static void milliseconds_cell(struct pz_table *t, double s) {
  char text[32];
  pz_table_known(t, s > 0, "%s", pz_text_number(text, sizeof text, 1e3 * s));
}

/* The relative error of a prediction, or "-" unless both numbers are known. */
static void error_cell(struct pz_table *t, double measured, double predicted) {
  bool known = measured > 0 && predicted > 0;
  signed_percent_cell(t, known ? predicted / measured - 1 : (double)NAN);
}

static void print_points(struct pz_call *call, const struct pz_validation *v, FILE *out) {
  static const char *const heads[] = {"group",         "run",           "plan",
                                      ">measured ms",  ">predicted ms", ">error",
                                      ">memory error", "note",          NULL};
  struct pz_table *t = pz_table_new(call, heads);
  for (uint32_t i = 0; i < v->n_points; i++) {
    const struct pz_validation_point *p = &v->points[i];
    const char *note = p->reason;
    if (!*note && strcmp(p->quality, "ok") != 0) note = p->quality;
    pz_table_cell(t, "%s", p->group);
    pz_table_cell(t, "%s", p->id);
    pz_table_cell(t, "%s", p->plan);
    milliseconds_cell(t, p->measured_s);
    milliseconds_cell(t, p->predicted_s);
    error_cell(t, p->measured_s, p->predicted_s);
    error_cell(t, p->measured_bytes, p->predicted_bytes);
    pz_table_cell(t, "%s", note);
  }
  pz_table_print(t, 0, out);
}

/* ---- chips without their measurements ------------------------------------------------------- */

static void print_families(struct pz_call *call, const struct pz_cold_errors *c, FILE *out) {
  static const char *const heads[] = {
      "family", ">rows", ">mean error", ">bias", "constants fitted on the others", NULL};
  struct pz_table *t = pz_table_new(call, heads);
  for (uint32_t i = 0; i < c->n_families; i++) {
    const struct pz_cold_family *f = &c->families[i];
    const char *constants = "";
    for (uint32_t k = 0; k < f->n_constants; k++)
      constants = pz_format(call, "%s%s%s %.4g", constants, k ? ", " : "", f->constants[k].name,
                            f->constants[k].value);
    pz_table_cell(t, "%s", f->name);
    pz_table_cell(t, "%u", f->n);
    percent_cell(t, f->mean);
    signed_percent_cell(t, f->bias);
    pz_table_cell(t, "%s", constants);
  }
  fputs("Each family with constants fitted on the runs of the others\n", out);
  pz_table_print(t, 2, out);
  fprintf(out, "  mean over families: %.1f%%\n", 100 * c->families_mean);
}

static void print_cold_chips(struct pz_call *call, const struct pz_validation *v, FILE *out) {
  const struct pz_cold_errors *c = &v->cold;
  struct errors_table dense = {.title = "Chips without their measurements: dense 16-bit runs",
                               .first_head = "chip",
                               .list = c->chips,
                               .n = c->n_chips,
                               .kind_shown = {[PZ_POINT_RUN] = true}};
  struct errors_table others = {.title = "The same: runs in 8 bits or with experts",
                                .first_head = "chip",
                                .list = c->others,
                                .n = c->n_others,
                                .kind_shown = {[PZ_POINT_RUN] = true}};
  print_errors(call, v, dense, out);
  if (!isnan(c->spread))
    fprintf(out, "  mean over chips: %.1f%%; standard deviation of their biases: %.1f%%\n\n",
            100 * c->mean, 100 * c->spread);
  print_errors(call, v, others, out);
  if (c->n_families) print_families(call, c, out);
}

/* ---- all tables ----------------------------------------------------------------------------- */

void pz_validation_tables(struct pz_call *call, const struct pz_validation *v, bool rows,
                          FILE *out) {
  bool any_runs = v->n_totals && v->totals[0].n + v->totals[0].not_predicted > 0;
  const struct errors_table tables[] = {{.title = "Operators, by kind",
                                         .first_head = "operator",
                                         .list = v->groups,
                                         .n = v->n_groups,
                                         .kind_shown = {[PZ_POINT_OPERATOR] = true},
                                         .limits = true},
                                        {.title = "Forward and backward on one device",
                                         .first_head = "group",
                                         .list = v->groups,
                                         .n = v->n_groups,
                                         .kind_shown = {[PZ_POINT_PASSES] = true},
                                         .limits = true},
                                        {.title = "Training runs, by source",
                                         .first_head = "group",
                                         .list = v->groups,
                                         .n = v->n_groups,
                                         .kind_shown = {[PZ_POINT_RUN] = true},
                                         .limits = true},
                                        {.title = "Totals over training runs",
                                         .first_head = "total",
                                         .list = v->totals,
                                         .n = any_runs ? v->n_totals : 0,
                                         .kind_shown = {[PZ_POINT_RUN] = true},
                                         .limits = true},
                                        {.title = "Not counted: quality is not ok",
                                         .first_head = "group",
                                         .list = v->apart,
                                         .n = v->n_apart,
                                         .kind_shown = {true, true, true}}};
  if (rows) {
    print_points(call, v, out);
  } else if (v->cold.n_chips + v->cold.n_others > 0) {
    print_cold_chips(call, v, out);
  } else {
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
      print_errors(call, v, tables[i], out);
    print_orders(call, v, out);
  }
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
