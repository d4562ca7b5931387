/* The prediction of one plan as text.  pz_predict_print() prints the plan with its rates, the parts of the step, the
 * memory of each stage, changes with which a plan fits that does not, and the cost of a run.  Other subcommands print
 * parts of it with the same functions. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/owned.h"
#include "cli/predict_options.h"
#include "core/text.h"
#include "report/table.h"

static const double DAY_S = 86400;

/* ---- the plan and its rates ----------------------------------------------------------------- */

void pz_predict_print_expected(const struct pz_expectation *e, double step_s) {
  char least[32], most[32];
  if (!e->runs) return;
  printf("expected range: %s to %s s in 8 of 10 runs, +-%.0f%% (%s)\n",
         pz_text_number(least, sizeof least, step_s * (1 - e->error)),
         pz_text_number(most, sizeof most, step_s * (1 + e->error)), 100 * e->error, e->of);
  if (e->beyond[0]) {
    char text[sizeof e->beyond];
    printf("beyond the validated runs: %s\n",
           pz_text_plain(pz_text_copy(text, sizeof text, e->beyond)));
  }
}

void pz_predict_print_batch(const struct pz_training_run *r) {
  const struct pz_plan *o = &r->plan;
  int64_t n = r->p.microbatches;
  printf("batch %" PRId64 " x %" PRId64 " tokens: %" PRId64 " microbatch%s of %" PRId64
         " sample%s on each replica\n",
         o->batch, o->seq, n, n == 1 ? "" : "es", o->mbs, pz_text_s((double)o->mbs));
}

void pz_predict_print_rates(const struct pz_training_run *r) {
  const struct pz_prediction *p = &r->p;
  char samples[32], tokens[32], daily[32];
  printf("%s samples/s, %s tokens/s per device, MFU %.1f%% (conventional %.1f%%), HFU %.1f%%\n",
         pz_text_number(samples, sizeof samples, p->samples_per_s),
         pz_text_number(tokens, sizeof tokens, p->tokens_per_s_per_device), 100 * p->mfu,
         100 * p->mfu_conventional, 100 * p->hfu);
  printf("%.4g TFLOP/s per device (model FLOP as in the conventional MFU), %s billion tokens a day",
         p->flop_per_s_per_device / 1e12,
         pz_text_number(daily, sizeof daily, p->tokens / p->step_s * DAY_S / 1e9));
  if (r->watts > 0) printf(", %.0f W per device", r->watts);
  putchar('\n');
}

void pz_predict_print_reserved(const struct pz_training_run *r) {
  const struct pz_prediction *p = &r->p;
  bool rehearsed =
      p->needed_bytes == p->reserved_bytes || p->reserved_low_bytes == p->reserved_bytes;
  const char *margin = rehearsed ? "the error of the rehearsal" : "the error of such plans";
  if (r->plan.memory_margin >= 0) margin = "the margin asked for";
  printf("%.1f GB reserved, at most %.1f GB with %s (%.1f%%); %.1f GB installed, %.1f usable\n",
         p->reserved_bytes / 1e9, p->needed_bytes / 1e9, margin,
         100 * (p->needed_bytes / p->reserved_bytes - 1), r->hbm_bytes / 1e9,
         p->usable_bytes / 1e9);
}

void pz_predict_print_misfit(const struct pz_predicted *predicted) {
  const struct pz_prediction *p = &predicted->run->p;
  if (p->needed_bytes > p->usable_bytes) {
    printf("does not fit in memory: ");
    pz_predict_print_reserved(predicted->run);
  }
  if (p->host_bytes > p->usable_host_bytes)
    printf("does not fit in the host's memory: %.1f GB needed for each device, %.1f GB usable\n",
           p->host_bytes / 1e9, p->usable_host_bytes / 1e9);
}

/* ---- the step ------------------------------------------------------------------------------- */

int pz_predict_decimals(double step_s) {
  double decimals = 3 - floor(log10(step_s));
  if (decimals < 0) return 0;
  return decimals > 9 ? 9 : (int)decimals;
}

