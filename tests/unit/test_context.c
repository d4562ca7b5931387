/* Context parallelism: parts of the context together are the whole, a causal band costs what a count of
 * its blocks says, and predictions of long sequences. */
#include "unit/testing.h"

#include <math.h>

#include "core/num.h"
#include "cost/attention.h"
#include "step/predict.h"
#include "step_borders.h"
#include "unit/chip_borders.h"
#include "workload/op.h"
#include "workload/parts.h"

static struct pz_workload_options options(int64_t seq, int64_t mbs) {
  struct pz_workload_options o = pz_workload_options_default();
  o.seq = seq;
  o.mbs = mbs;
  o.attention = PZ_ATTENTION_FLASH;
  return o;
}

/* ---- parts are the whole -------------------------------------------------------------------- */

static void conserve(const char *model, struct pz_workload_options o) {
  struct pz_workload_options one = o;
  one.cp = 1;
  struct pz_workload *whole = pz_test_load(model, &one), *part = pz_test_load(model, &o);
  const struct pz_totals *w = &whole->totals, *p = &part->totals;
  bool ring = o.cp_form == PZ_CONTEXT_RING;
  if (p->forward_flop * o.cp != w->forward_flop || p->backward_flop * o.cp != w->backward_flop)
    fail_msg("%s, cp %d, tp %d, ep %d: FLOP %lld and %lld of %lld and %lld", model, (int)o.cp,
             (int)o.tp, (int)o.ep, (long long)(p->forward_flop * o.cp),
             (long long)(p->backward_flop * o.cp), (long long)w->forward_flop,
             (long long)w->backward_flop);
  assert_int_equal(p->matmul_forward_flop * o.cp, w->matmul_forward_flop);
  assert_int_equal(p->matmul_backward_flop * o.cp, w->matmul_backward_flop);
  if (ring) assert_int_equal(p->activation_bytes * o.cp, w->activation_bytes);
  assert_int_equal(p->params, w->params);
  assert_int_equal(p->model_params, w->model_params);
  assert_int_equal(p->split_params, w->split_params);
  assert_int_equal(p->expert_params, w->expert_params);
  pz_workload_free(whole);
  pz_workload_free(part);
}

static const struct {
  const char *model;
  int64_t kv_heads;
  bool experts;
  int64_t groups; /* of recurrent layers, which devices repeat if they are more; 0: none */
} models[] = {{"llama3-8b", 8, false, 0},          {"gpt3-175b", 96, false, 0},
              {"gemma3-27b", 16, false, 0},        {"gpt-oss-20b", 8, true, 0},
              {"llama4-scout", 8, true, 0},        {"deepseek-v3", 128, true, 0},
              {"qwen3-30b-a3b", 4, true, 0},       {"phi4", 10, false, 0},
              {"nemotron-3-super", 2, true, 8},    {"nemotron-h-8b", 8, false, 8},
              {"qwen3-next-80b-a3b", 2, true, 16}, {"qwen3.5-27b", 4, false, 16}};

static void conserve_all(size_t m, int64_t tp, int64_t ep, int64_t cp) {
  for (int k = 0; k < 8; k++) {
    struct pz_workload_options o = options(32768, 2);
    o.tp = tp;
    o.ep = ep;
    o.etp = ep > 1 ? 1 : 0;
    o.cp = cp;
    o.sequence_parallel = tp > 1;
    o.kernels = k & 1 ? PZ_KERNELS_EAGER : PZ_KERNELS_FUSED;
    o.recompute = k & 2 ? PZ_RECOMPUTE_FULL : PZ_RECOMPUTE_NONE;
    o.cp_form = k & 4 ? PZ_CONTEXT_ALL_TO_ALL : PZ_CONTEXT_RING;
    if (o.cp_form == PZ_CONTEXT_RING || models[m].kv_heads / tp % cp == 0)
      conserve(models[m].model, o);
  }
}

static void parts_together_are_the_whole(void **state) {
  (void)state;
  for (size_t m = 0; m < sizeof models / sizeof *models; m++)
    for (int64_t tp = 1; tp <= 2; tp++)
      for (int64_t ep = 1; ep <= (models[m].experts ? 4 : 1); ep *= 4)
        for (int64_t cp = 2; cp <= (models[m].groups ? models[m].groups / tp : 16); cp *= 2)
          conserve_all(m, tp, ep, cp);
}

/* ---- a causal band -------------------------------------------------------------------------- */

/* First key that query q reads. */
static int64_t first_key(int64_t q, int64_t window, int64_t chunk) {
  if (chunk) return q / chunk * chunk;
  return window && q >= window ? q - window + 1 : 0;
}

