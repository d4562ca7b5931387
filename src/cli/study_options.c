#include "cli/study_options.h"

#include <stdlib.h>
#include <string.h>

#include "core/options.h"

const char *const pz_optimizer_names[] = {"adam", "sgd", NULL};
const char *const pz_semantics_names[] = {"corrected", "training", NULL};
const char *const pz_rules_names[] = {"corrected", "original", NULL};
const char *const pz_study_execution_names[] = {"scheduled", "serial", NULL};
const char *const pz_per_names[] = {"chip", "dollar", "watt", "ownership", "joule", NULL};

static enum pz_evaluator_kind evaluator_of(const struct pz_study_settings *s) {
  if (s->evaluator) return (enum pz_evaluator_kind)s->evaluator;
  if (s->semantics >= 0) return s->semantics ? PZ_EVALUATOR_TRAINING : PZ_EVALUATOR_ORIGINAL;
  return strcmp(s->space, "paper") == 0 ? PZ_EVALUATOR_ORIGINAL : PZ_EVALUATOR_TRAINING;
}

const char *pz_study_misuse(const struct pz_command *c, const void *settings,
                            const struct pz_study_settings *s, char *text, size_t size) {
  static const struct pz_study_settings usual = PZ_STUDY_SETTINGS_DEFAULT;
  bool training = evaluator_of(s) == PZ_EVALUATOR_TRAINING;
  size_t at = (size_t)((const char *)s - (const char *)settings), n = 0;
  for (size_t i = 0; i < c->table.n; i++) {
    const struct pz_option *o = &c->table.options[i];
    size_t from = at + (training ? offsetof(struct pz_study_settings, original)
                                 : offsetof(struct pz_study_settings, training));
    size_t to = from + (training ? sizeof s->original : sizeof s->training);
    if (o->offset < from || o->offset >= to) continue;
    n = o->type == PZ_OPTION_CHOICE ? sizeof(int) : 8; /* a pointer, an int64_t or a double */
    if (memcmp((const char *)settings + o->offset, (const char *)&usual + o->offset - at, n) == 0)
      continue;
    char name[40];
    snprintf(text, size, "--%s requires --evaluator %s", pz_option_name(o, name, sizeof name),
             training ? "original" : "training");
    return text;
  }
  if (s->evaluator && s->semantics >= 0) return "--evaluator and --semantics cannot be combined";
  return s->objective && s->per >= 0 ? "--objective and --per cannot be combined" : NULL;
}

/* "1%" or "0.01" */
static enum pz_status read_gap(const char *text, double *out, struct pz_error *err) {
  char *end;
  double v = strtod(text, &end);
  if (end != text && strcmp(end, "%") == 0) v /= 100, end++;
  if (end == text || *end || !(v >= 0 && v <= 1))
    return pz_fail(err, PZ_BAD_USE, "--gap %.40s; accepted: 0%% to 100%%", text);
  return *out = v, PZ_OK;
}

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
  const char *mbs = s->original.mbs, *hbm = s->original.hbm, *tp = s->original.tp;
  if (mbs) status = pz_choices_parse(mbs, "mbs", 1 << 20, &o->mbs, err);
  if (hbm && status == PZ_OK) status = pz_choices_parse(hbm, "hbm", 1 << 20, &o->hbm_gib, err);
  if (tp && status == PZ_OK) status = pz_choices_parse(tp, "tp", 1 << 20, &o->tp, err);
  while (!tp && o->tp.v[o->tp.n - 1] > o->devices) o->tp.n--; /* 1 stays */
  if (s->weights && status == PZ_OK) {
    status = read_weights(s->weights, o->n_models, o->weight, err);
    o->n_weight = o->n_models;
  }
  if (status == PZ_OK && (s->weights != NULL) != (s->objective == PZ_OBJECTIVE_WEIGHTED))
    status = pz_fail(err, PZ_BAD_USE, "--weights and --objective weighted require each other");
  return status;
}

enum pz_status pz_study_read(const struct pz_study_settings *s, char **models, int n_models,
                             struct pz_study_options *out, struct pz_error *err) {
  static const enum pz_objective_kind per_objective[] = {
      PZ_OBJECTIVE_GEOMEAN, PZ_OBJECTIVE_PER_DOLLAR, PZ_OBJECTIVE_PER_WATT,
      PZ_OBJECTIVE_PER_OWNERSHIP, PZ_OBJECTIVE_PER_JOULE};
  struct pz_study_options o = pz_study_options_default();
  if (n_models > PZ_SEARCH_MOST_MODELS)
    return pz_fail(err, PZ_BAD_USE, "%d models; accepted: at most %d", n_models,
                   PZ_SEARCH_MOST_MODELS);
  for (int i = 0; i < n_models; i++) o.models[o.n_models++] = models[i];
  o.space = s->space;
  o.node = s->node;
  o.budget = s->budget;
  o.limit_mm2 = s->limit_mm2;
  o.limit_watts = s->limit_watts;
  o.limit_dollars = s->limit_dollars;
  o.evaluator = evaluator_of(s);
  struct pz_choices devices;
  enum pz_status many =
      pz_choices_parse(s->devices, "devices", 1 << 30, &devices, s->several_devices ? err : NULL);
  if (!s->several_devices && (many != PZ_OK || devices.n > 1))
    many =
        pz_fail(err, PZ_BAD_USE, "--devices: '%.40s'; accepted: an integer from 1 to 1073741824%s",
                s->devices, many == PZ_OK ? ", several with 'phaze compare --chips --tokens'" : "");
  if (many != PZ_OK) return many;
  o.devices = devices.v[devices.n - 1];
  o.batch = s->batch;
  o.workload = pz_workload_import(&s->import);
  o.workload.seq = s->seq;
  o.objective = s->per >= 0 ? per_objective[s->per] : (enum pz_objective_kind)s->objective;
  o.each_model = s->each_model;
  o.rounds = s->rounds;
  o.seconds = (double)s->seconds;
  o.exhaustive = s->exhaustive;
  o.pareto = s->pareto;
  o.pareto_tolerance = s->pareto_tolerance / 100;
  o.scale_up = s->training.scale_up;
  o.outer_bytes_per_s = s->training.outer_gb_per_s * 1e9;
  o.serial = s->training.serial;
  o.memory_margin = s->training.memory_margin;
  if (s->original.cluster) o.cluster = s->original.cluster;
  o.steps = s->original.steps;
  o.state = s->original.optimizer ? 2 : 3;
  o.assumptions = s->original.rules ? PZ_ASSUME_ALL : 0;
  enum pz_status gap = s->training.gap ? read_gap(s->training.gap, &o.gap, err) : PZ_OK;
  if (gap != PZ_OK) return gap;
  enum pz_status status = read_lists(s, &o, err);
  if (status == PZ_OK) *out = o;
  return status;
}
