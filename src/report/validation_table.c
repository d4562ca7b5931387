/* Tables of a validation: errors by group, the order of plans, single points, and chips without
 * their measurements.  Limits are columns of these tables if the validation was given any. */
#include "report/validation_table.h"

#include <math.h>
#include <string.h>

#include "core/text.h"
#include "report/table.h"

/* Adds a fraction in percent, positive ones with a sign if `has_sign`, or a dash if it is NaN. */
static void percent_cell(struct pz_table *table, double fraction, bool has_sign) {
  pz_table_known(table, !isnan(fraction), has_sign ? "%+.1f%%" : "%.1f%%", 100 * fraction);
}

/* ---- errors --------------------------------------------------------------------------------- */

/* A table of the groups of a list whose points have one of the kinds in kind_shown. */
struct errors_table {
  const char *title, *first_head;
  const struct pz_errors *list;
  uint32_t n;
  bool kind_shown[PZ_POINT_KINDS];
  bool limits; /* whether limits are shown, if the validation has any */
};

/* Prints a table of errors, or nothing if its list has no group of the kinds that are shown.
 * Errors of peak memory are shown if a group has any. */
static void print_errors(struct pz_call *call, const struct pz_validation *validation,
                         const struct errors_table *shown, FILE *out) {
  bool limits = shown->limits && validation->n_limits > 0, memory = false;
  uint32_t n_shown = 0;
  for (uint32_t i = 0; i < shown->n; i++) {
    if (!shown->kind_shown[shown->list[i].kind]) continue;
    n_shown++;
    if (shown->list[i].n_memory > 0) memory = true;
  }
  if (n_shown == 0) return;
  const char *heads[PZ_TABLE_MOST_COLUMNS] = {shown->first_head, ">rows", ">not predicted",
                                              ">mean error"};
  int n = 4;
  if (limits) heads[n++] = ">limit";
  heads[n++] = ">bias";
  heads[n++] = ">worst";
  if (memory) heads[n++] = ">with memory";
  if (memory) heads[n++] = ">memory error";
  if (memory && limits) heads[n++] = ">limit";
  struct pz_table *table = pz_table_with(call, heads);
  for (uint32_t i = 0; i < shown->n; i++) {
    const struct pz_errors *group = &shown->list[i];
    if (!shown->kind_shown[group->kind]) continue;
    pz_table_cells(table, "%s|%u|%u", group->name, group->n, group->not_predicted);
    percent_cell(table, group->mean, false);
    if (limits) percent_cell(table, pz_limit_of(validation, group->name, PZ_LIMITED_TIME), false);
    percent_cell(table, group->bias, true);
    percent_cell(table, group->worst, true);
    if (!memory) continue;
    pz_table_cell(table, "%u", group->n_memory);
    percent_cell(table, group->memory_mean, false);
    if (limits) percent_cell(table, pz_limit_of(validation, group->name, PZ_LIMITED_MEMORY), false);
  }
  fprintf(out, "%s\n", shown->title);
  pz_table_print(table, 2, out);
  fputc('\n', out);
}

/* ---- the order of plans --------------------------------------------------------------------- */

/* Returns a table with the titles of an order of plans; limits have columns if any exist. */
static struct pz_table *new_order_table(struct pz_call *call,
                                        const struct pz_validation *validation,
                                        const char *first_head, const char *count_head) {
  const char *heads[PZ_TABLE_MOST_COLUMNS] = {first_head, count_head, ">rank correlation"};
  int n = 3;
  if (validation->n_limits) heads[n++] = ">at least";
  heads[n++] = ">regret";
  if (validation->n_limits) heads[n++] = ">limit";
  return pz_table_with(call, heads);
}

/* Appends rank correlation and regret of n plans, or their means over n models, with limits. */
static void append_order_row(struct pz_table *table, const struct pz_validation *validation,
                             const char *name, uint32_t n, double rank_correlation, double regret) {
  bool limits = validation->n_limits > 0;
  pz_table_cells(table, "%s|%u", name, n);
  pz_table_known(table, !isnan(rank_correlation), "%.3f", rank_correlation);
  double least = pz_limit_of(validation, name, PZ_LIMITED_RANK);
  if (limits) pz_table_known(table, !isnan(least), "%.3f", least);
  percent_cell(table, regret, false);
  if (limits) percent_cell(table, pz_limit_of(validation, name, PZ_LIMITED_REGRET), false);
}

/* Prints how well predictions order the plans of each model, and the means over models. */
static void print_orders(struct pz_call *call, const struct pz_validation *validation, FILE *out) {
  if (!validation->n_orders) return;
  struct pz_table *plans = new_order_table(call, validation, "model", ">plans");
  for (uint32_t i = 0; i < validation->n_orders; i++) {
    const struct pz_plan_order *order = &validation->orders[i];
    append_order_row(plans, validation, order->name, order->plans, order->rank_correlation,
                     order->regret);
  }
  fprintf(out, "Order of the plans of one model (%d or more on the same devices)\n",
          PZ_LEAST_PLANS);
  pz_table_print(plans, 2, out);
  fputc('\n', out);
  struct pz_table *means = new_order_table(call, validation, "mean over models of", ">models");
  for (uint32_t i = 0; i < validation->n_order_means; i++) {
    const struct pz_order_mean *mean = &validation->order_means[i];
    append_order_row(means, validation, mean->name, mean->n, mean->rank_correlation, mean->regret);
  }
  pz_table_print(means, 2, out);
}

/* ---- points --------------------------------------------------------------------------------- */

/* Prints a row for each point with its errors and why it is not predicted or counted.  Times and
 * sizes of memory that are 0 are unknown, and so are the errors of their predictions (-). */
