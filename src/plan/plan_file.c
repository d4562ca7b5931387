#include "plan/plan_file.h"

#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "core/text.h"
#include "plan/plan.h"

static const char *const outside[] = {"model", "chip", "cluster", NULL};
static const char *const files[] = {"chip_file", "cluster_file"};

/* What 'phaze place --json' says of a plan beside its fields. */
static const char *const found[] = {
    "step_s",       "mfu",           "mfu_conventional",        "devices_used",
    "microbatches", "samples_per_s", "tokens_per_s_per_device", "peak_bytes",
    "host_bytes",   "stage_layers",  "recompute_by_stage",      NULL};

struct pz_run_plan pz_run_plan_default(void) {
  return (struct pz_run_plan){.size = sizeof(struct pz_run_plan), .plan = pz_plan_default()};
}

static const char **outside_text(struct pz_run_plan *r, int i) {
  return i == 0 ? &r->model : i == 1 ? &r->chip : &r->cluster;
}

static const char *key_at(const void *ctx, size_t i) {
  (void)ctx;
  if (i < 3) return outside[i];
  if (i == 3) return "config";
  for (int f = 0; f < PZ_PLAN_FIELDS; f++) /* all but lengths of lists */
    if (pz_plan_field((enum pz_plan_field)f)->kind <= PZ_PLAN_KIND_LIST && i-- == 4)
      return pz_plan_field((enum pz_plan_field)f)->name;
  return NULL;
}

/* The model's config.json as an object of its own. */
static enum pz_status read_config(const json_t *j, struct pz_arena *arena, const char **out,
                                  struct pz_error *err) {
  if (json_is_null(j)) return PZ_OK;
  if (!json_is_object(j))
    return pz_fail(err, PZ_BAD_INPUT, "config is %s; accepted: an object, as in config.json",
                   pz_json_type(j));
  char *text = pz_json_dump(j, JSON_COMPACT);
  *out = text ? pz_arena_strdup(arena, text) : NULL;
  pz_free(text);
  return *out ? PZ_OK : pz_fail(err, PZ_NO_MEMORY, "out of memory for the plan");
}

/* The model, the chip or the cluster. */
static enum pz_status read_outside(int i, const char *key, const json_t *value,
                                   struct pz_arena *arena, struct pz_run_plan *r,
                                   struct pz_error *err) {
  if (!json_is_string(value) && !json_is_null(value))
    return pz_fail(err, PZ_BAD_INPUT, "%s is %s; accepted: a text", key, pz_json_type(value));
  const char *text = json_is_null(value) ? NULL : pz_arena_strdup(arena, json_string_value(value));
  if (!text && !json_is_null(value))
    return pz_fail(err, PZ_NO_MEMORY, "out of memory for the plan");
  *outside_text(r, i) = text;
  r->from[PZ_RUN_MODEL + i] = text ? "given" : NULL;
  return PZ_OK;
}

/* One key of the file, or of its plan. */
static enum pz_status read_key(const char *key, const json_t *value, struct pz_arena *arena,
                               struct pz_run_plan *r, struct pz_error *err) {
  char names[700];
  for (int i = 0; outside[i]; i++)
    if (strcmp(key, outside[i]) == 0) return read_outside(i, key, value, arena, r, err);
  for (int i = 0; found[i]; i++) /* of a plan that place found */
    if (strcmp(key, found[i]) == 0) return PZ_OK;
  if (strcmp(key, "config") == 0) return read_config(value, arena, &r->config, err);
  enum pz_plan_field f = pz_plan_field_find(key);
  if (f == PZ_PLAN_FIELDS || pz_plan_field(f)->kind > PZ_PLAN_KIND_LIST)
    return pz_fail(err, PZ_BAD_INPUT, "unknown field '%.40s'; accepted: %s", key,
                   pz_text_join(names, sizeof names, key_at, NULL));
  enum pz_status status = pz_plan_field_from_json(&r->plan, f, value, arena, err);
  if (status == PZ_OK && !json_is_null(value)) r->from[f] = "given";
  return status;
}

