/* ONNX import: real exports against the built-in families of the same shape, small models of every
 * kind, and files that are wrong in every way. */
#include "unit/core_borders.h"
#include "unit/testing.h"

#include <stdio.h>
#include <time.h>

#include "chip/chip.h"
#include "core/alloc.h"
#include "core/file.h"
#include "cost/cost.h"
#include "unit/chip_borders.h"
#include "unit/partition_calls.h"

static const char *data_path(const char *name, char *buf, size_t size) {
  snprintf(buf, size, "%s/onnx/%s.onnx", PHAZE_TEST_DATA, name);
  return buf;
}

static struct pz_workload *load(const char *name, const struct pz_workload_options *o) {
  char path[1024];
  return pz_test_load(data_path(name, path, sizeof path), o);
}

static struct pz_workload_options standard(void) {
  struct pz_workload_options o = pz_workload_options_default();
  o.dropout = 0;
  return o;
}

/* ---- real exports --------------------------------------------------------------------------- */

static const struct {
  const char *model;
  int64_t mbs, layers;
} real[] = {{"bert-large", 4, 24}, {"gpt2", 2, 12}, {"llama2-7b", 1, 32}, {"opt-350m", 1, 24}};
enum { N_REAL = sizeof real / sizeof *real };

/* The path of a real export, or a skipped test where the shared folder is not there. */
static const char *real_path(const char *model, char *buf, size_t size) {
  snprintf(buf, size, PZ_TEST_SHARED "onnx/%s.onnx", model);
  if (!pz_test_has(buf)) skip();
  return buf;
}

static double apart(int64_t a, int64_t b) {
  double d = (double)a / (double)b - 1;
  return d < 0 ? -d : d;
}

static int64_t most_repeated(const struct pz_workload *w) {
  int64_t most = 0;
  for (uint32_t i = 0; i < w->n_layers; i++)
    if (w->layers[i].count > most) most = w->layers[i].count;
  return most;
}

static void check_alike(const char *path, const char *model, const struct pz_workload_options *o) {
  struct pz_workload *a = pz_test_load(path, o), *b = pz_test_load(model, o);
  assert_true(apart(a->totals.model_params, b->totals.model_params) < 0.001);
  assert_int_equal(a->totals.matmul_forward_flop, b->totals.matmul_forward_flop);
  assert_int_equal(a->totals.matmul_backward_flop, b->totals.matmul_backward_flop);
  assert_true(apart(a->totals.activation_bytes, b->totals.activation_bytes) < 0.1);
  assert_true(apart(a->totals.peak_bytes, b->totals.peak_bytes) < 0.1);
  assert_int_equal(most_repeated(a), most_repeated(b));
  pz_workload_free(a);
  pz_workload_free(b);
}

static void real_exports_agree_with_the_families(void **state) {
  (void)state;
  char path[1024];
  for (size_t i = 0; i < N_REAL; i++) {
    struct pz_workload_options o = standard();
    real_path(real[i].model, path, sizeof path);
    check_alike(path, real[i].model, &o);
    o.mbs = real[i].mbs;
    check_alike(path, real[i].model, &o);
    o.attention = PZ_ATTENTION_FLASH;
    check_alike(path, real[i].model, &o);
  }
}

static void other_batches_and_sequences_agree_too(void **state) {
  (void)state;
  char path[1024];
  for (size_t i = 0; i < N_REAL; i++) {
    struct pz_workload_options o = standard();
    o.mbs = 3;
    o.seq = 256;
    check_alike(real_path(real[i].model, path, sizeof path), real[i].model, &o);
  }
}

static void tensor_parallel_slices_agree_too(void **state) {
  (void)state;
  char path[1024];
  for (size_t i = 0; i < N_REAL; i++)
    for (int64_t tp = 2; tp <= 4; tp += 2) {
      struct pz_workload_options o = standard();
      o.tp = tp;
      check_alike(real_path(real[i].model, path, sizeof path), real[i].model, &o);
    }
}

