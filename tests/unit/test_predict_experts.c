/* Predictions of models with experts: what must hold for every grid of them, and measured steps. */
#include "unit/testing.h"

#include <math.h>
#include <string.h>

#include "chip/chip.h"
#include "core/alloc.h"
#include "core/num.h"
#include "cost/constants.h"
#include "step/step_model.h"
#include "step/training_memory.h"
#include "step_borders.h"
#include "unit/chip_borders.h"
#include "unit/plan_borders.h"

/* Two dense layers, then six with 16 experts of which a token meets 4, and a shared one. */
static const char config[] =
    "{\"model_type\":\"deepseek_v3\",\"hidden_act\":\"silu\",\"hidden_size\":1024,"
    "\"num_hidden_layers\":8,\"num_attention_heads\":8,\"num_key_value_heads\":8,"
    "\"intermediate_size\":4096,\"vocab_size\":32000,\"max_position_embeddings\":2048,"
    "\"q_lora_rank\":256,\"kv_lora_rank\":128,\"qk_rope_head_dim\":32,\"qk_nope_head_dim\":64,"
    "\"v_head_dim\":64,\"n_routed_experts\":16,\"num_experts_per_tok\":4,"
    "\"moe_intermediate_size\":512,\"n_shared_experts\":1,\"first_k_dense_replace\":2,"
    "\"n_group\":1,\"topk_group\":1}";

static struct pz_plan plan_of(int64_t tp, int64_t pp, int64_t dp, int64_t ep) {
  return (struct pz_plan){.tp = tp,
                          .pp = pp,
                          .vpp = 1,
                          .dp = dp,
                          .ep = ep,
                          .sp = tp > 1,
                          .mbs = 1,
                          .batch = 16 * dp,
                          .seq = 2048,
                          .attention = PZ_ATTENTION_FLASH,
                          .execution = PZ_EXECUTION_GRAPH,
                          .grad_bytes = 4,
                          .framework = pz_framework_find("megatron")};
}

static struct pz_prediction predict(const struct pz_plan *plan, double faster) {
  struct pz_chip chip;
  struct pz_cluster net;
  struct pz_job job = {.model = "small", .config = config, .chip = &chip, .net = &net};
  struct pz_prediction p;
  struct pz_error err = {0};
  assert_int_equal(pz_test_chip_read("h100", &chip, &err), PZ_OK);
  assert_int_equal(pz_cluster_load("dgx-h100", &net, &err), PZ_OK);
  for (int l = 0; l < net.n_levels; l++) net.level[l].bytes_per_s *= faster;
  if (try_predict(&job, plan, &p, &err) != PZ_OK) fail_msg("%s", err.message);
  return p;
}

static double sum_of(const struct pz_training_parts *x) {
  return x->products_s + x->attention_s + x->elementwise_s + x->launch_s + x->tensor_s +
         x->expert_s + x->transfer_s + x->bubble_s + x->gradient_s + x->waiting_s + x->optimizer_s;
}

/* Parts sum up, on every grid of experts that the devices allow, and in every order of a pipeline. */
static void parts_sum_up(void **state) {
  (void)state;
  int tried = 0;
  for (int64_t tp = 1; tp <= 4; tp *= 2)
    for (int64_t pp = 1; pp <= 4; pp *= 2)
      for (int64_t ep = 1; ep <= 16; ep *= 2)
        for (int order = 0; order < PZ_PIPELINES; order++) {
          struct pz_plan plan = plan_of(tp, pp, 8, ep);
          plan.pipeline = order;
          plan.vpp = pp > 1 && pz_pipeline_chunks((enum pz_pipeline_order)order) != 1 ? 2 : 1;
          struct pz_pipeline_shape shape = pz_plan_pipeline_shape(&plan);
          if ((8 * tp) % ep || !pz_pipeline_can_run(&shape)) continue;
          struct pz_prediction p = predict(&plan, 1);
          tried++;
          if (fabs(sum_of(&p.parts) / p.step_s - 1) > 1e-9)
            fail_msg("tp %d pp %d ep %d %s: parts %g, step %g", (int)tp, (int)pp, (int)ep,
                     pz_pipeline_names[order], sum_of(&p.parts), p.step_s);
          assert_true(p.bound_s <= p.step_s * (1 + 1e-12) && p.mfu > 0 && p.mfu < 1);
          assert_true((p.parts.expert_s > 0) == (ep > 1));
        }
  print_message("  %d plans\n", tried);
  assert_true(tried > 100);
}

