/* Placement: exact = enumeration of all plans, the original program's answers, relations, the
 * checker, errors. */
#include "unit/core_borders.h"
#include "unit/testing.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

#include "core/csv.h"
#include "core/file.h"
#include "partition/partition.h"
#include "partition/problem.h"
#include "unit/chip_borders.h"
#include "unit/partition_calls.h"

static uint64_t seed = 5;

static uint32_t draw(uint32_t n) { return pz_random_lcg(&seed) % n; }

enum { MOST = 6 };

/* ---- random problems ------------------------------------------------------------------------ */

struct small {
  struct pz_place_problem p;
  struct pz_place_width widths[2];
  struct pz_place_layer layers[2][MOST];
  struct pz_place_edge edges[2][MOST * MOST];
};

/* A chain with skip edges, or any graph; memory that binds more often than not. */
static void draw_small(struct small *s, bool chain) {
  uint32_t n = 1 + draw(chain ? MOST : MOST - 1);
  bool edge[MOST][MOST] = {{false}};
  double total = 0;
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t k = i + 1; k < n; k++)
      edge[i][k] = (chain && k == i + 1) || draw(chain ? 6 : 3) == 0;
  s->p = (struct pz_place_problem){.bytes_per_s = 1 + draw(20),
                                   .devices = 1 + draw(12),
                                   .microbatches = 1 + draw(10),
                                   .state = 2 + draw(2),
                                   .recompute = draw(2),
                                   .widths = s->widths,
                                   .n_widths = 1 + draw(2)};
  for (uint32_t w = 0; w < s->p.n_widths; w++) {
    uint32_t e = 0;
    for (uint32_t i = 0; i < n; i++) {
      s->layers[w][i] = (struct pz_place_layer){.id = i,
                                                .fwd_s = draw(8),
                                                .bwd_s = draw(12),
                                                .param_bytes = draw(40),
                                                .act_bytes = draw(30),
                                                .tensor_parallel = draw(3) > 0};
      total += 2 * s->layers[w][i].param_bytes + s->layers[w][i].act_bytes;
      for (uint32_t k = 0; k < n; k++)
        if (edge[i][k]) s->edges[w][e++] = (struct pz_place_edge){i, k, draw(60)};
    }
    s->widths[w] = (struct pz_place_width){.tp = w ? 2 + draw(3) : 1,
                                           .layers = s->layers[w],
                                           .edges = s->edges[w],
                                           .n = n,
                                           .n_edges = e};
  }
  s->p.hbm_bytes = total * (1 + draw(10)) / 8;
}

/* ---- enumeration ---------------------------------------------------------------------------- */

/* Every assignment of layers to stages, every width, every number of replicas. */
static double plan_time(const struct pz_place_problem *p, const struct pz_place_width *w,
                        enum pz_semantics semantics, const uint32_t *stage, uint32_t n) {
  double maxload = 0, params = 0, best = DBL_MAX;
  int64_t devices = 0;
  for (uint32_t k = 0; k < n; k++) {
    struct pz_stage_sum s = pz_stage_sum(p, w, stage, k, n);
    if (s.memory_bytes > p->hbm_bytes) return DBL_MAX;
    maxload = fmax(maxload, s.load_s);
    devices += s.tensor_parallel ? w->tp : 1;
    if (k == 0 || semantics == PZ_SEMANTICS_CORRECTED) params = fmax(params, s.param_bytes);
  }
  for (int64_t d = 1; d <= p->microbatches && d * devices <= p->devices; d++)
    best = fmin(best, pz_place_time_s(p, maxload, n, d, params));
  return best;
}

static bool is_plan(const struct pz_place_width *w, const uint32_t *stage, uint32_t *n) {
  bool used[MOST] = {false};
  for (uint32_t i = 0; i < w->n; i++) used[stage[i]] = true;
  for (*n = 0; *n < w->n && used[*n];) (*n)++;
  for (uint32_t i = 0; i < w->n; i++)
    if (stage[i] >= *n) return false;
  for (uint32_t e = 0; e < w->n_edges; e++)
    if (stage[w->edges[e].from] > stage[w->edges[e].to]) return false;
  return true;
}

static double enumerate(const struct pz_place_problem *p, enum pz_semantics semantics) {
  double best = DBL_MAX;
  for (uint32_t w = 0; w < p->n_widths; w++) {
    const struct pz_place_width *width = &p->widths[w];
    uint32_t stage[MOST] = {0}, n, i = 0;
    while (i < width->n) {
      if (is_plan(width, stage, &n)) best = fmin(best, plan_time(p, width, semantics, stage, n));
      for (i = 0; i < width->n && ++stage[i] == width->n; i++) stage[i] = 0;
    }
  }
  return best;
}