/* Forward and backward of all layers, scheduled. */
static double step_s(const char *model, const char *chip, const struct pz_workload_options *wo) {
  struct pz_error err = {0};
  struct pz_chip c;
  struct pz_cluster net;
  struct pz_cost cost;
  struct pz_workload *w = pz_test_load(model, wo);
  assert_int_equal(pz_test_chip_read(chip, &c, &err), PZ_OK);
  assert_int_equal(pz_cluster_load("paper", &net, &err), PZ_OK);
  pz_cost_init(&cost, &c, &net);
  double s = 0;
  for (uint32_t i = 0; i < w->n_layers; i++)
    for (int d = 0; d < 2; d++) {
      struct pz_layer_time t;
      assert_int_equal(layer_time(&cost, &w->layers[i].ops[d], 200, &t, &err), PZ_OK);
      s += t.s * (double)w->layers[i].count;
    }
  pz_cost_release(&cost);
  pz_workload_free(w);
  return s;
}

static void step_times_agree(void **state) {
  (void)state;
  static const char *const chips[] = {"tpuv4", "h200"};
  char path[1024];
  for (size_t i = 0; i < N_REAL; i++)
    for (int c = 0; c < 2; c++) {
      struct pz_workload_options o = standard();
      real_path(real[i].model, path, sizeof path);
      double a = step_s(path, chips[c], &o), b = step_s(real[i].model, chips[c], &o);
      if (!(a / b < 1.05 && b / a < 1.05))
        fail_msg("%s on %s: %g s, want %g s", path, chips[c], a, b);
    }
}

static void a_vision_transformer_is_imported(void **state) {
  (void)state;
  char path[1024];
  struct pz_workload_options o = standard();
  o.mbs = 8;
  struct pz_workload *w = pz_test_load(real_path("vit-b16", path, sizeof path), &o);
  assert_int_equal(most_repeated(w), 12);
  assert_true(apart(w->totals.model_params, 86567656) < 0.001);
  assert_int_equal(w->options.seq, 197);
  pz_workload_free(w);
}

/* ---- small models --------------------------------------------------------------------------- */

/* Parameters of a block of width h as scripts/onnx-models writes it, with or without a second
 * attention. */
static int64_t block_params(int64_t h, int attentions) {
  return attentions * (4 * h * h + 4 * h) + 8 * h * h + 5 * h + (attentions + 1) * 2 * h;
}

static void repeated_blocks_are_found(void **state) {
  (void)state;
  static const struct {
    const char *name;
    int64_t count;
  } models[] = {{"two-blocks", 2}, {"five-blocks", 5}, {"fixed-sizes", 3}};
  for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
    struct pz_workload_options o = standard();
    o.seq = 16;
    o.mbs = 2;
    struct pz_workload *w = load(models[i].name, &o);
    assert_int_equal(w->n_layers, 3);
    assert_int_equal(w->layers[1].count, models[i].count);
    assert_int_equal(w->layers[1].params, block_params(64, 1));
    int64_t products = 2 * 32 * 64 * 64 * 12 + 2 * 2 * (2 * 4 * 16 * 16 * 16);
    int64_t flop = 0;
    for (uint32_t k = 0; k < w->layers[1].ops[0].n; k++)
      flop += w->layers[1].ops[0].op[k].matmul_flop;
    assert_int_equal(flop, products);
    pz_workload_free(w);
  }
}

/* Norms, GELU and masked softmax that came in pieces are one operator each. */
static void patterns_become_one_operator(void **state) {
  (void)state;
  struct pz_workload_options o = standard();
  o.seq = 16;
  struct pz_workload *w = load("five-blocks", &o);
  int norms = 0, others = 0;
  for (uint32_t k = 0; k < w->layers[1].ops[0].n; k++) {
    const struct pz_op *op = &w->layers[1].ops[0].op[k];
    const char *kind = pz_op_kind_name(op->kind);
    norms += strcmp(kind, "layernorm") == 0;
    others += strcmp(kind, "layernorm") && strcmp(kind, "matmul") && strcmp(kind, "softmax");
  }
  assert_int_equal(norms, 2);
  assert_int_equal(others, 0); /* GELU, residuals and scaling are tails of products */
  pz_workload_free(w);
}

