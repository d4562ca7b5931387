/* phaze place --compare: reads the user's own plan, computes the difference between it and the recommended plan with
 * pz_plan_diff(), and prints both times, the changes between them and the cost of a run. */
#include <math.h>
#include <stdio.h>

#include "cli/place_training.h"
#include "core/text.h"
#include "report/training_json.h"

/* Completes the options by the plan: the question that it answers.  Everything else is searched, or has the default of
 * the framework. */
static void complete_settings(const struct pz_plan *from, struct pz_place_settings *s,
                              struct pz_place_training_settings *t) {
  struct pz_plan *p = &t->plan;
  if (!s->batch && !t->batch_per_device) s->batch = from->batch;
  if (!s->seq) s->seq = from->seq;
  if (p->framework < 0) p->framework = from->framework;
  if (p->precision < 0) p->precision = from->precision;
  if (p->fp8_recipe < 0) p->fp8_recipe = from->fp8_recipe;
  if (!(p->imbalance > 0)) p->imbalance = from->imbalance;
  p->mtp = p->mtp || from->mtp;
  if (!p->peft) p->peft = from->peft;
}

struct pz_run_plan *pz_place_read_compared(struct pz_call *call, struct pz_place_settings *s,
                                           struct pz_place_training_settings *t,
                                           bool devices_given) {
  struct pz_run_plan_options o = pz_run_plan_options_default();
  struct pz_choices devices = {.n = 0};
  const char *name;
  if (devices_given)
    pz_must(call,
            pz_choices_parse(s->devices_text, "devices", 1 << 24, &devices, pz_call_error(call)));
  if (devices.n > 1)
    pz_raise(call, PZ_BAD_USE, "--compare with several --devices; accepted: one number of devices");
  if (devices.n == 1) o.devices = devices.v[0];
  o.vocab = t->vocab;
  o.set = t->set;
  o.ignore = t->ignore;
  struct pz_run_plan *r = pz_machine_read_run(call, t->compare, &o, &name);
  if (!s->machine.chip && !s->machine.cluster) s->machine.cluster = r->cluster;
  if (!s->machine.chip) s->machine.chip = r->chip;
  if (!s->machine.chip) pz_raise(call, PZ_BAD_USE, "%s names no chip; accepted: --chip CHIP", name);
  if (!devices_given) {
    snprintf(t->own_devices, sizeof t->own_devices, "%lld",
             (long long)pz_plan_asked_devices(&r->plan));
    s->devices_text = t->own_devices;
  }
  complete_settings(&r->plan, s, t);
  return r;
}

static void free_diff(void *diff) { pz_plan_diff_free(diff); }

void pz_place_compare(struct pz_call *call, struct pz_place_job *j,
                      const struct pz_training_run *best) {
  static const double SAME_MODEL =
      0.02; /* difference in parameters: vocabularies are padded differently */
  const char *file = j->t->compare;
  const struct pz_cluster *net = pz_machine_net(j->machine);
  struct pz_run_plan theirs = *j->compared, ours = *j->compared;
  struct pz_plan_diff *diff = NULL;
  struct pz_error why = {0};
  /* Both sides train the model of the file, with the batch and sequence length of the question; the number of devices was
   * read with that of the question. */
  theirs.plan.batch = best->plan.batch;
  theirs.plan.seq = best->plan.seq;
  ours.plan = best->plan;
  struct pz_diff_side a = {sizeof a, &theirs, &j->machine->chip, net};
  struct pz_diff_side b = {sizeof b, &ours, &j->machine->chip, net};
  enum pz_status status = pz_plan_diff(&a, &b, &diff, &why);
  if (status != PZ_OK) pz_raise(call, status, "%s: %s", file, why.message);
  pz_defer(call, free_diff, diff);
  if (diff->a.refusal[0]) pz_command_warn(j->s->quiet, diff->a.refusal);
  bool same_model = fabs(diff->b.p.params / best->p.params - 1) < SAME_MODEL;
  if (!same_model)
    pz_raise(call, PZ_BAD_USE,
             "%s trains a model of %.4g billion parameters, but %s has %.4g billion; accepted: "
             "a plan of the same model",
             file, diff->b.p.params / 1e9, j->model, best->p.params / 1e9);
  j->diff = diff;
}

void pz_place_print_compared(struct pz_call *call, const struct pz_place_job *j) {
  const struct pz_plan_diff *d = j->diff;
  const struct pz_place_training_settings *t = j->t;
  char text[800], ours[32], theirs[32];
  printf("\nyour plan (%s): %.4g s per step, MFU %.1f%%, %.1f GB%s\n",
         pz_text_plain(pz_text_copy(text, sizeof text, t->compare)), d->a.p.step_s,
         100 * d->a.p.mfu, d->a.p.peak_bytes / 1e9,
         pz_prediction_fits(&d->a.p) ? "" : " (does not fit)");
  if (!d->n_path) {
    printf("the recommended plan is the same\n");
    return;
  }
  printf("the recommended plan %s\n", d->verdict);
  for (uint32_t i = 0; i < d->n_path; i++)
    printf("%s%s", i ? ", " : "changes: ",
           pz_text_plain(pz_text_copy(text, sizeof text, d->path[i].change)));
  putchar('\n');
  if (!t->tokens) return;
  const struct pz_run_cost own = pz_place_cost(call, j, &d->a);
  printf("over %s tokens: %s instead of %s days", t->tokens,
         pz_text_number(ours, sizeof ours, j->cost.seconds / 86400),
         pz_text_number(theirs, sizeof theirs, own.seconds / 86400));
  if (t->price > 0)
    printf(", %s instead of %s dollars", pz_text_number(ours, sizeof ours, j->cost.dollars),
           pz_text_number(theirs, sizeof theirs, own.dollars));
  putchar('\n');
}

json_t *pz_place_compared_json(const struct pz_place_job *j) {
  const struct pz_plan_diff *d = j->diff;
  return json_pack("{s:s,s:s,s:s,s:f,s:o}", "file", j->t->compare, "changes", d->changes, "verdict",
                   d->verdict, "gain", 1 - d->b.p.step_s / d->a.p.step_s, "prediction",
                   pz_training_run_json(&d->a));
}