/* Pairs of query and key of a device's two pieces. */
static int64_t device_pairs(int64_t seq, int64_t cp, int64_t device, int64_t window,
                            int64_t chunk) {
  int64_t piece = seq / (2 * cp), pairs = 0;
  for (int side = 0; side < 2; side++) {
    int64_t start = (side ? 2 * cp - 1 - device : device) * piece;
    for (int64_t q = start; q < start + piece; q++) pairs += q - first_key(q, window, chunk) + 1;
  }
  return pairs;
}

/* The two pieces are one from each end: full attention and chunks of whole pieces are even, and a band's
 * sum is its area less the triangle before its first keys. */
static void pairs_are_the_closed_form(void **state) {
  (void)state;
  for (int64_t cp = 1; cp <= 8; cp *= 2)
    for (int64_t seq = 16; seq <= 128; seq += 16)
      for (int64_t window = 1; window <= seq; window++) {
        int64_t sum = 0;
        for (int64_t i = 0; i < cp; i++) sum += device_pairs(seq, cp, i, window, 0);
        assert_int_equal(sum, seq * window - window * (window - 1) / 2);
        int64_t chunk = seq / (2 * cp) * window;
        if (chunk > seq || seq % chunk) continue;
        for (int64_t i = 0; i < cp; i++)
          if (window % 2 == 0 || window == 1)
            assert_int_equal(device_pairs(seq, cp, i, 0, chunk) * cp, seq * (chunk + 1) / 2);
      }
}

/* Blocks of 128 x 128 that the kernel of a device touches, summed over devices. */
static int64_t blocks_of(int64_t n, int64_t cp, int64_t window) {
  int64_t piece = n / (2 * cp), sum = 0;
  for (int64_t i = 0; i < 2 * cp; i++)
    for (int64_t q = i * piece; q < (i + 1) * piece; q++)
      sum += (window < n ? pz_min(q, window) : q) + 1;
  return sum;
}

static void a_band_costs_its_blocks(void **state) {
  (void)state;
  for (int64_t cp = 1; cp <= 8; cp *= 2)
    for (int64_t n = 16; n <= 128; n *= 2)
      for (int64_t window = 1; window <= n; window *= 2) {
        struct pz_dims d = {1, 128 * n / cp, 128 * window, 128};
        double part = pz_attention_causal_part(&d, 128 * n, 128);
        double all = part * (double)(n * window);
        if (fabs(all / (double)blocks_of(n, cp, window) - 1) > 1e-12)
          fail_msg("cp %d, %d of %d blocks: %g, counted %d", (int)cp, (int)window, (int)n, all,
                   (int)blocks_of(n, cp, window));
      }
}

/* Keys that a device's queries read or that it has itself. */
static int64_t keys_reached(int64_t seq, int64_t cp, int64_t device, int64_t window,
                            int64_t chunk) {
  bool reached[512] = {false};
  int64_t piece = seq / (2 * cp), n = 0;
  for (int side = 0; side < 2; side++) {
    int64_t start = (side ? 2 * cp - 1 - device : device) * piece;
    for (int64_t q = start; q < start + piece; q++)
      for (int64_t k = first_key(q, window, chunk); k <= q; k++) reached[k] = true;
  }
  for (int64_t k = 0; k < seq; k++) n += reached[k];
  return n;
}

/* As many keys come as the device with most needs (chunks: as they all do on average). */
static void keys_that_come_are_those_reached(void **state) {
  (void)state;
  for (int64_t cp = 2; cp <= 8; cp *= 2)
    for (int64_t width = 1; width < 256; width += 1 + width / 4)
      for (int chunks = 0; chunks < 2; chunks++) {
        struct pz_workload_options o = options(256, 1);
        o.cp = cp;
        struct pz_builder b = {.options = &o, .local_seq = 256 / cp};
        struct pz_arch a = {.window = chunks ? 0 : width, .chunk = chunks ? width : 0};
        int64_t most = 0, sum = 0, keys = pz_context_keys(&b, &a);
        for (int64_t i = 0; i < cp; i++) {
          int64_t n = keys_reached(256, cp, i, a.window, a.chunk);
          most = pz_max(most, n);
          sum += n;
        }
        if (chunks)
          assert_true(keys * cp >= sum);
        else
          assert_true(keys >= most);
        /* a short window on pieces with one before each: exactly those */
        if (!chunks && cp > 2 && width <= 256 / (2 * cp)) assert_int_equal(keys, most);
        if (chunks && 256 / (2 * cp) % width == 0) assert_int_equal(keys, b.local_seq);
      }
}

/* ---- graphs --------------------------------------------------------------------------------- */

