/* Operator graphs: FLOP against closed forms, structure, fusion, and relations that must hold. */
#include "unit/testing.h"

#include <stdio.h>

#include "workload/op.h"

static struct pz_workload_options options(int64_t seq, int64_t mbs) {
  struct pz_workload_options o = pz_workload_options_default();
  o.seq = seq;
  o.mbs = mbs;
  return o;
}

/* 24 B s h^2 L (1 + s / 6h) + 2 B s h V, in integers. */
static void gpt_flop_is_the_closed_form(void **state) {
  (void)state;
  static const struct {
    const char *model;
    int64_t h, L, V;
  } gpt[] = {{"gpt2", 768, 12, 50257},
             {"gpt2-xl", 1600, 48, 50257},
             {"megatron-2.5b", 1920, 54, 50257},
             {"megatron-8.3b", 3072, 72, 50257},
             {"gpt3-175b", 12288, 96, 50257}};
  for (size_t i = 0; i < sizeof gpt / sizeof *gpt; i++)
    for (int64_t B = 1; B <= 32; B *= 4)
      for (int64_t s = 1; s <= 1024; s = s * 8 - s % 2) {
        struct pz_workload_options o = options(s, B);
        struct pz_workload *w = pz_test_load(gpt[i].model, &o);
        int64_t h = gpt[i].h, L = gpt[i].L;
        int64_t want = 24 * B * s * h * h * L + 4 * B * s * s * h * L + 2 * B * s * h * gpt[i].V;
        assert_int_equal(w->totals.matmul_forward_flop, want);
        assert_int_equal(w->totals.matmul_backward_flop, 2 * want);
        pz_workload_free(w);
      }
}

/* With gradients of the left operand alone, backward has the products of forward. */
static void weight_gradients_can_be_left_out(void **state) {
  (void)state;
  static const char *const models[] = {"gpt2", "llama2-7b", "bert-base"};
  for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
    struct pz_workload_options o = options(128, 2);
    struct pz_workload *all = pz_test_load(models[i], &o);
    o.input_gradients_only = true;
    struct pz_workload *one = pz_test_load(models[i], &o);
    assert_int_equal(all->totals.matmul_backward_flop, 2 * one->totals.matmul_backward_flop);
    assert_int_equal(one->totals.matmul_backward_flop, one->totals.matmul_forward_flop);
    assert_int_equal(one->totals.params, all->totals.params);
    pz_workload_free(all);
    pz_workload_free(one);
  }
}

/* The same sum for a Llama shape: q, o: 2 h^2; k, v: 2 h kv; three feed-forward products; s^2
 * terms. */
static void llama_flop_is_the_closed_form(void **state) {
  (void)state;
  struct pz_workload_options o = options(512, 3);
  struct pz_workload *w = pz_test_load("llama3-8b", &o);
  int64_t T = 512 * 3, h = 4096, kv = 1024, f = 14336, V = 128256, L = 32, s = 512;
  int64_t layer = 2 * T * (2 * h * h + 2 * h * kv + 3 * h * f) + 4 * T * s * h;
  assert_int_equal(w->totals.matmul_forward_flop, L * layer + 2 * T * h * V);
  pz_workload_free(w);
}

/* Experts: the FLOP of the two active ones, the memory of all eight. */
static void mixtral_counts_active_flop_and_all_memory(void **state) {
  (void)state;
  struct pz_workload_options o = options(1024, 1);
  struct pz_workload *w = pz_test_load("mixtral-8x7b", &o);
  int64_t T = 1024, h = 4096, kv = 1024, f = 14336, V = 32000, L = 32, s = 1024;
  int64_t layer = 2 * T * (2 * h * h + 2 * h * kv + 8 * h) + 2 * 2 * T * 3 * h * f + 4 * T * s * h;
  assert_int_equal(w->totals.matmul_forward_flop, L * layer + 2 * T * h * V);
  assert_int_equal(w->totals.params, 46702792704);
  pz_workload_free(w);
  o = options(1, 1); /* two rows for eight experts: two are busy */
  w = pz_test_load("mixtral-8x7b", &o);
  layer = 2 * (2 * h * h + 2 * h * kv + 8 * h) + 2 * 2 * 3 * h * f + 4 * h;
  assert_int_equal(w->totals.matmul_forward_flop, L * layer + 2 * h * V);
  pz_workload_free(w);
}