/* Adapters of six layers' experts: Megatron Bridge has one for those of a device, plain GEMMs of each pass; others have
 * one for each. */
static void experts_share_adapters(void **state) {
  (void)state;
  static const struct {
    const char *framework;
    int64_t batch, trained; /* of a layer with experts, all of them of one device */
  } list[] = {{"nemo", 1, 8 * (1024 + 2 * 512 + 512 + 1024)},
              {"torch", 4, 4 * 8 * (1024 + 2 * 512 + 512 + 1024)}};
  for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
    struct pz_plan plan = plan_of(1, 1, 4, 4);
    struct pz_chip chip;
    struct pz_cluster net;
    struct pz_job job = {.model = "small", .config = config, .chip = &chip, .net = &net};
    struct pz_step_model *m = NULL;
    struct pz_error err = {0};
    int seen = 0;
    plan.framework = pz_framework_find(list[i].framework);
    plan.peft = "lora:8:all";
    assert_int_equal(pz_test_chip_read("h100", &chip, &err), PZ_OK);
    assert_int_equal(pz_cluster_load("dgx-h100", &net, &err), PZ_OK);
    if (try_step_model_new(&job, &plan, &m, &err) != PZ_OK) fail_msg("%s", err.message);
    for (uint32_t l = 0; l < m->workload->n_layers; l++) {
      const struct pz_layer *layer = &m->workload->layers[l];
      if (!layer->expert_params) continue;
      assert_int_equal(layer->trained_expert_params, list[i].trained);
      for (int d = PZ_FORWARD; d <= PZ_BACKWARD; d++)
        for (uint32_t k = 0; k < layer->ops[d].n; k++) {
          const struct pz_op *op = &layer->ops[d].op[k];
          if (strncmp(op->name, "mlp_down.adapter_", 17) != 0 || !op->matmul_flop) continue;
          assert_int_equal(op->grouped, list[i].batch > 1);
          assert_int_equal(op->dims.batch, list[i].batch);
          seen++;
        }
    }
    assert_int_equal(seen, 6); /* two forward, two for each of them backward */
    pz_step_model_free(m);
  }
}

/* A faster network is never slower and takes the all-to-all away; a device with more rows is never faster; hidden and
 * exposed are together what there is. */
static void monotone(void **state) {
  (void)state;
  struct pz_plan plan = plan_of(1, 2, 16, 16);
  double before = HUGE_VAL;
  for (double faster = 0.25; faster < 1e6; faster *= 4) {
    struct pz_prediction p = predict(&plan, faster);
    assert_true(p.step_s <= before);
    before = p.step_s;
  }
  before = 0;
  for (double imbalance = 1; imbalance < 4; imbalance *= 1.25) {
    plan.imbalance = imbalance;
    double s = predict(&plan, 1).step_s;
    assert_true(s > before);
    before = s;
  }
  plan.imbalance = 0;
  struct pz_prediction none = predict(&plan, 1);
  plan.overlap = PZ_OVERLAP_EP;
  struct pz_prediction hidden = predict(&plan, 1);
  assert_true(none.expert_hidden_s == 0 && hidden.expert_hidden_s > 0 &&
              hidden.step_s < none.step_s);
  double all = hidden.parts.expert_s + hidden.expert_hidden_s;
  assert_true(fabs(all / none.parts.expert_s - 1) < 1e-9);
}

static struct pz_layer_step layer_of(const struct pz_plan *plan, const struct pz_constants *k) {
  struct pz_chip chip;
  struct pz_cluster net;
  struct pz_job job = {
      .model = "small", .config = config, .chip = &chip, .net = &net, .constants = k};
  struct pz_step_model *m;
  struct pz_error err = {0};
  assert_int_equal(pz_test_chip_read("h100", &chip, &err), PZ_OK);
  assert_int_equal(pz_cluster_load("dgx-h100", &net, &err), PZ_OK);
  assert_int_equal(try_step_model_new(&job, plan, &m, &err), PZ_OK);
  assert_int_equal(try_step_model_time(m, plan, 2, PZ_TIMING_SOLVED, &err), PZ_OK);
  struct pz_layer_step t = m->steps->block[m->kinds.n - 1];
  pz_step_model_free(m);
  return t;
}