static void exchanges_move_keys_or_heads(void **state) {
  (void)state;
  struct pz_workload_options o = options(8192, 2);
  o.tp = 2;
  o.sequence_parallel = true;
  o.cp = 4;
  int64_t kept = 0;
  for (int form = 0; form < 2; form++) {
    o.cp_form = form ? PZ_CONTEXT_ALL_TO_ALL : PZ_CONTEXT_RING;
    struct pz_workload *w = pz_test_load("llama3-8b", &o);
    int64_t moved[2] = {0}, tokens = 2 * 8192 / 4, query = 4096 / 2, key = 1024 / 2;
    for (int d = 0; d < 2; d++)
      for (uint32_t i = 0; i < w->layers[1].ops[d].n; i++) {
        const struct pz_op *op = &w->layers[1].ops[d].op[i];
        if (op->peers != PZ_PEERS_CONTEXT) continue;
        assert_int_equal(op->dims.batch, 4);
        assert_int_equal(op->op_class, PZ_CLASS_COLLECTIVE);
        moved[d] += pz_max(op->bytes_read, op->bytes_written);
      }
    /* ring: keys and values of all, backward again and with their gradients */
    assert_int_equal(moved[0],
                     form ? 2 * tokens * (2 * query + 2 * key) : 2 * tokens * 4 * 2 * key);
    assert_int_equal(moved[1], (form ? 1 : 2) * moved[0]);
    /* the result is kept in both layouts: by heads for attention, by tokens for the projection */
    if (!form) kept = w->layers[1].activation_bytes;
    assert_int_equal(w->layers[1].activation_bytes, kept + (form ? 2 * tokens * query : 0));
    pz_workload_free(w);
  }
}

/* Of keys and values that pass, memory holds one part beside the own. */
static void a_ring_holds_one_more_part(void **state) {
  (void)state;
  struct pz_workload_options o = options(65536, 1), alone = options(8192, 1);
  o.cp = 8;
  struct pz_workload *w = pz_test_load("llama2-7b", &o), *own = pz_test_load("llama2-7b", &alone);
  const struct pz_layer *a = &w->layers[1], *b = &own->layers[1];
  int64_t part = 2 * 2 * 8192 * 4096;
  assert_int_equal(a->activation_bytes, b->activation_bytes);
  assert_int_equal(a->live[PZ_FORWARD].net_bytes, b->live[PZ_FORWARD].net_bytes);
  assert_in_range(a->live[PZ_FORWARD].peak_bytes, b->live[PZ_FORWARD].peak_bytes,
                  b->live[PZ_FORWARD].peak_bytes + part);
  assert_in_range(a->live[PZ_BACKWARD].peak_bytes, b->live[PZ_BACKWARD].peak_bytes,
                  b->live[PZ_BACKWARD].peak_bytes + 2 * part);
  pz_workload_free(w);
  pz_workload_free(own);
}