static const struct pz_op *find(const struct pz_ops *ops, const char *name) {
  static const struct pz_op none;
  for (uint32_t i = 0; i < ops->n; i++)
    if (strncmp(ops->op[i].name, name, strlen(name)) == 0) return &ops->op[i];
  fail_msg("no operator %s", name);
  return &none;
}

static bool follows(const struct pz_ops *ops, const struct pz_op *later,
                    const struct pz_op *earlier) {
  for (uint32_t i = 0; i < later->n_pred; i++) {
    const struct pz_op *p = &ops->op[later->pred[i]];
    if (p == earlier || follows(ops, p, earlier)) return true;
  }
  return false;
}

static void both_gradient_products_are_independent(void **state) {
  (void)state;
  struct pz_workload *w = pz_test_load("gpt2-xl", NULL);
  const struct pz_ops *back = &w->layers[1].ops[PZ_BACKWARD];
  static const char *const name[] = {"qkv", "attention_out", "mlp_up", "mlp_down"};
  for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
    char in[64], weight[64];
    snprintf(in, sizeof in, "%s.input_grad", name[i]);
    snprintf(weight, sizeof weight, "%s.weight_grad", name[i]);
    const struct pz_op *a = find(back, in), *b = find(back, weight);
    assert_int_equal(a->matmul_flop, b->matmul_flop);
    assert_false(follows(back, a, b));
    assert_false(follows(back, b, a));
  }
  /* y = x W with x 1024 x 1600, W 1600 x 6400: dx = dy W^T, dW = x^T dy */
  const struct pz_op *dx = find(back, "mlp_up.input_grad"), *dw = find(back, "mlp_up.weight_grad");
  const struct pz_dims want_dx = {1, 1024, 1600, 6400}, want_dw = {1, 1600, 6400, 1024};
  assert_memory_equal(&dx->dims, &want_dx, sizeof want_dx);
  assert_memory_equal(&dw->dims, &want_dw, sizeof want_dw);
  pz_workload_free(w);
}

static void check_op(const struct pz_layer *l, const struct pz_ops *ops, uint32_t i) {
  const struct pz_op *op = &ops->op[i];
  assert_true(op->name[0] != '\0');
  assert_true(op->flop >= op->matmul_flop && op->matmul_flop >= 0);
  assert_true(op->bytes_read >= op->weight_bytes && op->weight_bytes >= 0);
  for (uint32_t p = 0; p < op->n_pred; p++) {
    assert_true(op->pred[p] < i);
    assert_true(p == 0 || op->pred[p] > op->pred[p - 1]);
  }
  for (uint32_t k = 0; k < op->n_in; k++) assert_true(op->in[k] < l->n_tensors);
  assert_true(op->n_out >= 1);
  bool product = op->op_class == PZ_CLASS_TENSOR || op->op_class == PZ_CLASS_FUSED;
  assert_true(product == (op->matmul_flop > 0));
  if (op->op_class == PZ_CLASS_NONE)
    assert_int_equal(op->flop + op->bytes_read + op->bytes_written, 0);
  if (op->op_class == PZ_CLASS_VECTOR) assert_true(op->bytes_written > 0);
  if (op->op_class == PZ_CLASS_FUSED && op->kind == PZ_OP_MATMUL) assert_true(op->n_tail > 0);
}

/* What an operator reads was made before it in its direction, or comes from outside: parameters,
 * data, the layer's input; backward, what forward made and the gradient of the result. */
