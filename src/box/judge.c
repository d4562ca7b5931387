#include "box/judge.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "core/num.h"
#include "cost/network.h"

const char *const pz_box_objective_names[] = {"chip", "dollar", "watt", "ownership", "joule", NULL};

struct pz_judge {
  struct pz_judge_question q;
  struct pz_plan_finder *finder[PZ_JUDGE_MOST_MODELS];
  struct pz_steps reference;
  struct pz_taken reference_taken;
};

/* ---- the question --------------------------------------------------------------------------- */

/* "@SEQ" or "@SEQxBATCH" at the end of a text; its length, 0: there is none. */
static size_t read_suffix(const char *text, int64_t *seq, int64_t *batch) {
  enum { MOST = 1 << 24 };
  const char *at = strrchr(text, '@');
  char *end;
  if (!at || at == text || at[1] < '1' || at[1] > '9') return 0;
  *seq = strtol(at + 1, &end, 10);
  if (*end == 'x' && end[1] >= '1' && end[1] <= '9') *batch = strtol(end + 1, &end, 10);
  return *end || *seq > MOST || *batch > MOST ? 0 : strlen(at);
}

enum pz_status pz_judge_add_model(struct pz_judge_question *q, const char *text,
                                  struct pz_arena *arena, struct pz_error *err) {
  int64_t seq = 0, batch = 0;
  if (q->n_models == PZ_JUDGE_MOST_MODELS)
    return pz_fail(err, PZ_BAD_USE, "more than %d models; accepted: at most %d",
                   PZ_JUDGE_MOST_MODELS, PZ_JUDGE_MOST_MODELS);
  size_t suffix = read_suffix(text, &seq, &batch);
  char *name = pz_arena_strdup(arena, text);
  if (!name) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the models");
  if (suffix) name[strlen(name) - suffix] = 0;
  q->models[q->n_models] = name;
  q->model_seq[q->n_models] = suffix ? seq : 0;
  q->model_batch[q->n_models++] = suffix ? batch : 0;
  return PZ_OK;
}

void pz_judge_model_text(const struct pz_judge_question *q, uint32_t model,
                         char out[PZ_JUDGE_MODEL_TEXT]) {
  int n = snprintf(out, PZ_JUDGE_MODEL_TEXT, "%.256s", q->models[model]);
  if (q->model_seq[model])
    n += snprintf(out + n, (size_t)(PZ_JUDGE_MODEL_TEXT - n), "@%lld",
                  (long long)q->model_seq[model]);
  if (q->model_batch[model])
    snprintf(out + n, (size_t)(PZ_JUDGE_MODEL_TEXT - n), "x%lld", (long long)q->model_batch[model]);
}

struct pz_cluster pz_judge_cluster(const struct pz_judge_question *q, const struct pz_chip *c) {
  struct pz_cluster net = pz_cluster_flat(q->devices, c->link_bytes_per_s, c->link_latency_s);
  if (q->devices <= q->scale_up) return net;
  net.n_levels = 2;
  net.level[1] = net.level[0];
  net.level[0].devices = q->scale_up;
  net.level[1].bytes_per_s = q->outer_bytes_per_s;
  net.level[1].latency_s = 5e-6;
  snprintf(net.name, sizeof net.name, "scale-up of %lld", (long long)q->scale_up);
  snprintf(net.level[0].name, sizeof net.level[0].name, "scale-up");
  snprintf(net.level[1].name, sizeof net.level[1].name, "scale-out");
  return net;
}

enum pz_status pz_judge_plan_question(const struct pz_judge_question *q, uint32_t model,
                                      struct pz_plan_question *out, struct pz_error *err) {
  struct pz_plan plan = pz_plan_default();
  struct pz_job job = {.model = q->models[model]};
  plan.framework = pz_framework_find("compiled");
  plan.seq = q->model_seq[model] ? q->model_seq[model] : q->seq;
  plan.devices = q->devices;
  plan.batch = q->model_batch[model] ? q->model_batch[model] : q->batch;
  enum pz_status status = pz_plan_question_of(&job, &plan, 0, out, err);
  out->threads = 1;
  out->all_devices = true;
  out->shared = q->shared;
  out->shared_as = model;
  return status;
}

