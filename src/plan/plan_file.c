/* Plan files (plan_file.h): reading and writing a run as JSON, changing fields of a run, and
 * listing its fields with the origin of their values. */
#include "plan/plan_file.h"

#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "core/text.h"
#include "plan/plan.h"

/* Settings of a run besides its plan. */
enum { MODEL, CHIP, CLUSTER, SETTINGS };
static const char *const settings[] = {"model", "chip", "cluster"};

/* Results that 'phaze place --json' prints among the fields of a plan. */
static const char *const ignored_keys[] = {
    "step_s",       "mfu",           "mfu_conventional",        "devices_used",
    "microbatches", "samples_per_s", "tokens_per_s_per_device", "peak_bytes",
    "host_bytes",   "stage_layers",  "recompute_by_stage"};

struct pz_run_plan pz_run_plan_default(void) {
  return (struct pz_run_plan){.size = sizeof(struct pz_run_plan), .plan = pz_plan_default()};
}

/* Returns key i of those that a plan file may have, or NULL after the last one (pz_name_at). */
static const char *accepted_key(const void *unused, size_t i) {
  (void)unused;
  if (i < SETTINGS) return settings[i];
  if (i == SETTINGS) return "config";
  size_t n = SETTINGS + 1;
  for (int f = 0; f < PZ_PLAN_FIELDS; f++) {
    const struct pz_plan_field_info *info = pz_plan_field((enum pz_plan_field)f);
    if (info->kind == PZ_PLAN_KIND_LENGTH) continue;
    if (n == i) return info->name;
    n++;
  }
  return NULL;
}

/* Sets the model, the chip or the cluster of a run, as `setting` says, from the value of a key. */
static void read_setting(struct pz_call *call, int setting, const char *key, const json_t *value,
                         struct pz_run_plan *run) {
  const char **const members[] = {&run->model, &run->chip, &run->cluster};
  const char *text = json_string_value(value);
  if (!text && !json_is_null(value))
    pz_raise(call, PZ_BAD_INPUT, "%s is %s; accepted: a text", key, pz_json_type(value));
  *members[setting] = text ? pz_copy_text(call, text) : NULL;
  run->from[PZ_RUN_MODEL + setting] = text ? "given" : NULL;
}

/* Reads one key of a plan file into the run. */
static void read_key(struct pz_call *call, const char *key, const json_t *value,
                     struct pz_run_plan *run) {
  char names[700];
  for (int i = 0; i < SETTINGS; i++) {
    if (strcmp(key, settings[i]) != 0) continue;
    read_setting(call, i, key, value, run);
    return;
  }
  for (size_t i = 0; i < sizeof ignored_keys / sizeof *ignored_keys; i++)
    if (strcmp(key, ignored_keys[i]) == 0) return;
  if (strcmp(key, "config") == 0) { /* the config.json of the model, which a run stores as text */
    if (json_is_null(value)) return;
    if (!json_is_object(value))
      pz_raise(call, PZ_BAD_INPUT, "config is %s; accepted: an object, as in config.json",
               pz_json_type(value));
    run->config = pz_json_format(call, value, JSON_COMPACT);
    return;
  }
  enum pz_plan_field field = pz_plan_field_find(key);
  if (field == PZ_PLAN_FIELDS || pz_plan_field(field)->kind == PZ_PLAN_KIND_LENGTH)
    pz_raise(call, PZ_BAD_INPUT, "unknown field '%.40s'; accepted: %s", key,
             pz_text_join(names, sizeof names, accepted_key, NULL));
  pz_read_plan_json_field(call, &run->plan, field, value);
  if (!json_is_null(value)) run->from[field] = "given";
}

/* A plan file that is read within a border, so that its errors can be raised again with the name of
 * the file. */
struct plan_file_reading {
  struct pz_arena *arena;
  json_t *file;
  struct pz_run_plan run;
};

/* Reads the parsed file into reading->run (a callback of pz_border).  A plan file has model, chip,
 * cluster and the fields of the plan in one object.  Outputs of subcommands are accepted, too: there,
 * the fields are in an inner object "plan", and everything may be in an object "run". */