static void check_sources(const struct pz_layer *l, enum pz_direction d) {
  bool *made = calloc(l->n_tensors, sizeof *made);
  assert_non_null(made);
  for (uint32_t t = 0; t < l->n_tensors; t++) {
    const struct pz_tensor *x = &l->tensors[t];
    made[t] = x->role == PZ_ROLE_PARAM || x->role == PZ_ROLE_DATA || t == l->input;
    made[t] = made[t] || (d == PZ_BACKWARD && t == l->output_grad);
  }
  for (int from = PZ_FORWARD; from <= (int)d; from++)
    for (uint32_t i = 0; i < l->ops[from].n; i++) {
      const struct pz_op *op = &l->ops[from].op[i];
      for (uint32_t k = 0; k < op->n_in; k++)
        if (!made[op->in[k]])
          fail_msg("%s reads %s, which nothing made", op->name, l->tensors[op->in[k]].name);
      for (uint32_t k = 0; k < op->n_out; k++) made[op->out[k]] = true;
    }
  /* every parameter gets a gradient, and the input where there is one */
  if (d == PZ_BACKWARD)
    for (uint32_t t = 0; t < l->n_tensors; t++) {
      if (l->tensors[t].role != PZ_ROLE_PARAM && t != l->input) continue;
      char grad[160];
      bool found = false;
      snprintf(grad, sizeof grad, "%s.grad", l->tensors[t].name);
      for (uint32_t k = 0; k < l->n_tensors && !found; k++)
        found = made[k] && strcmp(l->tensors[k].name, grad) == 0;
      if (!found) fail_msg("%s has no gradient", l->tensors[t].name);
    }
  free(made);
}

/* Both kernels, both kinds of attention, recomputation, divided or not. */
static void check_model(const char *model, int64_t width) {
  for (int k = 0; k < 32; k++) {
    struct pz_workload_options o = options(128, 1 + (k & 1));
    o.kernels = k & 2 ? PZ_KERNELS_EAGER : PZ_KERNELS_FUSED;
    o.attention = k & 4 ? PZ_ATTENTION_FLASH : PZ_ATTENTION_STANDARD;
    o.recompute = k & 8 ? PZ_RECOMPUTE_FULL : PZ_RECOMPUTE_NONE;
    o.tp = k & 16 ? width : 1;
    o.sequence_parallel = o.tp == 2 && k & 1;
    struct pz_workload *w = pz_test_load(model, &o);
    assert_true(w->n_layers >= 3);
    for (uint32_t l = 0; l < w->n_layers; l++)
      for (int d = 0; d < 2; d++) {
        check_sources(&w->layers[l], (enum pz_direction)d);
        for (uint32_t i = 0; i < w->layers[l].ops[d].n; i++)
          check_op(&w->layers[l], &w->layers[l].ops[d], i);
      }
    pz_workload_free(w);
  }
}

static void every_preset_is_well_formed(void **state) {
  (void)state;
  for (size_t m = 0; pz_preset_name(m); m++)
    check_model(pz_preset_name(m), pz_test_width(pz_preset_name(m)));
}

/* Experts on their own grid, in every kind of kernels. */
static void every_grid_is_well_formed(void **state) {
  (void)state;
  static const char *const models[] = {"mixtral-8x7b", "gpt-oss-20b", "deepseek-v3",
                                       "llama4-maverick"};
  for (size_t m = 0; m < sizeof models / sizeof *models; m++)
    for (int k = 0; k < 20; k++) {
      struct pz_workload_options o = options(128, 1);
      o.kernels = (enum pz_kernels)(k % 5);
      o.tp = k < 10 ? 1 : 2;
      o.sequence_parallel = o.tp > 1;
      o.ep = 1 + 3 * (k & 1);
      o.etp = k & 2 ? 2 : 1;
      struct pz_workload *w = pz_test_load(models[m], &o);
      for (uint32_t l = 0; l < w->n_layers; l++)
        for (int d = 0; d < 2; d++) {
          check_sources(&w->layers[l], (enum pz_direction)d);
          for (uint32_t i = 0; i < w->layers[l].ops[d].n; i++)
            check_op(&w->layers[l], &w->layers[l].ops[d], i);
        }
      pz_workload_free(w);
    }
}

/* Fusion hides traffic, not work: the tail's FLOP are in the sum, the pre-activation is still
 * written. */