static void names_do_not_matter_but_can_be_used(void **state) {
  (void)state;
  struct pz_workload_options o = standard();
  o.seq = 16;
  o.layers = "n([0-9])[0-9]*$";
  struct pz_workload *w = load("five-blocks", &o);
  assert_true(w->n_layers > 3);
  assert_int_equal(w->totals.params, 64000 + 5 * block_params(64, 1) + 64128);
  pz_workload_free(w);
}

static void an_encoder_and_a_decoder_branch(void **state) {
  (void)state;
  struct pz_workload_options o = standard();
  o.dims[0] = "s=24";
  o.dims[1] = "t=16";
  struct pz_workload *w = load("encoder-decoder", &o);
  assert_int_equal(w->n_layers, 6);
  assert_int_equal(w->layers[1].count, 4);
  assert_int_equal(w->layers[1].params, block_params(32, 1));
  assert_int_equal(w->layers[3].n_from, 0); /* the decoder's embedding */
  assert_int_equal(w->layers[4].count, 3);
  assert_int_equal(w->layers[4].params, block_params(32, 2));
  assert_int_equal(w->layers[4].n_from, 2);
  assert_int_equal(w->layers[4].from[0], 2); /* what the encoder gives */
  assert_int_equal(w->layers[4].output_bytes, 2 * 32 * (24 + 16));
  pz_workload_free(w);
}

static void convolutional_networks_are_imported(void **state) {
  (void)state;
  struct pz_workload_options o = standard();
  struct pz_workload *w = load("resnet", &o);
  int repeated = 0;
  for (uint32_t i = 0; i < w->n_layers; i++) repeated += w->layers[i].count > 1;
  assert_int_equal(repeated, 4);
  int64_t one = w->totals.matmul_forward_flop;
  pz_workload_free(w);
  o.mbs = 4;
  w = load("resnet", &o);
  assert_int_equal(w->totals.matmul_forward_flop, 4 * one);
  pz_workload_free(w);
  w = load("convnet", &o);
  assert_int_equal(most_repeated(w), 1);
  /* 7x7 from 3 to 16 channels, then three stages of two 3x3 and one 1x1 */
  int64_t params = 3 * 16 * 49 + 32 + 128 * 10 + 10;
  for (int64_t c = 16; c < 128; c *= 2)
    params += c * 2 * c * 9 + 4 * c * c * 9 + c * 2 * c + 12 * c;
  assert_int_equal(w->totals.params, params);
  pz_workload_free(w);
}

/* What exporters do with the same blocks: no head, weights that are one tensor, vectors stored
 * once, a part of the first block that all use. */
static void blocks_are_found_whatever_surrounds_them(void **state) {
  (void)state;
  static const struct {
    const char *name;
    int64_t count, params;
  } models[] = {{"headless", 3, 64000},
                {"shared", 3, 128000 + 64 * 64 + 64},
                {"stored-once", 4, 128000 + 4 * (64 * 64 + 64)},
                {"two-outputs", 3, 128128 + 3 * 49984 + 50 * 8 + 72 + 60 * 8},
                {"relative", 4, 128000 + 32 * 4 + 4 * 4 * 64 * 64},
                {"relative-masked", 4, 128000 + 32 * 4 + 4 * 4 * 64 * 64},
                {"images", 3, 48 + 3 * (32 + 48 * 16) + 170}};
  for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
    struct pz_workload *w = load(models[i].name, NULL);
    int64_t params = models[i].params + (i == 0 ? 3 * block_params(64, 1) : 0);
    assert_int_equal(most_repeated(w), models[i].count);
    assert_int_equal(w->totals.params, params);
    pz_workload_free(w);
  }
}

