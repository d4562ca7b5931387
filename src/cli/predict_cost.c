/* phaze predict --tokens: what a whole run costs, and with failures. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/predict_options.h"
#include "core/text.h"
#include "report/table.h"

static const double DAY_S = 86400, HOUR_S = 3600, MWH_J = 3.6e9;

enum pz_status pz_read_tokens(const char *text, double *out, struct pz_error *err) {
  static const char suffixes[] = "KMGBT";
  static const double factors[] = {1e3, 1e6, 1e9, 1e9, 1e12};
  char *end;
  double v = strtod(text, &end);
  const char *suffix = *end ? strchr(suffixes, *end) : NULL;
  bool digit = *text >= '0' && *text <= '9'; /* no sign, no "inf", no "nan" */
  if (suffix && !end[1])
    v *= factors[suffix - suffixes];
  else if (*end)
    digit = false;
  if (!digit || !(v >= 1 && v <= 1e18))
    return pz_fail(err, PZ_BAD_USE,
                   "--tokens: '%.40s'; accepted: a number from 1 to 1e18, with K, M, G or B, or T "
                   "behind it for 10^3, 10^6, 10^9, 10^12",
                   text);
  *out = v;
  return PZ_OK;
}

enum pz_status pz_read_deadline(const char *text, double *out, struct pz_error *err) {
  char *end;
  double v = strtod(text, &end);
  bool digit = *text >= '0' && *text <= '9';
  double unit = *end == 'd' ? DAY_S : *end == 'h' ? HOUR_S : 0;
  if (!digit || !(unit > 0) || end[1] || !(v > 0 && v <= 1e6))
    return pz_fail(err, PZ_BAD_USE,
                   "--deadline: '%.40s'; accepted: days or hours above 0, at most 1e6: 30d, 36h",
                   text);
  *out = v * unit;
  return PZ_OK;
}

enum pz_status pz_predict_cost(const struct pz_predicted *x, struct pz_run_cost *out,
                               struct pz_error *err) {
  const struct pz_predict_settings *s = x->s;
  struct pz_run_cost_options o = pz_run_cost_options_default();
  enum pz_status status = pz_read_tokens(s->tokens, &o.tokens, err);
  o.price = s->price;
  o.mtbf_s = s->mtbf_hours * HOUR_S;
  o.checkpoint_s = s->checkpoint_s;
  o.restart_s = s->restart_s;
  return status == PZ_OK ? pz_run_cost(x->run, &x->machine.chip, &o, out, err) : status;
}

/* ---- printed -------------------------------------------------------------------------------- */

static void cost_row(struct pz_table *t, const char *name, double v, double with, bool failures) {
  pz_table_cell(t, "%s", name);
  pz_table_number(t, v);
  if (failures) pz_table_number(t, with);
}

static void print_failures(const struct pz_predicted *x, const struct pz_run_cost *c) {
  char device[40], every[40], checkpoint[40], interval[40], restart[40];
  printf("failures: of a device one in %s hours, of the job one in %s; goodput %.1f%%\n"
         "checkpoints: %s each, one after every %s of training; restart %s\n",
         pz_text_number(device, sizeof device, x->s->mtbf_hours),
         pz_text_duration(every, sizeof every, c->job_mtbf_s), 100 * c->goodput,
         pz_text_duration(checkpoint, sizeof checkpoint, c->checkpoint_s),
         pz_text_duration(interval, sizeof interval, c->interval_s),
         pz_text_duration(restart, sizeof restart, c->restart_s));
}

enum pz_status pz_predict_print_cost(const struct pz_predicted *x, const struct pz_run_cost *c,
                                     struct pz_arena *arena) {
  bool failures = c->goodput > 0;
  char *head = pz_arena_printf(arena, "cost of %s tokens", x->s->tokens);
  const char *heads[] = {head, failures ? ">no failures" : ">total",
                         failures ? ">with failures" : NULL, NULL};
  struct pz_table t;
  if (!head) return PZ_NO_MEMORY;
  pz_table_init(&t, arena, heads);
  cost_row(&t, "steps", c->steps, c->steps, failures);
  cost_row(&t, "days", c->seconds / DAY_S, c->all_seconds / DAY_S, failures);
  cost_row(&t, "device-hours", c->device_hours, c->all_device_hours, failures);
  if (x->s->price > 0) cost_row(&t, "dollars", c->dollars, c->all_dollars, failures);
  if (c->energy_j > 0)
    cost_row(&t, x->run->watts > 0 ? "MWh of the devices" : "MWh at data-sheet power", c->energy_j / MWH_J, c->all_energy_j / MWH_J, failures);
  putchar('\n');
  enum pz_status status = pz_table_print(&t, 0, stdout);
  if (status == PZ_OK && failures) print_failures(x, c);
  return status;
}