static void fusion_keeps_work_and_what_backward_reads(void **state) {
  (void)state;
  struct pz_workload *w = pz_test_load("gpt2-xl", NULL);
  const struct pz_op *up = find(&w->layers[1].ops[PZ_FORWARD], "mlp_up");
  int64_t rows = 1024, f = 6400, h = 1600;
  assert_int_equal(up->op_class, PZ_CLASS_FUSED);
  assert_int_equal(up->n_tail, 1);
  assert_int_equal(up->tail[0].kind, PZ_OP_GELU);
  assert_int_equal(up->flop, 2 * rows * f * h + rows * f + 9 * rows * f);
  assert_int_equal(up->bytes_written, 2 * (2 * rows * f));
  assert_int_equal(up->bytes_read, 2 * (rows * h + h * f + f));
  /* without dropout the scores leave once; masked scores are not kept */
  const struct pz_op *scores = find(&w->layers[1].ops[PZ_FORWARD], "scores");
  assert_int_equal(scores->bytes_written, 2 * 25 * rows * rows);
  pz_workload_free(w);
}

static void eager_does_the_same_products_in_more_operators(void **state) {
  (void)state;
  for (size_t m = 0; pz_preset_name(m); m++) {
    struct pz_workload_options o = options(64, 2);
    struct pz_workload *fused = pz_test_load(pz_preset_name(m), &o);
    o.kernels = PZ_KERNELS_EAGER;
    struct pz_workload *eager = pz_test_load(pz_preset_name(m), &o);
    assert_int_equal(fused->totals.matmul_forward_flop, eager->totals.matmul_forward_flop);
    assert_int_equal(fused->totals.matmul_backward_flop, eager->totals.matmul_backward_flop);
    assert_true(eager->totals.ops > fused->totals.ops);
    assert_true(eager->layers[1].activation_bytes >= fused->layers[1].activation_bytes);
    pz_workload_free(fused);
    pz_workload_free(eager);
  }
}

static void work_grows_as_it_must(void **state) {
  (void)state;
  for (size_t m = 0; pz_preset_name(m); m++) {
    struct pz_workload_options o = options(64, 1);
    struct pz_workload *one = pz_test_load(pz_preset_name(m), &o);
    o.mbs = 8;
    struct pz_workload *eight = pz_test_load(pz_preset_name(m), &o);
    o.num_layers = 2 * one->options.num_layers;
    struct pz_workload *deep = pz_test_load(pz_preset_name(m), &o);
    const struct pz_totals *a = &one->totals, *b = &eight->totals, *c = &deep->totals;
    assert_int_equal(b->matmul_forward_flop, 8 * a->matmul_forward_flop);
    for (uint32_t l = 0; l < 3; l++)
      assert_int_equal(eight->layers[l].activation_bytes, 8 * one->layers[l].activation_bytes);
    assert_int_equal(c->forward_flop - b->forward_flop, eight->options.num_layers *
                                                            (c->forward_flop - b->forward_flop) /
                                                            eight->options.num_layers);
    assert_true(b->peak_bytes > a->peak_bytes && c->peak_bytes > b->peak_bytes);
    pz_workload_free(one);
    pz_workload_free(eight);
    pz_workload_free(deep);
  }
}

static void recomputation_adds_the_forward(void **state) {
  (void)state;
  struct pz_workload_options o = options(256, 2);
  struct pz_workload *keep = pz_test_load("llama2-7b", &o);
  o.recompute = PZ_RECOMPUTE_FULL;
  struct pz_workload *again = pz_test_load("llama2-7b", &o);
  const struct pz_layer *k = &keep->layers[1], *a = &again->layers[1];
  assert_int_equal(a->ops[PZ_BACKWARD].n, k->ops[PZ_FORWARD].n + k->ops[PZ_BACKWARD].n);
  int64_t block = 0;
  for (uint32_t i = 0; i < k->ops[PZ_FORWARD].n; i++) block += k->ops[PZ_FORWARD].op[i].flop;
  assert_int_equal(again->totals.backward_flop - keep->totals.backward_flop, 32 * block);
  assert_int_equal(a->activation_bytes, 2 * 512 * 4096);
  assert_true(again->totals.peak_bytes < keep->totals.peak_bytes);
  pz_workload_free(keep);
  pz_workload_free(again);
}

/* Flash attention keeps query, key, value, result and one number a row, and makes the scores again.
 */
