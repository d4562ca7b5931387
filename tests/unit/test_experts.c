/* Experts: FLOP against closed forms, and slices over expert, expert-tensor and tensor parallelism
 * that together are the whole. */
#include "unit/testing.h"

#include "workload/op.h"

static int64_t forward_flop(const struct pz_workload *w, uint32_t layer) {
  int64_t sum = 0;
  for (uint32_t i = 0; i < w->layers[layer].ops[PZ_FORWARD].n; i++)
    sum += w->layers[layer].ops[PZ_FORWARD].op[i].matmul_flop;
  return sum;
}

static struct pz_workload_options options(int64_t seq, int64_t mbs) {
  struct pz_workload_options o = pz_workload_options_default();
  o.seq = seq;
  o.mbs = mbs;
  return o;
}

/* Tokens, hidden, router, experts of a token, width, shared width: three products each. */
static int64_t moe_flop(int64_t T, int64_t h, int64_t E, int64_t k, int64_t f, int64_t shared) {
  return 2 * T * h * E + 2 * T * k * 3 * h * f + 2 * T * 3 * h * shared;
}

/* Attention: query, key and value, output, and scores over n keys. */
static int64_t attention_flop(int64_t T, int64_t h, int64_t q, int64_t kv, int64_t n) {
  return 2 * T * (2 * h * q + 2 * h * kv) + 4 * T * n * q;
}

static void moe_flop_is_the_closed_form(void **state) {
  (void)state;
  int64_t s = 4096, T = 2 * s;
  struct pz_workload_options o = options(s, 2);
  struct pz_workload *w = pz_test_load("qwen3-30b-a3b", &o);
  assert_int_equal(forward_flop(w, 1),
                   attention_flop(T, 2048, 4096, 512, s) + moe_flop(T, 2048, 128, 8, 768, 0));
  pz_workload_free(w);
  w = pz_test_load("gpt-oss-120b", &o);
  assert_int_equal(forward_flop(w, 1),
                   attention_flop(T, 2880, 4096, 512, 128) + moe_flop(T, 2880, 128, 4, 2880, 0));
  assert_int_equal(forward_flop(w, 2),
                   attention_flop(T, 2880, 4096, 512, s) + moe_flop(T, 2880, 128, 4, 2880, 0));
  pz_workload_free(w);
  w = pz_test_load("llama4-scout", &o);
  assert_int_equal(forward_flop(w, 1),
                   attention_flop(T, 5120, 5120, 1024, s) + moe_flop(T, 5120, 16, 1, 8192, 8192));
  pz_workload_free(w);
}

/* Latent attention: down and up projections of query, key and value; heads of 192 and 128. */
static void latent_attention_flop_is_the_closed_form(void **state) {
  (void)state;
  int64_t s = 4096, T = s, h = 7168, A = 128;
  for (int flash = 0; flash < 2; flash++) {
    struct pz_workload_options o = options(s, 1);
    o.attention = flash ? PZ_ATTENTION_FLASH : PZ_ATTENTION_STANDARD;
    struct pz_workload *w = pz_test_load("deepseek-v3", &o);
    int64_t attention =
        2 * T * (h * 1536 + 1536 * A * 192 + h * (512 + 64) + 512 * A * (128 + 128) + A * 128 * h) +
        2 * T * s * A * (192 + 128);
    assert_string_equal(w->layers[1].name, "block_dense");
    assert_int_equal(w->layers[1].count, 3);
    assert_int_equal(forward_flop(w, 1), attention + 2 * T * 3 * h * 18432);
    assert_string_equal(w->layers[2].name, "block_moe");
    assert_int_equal(w->layers[2].count, 58);
    assert_int_equal(forward_flop(w, 2), attention + moe_flop(T, h, 256, 8, 2048, 2048));
    pz_workload_free(w);
  }
}

/* What one device of a slice does in the repeated layers. */
struct sums {
  int64_t flop[2], matmul[2], expert_weight_bytes, exchanged_bytes, params, experts, whole, grouped;
};

