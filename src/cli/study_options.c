#include "cli/study_options.h"

#include <stdlib.h>

#include "core/options.h"

const char *const pz_optimizer_names[] = {"adam", "sgd", NULL};

/* One positive number for each model. */
static enum pz_status read_weights(const char *text, uint32_t n, double *out,
                                   struct pz_error *err) {
  const char *at = text;
  for (uint32_t i = 0; i < n; i++) {
    char *end;
    out[i] = strtod(at, &end);
    if (end == at || !(out[i] > 0 && out[i] < 1e9) || *end != (i + 1 < n ? ',' : '\0'))
      return pz_fail(err, PZ_BAD_USE,
                     "--weights '%s'; accepted: one number above 0 for each of the %u models, "
                     "comma-separated",
                     text, n);
    at = end + 1;
  }
  return PZ_OK;
}

static enum pz_status read_lists(const struct pz_study_settings *s, struct pz_study_options *o,
                                 struct pz_error *err) {
  enum pz_status status = PZ_OK;
  if (s->mbs) status = pz_choices_parse(s->mbs, "mbs", 1 << 20, &o->mbs, err);
  if (s->hbm && status == PZ_OK)
    status = pz_choices_parse(s->hbm, "hbm", 1 << 20, &o->hbm_gib, err);
  if (s->tp && status == PZ_OK) status = pz_choices_parse(s->tp, "tp", 1 << 20, &o->tp, err);
  while (!s->tp && o->tp.v[o->tp.n - 1] > s->devices) o->tp.n--; /* 1 stays */
  if (s->weights && status == PZ_OK) status = read_weights(s->weights, o->n_models, o->weight, err);
  if (status == PZ_OK && (s->weights != NULL) != (s->objective == PZ_OBJECTIVE_WEIGHTED))
    status = pz_fail(err, PZ_BAD_USE, "--weights and --objective weighted require each other");
  return status;
}

enum pz_status pz_study_read(const struct pz_study_settings *s, char **models, int n_models,
                             struct pz_study_options *out, struct pz_error *err) {
  struct pz_study_options o = pz_study_options_default();
  if (n_models > PZ_SEARCH_MOST_MODELS)
    return pz_fail(err, PZ_BAD_USE, "%d models; accepted: at most %d", n_models,
                   PZ_SEARCH_MOST_MODELS);
  for (int i = 0; i < n_models; i++) o.models[o.n_models++] = models[i];
  o.space = s->space;
  o.budget = s->budget;
  o.cluster = s->cluster;
  o.devices = s->devices;
  o.batch = s->batch;
  o.workload = pz_workload_import(&s->import);
  o.workload.seq = s->seq;
  o.steps = s->steps;
  o.objective = (enum pz_objective_kind)s->objective;
  o.state = s->optimizer ? 2 : 3;
  o.exhaustive = s->exhaustive;
  o.pareto = s->pareto;
  o.boxes = s->boxes;
  o.pareto_tolerance = s->pareto_tolerance / 100;
  enum pz_status status = read_lists(s, &o, err);
  if (status == PZ_OK) *out = o;
  return status;
}