static void flash_attention_has_its_own_traffic_and_flop(void **state) {
  (void)state;
  struct pz_workload_options o = options(1024, 2);
  struct pz_workload *plain = pz_test_load("llama2-7b", &o);
  o.attention = PZ_ATTENTION_FLASH;
  struct pz_workload *flash = pz_test_load("llama2-7b", &o);
  const struct pz_op *op = find(&flash->layers[1].ops[PZ_FORWARD], "flash_attention");
  int64_t rows = 2 * 1024, h = 4096, products = 4 * rows * 1024 * h;
  assert_int_equal(op->matmul_flop, products);
  assert_int_equal(op->bytes_read, 3 * 2 * rows * h);
  assert_int_equal(op->bytes_written, 2 * rows * h + 4 * rows * 32);
  assert_int_equal(find(&flash->layers[1].ops[PZ_BACKWARD], "flash_attention")->matmul_flop,
                   products / 2 * 5);
  assert_int_equal(flash->totals.matmul_forward_flop, plain->totals.matmul_forward_flop);
  int64_t scores = 2 * 32 * 2 * 1024 * 1024;
  assert_int_equal(plain->layers[1].activation_bytes - flash->layers[1].activation_bytes,
                   scores - 4 * rows * 32);
  pz_workload_free(plain);
  pz_workload_free(flash);
}

/* Rows go to experts only when the router has chosen, and few tokens read few experts. */
static void dispatch_waits_for_the_router(void **state) {
  (void)state;
  for (int eager = 0; eager < 2; eager++) {
    struct pz_workload_options o = options(1, 1);
    o.kernels = eager ? PZ_KERNELS_EAGER : PZ_KERNELS_FUSED;
    struct pz_workload *w = pz_test_load("mixtral-8x7b", &o);
    const struct pz_ops *f = &w->layers[1].ops[PZ_FORWARD];
    assert_true(follows(f, find(f, "dispatch"), find(f, "router_topk")));
    assert_true(follows(f, find(f, "combine"), find(f, "router_topk")));
    assert_int_equal(find(f, "mlp_up")->weight_bytes, 2 * 2 * 4096 * 14336);
    pz_workload_free(w);
  }
}

/* Only the rotated quarter of GPT-NeoX's heads is worked on. */
static void partial_rotary_works_on_its_part(void **state) {
  (void)state;
  struct pz_workload_options o = options(128, 2);
  struct pz_workload *w = pz_test_load("gpt-neox-20b", &o);
  const struct pz_op *op = find(&w->layers[1].ops[PZ_FORWARD], "query_rotary");
  int64_t part = 2 * 128 * 6144 / 4;
  assert_int_equal(op->flop, 3 * part);
  assert_int_equal(op->bytes_written, 2 * part);
  pz_workload_free(w);
}

static void dropout_can_be_switched_off(void **state) {
  (void)state;
  struct pz_workload_options o = options(128, 1);
  o.dropout = 0;
  for (size_t m = 0; pz_preset_name(m); m++) {
    struct pz_workload *w = pz_test_load(pz_preset_name(m), &o);
    for (uint32_t l = 0; l < 3; l++)
      for (uint32_t i = 0; i < w->layers[l].ops[PZ_FORWARD].n; i++)
        assert_null(strstr(w->layers[l].ops[PZ_FORWARD].op[i].name, "dropout"));
    pz_workload_free(w);
  }
}

static void long_sequences_of_learned_positions_warn(void **state) {
  (void)state;
  struct pz_workload_options o = options(1024, 1);
  struct pz_workload *w = pz_test_load("gpt2", &o);
  assert_null(w->warning);
  pz_workload_free(w);
  o.seq = 2048;
  w = pz_test_load("gpt2", &o);
  assert_non_null(strstr(w->warning, "gpt2 has 1024 learned positions"));
  pz_workload_free(w);
  w = pz_test_load("llama2-7b", &o);
  assert_null(w->warning);
  pz_workload_free(w);
}

