/* phaze place with a MODEL under the original and corrected semantics.  pz_place_partition()
 * opens the machine, find_partitions() searches with pz_partition_model(), and the best plan is
 * written as a trace and printed. */
#include "cli/place_model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "core/options.h"
#include "core/progress.h"
#include "core/text.h"
#include "report/plan_table.h"
#include "report/records.h"
#include "report/table.h"

enum { MOST_SHOWN = 5 };

struct partition_job {
  const struct pz_place_settings *settings;
  const char *model;
  const struct pz_machine *machine;
  const struct pz_partitions *found;
  double hbm_bytes; /* memory of a device */
  double seconds;   /* wall time of opening the machine and of the search */
};

/* ---- the search ----------------------------------------------------------------------------- */

/* Prints a note of the search.  A note about lists of degrees or sizes (`lists`, bits of PZ_LIST_*)
 * is printed only if the user gave one of these lists. */
static void print_note(void *ctx, unsigned lists, const char *text) {
  const struct pz_place_settings *settings = ctx;
  unsigned given = 0;
  if (settings->tp) given |= PZ_LIST_TP;
  if (settings->mbs) given |= PZ_LIST_MBS;
  if (!lists || lists & given) pz_command_warn(settings->quiet, text);
}

/* Searches for the best partition of the model and the next best ones. */
static const struct pz_partitions *find_partitions(struct pz_call *call,
                                                   const struct partition_job *job,
                                                   struct pz_place_settings *settings,
                                                   bool first_stage, bool check) {
  struct pz_partition_options options = pz_partition_options_default();
  struct pz_partitions *found = NULL;
  options.devices = settings->devices;
  options.batch = settings->batch;
  options.recompute = settings->recompute;
  options.state = settings->optimizer ? 2 : 3;
  options.hbm_bytes = job->hbm_bytes;
  options.n_next = MOST_SHOWN;
  options.check = check;
  options.first_stage_gradients = first_stage;
  options.workload = pz_workload_import(&settings->import);
  options.workload.seq = settings->seq;
  options.note = print_note;
  options.note_ctx = settings;
  if (settings->mbs) options.mbs = pz_choices_read(call, settings->mbs, "mbs", 1 << 20);
  if (settings->tp) options.tp = pz_choices_read(call, settings->tp, "tp", 1 << 20);
  pz_must(call, pz_partition_model(job->model, &job->machine->chip, job->machine->net, &options,
                                   &found, pz_call_error(call)));
  pz_defer(call, pz_object_free, found);
  return found;
}

/* ---- the answer ----------------------------------------------------------------------------- */

/* Prints the best plan with its rates, the parts of its step and its stages, then the next best. */
static void print_partitions(struct pz_call *call, const struct partition_job *job) {
  const struct pz_partition *plan = job->found->plans; /* the best plan, which the others follow */
  const struct pz_step_parts *parts = &plan->parts;
  double step_s = plan->step_s;
  char tokens[32], rate[32], name[1024];
  printf("%s on %" PRId64 " x %s: %.4g s per step, global batch %" PRId64 "\n",
         pz_text_plain(pz_text_copy(name, sizeof name, job->model)), job->settings->devices,
         job->machine->chip.name, step_s, job->settings->batch);
  printf("%u stage%s, %" PRId64 " replica%s, tensor parallel %" PRId64 ", microbatch %" PRId64
         ", activations %s\n",
         plan->pp, pz_text_s(plan->pp), plan->dp, pz_text_s((double)plan->dp), plan->tp, plan->mbs,
         plan->recompute ? "recomputed" : "kept");
  printf("%s samples/s, %s, %.1f%% of the peak FLOP/s of the %" PRId64 " device%s used\n",
         pz_text_number(rate, sizeof rate, plan->samples_per_s),
         pz_text_si(tokens, sizeof tokens, plan->tokens_per_s, "token/s"),
         100 * plan->flop_utilisation, plan->devices_used, pz_text_s((double)plan->devices_used));
  printf("compute %.1f%%, tensor-parallel collectives %.1f%%, stage transfers %.1f%%, pipeline "
         "bubble %.1f%%, gradient all-reduce %.1f%%\n\n",
         100 * parts->compute_s / step_s, 100 * parts->collectives_s / step_s,
         100 * parts->transfers_s / step_s, 100 * parts->bubble_s / step_s,
         100 * parts->exchange_s / step_s);
  pz_partition_table(call, plan, stdout);
  if (plan->n_open_schedules)
    printf("\nLayer schedules not proven optimal: %u, gap at most %.2g%%\n", plan->n_open_schedules,
           100 * plan->worst_schedule_gap);
  if (job->found->n_plans < 2) return;
  struct pz_table *others =
      pz_table_new(call, ">slower|>stages|>replicas|>tensor parallel|>microbatch|activations");
  for (uint32_t i = 1; i < job->found->n_plans; i++) {
    const struct pz_partition *other = &plan[i];
    pz_table_cells(others, "%.2f%%|%u|%" PRId64 "|%" PRId64 "|%" PRId64 "|%s",
                   100 * (other->step_s / step_s - 1), other->pp, other->dp, other->tp, other->mbs,
                   other->recompute ? "recomputed" : "kept");
  }
  printf("\nNext best:\n");
  pz_table_print(others, 0, stdout);
}

/* Searches for the best partition of a model on a cluster, and prints it with its trace. */
void pz_place_partition(struct pz_call *call, struct pz_place_settings *settings, const char *model,
                        bool first_stage, bool check, bool json) {
  double start_s = pz_clock_s();
  if (settings->emit)
    pz_raise(call, PZ_BAD_USE,
             "--emit for plans of cold chips; accepted: --semantics training, with measured or "
             "published chips");
  struct pz_machine_use use = {"devices", settings->devices, settings->quiet, .training = false};
  struct partition_job job = {.settings = settings,
                              .model = model,
                              .machine = pz_machine_open(call, &settings->machine, use)};
  job.hbm_bytes = settings->hbm_gb > 0 ? settings->hbm_gb * 0x1p30
                                       : (double)pz_chip_hbm_bytes(&job.machine->chip);
  if (settings->trace) pz_file_require_output(call, settings->trace, NULL, 0);
  job.found = find_partitions(call, &job, settings, first_stage, check);
  job.seconds = pz_clock_s() - start_s;
  if (settings->trace) {
    char *trace = NULL;
    pz_must(call, pz_partition_trace(&job.found->plans[0], model, &trace, pz_call_error(call)));
    pz_command_save_text(call, settings->trace, trace);
  }
  const struct pz_partition_answer answer = {.model = model,
                                             .chip = job.machine->chip.name,
                                             .devices = settings->devices,
                                             .batch = settings->batch,
                                             .hbm_bytes = job.hbm_bytes,
                                             .seconds = job.seconds,
                                             .plan = job.found->plans,
                                             .others = job.found->plans + 1,
                                             .n_others = job.found->n_plans - 1};
  if (json)
    pz_command_print_json(call, pz_record_json(&pz_partition_answer_record, &answer));
  else
    print_partitions(call, &job);
}