static double solve(const struct pz_place_problem *any, enum pz_semantics semantics) {
  struct pz_place_problem with = *any;
  const struct pz_place_problem *p = &with;
  struct pz_arena arena;
  struct pz_place_solution plan;
  struct pz_error err = {0};
  pz_arena_init(&arena);
  with.semantics = semantics;
  enum pz_status status = pz_place_solve(p, DBL_MAX, &arena, &plan, &err);
  if (status == PZ_OK && pz_partition_check(p, &plan, &err) != PZ_OK) fail_msg("%s", err.message);
  double time = status == PZ_OK ? plan.time_s : DBL_MAX;
  if (status != PZ_OK) assert_int_equal(status, PZ_NO_ANSWER);
  pz_arena_release(&arena);
  return time;
}

static void compare(int rounds, bool chain) {
  int none = 0;
  for (int round = 0; round < rounds; round++) {
    struct small s;
    struct pz_arena arena;
    pz_arena_init(&arena);
    draw_small(&s, chain);
    for (int k = 0; k < 2; k++) {
      double want = enumerate(&s.p, (enum pz_semantics)k), got = solve(&s.p, (enum pz_semantics)k);
      if (fabs(got - want) > 1e-12 * want)
        fail_msg("round %d, semantics %d: %.17g, by enumeration %.17g", round, k, got, want);
      none += want == DBL_MAX;
    }
    pz_arena_release(&arena);
  }
  assert_true(none > 0 && none < rounds);
}

static void chains_are_as_enumerated(void **state) {
  (void)state;
  compare(600, true);
}

/* Layers that take no time: a batch takes none. */
static void nothing_takes_no_time(void **state) {
  (void)state;
  static const struct pz_place_layer layers[] = {{.id = 0}, {.id = 1}};
  static const struct pz_place_edge edge = {0, 1, 0};
  const struct pz_place_width w = {.tp = 1, .layers = layers, .edges = &edge, .n = 2, .n_edges = 1};
  const struct pz_place_problem p = {.hbm_bytes = 1,
                                     .bytes_per_s = 1,
                                     .devices = 2,
                                     .microbatches = 4,
                                     .state = 2,
                                     .widths = &w,
                                     .n_widths = 1};
  assert_true(solve(&p, PZ_SEMANTICS_ORIGINAL) == 0);
  assert_true(solve(&p, PZ_SEMANTICS_CORRECTED) == 0);
}

static void graphs_are_as_enumerated(void **state) {
  (void)state;
  compare(300, false);
}

/* ---- relations ------------------------------------------------------------------------------ */

static void more_is_never_slower(void **state) {
  (void)state;
  for (int round = 0; round < pz_test_part(400); round++) {
    struct small s;
    struct pz_arena arena;
    pz_arena_init(&arena);
    draw_small(&s, round % 2);
    for (int k = 0; k < 2; k++) {
      double now = solve(&s.p, (enum pz_semantics)k);
      struct pz_place_problem hbm = s.p, devices = s.p, bandwidth = s.p;
      hbm.hbm_bytes *= 1.5;
      devices.devices += 1 + draw(5);
      bandwidth.bytes_per_s *= 2;
      assert_true(solve(&hbm, (enum pz_semantics)k) <= now);
      assert_true(solve(&devices, (enum pz_semantics)k) <= now);
      assert_true(solve(&bandwidth, (enum pz_semantics)k) <= now);
    }
    pz_arena_release(&arena);
  }
}

/* More devices at a lower bandwidth: what fits on the fewer ones keeps theirs. */
static void a_domain_keeps_its_bandwidth(void **state) {
  (void)state;
  int inside = 0, beyond = 0;
  for (int round = 0; round < pz_test_part(400); round++) {
    struct small s;
    struct pz_arena arena;
    struct pz_place_solution plan;
    struct pz_error err = {0};
    pz_arena_init(&arena);
    draw_small(&s, round % 2);
    for (int k = 0; k < 2; k++) {
      enum pz_semantics semantics = (enum pz_semantics)k;
      struct pz_place_problem both = s.p, outer = s.p;
      outer.devices += 1 + draw(20);
      outer.bytes_per_s /= 1 + draw(3);
      both = outer;
      both.domains[both.n_domains++] = (struct pz_place_domain){s.p.devices, s.p.bytes_per_s};
      assert_true(solve(&both, semantics) ==
                  fmin(solve(&s.p, semantics), solve(&outer, semantics)));
      both.semantics = semantics;
      if (pz_place_solve(&both, DBL_MAX, &arena, &plan, &err) != PZ_OK) continue;
      assert_int_equal(pz_partition_check(&both, &plan, &err), PZ_OK);
      inside += plan.domain == 0;
      beyond += plan.domain == 1;
    }
    pz_arena_release(&arena);
  }
  assert_true(inside > pz_test_part(100) && beyond > pz_test_part(100));
}

/* ---- the original program's answers --------------------------------------------------------- */

static char *read_all(const char *path, size_t *bytes) {
  char *text = NULL;
  return pz_file_read(path, PZ_INSTANCE_MOST_BYTES, &text, bytes, NULL) == PZ_OK ? text : NULL;
}

