/* Every numeric field of a chip, its calibration and a cluster is scaled, and predictions must follow it in the direction
 * of physics.  The table `rows` states for each field what grows and what falls with it; a field without a row fails, as
 * does a row that nothing shows. */
#include "unit/chip_borders.h"
#include "unit/testing.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "chip/cold.h"
#include "cost/ops_table.h"
#include "plan/plan_fields.h"
#include "plan/plan_fill.h"
#include "step/expected_error.h"
#include "step/predict.h"
#include "step/step_energy.h"
#include "unit/cost_borders.h"
#include "unit/plan_borders.h"
#include "unit/schedule_calls.h"
#include "unit/step_borders.h"

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

/* What the fields of a row change: letters, each with + (grows with the field), - (falls) or * (either).  t: time of steps
 * and operators, l: of a layer's operators on a part of the cores, m, h: usable memory of the device and of the host, p: memory
 * that a plan needs, a: area, w: watts, d: dollars, e: die edge, j: energy of a step, x: expected error or the runs that it is
 * from, o: a plan is accepted.  All other letters stay as they are; but l may, and j where time, area or watts do. */
struct row {
  enum where where;
  const char *effects, *fields; /* each with =VALUE where chips leave it out */
  const char *with;             /* other fields that these need, with their values */
  double tolerance;             /* of a direction, as a part; its name is its reason */
  double free_from;             /* values beyond this may act either way; likewise */
};

static const double ROUNDING = 1e-9;
/* Numbers of tiles and of their rounds are integers; and a faster GEMM hides less of the traffic beside it. */
#define TILES 1e-3
#define HIDDEN 1e-3
/* The factor by which a power limit slows a GEMM holds for the ends of its tiles too, which narrow operands do not shorten. */
#define ENDS 2e-3
/* Tolerance for bmm and experts on cold chips: their tiles are chosen at the clock that the technology sustains, with unlimited
 * HBM, and run at another clock. */
static const double COLD_TILES = 0.07;
/* Arrays with more rows or columns are longer than most dimensions of the operators here, which are padded. */
#define LONG_ARRAY 1024