enum pz_status pz_judge_new(const struct pz_judge_question *q, const struct pz_chip *like,
                            struct pz_judge **out, struct pz_error *err) {
  struct pz_judge *j = pz_calloc(1, sizeof *j);
  if (!j) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the plans");
  struct pz_cluster net = pz_judge_cluster(q, like);
  enum pz_status status = PZ_OK;
  j->q = *q;
  for (uint32_t i = 0; i < q->n_models; i++) j->reference.step_s[i] = 1;
  j->reference_taken = (struct pz_taken){1, 1, 1, 1, 1, 1, 1, 1};
  for (uint32_t i = 0; i < q->n_models && status == PZ_OK; i++) {
    struct pz_plan_question one;
    status = pz_judge_plan_question(q, i, &one, err);
    one.job.chip = like;
    one.job.net = &net;
    if (status == PZ_OK) status = pz_plan_finder_new(&one, &j->finder[i], err);
  }
  if (status == PZ_OK)
    *out = j;
  else
    pz_judge_free(j);
  return status;
}

void pz_judge_free(struct pz_judge *j) {
  if (!j) return;
  for (uint32_t i = 0; i < j->q.n_models; i++) pz_plan_finder_free(j->finder[i]);
  pz_free(j);
}

void pz_judge_set_reference(struct pz_judge *j, const struct pz_steps *steps,
                            const struct pz_taken *taken) {
  j->reference = *steps;
  j->reference_taken = *taken;
}

/* ---- values --------------------------------------------------------------------------------- */

/* What the steps are divided by, beside time. */
static double price(const struct pz_judge *j, const struct pz_taken *t) {
  switch (j->q.objective) {
  case PZ_BOX_PER_DOLLAR: return t->dollars;
  case PZ_BOX_PER_WATT: return t->watts;
  case PZ_BOX_PER_OWNER_DOLLAR: return t->owner_dollars;
  default: return 1;
  }
}

double pz_judge_joules(const struct pz_judge_question *q, const struct pz_steps *s, uint32_t model,
                       const struct pz_taken *t) {
  return (double)q->devices * t->static_watts * s->step_s[model] + s->dynamic_j[model];
}

/* What a model is judged by: its step, or the energy of that. */
static double measure(const struct pz_judge *j, const struct pz_steps *s, uint32_t model,
                      const struct pz_taken *t) {
  return j->q.objective == PZ_BOX_PER_JOULE ? pz_judge_joules(&j->q, s, model, t)
                                            : s->step_s[model];
}

static double value_of(const struct pz_judge *j, const struct pz_steps *s,
                       const struct pz_taken *t) {
  double sum = 0;
  for (uint32_t i = 0; i < j->q.n_models; i++)
    sum += log(measure(j, &j->reference, i, &j->reference_taken) / measure(j, s, i, t));
  return exp(sum / j->q.n_models) * price(j, &j->reference_taken) / price(j, t);
}

/* The step of one model, the others being as they are, with which the value is the cutoff. */
static double step_cutoff(const struct pz_judge *j, const struct pz_steps *s, uint32_t model,
                          const struct pz_taken *t, double cutoff) {
  if (!(cutoff > 0)) return HUGE_VAL;
  double part = pow(value_of(j, s, t) / cutoff, j->q.n_models);
  if (j->q.objective != PZ_BOX_PER_JOULE) return s->step_s[model] * part;
  double joules = part * measure(j, s, model, t) - s->dynamic_j[model];
  return pz_fmax(0, joules / ((double)j->q.devices * t->static_watts));
}

/* Do its buffers hold a tile? */
static bool holds_tiles(const struct pz_chip *c) {
  return c->tensor.local_bytes >= pz_chip_least_local_bytes(c) &&
         c->glb_bytes >= pz_chip_least_glb_bytes(c);
}

/* Lower bounds on dynamic energy at the voltage of a chip that takes least.  With them the energy of any chip of a box
 * is at least static_watts of the smallest, which area and clock raise, times a lower bound on the step of the largest,
 * plus what must be computed, at the voltage of the slowest clock, and moved past the largest global buffer. */
static enum pz_status least_energy(struct pz_judge *j, const struct pz_chip *c,
                                   const struct pz_taken *least, struct pz_steps *s,
                                   struct pz_error *err) {
  enum pz_status status = PZ_OK;
  if (j->q.objective != PZ_BOX_PER_JOULE) return PZ_OK;
  for (uint32_t i = 0; i < j->q.n_models && status == PZ_OK; i++)
    status = pz_plan_finder_least_j(j->finder[i], c, least->voltage2, &s->dynamic_j[i], err);
  return status;
}