void pz_predict_print_parts(struct pz_call *call, const struct pz_prediction *p) {
  bool any_hidden = p->tensor_hidden_s + p->expert_hidden_s + p->gradient_hidden_s > 0;
  const char *const heads[] = {"part of the step", ">seconds", ">share",
                               any_hidden ? ">hidden (s)" : NULL, NULL};
  const struct pz_part_info *part;
  int decimals = pz_predict_decimals(p->step_s);
  struct pz_table *t = pz_table_new(call, heads);
  for (size_t i = 0; (part = pz_time_part_at(i)); i++) {
    double part_s = pz_time_part(&p->parts, part), hidden_s = pz_hidden_part(p, part);
    bool negligible = !(part_s > 1e-9 * p->step_s) && !(hidden_s > 0);
    if (negligible) continue;
    pz_table_cell(t, "%s", pz_time_part_label(p, part));
    pz_table_cell(t, "%.*f", decimals, part_s);
    pz_table_cell(t, "%.1f%%", 100 * part_s / p->step_s);
    if (hidden_s > 0)
      pz_table_cell(t, "%.*f", decimals, hidden_s);
    else if (any_hidden)
      pz_table_cell(t, "-");
  }
  putchar('\n');
  pz_table_print(t, 0, stdout);
}

/* ---- memory --------------------------------------------------------------------------------- */

static bool is_same_memory(const struct pz_training_memory *a, const struct pz_training_memory *b) {
  const struct pz_part_info *part;
  for (size_t i = 0; (part = pz_memory_part_at(i)); i++)
    if (pz_memory_part(a, part) != pz_memory_part(b, part)) return false;
  return true;
}

/* Appends the row of the stages first to last, whose memory is the same. */
static void append_stages(struct pz_table *t, const struct pz_training_run *r, int64_t first,
                          int64_t last) {
  const struct pz_training_memory *m = &r->stages[first];
  const struct pz_part_info *part;
  double sum = 0;
  if (first == last)
    pz_table_cell(t, "%" PRId64, first + 1);
  else
    pz_table_cell(t, "%" PRId64 "-%" PRId64, first + 1, last + 1);
  for (size_t i = 0; (part = pz_memory_part_at(i)); i++) {
    pz_table_cell(t, "%.2f", pz_memory_part(m, part) / 1e9);
    sum += pz_memory_part(m, part);
  }
  pz_table_cell(t, "%.2f", sum / 1e9);
  pz_table_cell(t, "%.2f", r->reserved_bytes[first] / 1e9);
  pz_table_cell(t, "%.0f%%", 100 * sum / r->hbm_bytes);
}

/* Successive stages with the same memory share a row. */
void pz_predict_print_memory(struct pz_call *call, const struct pz_training_run *r) {
  const char *heads[PZ_TABLE_MOST_COLUMNS + 1] = {">stage"};
  const struct pz_part_info *part;
  size_t n = 0;
  for (; (part = pz_memory_part_at(n)) && n < PZ_TABLE_MOST_COLUMNS - 4; n++)
    heads[n + 1] = pz_format(call, ">%s", part->label);
  heads[n + 1] = ">sum";
  heads[n + 2] = ">reserved";
  heads[n + 3] = ">of HBM";
  struct pz_table *t = pz_table_new(call, heads);
  for (int64_t first = 0, last; first < r->plan.pp; first = last + 1) {
    last = first;
    while (last + 1 < r->plan.pp && is_same_memory(&r->stages[first], &r->stages[last + 1])) last++;
    append_stages(t, r, first, last);
  }
  bool fits = r->p.needed_bytes <= r->p.usable_bytes;
  printf("\nPeak memory of a device by stage (GB): %s, ", fits ? "fits" : "does not fit");
  pz_predict_print_reserved(r);
  pz_table_print(t, 0, stdout);
  if (r->p.host_bytes > 0)
    printf("on the host: %s, %.1f of %.1f GB usable for each device%s\n",
           r->p.host_bytes <= r->p.usable_host_bytes ? "fits" : "does not fit",
           r->p.host_bytes / 1e9, r->p.usable_host_bytes / 1e9,
           r->p.offload_s > 0 ? "; stage transfers include activations on their way there and back"
                              : "");
}