static const struct row rows[] = {
    {CHIP, "t-w+", "clock_hz hbm.bytes_per_s_per_stack", NULL, 0, 0},
    {CHIP, "t-w+", "watts", NULL, HIDDEN, 0},
    {CHIP, "t-a+w+d+", "tensor.cores", NULL, TILES, 0},
    {CHIP, "t-a+w+d+", "tensor.rows tensor.cols", NULL, 0, LONG_ARRAY},
    {CHIP, "t-a+w+d+", "tensor.local_bytes vector.cores vector.lanes glb.bytes glb.bytes_per_s",
     NULL, 0, 0},
    {CHIP, "t-m+a+w+d+e+", "hbm.stacks", NULL, 0, 0},
    {CHIP, "m+d+", "hbm.bytes_per_stack", NULL, 0, 0},
    {CHIP, "t-",
     "tensor.local_bytes_per_s=2e11 tensor.local_total_bytes_per_s=2e13 host.bytes_per_s=3e10 "
     "link.efficiency link.switch_efficiency",
     NULL, 0, 0},
    {CHIP, "t-", "tensor.register_bytes", "tensor.local_bytes_per_s=1e11", 0, 0},
    {CHIP, "t-o+p*", "tensor.fp8_speedup=2 tensor.nvfp4_speedup=4", NULL, 0, 0},
    {CHIP, "o+", "tensor.scale_block=32", NULL, 0, 0},
    {CHIP, "l-", "glb.core_bytes_per_s=2.5e12", "vector.lanes=65536 hbm.bytes_per_s_per_stack=1e14",
     0, 0},
    {CHIP, "l-", "hbm.core_bytes_per_s=7e11", "vector.lanes=65536", 0, 0},
    {CHIP, "t-a+w+d+e+", "link.bytes_per_s", NULL, 0, 0},
    {CHIP, "t+",
     "link.latency_s link.startup_s rules.sum_bytes correction.gemms=1.1 correction.attention=1.1 "
     "correction.elementwise=1.1 correction.launches=1.1 correction.collectives=1.1",
     NULL, 0, 0},
    {CHIP, "t+w+", "rules.operand_bytes", NULL, TILES, 0},
    {CHIP, "p+", "correction.memory=1.2", NULL, 0, 0},
    {CHIP, "x+", "correction.steps=8", "correction.error=1", 0, 0},
    {CHIP, "x*", "correction.error=0.01 correction.kinds=1", "correction.error=0.001", 0, 0},
    {CHIP, "h+", "host.bytes=1e11", NULL, 0, 0},
    {CHIP, "a+w+d*", "package.dies package.io_dies=2", NULL, 0, 0},
    {CHIP, "a+w+d+",
     "vector.local_bytes package.cores package.vector_cores package.core_bytes package.fp64_units "
     "package.sram_bytes package.die_bytes_per_s",
     NULL, 0, 0},
    {CHIP, "a+w+d+e+", "package.stacks", NULL, 0, 0},
    {CHIP, "t*",
     "rules.fill rules.duplex rules.partitioned rules.double_buffer rules.nested_mapping "
     "rules.vector_memory host.own_link",
     NULL, 0, 0},
    {CHIP, "l*", "rules.rate_levels", NULL, 0, 0},
    {CHIP, "", "any_units", NULL, 0, 0}, /* acts where files are read */
    {CALIBRATED, "t+",
     "startup_s batched_startup_s item_s=1e-7 tile_value_s nvfp4_tile_value_s throttle "
     "training_throttle hbm_ramp_s=1e-5 host_launch even_rows odd_rows",
     NULL, 0, 0},
    {CALIBRATED, "t-",
     "tensor_efficiency fp8_block_speedup=1.4 glb_efficiency hbm_read_efficiency "
     "hbm_write_efficiency multicast boost_s warm_from_bytes warm_to_bytes",
     NULL, 0, 0},
    {CALIBRATED, "t-o+p*", "fp8_speedup", NULL, ENDS, 0},
    {CALIBRATED, "t-", "nvfp4_speedup", NULL, ENDS, 0},
    {KERNEL, "t+",
     "startup_s cycles=20 bytes_per_value=8 tail value_latency_s=1e-9 row_s=1e-7 long_row_again "
     "block_row_s block_value_s",
     NULL, 0, 0},
    {KERNEL, "t-", "hbm_efficiency efficiency splits", NULL, 0, 0},
    {KERNEL, "t*", "queries", NULL, 0, 0}, /* larger items are fewer, and end further apart */
    {COLD_CONSTANT, "t-",
     "launched_products launched_attention launched_attention_bwd launched_l2_bytes fa2_products "
     "compiled_products compiled_attention compiled_memory",
     NULL, 0, 0},
    {COLD_CONSTANT, "t+", "launched_softmax compiled_softmax", NULL, 0, 0},
    {COLD_CONSTANT, "t+j+", "energy", NULL, 0, 0},
    {CLUSTER, "o+", "devices scales", NULL, 0, 0},
    {CLUSTER, "t-", "instant", NULL, 0, 0},
    /* act where clusters are found and read; in the expected error of networks without a validated run */
    {CLUSTER, "", "standard any_units calibration_error", NULL, 0, 0},
    {LEVEL_OF, "t-", "devices bytes_per_s efficiency=0.5 switch_efficiency=0.5", NULL, 0, 0},
    {LEVEL_OF, "t+", "latency_s startup_s=1e-5 wrap mesh", NULL, 0, 0},
};
enum { ROWS = sizeof rows / sizeof *rows };

/* ---- chips, clusters and plans ---------------------------------------------------------------- */

/* Chips as they were measured, with their kernels where those of others are alike, or with plans alone where operators are
 * those of another; or as data sheets have them (cold); in a cluster or with their own link.  Plans have a semicolon
 * between; a word without = names the model, and those that begin with "kernels" are for kernels alone. */
