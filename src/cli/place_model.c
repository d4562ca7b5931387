#include "cli/place_model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "core/file.h"
#include "core/options.h"
#include "core/progress.h"
#include "core/text.h"
#include "report/plan_table.h"
#include "report/table.h"

enum { MOST_SHOWN = 5 };

struct job {
  const struct pz_place_settings *s;
  const char *model;
  struct pz_machine machine;
  struct pz_partitions *found;
  struct pz_arena arena; /* of tables */
  double seconds;
  struct pz_error *err;
};

static double hbm_bytes(const struct job *j) {
  return j->s->hbm_gb > 0 ? j->s->hbm_gb * 0x1p30 : (double)pz_chip_hbm_bytes(&j->machine.chip);
}

/* ---- what was asked for --------------------------------------------------------------------- */

static bool given(const char *list) { return list && strcmp(list, "auto") != 0; }

/* What the user wrote; nothing where that is left open. */
static enum pz_status read_list(const char *text, const char *name, struct pz_choices *out,
                                struct pz_error *err) {
  return given(text) ? pz_choices_parse(text, name, 1 << 20, out, err) : PZ_OK;
}

static void tell_note(void *ctx, unsigned lists, const char *text) {
  const struct job *j = ctx;
  unsigned wrote = (given(j->s->tp) ? PZ_LIST_TP : 0u) | (given(j->s->mbs) ? PZ_LIST_MBS : 0u);
  if (!lists || lists & wrote) pz_command_warn(j->s->quiet, text);
}

static enum pz_status solve(struct job *j, bool first_stage, bool check) {
  struct pz_partition_options o = pz_partition_options_default();
  o.devices = j->s->devices;
  o.batch = j->s->batch;
  o.recompute = j->s->recompute;
  o.state = j->s->optimizer ? 2 : 3;
  o.hbm_bytes = hbm_bytes(j);
  o.n_next = MOST_SHOWN;
  o.check = check;
  o.first_stage_gradients = first_stage;
  o.workload = pz_workload_import(&j->s->import);
  o.workload.seq = j->s->seq;
  o.note = tell_note;
  o.note_ctx = j;
  enum pz_status status = read_list(j->s->mbs, "mbs", &o.mbs, j->err);
  if (status == PZ_OK) status = read_list(j->s->tp, "tp", &o.tp, j->err);
  if (status == PZ_OK)
    status = pz_partition_model(j->model, &j->machine.chip, pz_machine_net(&j->machine), &o,
                                &j->found, j->err);
  return status;
}

/* ---- telling -------------------------------------------------------------------------------- */

static json_t *job_json(const struct job *j) {
  json_t *others = json_array();
  for (uint32_t i = 1; i < j->found->n_plans; i++)
    json_array_append_new(others, pz_partition_json(&j->found->plans[i], false));
  return json_pack("{s:s,s:s,s:I,s:I,s:f,s:o,s:o,s:f}", "model", j->model, "chip",
                   j->machine.chip.name, "devices", (json_int_t)j->s->devices, "batch",
                   (json_int_t)j->s->batch, "hbm_bytes", hbm_bytes(j), "plan",
                   pz_partition_json(&j->found->plans[0], true), "others", others, "seconds",
                   j->seconds);
}

static enum pz_status print_others(struct job *j) {
  static const char *const heads[] = {">slower",     ">stages",     ">replicas", ">tensor parallel",
                                      ">microbatch", "activations", NULL};
  const struct pz_partition *list = j->found->plans;
  struct pz_table t;
  if (j->found->n_plans < 2) return PZ_OK;
  pz_table_init(&t, &j->arena, heads);
  for (uint32_t i = 1; i < j->found->n_plans; i++) {
    pz_table_cell(&t, "%.2f%%", 100 * (list[i].step_s / list[0].step_s - 1));
    pz_table_cell(&t, "%u", list[i].pp);
    pz_table_cell(&t, "%" PRId64, list[i].dp);
    pz_table_cell(&t, "%" PRId64, list[i].tp);
    pz_table_cell(&t, "%" PRId64, list[i].mbs);
    pz_table_cell(&t, "%s", list[i].recompute ? "recomputed" : "kept");
  }
  printf("\nNext best:\n");
  return pz_table_print(&t, 0, stdout);
}

static enum pz_status print_job(struct job *j) {
  const struct pz_partition *plan = j->found->plans;
  const struct pz_step_parts *p = &plan->parts;
  double t = plan->step_s;
  char tokens[32], rate[32], text[128], name[1024];
  printf("%s on %" PRId64 " x %s: %.4g s per step, global batch %" PRId64 "\n",
         pz_text_plain(pz_text_copy(name, sizeof name, j->model)), j->s->devices,
         j->machine.chip.name, t, j->s->batch);
  printf("%s\n", pz_partition_text(plan, text, sizeof text));
  printf("%s samples/s, %s, %.1f%% of the peak FLOP/s of the %" PRId64 " device%s used\n",
         pz_text_number(rate, sizeof rate, plan->samples_per_s),
         pz_text_si(tokens, sizeof tokens, plan->tokens_per_s, "token/s"),
         100 * plan->flop_utilisation, plan->devices_used, pz_text_s((double)plan->devices_used));
  printf("compute %.1f%%, tensor-parallel collectives %.1f%%, stage transfers %.1f%%, pipeline "
         "bubble %.1f%%, gradient all-reduce %.1f%%\n\n",
         100 * p->compute_s / t, 100 * p->collectives_s / t, 100 * p->transfers_s / t,
         100 * p->bubble_s / t, 100 * p->exchange_s / t);
  enum pz_status status = pz_plan_table(plan, &j->arena, stdout);
  if (status == PZ_OK && plan->n_open_schedules)
    printf("\nLayer schedules not proven optimal: %u, gap at most %.2g%%\n", plan->n_open_schedules,
           100 * plan->worst_schedule_gap);
  return status == PZ_OK ? print_others(j) : status;
}

static enum pz_status write_trace(const struct job *j) {
  char *text = NULL;
  if (!j->s->trace) return PZ_OK;
  enum pz_status status = pz_partition_trace(&j->found->plans[0], j->model, &text, j->err);
  if (status == PZ_OK) status = pz_file_write(j->s->trace, text, strlen(text), j->err);
  pz_free(text);
  return status;
}

static enum pz_status tell(struct job *j, bool json) {
  enum pz_status status = write_trace(j);
  if (status != PZ_OK) return status;
  return json ? pz_command_json(job_json(j), j->err) : print_job(j);
}

enum pz_status pz_place_a_model(const struct pz_place_settings *s, const char *model,
                                bool first_stage, bool check, bool json, struct pz_error *err) {
  struct job j = {.s = s, .model = model, .err = err};
  double start = pz_clock_s();
  if (s->emit)
    return pz_fail(err, PZ_BAD_USE,
                   "--emit for plans of cold chips; accepted: --semantics training, with measured "
                   "or published "
                   "chips");
  struct pz_machine_use use = {"devices", s->devices, s->quiet, false};
  enum pz_status status = pz_machine_load(&s->machine, use, &j.machine, err);
  if (status == PZ_OK && s->trace) status = pz_file_output(s->trace, NULL, 0, err);
  if (status == PZ_OK) status = solve(&j, first_stage, check);
  j.seconds = pz_clock_s() - start;
  pz_arena_init(&j.arena, NULL);
  if (status == PZ_OK) status = tell(&j, json);
  if (status == PZ_NO_MEMORY && err->status == PZ_OK)
    status = pz_fail(err, status, "out of memory for the placement");
  pz_arena_release(&j.arena);
  pz_partitions_free(j.found);
  return status;
}