static void contexts_that_do_not_divide_are_refused(void **state) {
  (void)state;
  static const struct {
    int64_t seq, tp, cp;
    bool heads, standard;
    const char *message;
  } bad[] = {
      {8192, 1, 4, false, true,
       "context-parallel degree 4 with standard attention; accepted: flash"},
      {8192, 1, 3, false, false,
       "3 with 8192 tokens; accepted: degrees of which twice divides them"},
      {12, 1, 4, false, false, "degrees of which twice divides them"},
      {8192, 1, 16, true, false,
       "does not divide the 8 key/value heads that a device has of llama3-8b"},
      {8192, 4, 4, true, false,
       "does not divide the 2 key/value heads that a device has of llama3-8b"},
      {8192, 1, -1, false, false, "context-parallel degree -1; accepted: 0 to 65536"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    struct pz_workload_options o = options(bad[i].seq, 1);
    struct pz_workload *w = NULL;
    struct pz_error err = {0};
    o.tp = bad[i].tp;
    o.cp = bad[i].cp;
    o.cp_form = bad[i].heads ? PZ_CONTEXT_ALL_TO_ALL : PZ_CONTEXT_RING;
    if (bad[i].standard) o.attention = PZ_ATTENTION_STANDARD;
    assert_int_equal(pz_workload_load("llama3-8b", &o, &w, &err), PZ_BAD_USE);
    if (!strstr(err.message, bad[i].message))
      fail_msg("'%s' lacks '%s'", err.message, bad[i].message);
  }
}

/* ---- predictions ---------------------------------------------------------------------------- */

static struct pz_prediction predict(const char *model, int64_t seq, const struct pz_plan *plan,
                                    double faster) {
  struct pz_chip chip;
  struct pz_cluster net;
  struct pz_job job = {.model = model, .chip = &chip, .net = &net};
  struct pz_plan at = *plan;
  struct pz_prediction p;
  struct pz_error err = {0};
  assert_int_equal(pz_test_chip_read("h100", &chip, &err), PZ_OK);
  assert_int_equal(pz_cluster_load("dgx-h100", &net, &err), PZ_OK);
  for (int l = 0; l < net.n_levels; l++) net.level[l].bytes_per_s *= faster;
  at.seq = seq;
  if (try_predict(&job, &at, &p, &err) != PZ_OK) fail_msg("%s", err.message);
  return p;
}

static struct pz_plan plan_of(int64_t cp, int64_t dp) {
  return (struct pz_plan){.tp = 1,
                          .pp = 1,
                          .vpp = 1,
                          .dp = dp,
                          .cp = cp,
                          .mbs = 1,
                          .batch = dp,
                          .zero = 3,
                          .attention = PZ_ATTENTION_FLASH,
                          .recompute = PZ_RECOMPUTATION_FULL,
                          .execution = PZ_EXECUTION_GRAPH,
                          .grad_bytes = 4,
                          .framework = pz_framework_find("megatron")};
}

/* A part of the context takes its part of the attention, windows and chunks included; so it does on a part of the heads.
 * In a ring up to an eighth more: a kernel for every device's keys, and the results added up. */
static void windows_cost_what_they_cost(void **state) {
  (void)state;
  static const char *const names[] = {"llama3-8b", "gemma3-27b", "gpt-oss-120b", "llama4-scout"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    for (int64_t cp = 2; cp <= 8; cp *= 2)
      for (int form = 0; form < 2; form++) {
        struct pz_plan one = plan_of(1, 8), plan = plan_of(cp, 8);
        plan.cp_form = form ? PZ_CONTEXT_ALL_TO_ALL : PZ_CONTEXT_RING;
        double whole = predict(names[i], 131072, &one, 1).parts.attention_s,
               part = predict(names[i], 131072, &plan, 1).parts.attention_s;
        double more = part * (double)cp / whole - 1;
        if (more < -0.05 || more > (form ? 0.05 : 0.125))
          fail_msg("%s, cp %d: attention %g s of %g s", names[i], (int)cp, part, whole);
      }
}

static void a_faster_network_is_never_slower(void **state) {
  (void)state;
  static const char *const names[] = {"llama3-8b", "gemma3-27b"};
  for (int form = 0; form < 2; form++)
    for (size_t i = 0; i < 2; i++)
      for (int64_t cp = 1; cp <= 8; cp *= 2) {
        double before = HUGE_VAL;
        for (double faster = 0.01; faster < 200; faster *= 4) {
          struct pz_plan plan = plan_of(cp, 16 / cp);
          plan.cp_form = form ? PZ_CONTEXT_ALL_TO_ALL : PZ_CONTEXT_RING;
          double s = predict(names[i], 16384, &plan, faster).step_s;
          assert_true(s <= before * (1 + 1e-12));
          before = s;
        }
      }
}

static void a_million_tokens(void **state) {
  (void)state;
  struct pz_plan plan = plan_of(32, 8), wide = plan_of(8, 8);
  struct pz_prediction p = predict("llama3-8b", 1 << 20, &plan, 1),
                       q = predict("llama3-8b", 1 << 20, &wide, 1);
  assert_true(isfinite(p.step_s) && p.mfu_conventional > 0.4 && p.mfu > 0.2 && p.mfu < 1);
  assert_true(p.peak_bytes < 80e9);
  /* attention is nearly all of it: four times the devices, a fourth of the time but for smaller kernels */
  assert_true(q.step_s / p.step_s < 4 && q.step_s / p.step_s > 4 * 0.9);
  plan.cp = 8;
  plan.cp_form = PZ_CONTEXT_ALL_TO_ALL;
  p = predict("llama3-8b", 1 << 20, &plan, 1);
  assert_true(fabs(p.step_s / q.step_s - 1) < 0.08);
  assert_true(p.parts.tensor_s > 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(parts_together_are_the_whole),
      cmocka_unit_test(pairs_are_the_closed_form),
      cmocka_unit_test(a_band_costs_its_blocks),
      cmocka_unit_test(keys_that_come_are_those_reached),
      cmocka_unit_test(exchanges_move_keys_or_heads),
      cmocka_unit_test(a_ring_holds_one_more_part),
      cmocka_unit_test(contexts_that_do_not_divide_are_refused),
      cmocka_unit_test(windows_cost_what_they_cost),
      cmocka_unit_test(a_faster_network_is_never_slower),
      cmocka_unit_test(a_million_tokens),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