static int64_t forward_flop(const char *name, int64_t mbs, int64_t tp) {
  struct pz_workload_options o = standard();
  o.mbs = mbs;
  o.tp = tp;
  struct pz_workload *w = load(name, &o);
  int64_t flop = w->totals.matmul_forward_flop;
  pz_workload_free(w);
  return flop;
}

/* Heads that are folded into the batch are divided and grow with it like others; what is stored
 * once counts for each use, tables do not count. */
static void folded_heads_are_divided_and_scaled(void **state) {
  (void)state;
  struct pz_workload_options o = standard();
  o.mbs = 2;
  o.attention = PZ_ATTENTION_FLASH;
  struct pz_workload *w = load("folded-heads", &o);
  int attentions = 0, halves = 0;
  for (uint32_t k = 0; k < w->layers[1].ops[0].n; k++) {
    const char *kind = pz_op_kind_name(w->layers[1].ops[0].op[k].kind);
    attentions += strcmp(kind, "attention") == 0;
    halves += strcmp(kind, "concat") == 0;
  }
  assert_int_equal(w->layers[1].count, 3);
  assert_int_equal(w->totals.params, 128128 + 3 * block_params(64, 1));
  assert_int_equal(attentions, 1);
  assert_int_equal(halves, 0); /* the rotary embeddings are one operator */
  pz_workload_free(w);
  int64_t one = forward_flop("folded-heads", 2, 1);
  assert_int_equal(one,
                   2 * 32 * 64 * 1000 + 3 * (2 * 32 * 64 * 64 * 12 + 2 * 2 * 2 * 4 * 16 * 16 * 16));
  assert_int_equal(2 * forward_flop("folded-heads", 2, 2), one);
  assert_int_equal(forward_flop("folded-heads", 4, 1), 2 * one);
}

/* Products by Einsum, and convolutions of sizes that are computed from contents. */
static void computed_sizes_are_followed(void **state) {
  (void)state;
  int64_t one = forward_flop("images", 2, 1);
  assert_int_equal(one, 2 * 2 * 16 * (10 + 64 * 3 + 3 * 64 * (48 + 2 * 64)));
  assert_int_equal(forward_flop("images", 4, 1), 2 * one);
  one = forward_flop("computed-sizes", 2, 1);
  assert_int_equal(one, 2 * 2 * 8 * (37 * 33 * 27 + 74 * 66 * 72 + 10));
  assert_int_equal(forward_flop("computed-sizes", 6, 1), 3 * one);
}

/* Another exporter's way to write Llama, with grouped heads, against the family. */
static void traced_graphs_agree_with_the_family(void **state) {
  (void)state;
  static const char config[] =
      "{\"model_type\":\"llama\",\"hidden_size\":64,\"num_hidden_layers\":3,"
      "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"intermediate_size\":96,"
      "\"vocab_size\":1000}";
  for (int64_t tp = 1; tp <= 2; tp++) {
    struct pz_workload_options o = standard();
    struct pz_workload *b = NULL;
    struct pz_error err = {0};
    o.seq = 48;
    o.mbs = 2;
    o.tp = tp;
    struct pz_workload *a = load("grouped", &o);
    assert_int_equal(pz_workload_parse("llama", config, strlen(config), &o, &b, &err), PZ_OK);
    assert_int_equal(most_repeated(a), 3);
    assert_int_equal(a->totals.model_params, b->totals.model_params);
    assert_int_equal(a->totals.params, b->totals.params);
    assert_int_equal(a->totals.matmul_forward_flop, b->totals.matmul_forward_flop);
    assert_int_equal(a->totals.matmul_backward_flop, b->totals.matmul_backward_flop);
    /* its angles are those of each sample's own positions */
    assert_true(apart(a->totals.activation_bytes, b->totals.activation_bytes) < 0.01);
    assert_int_equal(a->totals.ops, b->totals.ops);
    pz_workload_free(a);
    pz_workload_free(b);
  }
}