enum kind { MEASURED, KERNELS, PLANS, COLD_CHIP };
static const struct scene {
  const char *chip, *cluster;
  enum kind kind;
  const char *plans;
} scenes[] = {
    {"a100-80", "dgx-a100", KERNELS,
     "tp=8 dp=4 batch=32 seq=4096 attention=flash execution=eager; tp=16 dp=1 batch=4 seq=2048; "
     "pp=4 dp=4 batch=64 seq=2048 attention=flash; qwen3-30b-a3b ep=16 dp=16 batch=32 seq=2048 "
     "attention=flash; kernels gpt2 dp=8 batch=8 framework=deepspeed; kernels gpt2 dp=8 batch=8 "
     "framework=transformers"},
    {"h200", "dgx-h200", KERNELS,
     "tp=2 dp=8 batch=32 seq=4096 attention=flash precision=fp8; qwen3-30b-a3b ep=16 dp=16 "
     "batch=32 seq=4096 attention=flash dispatcher=deepep; dp=16 zero=3 batch=16 seq=4096 "
     "attention=flash framework=torchtitan; cp=8 dp=2 batch=2 seq=131072 attention=flash; dp=16 "
     "batch=64 seq=4096 attention=flash offload=activations overlap=all; kernels bert-large dp=8 "
     "batch=8 framework=torch; kernels qwen3-30b-a3b ep=8 dp=8 batch=8 seq=2048 "
     "framework=transformers"},
    {"h200", NULL, PLANS, "tp=8 batch=8 seq=2048 attention=flash"},
    {"b200", "dgx-b200", KERNELS,
     "tp=2 dp=8 batch=32 seq=4096 attention=flash precision=nvfp4; tp=2 dp=8 batch=32 seq=4096 "
     "attention=flash precision=fp8 fp8_recipe=mxfp8; kernels gpt2 dp=8 batch=8 "
     "framework=deepspeed; kernels qwen3-30b-a3b ep=8 dp=8 batch=8 seq=2048 "
     "framework=transformers"},
    {"l40s", NULL, MEASURED,
     "dp=4 batch=16 seq=4096 attention=flash offload=all; dp=8 batch=8 seq=2048; dp=8 batch=8 "
     "seq=2048 attention=flash precision=fp8 fp8_recipe=mxfp8"},
    {"h200-nvl", "h200-nvl-8", PLANS,
     "tp=4 dp=8 batch=32 seq=2048 attention=flash offload=activations; tp=8 pp=2 batch=8 seq=2048"},
    {"tpuv5p", "tpuv5p-pod", KERNELS,
     "tp=4 dp=32 zero=3 batch=64 seq=4096; cp=4 dp=16 batch=16 seq=8192 attention=flash"},
    {"tpuv4", "tpuv4-pod", MEASURED,
     "dp=8 batch=8 seq=1024 execution=scheduled; tp=4 dp=1024 batch=1024 seq=1024; dp=8192 "
     "batch=8192 seq=1024"},
    {"h200", "dgx-h200", COLD_CHIP,
     "tp=2 dp=8 batch=32 seq=4096 attention=flash precision=fp8 fp8_recipe=current"},
    {"b200", "dgx-b200", COLD_CHIP, "tp=2 dp=8 batch=32 seq=4096 attention=flash precision=nvfp4"},
    {"mi300x", "mi300x-8", COLD_CHIP, "tp=4 dp=8 batch=32 seq=4096 attention=flash"},
    {"tpuv6e", "tpuv6e-pod", COLD_CHIP, "tp=4 dp=16 batch=32 seq=4096 attention=flash"},
};
enum { SCENES = sizeof scenes / sizeof *scenes };

