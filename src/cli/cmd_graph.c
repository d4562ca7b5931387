/* phaze graph: the layers and operators of a model. */
#include <inttypes.h>
#include <stdlib.h>

#include "cli/workload_options.h"
#include "core/text.h"
#include "report/table.h"

struct settings {
  struct pz_common common;
  bool dot;
  struct pz_workload_options w;
};

static const struct settings defaults = {.w = PZ_WORKLOAD_DEFAULTS};

/* clang-format off */
static const struct pz_option options[] = {
    PZ_COMMON_OPTIONS(struct settings),
    {.name = "dot", .type = PZ_OPTION_FLAG, .offset = offsetof(struct settings, dot),
     .help = "Print the graph in Graphviz format"},
    PZ_WORKLOAD_OPTIONS(struct settings, w),
};
/* clang-format on */

static const char *join_preds(const struct pz_op *op, char *buf, size_t size) {
  size_t used = 0;
  buf[0] = '\0';
  for (uint32_t p = 0; p < op->n_pred && used + 12 < size; p++)
    used += (size_t)snprintf(buf + used, size - used, "%s%" PRIu32, p ? "," : "", op->pred[p]);
  return buf;
}

static void dims_cell(struct pz_table *t, const struct pz_op *op) {
  const struct pz_dims *d = &op->dims;
  if (op->matmul_flop)
    pz_table_cell(t, "%" PRId64 " x %" PRId64 " x %" PRId64 " x %" PRId64, d->batch, d->m, d->n,
                  d->k);
  else if (op->op_class == PZ_CLASS_NONE)
    pz_table_cell(t, "%s", "");
  else
    pz_table_cell(t, "%" PRId64 " x %" PRId64, d->m, d->n);
}

static void op_rows(struct pz_table *t, const struct pz_ops *ops) {
  for (uint32_t i = 0; i < ops->n; i++) {
    const struct pz_op *op = &ops->op[i];
    char flop[32], read[32], written[32], weights[32], preds[96];
    pz_table_cell(t, "%" PRIu32, i);
    pz_table_cell(t, "%s", op->name);
    pz_table_cell(t, "%s", pz_op_class_name(op->op_class));
    dims_cell(t, op);
    pz_table_cell(t, "%s", pz_text_si(flop, sizeof flop, (double)op->flop, "FLOP"));
    pz_table_cell(t, "%s", pz_text_si(read, sizeof read, (double)op->bytes_read, "B"));
    pz_table_cell(t, "%s", pz_text_si(written, sizeof written, (double)op->bytes_written, "B"));
    pz_table_cell(t, "%s", pz_text_si(weights, sizeof weights, (double)op->weight_bytes, "B"));
    pz_table_cell(t, "%s", join_preds(op, preds, sizeof preds));
  }
}

static enum pz_status print_ops(const struct pz_ops *ops, const char *title) {
  static const char *const heads[] = {">id",    "operator", "class",    ">b x m x n x k", ">work",
                                      ">reads", ">writes",  ">weights", "after",          NULL};
  struct pz_arena arena;
  struct pz_table t;
  pz_arena_init(&arena, NULL);
  pz_table_init(&t, &arena, heads);
  op_rows(&t, ops);
  printf("\n  %s\n", title);
  enum pz_status status = pz_table_print(&t, 2, stdout);
  pz_arena_release(&arena);
  return status;
}

/* ", reads first and block-1": where that is not just the layer before. */
static void print_sources(const struct pz_workload *w, uint32_t i) {
  const struct pz_layer *l = &w->layers[i];
  if (i == 0 || (l->n_from == 1 && l->from[0] + 1 == i)) return;
  if (!l->n_from) printf(", reads the model's inputs");
  for (uint32_t k = 0; k < l->n_from; k++)
    printf("%s%s", k ? " and " : ", reads ", w->layers[l->from[k]].name);
}

static enum pz_status print_layer(const struct pz_workload *w, uint32_t i) {
  const struct pz_layer *l = &w->layers[i];
  bool last = i + 1 == w->n_layers;
  char params[32], kept[32], out[32];
  printf("\n%s x%" PRId64 ": %s parameters, %s saved for backward", l->name, l->count,
         pz_text_count(params, sizeof params, l->params),
         pz_text_si(kept, sizeof kept, (double)l->activation_bytes, "B"));
  if (!last)
    printf(", %s to the next layer", pz_text_si(out, sizeof out, (double)l->output_bytes, "B"));
  print_sources(w, i);
  printf("\n");
  enum pz_status status = print_ops(&l->ops[PZ_FORWARD], "forward");
  return status == PZ_OK ? print_ops(&l->ops[PZ_BACKWARD], "backward") : status;
}

static void print_total(const char *label, int64_t value, const char *unit) {
  char exact[32], rounded[32];
  printf("  %-22s %26s", label, pz_text_count(exact, sizeof exact, value));
  printf("  %s\n", pz_text_si(rounded, sizeof rounded, (double)value, unit));
}

