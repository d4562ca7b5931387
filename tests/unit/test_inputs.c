/* Every numeric field of a chip, its calibration and a cluster is scaled, and predictions must follow it in the direction
 * of physics.  The table `rows` states for each field what grows and what falls with it; a field without a row fails, as
 * does a row that nothing shows. */
#include "unit/testing.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "chip/cold.h"
#include "cost/ops_table.h"
#include "plan/plan_fields.h"
#include "plan/plan_fill.h"
#include "schedule/model/layer.h"
#include "step/expected_error.h"
#include "step/predict.h"
#include "step/step_energy.h"

/* ---- the fields ------------------------------------------------------------------------------- */

enum type { INT, REAL, FLAG, TEXT, TECH, EXECUTION, CALIBRATION, CALIBRATED_BY, PRECISIONS };
enum where { CHIP, CALIBRATED, KERNEL, COLD_CONSTANT, CLUSTER, LEVEL_OF };
static const char *const prefixes[] = {"",      "calibration.", "kernel.",
                                       "cold.", "cluster.",     "level."};

struct input {
  enum where where;
  const char *key;
  enum type type;
  size_t offset;
  double least, most;
  const char *about;
  double usual_least, usual_most;
};

#define INPUT(place, name, kind, struct_, member, low, high, ...)                                  \
  {                                                                                                \
    .where = place, .key = name, .type = kind, .offset = offsetof(struct struct_, member),         \
    .least = (double)(low), .most = (double)(high), .about = __VA_ARGS__                           \
  }

