/* phaze models: a list of the built-in models with their sizes. */
#include <inttypes.h>

#include "cli/command.h"
#include "core/text.h"
#include "report/table.h"

struct settings {
  struct pz_common common;
};

static const struct settings defaults;

static const struct pz_option options[] = {PZ_COMMON_OPTIONS(struct settings)};

static json_t *model_json(const struct pz_workload *w, const char *hub) {
  json_t *o = json_object();
  json_object_set_new(o, "name", json_string(w->model));
  json_object_set_new(o, "hugging_face", hub ? json_string(hub) : json_null());
  json_object_set_new(o, "family", json_string(w->family));
  const struct {
    const char *key;
    int64_t value;
  } field[] = {
      {"layers", w->options.num_layers}, {"hidden", w->hidden},   {"heads", w->heads},
      {"kv_heads", w->kv_heads},         {"ffn", w->ffn},         {"vocab", w->vocab},
      {"positions", w->positions},       {"seq", w->options.seq}, {"params", w->totals.params}};
  for (size_t i = 0; i < sizeof field / sizeof *field; i++)
    json_object_set_new(o, field[i].key, json_integer(field[i].value));
  return o;
}

static void model_row(struct pz_table *t, const struct pz_workload *w, const char *hub) {
  char params[32];
  pz_table_cell(t, "%s", w->model);
  pz_table_cell(t, "%s", w->family);
  const int64_t number[] = {
      w->options.num_layers, w->hidden, w->heads, w->kv_heads, w->ffn, w->vocab, w->options.seq};
  for (size_t i = 0; i < sizeof number / sizeof *number; i++)
    pz_table_cell(t, "%" PRId64, number[i]);
  pz_table_cell(t, "%s", pz_text_count(params, sizeof params, w->totals.params));
  pz_table_cell(t, "%s", hub ? hub : "");
}

static enum pz_status list(struct pz_table *t, json_t *models, struct pz_error *err) {
  for (size_t i = 0; pz_preset_name(i); i++) {
    struct pz_workload_options o = pz_workload_options_default();
    struct pz_workload *w = NULL;
    enum pz_status status = pz_workload_load(pz_preset_name(i), &o, &w, err);
    if (status != PZ_OK) return status;
    model_row(t, w, pz_preset_hub_name(i));
    json_array_append_new(models, model_json(w, pz_preset_hub_name(i)));
    pz_workload_free(w);
  }
  return PZ_OK;
}

static enum pz_status print(bool as_json, struct pz_error *err) {
  static const char *const heads[] = {"model",  "family",  ">layers",      ">hidden",
                                      ">heads", ">kv",     ">ffn",         ">vocab",
                                      ">seq",   ">params", "Hugging Face", NULL};
  struct pz_arena arena;
  struct pz_table t;
  json_t *models = json_array();
  pz_arena_init(&arena, NULL);
  pz_table_init(&t, &arena, heads);
  enum pz_status status = list(&t, models, err);
  json_t *root = json_pack("{s:o}", "models", models);
  if (status == PZ_OK && as_json) status = pz_command_json(json_incref(root), err);
  if (status == PZ_OK && !as_json) status = pz_table_print(&t, 0, stdout);
  json_decref(root);
  pz_arena_release(&arena);
  return status;
}

static enum pz_exit run(int argc, char **argv) {
  struct settings s = defaults;
  struct pz_long_call call;
  if (!pz_call_begin(&call, &pz_cmd_models, argc, argv, &s)) return call.code;
  return pz_call_end(&call, print(s.common.json, &call.err));
}

const struct pz_command pz_cmd_models = {
    .name = "models",
    .synopsis = "[--json]",
    .summary = "List the built-in models",
    .detail = "Columns: kv is the number of key/value heads, ffn the feed-forward width, seq\n"
              "the default sequence length (tokens); params counts tied embeddings once.\n"
              "Names are taken in any case of letters; that of Hugging Face names the model too,\n"
              "unless a file of that path exists.\n"
              "\n"
              "Examples:\n"
              "  phaze models\n"
              "  phaze models --json\n",
    .table = {options, sizeof options / sizeof *options},
    .defaults = &defaults,
    .run = run,
};