static void every_option_gives_a_model(void **state) {
  (void)state;
  static const char *const names[] = {"two-blocks", "encoder-decoder", "resnet"};
  for (int i = 0; i < 3; i++)
    for (int k = 0; k < 16; k++) {
      struct pz_workload_options o = standard();
      if (i < 2) o.seq = 32;
      o.kernels = k & 1 ? PZ_KERNELS_EAGER : PZ_KERNELS_FUSED;
      o.attention = k & 2 ? PZ_ATTENTION_FLASH : PZ_ATTENTION_STANDARD;
      o.recompute = k & 4 ? PZ_RECOMPUTE_FULL : PZ_RECOMPUTE_NONE;
      o.tp = k & 8 && i < 2 ? 2 : 1;
      struct pz_workload *w = load(names[i], &o);
      assert_true(w->totals.peak_bytes > 0 && w->totals.backward_flop > 0);
      pz_workload_free(w);
    }
}

/* ---- wrong files ---------------------------------------------------------------------------- */

static void errors_say_what_where_and_what_is_accepted(void **state) {
  (void)state;
  static const struct {
    const char *name, *message;
  } bad[] = {
      {"bad-cyclic", "node 'first' (Add): is part of a cycle"},
      {"bad-unknown-op", "operator type 'Frobnicate' of domain 'my.domain' is unknown; accepted "
                         "with --unknown-ops=vector"},
      {"bad-if", "(If): control flow with subgraphs is not imported; accepted:"},
      {"bad-loop", "(Loop): control flow with subgraphs is not imported"},
      {"bad-local-function", "(Twice): calls a local function of the model; accepted:"},
      {"bad-missing-shape", "(GridSample): the shape of its result"},
      {"bad-mismatch", "does not follow from its inputs ([2, 8] and [7, 8])"},
      {"bad-stated", "the file states the shape [8, 32] of 't15838', its inputs [8, 9]"},
      {"bad-stated-inner", "does not follow from its inputs ([8, 20] and [16, 9])"},
      {"bad-stated-weight", "initializer 'w' has another shape than the file states for it"},
      {"bad-weight-twice", "is there twice"},
      {"bad-stride-zero", "(Conv): strides has 0; accepted: 1 to 16777216"},
      {"bad-stride-negative", "(Conv): strides has -1; accepted: 1 to 16777216"},
      {"bad-dilation", "(Conv): dilations has 4611686018427387904; accepted: 1 to 16777216"},
      {"bad-dilation-wide", "does not follow from its inputs ([1, 4, 8, 8] and [4, 4, 3, 3])"},
      {"bad-kernel-zero", "(MaxPool): kernel_shape has 0; accepted: 1 to 16777216"},
      {"bad-kernel-rank", "does not follow from its inputs ([1, 4, 8, 8])"},
      {"bad-kernel-wide", "does not follow from its inputs ([1, 4, 8, 8] and [4, 4, 9, 3])"},
      {"bad-channels", "does not follow from its inputs ([1, 4, 8, 8] and [4, 3, 3, 3])"},
      {"bad-no-shape", "no output depends on a parameter"},
      {"bad-no-weights", "no output depends on a parameter; accepted:"},
      {"bad-huge-dim", "tensor 'x' has a dimension of 9223372036854775807; accepted: 0 to"},
      {"bad-negative-dim", "tensor 'x' has a dimension of -5; accepted: 0 to"},
      {"bad-old-opset", "operator set version 7; accepted: 9 to 22"},
      {"bad-new-opset", "operator set version 99; accepted: 9 to 22"},
      {"bad-missing-tensor", "node 'lost' (Add): reads tensor 'nowhere', which no node"},
      {"bad-made-twice", "already produces"},
      {"bad-nested", "nested too deep; accepted: at most 24"},
      {"bad-type", "byte 2: field 'graph' has the wrong type; accepted: an ONNX model"},
      {"bad-not-onnx", "accepted: an ONNX model (protobuf ModelProto)"},
      {"bad-empty", "the model has no nodes"},
      {"two-blocks", "input 'tokens' has a symbolic dimension 'sequence' (axis 1); accepted with "
                     "--dim sequence=SIZE or --seq"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    struct pz_workload_options o = standard();
    struct pz_workload *w = NULL;
    struct pz_error err = {0};
    char path[1024];
    assert_int_not_equal(pz_workload_load(data_path(bad[i].name, path, sizeof path), &o, &w, &err),
                         PZ_OK);
    if (!strstr(err.message, bad[i].message)) fail_msg("%s: %s", bad[i].name, err.message);
  }
}

static void options_that_do_not_fit_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *name;
    struct pz_workload_options o;
    const char *message;
  } bad[] = {
      {"resnet", {.mbs = 1, .tp = 1, .seq = 8}, "has no sequence dimension"},
      {"resnet", {.mbs = 1, .tp = 2}, "accepted: --tp 1"},
      {"strided", {.mbs = 2, .tp = 1, .seq = 32}, "the sequence dimension cannot be followed"},
      {"two-blocks", {.mbs = 1, .tp = 3, .seq = 8}, "tensor-parallel degree 3 does not divide"},
      {"two-blocks", {.mbs = 1, .tp = 1, .dims = {"sequence"}}, "accepted: NAME=SIZE"},
      {"two-blocks", {.mbs = 1, .tp = 1, .dims = {"sequence=0"}}, "accepted: NAME=SIZE"},
      {"two-blocks",
       {.mbs = 1, .tp = 1, .dims = {"seq=8"}},
       "has a symbolic dimension of this name"},
      {"two-blocks", {.mbs = 1, .tp = 1, .seq = 8, .layers = "("}, "regular expression"},
      {"two-blocks", {.mbs = 1, .tp = 1, .seq = 8, .layers = "zzz"}, "matches no node"},
      {"fixed-sizes", {.mbs = 1, .tp = 1, .batch_dim = "pixels:0"}, "no input has the batch"},
      {"two-blocks", {.mbs = 0, .tp = 1, .seq = 8}, "microbatch size 0; accepted: 1 to"},
      {"two-blocks", {.mbs = 1, .tp = 2, .seq = 8, .sequence_parallel = true}, "--tp without --sp"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    struct pz_workload *w = NULL;
    struct pz_error err = {0};
    char path[1024];
    struct pz_workload_options o = bad[i].o;
    o.size = sizeof o;
    enum pz_status s = pz_workload_load(data_path(bad[i].name, path, sizeof path), &o, &w, &err);
    pz_workload_free(w);
    if (s == PZ_OK || !strstr(err.message, bad[i].message))
      fail_msg("%s, case %zu: %s", bad[i].name, i, err.message);
  }
}