/* Name, batch, m, n, k, heads, kv, of experts and dispatches chosen experts, ep, nodes; of attention a library. */
static const char operator_texts[] =
    "gemm 1 8192 8192 8192; gemm 1 512 1024 512; gemm 1 1024 1022 1024; "
    "gemm 1 1024 1023 1024; gemm 1 16 8192 8192; bmm 64 1024 1024 128; fp8_linear 1 4096 4096 "
    "4096; fp8_block_linear 1 4096 4096 4096; nvfp4_linear 1 4096 4096 4096; grouped_gemm 8 8192 "
    "4096 2048; experts 64 4096 1024 2048 0 0 6 8; flash_causal 64 4096 4096 128; flash_fwd 2 4096 "
    "4096 128 32 8; flash_bwd 2 4096 4096 128 32 8; cudnn_fwd 2 4096 4096 128 32 8; cudnn_bwd 2 "
    "4096 4096 128 32 8; prefill 1 128 8192 128 8 2; prefill 1 128 8192 128 8 2 fa3; prefill 1 128 "
    "8192 128 8 2 trtllm; flash_fwd 2 4096 4096 128 32 8 fa1; flash_fwd 2 4096 4096 128 32 8 "
    "triton; flash_bwd 2 4096 4096 128 32 8 fa3; flash_bwd 2 4096 4096 128 32 8 none; softmax_fwd "
    "1 16384 2048; softmax_bwd 1 16384 "
    "2048; layernorm_fwd 1 16384 12288; layernorm_bwd 1 16384 12288; rmsnorm_fwd 1 16384 12288; "
    "rmsnorm_bwd 1 16384 4096; gelu 1 8192 16384; gelu_fwd 1 8192 16384; gelu_bwd 1 8192 16384; "
    "silu_mul_bwd 1 8192 16384; relu 1 8192 16384; add 1 8192 4096; add 1 512 4096; dropout 1 8192 "
    "4096; transpose_copy 1 4096 4096; permute 1 8192 4096; fp8_cast 1 8192 4096; embedding 1 8192 "
    "4096; cross_entropy_fp32_fwd 1 8192 32000; cross_entropy_fp32_bwd 1 8192 32000; adamw_fp32 1 "
    "8192 8192; delta_rule_step 64 1 128 128 32 16; conv1d 8 2048 4096; all_reduce 8 1 67108864; "
    "alltoall 8 1 1048576; dispatch 8 1024 0 4096 0 0 6 0 1";

enum { OPERATORS = 49, MOST_PLANS = 8, MOST_VALUES = 160 };
static struct pz_ops_row operators[OPERATORS];
static struct plan {
  const char *text;
  bool kernels;
  char model[32];
  struct pz_plan p;
} plans[SCENES][MOST_PLANS];

static struct pz_ops_row operator_of(char *text) {
  struct pz_ops_row r = {.causal = true, .tp = 1, .sms = 20, .gated = true};
  int64_t *const sizes[] = {&r.batch,    &r.m,    &r.n,  &r.k,    &r.heads,
                            &r.kv_heads, &r.topk, &r.ep, &r.nodes};
  char name[32], *at = text + strspn(text, " ");
  r.table = at;
  snprintf(name, sizeof name, "%.*s", (int)strcspn(at, " "), at);
  r.op = pz_ops_find(name);
  at += strlen(name);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) *sizes[i] = strtoll(at, &at, 10);
  at += strspn(at, " ");
  if (*at) r.library = at;
  return r;
}

/* A chip in its network, and the constants of its class. */
struct machine {
  struct pz_chip chip;
  struct pz_cluster net;
  struct pz_cold cold;
};

static struct machine machines[SCENES];
static struct pz_workload *layer_model;
static long predictions, reactions, against;

static struct plan plan_of(char *text) {
  struct plan x = {.text = text, .model = "llama3-8b", .p = pz_plan_default()};
  char copy[200], *save = NULL;
  snprintf(copy, sizeof copy, "%s", text);
  for (char *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
    char *value = strchr(word, '=');
    struct pz_error err = {0};
    x.kernels |= strcmp(word, "kernels") == 0;
    if (!value && strcmp(word, "kernels")) snprintf(x.model, sizeof x.model, "%s", word);
    if (!value) continue;
    *value++ = '\0';
    if (try_read_plan_field(&x.p, pz_plan_field_find(word), value, &err) != PZ_OK)
      fail_msg("%s: %s", text, err.message);
  }
  return x;
}

