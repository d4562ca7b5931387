/* Predictions: limits, monotony and conservation that must hold for every plan, and published runs. */
#include "unit/core_borders.h"
#include "unit/testing.h"

#include <math.h>
#include <time.h>

#include "core/alloc.h"
#include "core/file.h"
#include "core/json.h"
#include "place/neighbours.h"
#include "plan/plan_fields.h"
#include "step/prediction.h"
#include "step/run_cost.h"
#include "step/run_table.h"
#include "step/step_model.h"
#include "step/training_memory.h"
#include "step_borders.h"
#include "unit/chip_borders.h"

static struct pz_plan plan_of(int64_t tp, int64_t pp, int64_t dp, int64_t batch) {
  return (struct pz_plan){.tp = tp,
                          .pp = pp,
                          .vpp = 1,
                          .dp = dp,
                          .mbs = 1,
                          .batch = batch,
                          .seq = 1024,
                          .execution = PZ_EXECUTION_GRAPH,
                          .grad_bytes = 4,
                          .framework = pz_framework_find("megatron")};
}

static struct pz_prediction predict(const struct pz_plan *plan, double faster, double late_s) {
  struct pz_chip chip;
  struct pz_cluster net;
  struct pz_job job = {.model = "gpt2", .chip = &chip, .net = &net};
  struct pz_prediction p;
  struct pz_error err = {0};
  assert_int_equal(pz_test_chip_read("a100-80", &chip, &err), PZ_OK);
  assert_int_equal(pz_cluster_load("dgx-a100", &net, &err), PZ_OK);
  for (int l = 0; l < net.n_levels; l++) {
    net.level[l].bytes_per_s *= faster;
    net.level[l].latency_s += late_s;
  }
  if (try_predict(&job, plan, &p, &err) != PZ_OK) fail_msg("%s", err.message);
  return p;
}

static double sum_of(const struct pz_training_parts *x) {
  return x->products_s + x->attention_s + x->elementwise_s + x->launch_s + x->tensor_s +
         x->transfer_s + x->bubble_s + x->gradient_s + x->waiting_s + x->optimizer_s;
}

/* One device, one microbatch: no bubble, no network; twice the batch takes twice the passes. */
static void one_device_is_the_chip(void **state) {
  (void)state;
  struct pz_plan plan = plan_of(1, 1, 1, 8), twice = plan_of(1, 1, 1, 16);
  struct pz_prediction p = predict(&plan, 1, 0), q = predict(&twice, 1, 0);
  assert_true(p.parts.tensor_s == 0 && p.parts.transfer_s == 0 && p.parts.gradient_s == 0);
  assert_true(p.parts.bubble_s < 1e-9 * p.step_s);
  double passes = p.step_s - p.parts.optimizer_s, more = q.step_s - q.parts.optimizer_s;
  assert_true(fabs(more / passes - 2) < 1e-9);
}

/* By hand: 4,096 devices are ln(4096 / 512) = 2.079 e-folds beyond 512, so that waiting is 0.015 x 2.079 = 3.12% of the rest of
 * the step; 512 devices do not wait, and nobody waits where collectives take no time. */
static void many_devices_wait_for_the_slowest(void **state) {
  (void)state;
  struct pz_plan few = plan_of(1, 1, 512, 512), many = plan_of(1, 1, 4096, 4096);
  struct pz_cluster instant = {.instant = true};
  struct pz_prediction p = predict(&few, 1, 0), q = predict(&many, 1, 0);
  assert_true(p.parts.waiting_s == 0);
  double rest = q.step_s - q.parts.waiting_s;
  assert_true(fabs(q.parts.waiting_s / rest - 0.015 * log(8)) < 1e-9);
  assert_true(fabs(sum_of(&q.parts) / q.step_s - 1) < 1e-9);
  assert_true(pz_step_waiting(NULL, &instant, 1 << 20) == 0);
  assert_true(pz_step_waiting(NULL, NULL, 1) == 0);
}

/* By hand: of three chunks, whose gradients are a third each, those of the last leave behind its pass; the passes of a group
 * of two microbatches hide the others on a fast network.  A third shows, besides the tied matrix that ends exchange. */