static void unknown_operators_can_be_taken_as_vector_work(void **state) {
  (void)state;
  struct pz_workload_options o = standard();
  struct pz_workload *w = NULL;
  struct pz_error err = {0};
  char path[1024];
  o.unknown_ops = PZ_UNKNOWN_VECTOR; /* its shape is still not known */
  assert_int_not_equal(
      pz_workload_load(data_path("bad-unknown-op", path, sizeof path), &o, &w, &err), PZ_OK);
  assert_non_null(strstr(err.message, "the shape of its result"));
}

/* Every beginning of a file is refused, or is a model with nothing missing. */
static void truncated_files_give_errors(void **state) {
  (void)state;
  char path[1024], *text = NULL;
  size_t bytes = 0;
  assert_int_equal(
      pz_file_read(data_path("convnet", path, sizeof path), 1 << 20, &text, &bytes, NULL), PZ_OK);
  for (size_t n = 0; n < bytes; n++) {
    struct pz_workload_options o = standard();
    struct pz_workload *w = NULL;
    struct pz_error err = {0};
    char *part = malloc(n ? n : 1); /* exactly as long, so that a sanitizer sees reads beyond */
    assert_non_null(part);
    memcpy(part, text, n);
    if (pz_workload_parse_onnx("part", part, n, &o, &w, &err) != PZ_OK)
      assert_true(err.message[0] != '\0');
    pz_workload_free(w);
    free(part);
  }
  pz_free(text);
}