/* FLOP of both products of attention, forward. */
static int64_t attention_flop(const struct pz_layer *l) {
  int64_t sum = 0;
  for (uint32_t i = 0; i < l->ops[PZ_FORWARD].n; i++) {
    const struct pz_op *op = &l->ops[PZ_FORWARD].op[i];
    bool core = op->kind == PZ_OP_ATTENTION || strncmp(op->name, "scores", 6) == 0 ||
                strncmp(op->name, "context", 7) == 0;
    if (core) sum += op->matmul_flop;
  }
  return sum;
}

/* A window of w keys costs 4 s w, a chunk of c keys 4 s c, and what is saved shrinks alike; eager
 * code writes all scores. */
static void windows_cost_what_they_cost(void **state) {
  (void)state;
  static const struct {
    const char *model;
    int64_t width, seq, keys;
  } local[] = {{"gemma2-9b", 16 * 256, 8192, 4096},     {"gemma2-9b", 16 * 256, 2048, 2048},
               {"gemma3-27b", 32 * 128, 16384, 1024},   {"gpt-oss-20b", 64 * 64, 4096, 128},
               {"llama4-scout", 40 * 128, 32768, 8192}, {"starcoder2-15b", 48 * 128, 16384, 4096}};
  for (size_t i = 0; i < sizeof local / sizeof *local; i++)
    for (int k = 0; k < 4; k++) {
      struct pz_workload_options o = options(local[i].seq, 1);
      bool flash = k & 1, eager = k & 2;
      o.attention = flash ? PZ_ATTENTION_FLASH : PZ_ATTENTION_STANDARD;
      o.kernels = eager ? PZ_KERNELS_EAGER : PZ_KERNELS_FUSED;
      struct pz_workload *w = pz_test_load(local[i].model, &o);
      int64_t keys = eager && !flash ? local[i].seq : local[i].keys;
      assert_int_equal(attention_flop(&w->layers[1]), 4 * local[i].seq * keys * local[i].width);
      if (w->n_layers > 3) {
        assert_int_equal(attention_flop(&w->layers[2]),
                         4 * local[i].seq * local[i].seq * local[i].width);
        bool less = w->layers[1].activation_bytes < w->layers[2].activation_bytes;
        assert_int_equal(less, !flash && keys < local[i].seq);
      }
      pz_workload_free(w);
    }
}

/* "0x1 (1,2)x21 3x1" */
static const char *order_text(const struct pz_workload *w, char *buf, size_t size) {
  size_t at = 0;
  for (uint32_t i = 0; i < w->n_order; i++) {
    at += (size_t)snprintf(buf + at, size - at, "%s", i ? " " : "");
    for (uint32_t k = 0; k < w->order[i].n_unit; k++)
      at += (size_t)snprintf(buf + at, size - at, "%s%u", k ? "," : "", w->order[i].unit[k]);
    at += (size_t)snprintf(buf + at, size - at, "x%lld", (long long)w->order[i].repeats);
  }
  return buf;
}

static void layers_stand_in_order(void **state) {
  (void)state;
  static const struct {
    const char *model;
    int64_t layers;
    const char *order;
  } want[] = {{"gpt2", 0, "0x1 1x12 2x1"},
              {"gemma2-9b", 0, "0x1 1,2x21 3x1"},
              {"gemma2-9b", 7, "0x1 1,2x3 1x1 3x1"},
              {"gemma2-9b", 50, "0x1 1,2x25 3x1"},
              {"gemma3-12b", 0, "0x1 1,1,1,1,1,2x8 3x1"},
              {"gemma3-27b", 0, "0x1 1,1,1,1,1,2x10 1x2 3x1"},
              {"gemma3-12b", 4, "0x1 1x4 2x1"},
              {"deepseek-v3", 0, "0x1 1x3 2x58 3x1"},
              {"deepseek-v3", 70, "0x1 1x3 2x67 3x1"},
              {"llama4-scout", 0, "0x1 1,1,1,2x12 3x1"},
              {"llama4-maverick", 0, "0x1 1,2,1,3x12 4x1"},
              {"qwen3-8b", 0, "0x1 1x36 2x1"}};
  for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
    struct pz_workload_options o = options(128, 1);
    o.num_layers = want[i].layers;
    struct pz_workload *w = pz_test_load(want[i].model, &o);
    char text[128];
    assert_string_equal(order_text(w, text, sizeof text), want[i].order);
    int64_t count[8] = {0};
    for (uint32_t k = 0; k < w->n_order; k++)
      for (uint32_t u = 0; u < w->order[k].n_unit; u++)
        count[w->order[k].unit[u]] += w->order[k].repeats;
    for (uint32_t k = 0; k < w->n_layers; k++) assert_int_equal(count[k], w->layers[k].count);
    pz_workload_free(w);
  }
}