static void read_all(void) {
  static char operator_copy[sizeof operator_texts], plan_copies[SCENES][500];
  struct pz_error err = {0};
  char *save = NULL;
  strcpy(operator_copy, operator_texts);
  for (int i = 0; i < OPERATORS; i++)
    operators[i] = operator_of(strtok_r(i ? NULL : operator_copy, ";", &save));
  assert_null(strtok_r(NULL, ";", &save));
  for (int i = 0; i < SCENES; i++) {
    struct machine *m = &machines[i];
    m->cold = pz_cold_usual();
    snprintf(plan_copies[i], sizeof plan_copies[i], "%s", scenes[i].plans);
    char *text = strtok_r(plan_copies[i], ";", &save);
    for (int k = 0; text; k++, text = strtok_r(NULL, ";", &save))
      plans[i][k] = plan_of(text + strspn(text, " "));
    if (pz_test_chip_read(scenes[i].chip, &m->chip, &err) != PZ_OK ||
        (scenes[i].cluster && pz_cluster_load(scenes[i].cluster, &m->net, &err) != PZ_OK) ||
        (scenes[i].kind == COLD_CHIP && !pz_chip_try_class(&m->chip, NULL)))
      fail_msg("%s", err.message);
  }
}

struct values {
  int n;
  double v[MOST_VALUES];
  char letter[MOST_VALUES];
  const char *name[MOST_VALUES];
};

static void add(struct values *x, char letter, const char *name, double v) {
  assert_true(x->n < MOST_VALUES);
  x->letter[x->n] = letter;
  x->name[x->n] = name;
  x->v[x->n++] = v;
}

static void add_plan(int scene, const struct machine *m, const struct plan *x, bool all,
                     struct values *out) {
  struct pz_job job = {
      .model = x->model, .chip = &m->chip, .net = scenes[scene].cluster ? &m->net : NULL};
  struct pz_plan filled = x->p;
  struct pz_cluster wide;
  struct pz_prediction p = {0};
  struct pz_step_energy energy = {0};
  struct pz_error err = {0};
  enum pz_status status = try_fill_plan(&filled, &m->chip, &err);
  if (status == PZ_OK)
    status = pz_test_cluster_widen(job.net, filled.devices, &wide, &job.net, &err);
  predictions++;
  add(out, 'o', x->text, status == PZ_OK);
  if (status != PZ_OK) return;
  status = try_predict(&job, &filled, &p, &err);
  if (status == PZ_OK && all) status = try_step_energy(&job, &filled, &p, &energy, &err);
  if (status != PZ_OK) fail_msg("%s: %s: %s", m->chip.name, x->text, err.message);
  add(out, 't', x->text, p.step_s);
  add(out, 'm', x->text, p.usable_bytes);
  add(out, 'h', x->text, p.usable_host_bytes);
  add(out, 'p', x->text, p.needed_bytes);
  if (!all) return;
  struct pz_expectation expected = pz_plan_expectation(&filled, &p, 0, &m->chip, job.net);
  add(out, 'x', x->text, expected.error + (double)expected.runs);
  add(out, 'j', x->text, energy.dynamic_j + energy.static_j);
}

/* Seconds of the operators of a layer in the slowest way in which a scheduler may run each, on the fewest cores. */
static void add_layer(struct pz_cost *cost, struct values *out) {
  struct pz_layer_options options = {PZ_MODES_ALL, PZ_EXCLUSIVE_ALL};
  struct pz_arena arena;
  struct pz_problem p;
  double sum = 0;
  pz_arena_init(&arena);
  const struct pz_ops *ops = &layer_model->layers[1].ops[PZ_FORWARD];
  assert_int_equal(pz_layer_problem(cost, ops, &options, &arena, &p, NULL), PZ_OK);
  for (uint32_t i = 0; i < p.n; i++) {
    double most = 0;
    for (uint32_t k = 0; k < p.tasks[i].n_modes; k++)
      most = fmax(most, p.tasks[i].modes[k].duration);
    sum += most;
  }
  add(out, 'l', "layer", sum);
  pz_arena_release(&arena);
}