/* A host that waits for the numbers of tokens has no lead over the device: a layer takes at least its launches, its
 * kernels, and the launches behind the wait with the kernels before it.  Backward does not wait. */
static void hosts_wait_for_tokens(void **state) {
  (void)state;
  struct pz_constants k = pz_constants_default;
  struct pz_plan plan = plan_of(1, 1, 8, 8);
  plan.execution = PZ_EXECUTION_EAGER;
  double before = 0;
  for (double launch = 1e-7; launch < 1e-3; launch *= 3) {
    k.launch_s = launch;
    struct pz_layer_step t = layer_of(&plan, &k);
    const struct pz_pass *f = &t.forward;
    assert_true(f->host_waits == 1 && t.backward.host_waits == 0);
    assert_true(f->early_ops > 0 && f->early_ops < f->launched_ops && f->early_kernels_s > 0 &&
                f->early_kernels_s < pz_kernels_s(f));
    double each = 1.6 * launch, late = (f->launched_ops - f->early_ops) * each + f->native_launch_s;
    double device = pz_kernels_s(f) + f->collective_s + f->expert_s;
    assert_true(t.forward_s >=
                k.wait_s + pz_fmax(device, f->launched_ops * each + f->native_launch_s));
    assert_true(t.forward_s >= k.wait_s + late + f->early_kernels_s);
    assert_true(t.forward_s > before);
    before = t.forward_s;
  }
  plan.recompute = PZ_RECOMPUTATION_FULL;
  plan.execution = PZ_EXECUTION_GRAPH;
  struct pz_layer_step graph = layer_of(&plan, NULL);
  assert_true(graph.forward.host_waits == 0 && graph.launch_s == 0);
}

/* Experts are launched one by one: as many times as a device has of them, but where one launch runs all. */
static void experts_are_launched_one_by_one(void **state) {
  (void)state;
  struct pz_plan plan = plan_of(1, 1, 16, 1);
  plan.execution = PZ_EXECUTION_EAGER;
  double one = 0;
  for (int64_t ep = 16; ep >= 1; ep /= 2) {
    plan.ep = ep;
    struct pz_layer_step t = layer_of(&plan, NULL);
    if (ep == 16) one = t.forward.native_launch_s;
    assert_true(fabs(t.forward.native_launch_s / one - 16.0 / (double)ep) < 1e-9);
    assert_true(t.backward.native_launch_s == 2 * t.forward.native_launch_s);
  }
  plan.framework = pz_framework_find("torchtitan");
  assert_true(layer_of(&plan, NULL).forward.native_launch_s == 0);
}

/* What CUDA graphs hold is not launched; the experts always are. */
static void captured_modules_are_not_launched(void **state) {
  (void)state;
  struct pz_plan plan = plan_of(1, 1, 8, 8);
  plan.execution = PZ_EXECUTION_EAGER;
  struct pz_layer_step none = layer_of(&plan, NULL);
  double n = none.forward.launched_ops;
  for (int set = 1; set <= PZ_GRAPH_ALL; set++) {
    plan.cuda_graphs = set;
    struct pz_layer_step t = layer_of(&plan, NULL);
    bool some = set & ~(PZ_GRAPH_MLP | PZ_GRAPH_MAMBA); /* the layer has neither of these */
    assert_true(some ? t.forward.launched_ops < n : t.forward.launched_ops == n);
    assert_true(t.forward.native_launch_s == none.forward.native_launch_s &&
                t.forward.host_waits == 1);
    assert_true(pz_kernels_s(&t.forward) == pz_kernels_s(&none.forward));
  }
  plan.cuda_graphs = PZ_GRAPH_ALL;
  struct pz_layer_step all = layer_of(&plan, NULL);
  assert_true(all.forward.launched_ops > 0 && all.forward.early_ops == 0);
}

/* Weights of all stages are the model's, whatever the grid; those of experts are divided by ep, and their optimizer
 * state over their own replicas. */
