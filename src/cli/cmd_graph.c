/* phaze graph: prints the layers of a model with their operators, forward and backward, and the
 * totals of the model; or the same as JSON or in Graphviz format. */
#include <inttypes.h>

#include "cli/workload_options.h"
#include "core/alloc.h"
#include "core/text.h"
#include "report/table.h"

struct settings {
  struct pz_common common;
  bool dot;
  struct pz_workload_options workload;
};

static const struct settings defaults = {.workload = PZ_WORKLOAD_DEFAULTS};

/* clang-format off */
static const struct pz_option option_table[] = {
    PZ_COMMON_OPTIONS(struct settings),
    PZ_FLAG_OPTION("dot", offsetof(struct settings, dot), "Print the graph in Graphviz format"),
    PZ_WORKLOAD_OPTIONS(struct settings, workload),
};
/* clang-format on */

/* ---- operators ------------------------------------------------------------------------------ */

/* Prints the operators of one pass of a layer as a table below the title. */
static void print_operators(struct pz_call *call, const struct pz_ops *ops, const char *title) {
  enum { LONGEST_NUMBER = 12 }; /* of an index with its comma */
  struct pz_call scratch = pz_scratch(call);
  struct pz_table *table = pz_table_new(
      &scratch, ">id|operator|class|>b x m x n x k|>work|>reads|>writes|>weights|after");
  for (uint32_t i = 0; i < ops->n; i++) {
    const struct pz_op *op = &ops->op[i];
    char after[96] = "", flop[32], read[32], written[32], weights[32];
    pz_table_cells(table, "%" PRIu32 "|%s|%s", i, op->name, pz_op_class_name(op->op_class));
    /* The dimensions are b x m x n x k of a GEMM, otherwise rows x columns. */
    const struct pz_dims *dims = &op->dims;
    if (op->matmul_flop)
      pz_table_cell(table, "%" PRId64 " x %" PRId64 " x %" PRId64 " x %" PRId64, dims->batch,
                    dims->m, dims->n, dims->k);
    else if (op->op_class == PZ_CLASS_NONE)
      pz_table_cell(table, "%s", "");
    else
      pz_table_cell(table, "%" PRId64 " x %" PRId64, dims->m, dims->n);
    size_t n_after = 0; /* characters of the indices of the predecessors, as many as fit */
    for (uint32_t k = 0; k < op->n_pred && n_after + LONGEST_NUMBER < sizeof after; k++)
      n_after += (size_t)snprintf(after + n_after, sizeof after - n_after, "%s%" PRIu32,
                                  k ? "," : "", op->pred[k]);
    pz_table_cells(table, "%s|%s|%s|%s|%s", pz_text_si(flop, sizeof flop, (double)op->flop, "FLOP"),
                   pz_text_si(read, sizeof read, (double)op->bytes_read, "B"),
                   pz_text_si(written, sizeof written, (double)op->bytes_written, "B"),
                   pz_text_si(weights, sizeof weights, (double)op->weight_bytes, "B"), after);
  }
  printf("\n  %s\n", title);
  pz_table_print(table, 2, stdout);
  pz_scratch_end(&scratch);
}

/* ---- layers --------------------------------------------------------------------------------- */

/* Prints the sizes and inputs of a layer, then its operators of both passes. */
static void print_layer(struct pz_call *call, const struct pz_workload *workload, uint32_t i) {
  const struct pz_layer *layer = &workload->layers[i];
  char params[32], saved[32], output[32];
  printf("\n%s x%" PRId64 ": %s parameters, %s saved for backward", layer->name, layer->count,
         pz_text_count(params, sizeof params, layer->params),
         pz_text_si(saved, sizeof saved, (double)layer->activation_bytes, "B"));
  if (i + 1 < workload->n_layers)
    printf(", %s to the next layer",
           pz_text_si(output, sizeof output, (double)layer->output_bytes, "B"));
  /* Names the inputs of the layer, unless its only input is the previous layer. */
  bool only_previous = layer->n_from == 1 && layer->from[0] + 1 == i;
  if (i > 0 && !only_previous) {
    if (!layer->n_from) printf(", reads the model's inputs");
    for (uint32_t k = 0; k < layer->n_from; k++)
      printf("%s%s", k ? " and " : ", reads ", workload->layers[layer->from[k]].name);
  }
  printf("\n");
  print_operators(call, &layer->ops[PZ_FORWARD], "forward");
  print_operators(call, &layer->ops[PZ_BACKWARD], "backward");
}

/* ---- the whole model ------------------------------------------------------------------------ */

/* Prints a sum over the model, exactly and rounded with an SI prefix. */
static void print_total(const char *label, int64_t value, const char *unit) {
  char exact[32], rounded[32];
  printf("  %-22s %26s", label, pz_text_count(exact, sizeof exact, value));
  printf("  %s\n", pz_text_si(rounded, sizeof rounded, (double)value, unit));
}

/* Prints parameters, FLOP and bytes of the whole model, per device if it is divided. */
static void print_totals(const struct pz_workload *workload) {
  const struct pz_totals *totals = &workload->totals;
  const struct pz_workload_options *options = &workload->options;
  bool divided = options->tp > 1 || options->ep > 1 || options->etp > 1 || options->cp > 1;
  printf("\ntotals%s\n", divided ? " per device" : "");
  print_total("parameters", totals->params, "");
  if (divided) print_total("  of the whole model", totals->model_params, "");
  if (options->lora.rank) print_total("  trained, of the model", totals->model_trained_params, "");
  print_total("parameter bytes", totals->param_bytes, "B");
  print_total("forward", totals->forward_flop, "FLOP");
  print_total("  matrix products", totals->matmul_forward_flop, "FLOP");
  print_total("backward", totals->backward_flop, "FLOP");
  print_total("  matrix products", totals->matmul_backward_flop, "FLOP");
  print_total("saved for backward", totals->activation_bytes, "B");
  print_total("peak memory of a step", totals->peak_bytes, "B");
}

