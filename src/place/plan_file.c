#include "place/plan_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "core/json_lost.h"
#include "core/record.h"
#include "core/text.h"
#include "place/prediction_json.h"
#include "place/recompute.h"
#include "place/training_options.h"

/* ---- the file ------------------------------------------------------------------------------- */

/* A run as a plan file has it: words as text, NULL: as the framework. */
struct file {
  const char *model, *config, *chip, *cluster, *framework;
  int64_t devices, seq, batch, mbs, tp;
  int sp;
  int64_t cp, ep, etp;
  double imbalance;
  bool mtp;
  int64_t pp, vpp;
  const char *pipeline;
  int64_t first_layers, last_layers, dp, zero, shard;
  const char *recompute;
  int64_t recompute_layers;
  const char *recompute_modules, *attention, *attention_library, *overlap, *execution, *precision;
  double grad_bytes;
};

static json_t *sp_json(const void *value) {
  int v = *(const int *)value;
  return v < 0 ? json_null() : json_boolean(v);
}

static enum pz_status sp_read(const json_t *j, struct pz_arena *arena, void *value,
                              struct pz_error *err) {
  (void)arena;
  if (!json_is_boolean(j) && !json_is_null(j))
    return pz_fail(err, PZ_BAD_INPUT, "found %s; accepted: true or false", pz_json_type(j));
  *(int *)value = json_is_null(j) ? PZ_AS_FRAMEWORK : json_is_true(j);
  return PZ_OK;
}

static const struct pz_field_codec sp_codec = {sp_json, sp_read};

/* The model's config.json as an object of its own. */
static json_t *config_json(const void *value) {
  const char *text = *(const char *const *)value;
  json_t *config = NULL;
  struct pz_error ignored;
  if (!text) return json_null();
  if (pz_json_parse("config", text, strlen(text), &config, &ignored) == PZ_OK) return config;
  pz_json_lost_set(true); /* it was read before: memory is what it lacked */
  return NULL;
}

static enum pz_status config_read(const json_t *j, struct pz_arena *arena, void *value,
                                  struct pz_error *err) {
  const char **out = value;
  *out = NULL;
  if (json_is_null(j)) return PZ_OK;
  if (!json_is_object(j))
    return pz_fail(err, PZ_BAD_INPUT, "found %s; accepted: an object, as in config.json",
                   pz_json_type(j));
  char *text = pz_json_dump(j, JSON_COMPACT);
  *out = text ? pz_arena_strdup(arena, text) : NULL;
  pz_free(text);
  return *out ? PZ_OK : pz_fail(err, PZ_NO_MEMORY, "out of memory for the plan");
}

static const struct pz_field_codec config_codec = {config_json, config_read};

#define TEXT(f) PZ_FIELD(struct file, f, PZ_FIELD_TEXT_OR_NULL)
#define INT(f) PZ_FIELD(struct file, f, PZ_FIELD_INT)
static const struct pz_field fields[] = {TEXT(model),
                                         TEXT(chip),
                                         TEXT(cluster),
                                         TEXT(framework),
                                         INT(devices),
                                         INT(seq),
                                         INT(batch),
                                         INT(mbs),
                                         INT(tp),
                                         PZ_FIELD_BY(struct file, sp, "sp", &sp_codec),
                                         INT(cp),
                                         INT(ep),
                                         INT(etp),
                                         PZ_FIELD(struct file, imbalance, PZ_FIELD_REAL),
                                         PZ_FIELD(struct file, mtp, PZ_FIELD_BOOL),
                                         INT(pp),
                                         INT(vpp),
                                         TEXT(pipeline),
                                         INT(first_layers),
                                         INT(last_layers),
                                         INT(dp),
                                         INT(zero),
                                         INT(shard),
                                         TEXT(recompute),
                                         INT(recompute_layers),
                                         TEXT(recompute_modules),
                                         TEXT(attention),
                                         TEXT(attention_library),
                                         TEXT(overlap),
                                         TEXT(execution),
                                         TEXT(precision),
                                         PZ_FIELD(struct file, grad_bytes, PZ_FIELD_REAL),
                                         PZ_FIELD_BY(struct file, config, "config", &config_codec)};