/* Lower bounds on all steps: by rates. */
static enum pz_status floors(struct pz_judge *j, const struct pz_chip *c,
                             const struct pz_taken *least, const struct pz_cluster *net,
                             struct pz_steps *s, struct pz_error *err) {
  *s = (struct pz_steps){{0}, {0}};
  enum pz_status status = least_energy(j, c, least, s, err);
  for (uint32_t i = 0; i < j->q.n_models && status == PZ_OK; i++)
    status = pz_plan_finder_floor_s(j->finder[i], c, net, HUGE_VAL, &s->step_s[i], err);
  return status;
}

enum pz_status pz_judge_floor(struct pz_judge *j, const struct pz_chip *chip,
                              const struct pz_taken *least, double *bound, struct pz_error *err) {
  if (!holds_tiles(chip)) return *bound = 0, PZ_OK;
  struct pz_cluster net = pz_judge_cluster(&j->q, chip);
  struct pz_steps s;
  enum pz_status status = floors(j, chip, least, &net, &s, err);
  return *bound = value_of(j, &s, least), status;
}

enum pz_status pz_judge_bound(struct pz_judge *j, const struct pz_chip *chip,
                              const struct pz_taken *least, double cutoff, double *bound,
                              struct pz_error *err) {
  if (!holds_tiles(chip)) return *bound = 0, PZ_OK;
  struct pz_cluster net = pz_judge_cluster(&j->q, chip);
  struct pz_steps s;
  enum pz_status rated = floors(j, chip, least, &net, &s, err);
  if (rated != PZ_OK) return rated;
  double value = value_of(j, &s, least);
  for (uint32_t i = 0; i < j->q.n_models && value > cutoff; i++) {
    enum pz_status status = pz_plan_finder_bound_s(
        j->finder[i], chip, &net, step_cutoff(j, &s, i, least, cutoff), &s.step_s[i], err);
    if (status != PZ_OK) return status;
    value = value_of(j, &s, least);
  }
  return *bound = value, PZ_OK;
}

enum pz_status pz_judge_estimate(struct pz_judge *j, const struct pz_chip *chip,
                                 const struct pz_taken *least, double *value,
                                 struct pz_error *err) {
  if (!holds_tiles(chip)) return *value = 0, PZ_OK;
  struct pz_cluster net = pz_judge_cluster(&j->q, chip);
  struct pz_steps s = {{0}, {0}};
  enum pz_status known = least_energy(j, chip, least, &s, err);
  if (known != PZ_OK) return known;
  for (uint32_t i = 0; i < j->q.n_models; i++) {
    enum pz_status status = pz_plan_finder_again_s(j->finder[i], chip, &net, &s.step_s[i], err);
    if (status != PZ_OK) return status;
  }
  return *value = value_of(j, &s, least), PZ_OK;
}

enum pz_status pz_judge_value(struct pz_judge *j, const struct pz_chip *chip,
                              const struct pz_taken *taken, double cutoff, double *value,
                              struct pz_steps *steps, struct pz_found_plan *plans,
                              struct pz_error *err) {
  if (!holds_tiles(chip)) return *value = 0, PZ_OK;
  struct pz_cluster net = pz_judge_cluster(&j->q, chip);
  struct pz_steps s;
  enum pz_status rated = floors(j, chip, taken, &net, &s, err);
  if (rated != PZ_OK) return rated;
  double most = value_of(j, &s, taken);
  for (uint32_t i = 0; i < j->q.n_models; i++) {
    struct pz_found_plans found;
    if (most <= cutoff) return *value = most, PZ_OK;
    double limit_s = step_cutoff(j, &s, i, taken, cutoff);
    enum pz_status status = pz_plan_finder_find(j->finder[i], chip, &net, limit_s, &found, err);
    if (status != PZ_OK) return status;
    if (!found.n) return *value = pz_fmin(most, cutoff), PZ_OK;
    s.step_s[i] = found.list[0].p.step_s;
    status = pz_plan_finder_plan_j(j->finder[i], chip, taken->voltage2, &found.list[0].plan,
                                   &s.dynamic_j[i], err);
    if (status != PZ_OK) return status;
    if (plans) plans[i] = found.list[0];
    most = value_of(j, &s, taken);
  }
  if (steps) *steps = s;
  return *value = most, PZ_OK;
}