static void print_totals(const struct pz_workload *w) {
  const struct pz_totals *t = &w->totals;
  const struct pz_workload_options *o = &w->options;
  bool part = o->tp > 1 || o->ep > 1 || o->etp > 1 || o->cp > 1;
  printf("\ntotals%s\n", part ? " per device" : "");
  print_total("parameters", t->params, "");
  if (part) print_total("  of the whole model", t->model_params, "");
  if (o->lora.rank) print_total("  trained, of the model", t->model_trained_params, "");
  print_total("parameter bytes", t->param_bytes, "B");
  print_total("forward", t->forward_flop, "FLOP");
  print_total("  matrix products", t->matmul_forward_flop, "FLOP");
  print_total("backward", t->backward_flop, "FLOP");
  print_total("  matrix products", t->matmul_backward_flop, "FLOP");
  print_total("saved for backward", t->activation_bytes, "B");
  print_total("peak memory of a step", t->peak_bytes, "B");
}

/* Layers detected in a model that does not name them: "first, block x 12, last". */
static void print_found(const struct pz_workload *w) {
  printf("%s (%s): detected layers ", w->model, w->family);
  for (uint32_t i = 0; i < w->n_layers; i++) {
    const struct pz_layer *l = &w->layers[i];
    printf("%s%s", i ? ", " : "", l->name);
    if (l->count > 1) printf(" x %" PRId64, l->count);
  }
  printf("; %" PRId64 " output%s per row\n", w->vocab, pz_text_s((double)w->vocab));
}

static void print_experts(const struct pz_workload *w) {
  char active[32];
  if (!w->experts) return;
  printf("%" PRId64 " experts, %" PRId64 " of a token; expert parallel %" PRId64
         ", each expert over %" PRId64 " device%s; %s active parameters\n",
         w->experts, w->experts_per_token, w->options.ep, w->options.etp,
         pz_text_s((double)w->options.etp),
         pz_text_count(active, sizeof active, w->totals.active_params));
}

/* "order: embedding, 8 x (block_window, ..., block_full), head", where layers alternate. */
static void print_order(const struct pz_workload *w) {
  bool alternate = false;
  for (uint32_t i = 0; i < w->n_order; i++) alternate = alternate || w->order[i].n_unit > 1;
  for (uint32_t i = 0; i < w->n_order && alternate; i++) {
    const struct pz_segment *s = &w->order[i];
    printf("%s", i ? ", " : "order: ");
    if (s->repeats > 1) printf("%" PRId64 " x ", s->repeats);
    for (uint32_t k = 0; k < s->n_unit; k++)
      printf("%s%s%s",
             k               ? ", "
             : s->n_unit > 1 ? "("
                             : "",
             w->layers[s->unit[k]].name, s->n_unit > 1 && k + 1 == s->n_unit ? ")" : "");
  }
  if (alternate) printf("\n");
}

static enum pz_status print_human(const struct pz_workload *w) {
  const struct pz_workload_options *o = &w->options;
  char context[64];
  if (w->heads)
    printf("%s (%s): %" PRId64 " layer%s, hidden %" PRId64 ", %" PRId64
           " head%s, vocabulary %" PRId64 "\n",
           w->model, w->family, o->num_layers, pz_text_s((double)o->num_layers), w->hidden,
           w->heads, pz_text_s((double)w->heads), w->vocab);
  else
    print_found(w);
  printf("sequence %" PRId64 ", microbatch %" PRId64 ", tensor parallel %" PRId64
         "%s%s, %s kernels, %s attention",
         o->seq, o->mbs, o->tp, o->sequence_parallel ? " with sequence parallelism" : "",
         pz_workload_context(o, context, sizeof context), pz_kernels_names[o->kernels],
         pz_attention_names[o->attention]);
  printf("%s\n", o->recompute == PZ_RECOMPUTE_FULL ? ", activations recomputed" : "");
  print_experts(w);
  print_order(w);
  for (uint32_t i = 0; i < w->n_layers; i++) {
    enum pz_status status = print_layer(w, i);
    if (status != PZ_OK) return status;
  }
  print_totals(w);
  return PZ_OK;
}

static enum pz_status show(const struct settings *s, const struct pz_workload *w,
                           struct pz_error *err) {
  char *text = NULL;
  pz_command_warn(s->common.quiet, w->warning);
  if (!s->common.json && !s->dot) return print_human(w);
  enum pz_status status =
      pz_workload_text(w, s->dot ? PZ_WORKLOAD_DOT : PZ_WORKLOAD_JSON, &text, err);
  if (status == PZ_OK) fputs(text, stdout);
  pz_text_free(text);
  return status;
}

static enum pz_exit run(int argc, char **argv) {
  struct settings s = defaults;
  struct pz_long_call call;
  struct pz_workload *w = NULL;
  if (!pz_call_begin(&call, &pz_cmd_graph, argc, argv, &s)) return call.code;
  if (s.common.json && s.dot)
    return pz_command_misuse(&pz_cmd_graph, "--json and --dot cannot be combined");
  enum pz_status status = pz_workload_load(argv[1], &s.w, &w, &call.err);
  if (status == PZ_OK) status = show(&s, w, &call.err);
  pz_workload_free(w);
  return pz_call_end(&call, status);
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
    .table = {options, sizeof options / sizeof *options},
    .defaults = &defaults,
    .n_args = 1,
    .argument = "MODEL",
    .run = run,
};