static void check_row(const struct pz_csv *index, uint32_t row, const char *folder) {
  const char *name = pz_csv_cell(index, row, pz_csv_column(index, "name"));
  const char *feasible = pz_csv_cell(index, row, pz_csv_column(index, "feasible"));
  const char *want = pz_csv_cell(index, row, pz_csv_column(index, "finalTimePerBatch"));
  const char *fixed_want =
      pz_csv_cell(index, row, pz_csv_column(index, "fixedStrategyTimePerBatch"));
  char path[600];
  size_t bytes = 0;
  struct pz_arena arena;
  struct pz_instance x;
  struct pz_place_solution expert;
  struct pz_error err = {0};
  snprintf(path, sizeof path, "%s/%s.json", folder, name);
  char *text = read_all(path, &bytes);
  assert_non_null(text);
  pz_arena_init(&arena);
  if (pz_place_parse(name, text, bytes, &arena, &x, &err) != PZ_OK) fail_msg("%s", err.message);
  double got = solve(&x.problem, PZ_SEMANTICS_ORIGINAL);
  if (!*feasible)
    assert_true(got < DBL_MAX);
  else if (*feasible == '0')
    assert_true(got == DBL_MAX);
  else if (fabs(got / atof(want) - 1) > 1e-9)
    fail_msg("%s: %.17g, by the original program %s", name, got, want);
  const char *fixed_status = pz_csv_cell(index, row, pz_csv_column(index, "fixed_status"));
  if (strcmp(fixed_status, "ok") == 0) {
    x.fixed.split = PZ_SPLIT_COMPAT;
    assert_int_equal(pz_fixed_plan(&x.problem, &x.fixed, &arena, &expert, &err), PZ_OK);
    assert_true(fabs(expert.time_s / atof(fixed_want) - 1) < 1e-9);
  }
  free(text);
  pz_arena_release(&arena);
}

static void the_original_agrees(void **state) {
  (void)state;
  static const char folder[] = PZ_TEST_SHARED "dp", path[] = PZ_TEST_SHARED "dp/index.csv";
  size_t bytes = 0;
  struct pz_arena arena;
  struct pz_csv index;
  if (!pz_test_has(path)) skip();
  char *text = read_all(path, &bytes);
  assert_non_null(text);
  pz_arena_init(&arena);
  assert_int_equal(pz_csv_parse("index.csv", text, bytes, &arena, &index, NULL), PZ_OK);
  assert_true(index.rows > 50);
  for (uint32_t r = 0; r < index.rows; r++) check_row(&index, r, folder);
  free(text);
  pz_arena_release(&arena);
}

/* ---- errors --------------------------------------------------------------------------------- */

/* Too many layers are refused before anything is made of them. */
static void a_million_layers_are_refused(void **state) {
  (void)state;
  static const char node[] = "{\"id\":0},";
  enum { N = 1000000 };
  size_t size = (size_t)N * strlen(node) + 200, at;
  struct pz_arena arena;
  struct pz_instance x;
  struct pz_error err = {0};
  char *text = malloc(size);
  assert_non_null(text);
  at = (size_t)snprintf(text, size,
                        "{\"maxMemoryPerDevice\":1,\"maxDevices\":1,\"bandwidth\":1,"
                        "\"mbsInBatch\":1,\"nodes\":{\"1\":[");
  for (int i = 0; i < N; i++, at += strlen(node)) memcpy(text + at, node, strlen(node));
  at += (size_t)snprintf(text + at - 1, size - at, "]},\"edges\":{\"1\":[]}}") - 1;
  pz_arena_init(&arena);
  assert_int_equal(pz_place_parse("long.json", text, at, &arena, &x, &err), PZ_BAD_INPUT);
  assert_non_null(strstr(err.message, "has 1000000 entries; accepted: at most 1024"));
  pz_arena_release(&arena);
  free(text);
}