static const struct pz_record record = PZ_RECORD(fields, struct file);

/* Fields of the listing stand first, in its order. */
_Static_assert(sizeof fields / sizeof *fields == PZ_RUN_FIELDS + 1, "one row a field, and config");

const char *pz_run_field_name(enum pz_run_field f) { return fields[f].key; }

/* ---- words ---------------------------------------------------------------------------------- */

static const char *word_or_null(const char *const *names, int i) { return i < 0 ? NULL : names[i]; }

static const char *list_name(const void *ctx, size_t i) { return ((const char *const *)ctx)[i]; }

static enum pz_status read_word(const char *where, const char *key, const char *word,
                                const char *const *names, int *out, struct pz_error *err) {
  char accepted[160];
  *out = PZ_AS_FRAMEWORK;
  if (!word) return PZ_OK;
  for (int i = 0; names[i]; i++)
    if (strcmp(names[i], word) == 0) return *out = i, PZ_OK;
  return pz_fail(err, PZ_BAD_INPUT, "%s: %s is '%.40s'; accepted: %s", where, key, word,
                 pz_text_join(accepted, sizeof accepted, list_name, names));
}

/* "grad,param", "none" or "all" as a set. */
static enum pz_status read_overlap(const char *where, const char *text, int *out,
                                   struct pz_error *err) {
  int set = 0;
  *out = PZ_AS_FRAMEWORK;
  if (!text) return PZ_OK;
  if (strcmp(text, "all") == 0) return *out = PZ_OVERLAP_ALL, PZ_OK;
  const char *at = strcmp(text, "none") == 0 ? "" : text;
  while (*at) {
    size_t n = strcspn(at, ",");
    int i = 0;
    while (pz_overlap_names[i] &&
           (strlen(pz_overlap_names[i]) != n || strncmp(pz_overlap_names[i], at, n) != 0))
      i++;
    if (!pz_overlap_names[i])
      return pz_fail(err, PZ_BAD_INPUT,
                     "%s: overlap is '%.40s'; accepted: none, all, or a list of grad, param, tp, "
                     "p2p, ep with commas",
                     where, text);
    set |= 1 << i;
    at += n + (at[n] == ',');
  }
  *out = set;
  return PZ_OK;
}

static enum pz_status read_modules(const char *where, const char *text, unsigned *out,
                                   struct pz_error *err) {
  *out = 0;
  if (!text || pz_modules_parse(text, out)) return PZ_OK;
  return pz_fail(err, PZ_BAD_INPUT,
                 "%s: recompute_modules is '%.60s'; accepted: a list of layernorm, moe_act, "
                 "mla_up_proj, mlp, moe, shared_experts, core_attn with commas",
                 where, text);
}

/* ---- both ways ------------------------------------------------------------------------------ */

/* Room for sets as texts. */
struct texts {
  char overlap[40], modules[PZ_MODULES_TEXT];
};

static struct file file_of(const struct pz_run_plan *r, struct texts *t) {
  const struct pz_training_options *o = &r->plan;
  if (o->overlap >= 0) pz_overlap_text((unsigned)o->overlap, t->overlap, sizeof t->overlap);
  pz_modules_text(o->recompute_modules, t->modules, sizeof t->modules);
  return (struct file){.model = r->model,
                       .config = r->config,
                       .chip = r->chip,
                       .cluster = r->cluster,
                       .framework = o->framework,
                       .devices = o->devices,
                       .seq = o->seq,
                       .batch = o->batch,
                       .mbs = o->mbs,
                       .tp = o->tp,
                       .sp = o->sequence_parallel,
                       .cp = o->cp,
                       .ep = o->ep ? o->ep : 1,
                       .etp = o->etp,
                       .imbalance = o->imbalance != 0 ? o->imbalance : 1,
                       .mtp = o->mtp,
                       .pp = o->pp,
                       .vpp = o->vpp,
                       .pipeline = word_or_null(pz_pipeline_names, o->pipeline),
                       .first_layers = o->first_layers,
                       .last_layers = o->last_layers,
                       .dp = o->dp,
                       .zero = o->zero,
                       .shard = o->shard,
                       .recompute = word_or_null(pz_recomputation_names, o->recompute),
                       .recompute_layers = o->recompute_layers,
                       .recompute_modules = o->recompute_modules ? t->modules : NULL,
                       .attention = word_or_null(pz_attention_names, o->attention),
                       .attention_library = o->attention_library,
                       .overlap = o->overlap < 0 ? NULL : t->overlap,
                       .execution = word_or_null(pz_execution_names, o->execution),
                       .precision = word_or_null(pz_precision_names, o->precision),
                       .grad_bytes = o->grad_bytes};
}

