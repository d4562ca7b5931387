/* phaze place with a MODEL under the original and corrected semantics.  pz_place_partition() opens the machine,
 * find_partitions() searches with pz_partition_model(), and the best plan is written as a trace and printed. */
#include "cli/place_model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/owned.h"
#include "core/file.h"
#include "core/options.h"
#include "core/progress.h"
#include "core/text.h"
#include "report/plan_table.h"
#include "report/table.h"

enum { MOST_SHOWN = 5 };

struct partition_job {
  const struct pz_place_settings *s;
  const char *model;
  const struct pz_machine *machine;
  const struct pz_partitions *found;
  double seconds; /* for machine, search and all */
};

static double hbm_bytes(const struct partition_job *job) {
  return job->s->hbm_gb > 0 ? job->s->hbm_gb * 0x1p30
                            : (double)pz_chip_hbm_bytes(&job->machine->chip);
}

/* ---- the search ----------------------------------------------------------------------------- */

static bool is_given(const char *list) { return list && strcmp(list, "auto") != 0; }

/* Prints a note of the library, unless it is about lists none of which the user wrote. */
static void print_note(void *ctx, unsigned lists, const char *text) {
  const struct partition_job *job = ctx;
  unsigned given = 0;
  if (is_given(job->s->tp)) given |= PZ_LIST_TP;
  if (is_given(job->s->mbs)) given |= PZ_LIST_MBS;
  if (!lists || lists & given) pz_command_warn(job->s->quiet, text);
}

static void find_partitions(struct pz_call *call, struct partition_job *job, bool first_stage,
                            bool check) {
  const struct pz_place_settings *s = job->s;
  struct pz_partition_options o = pz_partition_options_default();
  struct pz_partitions *found = NULL;
  o.devices = s->devices;
  o.batch = s->batch;
  o.recompute = s->recompute;
  o.state = s->optimizer ? 2 : 3;
  o.hbm_bytes = hbm_bytes(job);
  o.n_next = MOST_SHOWN;
  o.check = check;
  o.first_stage_gradients = first_stage;
  o.workload = pz_workload_import(&s->import);
  o.workload.seq = s->seq;
  o.note = print_note;
  o.note_ctx = job;
  if (is_given(s->mbs)) o.mbs = pz_choices_read(call, s->mbs, "mbs", 1 << 20);
  if (is_given(s->tp)) o.tp = pz_choices_read(call, s->tp, "tp", 1 << 20);
  pz_must(call, pz_partition_model(job->model, &job->machine->chip, pz_machine_net(job->machine),
                                   &o, &found, pz_call_error(call)));
  pz_defer(call, pz_free_partitions, found);
  job->found = found;
}

/* ---- the answer ----------------------------------------------------------------------------- */

static json_t *partitions_json(const struct partition_job *job) {
  json_t *others = json_array();
  for (uint32_t i = 1; i < job->found->n_plans; i++)
    json_array_append_new(others, pz_partition_json(&job->found->plans[i], false));
  return json_pack("{s:s,s:s,s:I,s:I,s:f,s:o,s:o,s:f}", "model", job->model, "chip",
                   job->machine->chip.name, "devices", (json_int_t)job->s->devices, "batch",
                   (json_int_t)job->s->batch, "hbm_bytes", hbm_bytes(job), "plan",
                   pz_partition_json(&job->found->plans[0], true), "others", others, "seconds",
                   job->seconds);
}

static void print_partitions(struct pz_call *call, const struct partition_job *job) {
  static const char *const heads[] = {">slower",     ">stages",     ">replicas", ">tensor parallel",
                                      ">microbatch", "activations", NULL};
  const struct pz_partition *plan = job->found->plans; /* the best; the others follow it */
  const struct pz_step_parts *p = &plan->parts;
  double step_s = plan->step_s;
  char tokens[32], rate[32], text[128], name[1024];
  printf("%s on %" PRId64 " x %s: %.4g s per step, global batch %" PRId64 "\n",
         pz_text_plain(pz_text_copy(name, sizeof name, job->model)), job->s->devices,
         job->machine->chip.name, step_s, job->s->batch);
  printf("%s\n", pz_partition_text(plan, text, sizeof text));
  printf("%s samples/s, %s, %.1f%% of the peak FLOP/s of the %" PRId64 " device%s used\n",
         pz_text_number(rate, sizeof rate, plan->samples_per_s),
         pz_text_si(tokens, sizeof tokens, plan->tokens_per_s, "token/s"),
         100 * plan->flop_utilisation, plan->devices_used, pz_text_s((double)plan->devices_used));
  printf("compute %.1f%%, tensor-parallel collectives %.1f%%, stage transfers %.1f%%, pipeline "
         "bubble %.1f%%, gradient all-reduce %.1f%%\n\n",
         100 * p->compute_s / step_s, 100 * p->collectives_s / step_s,
         100 * p->transfers_s / step_s, 100 * p->bubble_s / step_s, 100 * p->exchange_s / step_s);
  pz_partition_table(call, plan, stdout);
  if (plan->n_open_schedules)
    printf("\nLayer schedules not proven optimal: %u, gap at most %.2g%%\n", plan->n_open_schedules,
           100 * plan->worst_schedule_gap);
  if (job->found->n_plans < 2) return;
  struct pz_table *others = pz_table_new(call, heads);
  for (uint32_t i = 1; i < job->found->n_plans; i++) {
    const struct pz_partition *other = &plan[i];
    pz_table_cell(others, "%.2f%%", 100 * (other->step_s / step_s - 1));
    pz_table_cell(others, "%u", other->pp);
    pz_table_cell(others, "%" PRId64, other->dp);
    pz_table_cell(others, "%" PRId64, other->tp);
    pz_table_cell(others, "%" PRId64, other->mbs);
    pz_table_cell(others, "%s", other->recompute ? "recomputed" : "kept");
  }
  printf("\nNext best:\n");
  pz_table_print(others, 0, stdout);
}

void pz_place_partition(struct pz_call *call, const struct pz_place_settings *s, const char *model,
                        bool first_stage, bool check, bool json) {
  double start_s = pz_clock_s();
  if (s->emit)
    pz_raise(call, PZ_BAD_USE,
             "--emit for plans of cold chips; accepted: --semantics training, with measured or "
             "published chips");
  struct pz_machine_use use = {"devices", s->devices, s->quiet, .training = false};
  struct partition_job job = {
      .s = s, .model = model, .machine = pz_machine_open(call, &s->machine, use)};
  if (s->trace) pz_file_require_output(call, s->trace, NULL, 0);
  find_partitions(call, &job, first_stage, check);
  job.seconds = pz_clock_s() - start_s;
  if (s->trace) {
    char *trace = NULL;
    pz_must(call, pz_partition_trace(&job.found->plans[0], model, &trace, pz_call_error(call)));
    pz_command_save_text(call, s->trace, trace);
  }
  if (json)
    pz_command_print_json(call, partitions_json(&job));
  else
    print_partitions(call, &job);
}
