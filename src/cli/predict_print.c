/* The prediction of one plan as text, and the cost of a whole training run (--tokens).
 * pz_predict_print() prints the plan with its rates, the parts of the step, the memory of each
 * stage, changes that make the plan fit if it does not, and the cost.  Other subcommands print
 * parts of it with the same functions. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/predict_options.h"
#include "core/text.h"
#include "report/table.h"

static const double DAY_S = 86400, HOUR_S = 3600, MWH_J = 3.6e9;

/* ---- the plan and its rates ----------------------------------------------------------------- */

/* Prints the range in which 8 of 10 measured steps are expected, unless it is unknown. */
void pz_predict_print_expected(const struct pz_expectation *expected, double step_s) {
  char least[32], most[32];
  if (!expected->runs) return;
  printf("expected range: %s to %s s in 8 of 10 runs, +-%.0f%% (%s)\n",
         pz_text_number(least, sizeof least, step_s * (1 - expected->error)),
         pz_text_number(most, sizeof most, step_s * (1 + expected->error)), 100 * expected->error,
         expected->of);
  if (expected->beyond[0]) {
    char text[sizeof expected->beyond];
    printf("beyond the validated runs: %s\n",
           pz_text_plain(pz_text_copy(text, sizeof text, expected->beyond)));
  }
}

/* Prints how the global batch is divided into microbatches. */
void pz_predict_print_batch(const struct pz_training_run *run) {
  const struct pz_plan *plan = &run->plan;
  int64_t n = run->p.microbatches;
  printf("batch %" PRId64 " x %" PRId64 " tokens: %" PRId64 " microbatch%s of %" PRId64
         " sample%s on each replica\n",
         plan->batch, plan->seq, n, n == 1 ? "" : "es", plan->mbs, pz_text_s((double)plan->mbs));
}

/* Prints throughput, utilisation and power of a run. */
void pz_predict_print_rates(const struct pz_training_run *run) {
  const struct pz_prediction *prediction = &run->p;
  double billion_tokens_per_day = prediction->tokens / prediction->step_s * DAY_S / 1e9;
  char samples[32], tokens[32], daily[32];
  printf("%s samples/s, %s tokens/s per device, MFU %.1f%% (conventional %.1f%%), HFU %.1f%%\n",
         pz_text_number(samples, sizeof samples, prediction->samples_per_s),
         pz_text_number(tokens, sizeof tokens, prediction->tokens_per_s_per_device),
         100 * prediction->mfu, 100 * prediction->mfu_conventional, 100 * prediction->hfu);
  printf("%.4g TFLOP/s per device (model FLOP as in the conventional MFU), %s billion tokens a day",
         prediction->flop_per_s_per_device / 1e12,
         pz_text_number(daily, sizeof daily, billion_tokens_per_day));
  if (run->watts > 0) printf(", %.0f W per device", run->watts);
  putchar('\n');
}

/* Prints reserved memory with its margin beside the memory of a device, and ends the line. */
void pz_predict_print_reserved(const struct pz_training_run *run) {
  const struct pz_prediction *prediction = &run->p;
  double reserved_bytes = prediction->reserved_bytes, needed_bytes = prediction->needed_bytes;
  bool rehearsed =
      needed_bytes == reserved_bytes || prediction->reserved_low_bytes == reserved_bytes;
  const char *margin = rehearsed ? "the error of the rehearsal" : "the error of such plans";
  if (run->plan.memory_margin >= 0) margin = "the margin asked for";
  printf("%.1f GB reserved, at most %.1f GB with %s (%.1f%%); %.1f GB installed, %.1f usable\n",
         reserved_bytes / 1e9, needed_bytes / 1e9, margin,
         100 * (needed_bytes / reserved_bytes - 1), run->hbm_bytes / 1e9,
         prediction->usable_bytes / 1e9);
}

/* Prints the needed and the usable memory of the device or the host, if the plan exceeds it. */
void pz_predict_print_misfit(const struct pz_training_run *run) {
  const struct pz_prediction *prediction = &run->p;
  if (prediction->needed_bytes > prediction->usable_bytes) {
    printf("does not fit in memory: ");
    pz_predict_print_reserved(run);
  }
  if (prediction->host_bytes > prediction->usable_host_bytes)
    printf("does not fit in the host's memory: %.1f GB needed for each device, %.1f GB usable\n",
           prediction->host_bytes / 1e9, prediction->usable_host_bytes / 1e9);
}

/* ---- the step ------------------------------------------------------------------------------- */

/* Returns how many decimals a time in seconds needs to have four digits, 0 to 9. */
int pz_predict_decimals(double step_s) {
  double decimals = 3 - floor(log10(step_s));
  if (decimals < 0) return 0;
  return decimals > 9 ? 9 : (int)decimals;
}

