/* Reads the settings of the commands that search into the options of the library: pz_study_misuse() checks that options and
 * evaluator go together, pz_study_options_of() parses lists and numbers that the option tables leave as text. */
#include "cli/study_options.h"

#include <stdlib.h>
#include <string.h>

#include "core/options.h"

const char *const pz_optimizer_names[] = {"adam", "sgd", NULL};
const char *const pz_semantics_names[] = {"corrected", "training", NULL};
const char *const pz_rules_names[] = {"corrected", "original", NULL};
const char *const pz_study_execution_names[] = {"scheduled", "serial", NULL};
const char *const pz_per_names[] = {"chip", "dollar", "watt", "ownership", "joule", NULL};

/* The evaluator that was chosen, also by the older option --semantics, or else the one that belongs to the space. */
static enum pz_evaluator_kind evaluator_of(const struct pz_study_settings *s) {
  if (s->evaluator) return (enum pz_evaluator_kind)s->evaluator;
  if (s->semantics >= 0) return s->semantics ? PZ_EVALUATOR_TRAINING : PZ_EVALUATOR_ORIGINAL;
  return strcmp(s->space, "paper") == 0 ? PZ_EVALUATOR_ORIGINAL : PZ_EVALUATOR_TRAINING;
}

const char *pz_study_misuse(struct pz_call *call, const struct pz_command *c, const void *settings,
                            const struct pz_study_settings *s) {
  static const struct pz_study_settings usual = PZ_STUDY_SETTINGS_DEFAULT;
  bool training = evaluator_of(s) == PZ_EVALUATOR_TRAINING;
  const char *own = settings;
  size_t study_at = (size_t)((const char *)s - own);
  /* the members of the other evaluator, in the settings of the command */
  size_t from = study_at + (training ? offsetof(struct pz_study_settings, original)
                                     : offsetof(struct pz_study_settings, training));
  size_t to = from + (training ? sizeof s->original : sizeof s->training);
  for (size_t i = 0; i < c->table.n; i++) {
    const struct pz_option *o = &c->table.options[i];
    if (o->offset < from || o->offset >= to) continue;
    size_t bytes = o->type == PZ_OPTION_CHOICE ? sizeof(int) : 8; /* pointer, int64_t or double */
    const char *usual_value = (const char *)&usual + o->offset - study_at;
    if (memcmp(own + o->offset, usual_value, bytes) == 0) continue;
    char name[40];
    return pz_format(call, "--%s requires --evaluator %s", pz_option_name(o, name, sizeof name),
                     training ? "original" : "training");
  }
  if (s->evaluator && s->semantics >= 0) return "--evaluator and --semantics cannot be combined";
  if (s->objective && s->per >= 0) return "--objective and --per cannot be combined";
  return NULL;
}

/* Parses "1%" or "0.01". */
static double parse_gap(struct pz_call *call, const char *text) {
  char *end;
  double gap = strtod(text, &end);
  if (end != text && strcmp(end, "%") == 0) {
    gap /= 100;
    end++;
  }
  bool valid = end != text && !*end && gap >= 0 && gap <= 1;
  if (!valid) pz_raise(call, PZ_BAD_USE, "--gap %.40s; accepted: 0%% to 100%%", text);
  return gap;
}

/* Parses one positive number for each of n models. */
static void parse_weights(struct pz_call *call, const char *text, uint32_t n, double *weights) {
  const char *at = text;
  for (uint32_t i = 0; i < n; i++) {
    char *end;
    weights[i] = strtod(at, &end);
    bool positive = end != at && weights[i] > 0 && weights[i] < 1e9;
    char expected_end = i + 1 < n ? ',' : '\0';
    if (!positive || *end != expected_end)
      pz_raise(call, PZ_BAD_USE,
               "--weights '%s'; accepted: one number above 0 for each of the %u models, "
               "comma-separated",
               text, n);
    at = end + 1;
  }
}

/* Parses --devices.  The largest number counts; several are accepted only by commands that say so. */
static int64_t parse_devices(struct pz_call *call, const struct pz_study_settings *s) {
  struct pz_choices devices;
  if (s->several_devices) {
    pz_must(call, pz_choices_parse(s->devices, "devices", 1 << 30, &devices, pz_call_error(call)));
  } else {
    bool is_list = pz_choices_parse(s->devices, "devices", 1 << 30, &devices, NULL) == PZ_OK;
    if (!is_list || devices.n > 1)
      pz_raise(call, PZ_BAD_USE, "--devices: '%.40s'; accepted: an integer from 1 to 1073741824%s",
               s->devices, is_list ? ", several with 'phaze compare --chips --tokens'" : "");
  }
  return devices.v[devices.n - 1];
}

/* Parses the lists of values to search and the weights of the objective. */
static void parse_lists(struct pz_call *call, const struct pz_study_settings *s,
                        struct pz_study_options *o) {
  struct pz_error *err = pz_call_error(call);
  const char *mbs = s->original.mbs, *hbm = s->original.hbm, *tp = s->original.tp;
  if (mbs) pz_must(call, pz_choices_parse(mbs, "mbs", 1 << 20, &o->mbs, err));
  if (hbm) pz_must(call, pz_choices_parse(hbm, "hbm", 1 << 20, &o->hbm_gib, err));
  if (tp) pz_must(call, pz_choices_parse(tp, "tp", 1 << 20, &o->tp, err));
  while (!tp && o->tp.v[o->tp.n - 1] > o->devices) o->tp.n--; /* the first choice is 1 and stays */
  if (s->weights) {
    parse_weights(call, s->weights, o->n_models, o->weight);
    o->n_weight = o->n_models;
  }
  if ((s->weights != NULL) != (s->objective == PZ_OBJECTIVE_WEIGHTED))
    pz_raise(call, PZ_BAD_USE, "--weights and --objective weighted require each other");
}

struct pz_study_options pz_study_options_of(struct pz_call *call, const struct pz_study_settings *s,
                                            char **models, int n_models) {
  static const enum pz_objective_kind per_objective[] = {
      PZ_OBJECTIVE_GEOMEAN, PZ_OBJECTIVE_PER_DOLLAR, PZ_OBJECTIVE_PER_WATT,
      PZ_OBJECTIVE_PER_OWNERSHIP, PZ_OBJECTIVE_PER_JOULE};
  struct pz_study_options o = pz_study_options_default();
  if (n_models > PZ_SEARCH_MOST_MODELS)
    pz_raise(call, PZ_BAD_USE, "%d models; accepted: at most %d", n_models, PZ_SEARCH_MOST_MODELS);
  for (int i = 0; i < n_models; i++) o.models[o.n_models++] = models[i];
  o.space = s->space;
  o.node = s->node;
  o.budget = s->budget;
  o.limit_mm2 = s->limit_mm2;
  o.limit_watts = s->limit_watts;
  o.limit_dollars = s->limit_dollars;
  o.evaluator = evaluator_of(s);
  o.devices = parse_devices(call, s);
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
  if (s->training.gap) o.gap = parse_gap(call, s->training.gap);
  if (s->original.cluster) o.cluster = s->original.cluster;
  o.steps = s->original.steps;
  o.state = s->original.optimizer ? 2 : 3; /* bytes per byte of weights: sgd, adam */
  o.assumptions = s->original.rules ? PZ_ASSUME_ALL : 0;
  parse_lists(call, s, &o);
  return o;
}