static void read_object(struct pz_call *border, void *ctx) {
  static const char *const file_keys[SETTINGS] = {[CHIP] = "chip_file", [CLUSTER] = "cluster_file"};
  struct plan_file_reading *reading = ctx;
  struct pz_call results = pz_call_in(border, reading->arena), *call = &results;
  /* 'phaze tune --json' prints the run as an object of its own */
  json_t *run =
      json_object_get(reading->file, "model") ? NULL : json_object_get(reading->file, "run");
  json_t *object = json_is_object(run) ? run : reading->file;
  json_t *plan = json_object_get(object, "plan"), *value;
  const char *key;
  if (plan && !json_is_object(plan))
    pz_raise(call, PZ_BAD_INPUT, "plan is %s; accepted: an object", pz_json_type(plan));
  for (size_t i = 0; plan && i <= SETTINGS; i++) { /* model, chip, cluster and config */
    value = json_object_get(object, accepted_key(NULL, i));
    if (value) read_key(call, accepted_key(NULL, i), value, &reading->run);
  }
  for (int i = CHIP; i < SETTINGS; i++) { /* paths count more than the names of the contents */
    value = json_object_get(object, file_keys[i]);
    if (value) read_setting(call, i, file_keys[i], value, &reading->run);
  }
  json_object_foreach(plan ? plan : object, key, value) read_key(call, key, value, &reading->run);
  if (!reading->run.model || !*reading->run.model)
    pz_raise(call, PZ_BAD_INPUT,
             "no model; accepted: \"model\": a name listed by 'phaze models', or the "
             "path of a config.json");
}

void pz_read_plan_file(struct pz_call *call, const char *name, const char *text, size_t bytes,
                       struct pz_run_plan *run) {
  if (bytes > PZ_PLAN_FILE_MOST_BYTES)
    pz_raise(call, PZ_LIMIT, "%s: %zu bytes; accepted: at most %d", name, bytes,
             PZ_PLAN_FILE_MOST_BYTES);
  struct plan_file_reading reading = {.arena = call->arena,
                                      .file = pz_json_read(call, name, text, bytes),
                                      .run = pz_run_plan_default()};
  struct pz_error err = {0};
  enum pz_status status = pz_border(read_object, &reading, &err);
  if (status != PZ_OK) pz_raise(call, status, "%s: %s", name, err.message);
  *run = reading.run;
}

/* Sets the fields of a run that `given` sets, and unsets those that no longer hold because they
 * followed from or refined a changed field, unless they are given, too. */
void pz_run_plan_change(struct pz_run_plan *run, const struct pz_plan *given) {
  struct pz_plan *plan = &run->plan;
  bool changes_chunks = given->pp || given->vpp;
  bool changes_degrees = given->devices || given->tp || given->cp || given->pp;
  bool changes_recompute = given->recompute >= 0;
  /* sequence parallelism is off with tp 1 and on by default above */
  if (given->tp && (given->tp == 1 || plan->tp <= 1)) plan->sp = PZ_AS_FRAMEWORK;
  for (int i = 0; i < PZ_PLAN_FIELDS; i++)
    if (!pz_plan_is_unset(given, (enum pz_plan_field)i))
      pz_plan_field_copy(plan, given, (enum pz_plan_field)i);
  /* Unset (0, NULL or PZ_AS_FRAMEWORK) what followed from changed fields and is not given. */
  if (changes_degrees && !given->dp) plan->dp = 0;
  if (!given->shard && (!plan->dp || given->zero >= 0)) plan->shard = 0;
  if ((given->tp || given->ep) && !given->etp && !run->from[PZ_PLAN_ETP]) plan->etp = 0;
  if (given->pp == 1 && !given->vpp) plan->vpp = 1;
  if (changes_chunks && given->pipeline < 0) plan->pipeline = PZ_AS_FRAMEWORK;
  if (changes_chunks && !given->first_layers) plan->first_layers = 0;
  if (changes_chunks && !given->last_layers) plan->last_layers = 0;
  if (changes_recompute && !given->recompute_layers) plan->recompute_layers = 0;
  if (changes_recompute && !given->recompute_modules) plan->recompute_modules = 0;
  if (changes_chunks || changes_recompute || given->recompute_layers) plan->stage_recompute = NULL;
  bool keeps_overlap = given->overlap < 0 && plan->overlap >= 0;
  if (keeps_overlap && changes_chunks) { /* transfers between stages overlap if interleaved */
    plan->overlap &= ~(int)PZ_OVERLAP_P2P;
    if (plan->vpp > 1 && !run->p2p_off) plan->overlap |= PZ_OVERLAP_P2P;
  }
}