static void weights_are_conserved(void **state) {
  (void)state;
  struct pz_chip chip;
  struct pz_cluster net;
  struct pz_job job = {.model = "small", .config = config, .chip = &chip, .net = &net};
  struct pz_error err = {0};
  assert_int_equal(pz_test_chip_read("h100", &chip, &err), PZ_OK);
  assert_int_equal(pz_cluster_load("dgx-h100", &net, &err), PZ_OK);
  double experts = 6 * 16 * 3.0 * 1024 * 512, all = 0;
  for (int64_t ep = 1; ep <= 16; ep *= 4)
    for (int64_t pp = 1; pp <= 4; pp++)
      for (int zero = 0; zero < 2; zero++) {
        struct pz_plan plan = plan_of(1, pp, 16, ep);
        struct pz_step_model *s = NULL;
        double weights = 0, optimizer = 0;
        plan.zero = zero;
        assert_int_equal(try_step_model_new(&job, &plan, &s, &err), PZ_OK);
        for (int64_t k = 0; k < pp; k++) {
          struct pz_training_memory one = pz_step_memory(s, &plan, k);
          weights += one.weight_bytes;
          optimizer += one.optimizer_bytes;
        }
        if (!(all > 0)) all = weights / 2;
        double dense = all - experts, mine = dense + experts / (double)ep;
        assert_true(fabs(weights / (2 * mine) - 1) < 1e-9);
        double owned = zero ? dense / 16 + experts / 16 : mine;
        if (fabs(optimizer / (12 * owned) - 1) > 1e-9)
          fail_msg("ep %d pp %d zero %d: %g of %g", (int)ep, (int)pp, zero, optimizer, 12 * owned);
        pz_step_model_free(s);
      }
}

/* The first stages hold dense layers: their time and their weights differ from the others' by just that. */
static void kinds_of_layers_stand_where_they_are(void **state) {
  (void)state;
  struct pz_chip chip;
  struct pz_cluster net;
  struct pz_job job = {.model = "small", .config = config, .chip = &chip, .net = &net};
  struct pz_error err = {0};
  struct pz_step_model *s = NULL;
  struct pz_plan plan = plan_of(1, 4, 4, 1);
  assert_int_equal(pz_test_chip_read("h100", &chip, &err), PZ_OK);
  assert_int_equal(pz_cluster_load("dgx-h100", &net, &err), PZ_OK);
  assert_int_equal(try_step_model_new(&job, &plan, &s, &err), PZ_OK);
  assert_true(s->kinds.n == 2 && s->n_blocks == 8);
  assert_true(pz_kind_count(&s->kinds, 0, 0, 2) == 2 && pz_kind_count(&s->kinds, 1, 0, 2) == 0);
  assert_true(pz_kind_count(&s->kinds, 0, 1, 3) == 1 && pz_kind_count(&s->kinds, 1, 1, 3) == 2);
  double first = pz_step_memory(s, &plan, 0).weight_bytes,
         second = pz_step_memory(s, &plan, 1).weight_bytes;
  double dense = s->block_params[0].dense,
         routed = s->block_params[1].dense + s->block_params[1].expert;
  assert_true(s->block_params[0].expert == 0 && s->block_params[1].expert == 16 * 3.0 * 1024 * 512);
  assert_true(fabs(second - 4 * routed) < 1e-6 * second);
  assert_true(fabs(first - 4 * dense - 2 * 32000.0 * 1024) < 1e-6 * first);
  pz_step_model_free(s);
}

/* Chunks before chunk j hold pz_plan_layers_before layers, for every division. */
static void starts_are_sums(void **state) {
  (void)state;
  for (int64_t blocks = 2; blocks <= 40; blocks++)
    for (int64_t pp = 1; pp <= 8; pp++)
      for (int64_t vpp = 1; vpp <= 3; vpp++)
        for (int64_t first = 0; first <= 2; first++) {
          struct pz_plan p = {.pp = pp, .vpp = vpp, .first_layers = first, .last_layers = first};
          if ((first && pp * vpp < 3) || !can_chunk_layers(&p, blocks)) continue;
          int64_t sum = 0;
          for (int64_t j = 0; j < pp * vpp; j++) {
            assert_int_equal(pz_plan_layers_before(&p, blocks, j), sum);
            sum += pz_plan_chunk_layers(&p, blocks, j);
          }
          assert_int_equal(sum, blocks);
        }
}