/* Prints "order: embedding, 8 x (block_window, ..., block_full), head" if layers of different
 * kinds alternate. */
static void print_layer_order(const struct pz_workload *workload) {
  bool alternate = false;
  for (uint32_t i = 0; i < workload->n_order; i++)
    if (workload->order[i].n_unit > 1) alternate = true;
  if (!alternate) return;
  for (uint32_t i = 0; i < workload->n_order; i++) {
    const struct pz_segment *segment = &workload->order[i];
    bool several = segment->n_unit > 1;
    printf("%s", i ? ", " : "order: ");
    if (segment->repeats > 1) printf("%" PRId64 " x ", segment->repeats);
    if (several) printf("(");
    for (uint32_t k = 0; k < segment->n_unit; k++)
      printf("%s%s", k ? ", " : "", workload->layers[segment->unit[k]].name);
    if (several) printf(")");
  }
  printf("\n");
}

/* Prints the model and its options, then its layers with their operators, and the totals. */
static void print_workload(struct pz_call *call, const struct pz_workload *workload) {
  const struct pz_workload_options *options = &workload->options;
  char context[64], active[32];
  if (workload->heads)
    printf("%s (%s): %" PRId64 " layer%s, hidden %" PRId64 ", %" PRId64
           " head%s, vocabulary %" PRId64 "\n",
           workload->model, workload->family, options->num_layers,
           pz_text_s((double)options->num_layers), workload->hidden, workload->heads,
           pz_text_s((double)workload->heads), workload->vocab);
  else {
    /* Prints the detected layers of a model without names: "first, block x 12, last". */
    printf("%s (%s): detected layers ", workload->model, workload->family);
    for (uint32_t i = 0; i < workload->n_layers; i++) {
      const struct pz_layer *layer = &workload->layers[i];
      printf("%s%s", i ? ", " : "", layer->name);
      if (layer->count > 1) printf(" x %" PRId64, layer->count);
    }
    printf("; %" PRId64 " output%s per row\n", workload->vocab, pz_text_s((double)workload->vocab));
  }
  printf("sequence %" PRId64 ", microbatch %" PRId64 ", tensor parallel %" PRId64
         "%s%s, %s kernels, %s attention",
         options->seq, options->mbs, options->tp,
         options->sequence_parallel ? " with sequence parallelism" : "",
         pz_workload_context(options, context, sizeof context), pz_kernels_names[options->kernels],
         pz_attention_names[options->attention]);
  printf("%s\n", options->recompute == PZ_RECOMPUTE_FULL ? ", activations recomputed" : "");
  if (workload->experts)
    printf("%" PRId64 " experts, %" PRId64 " of a token; expert parallel %" PRId64
           ", each expert over %" PRId64 " device%s; %s active parameters\n",
           workload->experts, workload->experts_per_token, options->ep, options->etp,
           pz_text_s((double)options->etp),
           pz_text_count(active, sizeof active, workload->totals.active_params));
  print_layer_order(workload);
  for (uint32_t i = 0; i < workload->n_layers; i++) print_layer(call, workload, i);
  print_totals(workload);
}

/* Prints the graph of a model as text, or as JSON or Graphviz if an option asks for it. */
static void show_graph(struct pz_call *call, struct pz_invocation *invocation) {
  struct settings settings = defaults;
  if (!pz_command_options(call, invocation, &settings)) return;
  bool json = settings.common.json, dot = settings.dot;
  if (json && dot) pz_command_refuse(call, invocation, "--json and --dot cannot be combined");
  const struct pz_workload *workload =
      pz_workload_open(call, invocation->args[0], &settings.workload, settings.common.quiet);
  if (!json && !dot) {
    print_workload(call, workload);
    return;
  }
  enum pz_workload_form form = dot ? PZ_WORKLOAD_DOT : PZ_WORKLOAD_JSON;
  char *text = NULL;
  pz_must(call, pz_workload_text(workload, form, &text, pz_call_error(call)));
  pz_defer(call, pz_free, text);
  fputs(text, stdout);
}

const struct pz_command pz_cmd_graph = {
    .name = "graph",
    .synopsis = "MODEL [--seq S] [--mbs B] [--tp T] [--json | --dot] [options]",
    .summary = "Show the layers and operators of a model with FLOP, bytes and memory",
    .detail = "MODEL is a name listed by 'phaze models', or the path of a Hugging Face\n"
              "config.json or of an ONNX file (the weights may be missing; layers are detected\n"
              "in the graph). Every distinct layer is shown once with its count, forward and\n"
              "backward, for one microbatch on one device. FLOP and byte counts are exact.\n"
              "\n"
              "Examples:\n"
              "  phaze graph gpt2-xl --mbs 4\n"
              "  phaze graph ./config.json --tp 8 --sp --json\n"
              "  phaze graph model.onnx --dim batch=8 --dim seq=512\n",
    .table = {option_table, sizeof option_table / sizeof *option_table},
    .defaults = &defaults,
    .n_args = 1,
    .argument = "MODEL",
    .body = show_graph,
};
