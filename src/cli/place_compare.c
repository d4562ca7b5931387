/* phaze place --compare: the plan that the user has beside the recommended one. */
#include <math.h>
#include <stdio.h>

#include "cli/place_training.h"
#include "core/text.h"
#include "report/training_json.h"

/* The question that the plan answers; all else is searched, or is as its framework has it. */
static void take_question(const struct pz_plan *from, struct pz_place_settings *s,
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

enum pz_status pz_place_read_compared(struct pz_place_settings *s,
                                      struct pz_place_training_settings *t, bool devices_given,
                                      struct pz_run_plan **out, struct pz_error *err) {
  struct pz_run_plan_options o = pz_run_plan_options_default();
  struct pz_choices devices = {.n = 0};
  const char *name;
  enum pz_status status = PZ_OK;
  if (devices_given) status = pz_choices_parse(s->devices_text, "devices", 1 << 24, &devices, err);
  if (status == PZ_OK && devices.n > 1)
    status = pz_fail(err, PZ_BAD_USE,
                     "--compare with several --devices; accepted: one number of devices");
  if (devices.n == 1) o.devices = devices.v[0];
  o.vocab = t->vocab;
  o.set = t->set;
  o.ignore = t->ignore;
  if (status == PZ_OK) status = pz_machine_run(t->compare, &o, &name, out, err);
  if (status != PZ_OK) return status;
  const struct pz_run_plan *r = *out;
  if (!s->machine.chip && !s->machine.cluster) s->machine.cluster = r->cluster;
  if (!s->machine.chip) s->machine.chip = r->chip;
  if (!s->machine.chip)
    return pz_fail(err, PZ_BAD_USE, "%s names no chip; accepted: --chip CHIP", name);
  if (!devices_given) {
    snprintf(t->own_devices, sizeof t->own_devices, "%lld",
             (long long)pz_plan_asked_devices(&r->plan));
    s->devices_text = t->own_devices;
  }
  take_question(&r->plan, s, t);
  return PZ_OK;
}

enum pz_status pz_place_compare(struct pz_place_job *j, const struct pz_training_run *best) {
  static const double SAME_MODEL = 0.02; /* vocabularies are padded in different ways */
  const char *file = j->q->t->compare;
  struct pz_run_plan theirs = *j->q->compared;
  struct pz_run_plan ours = theirs; /* of the model as their file has it */
  struct pz_error why = {0};
  const struct pz_cluster *net = pz_machine_net(&j->machine);
  theirs.plan.batch = best->plan.batch; /* their devices were read as place has them */
  theirs.plan.seq = best->plan.seq;
  ours.plan = best->plan;
  struct pz_diff_side a = {sizeof a, &theirs, &j->machine.chip, net};
  struct pz_diff_side b = {sizeof b, &ours, &j->machine.chip, net};
  enum pz_status status = pz_plan_diff(&a, &b, &j->diff, &why);
  if (status != PZ_OK) return pz_fail(j->err, status, "%s: %s", file, why.message);
  if (j->diff->a.refusal[0]) pz_command_warn(j->q->s->quiet, j->diff->a.refusal);
  if (fabs(j->diff->b.p.params / best->p.params - 1) < SAME_MODEL) return PZ_OK;
  return pz_fail(j->err, PZ_BAD_USE,
                 "%s trains a model of %.4g billion parameters, but %s has %.4g billion; accepted: "
                 "a plan of the same model",
                 file, j->diff->b.p.params / 1e9, j->q->model, best->p.params / 1e9);
}

enum pz_status pz_place_print_compared(struct pz_place_job *j) {
  const struct pz_plan_diff *d = j->diff;
  struct pz_run_cost own;
  char text[800], ours[32], theirs[32];
  if (!d) return PZ_OK;
  printf("\nyour plan (%s): %.4g s per step, MFU %.1f%%, %.1f GB%s\n",
         pz_text_plain(pz_text_copy(text, sizeof text, j->q->t->compare)), d->a.p.step_s,
         100 * d->a.p.mfu, d->a.p.peak_bytes / 1e9,
         pz_prediction_fits(&d->a.p) ? "" : " (does not fit)");
  if (!d->n_path) return printf("the recommended plan is the same\n"), PZ_OK;
  printf("the recommended plan %s\n", d->verdict);
  for (uint32_t i = 0; i < d->n_path; i++)
    printf("%s%s", i ? ", " : "changes: ",
           pz_text_plain(pz_text_copy(text, sizeof text, d->path[i].change)));
  putchar('\n');
  if (!j->q->t->tokens) return PZ_OK;
  enum pz_status status = pz_place_cost(j, &j->diff->a, &own);
  if (status != PZ_OK) return status;
  printf("over %s tokens: %s instead of %s days", j->q->t->tokens,
         pz_text_number(ours, sizeof ours, j->cost.seconds / 86400),
         pz_text_number(theirs, sizeof theirs, own.seconds / 86400));
  if (j->q->t->price > 0)
    printf(", %s instead of %s dollars", pz_text_number(ours, sizeof ours, j->cost.dollars),
           pz_text_number(theirs, sizeof theirs, own.dollars));
  putchar('\n');
  return PZ_OK;
}

json_t *pz_place_compared_json(const struct pz_place_job *j) {
  const struct pz_plan_diff *d = j->diff;
  if (!d) return NULL;
  return json_pack("{s:s,s:s,s:s,s:f,s:o}", "file", j->q->t->compare, "changes", d->changes,
                   "verdict", d->verdict, "gain", 1 - d->b.p.step_s / d->a.p.step_s, "prediction",
                   pz_training_run_json(&d->a));
}