/* `tp` devices together; what every one of them repeats is counted once. */
static int64_t group_flop(const struct pz_op *op, int64_t tp) {
  int64_t flop = op->flop * (op->replicated ? 1 : tp);
  for (uint32_t t = 0; t < op->n_tail; t++) {
    const struct pz_tail *x = &op->tail[t];
    if (x->replicated && !op->replicated)
      flop -= (tp - 1) * x->elems * pz_op_info(x->kind)->flop[x->direction];
  }
  return flop;
}

static void add_op(struct sums *s, const struct pz_layer *l, const struct pz_op *op, int64_t tp) {
  s->flop[op->direction] += group_flop(op, tp);
  s->grouped += op->grouped;
  s->matmul[op->direction] += op->matmul_flop;
  bool expert = false;
  for (uint32_t k = 0; k < op->n_in; k++) expert = expert || l->tensors[op->in[k]].experts;
  if (expert) s->expert_weight_bytes += op->weight_bytes;
  if (op->kind == PZ_OP_ALL_TO_ALL) s->exchanged_bytes += op->bytes_read;
}

static struct sums sums_of(const struct pz_workload *w) {
  struct sums s = {0};
  for (uint32_t i = 1; i + 1 < w->n_layers; i++) {
    const struct pz_layer *l = &w->layers[i];
    for (int d = 0; d < 2; d++)
      for (uint32_t k = 0; k < l->ops[d].n; k++) add_op(&s, l, &l->ops[d].op[k], w->options.tp);
    s.params += l->params - l->expert_params - l->split_params;
    s.params += l->split_params * w->options.tp;
    s.experts += l->expert_params;
    s.whole += l->model_params;
  }
  return s;
}

static const struct {
  const char *model;
  int64_t hidden, experts_per_token, moe_kinds;
  int64_t most_tp; /* 0: any */
} models[] = {{"mixtral-8x7b", 4096, 2, 1, 0},       {"qwen3-30b-a3b", 2048, 8, 1, 0},
              {"deepseek-v2", 5120, 6, 1, 0},        {"deepseek-v3", 7168, 8, 1, 0},
              {"llama4-scout", 5120, 1, 2, 0},       {"nemotron-3-nano", 2688, 6, 1, 2},
              {"nemotron-3-super", 1024, 22, 1, 2}, /* rows of the latent width */
              {"qwen3-next-80b-a3b", 2048, 10, 2, 2}};

static void conserve(size_t m, struct pz_workload_options o) {
  struct pz_workload_options one = o;
  one.tp = one.ep = one.etp = 1;
  one.sequence_parallel = false;
  struct pz_workload *whole = pz_test_load(models[m].model, &one),
                     *part = pz_test_load(models[m].model, &o);
  struct sums w = sums_of(whole), p = sums_of(part);
  for (int d = 0; d < 2; d++) {
    assert_int_equal(p.matmul[d] * o.tp, w.matmul[d]);
    /* partial gradients of gate and up are added by every device that has a part of an expert */
    if (o.etp == 1) assert_int_equal(p.flop[d], w.flop[d]);
  }
  assert_int_equal(p.whole, w.whole);
  assert_true(p.grouped > 0 && p.grouped == w.grouped);
  assert_int_equal(p.params, w.params);
  assert_int_equal(p.experts * o.ep * o.etp, w.experts);
  assert_int_equal(p.expert_weight_bytes * o.ep * o.etp, w.expert_weight_bytes);
  /* there and back, forward (again where it is recomputed) and backward: the chosen rows of this
   * device's tokens */
  int64_t rows = o.mbs * o.seq / o.tp * models[m].experts_per_token;
  int64_t times = o.ep == 1 ? 0 : o.recompute == PZ_RECOMPUTE_FULL ? 6 : 4;
  assert_int_equal(p.exchanged_bytes, times * 2 * rows * models[m].hidden * models[m].moe_kinds);
  assert_int_equal(part->totals.active_params, whole->totals.active_params);
  pz_workload_free(whole);
  pz_workload_free(part);
}

