/* phaze models: lists the built-in models with their sizes. */
#include <inttypes.h>

#include "cli/command.h"
#include "cli/owned.h"
#include "core/text.h"
#include "report/table.h"

struct settings {
  struct pz_common common;
};

static const struct settings defaults;

static const struct pz_option option_table[] = {PZ_COMMON_OPTIONS(struct settings)};

static void list_models(struct pz_call *call, struct pz_invocation *invocation) {
  static const char *const heads[] = {"model",  "family",  ">layers",      ">hidden",
                                      ">heads", ">kv",     ">ffn",         ">vocab",
                                      ">seq",   ">params", "Hugging Face", NULL};
  struct settings settings = defaults;
  if (!pz_command_options(call, invocation, &settings)) return;
  struct pz_table *table = pz_table_with(call, heads);
  json_t *models = pz_json_built(call, json_array());
  for (size_t i = 0; pz_preset_name(i); i++) {
    struct pz_workload_options options = pz_workload_options_default();
    struct pz_workload *model = NULL;
    const char *hub_name = pz_preset_hub_name(i);
    char params[32];
    pz_must(call, pz_workload_load(pz_preset_name(i), &options, &model, pz_call_error(call)));
    pz_defer(call, pz_free_workload, model);
    int64_t n_layers = model->options.num_layers, seq = model->options.seq;
    int64_t n_params = model->totals.params;
    pz_table_cells(table,
                   "%s|%s|%" PRId64 "|%" PRId64 "|%" PRId64 "|%" PRId64 "|%" PRId64 "|%" PRId64
                   "|%" PRId64 "|%s|%s",
                   model->model, model->family, n_layers, model->hidden, model->heads,
                   model->kv_heads, model->ffn, model->vocab, seq,
                   pz_text_count(params, sizeof params, n_params), hub_name ? hub_name : "");
    json_array_append_new(
        models,
        json_pack("{s:s,s:s?,s:s,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I}", "name", model->model,
                  "hugging_face", hub_name, "family", model->family, "layers", (json_int_t)n_layers,
                  "hidden", (json_int_t)model->hidden, "heads", (json_int_t)model->heads,
                  "kv_heads", (json_int_t)model->kv_heads, "ffn", (json_int_t)model->ffn, "vocab",
                  (json_int_t)model->vocab, "positions", (json_int_t)model->positions, "seq",
                  (json_int_t)seq, "params", (json_int_t)n_params));
    pz_close(call, model);
  }
  if (settings.common.json)
    pz_command_print_json(call, json_pack("{s:O}", "models", models));
  else
    pz_table_print(table, 0, stdout);
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
    .table = {option_table, sizeof option_table / sizeof *option_table},
    .defaults = &defaults,
    .body = list_models,
};