static const struct input inputs[] = {
#define FIELD(key, type, member, least, most, absent, written, unit, ...)                          \
  INPUT(CHIP, key, type, pz_chip, member, least, most, __VA_ARGS__),
#include "chip/chip_fields.def"
#define NUMBER(name, least, most, ...)                                                             \
  INPUT(CALIBRATED, #name, REAL, pz_chip, calibration.name, least, most, ""),
#include "chip/calibration.def"
#define KERNEL_NUMBER(name, least, most, ...)                                                      \
  INPUT(KERNEL, #name, REAL, pz_kernel, name, least, most, ""),
#include "chip/calibration.def"
#define COLD(name, value, ...)                                                                     \
  INPUT(COLD_CONSTANT, #name, REAL, pz_cold, v[PZ_COLD_##name], (value) / 1000,                    \
        (value) <= 1 ? 1 : (value)*1000, ""),
#include "chip/cold.def"
#define FIELD(key, type, member, least, most, ...)                                                 \
  INPUT(CLUSTER, key, type, pz_cluster, member, least, most, ""),
#include "chip/cluster_fields.def"
#define LEVEL(key, type, member, least, most, ...)                                                 \
  INPUT(LEVEL_OF, key, type, pz_level, member, least, most, ""),
#include "chip/cluster_fields.def"
};
enum { INPUTS = sizeof inputs / sizeof *inputs };

/* ---- what is predicted ------------------------------------------------------------------------ */

/* Letters of a row's `effects`, each with + (grows with the field), - (falls) or * (either): time of steps and operators, of a layer's operators on a part of the cores (l),
 * usable memory of the device and of the host, peak memory of a plan, area, watts, dollars, die edge, energy of a step, expected error and the
 * runs that it is from, and whether a plan is accepted at all.  Energy may follow all that changes time, area or watts. */
struct row {
  enum where where;
  const char *key, *effects;
  double start;     /* the value where a chip leaves the field out */
  const char *with; /* other fields of the chip that it needs, with their values */
  double tolerance; /* of a direction: the discrete choice that it allows for is named behind it */
  double free_from; /* values beyond this may act either way, for the reason behind it */
};

/* Tolerances of a direction, as parts of a time.  TILES: tiles and their rounds are whole.  HIDDEN: a faster GEMM hides less
 * of the traffic beside it.  ENDS: the factor by which a power limit slows a GEMM holds for the ends of its tiles too, which
 * narrow operands do not shorten.  COLD_TILES, of the operators bmm and experts on chips that nobody measured: tiles are
 * chosen at the clock that the technology sustains, for HBM without limit, and run at another. */
static const double COLD_TILES = 0.07;
#define TILES 1e-3
#define HIDDEN 1e-3
#define ENDS 2e-3

/* Arrays beyond this many rows or columns are longer than most dimensions of the operators here, which are padded. */
#define LONG_ARRAY 1024

#define ROW(place, name, ...)                                                                      \
  { .where = place, .key = name, .effects = __VA_ARGS__ }
static const struct row rows[] = {
    ROW(CHIP, "clock_hz", "t-w+"),
    ROW(CHIP, "tensor.cores", "t-a+w+d+", .tolerance = TILES),
    ROW(CHIP, "tensor.rows", "t-a+w+d+", .free_from = LONG_ARRAY),
    ROW(CHIP, "tensor.cols", "t-a+w+d+", .free_from = LONG_ARRAY),
    ROW(CHIP, "tensor.local_bytes", "t-a+w+d+"),
    ROW(CHIP, "tensor.register_bytes", "t-", .with = "tensor.local_bytes_per_s=1e11"),
    ROW(CHIP, "tensor.local_bytes_per_s", "t-", .start = 2e11),
    ROW(CHIP, "tensor.local_total_bytes_per_s", "t-", .start = 2e13),
    ROW(CHIP, "tensor.fp8_speedup", "t-o+p*", .start = 2),
    ROW(CHIP, "tensor.nvfp4_speedup", "t-o+p*", .start = 4),
    ROW(CHIP, "tensor.scale_block", "o+", .start = 32),
    ROW(CHIP, "vector.cores", "t-a+w+d+"),
    ROW(CHIP, "vector.lanes", "t-a+w+d+"),
    ROW(CHIP, "vector.local_bytes", "a+w+d+"),
    ROW(CHIP, "glb.bytes", "t-a+w+d+"),
    ROW(CHIP, "glb.bytes_per_s", "t-a+w+d+"),
    ROW(CHIP, "hbm.stacks", "t-m+a+w+d+e+"),
    ROW(CHIP, "hbm.bytes_per_stack", "m+d+"),
    ROW(CHIP, "hbm.bytes_per_s_per_stack", "t-w+"),
    ROW(CHIP, "glb.core_bytes_per_s", "l-", .start = 2.5e12,
        .with = "vector.lanes=65536 hbm.bytes_per_s_per_stack=1e14"),
    ROW(CHIP, "hbm.core_bytes_per_s", "l-", .start = 7e11, .with = "vector.lanes=65536"),
    ROW(CHIP, "watts", "t-w+", .tolerance = HIDDEN),
    ROW(CHIP, "link.bytes_per_s", "t-a+w+d+e+"),
    ROW(CHIP, "link.latency_s", "t+"),
    ROW(CHIP, "link.efficiency", "t-"),
    ROW(CHIP, "link.startup_s", "t+"),
    ROW(CHIP, "link.switch_efficiency", "t-"),
    ROW(CHIP, "rules.operand_bytes", "t+w+", .tolerance = TILES),
    ROW(CHIP, "rules.sum_bytes", "t+"),
    ROW(CHIP, "correction.gemms", "t+", .start = 1.1),
    ROW(CHIP, "correction.attention", "t+", .start = 1.1),
    ROW(CHIP, "correction.elementwise", "t+", .start = 1.1),
    ROW(CHIP, "correction.launches", "t+", .start = 1.1),
    ROW(CHIP, "correction.collectives", "t+", .start = 1.1),
    ROW(CHIP, "correction.steps", "x+", .start = 8, .with = "correction.error=1"),
    ROW(CHIP, "correction.error", "x*", .start = 0.01),
    ROW(CHIP, "correction.kinds", "x*", .start = 1, .with = "correction.error=0.001"),
    ROW(CHIP, "host.bytes_per_s", "t-", .start = 3e10),
    ROW(CHIP, "host.bytes", "h+", .start = 1e11),
    ROW(CHIP, "package.dies", "a+w+d*"),
    ROW(CHIP, "package.io_dies", "a+w+d*", .start = 2),
    ROW(CHIP, "package.cores", "a+w+d+"),
    ROW(CHIP, "package.vector_cores", "a+w+d+"),
    ROW(CHIP, "package.core_bytes", "a+w+d+"),
    ROW(CHIP, "package.fp64_units", "a+w+d+"),
    ROW(CHIP, "package.sram_bytes", "a+w+d+"),
    ROW(CHIP, "package.stacks", "a+w+d+e+"),
    ROW(CHIP, "package.die_bytes_per_s", "a+w+d+"),
    ROW(CHIP, "rules.fill", "t*"),
    ROW(CHIP, "rules.duplex", "t*"),
    ROW(CHIP, "rules.partitioned", "t*"),
    ROW(CHIP, "rules.double_buffer", "t*"),
    ROW(CHIP, "rules.nested_mapping", "t*"),
    ROW(CHIP, "rules.rate_levels", "l*"),
    ROW(CHIP, "rules.vector_memory", "t*"),
    ROW(CHIP, "host.own_link", "t*"),
    ROW(CHIP, "any_units", ""),
    ROW(CALIBRATED, "startup_s", "t+"),
    ROW(CALIBRATED, "batched_startup_s", "t+"),
    ROW(CALIBRATED, "item_s", "t+", .start = 1e-7),
    ROW(CALIBRATED, "tile_value_s", "t+"),
    ROW(CALIBRATED, "tensor_efficiency", "t-"),
    ROW(CALIBRATED, "fp8_speedup", "t-o+p*", .tolerance = ENDS),
    ROW(CALIBRATED, "fp8_block_speedup", "t-", .start = 1.4),
    ROW(CALIBRATED, "nvfp4_speedup", "t-o+p*", .tolerance = ENDS),
    ROW(CALIBRATED, "nvfp4_tile_value_s", "t+"),
    ROW(CALIBRATED, "glb_efficiency", "t-"),
    ROW(CALIBRATED, "hbm_read_efficiency", "t-"),
    ROW(CALIBRATED, "hbm_write_efficiency", "t-"),
    ROW(CALIBRATED, "multicast", "t-"),
    ROW(CALIBRATED, "boost_s", "t-"),
    ROW(CALIBRATED, "throttle", "t+"),
    ROW(CALIBRATED, "training_throttle", "t+"),
    ROW(CALIBRATED, "hbm_ramp_s", "t+", .start = 1e-5),
    ROW(CALIBRATED, "host_launch", "t+"),
    ROW(CALIBRATED, "even_rows", "t+"),
    ROW(CALIBRATED, "odd_rows", "t+"),
    ROW(CALIBRATED, "warm_from_bytes", "t-"),
    ROW(CALIBRATED, "warm_to_bytes", "t-"),
    ROW(KERNEL, "startup_s", "t+"),
    ROW(KERNEL, "cycles", "t+", .start = 20),
    ROW(KERNEL, "bytes_per_value", "t+", .start = 8),
    ROW(KERNEL, "hbm_efficiency", "t-"),
    ROW(KERNEL, "efficiency", "t-"),
    ROW(KERNEL, "queries", "t*"),
    ROW(KERNEL, "tail", "t+"),
    ROW(KERNEL, "splits", "t-"),
    ROW(KERNEL, "value_latency_s", "t+", .start = 1e-9),
    ROW(KERNEL, "row_s", "t+", .start = 1e-7),
    ROW(KERNEL, "long_row_again", "t+"),
    ROW(KERNEL, "block_row_s", "t+"),
    ROW(KERNEL, "block_value_s", "t+"),
    ROW(COLD_CONSTANT, "launched_products", "t-"),
    ROW(COLD_CONSTANT, "launched_attention", "t-"),
    ROW(COLD_CONSTANT, "launched_attention_bwd", "t-"),
    ROW(COLD_CONSTANT, "launched_softmax", "t+"),
    ROW(COLD_CONSTANT, "launched_l2_bytes", "t-"),
    ROW(COLD_CONSTANT, "fa2_products", "t-"),
    ROW(COLD_CONSTANT, "compiled_products", "t-"),
    ROW(COLD_CONSTANT, "compiled_attention", "t-"),
    ROW(COLD_CONSTANT, "compiled_softmax", "t+"),
    ROW(COLD_CONSTANT, "compiled_memory", "t-"),
    ROW(COLD_CONSTANT, "energy", "t+j+"),
    ROW(CLUSTER, "devices", "t*o+"),
    ROW(CLUSTER, "scales", "o+"),
    ROW(CLUSTER, "standard", ""),
    ROW(CLUSTER, "instant", "t-"),
    ROW(CLUSTER, "any_units", ""),
    ROW(LEVEL_OF, "devices", "t-o+"),
    ROW(LEVEL_OF, "bytes_per_s", "t-"),
    ROW(LEVEL_OF, "latency_s", "t+"),
    ROW(LEVEL_OF, "wrap", "t+"),
    ROW(LEVEL_OF, "mesh", "t+"),
};
enum { ROWS = sizeof rows / sizeof *rows };

/* ---- chips, clusters and plans ---------------------------------------------------------------- */

static const char dense[] =
    "{\"model_type\":\"llama\",\"hidden_size\":4096,\"num_hidden_layers\":4,"
    "\"num_attention_heads\":32,\"num_key_value_heads\":8,\"intermediate_size\":14336,"
    "\"vocab_size\":32000,\"max_position_embeddings\":131072}";
static const char experts[] =
    "{\"model_type\":\"deepseek_v3\",\"hidden_act\":\"silu\",\"hidden_size\":2048,"
    "\"num_hidden_layers\":4,\"num_attention_heads\":16,\"num_key_value_heads\":16,"
    "\"intermediate_size\":8192,\"vocab_size\":32000,\"max_position_embeddings\":8192,"
    "\"q_lora_rank\":512,\"kv_lora_rank\":256,\"qk_rope_head_dim\":64,\"qk_nope_head_dim\":128,"
    "\"v_head_dim\":128,\"n_routed_experts\":64,\"num_experts_per_tok\":6,"
    "\"moe_intermediate_size\":1024,\"n_shared_experts\":1,\"first_k_dense_replace\":1,"
    "\"n_group\":1,\"topk_group\":1}";

enum { MOST_PLANS = 5, MOST_VALUES = 160 };
static const struct scene {
  const char *chip, *cluster; /* NULL: the chip's own link */
  bool cold;
  bool kernels;                  /* are they scanned?  Those of other chips are alike */
  const char *plans[MOST_PLANS]; /* with "experts" before those of that model */
} scenes[] = {
    {"a100-80",
     "dgx-a100",
     false,
     true,
     {"tp=8 dp=4 batch=32 seq=4096 attention=flash execution=eager", "tp=16 dp=1 batch=4 seq=2048",
      "pp=4 dp=4 batch=64 seq=2048 attention=flash",
      "experts ep=16 dp=16 batch=32 seq=2048 attention=flash"}},
    {"h200",
     "dgx-h200",
     false,
     true,
     {"tp=2 dp=8 batch=32 seq=4096 attention=flash precision=fp8",
      "experts ep=16 dp=16 batch=32 seq=4096 attention=flash dispatcher=deepep",
      "dp=16 zero=3 batch=16 seq=4096 attention=flash framework=torchtitan",
      "cp=8 dp=2 batch=2 seq=131072 attention=flash",
      "dp=16 batch=64 seq=4096 attention=flash offload=activations overlap=all"}},
    {"h200", NULL, false, false, {"tp=8 batch=8 seq=2048 attention=flash"}},
    {"b200",
     "dgx-b200",
     false,
     true,
     {"tp=2 dp=8 batch=32 seq=4096 attention=flash precision=nvfp4",
      "tp=2 dp=8 batch=32 seq=4096 attention=flash precision=fp8 fp8_recipe=mxfp8"}},
    {"l40s",
     NULL,
     false,
     false,
     {"dp=4 batch=16 seq=4096 attention=flash offload=all", "dp=8 batch=8 seq=2048",
      "dp=8 batch=8 seq=2048 attention=flash precision=fp8 fp8_recipe=mxfp8"}},
    {"h200-nvl",
     "h200-nvl-8",
     false,
     false,
     {"tp=4 dp=8 batch=32 seq=2048 attention=flash offload=activations",
      "tp=8 pp=2 batch=8 seq=2048"}},
    {"tpuv5p",
     "tpuv5p-pod",
     false,
     true,
     {"tp=4 dp=32 zero=3 batch=64 seq=4096", "cp=4 dp=16 batch=16 seq=8192 attention=flash"}},
    {"tpuv4",
     "tpuv4-pod",
     false,
     false,
     {"dp=8 batch=8 seq=1024 execution=scheduled", "tp=4 dp=1024 batch=1024 seq=1024",
      "dp=8192 batch=8192 seq=1024"}},
    {"h200",
     "dgx-h200",
     true,
     false,
     {"tp=2 dp=8 batch=32 seq=4096 attention=flash precision=fp8 fp8_recipe=current"}},
    {"b200",
     "dgx-b200",
     true,
     false,
     {"tp=2 dp=8 batch=32 seq=4096 attention=flash precision=nvfp4"}},
    {"mi300x", "mi300x-8", true, false, {"tp=4 dp=8 batch=32 seq=4096 attention=flash"}},
    {"tpuv6e", "tpuv6e-pod", true, false, {"tp=4 dp=16 batch=32 seq=4096 attention=flash"}},
};
enum { SCENES = sizeof scenes / sizeof *scenes };

/* Operators: name, batch, m, n, k, heads, kv, and of experts and dispatches chosen experts, ep or nodes. */
static const char *const operators[] = {
    "gemm 1 8192 8192 8192",
    "gemm 1 512 1024 512",
    "gemm 1 2048 2048 8192",
    "gemm 1 1024 1022 1024",
    "gemm 1 1024 1023 1024",
    "gemm 1 16 8192 8192",
    "bmm 64 1024 1024 128",
    "fp8_linear 1 4096 4096 4096",
    "fp8_block_linear 1 4096 4096 4096",
    "nvfp4_linear 1 4096 4096 4096",
    "grouped_gemm 8 8192 4096 2048",
    "experts 64 4096 1024 2048 0 0 6 8",
    "flash_causal 64 4096 4096 128",
    "flash_fwd 2 4096 4096 128 32 8",
    "flash_bwd 2 4096 4096 128 32 8",
    "cudnn_fwd 2 4096 4096 128 32 8",
    "cudnn_bwd 2 4096 4096 128 32 8",
    "prefill 1 128 8192 128 8 2",
    "softmax_fwd 1 16384 2048",
    "softmax_bwd 1 16384 2048",
    "layernorm_fwd 1 16384 12288",
    "layernorm_bwd 1 16384 12288",
    "rmsnorm_fwd 1 16384 12288",
    "rmsnorm_bwd 1 16384 4096",
    "gelu 1 8192 16384",
    "gelu_fwd 1 8192 16384",
    "gelu_bwd 1 8192 16384",
    "silu_mul_bwd 1 8192 16384",
    "relu 1 8192 16384",
    "add 1 8192 4096",
    "add 1 512 4096",
    "dropout 1 8192 4096",
    "transpose_copy 1 4096 4096",
    "permute 1 8192 4096",
    "fp8_cast 1 8192 4096",
    "embedding 1 8192 4096",
    "cross_entropy_fp32_fwd 1 8192 32000",
    "cross_entropy_fp32_bwd 1 8192 32000",
    "adamw_fp32 1 8192 8192",
    "delta_rule_step 64 1 128 128 32 16",
    "conv1d 8 2048 4096",
    "all_reduce 8 1 67108864",
    "alltoall 8 1 1048576",
    "dispatch 8 1024 0 4096 0 0 6 0 1",
};
enum { OPERATORS = sizeof operators / sizeof *operators };

static struct pz_ops_row operator_row(int i) {
  struct pz_ops_row r = {.causal = true, .tp = 1, .sms = 20, .gated = true, .table = "operators"};
  char name[32];
  int64_t *const at[] = {&r.batch,    &r.m,    &r.n,  &r.k,    &r.heads,
                         &r.kv_heads, &r.topk, &r.ep, &r.nodes};
  int n = 0, more = 0;
  sscanf(operators[i], "%31s%n", name, &n);
  for (size_t k = 0; k < sizeof at / sizeof *at; k++, n += more)
    if (sscanf(operators[i] + n, "%" SCNd64 "%n", at[k], &more) != 1) break;
  r.op = pz_ops_find(name);
  return r;
}

struct plan {
  bool experts;
  struct pz_plan p;
};

static struct plan plan_of(const char *text) {
  struct plan x = {.p = pz_plan_default()};
  char copy[200], *save = NULL;
  snprintf(copy, sizeof copy, "%s", text);
  for (char *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
    char *value = strchr(word, '=');
    struct pz_error err = {0};
    if (!value) {
      x.experts = true;
      continue;
    }
    *value++ = '\0';
    if (pz_plan_field_read(&x.p, pz_plan_field_find(word), value, &err) != PZ_OK)
      fail_msg("%s: %s", text, err.message);
  }
  return x;
}

/* A chip in its network, and the constants of its class. */
struct machine {
  struct pz_chip chip;
  struct pz_cluster net;
  struct pz_cold cold;
};

struct values {
  int n;
  double v[MOST_VALUES];
  char letter[MOST_VALUES];
  const char *name[MOST_VALUES];
};

static long predictions, reactions, against;
static struct pz_workload *layer_workload;

static void add(struct values *x, char letter, const char *name, double v) {
  assert_true(x->n < MOST_VALUES);
  x->letter[x->n] = letter;
  x->name[x->n] = name;
  x->v[x->n++] = v;
}

static void add_plan(const struct scene *s, const struct machine *m, int i, struct values *out) {
  static struct plan plans[SCENES][MOST_PLANS];
  struct plan *x = &plans[s - scenes][i];
  if (!x->p.size) *x = plan_of(s->plans[i]);
  struct pz_job job = {.model = "model",
                       .config = x->experts ? experts : dense,
                       .chip = &m->chip,
                       .net = s->cluster ? &m->net : NULL};
  struct pz_plan filled = x->p;
  struct pz_cluster wide;
  struct pz_prediction p = {0};
  struct pz_step_energy energy = {0};
  struct pz_error err = {0};
  enum pz_status status = pz_plan_fill(&filled, &m->chip, &err);
  if (status == PZ_OK) status = pz_cluster_take(job.net, filled.devices, &wide, &job.net, &err);
  predictions++;
  add(out, 'o', s->plans[i], status == PZ_OK);
  if (status == PZ_OK && pz_predict(&job, &filled, &p, NULL, &err) != PZ_OK)
    print_message("%s: %s: %s\n", s->chip, s->plans[i], err.message), against++;
  if (status == PZ_OK && i == 0 && pz_step_energy(&job, &filled, &p, &energy, &err) != PZ_OK)
    fail_msg("%s: %s: %s", s->chip, s->plans[i], err.message);
  if (status != PZ_OK) return;
  struct pz_expectation expected = pz_plan_expectation(&filled, &p, &m->chip);
  add(out, 't', s->plans[i], p.step_s);
  add(out, 'm', s->plans[i], p.usable_bytes);
  add(out, 'h', s->plans[i], p.usable_host_bytes);
  add(out, 'p', s->plans[i], p.peak_bytes);
  add(out, 'x', s->plans[i], expected.error + (double)expected.runs);
  if (i == 0) add(out, 'j', s->plans[i], energy.dynamic_j + energy.static_j);
}

/* Seconds of each operator of a layer in the slowest way in which a scheduler may run it, on the fewest cores. */
static void add_layer(struct pz_cost *cost, struct values *out) {
  static struct pz_workload *w;
  struct pz_layer_options options = {PZ_MODES_ALL, PZ_EXCLUSIVE_ALL};
  struct pz_arena arena;
  struct pz_problem p;
  struct pz_error err = {0};
  double sum = 0;
  if (!w) w = layer_workload = pz_test_load("gpt2", NULL);
  pz_arena_init(&arena, NULL);
  if (pz_layer_problem(cost, &w->layers[1].ops[PZ_FORWARD], &options, &arena, &p, &err) != PZ_OK)
    fail_msg("%s", err.message);
  for (uint32_t i = 0; i < p.n; i++) {
    double most = 0;
    for (uint32_t k = 0; k < p.tasks[i].n_modes; k++) most = fmax(most, p.tasks[i].modes[k].s);
    sum += most;
  }
  predictions++;
  add(out, 'l', "layer", sum);
  pz_arena_release(&arena);
}

/* All that is predicted of a machine; false: no file could describe it. */
static bool measure(const struct scene *s, const struct machine *m, enum where where,
                    struct values *out) {
  static struct pz_ops_row table[OPERATORS];
  struct pz_error err = {0};
  struct pz_cost cost;
  out->n = 0;
  bool described = where == CHIP || where == CALIBRATED;
  if (described && pz_chip_check(&m->chip, &err) != PZ_OK) return false;
  if (s->cluster && pz_cluster_check(&m->net, &err) != PZ_OK) return false;
  pz_cost_init(&cost, &m->chip, s->cluster ? &m->net : NULL);
  for (int i = 0; i < OPERATORS; i++) {
    if (!table[i].table) table[i] = operator_row(i);
    const struct pz_ops_row *row = &table[i];
    const char *kernel = pz_ops_kernel(row);
    double us = 0;
    if (where >= CLUSTER || pz_ops_not_on(&m->chip, row)) continue;
    if (where == KERNEL && kernel && !*kernel) continue; /* products have none */
    if (pz_ops_us(&cost, row, &us, &err) != PZ_OK)
      print_message("%s, %s: %s\n", s->chip, operators[i], err.message), against++;
    predictions++;
    add(out, 't', operators[i], us);
  }
  if (where == CHIP && m->chip.execution == PZ_CHIP_SCHEDULED) add_layer(&cost, out);
  pz_cost_release(&cost);
  if (where == KERNEL) return true;
  struct pz_bill b = pz_chip_bill(&m->chip, PZ_BILL_LIKELY);
  add(out, 'a', "area", b.area_mm2);
  add(out, 'w', "watts", b.watts);
  add(out, 'w', "peak watts", pz_chip_peak_watts(&m->chip));
  add(out, 'd', "dollars", b.dollars);
  add(out, 'e', "edge", b.edge_mm);
  for (int i = 0; i < MOST_PLANS && s->plans[i]; i++) add_plan(s, m, i, out);
  return true;
}

/* ---- scanning --------------------------------------------------------------------------------- */

static struct machine machine_of(const struct scene *s) {
  static struct machine machines[SCENES];
  struct machine m = {.cold = pz_cold_usual()};
  struct pz_error err = {0};
  if (*machines[s - scenes].chip.name) return machines[s - scenes];
  if (pz_chip_read(s->chip, &m.chip, &err) != PZ_OK) fail_msg("%s", err.message);
  if (s->cluster && pz_cluster_load(s->cluster, &m.net, &err) != PZ_OK) fail_msg("%s", err.message);
  if (s->cold && pz_chip_set_class(&m.chip, NULL, &err) != PZ_OK) fail_msg("%s", err.message);
  return machines[s - scenes] = m;
}

/* Where a field is: `at` counts levels or kernels. */
static void *member(const struct input *in, struct machine *m, int at) {
  char *base = in->where == KERNEL          ? (char *)&m->chip.calibration.kernels[at]
               : in->where == COLD_CONSTANT ? (char *)&m->cold
               : in->where == CLUSTER       ? (char *)&m->net
               : in->where == LEVEL_OF      ? (char *)&m->net.level[at]
                                            : (char *)&m->chip;
  return base + in->offset;
}

static double get(const struct input *in, struct machine *m, int at) {
  const void *p = member(in, m, at);
  return in->type == INT    ? (double)*(const int64_t *)p
         : in->type == FLAG ? *(const bool *)p
                            : *(const double *)p;
}

static void set(const struct input *in, struct machine *m, int at, double v) {
  void *p = member(in, m, at);
  if (in->type == INT)
    *(int64_t *)p = (int64_t)v;
  else if (in->type == FLAG)
    *(bool *)p = v != 0;
  else
    *(double *)p = v;
}

static void set_others(struct machine *m, const char *with) {
  for (int i = 0; i < INPUTS && inputs[i].where == CHIP; i++) {
    const char *at = strstr(with, inputs[i].key);
    size_t n = strlen(inputs[i].key);
    if (at && at[n] == '=') set(&inputs[i], m, 0, strtod(at + n + 1, NULL));
  }
}

/* A changed machine; classes of chips follow the data sheet.  More area leaks, which within a limit of watts slows what
 * runs: it stays that of the chip. */
static struct machine with(const struct input *in, const struct machine *base, bool cold, int at,
                           double v) {
  struct machine m = *base;
  struct pz_error err = {0};
  m.chip.static_mm2 = pz_chip_bill(&base->chip, PZ_BILL_LIKELY).area_mm2;
  set(in, &m, at, v);
  if (cold && pz_chip_set_class(&m.chip, &m.cold, &err) != PZ_OK) fail_msg("%s", err.message);
  return m;
}

static char sign_of(const struct row *r, char letter) {
  const char *at = strchr(r->effects, letter);
  if (at) return at[1];
  bool free = letter == 'l' || (letter == 'j' && strpbrk(r->effects, "taw"));
  return free ? '*' : 0;
}

/* What another list has of the same name, or NULL: chips without a narrow format have none of its operators. */
static const double *find(const struct values *v, int at, const struct values *of) {
  for (int i = 0; i < v->n; i++)
    if (v->letter[i] == of->letter[at] && v->name[i] == of->name[at]) return &v->v[i];
  return NULL;
}

/* Compares all that is predicted with two values of a field, the larger behind the smaller.  Returns how much reacts. */
static int compare(const struct row *r, const char *what, bool cold, const struct values *a,
                   const struct values *b, double low, double high) {
  int reacting = 0;
  for (int i = 0; i < a->n; i++) {
    const double *other = find(b, i, a);
    if (!other) continue;
    double x = a->v[i], y = *other, change = x != 0 ? (y - x) / fabs(x) : y;
    char sign = sign_of(r, a->letter[i]);
    if (r->free_from > 0 && high > r->free_from && sign) sign = '*';
    bool tiles = cold && (strncmp(a->name[i], "bmm", 3) == 0 || strncmp(a->name[i], "exp", 3) == 0);
    double near = sign == 0 ? 1e-12 : tiles ? COLD_TILES : r->tolerance > 0 ? r->tolerance : 1e-9;
    bool good = isfinite(x) && isfinite(y) &&
                (sign == '*' || (sign == '+' && change >= -near) ||
                 (sign == '-' && change <= near) || fabs(change) <= near);
    reacting += good && fabs(change) > 1e-12 && strchr(r->effects, a->letter[i]);
    if (good) continue;
    against++;
    print_message("%s: %c of %s: %g to %g: %g to %g (%+.3g%%)\n", what, a->letter[i], a->name[i],
                  low, high, x, y, 100 * change);
  }
  return reacting;
}

static double scaled(const struct input *in, double v, double factor) {
  double x = v * factor;
  if (in->type == INT) x = factor < 1 ? ceil(x) : floor(x);
  return pz_fmin(pz_fmax(x, in->least), in->most);
}

static int scan_at(const struct input *in, const struct row *r, const struct scene *s, int at) {
  enum { ABSENT = 0, BASE = 3, VALUES = 6 };
  static const double factors[VALUES] = {0, 1e-3, 0.5, 1, 2, 1e3};
  static struct values values[2];
  struct machine base = machine_of(s);
  const char *kernel = in->where == KERNEL ? base.chip.calibration.kernels[at].kind : "";
  char what[160];
  int reacting = 0, found = 0;
  snprintf(what, sizeof what, "%s%s, %s%s %s", s->chip, s->cold ? " cold" : "", prefixes[in->where],
           in->key, kernel);
  if (r->with) set_others(&base, r->with);
  double v = get(in, &base, at), before = 0;
  bool absent = !(v > 0);
  if (absent && !(r->start > 0) && in->type != FLAG) return 0;
  for (int f = 0; f < VALUES; f++) {
    if (in->type == FLAG ? f != ABSENT && f != BASE : f == ABSENT && !absent) continue;
    double x = 0, factor = factors[f];
    bool valid = false;
    for (; !valid; factor = sqrt(factor)) { /* towards 1 until a file could have it */
      x = f == ABSENT ? 0 : in->type == FLAG ? 1 : scaled(in, absent ? r->start : v, factor);
      if (found && x == before) break;
      struct machine m = with(in, &base, s->cold, at, x);
      valid = measure(s, &m, in->where, &values[found & 1]);
      if (f == ABSENT || in->type == FLAG || (factor > 0.4 && factor < 3)) break;
    }
    if (!valid) continue;
    struct row either = *r;
    bool mesh = in->where == LEVEL_OF && base.net.level[at].mesh;
    if (mesh && strcmp(in->key, "devices") == 0)
      either.effects = "t*o+"; /* more links, and each slower */
    if (found == 1 && absent && in->type != FLAG) either.free_from = 1e-300; /* from no value */
    if (found)
      reacting +=
          compare(&either, what, s->cold, &values[!(found & 1)], &values[found & 1], before, x);
    found++;
    before = x;
  }
  reactions += reacting;
  return reacting;
}

static int scan(const struct input *in, const struct row *r) {
  int reacting = 0;
  for (int i = 0; i < SCENES; i++) {
    const struct scene *s = &scenes[i];
    struct machine m = machine_of(s);
    bool calibrated = in->where == CALIBRATED || in->where == KERNEL;
    if ((calibrated && m.chip.cold) || (in->where == KERNEL && !s->kernels) ||
        (in->where == COLD_CONSTANT && !s->cold))
      continue;
    if (in->where >= CLUSTER && !s->cluster) continue;
    int n = in->where == KERNEL     ? m.chip.calibration.n_kernels
            : in->where == LEVEL_OF ? m.net.n_levels
                                    : 1;
    int one = 0;
    for (int at = 0; at < n; at++) one += scan_at(in, r, s, at);
    if (getenv("SCAN"))
      print_message("  %s%s on %s%s: %d\n", prefixes[in->where], in->key, s->chip,
                    s->cold ? " cold" : "", one);
    reacting += one;
  }
  return reacting;
}

static void every_field_shows(void **state) {
  (void)state;
  int fields = 0, silent = 0;
  const char *only = getenv("ONLY");
  for (int i = 0; i < INPUTS; i++) {
    const struct row *r = NULL;
    if (inputs[i].type > FLAG) continue;
    for (int k = 0; k < ROWS; k++)
      if (rows[k].where == inputs[i].where && strcmp(rows[k].key, inputs[i].key) == 0) r = &rows[k];
    if (!r) fail_msg("%s%s has no row", prefixes[inputs[i].where], inputs[i].key);
    bool area = strpbrk(r->effects, "awde") && !strpbrk(r->effects, "tlmhpxo");
    bool told = strstr(inputs[i].about, "for area, power and cost only");
    if (area != told) fail_msg("%s: its row in chip_fields.def should tell what it is for", r->key);
    fields++;
    if (only && !strstr(inputs[i].key, only)) continue;
    if (scan(&inputs[i], r) || !*r->effects) continue;
    silent++;
    print_message("%s%s changes nothing\n", prefixes[inputs[i].where], inputs[i].key);
  }
  print_message("  %d fields, %ld predictions, %ld reactions\n", fields, predictions, reactions);
  pz_workload_free(layer_workload);
  assert_int_equal(fields, ROWS);
  assert_int_equal(silent, 0);
  assert_int_equal(against, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_field_shows)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
