/* The cost of a whole training run (--tokens): its options are parsed, pz_predict_cost() asks the library, and
 * pz_predict_print_cost() prints time, device-hours, dollars and energy, without failures and with them. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/predict_options.h"
#include "core/text.h"
#include "report/table.h"

static const double DAY_S = 86400, HOUR_S = 3600, MWH_J = 3.6e9;

double pz_parse_tokens(struct pz_call *call, const char *text) {
  static const char suffixes[] = "KMGBT";
  static const double factors[] = {1e3, 1e6, 1e9, 1e9, 1e12};
  char *end;
  double tokens = strtod(text, &end);
  bool valid = *text >= '0' && *text <= '9'; /* no sign, no "inf", no "nan" */
  const char *suffix = *end ? strchr(suffixes, *end) : NULL;
  if (suffix && !end[1])
    tokens *= factors[suffix - suffixes];
  else if (*end)
    valid = false;
  if (!valid || !(tokens >= 1 && tokens <= 1e18))
    pz_raise(call, PZ_BAD_USE,
             "--tokens: '%.40s'; accepted: a number from 1 to 1e18, with K, M, G or B, or T "
             "behind it for 10^3, 10^6, 10^9, 10^12",
             text);
  return tokens;
}

double pz_parse_deadline(struct pz_call *call, const char *text) {
  char *end;
  double value = strtod(text, &end), unit_s = 0;
  bool digit = *text >= '0' && *text <= '9';
  if (*end == 'd') unit_s = DAY_S;
  if (*end == 'h') unit_s = HOUR_S;
  if (!digit || !(unit_s > 0) || end[1] || !(value > 0 && value <= 1e6))
    pz_raise(call, PZ_BAD_USE,
             "--deadline: '%.40s'; accepted: days or hours above 0, at most 1e6: 30d, 36h", text);
  return value * unit_s;
}

struct pz_run_cost pz_predict_cost(struct pz_call *call, const struct pz_predicted *predicted) {
  const struct pz_predict_settings *s = predicted->s;
  struct pz_run_cost_options o = pz_run_cost_options_default();
  struct pz_run_cost cost;
  o.tokens = pz_parse_tokens(call, s->tokens);
  o.price = s->price;
  o.mtbf_s = s->mtbf_hours * HOUR_S;
  o.checkpoint_s = s->checkpoint_s;
  o.restart_s = s->restart_s;
  pz_must(call,
          pz_run_cost(predicted->run, &predicted->machine->chip, &o, &cost, pz_call_error(call)));
  return cost;
}

/* ---- as text -------------------------------------------------------------------------------- */

static void append_cost_row(struct pz_table *t, const char *name, double value,
                            double with_failures, bool failures) {
  pz_table_cell(t, "%s", name);
  pz_table_number(t, value);
  if (failures) pz_table_number(t, with_failures);
}

void pz_predict_print_cost(struct pz_call *call, const struct pz_predicted *predicted,
                           const struct pz_run_cost *c) {
  bool failures = c->goodput > 0;
  const char *heads[] = {pz_format(call, "cost of %s tokens", predicted->s->tokens),
                         failures ? ">no failures" : ">total", failures ? ">with failures" : NULL,
                         NULL};
  const char *energy = predicted->run->watts > 0 ? "MWh of the devices" : "MWh at data-sheet power";
  struct pz_table *t = pz_table_new(call, heads);
  append_cost_row(t, "steps", c->steps, c->steps, failures);
  append_cost_row(t, "days", c->seconds / DAY_S, c->all_seconds / DAY_S, failures);
  append_cost_row(t, "device-hours", c->device_hours, c->all_device_hours, failures);
  if (predicted->s->price > 0) append_cost_row(t, "dollars", c->dollars, c->all_dollars, failures);
  if (c->energy_j > 0)
    append_cost_row(t, energy, c->energy_j / MWH_J, c->all_energy_j / MWH_J, failures);
  putchar('\n');
  pz_table_print(t, 0, stdout);
  if (!failures) return;
  char device[40], every[40], checkpoint[40], interval[40], restart[40];
  printf("failures: of a device one in %s hours, of the job one in %s; goodput %.1f%%\n"
         "checkpoints: %s each, one after every %s of training; restart %s\n",
         pz_text_number(device, sizeof device, predicted->s->mtbf_hours),
         pz_text_duration(every, sizeof every, c->job_mtbf_s), 100 * c->goodput,
         pz_text_duration(checkpoint, sizeof checkpoint, c->checkpoint_s),
         pz_text_duration(interval, sizeof interval, c->interval_s),
         pz_text_duration(restart, sizeof restart, c->restart_s));
}