static enum pz_status read_object(json_t *given, struct pz_arena *arena, struct pz_run_plan *r,
                                  struct pz_error *err) {
  json_t *plan = json_object_get(given, "plan"), *value;
  const char *key;
  enum pz_status status = PZ_OK;
  if (plan && !json_is_object(plan))
    return pz_fail(err, PZ_BAD_INPUT, "plan is %s; accepted: an object", pz_json_type(plan));
  for (size_t i = 0; plan && i < 4 && status == PZ_OK; i++)
    if ((value = json_object_get(given, key_at(NULL, i))))
      status = read_key(key_at(NULL, i), value, arena, r, err);
  for (int i = 0; i < 2 && status == PZ_OK; i++) /* chip and cluster by their files */
    if ((value = json_object_get(given, files[i])))
      status = read_outside(i + 1, files[i], value, arena, r, err);
  if (status != PZ_OK) return status;
  json_object_foreach(plan ? plan : given, key, value) {
    status = read_key(key, value, arena, r, err);
    if (status != PZ_OK) return status;
  }
  if (!r->model || !*r->model)
    status = pz_fail(err, PZ_BAD_INPUT,
                     "no model; accepted: \"model\": a name listed by 'phaze models', or the "
                     "path of a config.json");
  return status;
}

enum pz_status pz_plan_file_read(const char *name, const char *text, size_t bytes,
                                 struct pz_arena *arena, struct pz_run_plan *out,
                                 struct pz_error *err) {
  json_t *given = NULL;
  struct pz_run_plan r = pz_run_plan_default();
  struct pz_error why = {0};
  if (bytes > PZ_PLAN_FILE_MOST_BYTES)
    return pz_fail(err, PZ_LIMIT, "%s: %zu bytes; accepted: at most %d", name, bytes,
                   PZ_PLAN_FILE_MOST_BYTES);
  enum pz_status status = pz_json_parse(name, text, bytes, &given, err);
  if (status != PZ_OK) return status;
  /* what 'phaze tune --json' prints has the run as an object of its own */
  json_t *run = json_object_get(given, "model") ? NULL : json_object_get(given, "run");
  status = read_object(json_is_object(run) ? run : given, arena, &r, &why);
  json_decref(given);
  if (status != PZ_OK) return pz_fail(err, status, "%s: %s", name, why.message);
  *out = r;
  return PZ_OK;
}

void pz_run_plan_change(struct pz_run_plan *r, const struct pz_plan *given) {
  struct pz_plan *p = &r->plan;
  bool division = given->pp || given->vpp;
  if (given->tp && (given->tp == 1 || p->tp <= 1)) p->sp = PZ_AS_FRAMEWORK;
  for (int f = 0; f < PZ_PLAN_FIELDS; f++)
    if (!pz_plan_is_unset(given, (enum pz_plan_field)f))
      pz_plan_field_copy(p, given, (enum pz_plan_field)f);
  if ((given->devices || given->tp || given->cp || given->pp) && !given->dp) p->dp = 0;
  if (!given->shard && (!p->dp || given->zero >= 0)) p->shard = 0;
  if ((given->tp || given->ep) && !given->etp && !r->from[PZ_PLAN_ETP]) p->etp = 0;
  if (given->pp == 1 && !given->vpp) p->vpp = 1;
  if (division && given->pipeline < 0) p->pipeline = PZ_AS_FRAMEWORK;
  if (division && !given->first_layers) p->first_layers = 0;
  if (division && !given->last_layers) p->last_layers = 0;
  if (given->recompute >= 0 && !given->recompute_layers) p->recompute_layers = 0;
  if (given->recompute >= 0 && !given->recompute_modules) p->recompute_modules = 0;
  if (division || given->recompute >= 0 || given->recompute_layers) p->stage_recompute = NULL;
  if (given->overlap < 0 && p->overlap >= 0 && division)
    p->overlap =
        p->vpp > 1 && !r->p2p_off ? p->overlap | PZ_OVERLAP_P2P : p->overlap & ~(int)PZ_OVERLAP_P2P;
}

