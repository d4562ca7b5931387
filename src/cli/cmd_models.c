/* phaze models: lists the built-in models with their sizes. */
#include <inttypes.h>

#include "cli/command.h"
#include "core/text.h"
#include "report/table.h"

struct settings {
  struct pz_common common;
};

static const struct settings defaults;

static const struct pz_option options[] = {PZ_COMMON_OPTIONS(struct settings)};

static json_t *model_json(const struct pz_workload *w, const char *hub_name) {
  const struct {
    const char *key;
    int64_t value;
  } sizes[] = {
      {"layers", w->options.num_layers}, {"hidden", w->hidden},   {"heads", w->heads},
      {"kv_heads", w->kv_heads},         {"ffn", w->ffn},         {"vocab", w->vocab},
      {"positions", w->positions},       {"seq", w->options.seq}, {"params", w->totals.params}};
  json_t *o =
      json_pack("{s:s,s:s?,s:s}", "name", w->model, "hugging_face", hub_name, "family", w->family);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    json_object_set_new(o, sizes[i].key, json_integer(sizes[i].value));
  return o;
}

static void append_model(struct pz_table *t, const struct pz_workload *w, const char *hub_name) {
  char params[32];
  const int64_t sizes[] = {
      w->options.num_layers, w->hidden, w->heads, w->kv_heads, w->ffn, w->vocab, w->options.seq};
  pz_table_cell(t, "%s", w->model);
  pz_table_cell(t, "%s", w->family);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) pz_table_cell(t, "%" PRId64, sizes[i]);
  pz_table_cell(t, "%s", pz_text_count(params, sizeof params, w->totals.params));
  pz_table_cell(t, "%s", hub_name ? hub_name : "");
}

static void list_models(struct pz_call *call, struct pz_invocation *in) {
  static const char *const heads[] = {"model",  "family",  ">layers",      ">hidden",
                                      ">heads", ">kv",     ">ffn",         ">vocab",
                                      ">seq",   ">params", "Hugging Face", NULL};
  struct settings s = defaults;
  if (!pz_command_options(call, in, &s)) return;
  struct pz_table *t = pz_table_new(call, heads);
  json_t *models = pz_json_built(call, json_array());
  for (size_t i = 0; pz_preset_name(i); i++) {
    struct pz_workload_options o = pz_workload_options_default();
    struct pz_workload *w = NULL;
    pz_must(call, pz_workload_load(pz_preset_name(i), &o, &w, pz_call_error(call)));
    append_model(t, w, pz_preset_hub_name(i));
    json_array_append_new(models, model_json(w, pz_preset_hub_name(i)));
    pz_workload_free(w);
  }
  if (s.common.json)
    pz_command_print_json(call, json_pack("{s:O}", "models", models));
  else
    pz_table_print(t, 0, stdout);
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
    .body = list_models,
};