static void interleaved_stages_exchange_by_chunk(void **state) {
  (void)state;
  struct pz_plan plan = plan_of(1, 2, 2, 64), tied = plan_of(1, 2, 1, 32);
  plan.vpp = tied.vpp = 3;
  plan.pipeline = tied.pipeline = PZ_PIPELINE_INTERLEAVED;
  plan.overlap = tied.overlap = PZ_OVERLAP_GRAD;
  struct pz_prediction p = predict(&plan, 1, 0), q = predict(&tied, 1, 0);
  double shown_s = p.parts.gradient_s - q.parts.gradient_s;
  assert_true(p.gradient_hidden_s > 0);
  assert_true(fabs(shown_s / (shown_s + p.gradient_hidden_s) - 1.0 / 3) < 1e-6);
}

/* Parts sum up to the step, for plans of every kind. */
static void parts_sum_up(void **state) {
  (void)state;
  static const int64_t shapes[][3] = {{1, 1, 1}, {2, 1, 4}, {1, 4, 2}, {4, 3, 2}, {8, 2, 1}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (int z = 0; z < 4; z++)
      for (int r = 0; r < PZ_RECOMPUTATIONS; r++) {
        struct pz_plan plan = plan_of(shapes[i][0], shapes[i][1], shapes[i][2], 64);
        plan.zero = z;
        plan.recompute = r;
        if (shapes[i][0] == 8) continue; /* gpt2 has 12 heads */
        struct pz_prediction p = predict(&plan, 1, 0);
        if (fabs(sum_of(&p.parts) / p.step_s - 1) > 1e-9)
          fail_msg("shape %zu, zero %d: parts %g, step %g", i, z, sum_of(&p.parts), p.step_s);
        assert_true(p.bound_s <= p.step_s && p.mfu > 0 && p.mfu < 1 && p.hfu >= p.mfu);
        assert_true(p.tensor_hidden_s >= 0 && p.gradient_hidden_s >= 0);
      }
}

static double step_on(const char *model, const char *chip_name, const struct pz_cluster *net,
                      const struct pz_plan *plan) {
  struct pz_chip chip;
  struct pz_error err = {0};
  struct pz_prediction p;
  if (pz_test_chip_read(chip_name, &chip, &err) != PZ_OK) fail_msg("%s", err.message);
  struct pz_job job = {.model = model, .chip = &chip, .net = net};
  if (try_predict(&job, plan, &p, &err) != PZ_OK) fail_msg("%s", err.message);
  return p.step_s;
}

/* A second network above 256 devices, of the same rate and latency, changes nothing: 70e9 x (4 + 2) bytes over 8 devices of a
 * node are 19 s through interfaces of 3 GB/s.  A slower one is never faster. */
static void levels_above_the_interfaces(void **state) {
  (void)state;
  struct pz_cluster two, three;
  assert_int_equal(pz_cluster_load("dgx-h100", &two, NULL), PZ_OK);
  two.level[1].bytes_per_s = 3e9;
  three = two;
  three.n_levels = 3;
  three.level[2] = two.level[1];
  three.level[1].devices = 256;
  struct pz_plan plan = plan_of(8, 1, 128, 1024);
  plan.zero = 1;
  plan.devices = 1024;
  plan.attention = PZ_ATTENTION_FLASH;
  double flat = step_on("llama3-70b", "h100", &two, &plan);
  assert_true(flat > 70e9 * 6 / 8 / 3e9);
  assert_true(fabs(step_on("llama3-70b", "h100", &three, &plan) / flat - 1) < 0.01);
  three.level[2].bytes_per_s /= 4;
  assert_true(step_on("llama3-70b", "h100", &three, &plan) >= flat);
}

/* A second of latency between nodes is paid by every transfer between stages: a microbatch crosses 15 of them forward and
 * backward, and each of the eight waits for it both ways. */
static void latency_shows_in_a_step(void **state) {
  (void)state;
  struct pz_cluster near, late;
  assert_int_equal(pz_cluster_load("dgx-h100", &near, NULL), PZ_OK);
  late = near;
  late.level[1].latency_s = 1;
  struct pz_plan plan = plan_of(1, 16, 8, 64);
  plan.zero = 1;
  plan.attention = PZ_ATTENTION_FLASH;
  double more =
      step_on("llama3-70b", "h100", &late, &plan) - step_on("llama3-70b", "h100", &near, &plan);
  assert_true(more > 2 * (8 + 15 - 1) && more < 2 * (8 + 15 + 1) * 1.01);
}

/* Without overlap, sharding the optimizer's state is never slower: of each parameter 4 + 2 bytes are exchanged in place of
 * 2 x 4, or as many where gradients have 2. */
static void sharding_moves_no_more(void **state) {
  (void)state;
  struct pz_cluster net;
  assert_int_equal(pz_cluster_load("dgx-h200", &net, NULL), PZ_OK);
  for (int grad_bytes = 2; grad_bytes <= 4; grad_bytes += 2)
    for (int64_t tp = 1; tp <= 8; tp *= 8) {
      struct pz_plan whole = plan_of(tp, 1, 64 / tp, 64), sharded;
      struct pz_prediction a, b;
      struct pz_chip chip;
      struct pz_job job = {.model = "llama3-70b", .chip = &chip, .net = &net};
      assert_int_equal(pz_test_chip_read("h200", &chip, NULL), PZ_OK);
      whole.attention = PZ_ATTENTION_FLASH;
      whole.grad_bytes = grad_bytes;
      sharded = whole;
      sharded.zero = 1;
      assert_int_equal(try_predict(&job, &whole, &a, NULL), PZ_OK);
      assert_int_equal(try_predict(&job, &sharded, &b, NULL), PZ_OK);
      double ratio = b.parts.gradient_s / a.parts.gradient_s;
      assert_true(grad_bytes == 2 ? fabs(ratio - 1) < 1e-9 : 0.7 < ratio && ratio < 0.85);
      assert_true(b.step_s < a.step_s);
    }
}

/* A faster network is never slower; more microbatches take the bubble's part away; recomputation is
 * never faster; host launches only add. */
static void monotone(void **state) {
  (void)state;
  struct pz_plan plan = plan_of(2, 4, 4, 64);
  double before = HUGE_VAL;
  for (double faster = 0.25; faster < 1e6; faster *= 4) {
    double s = predict(&plan, faster, 0).step_s;
    assert_true(s <= before);
    before = s;
  }
  double share = 1;
  for (int64_t batch = 16; batch <= 4096; batch *= 4) {
    struct pz_plan more = plan_of(1, 4, 4, batch);
    struct pz_prediction p = predict(&more, 1, 0);
    assert_true(p.parts.bubble_s / p.step_s < share);
    share = p.parts.bubble_s / p.step_s;
  }
  assert_true(share < 0.02);
  double none = predict(&plan, 1, 0).step_s;
  plan.recompute = PZ_RECOMPUTATION_SELECTIVE;
  double selective = predict(&plan, 1, 0).step_s;
  plan.recompute = PZ_RECOMPUTATION_FULL;
  double full = predict(&plan, 1, 0).step_s;
  assert_true(none < selective && selective < full);
  plan.execution = PZ_EXECUTION_EAGER;
  assert_true(predict(&plan, 1, 0).step_s > full);
}

/* Published runs (tests/data/runs.csv names the sources): within what the model claims. */
static void published_runs(void **state) {
  (void)state;
  char *text = NULL;
  size_t bytes = 0;
  struct pz_arena arena;
  struct pz_run_table t;
  struct pz_error err = {0};
  double sum = 0;
  pz_arena_init(&arena);
  const char *path = PHAZE_TEST_DATA "/runs.csv";
  assert_int_equal(pz_file_read(path, 1 << 20, &text, &bytes, &err), PZ_OK);
  if (try_read_runs(path, text, bytes, 2, &arena, &t, &err) != PZ_OK) fail_msg("%s", err.message);
  for (uint32_t i = 0; i < t.n_rows; i++) {
    const struct pz_run_row *r = &t.rows[i];
    if (!r->predicted) fail_msg("%s: %s", r->id, r->reason);
    double e = r->p.step_s / r->measured_s - 1;
    if (fabs(e) > 0.15) fail_msg("%s: %+.1f%%", r->id, 100 * e);
    sum += fabs(e);
  }
  print_message("  %u runs, mean error %.1f%%\n", t.n_rows, 100 * sum / t.n_rows);
  assert_true(t.n_rows >= 6 && sum / t.n_rows < 0.08);
  free(text);
  pz_arena_release(&arena);
}

/* 6 FLOP a parameter of the products, without the embedding's look-up, and 12 layers heads head_dim seq: of a
 * model whose heads together are wider than its hidden size, and of it with the head tied to the embedding. */
static void conventional_mfu_has_the_stated_convention(void **state) {
  (void)state;
  static const char *const tied[] = {"false", "true"};
  for (int i = 0; i < 2; i++) {
    struct pz_chip chip;
    struct pz_prediction p;
    struct pz_error err = {0};
    char config[400];
    snprintf(config, sizeof config,
             "{\"model_type\":\"llama\",\"hidden_size\":1024,\"num_hidden_layers\":4,"
             "\"num_attention_heads\":8,\"num_key_value_heads\":2,\"head_dim\":256,"
             "\"intermediate_size\":4096,\"vocab_size\":32000,\"tie_word_embeddings\":%s}",
             tied[i]);
    struct pz_job job = {.model = "wide", .config = config, .chip = &chip};
    struct pz_plan plan = plan_of(1, 1, 1, 1);
    plan.seq = 2048;
    assert_int_equal(pz_test_chip_read("h100", &chip, &err), PZ_OK);
    if (try_predict(&job, &plan, &p, &err) != PZ_OK) fail_msg("%s", err.message);
    double layer = 1024.0 * 256 * (8 + 2 + 2 + 8) + 3 * 1024.0 * 4096 + 2 * 1024;
    double params = 4 * layer + 32000.0 * 1024 + 1024, flop = 6 * params + 12.0 * 4 * 2048 * 2048;
    double unit = p.step_s * pz_chip_tensor_flop_per_s(&chip) / 2048;
    assert_true(fabs(p.mfu_conventional * unit / flop - 1) < 1e-9);
    double per_device = p.flop_per_s_per_device * p.step_s / p.tokens;
    assert_true(fabs(per_device / flop - 1) < 1e-9);
    assert_true(fabs(p.params - params - (i ? 0 : 32000.0 * 1024)) < 0.5);
    assert_true(p.hfu == p.mfu);
    plan.recompute = PZ_RECOMPUTATION_FULL;
    if (try_predict(&job, &plan, &p, &err) != PZ_OK) fail_msg("%s", err.message);
    double again = 2 * 4 * layer + 2.0 * 4 * 2048 * 2048; /* half of causal attention */
    unit = p.step_s * pz_chip_tensor_flop_per_s(&chip) / 2048;
    assert_true(fabs((p.hfu - p.mfu) * unit / again - 1) < 1e-9);
  }
}

/* One plan in less than 10 ms: the best of several, in processor time, so that neither a busy machine nor
 * sanitizers fail it. */
static void a_plan_takes_milliseconds(void **state) {
  (void)state;
  struct pz_plan plan = plan_of(8, 8, 16, 1536);
  struct pz_chip chip;
  struct pz_cluster net;
  struct pz_job job = {.model = "gpt3-175b", .chip = &chip, .net = &net};
  struct pz_prediction p;
  struct pz_error err = {0};
  double best = HUGE_VAL;
  plan.seq = 2048;
  assert_int_equal(pz_test_chip_read("a100-80", &chip, &err), PZ_OK);
  assert_int_equal(pz_cluster_load("dgx-a100", &net, &err), PZ_OK);
  for (int i = 0; i < 7; i++) {
    clock_t start = clock();
    if (try_predict(&job, &plan, &p, &err) != PZ_OK) fail_msg("%s", err.message);
    best = fmin(best, (double)(clock() - start) / CLOCKS_PER_SEC);
  }
  print_message("one plan of gpt3-175b on 1024 devices: %.2f ms\n", 1e3 * best);
  assert_true(best < 0.01);
}

/* Milliseconds of forward and backward of a GPT with so many layers. */
static void passes_of(const struct pz_plan *plan, int layers, double ms[2]) {
  struct pz_chip chip;
  struct pz_cluster net;
  struct pz_prediction p;
  struct pz_error err = {0};
  struct pz_arena arena;
  char config[300];
  snprintf(
      config, sizeof config,
      "{\"model_type\":\"gpt2\",\"n_embd\":6144,\"n_layer\":%d,\"n_head\":64,\"n_inner\":24576,"
      "\"vocab_size\":51200,\"n_positions\":2048}",
      layers);
  struct pz_job job = {.model = "22b", .config = config, .chip = &chip, .net = &net};
  pz_arena_init(&arena);
  struct pz_prediction_detail detail = {.no_events = false};
  assert_int_equal(pz_test_chip_read("a100-80", &chip, &err), PZ_OK);
  assert_int_equal(pz_cluster_load("dgx-a100", &net, &err), PZ_OK);
  if (try_predict_detail(&job, plan, &arena, &p, &detail, &err) != PZ_OK)
    fail_msg("%s", err.message);
  assert_int_equal(detail.run.n_events, 2);
  for (int i = 0; i < 2; i++)
    ms[i] = 1e3 * (detail.run.events[i].end_s - detail.run.events[i].start_s);
  pz_arena_release(&arena);
}

/* Forward and backward of one layer of the 22 billion parameter model on eight A100, tensor parallel;
 * Korthikanti et al., 2022, table 4. */
static void layer_times_of_a_published_table(void **state) {
  (void)state;
  static const struct {
    bool sp;
    enum pz_recomputation recompute;
    double forward_ms, backward_ms;
  } rows[] = {{false, PZ_RECOMPUTATION_NONE, 7.7, 11.9},
              {true, PZ_RECOMPUTATION_NONE, 7.2, 11.8},
              {false, PZ_RECOMPUTATION_FULL, 7.7, 19.5},
              {false, PZ_RECOMPUTATION_SELECTIVE, 7.7, 13.2},
              {true, PZ_RECOMPUTATION_SELECTIVE, 7.2, 13.1}};
  double error = 0;
  size_t n = sizeof rows / sizeof *rows;
  for (size_t i = 0; i < n; i++) {
    double ms[2][2] = {{0}};
    for (int layers = 1; layers <= 2; layers++) {
      struct pz_plan plan = plan_of(8, 1, 1, 4);
      plan.mbs = 4;
      plan.seq = 2048;
      plan.execution = PZ_EXECUTION_EAGER;
      plan.sp = rows[i].sp;
      plan.recompute = (int)rows[i].recompute;
      passes_of(&plan, layers, ms[layers - 1]);
    }
    double f = ms[1][0] - ms[0][0], b = ms[1][1] - ms[0][1];
    double all = rows[i].forward_ms + rows[i].backward_ms, e = (f + b) / all - 1;
    print_message(
        "layer of 22B, row %zu: forward %.1f of %.1f ms, backward %.1f of %.1f: %+.1f%%\n", i, f,
        rows[i].forward_ms, b, rows[i].backward_ms, 100 * e);
    assert_true(fabs(e) < 0.1);
    error += fabs(e) / (double)n;
  }
  assert_true(error < 0.07);
}

static void wrong_plans_are_told(void **state) {
  (void)state;
  struct pz_chip chip;
  struct pz_cluster net;
  struct pz_job job = {.model = "gpt2", .chip = &chip, .net = &net};
  struct pz_error err = {0};
  assert_int_equal(pz_test_chip_read("a100-80", &chip, &err), PZ_OK);
  assert_int_equal(pz_cluster_load("dgx-a100", &net, &err), PZ_OK);
  const struct {
    struct pz_plan plan;
    const char *message;
  } bad[] = {{plan_of(0, 1, 1, 8), "tp 0; accepted"},
             {plan_of(1, 13, 1, 8), "12 layers in 13 chunks"},
             {plan_of(1, 1, 16, 8), "less than one microbatch"},
             {plan_of(5, 1, 1, 8), "5"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    struct pz_prediction p;
    struct pz_error why = {0};
    assert_int_not_equal(try_predict(&job, &bad[i].plan, &p, &why), PZ_OK);
    if (!strstr(why.message, bad[i].message)) fail_msg("%s", why.message);
  }
}

/* ---- the command's parts -------------------------------------------------------------------- */

static struct pz_training_run *run_of(const struct pz_plan *o, bool events) {
  struct pz_training_run *r = NULL;
  struct pz_chip chip;
  struct pz_cluster net;
  struct pz_error err = {0};
  assert_int_equal(pz_test_chip_read("a100-80", &chip, &err), PZ_OK);
  assert_int_equal(pz_cluster_load("dgx-a100", &net, &err), PZ_OK);
  if (pz_training_predict("gpt2", &chip, &net, o, events, &r, &err) != PZ_OK)
    fail_msg("%s", err.message);
  return r;
}

/* Every part is in the lists that tables and JSON go through. */
static void parts_are_listed(void **state) {
  (void)state;
  struct pz_plan o = pz_plan_default();
  o.devices = 16;
  o.tp = o.pp = 2;
  o.batch = 64;
  struct pz_training_run *r = run_of(&o, false);
  const struct pz_part_info *part;
  double sum = 0;
  for (size_t i = 0; (part = pz_time_part_at(i)); i++) sum += pz_time_part(&r->p.parts, part);
  assert_true(fabs(sum / r->p.step_s - 1) < 1e-9);
  for (int64_t k = 0; k < r->plan.pp; k++) {
    sum = 0;
    for (size_t i = 0; (part = pz_memory_part_at(i)); i++)
      sum += pz_memory_part(&r->stages[k], part);
    assert_true(fabs(sum / pz_training_memory_sum(&r->stages[k]) - 1) < 1e-9);
    assert_true(sum <= r->p.peak_bytes * (1 + 1e-9));
  }
  pz_training_run_free(r);
}

/* What is hidden and what is not make up the whole, whatever overlaps. */
static void hidden_and_exposed_are_all(void **state) {
  (void)state;
  struct pz_plan o = pz_plan_default();
  o.devices = 16;
  o.tp = 2;
  o.batch = 64;
  o.execution = PZ_EXECUTION_GRAPH;
  o.overlap = 0;
  struct pz_training_run *none = run_of(&o, false);
  o.overlap = PZ_OVERLAP_ALL;
  struct pz_training_run *all = run_of(&o, false);
  assert_true(none->p.tensor_hidden_s == 0 && none->p.gradient_hidden_s == 0);
  assert_true(all->p.tensor_hidden_s > 0 && all->p.gradient_hidden_s > 0);
  double tensor = all->p.tensor_hidden_s + all->p.parts.tensor_s,
         gradient = all->p.gradient_hidden_s + all->p.parts.gradient_s;
  assert_true(fabs(tensor / none->p.parts.tensor_s - 1) < 1e-9);
  assert_true(fabs(gradient / none->p.parts.gradient_s - 1) < 1e-9);
  pz_training_run_free(none);
  pz_training_run_free(all);
}

/* Sharding over all replicas is the plan without --shard; over fewer it holds more, over one as much
 * as no sharding at all.  GPipe keeps every microbatch, and takes as long as 1F1B with equal stages. */
static void shards_and_orders(void **state) {
  (void)state;
  struct pz_plan o = pz_plan_default();
  o.devices = 16;
  o.batch = 64;
  o.zero = 3;
  struct pz_training_run *all = run_of(&o, false);
  double before = all->p.peak_bytes, step = all->p.step_s;
  for (o.shard = 16; o.shard >= 1; o.shard /= 2) {
    struct pz_training_run *r = run_of(&o, false);
    assert_true(o.shard == 16 ? r->p.step_s == step && r->p.peak_bytes == before
                              : r->p.peak_bytes > before);
    before = r->p.peak_bytes;
    pz_training_run_free(r);
  }
  o.shard = o.zero = 0;
  struct pz_training_run *none = run_of(&o, false);
  assert_true(fabs(before / none->p.peak_bytes - 1) < 1e-9);
  o.pp = 4;
  struct pz_training_run *one = run_of(&o, false);
  o.pipeline = PZ_PIPELINE_GPIPE;
  struct pz_training_run *gpipe = run_of(&o, false);
  assert_true(gpipe->p.peak_bytes > one->p.peak_bytes);
  assert_true(gpipe->p.step_s > 0.95 * one->p.step_s && gpipe->p.step_s < 1.05 * one->p.step_s);
  pz_training_run_free(all);
  pz_training_run_free(none);
  pz_training_run_free(one);
  pz_training_run_free(gpipe);
}

/* Fields in which two plans differ. */
static int changed(const struct pz_plan *a, const struct pz_plan *b) {
  int n = 0;
  for (int f = 0; f < PZ_PLAN_FIELDS; f++) {
    char x[PZ_FIELD_TEXT_MOST], y[PZ_FIELD_TEXT_MOST];
    pz_plan_field_text(a, (enum pz_plan_field)f, x, sizeof x);
    pz_plan_field_text(b, (enum pz_plan_field)f, y, sizeof y);
    n += strcmp(x, y) != 0;
  }
  return n;
}

/* What is said to fit does, the fastest first; and constants that count are told with their part. */
static void changes_and_constants(void **state) {
  (void)state;
  struct pz_plan o = pz_plan_default();
  struct pz_training_run *r = NULL;
  struct pz_chip chip;
  struct pz_cluster net;
  struct pz_error err = {0};
  struct pz_arena arena;
  struct pz_job job = {.model = "llama2-70b", .chip = &chip, .net = &net};
  struct pz_plan_changes *c = NULL;
  struct pz_constant_effect *effects = NULL;
  uint32_t n = 0;
  assert_int_equal(pz_test_chip_read("a100-80", &chip, &err), PZ_OK);
  assert_int_equal(pz_cluster_load("dgx-a100", &net, &err), PZ_OK);
  o.devices = 64;
  o.tp = 4;
  o.batch = 64;
  if (pz_training_predict("llama2-70b", &chip, &net, &o, false, &r, &err) != PZ_OK)
    fail_msg("%s", err.message);
  assert_true(r->p.peak_bytes > r->hbm_bytes);
  pz_arena_init(&arena);
  assert_int_equal(pz_training_changes("llama2-70b", &chip, &net, r, &c, &err), PZ_OK);
  assert_true(c->n > 0);
  for (uint32_t i = 0; i < c->n; i++) {
    const struct pz_plan_change *x = &c->list[i];
    assert_true(x->p.peak_bytes <= r->hbm_bytes && changed(&x->plan, &r->plan) > 0);
    assert_true(x->options[0] && fabs(1 - x->p.step_s / r->p.step_s - x->gain) < 1e-12);
    assert_true(i == 0 || x->p.step_s >= x[-1].p.step_s);
  }
  pz_plan_changes_free(c);
  assert_int_equal(try_constant_effects(&job, &r->plan, &arena, &effects, &n, &err), PZ_OK);
  bool launches = false;
  for (uint32_t i = 0; i < n; i++) {
    assert_true(fabs(effects[i].step_change) < 0.11);
    if (strcmp(effects[i].name, "launch_s") == 0)
      launches = effects[i].step_change > 0 && strcmp(effects[i].part, "launches") == 0;
  }
  assert_true(launches);
  pz_arena_release(&arena);
  pz_training_run_free(r);
}

struct seen {
  double end, first_backward, first_forward_end;
};

/* The trace: spans of a stage never overlap, no stage goes backward before the last one has gone
 * forward, and the last span ends with the step. */
static void trace_is_the_step(void **state) {
  (void)state;
  static const int64_t shapes[][3] = {{1, 1, 8}, {4, 1, 8}, {4, 3, 8}, {3, 1, 1}, {2, 2, 4}};
  for (size_t i = 0; i < 2 * sizeof shapes / sizeof *shapes; i++) {
    const int64_t *shape = shapes[i / 2];
    struct pz_plan o = pz_plan_default();
    o.pp = shape[0];
    o.vpp = shape[1];
    o.batch = 2 * shape[2];
    o.dp = 2;
    o.seq = 256;
    if (i % 2 && o.vpp > 1) continue;
    if (i % 2) o.pipeline = PZ_PIPELINE_GPIPE;
    struct pz_training_run *r = run_of(&o, true);
    struct seen stages[8] = {{0}};
    struct pz_error err = {0};
    char *text = NULL;
    json_t *json = NULL, *e;
    size_t at;
    if (pz_training_run_trace(r, "gpt2", &text, &err) != PZ_OK) fail_msg("%s", err.message);
    assert_int_equal(pz_json_parse("trace", text, strlen(text), &json, &err), PZ_OK);
    uint32_t n = 0;
    json_array_foreach(json_object_get(json, "traceEvents"), at, e) {
      if (strcmp(json_string_value(json_object_get(e, "ph")), "X") != 0) continue;
      struct seen *s = &stages[json_integer_value(json_object_get(e, "tid"))];
      double start = json_number_value(json_object_get(e, "ts")),
             end = start + json_number_value(json_object_get(e, "dur"));
      const char *cat = json_string_value(json_object_get(e, "cat"));
      if (start < s->end) fail_msg("shape %zu: %g starts before %g", i, start, s->end);
      s->end = end;
      if (strncmp(cat, "forward", 7) == 0 && s->first_forward_end == 0) s->first_forward_end = end;
      if (strncmp(cat, "backward", 8) == 0 && s->first_backward == 0) s->first_backward = start;
      n++;
    }
    assert_int_equal(n, r->n_events + 2 * o.pp);
    for (int64_t k = 1; k <= o.pp; k++) {
      assert_true(stages[k].first_backward >= stages[o.pp].first_forward_end);
      assert_true(fabs(stages[k].end / 1e6 / r->p.step_s - 1) < 1e-6);
    }
    json_decref(json);
    pz_free(text);
    pz_training_run_free(r);
  }
}

/* No other interval between checkpoints is better by more than a thousandth; goodput falls with
 * every loss, and without losses all time is work. */
static void checkpoint_interval_is_best(void **state) {
  (void)state;
  for (double c = 0.01; c < 2e4; c *= 3)
    for (double mtbf = 100; mtbf < 1e8; mtbf *= 7) {
      double best = pz_checkpoint_interval_s(c, mtbf);
      double got = pz_checkpoint_goodput(best, c, 0, mtbf);
      assert_true(best > 0 && got > 0 && got < 1);
      if (c > 0.5 * mtbf) continue; /* the expansion is for checkpoints shorter than that */
      for (double f = 0.05; f < 20; f *= 1.1)
        if (pz_checkpoint_goodput(f * best, c, 0, mtbf) > got * 1.001)
          fail_msg("checkpoint %g s, failures every %g s: %g times the interval is better", c, mtbf,
                   f);
      assert_true(pz_checkpoint_goodput(best, c, 600, mtbf) < got);
      assert_true(pz_checkpoint_goodput(best, c, 0, mtbf / 2) < got);
    }
  assert_true(pz_checkpoint_goodput(3600, 0, 0, 1e15) > 1 - 1e-9);
  /* Young's formula where failures are rare */
  assert_true(fabs(pz_checkpoint_interval_s(10, 1e10) / sqrt(2 * 10 * 1e10) - 1) < 1e-4);
}

static void costs_add_up(void **state) {
  (void)state;
  struct pz_plan o = pz_plan_default();
  struct pz_run_cost_options c = pz_run_cost_options_default();
  struct pz_run_cost cost = {0};
  struct pz_chip chip;
  struct pz_error err = {0};
  o.devices = 16;
  o.batch = 64;
  struct pz_training_run *r = run_of(&o, false);
  assert_int_equal(pz_test_chip_read("a100-80", &chip, &err), PZ_OK);
  c.tokens = 1000.5 * 64 * 1024;
  c.price = 2;
  assert_int_equal(pz_run_cost(r, &chip, &c, &cost, &err), PZ_OK);
  assert_true(cost.steps == 1001 && fabs(cost.seconds / (1001 * r->p.step_s) - 1) < 1e-12);
  assert_true(fabs(cost.dollars / (2 * 16 * cost.seconds / 3600) - 1) < 1e-12);
  assert_true(cost.goodput == 0 && cost.all_seconds == 0);
  assert_true(r->watts > 100 && r->watts <= chip.watts); /* more than at rest, within the limit */
  assert_true(fabs(cost.energy_j / (16 * cost.seconds * r->watts) - 1) < 1e-12);
  r->watts = 0; /* a chip of unknown power */
  assert_int_equal(pz_run_cost(r, &chip, &c, &cost, &err), PZ_OK);
  assert_true(fabs(cost.energy_j / (16 * cost.seconds * chip.watts) - 1) < 1e-12);
  c.mtbf_s = 3600 * 5e4;
  assert_int_equal(pz_run_cost(r, &chip, &c, &cost, &err), PZ_OK);
  assert_true(cost.goodput > 0.9 && cost.goodput < 1 && cost.all_dollars > cost.dollars);
  assert_true(fabs(cost.all_energy_j * cost.goodput / cost.energy_j - 1) < 1e-12);
  assert_true(fabs(cost.job_mtbf_s * 16 / c.mtbf_s - 1) < 1e-12);
  assert_true(fabs(cost.checkpoint_s * 16 * 1.25e8 / (14 * r->p.params) - 1) < 1e-12);
  c.mtbf_s = 1;
  assert_int_equal(pz_run_cost(r, &chip, &c, &cost, &err), PZ_NO_ANSWER);
  pz_training_run_free(r);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_device_is_the_chip),
      cmocka_unit_test(many_devices_wait_for_the_slowest),
      cmocka_unit_test(interleaved_stages_exchange_by_chunk),
      cmocka_unit_test(parts_sum_up),
      cmocka_unit_test(levels_above_the_interfaces),
      cmocka_unit_test(latency_shows_in_a_step),
      cmocka_unit_test(sharding_moves_no_more),
      cmocka_unit_test(monotone),
      cmocka_unit_test(published_runs),
      cmocka_unit_test(a_plan_takes_milliseconds),
      cmocka_unit_test(conventional_mfu_has_the_stated_convention),
      cmocka_unit_test(layer_times_of_a_published_table),
      cmocka_unit_test(wrong_plans_are_told),
      cmocka_unit_test(parts_are_listed),
      cmocka_unit_test(hidden_and_exposed_are_all),
      cmocka_unit_test(shards_and_orders),
      cmocka_unit_test(changes_and_constants),
      cmocka_unit_test(trace_is_the_step),
      cmocka_unit_test(checkpoint_interval_is_best),
      cmocka_unit_test(costs_add_up),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