static void print_points(struct pz_call *call, const struct pz_validation *validation, FILE *out) {
  struct pz_table *table =
      pz_table_new(call, "group|run|plan|>measured ms|>predicted ms|>error|>memory error|note");
  for (uint32_t i = 0; i < validation->n_points; i++) {
    const struct pz_validation_point *point = &validation->points[i];
    const char *note = point->reason;
    if (!*note && strcmp(point->quality, "ok") != 0) note = point->quality;
    pz_table_cells(table, "%s|%s|%s", point->group, point->id, point->plan);
    const double times_s[] = {point->measured_s, point->predicted_s};
    const double bytes[] = {point->measured_bytes, point->predicted_bytes};
    for (int k = 0; k < 2; k++) {
      char text[32];
      pz_text_number(text, sizeof text, 1e3 * times_s[k]);
      pz_table_known(table, times_s[k] > 0, "%s", text);
    }
    bool has_time = times_s[0] > 0 && times_s[1] > 0, has_memory = bytes[0] > 0 && bytes[1] > 0;
    percent_cell(table, has_time ? times_s[1] / times_s[0] - 1 : (double)NAN, true);
    percent_cell(table, has_memory ? bytes[1] / bytes[0] - 1 : (double)NAN, true);
    pz_table_cell(table, "%s", note);
  }
  pz_table_print(table, 0, out);
}

/* ---- chips without their measurements ------------------------------------------------------- */

/* Prints the errors on chips that are known by their data sheets only, by chip and by family. */
static void print_cold_chips(struct pz_call *call, const struct pz_validation *validation,
                             FILE *out) {
  const struct pz_cold_errors *cold = &validation->cold;
  const char *title = "Chips without their measurements: dense 16-bit runs";
  struct errors_table shown = {title, "chip", cold->chips, cold->n_chips, {[PZ_POINT_RUN] = true},
                               false};
  print_errors(call, validation, &shown, out);
  if (!isnan(cold->spread))
    fprintf(out, "  mean over chips: %.1f%%; standard deviation of their biases: %.1f%%\n\n",
            100 * cold->mean, 100 * cold->spread);
  shown.title = "The same: runs in 8 bits or with experts";
  shown.list = cold->others;
  shown.n = cold->n_others;
  print_errors(call, validation, &shown, out);
  if (!cold->n_families) return;
  struct pz_table *table =
      pz_table_new(call, "family|>rows|>mean error|>bias|constants fitted on the others");
  for (uint32_t i = 0; i < cold->n_families; i++) {
    const struct pz_cold_family *family = &cold->families[i];
    const char *constants = "";
    for (uint32_t k = 0; k < family->n_constants; k++)
      constants = pz_format(call, "%s%s%s %.4g", constants, k ? ", " : "",
                            family->constants[k].name, family->constants[k].value);
    pz_table_cells(table, "%s|%u", family->name, family->n);
    percent_cell(table, family->mean, false);
    percent_cell(table, family->bias, true);
    pz_table_cell(table, "%s", constants);
  }
  fputs("Each family with constants fitted on the runs of the others\n", out);
  pz_table_print(table, 2, out);
  fprintf(out, "  mean over families: %.1f%%\n", 100 * cold->families_mean);
}

/* ---- all tables ----------------------------------------------------------------------------- */

/* Prints the points, or the tables of chips without their measurements, or those of groups. */
void pz_validation_tables(struct pz_call *call, const struct pz_validation *validation, bool rows,
                          FILE *out) {
  bool any_runs =
      validation->n_totals && validation->totals[0].n + validation->totals[0].not_predicted > 0;
  const struct pz_errors *groups = validation->groups;
  uint32_t n_groups = validation->n_groups, n_totals = any_runs ? validation->n_totals : 0;
  const char *all = "Totals over training runs", *passes = "Forward and backward on one device",
             *apart = "Not counted: quality is not ok";
  const struct errors_table tables[] = {
      {"Operators, by kind", "operator", groups, n_groups, {[PZ_POINT_OPERATOR] = true}, true},
      {passes, "group", groups, n_groups, {[PZ_POINT_PASSES] = true}, true},
      {"Training runs, by source", "group", groups, n_groups, {[PZ_POINT_RUN] = true}, true},
      {all, "total", validation->totals, n_totals, {[PZ_POINT_RUN] = true}, true},
      {apart, "group", validation->apart, validation->n_apart, {true, true, true}, false}};
  if (rows) {
    print_points(call, validation, out);
  } else if (validation->cold.n_chips + validation->cold.n_others > 0) {
    print_cold_chips(call, validation, out);
  } else {
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
      print_errors(call, validation, &tables[i], out);
    print_orders(call, validation, out);
  }
}

/* Describes a broken limit in one line, which it writes into buf and returns. */
char *pz_broken_limit_text(const struct pz_broken_limit *broken, char *buf, size_t size) {
  static const char *const names[PZ_LIMITEDS] = {"mean error", "mean error of peak memory",
                                                 "rows not predicted", "rank correlation",
                                                 "regret"};
  const char *group = broken->group, *name = names[broken->what];
  double value = broken->value, limit = broken->limit;
  if (isnan(value))
    snprintf(buf, size, "%.80s: %s has a limit, but no row is left to judge", group, name);
  else if (broken->what == PZ_LIMITED_MISSING)
    snprintf(buf, size, "%.80s: %.0f %s, limit %.0f", group, value, name, limit);
  else if (broken->what == PZ_LIMITED_RANK)
    snprintf(buf, size, "%.80s: %s %.3f, at least %.3f", group, name, value, limit);
  else
    snprintf(buf, size, "%.80s: %s %.2f%%, limit %.2f%%: worse by %.2f points", group, name,
             100 * value, 100 * limit, 100 * (value - limit));
  return pz_text_plain(buf);
}
