/* phaze models: lists the built-in models with their sizes. */
#include <inttypes.h>

#include "cli/workload_options.h"
#include "core/text.h"
#include "report/records.h"
#include "report/table.h"

struct settings {
  struct pz_common common;
};

static const struct settings defaults;

static const struct pz_option option_table[] = {PZ_COMMON_OPTIONS(struct settings)};

/* Loads every built-in model and prints a row with its sizes. */
static void list_models(struct pz_call *call, struct pz_invocation *invocation) {
  static const char *const heads[] = {"model",  "family",  ">layers",      ">hidden",
                                      ">heads", ">kv",     ">ffn",         ">vocab",
                                      ">seq",   ">params", "Hugging Face", NULL};
  struct settings settings = defaults;
  if (!pz_command_options(call, invocation, &settings)) return;
  struct pz_table *table = pz_table_with(call, heads);
  struct pz_vec models; /* struct pz_listed_model */
  pz_vec_init(&models, call->arena, sizeof(struct pz_listed_model));
  for (size_t i = 0; pz_preset_name(i); i++) {
    struct pz_workload_options options = pz_workload_options_default();
    struct pz_workload *model = NULL;
    char params[32];
    pz_must(call, pz_workload_load(pz_preset_name(i), &options, &model, pz_call_error(call)));
    pz_defer(call, pz_free_workload, model);
    const struct pz_listed_model row = {.name = pz_copy_text(call, model->model),
                                        .hugging_face = pz_preset_hub_name(i),
                                        .family = pz_copy_text(call, model->family),
                                        .layers = model->options.num_layers,
                                        .hidden = model->hidden,
                                        .heads = model->heads,
                                        .kv_heads = model->kv_heads,
                                        .ffn = model->ffn,
                                        .vocab = model->vocab,
                                        .positions = model->positions,
                                        .seq = model->options.seq,
                                        .params = model->totals.params};
    pz_append(call, &models, &row);
    pz_table_cells(table,
                   "%s|%s|%" PRId64 "|%" PRId64 "|%" PRId64 "|%" PRId64 "|%" PRId64 "|%" PRId64
                   "|%" PRId64 "|%s|%s",
                   row.name, row.family, row.layers, row.hidden, row.heads, row.kv_heads, row.ffn,
                   row.vocab, row.seq, pz_text_count(params, sizeof params, row.params),
                   row.hugging_face ? row.hugging_face : "");
    pz_close(call, model);
  }
  const struct pz_listed_models list = {models.items, models.n};
  if (settings.common.json)
    pz_command_print_json(call, pz_record_json(&pz_listed_models_record, &list));
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