static void add_operators(const struct machine *m, enum where where, struct values *out) {
  struct pz_cost cost;
  pz_cost_init(&cost, &m->chip, NULL);
  for (int i = 0; i < OPERATORS; i++) {
    const char *kernel = pz_ops_kernel(&operators[i]);
    double us = 0;
    struct pz_error err = {0};
    bool none = where == KERNEL && kernel && !*kernel; /* a product */
    if (none || pz_ops_not_on(&m->chip, &operators[i])) continue;
    if (pz_ops_us(&cost, &operators[i], &us, &err) != PZ_OK)
      fail_msg("%s, %s: %s", m->chip.name, operators[i].table, err.message);
    predictions++;
    add(out, 't', operators[i].table, us);
  }
  if (where == CHIP && m->chip.execution == PZ_CHIP_SCHEDULED) add_layer(&cost, out);
  pz_cost_release(&cost);
}

struct scan {
  const struct input *in;
  const struct row *row;
  int scene, at;
  char seen[16]; /* letters that have reacted as the row says */
  bool any_way;  /* for the values that are compared now */
};

/* Computes all predictions for a machine; returns false if no file could describe the machine. */
static bool measure(const struct scan *s, const struct machine *m, struct values *out) {
  enum where where = s->in->where;
  const char *effects = s->row->effects;
  out->n = 0;
  /* cores, buffers, HBM, rules and watts limit one another; of other fields any number in its range will do */
  bool described = where == CHIP ? strchr("tvghrw", *s->in->key) != NULL
                                 : strstr(s->in->key, "warm_") || strstr(s->in->key, "speedup");
  if (described && pz_test_chip_check(&m->chip, NULL) != PZ_OK) return false;
  if (where >= CLUSTER && pz_test_cluster_check(&m->net, NULL) != PZ_OK) return false;
  bool timed = strpbrk(effects, "tl") && where < CLUSTER;
  if (timed && scenes[s->scene].kind != PLANS) add_operators(m, where, out);
  if (where == KERNEL && strcmp(s->in->key, "startup_s") != 0)
    return true;                                               /* plans show each once */
  bool all = strchr(effects, 'j') || !strpbrk(effects, "taw"); /* else energy is free */
  struct pz_bill b = pz_chip_bill(&m->chip, PZ_BILL_LIKELY);
  add(out, 'a', "area", b.area_mm2);
  add(out, 'w', "watts", b.watts);
  add(out, 'w', "peak watts", pz_chip_peak_watts(&m->chip));
  add(out, 'd', "dollars", b.dollars);
  add(out, 'e', "edge", b.edge_mm);
  int most = strpbrk(effects, "tlmhpxo") ? MOST_PLANS : 1; /* one says that area is no time */
  for (int i = 0; i < most && plans[s->scene][i].text; i++)
    if (plans[s->scene][i].kernels == (where == KERNEL))
      add_plan(s->scene, m, &plans[s->scene][i], i == 0 && all, out);
  return true;
}

/* ---- scanning --------------------------------------------------------------------------------- */

/* The address of the scanned field in a machine; `at` is the index of the level or kernel. */
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

/* Finds a name, or name=value, in a list of words; NULL if it is not there. */
static const char *word_of(const char *list, const char *name) {
  size_t n = strlen(name);
  for (const char *at = list; at && *at; at += strcspn(at, " "), at += strspn(at, " "))
    if (strncmp(at, name, n) == 0 && strchr("= ", at[n])) return at;
  return NULL;
}

/* The number behind the = of such a word, or 0. */
static double value_of(const char *list, const char *name) {
  const char *at = word_of(list, name), *value = at ? at + strlen(name) : "";
  return *value == '=' ? strtod(value + 1, NULL) : 0;
}

/* A changed machine; chips that nobody measured follow their data sheet.  More area leaks, which within a limit of watts
 * slows what runs: here it leaks as before. */
static struct machine with(const struct input *in, const struct machine *base, int at, double v) {
  struct machine m = *base;
  struct pz_error err = {0};
  m.chip.static_mm2 = pz_chip_bill(&base->chip, PZ_BILL_LIKELY).area_mm2;
  set(in, &m, at, v);
  if (m.chip.cold && !pz_chip_try_class(&m.chip, &m.cold)) fail_msg("%s", err.message);
  return m;
}