/* DualPipe holds every stage twice. */
static void dualpipe_holds_two_copies(void **state) {
  (void)state;
  struct pz_plan plan = plan_of(1, 4, 4, 4), dual = plan;
  dual.pipeline = PZ_PIPELINE_DUALPIPE;
  struct pz_prediction once = predict(&plan, 1), twice = predict(&dual, 1);
  assert_true(twice.peak.weight_bytes > 1.2 * once.peak.weight_bytes);
  assert_true(twice.step_s < once.step_s); /* less of a bubble, and the all-to-all hides */
}

static void nonsense_is_refused(void **state) {
  (void)state;
  struct pz_chip chip;
  struct pz_cluster net;
  struct pz_job job = {.model = "small", .config = config, .chip = &chip, .net = &net};
  struct pz_prediction p;
  struct pz_error err = {0};
  assert_int_equal(pz_test_chip_read("h100", &chip, &err), PZ_OK);
  assert_int_equal(pz_cluster_load("dgx-h100", &net, &err), PZ_OK);
  struct pz_plan odd = plan_of(1, 1, 8, 3), many = plan_of(1, 1, 64, 32),
                 less = plan_of(1, 1, 8, 8);
  less.imbalance = 0.5;
  assert_int_equal(try_predict(&job, &odd, &p, &err), PZ_BAD_USE);
  assert_true(try_predict(&job, &many, &p, &err) != PZ_OK); /* 16 experts */
  assert_int_equal(try_predict(&job, &less, &p, &err), PZ_BAD_USE);
}

/* Gradients that every microbatch scatters are added up as shards of 64 replicas, experts' of 64 / 8.  A layer has 2 experts of
 * 3 x 1024 x 512 parameters on a device, and beside them latent attention, 1024 x 256 + 256 x 768 + 1024 x 160 + 128 x 1024 +
 * 512 x 1024, a shared expert, the router, 1024 x 16, and norms, 2 x 1024 + 256 + 128.  Each takes 10
 * bytes of HBM. */
static void scattered_gradients_are_added_as_shards(void **state) {
  (void)state;
  struct pz_chip chip;
  struct pz_error err = {0};
  double expert = 3 * 1024 * 512.0;
  double dense = 262144 + 196608 + 163840 + 131072 + 524288 + expert + 16384 + 2432;
  struct pz_plan plan = plan_of(1, 1, 64, 8);
  plan.framework = pz_framework_find("deepspeed");
  assert_int_equal(pz_test_chip_read("h100", &chip, &err), PZ_OK);
  double rate = pz_chip_hbm_bytes_per_s(&chip) * pz_chip_kernel(&chip, "add")->hbm_efficiency;
  double whole_s = layer_of(&plan, NULL).backward.elementwise_s;
  double more_s = 10 * (dense * 63 / 64 + 2 * expert * 7 / 8) / rate;
  for (plan.zero = 1; plan.zero <= 3; plan.zero++) {
    double s = layer_of(&plan, NULL).backward.elementwise_s;
    assert_true(fabs(whole_s - s - (plan.zero > 1 ? more_s : 0)) < 0.02 * more_s);
  }
  plan.zero = 2;
  plan.shard = 8; /* experts' replicas are 8 too */
  double hybrid_s = layer_of(&plan, NULL).backward.elementwise_s;
  more_s = 10 * (dense + 2 * expert) * 7 / 8 / rate;
  assert_true(fabs(whole_s - hybrid_s - more_s) < 0.02 * more_s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(parts_sum_up),
      cmocka_unit_test(experts_share_adapters),
      cmocka_unit_test(monotone),
      cmocka_unit_test(hosts_wait_for_tokens),
      cmocka_unit_test(experts_are_launched_one_by_one),
      cmocka_unit_test(captured_modules_are_not_launched),
      cmocka_unit_test(weights_are_conserved),
      cmocka_unit_test(kinds_of_layers_stand_where_they_are),
      cmocka_unit_test(starts_are_sums),
      cmocka_unit_test(dualpipe_holds_two_copies),
      cmocka_unit_test(scattered_gradients_are_added_as_shards),
      cmocka_unit_test(nonsense_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