/* ---- size ----------------------------------------------------------------------------------- */

/* Protobuf, as little of it as is needed. */
struct bytes {
  unsigned char *b;
  size_t n, cap;
};

static void put(struct bytes *to, const void *from, size_t n) {
  if (to->n + n > to->cap) {
    to->cap = 2 * (to->n + n);
    to->b = realloc(to->b, to->cap);
    assert_non_null(to->b);
  }
  memcpy(to->b + to->n, from, n);
  to->n += n;
}

static void put_varint(struct bytes *to, uint64_t v) {
  for (; v > 127; v >>= 7) put(to, &(unsigned char){(unsigned char)(v | 128)}, 1);
  put(to, &(unsigned char){(unsigned char)v}, 1);
}

static void put_field(struct bytes *to, unsigned field, const void *from, size_t n) {
  put_varint(to, field << 3 | 2);
  put_varint(to, n);
  put(to, from, n);
}

static void put_text(struct bytes *to, unsigned field, const char *text) {
  put_field(to, field, text, strlen(text));
}

static void put_number(struct bytes *to, unsigned field, uint64_t v) {
  put_varint(to, field << 3);
  put_varint(to, v);
}

static void put_node(struct bytes *graph, const char *type, const char *a, const char *b,
                     const char *y) {
  struct bytes node = {0};
  put_text(&node, 1, a);
  if (b) put_text(&node, 1, b);
  put_text(&node, 2, y);
  put_text(&node, 4, type);
  put_field(graph, 1, node.b, node.n);
  free(node.b);
}

static void put_weight(struct bytes *graph, const char *name, uint64_t rows, uint64_t cols) {
  struct bytes t = {0};
  put_number(&t, 1, rows);
  put_number(&t, 1, cols);
  put_number(&t, 2, 1);
  put_text(&t, 8, name);
  put_field(graph, 5, t.b, t.n);
  free(t.b);
}

/* x: float [2, 64]; then MatMul and Relu, n times; y. */
static struct bytes long_chain(int n) {
  static const unsigned char input[] = "\n\1x\22\16\n\14\10\1\22\10\n\2\10\2\n\2\10\100";
  struct bytes graph = {0}, model = {0};
  char in[32] = "x", mid[32], out[32], w[32];
  for (int i = 0; i < n; i++) {
    snprintf(w, sizeof w, "w%d", i);
    snprintf(mid, sizeof mid, "m%d", i);
    snprintf(out, sizeof out, i + 1 < n ? "r%d" : "y", i);
    put_weight(&graph, w, 64, 64);
    put_node(&graph, "MatMul", in, w, mid);
    put_node(&graph, "Relu", mid, NULL, out);
    memcpy(in, out, sizeof in);
  }
  put_field(&graph, 11, input, sizeof input - 1);
  put_field(&graph, 12, "\n\1y", 3);
  put_field(&model, 7, graph.b, graph.n);
  put_field(&model, 8, "\20\21", 2);
  free(graph.b);
  return model;
}

static void a_hundred_thousand_nodes_take_under_two_seconds(void **state) {
  (void)state;
  struct bytes model = long_chain(50000);
  double best = 1e9;
  for (int i = 0; i < 3; i++) { /* processor time, the best of three: the machine may be busy */
    struct pz_workload_options o = standard();
    struct pz_workload *w = NULL;
    struct pz_error err = {0};
    struct timespec a, b;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
    if (pz_workload_parse_onnx("long", model.b, model.n, &o, &w, &err) != PZ_OK)
      fail_msg("%s", err.message);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
    double s = (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec);
    if (s < best) best = s;
    assert_int_equal(w->totals.params, 50000 * 64 * 64);
    assert_true(most_repeated(w) >= 49998);
    pz_workload_free(w);
  }
  print_message("100,000 nodes: %.3f s\n", best);
  assert_true(best < 2);
  free(model.b);
}