/* Parameters of adapters (Llama 3 8B, rank 16 on all layers: 41,943,040 as Hugging Face's PEFT counts; with query, key and
 * value, and gate and up as one layer each fewer), no gradient of another weight, nothing below the first adapter's layer. */
static void adapters_alone_have_gradients(void **state) {
  (void)state;
  static const struct {
    const char *text;
    int64_t trained;
  } list[] = {
      {"lora:16:q+k+v+o+gate+up+down", 41943040},
      {"lora:16:all", 41943040},
      {"lora:16:linear_qkv+linear_proj+linear_fc1+linear_fc2", 41943040 - 32 * 16 * 3 * 4096},
      {"lora:8:attention", 32 * 8 * (2 * 8192 + 2 * 5120)},
      {"lora:4:down_proj", 32 * 4 * (14336 + 4096)},
      {"none", 8030261248}};
  for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
    struct pz_workload_options o = pz_workload_options_default();
    struct pz_error err = {0};
    assert_int_equal(pz_lora_parse(list[i].text, &o.lora, &err), PZ_OK);
    struct pz_workload *w = pz_test_load("llama3-8b", &o);
    assert_int_equal(w->totals.model_trained_params, list[i].trained);
    if (o.lora.rank) {
      assert_int_equal(w->totals.model_params, 8030261248 + list[i].trained);
      assert_int_equal(w->layers[0].ops[PZ_BACKWARD].n, 0);
    }
    for (uint32_t l = 0; l < w->n_layers; l++)
      for (uint32_t k = 0; k < w->layers[l].ops[PZ_BACKWARD].n; k++) {
        const char *name = w->layers[l].ops[PZ_BACKWARD].op[k].name;
        if (o.lora.rank && strstr(name, "weight_grad")) assert_non_null(strstr(name, "adapter"));
      }
    pz_workload_free(w);
  }
  static const char *const wrong[] = {
      "lora",           "lora:16",    "lora:0:all",          "lora:x:all",
      "lora:16:",       "lora:16:q+", "lora:16:w",           "dora:16:all",
      "lora:99999:all", "lora:8:q+q", "lora:8:q+linear_qkv", "lora:8:all+up"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    struct pz_lora lora;
    struct pz_error err = {0};
    assert_int_equal(pz_lora_parse(wrong[i], &lora, &err), PZ_BAD_USE);
    assert_non_null(strstr(err.message, "accepted"));
  }
  struct pz_workload_options o = pz_workload_options_default();
  struct pz_workload *w = NULL;
  struct pz_error err = {0};
  o.lora.rank = 12;
  o.tp = 8;
  assert_int_equal(pz_workload_load("llama3-8b", &o, &w, &err), PZ_BAD_USE);
  assert_non_null(strstr(err.message, "adapters of rank 12 over 8 devices"));
}

/* Layers that the model does not have are named, and those that it has. */
static void adapters_are_of_layers_that_there_are(void **state) {
  (void)state;
  static const struct {
    const char *model, *text, *message; /* NULL: accepted */
  } list[] = {
      {"llama3-8b", "lora:8:in_proj",
       "llama3-8b has no layers in_proj for adapters (peft); accepted: linear_qkv, linear_proj, "
       "linear_fc1, linear_fc2"},
      {"llama3-8b", "lora:8:attention+out_proj", "no layers out_proj"},
      {"gpt2", "lora:8:gate+down", "no layers gate for"},
      {"gpt2", "lora:8:linear_fc1", NULL},
      {"deepseek-v3", "lora:8:linear_qkv", "linear_q_down_proj, linear_q_up_proj"},
      {"nemotron-3-nano", "lora:8:all", NULL},
      {"nemotron-3-nano", "lora:8:linear_kv_up_proj", "linear_fc2, in_proj, out_proj"},
      {"qwen3.5-27b", "lora:8:attention+in_proj", NULL}};
  for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
    struct pz_workload_options o = pz_workload_options_default();
    struct pz_workload *w = NULL;
    struct pz_error err = {0};
    o.peft = list[i].text;
    assert_int_equal(pz_workload_load(list[i].model, &o, &w, &err),
                     list[i].message ? PZ_BAD_USE : PZ_OK);
    if (list[i].message && !strstr(err.message, list[i].message)) fail_msg("%s", err.message);
    pz_workload_free(w);
  }
}