static void bad_instances_say_what_is_accepted(void **state) {
  (void)state;
#define HEAD "{\"maxMemoryPerDevice\": 10, \"maxDevices\": 4, \"bandwidth\": 1, \"mbsInBatch\": 2, "
#define NODE                                                                                       \
  "{\"id\": 0, \"parameterSize\": 1, \"activationSize\": 1, \"optimalLatencyFw\": 1, "             \
  "\"optimalLatencyBw\": 1}"
  static const struct {
    const char *text, *says;
  } cases[] = {
      {"{", "1:"},
      {"{\"maxMemoryPerDevice\": 1}", "maxDevices"},
      {"{\"maxMemoryPerDevice\": 10, \"maxDevices\": 0, \"bandwidth\": 1, \"mbsInBatch\": 2}",
       "maxDevices"},
      {"{\"maxMemoryPerDevice\": -1, \"maxDevices\": 4, \"bandwidth\": 1, \"mbsInBatch\": 2}",
       "maxMemoryPerDevice"},
      {HEAD "\"nodes\": {}}", "1 to 64"},
      {HEAD "\"nodes\": {\"1\": [" NODE "]}}", "edges.1"},
      {HEAD "\"nodes\": {\"x\": [" NODE "]}, \"edges\": {\"x\": []}}", "degree"},
      {HEAD "\"nodes\": {\"1\": [" NODE "," NODE "]}, \"edges\": {\"1\": []}}", "occurs twice"},
      {HEAD "\"nodes\": {\"1\": [" NODE
            "]}, \"edges\": {\"1\": [{\"sourceId\": 0, \"destId\": 7, \"communicationCost\": 1}]}}",
       "the id of a node"},
      {HEAD "\"nodes\": {\"1\": [" NODE
            "]}, \"edges\": {\"1\": [{\"sourceId\": 0, \"destId\": 0, \"communicationCost\": 1}]}}",
       "form a cycle"},
      {HEAD "\"nodes\": {\"1\": [{\"id\": 0, \"parameterSize\": -1}]}, \"edges\": {\"1\": []}}",
       "nodes.1[0]"},
      {HEAD "\"nodes\": {\"01\": [" NODE "]}, \"edges\": {\"01\": []}}",
       "a tensor-parallel degree from 1"},
      {HEAD "\"optimizerAlgorithm\": \"Lion\"}", "SGD or Adam"},
      {HEAD "\"nodes\": {\"1\": [" NODE "]}, \"edge\": {\"1\": []}}",
       "bad.json: unknown key 'edge'; did you mean 'edges'?"},
      {HEAD "\"activationRecompute\": true, \"nodes\": {\"1\": [" NODE
            "]}, \"edges\": {\"1\": []}}",
       "unknown key 'activationRecompute'; did you mean 'activationRecomputation'?"},
      {HEAD "\"nodes\": {\"1\": [{\"id\": 0, \"parameterSize\": 1, \"activationSize\": 1, "
            "\"optimalLatencyFw\": 1, \"optimalLatencyBw\": 1, \"isTensorParallelised\": true}]}, "
            "\"edges\": {\"1\": []}}",
       "bad.json: nodes.1[0]: unknown key 'isTensorParallelised'; did you mean "
       "'isTensorParallelized'?"},
      {HEAD "\"nodes\": {\"1\": [" NODE
            "]}, \"edges\": {\"1\": [{\"sourceId\": 0, \"destId\": 0, \"cost\": 1}]}}",
       "bad.json: edges.1[0]: unknown key 'cost'; accepted: sourceId, destId, communicationCost"},
      {HEAD "\"nodes\": {\"1\": [" NODE "]}, \"edges\": {\"1\": [], \"2\": []}}",
       "bad.json: field 'edges.2'; accepted: a tensor-parallel degree that nodes has too"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct pz_arena arena;
    struct pz_instance x;
    struct pz_error err = {0};
    pz_arena_init(&arena);
    assert_int_equal(
        pz_place_parse("bad.json", cases[i].text, strlen(cases[i].text), &arena, &x, &err),
        PZ_BAD_INPUT);
    if (!strstr(err.message, cases[i].says)) fail_msg("%s: %s", cases[i].text, err.message);
    pz_arena_release(&arena);
  }
}

/* ---- the lower bound ------------------------------------------------------------------------- */

/* A chain of three runs of equal layers, as models have. */
static void draw_runs(struct small *s, struct pz_place_layer *layers, struct pz_place_edge *edges,
                      uint32_t *runs) {
  uint32_t n = 0;
  for (uint32_t r = 0; r < 3; r++) {
    struct pz_place_layer one = {.fwd_s = draw(10),
                                 .bwd_s = draw(20),
                                 .param_bytes = draw(40),
                                 .act_bytes = draw(30),
                                 .tensor_parallel = true};
    runs[r] = r == 1 ? 1 + draw(12) : 1;
    for (uint32_t i = 0; i < runs[r]; i++) layers[n++] = one;
  }
  double bytes = draw(60);
  for (uint32_t i = 0; i + 1 < n; i++)
    edges[i] = (struct pz_place_edge){i, i + 1, draw(3) ? bytes : draw(60)};
  s->widths[0] = (struct pz_place_width){
      .tp = 1 << draw(3), .layers = layers, .edges = edges, .n = n, .n_edges = n - 1};
  s->p = (struct pz_place_problem){.hbm_bytes = 20 + draw(800),
                                   .bytes_per_s = 1 + draw(20),
                                   .devices = 1 + draw(64),
                                   .microbatches = 1 + draw(40),
                                   .state = 2 + draw(2),
                                   .recompute = draw(2),
                                   .widths = s->widths,
                                   .n_widths = 1};
}

static void check_lower_bound(enum pz_semantics semantics) {
  double sum = 0;
  int feasible = 0, infeasible = 0, agreed = 0;
  for (int i = 0; i < pz_test_part(4000); i++) {
    struct small s;
    struct pz_place_layer layers[16];
    struct pz_place_edge edges[16];
    uint32_t runs[3];
    struct pz_arena arena;
    struct pz_place_bound lower_bound;
    struct pz_place_solution plan;
    struct pz_error err = {0};
    double fwd[3], bwd[3];
    pz_arena_init(&arena);
    draw_runs(&s, layers, edges, runs);
    if (draw(2) && s.p.devices > 1)
      s.p.domains[s.p.n_domains++] =
          (struct pz_place_domain){1 + draw((uint32_t)s.p.devices - 1), 1 + draw(60)};
    for (uint32_t r = 0, at = 0; r < 3; at += runs[r++])
      fwd[r] = layers[at].fwd_s, bwd[r] = layers[at].bwd_s;
    s.p.semantics = semantics;
    assert_int_equal(pz_place_bound_init(&lower_bound, &s.p, runs, 3, &arena, &err), PZ_OK);
    double least = pz_place_bound_time_s(&lower_bound, fwd, bwd, HUGE_VAL);
    if (pz_place_solve(&s.p, DBL_MAX, &arena, &plan, &err) == PZ_OK) {
      assert_true(least <= plan.time_s * (1 + 1e-12));
      assert_true(pz_place_bound_time_s(&lower_bound, fwd, bwd, plan.time_s / 2) >=
                  fmin(least, plan.time_s / 2));
      sum += plan.time_s > 0 ? least / plan.time_s : 1;
      feasible++;
    } else {
      infeasible++;
      agreed += least == HUGE_VAL;
    }
    pz_arena_release(&arena);
  }
  print_message(
      "  lower_bound over best: %.3f on average of %d; %d of %d without a plan known so\n",
      sum / feasible, feasible, agreed, infeasible);
  assert_true(feasible > pz_test_part(1000) && infeasible > pz_test_part(500) &&
              sum / feasible > 0.8);
}

static void no_plan_is_below_the_lower_bound(void **state) {
  (void)state;
  check_lower_bound(PZ_SEMANTICS_CORRECTED);
  check_lower_bound(PZ_SEMANTICS_ORIGINAL);
}

/* ---- a limit -------------------------------------------------------------------------------- */

static void a_limit_finds_the_same_time_or_none(void **state) {
  (void)state;
  for (int i = 0; i < pz_test_part(400); i++) {
    struct small s;
    struct pz_arena arena;
    struct pz_place_solution plan, within;
    struct pz_error err = {0};
    pz_arena_init(&arena);
    draw_small(&s, draw(2));
    s.p.semantics = PZ_SEMANTICS_CORRECTED;
    if (pz_place_solve(&s.p, DBL_MAX, &arena, &plan, &err) == PZ_OK) {
      struct pz_error none = {0};
      assert_int_equal(pz_place_solve(&s.p, plan.time_s, &arena, &within, &none), PZ_OK);
      assert_true(within.time_s == plan.time_s);
      if (plan.time_s > 0)
        assert_int_equal(pz_place_solve(&s.p, nextafter(plan.time_s, 0), &arena, &within, &none),
                         PZ_NO_ANSWER);
    }
    pz_arena_release(&arena);
  }
}

/* ---- the best plan of a model -------------------------------------------------------------- */

enum { MOST_VARIANTS = 9 };

/* A small model on a chip, with every input drawn. */
struct drawn {
  struct pz_cost cost;
  struct pz_variant variants[MOST_VARIANTS];
  struct pz_plan_inputs in;
  struct pz_fixed given;
};

struct load_arguments {
  const char *model;
  const struct pz_variant_choices *choices;
  const struct pz_workload_options *options;
  struct pz_vec *notes;
  struct drawn *out;
};

static void load_variants(struct pz_call *call, void *ctx) {
  const struct load_arguments *args = ctx;
  args->out->in.n_variants = pz_variants_load(call, args->model, args->choices, args->options,
                                              args->notes, args->out->variants);
}

static void draw_inputs(struct drawn *x, struct pz_arena *arena) {
  static const char *const models[] = {"gpt2", "bert-base", "qwen2.5-1.5b"};
  static const char *const chips[] = {"tpuv4", "h200", "a100-80"};
  static const char *const clusters[] = {NULL, "dgx-a100"};
  const struct pz_choices mbs = {{1, 2, 4}, 1 + (int)draw(3)}, tp = {{1, 2, 4}, 1 + (int)draw(3)};
  struct pz_workload_options how = pz_workload_options_default();
  struct pz_chip chip;
  struct pz_cluster net;
  struct pz_vec notes;
  struct pz_error err = {0};
  const char *cluster = clusters[draw(2)];
  *x = (struct drawn){.in = {.devices = 4 << draw(4),
                             .batch = 8 + draw(60),
                             .state = 2 + draw(2),
                             .sample_flop = 1,
                             .semantics = (enum pz_semantics)draw(2),
                             .recompute = draw(6) < 4 ? PZ_AS_FRAMEWORK
                                          : draw(2)   ? PZ_RECOMPUTATION_NONE
                                                      : PZ_RECOMPUTATION_FULL,
                             .quick_steps = 1 + draw(80)}};
  how.seq = 32 << draw(3);
  how.num_layers = 1 + draw(6);
  struct pz_variant_choices choices = {&mbs, &tp, x->in.batch, x->in.devices};
  pz_vec_init(&notes, arena, sizeof(struct pz_note));
  assert_int_equal(pz_test_chip_read(chips[draw(3)], &chip, &err), PZ_OK);
  if (cluster) assert_int_equal(pz_cluster_load(cluster, &net, &err), PZ_OK);
  pz_cost_init(&x->cost, &chip, cluster ? &net : NULL);
  struct load_arguments load = {models[draw(3)], &choices, &how, &notes, x};
  assert_int_equal(pz_border(load_variants, &load, &err), PZ_OK);
  x->in.cost = &x->cost;
  x->in.variants = x->variants;
  x->in.steps = x->in.quick_steps + (draw(4) ? 20 + draw(300) : 0);
  x->in.hbm_bytes = 0x1p20 * (double)(32 << draw(9));
  x->given = (struct pz_fixed){.stages = 1 + draw(3), .split = (enum pz_fixed_split)draw(2)};
  if (draw(5) == 0) x->in.given = &x->given;
}

static void release_inputs(struct drawn *x) {
  for (uint32_t i = 0; i < x->in.n_variants; i++) pz_workload_free(x->variants[i].w);
  pz_cost_release(&x->cost);
}

/* The plainest way: every layer as hard as it may be tried. */
static void schedule_all(const struct pz_plan_inputs *in, uint32_t variant,
                         struct pz_layer_time (*times)[2]) {
  const struct pz_workload *w = in->variants[variant].w;
  struct pz_error err = {0};
  for (uint32_t i = 0; i < w->n_layers; i++)
    for (int d = 0; d < 2; d++) {
      struct pz_layer_time *t = &times[i][d], more;
      const struct pz_ops *ops = &w->layers[i].ops[d];
      assert_int_equal(layer_time(in->cost, ops, in->quick_steps, t, &err), PZ_OK);
      if (!t->open) continue;
      assert_int_equal(layer_time(in->cost, ops, in->steps, &more, &err), PZ_OK);
      more.least_s = fmax(more.least_s, t->least_s);
      if (more.s < t->s) *t = more;
      t->least_s = fmin(t->s, more.least_s);
    }
}

static struct pz_place_problem problem_of(const struct pz_plan_inputs *in, uint32_t variant,
                                          bool recompute, const struct pz_place_width *width) {
  struct pz_place_problem p = pz_place_problem_on(&in->cost->net, in->devices);
  p.hbm_bytes = in->hbm_bytes;
  p.state = in->state;
  p.microbatches = in->variants[variant].microbatches;
  p.recompute = recompute;
  p.semantics = in->semantics;
  p.widths = width;
  return p;
}

/* The given stages of a chain of embedding, blocks and head. */
static enum pz_status place_given(const struct pz_plan_inputs *in, const struct pz_place_problem *p,
                                  struct pz_arena *arena, struct pz_place_solution *plan) {
  struct pz_error err = {0};
  int64_t t = p->widths[0].tp, d = p->devices / (in->given->stages * t);
  struct pz_fixed fixed = {.stages = in->given->stages,
                           .split = in->given->split,
                           .tp = t,
                           .replicas = d < p->microbatches ? d : p->microbatches,
                           .first = 1,
                           .layers = p->widths[0].n - 2};
  return d < 1 ? PZ_NO_ANSWER : pz_fixed_plan(p, &fixed, arena, plan, &err);
}

struct brute {
  double time_s; /* HUGE_VAL: nothing fits */
  uint32_t variant;
  bool recompute;
  struct pz_place_solution plan;
  double all_s[2 * MOST_VARIANTS]; /* of every variant, kept and recomputed, ascending */
  uint32_t n;
};

static void insert(struct brute *b, double time_s) {
  uint32_t i = b->n++;
  for (; i > 0 && b->all_s[i - 1] > time_s; i--) b->all_s[i] = b->all_s[i - 1];
  b->all_s[i] = time_s;
}

static void force_all(const struct pz_plan_inputs *in, struct pz_arena *arena, struct brute *b) {
  *b = (struct brute){.time_s = HUGE_VAL};
  for (uint32_t v = 0; v < in->n_variants; v++) {
    const struct pz_workload *w = in->variants[v].w;
    struct pz_layer_time(*times)[2] = pz_arena_alloc(arena, w->n_layers, sizeof *times);
    struct pz_place_width *width = pz_arena_alloc(arena, 1, sizeof *width);
    struct pz_error err = {0};
    assert_true(times && width);
    schedule_all(in, v, times);
    assert_int_equal(pz_place_chain(w, times, false, arena, width, &err), PZ_OK);
    for (int r = 0; r < 2; r++) {
      struct pz_place_solution plan;
      struct pz_place_problem p = problem_of(in, v, r, width);
      if (in->recompute == (r ? PZ_RECOMPUTATION_NONE : PZ_RECOMPUTATION_FULL)) continue;
      enum pz_status status = in->given ? place_given(in, &p, arena, &plan)
                                        : pz_place_solve(&p, DBL_MAX, arena, &plan, &err);
      if (status != PZ_OK) continue;
      if (!(r && plan.n_stages == 1 && in->recompute == PZ_AS_FRAMEWORK)) insert(b, plan.time_s);
      if (plan.time_s >= b->time_s) continue;
      b->time_s = plan.time_s;
      b->variant = v;
      b->recompute = r;
      b->plan = plan;
    }
  }
}

/* Bounds as the search has them: of each layer alone, and of plans from them. */
struct drawn_bounds {
  struct pz_place_bound plan[MOST_VARIANTS][2];
  double *layer_s[MOST_VARIANTS][2];
};

static double by_variant(void *ctx, uint32_t v, bool recompute) {
  const struct drawn_bounds *b = ctx;
  return pz_place_bound_time_s(&b->plan[v][recompute], b->layer_s[v][0], b->layer_s[v][1],
                               HUGE_VAL);
}

static double by_layer(void *ctx, uint32_t v, uint32_t layer, enum pz_direction d) {
  const struct drawn_bounds *b = ctx;
  return b->layer_s[v][d][layer];
}

static double by_times(void *ctx, uint32_t v, bool recompute, const double *fwd_s,
                       const double *bwd_s, double limit_s) {
  const struct drawn_bounds *b = ctx;
  return pz_place_bound_time_s(&b->plan[v][recompute], fwd_s, bwd_s, limit_s);
}

/* From schedules' bounds, some of them as they are, some halved. */
static void draw_bounds(const struct pz_plan_inputs *in, struct pz_arena *arena,
                        struct drawn_bounds *b) {
  for (uint32_t v = 0; v < in->n_variants; v++) {
    const struct pz_workload *w = in->variants[v].w;
    uint32_t *runs = pz_arena_alloc(arena, w->n_layers, sizeof *runs);
    struct pz_layer_time(*times)[2] = pz_arena_alloc(arena, w->n_layers, sizeof *times);
    struct pz_place_width *width = pz_arena_alloc(arena, 1, sizeof *width);
    struct pz_error err = {0};
    assert_true(runs && times && width);
    for (uint32_t i = 0; i < w->n_layers; i++) runs[i] = (uint32_t)w->layers[i].count;
    assert_int_equal(pz_place_chain(w, times, false, arena, width, &err), PZ_OK);
    for (int d = 0; d < 2; d++) {
      b->layer_s[v][d] = pz_arena_alloc(arena, w->n_layers, sizeof(double));
      for (uint32_t i = 0; i < w->n_layers; i++) {
        struct pz_layer_time t;
        assert_int_equal(layer_time(in->cost, &w->layers[i].ops[d], 20, &t, &err), PZ_OK);
        b->layer_s[v][d][i] = t.least_s / (1 + draw(2));
      }
    }
    for (int r = 0; r < 2; r++) {
      struct pz_place_problem p = problem_of(in, v, r, width);
      assert_int_equal(pz_place_bound_init(&b->plan[v][r], &p, runs, w->n_layers, arena, &err),
                       PZ_OK);
    }
  }
}

static void check_choice(const struct pz_plan_inputs *in, const struct brute *want,
                         struct pz_arena *arena, struct pz_plan_choice *got) {
  struct pz_error err = {0};
  if (pz_plan_choose(in, HUGE_VAL, arena, got, &err) != PZ_OK) fail_msg("%s", err.message);
  assert_true(got->below);
  assert_true(got->time_s == want->time_s);
  assert_true(got->lower_bound_s <= got->time_s &&
              (got->n_open > 0) == (got->lower_bound_s < got->time_s));
  if (!(want->time_s < HUGE_VAL)) return;
  assert_int_equal(got->plan.variant, want->variant);
  assert_int_equal(got->plan.recompute, want->recompute);
  assert_int_equal(got->plan.replicas, want->plan.replicas);
  assert_int_equal(got->plan.n_stages, want->plan.n_stages);
  for (uint32_t k = 0; k < got->plan.n_stages; k++)
    assert_int_equal(got->plan.layers[k], want->plan.stages[k].n);
}

/* What a plan says of itself agrees. */
static void check_told(const struct pz_plan_inputs *in, const struct pz_partition *p) {
  const struct pz_step_parts *t = &p->parts;
  double sum = t->compute_s + t->collectives_s + t->transfers_s + t->bubble_s + t->exchange_s;
  int64_t devices = 0;
  assert_true(fabs(sum / p->step_s - 1) < 1e-9);
  assert_true(p->lower_bound_s <= p->step_s);
  assert_true(p->microbatches * p->dp * p->mbs >= in->batch);
  for (uint32_t k = 0; k < p->pp; k++) {
    const struct pz_partition_stage *s = &p->stages[k];
    double bytes = s->param_bytes + s->optimizer_bytes + s->activation_bytes + s->in_flight_bytes;
    uint32_t layers = 0;
    for (uint32_t i = 0; i < s->n_layers; i++) layers += s->layers[i].count;
    assert_int_equal(layers, s->layer_count);
    assert_true(fabs(bytes - s->memory_bytes) <= 1e-9 * bytes);
    assert_true(s->memory_bytes <= in->hbm_bytes && s->load_s <= p->slowest_stage_s);
    assert_true(fabs(s->forward_s + s->backward_s - s->load_s) <= 1e-9 * s->load_s);
    devices += s->devices * p->dp;
  }
  assert_true(devices == p->devices_used && devices <= in->devices);
}

/* All plans in order, and the same best as the choice alone. */
static void check_list(const struct pz_plan_inputs *in, const struct brute *want,
                       struct pz_arena *arena, uint32_t n_next) {
  struct pz_plan_list list;
  struct pz_error err = {0};
  if (pz_plan_best(in, n_next, arena, &list, &err) != PZ_OK) fail_msg("%s", err.message);
  assert_int_equal(list.n, want->n < 1 + n_next ? want->n : 1 + n_next);
  for (uint32_t i = 0; i < list.n; i++) {
    struct pz_partition told;
    assert_int_equal(pz_partition_make(&list.plans[i], list.lower_bound_s, arena, &told, &err),
                     PZ_OK);
    assert_true(told.step_s == want->all_s[i]);
    check_told(in, &told);
    if (i) continue;
    assert_int_equal(told.tp, in->variants[want->variant].tp);
    assert_int_equal(told.mbs, in->variants[want->variant].mbs);
    assert_int_equal(told.recompute, want->recompute);
    assert_int_equal(told.pp, want->plan.n_stages);
  }
  assert_true(list.n || list.fit.hbm_bytes > in->hbm_bytes);
}

/* Restored from its record; and a limit above it changes nothing. */
static void check_again(const struct pz_plan_inputs *in, const struct pz_plan_choice *c,
                        struct pz_arena *arena) {
  struct pz_place_model model;
  struct pz_plan_choice below;
  struct pz_error err = {0};
  struct pz_plan_record wrong = c->plan;
  if (pz_plan_restore(in, &c->plan, c->time_s, arena, &model, &err) != PZ_OK)
    fail_msg("%s", err.message);
  assert_true(model.plan.time_s == c->time_s);
  wrong.replicas++;
  assert_int_equal(pz_plan_restore(in, &wrong, c->time_s, arena, &model, &err), PZ_INTERNAL);
  err = (struct pz_error){0};
  assert_int_equal(pz_plan_choose(in, 1.5 * c->time_s, arena, &below, &err), PZ_OK);
  assert_true(below.below && below.time_s == c->time_s && below.lower_bound_s == c->lower_bound_s);
  assert_int_equal(pz_plan_choose(in, c->lower_bound_s / 2, arena, &below, &err), PZ_OK);
  assert_true(!below.below || below.time_s == c->time_s);
}

static void the_best_plan_is_brute_force(void **state) {
  (void)state;
  int none = 0, open = 0, given = 0, next = 0;
  uint64_t looked = 0, looked_bounded = 0;
  for (int round = 0; round < pz_test_part(120); round++) {
    struct pz_arena arena;
    struct drawn x;
    struct brute want;
    struct drawn_bounds tables;
    struct pz_plan_choice plain, bounded;
    const struct pz_plan_bounds bounds = {&tables, by_variant, by_layer, by_times};
    pz_arena_init(&arena);
    draw_inputs(&x, &arena);
    force_all(&x.in, &arena, &want);
    draw_bounds(&x.in, &arena, &tables);
    check_choice(&x.in, &want, &arena, &plain);
    check_list(&x.in, &want, &arena, draw(8));
    if (want.time_s < HUGE_VAL) check_again(&x.in, &plain, &arena);
    x.in.bounds = &bounds;
    check_choice(&x.in, &want, &arena, &bounded);
    check_list(&x.in, &want, &arena, draw(8));
    assert_true(plain.lower_bound_s == bounded.lower_bound_s && plain.n_open == bounded.n_open);
    if (want.time_s < HUGE_VAL) check_again(&x.in, &bounded, &arena);
    none += !(want.time_s < HUGE_VAL);
    open += plain.n_open > 0;
    given += x.in.given != NULL;
    next += want.n > 1;
    looked += plain.n_scheduled;
    looked_bounded += bounded.n_scheduled;
    release_inputs(&x);
    pz_arena_release(&arena);
  }
  print_message(
      "  %d without a plan, %d with open schedules, %d with given stages; variants looked "
      "at: %d, with bounds %d\n",
      none, open, given, (int)looked, (int)looked_bounded);
  assert_true(none > pz_test_part(5) && none < pz_test_part(80) && open > pz_test_part(5) &&
              given > pz_test_part(5) && next > pz_test_part(30));
  assert_true(looked_bounded < looked);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_best_plan_is_brute_force),
      cmocka_unit_test(no_plan_is_below_the_lower_bound),
      cmocka_unit_test(a_limit_finds_the_same_time_or_none),
      cmocka_unit_test(chains_are_as_enumerated),
      cmocka_unit_test(nothing_takes_no_time),
      cmocka_unit_test(graphs_are_as_enumerated),
      cmocka_unit_test(more_is_never_slower),
      cmocka_unit_test(a_domain_keeps_its_bandwidth),
      cmocka_unit_test(the_original_agrees),
      cmocka_unit_test(a_million_layers_are_refused),
      cmocka_unit_test(bad_instances_say_what_is_accepted),
  };
  return pz_test_end(cmocka_run_group_tests(tests, NULL, NULL));
}