/* An allocator that counts the blocks in use and fails once. */
static struct {
  long blocks;
  long remaining; /* allocations before the next one fails; negative: none fails */
} memory = {.remaining = -1};

static bool fails(void) {
  if (memory.remaining < 0) return false;
  memory.remaining--;
  return memory.remaining < 0;
}

static void *counted_alloc(void *ctx, size_t bytes) {
  (void)ctx;
  void *block = fails() ? NULL : malloc(bytes);
  if (block) memory.blocks++;
  return block;
}

static void *counted_resize(void *ctx, void *block, size_t bytes) {
  (void)ctx;
  void *moved = fails() ? NULL : realloc(block, bytes);
  if (moved && !block) memory.blocks++;
  return moved;
}

static void counted_free(void *ctx, void *block) {
  (void)ctx;
  if (block) memory.blocks--;
  free(block);
}

static int use_counted_memory(void **state) {
  static const struct pz_allocator counted = {counted_alloc, counted_resize, counted_free, NULL};
  (void)state;
  return pz_alloc_use(&counted, NULL) == PZ_OK ? 0 : -1;
}

static void memory_that_runs_out_is_an_error(void **state) {
  (void)state;
  char path[1024], *text = NULL;
  size_t bytes = 0;
  assert_int_equal(
      pz_file_read(data_path("five-blocks", path, sizeof path), 1 << 20, &text, &bytes, NULL),
      PZ_OK);
  struct pz_workload_options o = standard();
  o.seq = 16;
  o.tp = 2;
  long before = memory.blocks;
  bool done = false;
  for (long n = 0; n < 400 && !done; n++) {
    struct pz_workload *w = NULL;
    struct pz_error err = {0};
    memory.remaining = n;
    done = pz_workload_parse_onnx("scarce", text, bytes, &o, &w, &err) == PZ_OK;
    memory.remaining = -1;
    if (!done) assert_int_equal(err.status, PZ_NO_MEMORY);
    if (!done) assert_true(err.message[0] != '\0');
    pz_workload_free(w);
    assert_int_equal(memory.blocks, before);
  }
  assert_true(done);
  pz_free(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(real_exports_agree_with_the_families),
      cmocka_unit_test(other_batches_and_sequences_agree_too),
      cmocka_unit_test(tensor_parallel_slices_agree_too),
      cmocka_unit_test(step_times_agree),
      cmocka_unit_test(a_vision_transformer_is_imported),
      cmocka_unit_test(repeated_blocks_are_found),
      cmocka_unit_test(patterns_become_one_operator),
      cmocka_unit_test(names_do_not_matter_but_can_be_used),
      cmocka_unit_test(an_encoder_and_a_decoder_branch),
      cmocka_unit_test(convolutional_networks_are_imported),
      cmocka_unit_test(blocks_are_found_whatever_surrounds_them),
      cmocka_unit_test(folded_heads_are_divided_and_scaled),
      cmocka_unit_test(computed_sizes_are_followed),
      cmocka_unit_test(traced_graphs_agree_with_the_family),
      cmocka_unit_test(every_option_gives_a_model),
      cmocka_unit_test(errors_say_what_where_and_what_is_accepted),
      cmocka_unit_test(options_that_do_not_fit_are_refused),
      cmocka_unit_test(unknown_operators_can_be_taken_as_vector_work),
      cmocka_unit_test(truncated_files_give_errors),
      cmocka_unit_test(a_hundred_thousand_nodes_take_under_two_seconds),
      cmocka_unit_test(memory_that_runs_out_is_an_error),
  };
  return pz_test_end(cmocka_run_group_tests(tests, use_counted_memory, NULL));
}