/* ---- changes with which a plan fits ---------------------------------------------------------- */

enum { MOST_CHANGES = 5 };

static const struct pz_plan_changes *find_changes(struct pz_call *call,
                                                  const struct pz_predicted *predicted) {
  struct pz_plan_changes *changes = NULL;
  pz_must(call, pz_training_changes(predicted->model, &predicted->machine->chip,
                                    pz_machine_net(predicted->machine), predicted->run, &changes,
                                    pz_call_error(call)));
  pz_defer(call, pz_free_plan_changes, changes);
  return changes;
}

json_t *pz_predict_changes_json(struct pz_call *call, const struct pz_predicted *predicted) {
  const struct pz_plan_changes *c = find_changes(call, predicted);
  json_t *list = pz_json_built(call, json_array());
  for (uint32_t i = 0; i < c->n; i++)
    json_array_append_new(list,
                          json_pack("{s:s,s:f,s:f}", "options", c->list[i].options, "step_s",
                                    c->list[i].p.step_s, "peak_bytes", c->list[i].p.peak_bytes));
  return list;
}

static void print_changes(struct pz_call *call, const struct pz_predicted *predicted) {
  static const char *const heads[] = {"fits with", ">s per step", ">GB", NULL};
  fflush(stdout); /* so that the prediction can be read during the search */
  const struct pz_plan_changes *c = find_changes(call, predicted);
  putchar('\n');
  if (!c->n) {
    printf("It fits with no one or two of: more recomputation, a higher ZeRO stage, smaller\n"
           "microbatches, other --tp or --pp on these devices.\n");
    return;
  }
  struct pz_table *t = pz_table_new(call, heads);
  for (uint32_t i = 0; i < c->n && i < MOST_CHANGES; i++) {
    pz_table_cell(t, "%s", c->list[i].options);
    pz_table_cell(t, "%.4g", c->list[i].p.step_s);
    pz_table_cell(t, "%.1f", c->list[i].p.peak_bytes / 1e9);
  }
  pz_table_print(t, 0, stdout);
}

void pz_predict_print(struct pz_call *call, const struct pz_predicted *predicted) {
  const struct pz_plan *o = &predicted->run->plan;
  const struct pz_prediction *p = &predicted->run->p;
  char name[256], line[PZ_PLAN_LINE_MOST];
  if (!pz_prediction_fits(p)) pz_predict_print_misfit(predicted);
  printf("%s on %" PRId64 " x %s", pz_text_plain(pz_text_copy(name, sizeof name, predicted->model)),
         o->devices, predicted->machine->chip.name);
  if (predicted->s->no_network)
    printf(" without network");
  else if (!predicted->machine->network.own_link)
    printf(" in %s", predicted->machine->network.cluster.name);
  else if (o->devices > 1)
    printf(" linked at the chip's own rate");
  printf(": %.4g s per step\n", p->step_s);
  printf("%s\n", pz_plan_line(o, true, line, sizeof line));
  pz_predict_print_batch(predicted->run);
  pz_predict_print_rates(predicted->run);
  if (!predicted->s->no_network)
    pz_predict_print_expected(&predicted->run->expected, predicted->run->p.step_s);
  if (predicted->run->launch_bound)
    printf("launch-bound: such steps differ by up to 1.9 times between runs of the same code\n");
  pz_predict_print_parts(call, p);
  pz_predict_print_memory(call, predicted->run);
  if (!pz_prediction_fits(p)) print_changes(call, predicted);
  if (predicted->s->tokens) pz_predict_print_cost(call, predicted, &predicted->cost);
  printf("\nMFU counts 6 FLOP a parameter and token, %sand of attention the keys that a token\n"
         "attends to, over the data-sheet peak; the conventional MFU counts attention in full,\n"
         "as papers do; HFU adds recomputation to MFU.\n",
         predicted->run->plan.peft ? "4 where it is frozen,\n" : "");
}
