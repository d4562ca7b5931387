/* phaze graph: prints the layers of a model with their operators, forward and backward, and the totals of the model; or the
 * same as JSON or in Graphviz format. */
#include <inttypes.h>

#include "cli/owned.h"
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

/* ---- operators ------------------------------------------------------------------------------ */

static const char *predecessors_text(const struct pz_op *op, char *buf, size_t size) {
  enum { LONGEST_NUMBER = 12 };
  size_t used = 0;
  buf[0] = '\0';
  for (uint32_t p = 0; p < op->n_pred && used + LONGEST_NUMBER < size; p++)
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

static void si_cell(struct pz_table *t, int64_t value, const char *unit) {
  char text[32];
  pz_table_cell(t, "%s", pz_text_si(text, sizeof text, (double)value, unit));
}

static void print_operators(struct pz_call *call, const struct pz_ops *ops, const char *title) {
  static const char *const heads[] = {">id",    "operator", "class",    ">b x m x n x k", ">work",
                                      ">reads", ">writes",  ">weights", "after",          NULL};
  struct pz_call scratch = pz_scratch(call);
  struct pz_table *t = pz_table_new(&scratch, heads);
  for (uint32_t i = 0; i < ops->n; i++) {
    const struct pz_op *op = &ops->op[i];
    char after[96];
    pz_table_cell(t, "%" PRIu32, i);
    pz_table_cell(t, "%s", op->name);
    pz_table_cell(t, "%s", pz_op_class_name(op->op_class));
    dims_cell(t, op);
    si_cell(t, op->flop, "FLOP");
    si_cell(t, op->bytes_read, "B");
    si_cell(t, op->bytes_written, "B");
    si_cell(t, op->weight_bytes, "B");
    pz_table_cell(t, "%s", predecessors_text(op, after, sizeof after));
  }
  printf("\n  %s\n", title);
  pz_table_print(t, 2, stdout);
  pz_scratch_end(&scratch);
}

/* ---- layers --------------------------------------------------------------------------------- */

/* Prints ", reads first and block-1" unless the only input of a layer is the layer before it. */
static void print_layer_inputs(const struct pz_workload *w, uint32_t i) {
  const struct pz_layer *l = &w->layers[i];
  bool only_previous = l->n_from == 1 && l->from[0] + 1 == i;
  if (i == 0 || only_previous) return;
  if (!l->n_from) printf(", reads the model's inputs");
  for (uint32_t k = 0; k < l->n_from; k++)
    printf("%s%s", k ? " and " : ", reads ", w->layers[l->from[k]].name);
}

static void print_layer(struct pz_call *call, const struct pz_workload *w, uint32_t i) {
  const struct pz_layer *l = &w->layers[i];
  bool last = i + 1 == w->n_layers;
  char params[32], saved[32], out[32];
  printf("\n%s x%" PRId64 ": %s parameters, %s saved for backward", l->name, l->count,
         pz_text_count(params, sizeof params, l->params),
         pz_text_si(saved, sizeof saved, (double)l->activation_bytes, "B"));
  if (!last)
    printf(", %s to the next layer", pz_text_si(out, sizeof out, (double)l->output_bytes, "B"));
  print_layer_inputs(w, i);
  printf("\n");
  print_operators(call, &l->ops[PZ_FORWARD], "forward");
  print_operators(call, &l->ops[PZ_BACKWARD], "backward");
}

/* ---- the whole model ------------------------------------------------------------------------ */

static void print_total(const char *label, int64_t value, const char *unit) {
  char exact[32], rounded[32];
  printf("  %-22s %26s", label, pz_text_count(exact, sizeof exact, value));
  printf("  %s\n", pz_text_si(rounded, sizeof rounded, (double)value, unit));
}

static void print_totals(const struct pz_workload *w) {
  const struct pz_totals *t = &w->totals;
  const struct pz_workload_options *o = &w->options;
  bool divided = o->tp > 1 || o->ep > 1 || o->etp > 1 || o->cp > 1;
  printf("\ntotals%s\n", divided ? " per device" : "");
  print_total("parameters", t->params, "");
  if (divided) print_total("  of the whole model", t->model_params, "");
  if (o->lora.rank) print_total("  trained, of the model", t->model_trained_params, "");
  print_total("parameter bytes", t->param_bytes, "B");
  print_total("forward", t->forward_flop, "FLOP");
  print_total("  matrix products", t->matmul_forward_flop, "FLOP");
  print_total("backward", t->backward_flop, "FLOP");
  print_total("  matrix products", t->matmul_backward_flop, "FLOP");
  print_total("saved for backward", t->activation_bytes, "B");
  print_total("peak memory of a step", t->peak_bytes, "B");
}

/* Prints the layers that were detected in a model that does not name them: "first, block x 12, last". */
static void print_detected_layers(const struct pz_workload *w) {
  printf("%s (%s): detected layers ", w->model, w->family);
  for (uint32_t i = 0; i < w->n_layers; i++) {
    const struct pz_layer *l = &w->layers[i];
    printf("%s%s", i ? ", " : "", l->name);
    if (l->count > 1) printf(" x %" PRId64, l->count);
  }
  printf("; %" PRId64 " output%s per row\n", w->vocab, pz_text_s((double)w->vocab));
}

/* Prints "order: embedding, 8 x (block_window, ..., block_full), head" if layers of different kinds alternate. */
static void print_layer_order(const struct pz_workload *w) {
  bool alternate = false;
  for (uint32_t i = 0; i < w->n_order; i++)
    if (w->order[i].n_unit > 1) alternate = true;
  if (!alternate) return;
  for (uint32_t i = 0; i < w->n_order; i++) {
    const struct pz_segment *s = &w->order[i];
    bool several = s->n_unit > 1;
    printf("%s", i ? ", " : "order: ");
    if (s->repeats > 1) printf("%" PRId64 " x ", s->repeats);
    if (several) printf("(");
    for (uint32_t k = 0; k < s->n_unit; k++)
      printf("%s%s", k ? ", " : "", w->layers[s->unit[k]].name);
    if (several) printf(")");
  }
  printf("\n");
}

static void print_workload(struct pz_call *call, const struct pz_workload *w) {
  const struct pz_workload_options *o = &w->options;
  char context[64], active[32];
  if (w->heads)
    printf("%s (%s): %" PRId64 " layer%s, hidden %" PRId64 ", %" PRId64
           " head%s, vocabulary %" PRId64 "\n",
           w->model, w->family, o->num_layers, pz_text_s((double)o->num_layers), w->hidden,
           w->heads, pz_text_s((double)w->heads), w->vocab);
  else
    print_detected_layers(w);
  printf("sequence %" PRId64 ", microbatch %" PRId64 ", tensor parallel %" PRId64
         "%s%s, %s kernels, %s attention",
         o->seq, o->mbs, o->tp, o->sequence_parallel ? " with sequence parallelism" : "",
         pz_workload_context(o, context, sizeof context), pz_kernels_names[o->kernels],
         pz_attention_names[o->attention]);
  printf("%s\n", o->recompute == PZ_RECOMPUTE_FULL ? ", activations recomputed" : "");
  if (w->experts)
    printf("%" PRId64 " experts, %" PRId64 " of a token; expert parallel %" PRId64
           ", each expert over %" PRId64 " device%s; %s active parameters\n",
           w->experts, w->experts_per_token, o->ep, o->etp, pz_text_s((double)o->etp),
           pz_text_count(active, sizeof active, w->totals.active_params));
  print_layer_order(w);
  for (uint32_t i = 0; i < w->n_layers; i++) print_layer(call, w, i);
  print_totals(w);
}

static void show_graph(struct pz_call *call, struct pz_invocation *in) {
  struct settings s = defaults;
  struct pz_workload *w = NULL;
  char *text = NULL;
  if (!pz_command_options(call, in, &s)) return;
  if (s.common.json && s.dot) pz_command_refuse(call, in, "--json and --dot cannot be combined");
  pz_must(call, pz_workload_load(in->args[0], &s.w, &w, pz_call_error(call)));
  pz_defer(call, pz_free_workload, w);
  pz_command_warn(s.common.quiet, w->warning);
  if (!s.common.json && !s.dot) {
    print_workload(call, w);
    return;
  }
  enum pz_workload_form form = s.dot ? PZ_WORKLOAD_DOT : PZ_WORKLOAD_JSON;
  pz_must(call, pz_workload_text(w, form, &text, pz_call_error(call)));
  pz_defer(call, pz_free_text, text);
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
    .table = {options, sizeof options / sizeof *options},
    .defaults = &defaults,
    .n_args = 1,
    .argument = "MODEL",
    .body = show_graph,
};