/* ---- sparse attention ------------------------------------------------------------------------ */

static const struct pz_op *op_named(const struct pz_layer *l, const char *name) {
  const struct pz_ops *ops = &l->ops[PZ_FORWARD];
  for (uint32_t i = 0; i < ops->n; i++)
    if (strcmp(ops->op[i].name, name) == 0) return &ops->op[i];
  return NULL;
}

/* An indexer scores all keys before a token, by so many heads; attention is to those that it chooses, in the vectors that
 * keys and values are made from where these are fewer than all.  Layers may take the keys of an earlier one. */
static void tokens_attend_to_chosen_keys(void **state) {
  (void)state;
  struct pz_workload_options o = pz_workload_options_default();
  o.attention = PZ_ATTENTION_FLASH;
  for (o.seq = 2048; o.seq <= 8192; o.seq *= 4) {
    struct pz_workload *w = pz_test_load("deepseek-v3.2", &o),
                       *dense = pz_test_load("deepseek-v3", &o);
    const struct pz_op *scores = op_named(&w->layers[2], "index_scores"),
                       *attention = op_named(&w->layers[2], "flash_attention"),
                       *all = op_named(&dense->layers[2], "flash_attention");
    assert_non_null(scores);
    assert_int_equal(scores->matmul_flop, o.seq * o.seq * 64 * 128);
    int64_t pairs = 128 * o.seq * 2048;
    assert_int_equal(attention->matmul_flop, 2 * pairs * (o.seq > 2048 ? 576 + 512 : 192 + 128));
    assert_int_equal(attention->n_in, all->n_in + 1);
    assert_int_equal(w->layers[2].params - dense->layers[2].params, 13959424);
    pz_workload_free(w);
    pz_workload_free(dense);
  }
  struct pz_workload *w = pz_test_load("glm-5.2", &o);
  assert_int_equal(w->layers[2].count, 57);
  assert_null(op_named(&w->layers[2], "index_scores"));
  assert_non_null(op_named(&w->layers[3], "index_scores"));
  pz_workload_free(w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tokens_attend_to_chosen_keys),
      cmocka_unit_test(gpt_flop_is_the_closed_form),
      cmocka_unit_test(weight_gradients_can_be_left_out),
      cmocka_unit_test(llama_flop_is_the_closed_form),
      cmocka_unit_test(mixtral_counts_active_flop_and_all_memory),
      cmocka_unit_test(both_gradient_products_are_independent),
      cmocka_unit_test(every_preset_is_well_formed),
      cmocka_unit_test(every_grid_is_well_formed),
      cmocka_unit_test(windows_cost_what_they_cost),
      cmocka_unit_test(layers_stand_in_order),
      cmocka_unit_test(fusion_keeps_work_and_what_backward_reads),
      cmocka_unit_test(eager_does_the_same_products_in_more_operators),
      cmocka_unit_test(work_grows_as_it_must),
      cmocka_unit_test(recomputation_adds_the_forward),
      cmocka_unit_test(flash_attention_has_its_own_traffic_and_flop),
      cmocka_unit_test(dispatch_waits_for_the_router),
      cmocka_unit_test(partial_rotary_works_on_its_part),
      cmocka_unit_test(adapters_alone_have_gradients),
      cmocka_unit_test(adapters_are_of_layers_that_there_are),
      cmocka_unit_test(dropout_can_be_switched_off),
      cmocka_unit_test(long_sequences_of_learned_positions_warn),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