json_t *pz_run_plan_json(const struct pz_run_plan *r) {
  json_t *j =
      json_pack("{s:s?,s:s?,s:s?}", "model", r->model, "chip", r->chip, "cluster", r->cluster);
  json_t *plan = pz_plan_json(&r->plan), *config = NULL;
  struct pz_error ignored;
  if (j && plan) json_object_update(j, plan);
  json_decref(plan);
  if (r->config &&
      pz_json_parse("config", r->config, strlen(r->config), &config, &ignored) != PZ_OK)
    pz_json_lost_set(true); /* it was read before: memory is what it lacked */
  if (config) json_object_set_new(j, "config", config);
  return j;
}

/* ---- its fields ----------------------------------------------------------------------------- */

/* Does a field say something for this run? */
static bool is_shown(const struct pz_run_plan *r, enum pz_plan_field f) {
  const struct pz_plan *o = &r->plan;
  switch (f) {
  case PZ_PLAN_FIRST_LAYERS:
  case PZ_PLAN_LAST_LAYERS:
  case PZ_PLAN_RECOMPUTE_LAYERS:
  case PZ_PLAN_ETP:
  case PZ_PLAN_MTP: return !pz_plan_is_unset(o, f);
  case PZ_PLAN_ATTENTION_LIBRARY: return o->attention_library && *o->attention_library;
  case PZ_PLAN_SHARD: return o->zero && o->shard != pz_plan_replicas(o);
  case PZ_PLAN_PIPELINE:
  case PZ_PLAN_VPP: return o->pp > 1;
  case PZ_PLAN_SP: return o->tp > 1;
  case PZ_PLAN_IMBALANCE: return o->imbalance > 1;
  case PZ_PLAN_CP: return pz_plan_cp(o) > 1 || r->from[f];
  default: return true;
  }
}

enum pz_status pz_run_plan_fields(const struct pz_run_plan *r, struct pz_arena *arena,
                                  struct pz_field_origin **list, uint32_t *n,
                                  struct pz_error *err) {
  const char *const texts[] = {r->model, r->chip, r->cluster};
  struct pz_field_origin *out = pz_arena_alloc(arena, PZ_RUN_FIELDS, sizeof *out);
  bool room = out != NULL;
  *n = 0;
  for (int i = 0; i < PZ_RUN_FIELDS && room; i++) {
    enum pz_plan_field f = (enum pz_plan_field)(i - 3);
    char value[PZ_FIELD_TEXT_MOST], derived[64];
    const char *from = r->from[i < 3 ? PZ_RUN_MODEL + i : i - 3];
    if (i >= 3 && !pz_plan_field_told(&r->plan, f)) continue;
    if (i < 3)
      pz_text_plain(pz_text_copy(value, sizeof value, texts[i] ? texts[i] : "-"));
    else
      pz_plan_field_text(&r->plan, f, value, sizeof value);
    if (!from && i >= 3 && f == PZ_PLAN_DP) {
      snprintf(derived, sizeof derived, "= %s", pz_plan_field(f)->from);
      from = derived;
    }
    out[*n] = (struct pz_field_origin){.name = i < 3 ? outside[i] : pz_plan_field_name(f),
                                       .value = pz_arena_strdup(arena, value),
                                       .from = pz_arena_strdup(arena, from ? from : "default"),
                                       .shown = i < 3 || is_shown(r, f)};
    room = out[*n].value && out[*n].from;
    ++*n;
  }
  *list = out;
  return room ? PZ_OK : pz_fail(err, PZ_NO_MEMORY, "out of memory for the plan");
}