/* Prints the parts of the step time, with the hidden time of collectives if there is any. */
void pz_predict_print_parts(struct pz_call *call, const struct pz_prediction *prediction) {
  bool any_hidden =
      prediction->tensor_hidden_s + prediction->expert_hidden_s + prediction->gradient_hidden_s > 0;
  const char *const heads[] = {"part of the step", ">seconds", ">share",
                               any_hidden ? ">hidden (s)" : NULL, NULL};
  int decimals = pz_predict_decimals(prediction->step_s);
  struct pz_table *table = pz_table_with(call, heads);
  for (size_t i = 0; pz_time_part_at(i); i++) {
    const struct pz_part_info *part = pz_time_part_at(i);
    double part_s = pz_time_part(&prediction->parts, part);
    double hidden_s = pz_hidden_part(prediction, part);
    bool negligible = !(part_s > 1e-9 * prediction->step_s) && !(hidden_s > 0);
    if (negligible) continue;
    pz_table_cells(table, "%s|%.*f|%.1f%%", pz_time_part_label(prediction, part), decimals, part_s,
                   100 * part_s / prediction->step_s);
    if (any_hidden) pz_table_known(table, hidden_s > 0, "%.*f", decimals, hidden_s);
  }
  putchar('\n');
  pz_table_print(table, 0, stdout);
}

/* ---- memory --------------------------------------------------------------------------------- */

/* Prints the memory of each pipeline stage; successive equal stages share a row. */
void pz_predict_print_memory(struct pz_call *call, const struct pz_training_run *run) {
  const char *heads[PZ_TABLE_MOST_COLUMNS + 1] = {">stage"};
  const struct pz_prediction *prediction = &run->p;
  size_t n = 0;
  for (; pz_memory_part_at(n) && n < PZ_TABLE_MOST_COLUMNS - 4; n++)
    heads[n + 1] = pz_format(call, ">%s", pz_memory_part_at(n)->label);
  heads[n + 1] = ">sum";
  heads[n + 2] = ">reserved";
  heads[n + 3] = ">of HBM";
  struct pz_table *table = pz_table_with(call, heads);
  for (int64_t first = 0, last; first < run->plan.pp; first = last + 1) {
    const struct pz_training_memory *memory = &run->stages[first];
    double sum_bytes = 0;
    last = first;
    for (bool same = true; last + 1 < run->plan.pp; last++) { /* stages with the same memory */
      for (size_t i = 0; pz_memory_part_at(i); i++) {
        const struct pz_part_info *part = pz_memory_part_at(i);
        if (pz_memory_part(memory, part) != pz_memory_part(&run->stages[last + 1], part))
          same = false;
      }
      if (!same) break;
    }
    if (first == last)
      pz_table_cell(table, "%" PRId64, first + 1);
    else
      pz_table_cell(table, "%" PRId64 "-%" PRId64, first + 1, last + 1);
    for (size_t i = 0; pz_memory_part_at(i); i++) {
      double bytes = pz_memory_part(memory, pz_memory_part_at(i));
      pz_table_cell(table, "%.2f", bytes / 1e9);
      sum_bytes += bytes;
    }
    pz_table_cells(table, "%.2f|%.2f|%.0f%%", sum_bytes / 1e9, run->reserved_bytes[first] / 1e9,
                   100 * sum_bytes / run->hbm_bytes);
  }
  bool fits = prediction->needed_bytes <= prediction->usable_bytes;
  printf("\nPeak memory of a device by stage (GB): %s, ", fits ? "fits" : "does not fit");
  pz_predict_print_reserved(run);
  pz_table_print(table, 0, stdout);
  if (prediction->host_bytes > 0)
    printf("on the host: %s, %.1f of %.1f GB usable for each device%s\n",
           prediction->host_bytes <= prediction->usable_host_bytes ? "fits" : "does not fit",
           prediction->host_bytes / 1e9, prediction->usable_host_bytes / 1e9,
           prediction->offload_s > 0
               ? "; stage transfers include activations on their way there and back"
               : "");
}

/* ---- changes with which a plan fits --------------------------------------------------------- */

/* Searches for changes that make a plan fit in memory; the result belongs to the call. */
const struct pz_plan_changes *pz_predict_changes(struct pz_call *call,
                                                 const struct pz_predicted *predicted) {
  struct pz_plan_changes *changes = NULL;
  pz_must(call,
          pz_training_changes(predicted->model, &predicted->machine->chip, predicted->machine->net,
                              predicted->run, &changes, pz_call_error(call)));
  pz_defer(call, pz_object_free, changes);
  return changes;
}

/* Prints changes of the plan that would make it fit in memory. */
static void print_changes(struct pz_call *call, const struct pz_predicted *predicted) {
  enum { MOST_SHOWN = 5 };
  fflush(stdout); /* the prediction can then be read during the search */
  const struct pz_plan_changes *changes = pz_predict_changes(call, predicted);
  putchar('\n');
  if (!changes->n) {
    printf("It fits with no one or two of: more recomputation, a higher ZeRO stage, smaller\n"
           "microbatches, other --tp or --pp on these devices.\n");
    return;
  }
  struct pz_table *table = pz_table_new(call, "fits with|>s per step|>GB");
  for (uint32_t i = 0; i < changes->n && i < MOST_SHOWN; i++)
    pz_table_cells(table, "%s|%.4g|%.1f", changes->list[i].options, changes->list[i].p.step_s,
                   changes->list[i].p.peak_bytes / 1e9);
  pz_table_print(table, 0, stdout);
}