bool pz_run_field_told(const struct pz_run_plan *r, enum pz_run_field f) {
  const struct pz_training_options *o = &r->plan;
  switch (f) {
  case PZ_RUN_EP: return o->ep > 1 || r->from[f];
  case PZ_RUN_ETP: return o->etp;
  case PZ_RUN_IMBALANCE: return o->imbalance != 0 && o->imbalance != 1;
  case PZ_RUN_MTP: return o->mtp;
  case PZ_RUN_RECOMPUTE_MODULES: return o->recompute_modules;
  default: return true;
  }
}

json_t *pz_run_plan_json(const struct pz_run_plan *r) {
  struct texts t;
  struct file f = file_of(r, &t);
  json_t *j = pz_record_json(&record, &f);
  if (j && !r->config) json_object_del(j, "config");
  for (int i = 0; j && i < PZ_RUN_FIELDS; i++)
    if (!pz_run_field_told(r, (enum pz_run_field)i)) json_object_del(j, fields[i].key);
  return j;
}

static enum pz_status run_of(const char *name, const struct file *f, struct pz_run_plan *out,
                             struct pz_error *err) {
  struct pz_run_plan r = {.model = f->model, .config = f->config};
  struct pz_training_options *o = &r.plan;
  *o = pz_training_options_default();
  r.chip = f->chip;
  r.cluster = f->cluster;
  o->first_layers = f->first_layers;
  o->last_layers = f->last_layers;
  o->cp = f->cp;
  o->ep = f->ep;
  o->etp = f->etp;
  o->imbalance = f->imbalance;
  o->mtp = f->mtp;
  if (f->framework) o->framework = f->framework;
  o->devices = f->devices;
  o->seq = f->seq;
  o->batch = f->batch;
  o->mbs = f->mbs;
  o->tp = f->tp;
  o->sequence_parallel = f->sp;
  o->pp = f->pp;
  o->vpp = f->vpp;
  o->dp = f->dp;
  o->zero = f->zero < -1 || f->zero > 3 ? 4 : (int)f->zero;
  o->shard = f->shard;
  o->recompute_layers = f->recompute_layers;
  o->attention_library = f->attention_library;
  o->grad_bytes = f->grad_bytes;
  enum pz_status status =
      read_word(name, "pipeline", f->pipeline, pz_pipeline_names, &o->pipeline, err);
  if (status == PZ_OK)
    status = read_word(name, "recompute", f->recompute, pz_recomputation_names, &o->recompute, err);
  if (status == PZ_OK)
    status = read_word(name, "attention", f->attention, pz_attention_names, &o->attention, err);
  if (status == PZ_OK)
    status = read_word(name, "execution", f->execution, pz_execution_names, &o->execution, err);
  if (status == PZ_OK)
    status = read_word(name, "precision", f->precision, pz_precision_names, &o->precision, err);
  if (o->precision < 0) o->precision = PZ_PRECISION_BF16;
  if (status == PZ_OK) status = read_overlap(name, f->overlap, &o->overlap, err);
  if (status == PZ_OK)
    status = read_modules(name, f->recompute_modules, &o->recompute_modules, err);
  if (status == PZ_OK) *out = r;
  return status;
}