static char sign_of(const struct scan *s, char letter) {
  const char *effects = s->row->effects, *at = strchr(effects, letter);
  bool free = letter == 'l' || (letter == 'j' && strpbrk(effects, "taw"));
  return (at && s->any_way) || (!at && free) ? '*' : at ? at[1] : 0;
}

static double tolerance(const struct scan *s, const char *name) {
  bool tiles = strncmp(name, "bmm ", 4) == 0 || strncmp(name, "experts ", 8) == 0;
  if (tiles && machines[s->scene].chip.cold) return COLD_TILES;
  return pz_fmax(s->row->tolerance, ROUNDING);
}

/* Compares the predictions for a smaller and a larger value of a field.  Operators in a format that one of the two chips lacks
 * are skipped.  Returns the number of predictions that change in the stated direction. */
static int compare(struct scan *s, const struct values *a, const struct values *b, double low,
                   double high) {
  int reacting = 0;
  for (int i = 0, k; i < a->n; i++) {
    for (k = 0; k < b->n && (b->letter[k] != a->letter[i] || b->name[k] != a->name[i]);) k++;
    if (k == b->n) continue;
    double x = a->v[i], y = b->v[k], change = x != 0 ? (y - x) / fabs(x) : y;
    char sign = sign_of(s, a->letter[i]);
    double up = sign == '-' ? -change : change, near = sign ? tolerance(s, a->name[i]) : 1e-12;
    bool good = isfinite(x) && isfinite(y) && (sign == '*' || (sign ? up : -fabs(up)) >= -near);
    if (good && (sign == '*' ? fabs(up) : up) > ROUNDING) {
      reacting++;
      size_t n = strlen(s->seen);
      if (!strchr(s->seen, a->letter[i]) && n + 1 < sizeof s->seen) s->seen[n] = a->letter[i];
    }
    if (good) continue;
    against++;
    print_message("%s%s, %s%s: %c of %s: %g to %g: %g to %g (%+.3g%%)\n", scenes[s->scene].chip,
                  machines[s->scene].chip.cold ? " cold" : "", prefixes[s->in->where], s->in->key,
                  a->letter[i], a->name[i], low, high, x, y, 100 * change);
  }
  return reacting;
}

static double scaled(const struct input *in, double v, double factor) {
  double x = v * factor;
  if (in->type == FLAG) return factor > 0;
  if (in->type == INT) x = factor < 1 ? ceil(x) : floor(x);
  return factor > 0 ? pz_fmin(pz_fmax(x, in->least), in->most) : 0;
}

/* Scans one field of one chip, kernel or level: first absent, if it may be, then from the least value to the largest. */
static int scan_at(struct scan *s) {
  static const double factors[] = {0, 1e-3, 0.5, 1, 2, 1e3};
  static struct values values[2];
  const struct input *in = s->in;
  struct machine base = machines[s->scene];
  int reacting = 0, found = 0;
  for (int i = 0; i < INPUTS && inputs[i].where == CHIP; i++)
    if (word_of(s->row->with, inputs[i].key))
      set(&inputs[i], &base, 0, value_of(s->row->with, inputs[i].key));
  double v = get(in, &base, s->at), start = value_of(s->row->fields, in->key), before = 0;
  bool absent = !(v > 0), flag = in->type == FLAG;
  bool mesh =
      in->where == LEVEL_OF && base.net.level[s->at].mesh && strcmp(in->key, "devices") == 0;
  if (absent && !(start > 0) && !flag) return 0;
  for (int f = absent || flag ? 0 : 1; f < 6; f += flag ? 3 : 1) {
    double factor = factors[f], x = 0;
    bool valid = false;
    for (bool again = true; again;
         factor = sqrt(factor)) { /* towards 1 until a file could have it */
      x = scaled(in, absent ? start : v, factor);
      if (found && x == before) break;
      struct machine m = with(in, &base, s->at, x);
      valid = measure(s, &m, &values[found & 1]);
      again = !valid && ((factor > 0 && factor < 0.4) || factor > 3);
    }
    if (!valid) continue;
    /* a mesh of more devices has more links, and each is slower */
    s->any_way =
        mesh || (found == 1 && absent && !flag) || (s->row->free_from > 0 && x > s->row->free_from);
    if (found) reacting += compare(s, &values[!(found & 1)], &values[found & 1], before, x);
    found++;
    before = x;
  }
  return reacting;
}