/* ---- the cost of a whole training run ------------------------------------------------------- */

/* Parses a number of tokens, as "15T" for 15e12. */
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

/* Parses a deadline in days or hours, as "36h", and returns it in seconds. */
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

/* Returns the cost of a training run over the tokens of the settings. */
struct pz_run_cost pz_predict_cost(struct pz_call *call, const struct pz_predict_settings *settings,
                                   const struct pz_machine *machine,
                                   const struct pz_training_run *run) {
  struct pz_run_cost_options options = pz_run_cost_options_default();
  struct pz_run_cost cost;
  options.tokens = pz_parse_tokens(call, settings->tokens);
  options.price = settings->price;
  options.mtbf_s = settings->mtbf_hours * HOUR_S;
  options.checkpoint_s = settings->checkpoint_s;
  options.restart_s = settings->restart_s;
  pz_must(call, pz_run_cost(run, &machine->chip, &options, &cost, pz_call_error(call)));
  return cost;
}

/* Prints time, device-hours, dollars and energy of a training run, also with failures. */
void pz_predict_print_cost(struct pz_call *call, const struct pz_predict_settings *settings,
                           const struct pz_training_run *run, const struct pz_run_cost *cost) {
  bool failures = cost->goodput > 0;
  const char *heads[] = {pz_format(call, "cost of %s tokens", settings->tokens),
                         failures ? ">no failures" : ">total", failures ? ">with failures" : NULL,
                         NULL};
  const struct {
    const char *name;
    double value, with_failures;
    bool known;
  } rows[] = {{"steps", cost->steps, cost->steps, true},
              {"days", cost->seconds / DAY_S, cost->all_seconds / DAY_S, true},
              {"device-hours", cost->device_hours, cost->all_device_hours, true},
              {"dollars", cost->dollars, cost->all_dollars, settings->price > 0},
              {run->watts > 0 ? "MWh of the devices" : "MWh at data-sheet power",
               cost->energy_j / MWH_J, cost->all_energy_j / MWH_J, cost->energy_j > 0}};
  struct pz_table *table = pz_table_with(call, heads);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    if (!rows[i].known) continue;
    pz_table_cell(table, "%s", rows[i].name);
    pz_table_number(table, rows[i].value);
    if (failures) pz_table_number(table, rows[i].with_failures);
  }
  putchar('\n');
  pz_table_print(table, 0, stdout);
  if (!failures) return;
  char device_mtbf[40], job_mtbf[40], checkpoint[40], interval[40], restart[40];
  printf("failures: of a device one in %s hours, of the job one in %s; goodput %.1f%%\n"
         "checkpoints: %s each, one after every %s of training; restart %s\n",
         pz_text_number(device_mtbf, sizeof device_mtbf, settings->mtbf_hours),
         pz_text_duration(job_mtbf, sizeof job_mtbf, cost->job_mtbf_s), 100 * cost->goodput,
         pz_text_duration(checkpoint, sizeof checkpoint, cost->checkpoint_s),
         pz_text_duration(interval, sizeof interval, cost->interval_s),
         pz_text_duration(restart, sizeof restart, cost->restart_s));
}

/* ---- the whole prediction ------------------------------------------------------------------- */

/* Prints the whole prediction of a plan as text. */
void pz_predict_print(struct pz_call *call, const struct pz_predicted *predicted) {
  const struct pz_training_run *run = predicted->run;
  const struct pz_plan *plan = &run->plan;
  const struct pz_machine *machine = predicted->machine;
  bool network = !predicted->settings->no_network, fits = pz_prediction_fits(&run->p);
  char name[256], line[PZ_PLAN_LINE_MOST];
  if (!fits) pz_predict_print_misfit(run);
  printf("%s on %" PRId64 " x %s", pz_text_plain(pz_text_copy(name, sizeof name, predicted->model)),
         plan->devices, machine->chip.name);
  if (!network)
    printf(" without network");
  else if (machine->net_name)
    printf(" in %s", machine->net_name);
  else if (plan->devices > 1)
    printf(" linked at the chip's own rate");
  printf(": %.4g s per step\n", run->p.step_s);
  printf("%s\n", pz_plan_line(plan, true, line, sizeof line));
  pz_predict_print_batch(run);
  pz_predict_print_rates(run);
  if (network) pz_predict_print_expected(&run->expected, run->p.step_s);
  if (run->launch_bound)
    printf("launch-bound: such steps differ by up to 1.9 times between runs of the same code\n");
  pz_predict_print_parts(call, &run->p);
  pz_predict_print_memory(call, run);
  if (!fits) print_changes(call, predicted);
  if (predicted->settings->tokens)
    pz_predict_print_cost(call, predicted->settings, run, &predicted->cost);
  printf("\nMFU counts 6 FLOP a parameter and token, %sand of attention the keys that a token\n"
         "attends to, over the data-sheet peak; the conventional MFU counts attention in full,\n"
         "as papers do; HFU adds recomputation to MFU.\n",
         plan->peft ? "4 where it is frozen,\n" : "");
}