static void slices_together_are_the_whole(void **state) {
  (void)state;
  static const int64_t grids[][3] = {{1, 2, 1}, {1, 8, 1}, {1, 4, 2}, {1, 1, 2},
                                     {2, 2, 1}, {2, 4, 2}, {4, 8, 1}, {4, 1, 1}};
  for (size_t m = 0; m < sizeof models / sizeof *models; m++)
    for (size_t g = 0; g < sizeof grids / sizeof *grids; g++)
      for (int k = 0; k < 8; k++) {
        struct pz_workload_options o = options(4096, 2);
        if (models[m].most_tp && grids[g][0] > models[m].most_tp) continue;
        o.tp = grids[g][0];
        o.ep = grids[g][1];
        o.etp = grids[g][2];
        o.sequence_parallel = o.tp > 1;
        o.kernels = k & 1 ? PZ_KERNELS_EAGER : PZ_KERNELS_FUSED;
        o.attention = k & 2 ? PZ_ATTENTION_FLASH : PZ_ATTENTION_STANDARD;
        o.recompute = k & 4 ? PZ_RECOMPUTE_FULL : PZ_RECOMPUTE_NONE;
        conserve(m, o);
      }
}

/* Which devices an exchange joins, how many, and what they move. */
static void exchanges_say_their_group(void **state) {
  (void)state;
  struct pz_workload_options o = options(4096, 1);
  o.tp = 2;
  o.ep = 8;
  o.etp = 4;
  o.sequence_parallel = true;
  struct pz_workload *w = pz_test_load("qwen3-30b-a3b", &o);
  int found[3] = {0};
  for (int d = 0; d < 2; d++)
    for (uint32_t i = 0; i < w->layers[1].ops[d].n; i++) {
      const struct pz_op *op = &w->layers[1].ops[d].op[i];
      if (op->op_class != PZ_CLASS_COLLECTIVE) continue;
      static const int64_t number[] = {2, 8, 4}, rows[] = {4096, 2048 * 8, 2048 * 8 * 4};
      assert_int_equal(op->dims.batch, number[op->peers]);
      assert_int_equal(op->dims.m, rows[op->peers]);
      assert_int_equal(op->dims.n, 2048);
      assert_int_equal(op->kind == PZ_OP_ALL_TO_ALL, op->peers == PZ_PEERS_EXPERT);
      found[op->peers]++;
    }
  assert_int_equal(found[PZ_PEERS_TENSOR],
                   2 + 3); /* the attention's: gather, sum; gathered again */
  assert_int_equal(found[PZ_PEERS_EXPERT], 4);
  assert_int_equal(found[PZ_PEERS_EXPERT_TENSOR], 4);
  pz_workload_free(w);
}

static void grids_that_do_not_divide_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *model;
    int64_t tp, ep, etp;
    const char *message;
  } bad[] = {
      {"llama3-8b", 1, 2, 1, "llama3-8b has no experts; accepted: expert-parallel degree 1"},
      {"mixtral-8x7b", 1, 3, 1, "expert-parallel degree 3 does not divide the 8 experts"},
      {"mixtral-8x7b", 1, 2, 3, "expert-tensor-parallel degree 3 does not divide the width"},
      {"mixtral-8x7b", 2, 2, 1, "needs sequence parallelism"},
      {"mixtral-8x7b", 1, -1, 1, "expert-parallel degree -1; accepted: 0 to 65536"},
      {"phi4", 4, 1, 1, "does not divide the key/value heads of phi4 (10)"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    struct pz_workload_options o = pz_workload_options_default();
    struct pz_workload *w = NULL;
    struct pz_error err = {0};
    o.tp = bad[i].tp;
    o.ep = bad[i].ep;
    o.etp = bad[i].etp;
    assert_int_equal(pz_workload_load(bad[i].model, &o, &w, &err), PZ_BAD_USE);
    if (!strstr(err.message, bad[i].message))
      fail_msg("'%s' lacks '%s'", err.message, bad[i].message);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(moe_flop_is_the_closed_form),
      cmocka_unit_test(latent_attention_flop_is_the_closed_form),
      cmocka_unit_test(slices_together_are_the_whole),
      cmocka_unit_test(exchanges_say_their_group),
      cmocka_unit_test(grids_that_do_not_divide_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