/* Defaults with what the file says over them; a key that is neither is the record's to refuse. */
static json_t *merged(const json_t *given, const json_t *plan) {
  struct pz_run_plan none = {.plan = pz_training_options_default()};
  struct texts t;
  struct file f = file_of(&none, &t);
  f.framework = f.precision = NULL;
  json_t *all = pz_record_json(&record, &f), *value;
  const char *key;
  static const char *const outside[] = {"model", "chip", "cluster", "config"};
  for (size_t i = 0; plan && i < sizeof outside / sizeof *outside; i++)
    if ((value = json_object_get(given, outside[i]))) json_object_set(all, outside[i], value);
  json_t *from = json_deep_copy(plan ? plan : given);
  json_object_foreach(from, key, value) json_object_set(all, key, value);
  json_decref(from);
  return all;
}

static void mark_given(const json_t *given, const json_t *plan, struct pz_run_plan *r) {
  for (int i = 0; i < PZ_RUN_FIELDS; i++) {
    const json_t *v = json_object_get(plan ? plan : given, fields[i].key);
    if (!v) v = json_object_get(given, fields[i].key);
    if (v && !json_is_null(v)) r->from[i] = "given";
  }
}

enum pz_status pz_plan_file_read(const char *name, const char *text, size_t bytes,
                                 struct pz_arena *arena, struct pz_run_plan *out,
                                 struct pz_error *err) {
  json_t *given = NULL, *all = NULL;
  struct file f = {.model = NULL};
  struct pz_run_plan r;
  if (bytes > PZ_PLAN_FILE_MOST_BYTES)
    return pz_fail(err, PZ_LIMIT, "%s: %zu bytes; accepted: at most %d", name, bytes,
                   PZ_PLAN_FILE_MOST_BYTES);
  enum pz_status status = pz_json_parse(name, text, bytes, &given, err);
  if (status != PZ_OK) return status;
  const json_t *plan = json_object_get(given, "plan");
  if (plan && !json_is_object(plan))
    status = pz_fail(err, PZ_BAD_INPUT, "%s: plan: found %s; accepted: an object", name,
                     pz_json_type(plan));
  if (status == PZ_OK && !(all = merged(given, plan)))
    status = pz_fail(err, PZ_NO_MEMORY, "%s: out of memory", name);
  if (status == PZ_OK) status = pz_record_read(&record, all, name, arena, &f, err);
  if (status == PZ_OK && (!f.model || !*f.model))
    status = pz_fail(err, PZ_BAD_INPUT,
                     "%s: no model; accepted: \"model\": a name listed by 'phaze models', or the "
                     "path of a config.json",
                     name);
  if (status == PZ_OK) status = run_of(name, &f, &r, err);
  if (status == PZ_OK) {
    mark_given(given, plan, &r);
    *out = r;
  }
  json_decref(all);
  json_decref(given);
  return status;
}

/* ---- use ------------------------------------------------------------------------------------ */

enum pz_status pz_run_plan_fill(struct pz_run_plan *r, struct pz_error *err) {
  struct pz_training_options o = r->plan;
  enum pz_status status = pz_training_options_fill(&o, err);
  if (status == PZ_OK) r->plan = o;
  return status;
}

struct pz_training_plan pz_run_training_plan(const struct pz_run_plan *r) {
  return pz_training_plan_of(&r->plan);
}

struct pz_training_model pz_run_training_model(const struct pz_run_plan *r) {
  struct pz_training_model m = pz_training_model_of(r->model, &r->plan);
  m.config = r->config;
  return m;
}

static const char *or_none(const char *text) { return text && *text ? text : "-"; }

char *pz_run_field_text(const struct pz_run_plan *r, enum pz_run_field f, char *buf, size_t size) {
  struct texts t;
  struct file all = file_of(r, &t);
  const char *at = (const char *)&all + fields[f].offset;
  switch (fields[f].type) {
  case PZ_FIELD_INT: snprintf(buf, size, "%" PRId64, *(const int64_t *)(const void *)at); break;
  case PZ_FIELD_REAL: snprintf(buf, size, "%g", *(const double *)(const void *)at); break;
  case PZ_FIELD_TEXT_OR_NULL:
    pz_text_copy(buf, size, or_none(*(const char *const *)(const void *)at));
    break;
  default: snprintf(buf, size, "%s", (f == PZ_RUN_MTP ? all.mtp : all.sp > 0) ? "on" : "off");
  }
  return pz_text_plain(buf);
}
