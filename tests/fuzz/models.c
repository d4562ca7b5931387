/* Models: config.json as a workload and as a shape for launch scripts, ONNX files, the expression of their layers. */
#include <string.h>

#include "../unit/core_borders.h"
#include "core/alloc.h"
#include "core/file.h"
#include "fuzz.h"
#include "launch/launch.h"
#include "phaze/phaze.h"
#include "plan/plan_fill.h"
#include "unit/plan_borders.h"

/* Operators follow from those before them, and take and give no less than nothing. */
static void check_ops(const struct pz_workload *w) {
  for (uint32_t i = 0; i < w->n_layers; i++)
    for (int d = 0; d < 2; d++)
      for (uint32_t k = 0; k < w->layers[i].ops[d].n; k++) {
        const struct pz_op *op = &w->layers[i].ops[d].op[k];
        require(op->flop >= 0 && op->bytes_read >= 0 && op->bytes_written >= 0);
        for (uint32_t p = 0; p < op->n_pred; p++) require(op->pred[p] < k);
      }
}

static struct pz_workload_options vary(uint64_t h) {
  struct pz_workload_options o = pz_workload_options_default();
  o.kernels = h & 1 ? PZ_KERNELS_EAGER : PZ_KERNELS_FUSED;
  o.attention = h & 2 ? PZ_ATTENTION_FLASH : PZ_ATTENTION_STANDARD;
  o.recompute = h & 4 ? PZ_RECOMPUTE_FULL : PZ_RECOMPUTE_NONE;
  o.tp = 1 + (int64_t)(h >> 4) % 8;
  o.slice = (int64_t)(h >> 8) % o.tp;
  o.mbs = 1 + (h >> 12) % 4;
  o.seq = (h >> 16) % 3 ? 8 * ((h >> 18) % 64) : 0;
  return o;
}

void fuzz_config(const char *text, size_t bytes) {
  for (unsigned salt = 0; salt < 4; salt++) {
    uint64_t h = (uint32_t)hash(text, bytes, salt);
    struct pz_workload_options o = vary(h);
    struct pz_error err = {0};
    struct pz_workload *w = NULL;
    o.sequence_parallel = h & 8;
    o.ep = (int64_t)(h >> 24) % 3;
    o.etp = (int64_t)(h >> 26) % 3;
    o.mtp = (h >> 28) % 4 == 0;
    if ((h >> 30) & 1) o.num_layers = 1 + (int64_t)(h >> 20) % 40;
    if ((h >> 5) % 4 == 0) o.peft = "lora:16:attention+mlp";
    if (was_read(pz_workload_parse("fuzz", text, bytes, &o, &w, &err), &err)) {
      const struct pz_totals *t = &w->totals;
      require(w->n_layers >= 3 && t->params > 0 && t->param_bytes == 2 * t->params);
      require(t->model_params >= t->params && t->matmul_forward_flop > 0 && t->backward_flop > 0);
      require(t->activation_bytes > 0 && t->peak_bytes > t->param_bytes);
      int64_t layers = 0;
      for (uint32_t i = 0; i < w->n_order; i++) layers += w->order[i].n_unit * w->order[i].repeats;
      require(layers == t->layers && t->active_params <= t->model_params);
      check_ops(w);
    } else
      require(!w);
    pz_workload_free(w);
  }
}

static void parse_onnx(const void *data, size_t bytes, const struct pz_workload_options *o) {
  struct pz_error err = {0};
  struct pz_workload *w = NULL;
  if (was_read(pz_workload_parse_onnx("fuzz", data, bytes, o, &w, &err), &err)) {
    const struct pz_totals *t = &w->totals;
    require(w->n_layers >= 1 && t->params >= 0 && t->param_bytes == 2 * t->params);
    require(t->model_params >= t->params && t->matmul_forward_flop >= 0 && t->backward_flop >= 0);
    require(t->activation_bytes >= 0 && t->peak_bytes >= 0);
    check_ops(w);
  } else
    require(!w);
  pz_workload_free(w);
}

void fuzz_onnx(const char *text, size_t bytes) {
  for (unsigned salt = 0; salt < 2; salt++) {
    uint64_t h = (uint32_t)hash(text, bytes, salt);
    struct pz_workload_options o = vary(h);
    o.unknown_ops = h & 8 ? PZ_UNKNOWN_VECTOR : PZ_UNKNOWN_REFUSE;
    o.tp = salt ? 1 + (int64_t)(h >> 4) % 4 : 1;
    o.slice = (int64_t)(h >> 8) % o.tp;
    o.seq = (h >> 16) % 3 ? 8 * ((h >> 18) % 8) : 0;
    if (h & 1 << 24) o.layers = "n([0-9])";
    if (h & 1 << 25) o.dims[0] = "N=3";
    if (h & 1 << 26) o.batch_dim = "x:0";
    parse_onnx(text, bytes, &o);
  }
}

/* --layers, and the texts beside it: expression, dimension and input, a line each. */
void fuzz_layers(const char *text, size_t bytes) {
  static char *model;
  static size_t model_bytes;
  struct pz_workload_options o = pz_workload_options_default();
  char words[3][400] = {{0}};
  if (!model)
    require(pz_file_read(FUZZ_DATA "onnx/two-blocks.onnx", 1 << 20, &model, &model_bytes, NULL) ==
            PZ_OK);
  for (size_t i = 0, at = 0, word = 0; i < bytes && word < 3; i++)
    if (text[i] == '\n')
      word++, at = 0;
    else if (at + 1 < sizeof *words)
      words[word][at++] = text[i];
  o.seq = 64;
  o.layers = words[0];
  if (words[1][0]) o.dims[0] = words[1];
  if (words[2][0]) o.batch_dim = words[2];
  parse_onnx(model, model_bytes, &o);
}

struct script_request {
  int framework;
  const struct pz_launch *launch;
  char **text;
};

static void write_script(struct pz_call *call, void *ctx) {
  const struct script_request *x = ctx;
  *x->text = pz_buffer_take(call, pz_launch_script(call, x->framework, x->launch));
}

static void print(const struct pz_model_shape *s, int64_t pp) {
  struct pz_launch l = {.model = "fuzz", .shape = *s, .nodes = pp, .gpus_per_node = 4};
  struct pz_error err = {0};
  l.plan = pz_plan_default();
  l.plan.tp = 2;
  l.plan.pp = pp;
  l.plan.dp = 2;
  l.plan.batch = 8 * pp;
  l.plan.seq = 64;
  require(try_fill_plan(&l.plan, NULL, &err) == PZ_OK);
  for (int i = 1; pz_launch_names[i]; i++) {
    char *text = NULL;
    struct script_request x = {i, &l, &text};
    if (was_read(pz_border(write_script, &x, &err), &err))
      require(strstr(text, "torchrun"));
    else
      require(!text);
    pz_free(text);
    err = (struct pz_error){0};
  }
}

/* Every framework's script of a shape is printed or refused. */
void fuzz_shape(const char *text, size_t bytes) {
  struct pz_model_shape s;
  struct pz_error err = {0};
  if (!was_read(try_parse_model_shape("fuzz", text, bytes, &s, &err), &err)) return;
  require(s.layers > 0 && s.heads > 0 && s.topk <= s.experts && s.dense_layers <= s.layers);
  print(&s, 1);
  if (s.layers >= 3) print(&s, 3);
}