json_t *pz_run_plan_json(const struct pz_run_plan *run) {
  json_t *object = json_pack("{s:s?,s:s?,s:s?}", "model", run->model, "chip", run->chip, "cluster",
                             run->cluster);
  json_t *plan = pz_plan_json(&run->plan);
  if (object && plan) json_object_update(object, plan);
  json_decref(plan);
  if (run->config) json_object_set_new(object, "config", pz_json_parse_again(run->config));
  return object;
}

/* Returns whether a field of a filled plan is listed for users, because its value has an effect in
 * this run.  For example, the pipeline order has none with one stage. */
static bool is_shown(const struct pz_run_plan *run, enum pz_plan_field field) {
  const struct pz_plan *plan = &run->plan;
  switch (field) {
  case PZ_PLAN_FIRST_LAYERS:
  case PZ_PLAN_LAST_LAYERS:
  case PZ_PLAN_RECOMPUTE_LAYERS:
  case PZ_PLAN_ETP:
  case PZ_PLAN_MTP: return !pz_plan_is_unset(plan, field);
  case PZ_PLAN_ATTENTION_LIBRARY: return plan->attention_library && *plan->attention_library;
  case PZ_PLAN_SHARD: return plan->zero && plan->shard != pz_plan_replicas(plan);
  case PZ_PLAN_PIPELINE:
  case PZ_PLAN_VPP: return plan->pp > 1;
  case PZ_PLAN_SP: return plan->tp > 1;
  case PZ_PLAN_IMBALANCE: return plan->imbalance > 1;
  case PZ_PLAN_CP: return pz_plan_cp(plan) > 1 || run->from[field];
  default: return true;
  }
}

/* Returns the settings and the relevant fields of a run as texts, each with the origin of its value:
 * where it was read, what it follows from, or "default".  Sets *n to their number. */
struct pz_field_origin *pz_list_run_fields(struct pz_call *call, const struct pz_run_plan *run,
                                           uint32_t *n) {
  const char *const names[SETTINGS] = {run->model, run->chip, run->cluster};
  struct pz_field_origin *list = pz_alloc(call, PZ_RUN_FIELDS, sizeof *list);
  char value[PZ_FIELD_TEXT_MOST];
  *n = 0;
  for (int i = 0; i < SETTINGS; i++) {
    const char *from = run->from[PZ_RUN_MODEL + i];
    pz_text_plain(pz_text_copy(value, sizeof value, names[i] ? names[i] : "-"));
    list[(*n)++] = (struct pz_field_origin){settings[i], pz_copy_text(call, value),
                                            pz_copy_text(call, from ? from : "default"), true};
  }
  for (int f = 0; f < PZ_PLAN_FIELDS; f++) {
    enum pz_plan_field field = (enum pz_plan_field)f;
    const char *from = run->from[f];
    if (!pz_plan_field_is_relevant(&run->plan, field)) continue;
    pz_plan_field_text(&run->plan, field, value, sizeof value);
    if (!from && field == PZ_PLAN_DP) from = pz_format(call, "= %s", pz_plan_field(field)->from);
    list[(*n)++] =
        (struct pz_field_origin){pz_plan_field_name(field), pz_copy_text(call, value),
                                 pz_copy_text(call, from ? from : "default"), is_shown(run, field)};
  }
  return list;
}