/* Scans one field on every chip, and in every kernel or level if the field belongs to those.  `shown` counts the predictions
 * that change for each kernel. */
static void scan(struct scan *s, int shown[SCENES][PZ_CHIP_MOST_KERNELS]) {
  for (s->scene = 0; s->scene < SCENES; s->scene++) {
    const struct machine *m = &machines[s->scene];
    enum kind kind = scenes[s->scene].kind;
    enum where where = s->in->where;
    bool skipped = where == KERNEL          ? kind != KERNELS
                   : where == CALIBRATED    ? m->chip.cold
                   : where == COLD_CONSTANT ? kind != COLD_CHIP
                                            : where >= CLUSTER && !scenes[s->scene].cluster;
    int n = where == KERNEL     ? m->chip.calibration.n_kernels
            : where == LEVEL_OF ? m->net.n_levels
                                : 1;
    for (s->at = 0; s->at < n && !skipped; s->at++) {
      int reacting = scan_at(s);
      reactions += reacting;
      if (where == KERNEL) shown[s->scene][s->at] += reacting;
    }
  }
}

static const struct row *row_of(const struct input *in, int *n) {
  const struct row *found = NULL;
  *n = 0;
  for (int i = 0; i < ROWS; i++) {
    if (rows[i].where != in->where || !word_of(rows[i].fields, in->key)) continue;
    found = &rows[i];
    ++*n;
  }
  return found;
}

/* Fields that change neither times nor memory nor errors must say in their description what they are for. */
static void check_text(const struct input *in, const struct row *r) {
  bool area = strpbrk(r->effects, "awde") && !strpbrk(r->effects, "tlmhpxo");
  if (area != (strstr(in->about, "for area, power and cost only") != NULL))
    fail_msg("%s: chip_fields.def should say whether it is for area, power and cost only", in->key);
}

static void every_field_shows(void **state) {
  (void)state;
  static int shown[SCENES][PZ_CHIP_MOST_KERNELS];
  int fields = 0, words = 0, silent = 0, part = pz_test_is_short() ? 12 : 1;
  read_all();
  layer_model = pz_test_load("gpt2", NULL);
  for (int i = 0; i < INPUTS; i++) {
    int n;
    const struct input *in = &inputs[i];
    if (in->type > FLAG) continue;
    struct scan s = {.in = in, .row = row_of(in, &n)};
    if (n != 1) fail_msg("%s%s has %d rows", prefixes[in->where], in->key, n);
    check_text(in, s.row);
    if (fields++ % part) continue;
    scan(&s, shown);
    for (const char *e = s.row->effects; *e; e += 2) {
      if (strchr(s.seen, *e)) continue;
      silent++;
      print_message("%s%s does not change %c\n", prefixes[in->where], in->key, *e);
    }
  }
  for (int i = 0; i < ROWS; i++)
    for (const char *at = rows[i].fields; *at; at += strcspn(at, " "), at += strspn(at, " "))
      words++;
  for (int i = 0; i < SCENES; i++)
    for (int k = 0; k < machines[i].chip.calibration.n_kernels && part == 1; k++) {
      if (scenes[i].kind != KERNELS || shown[i][k]) continue;
      silent++;
      print_message("%s: kernel %s changes nothing\n", scenes[i].chip,
                    machines[i].chip.calibration.kernels[k].kind);
    }
  print_message("  %d fields, %ld predictions, %ld reactions\n", fields, predictions, reactions);
  pz_workload_free(layer_model);
  assert_int_equal(fields, words);
  assert_int_equal(silent, 0);
  assert_int_equal(against, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_field_shows)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
