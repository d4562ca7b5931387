/* The public header as a program may use it wrongly: an error with a message, never a crash; and
 * searches that are cancelled at any report, and go on. */
#include "unit/testing.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

/* A call that must be refused, with a message; the error is empty again after it. */
#define refused(call, expected)                                                                    \
  do {                                                                                             \
    struct pz_error err = {0};                                                                     \
    assert_int_equal((call), (expected));                                                          \
    assert_int_equal(err.status, (expected));                                                      \
    assert_true(err.message[0]);                                                                   \
  } while (0)

/* ---- models, chips, costs, schedules, plans ------------------------------------------------- */

static void models_are_checked(void **state) {
  (void)state;
  struct pz_workload_options o = pz_workload_options_default();
  struct pz_workload *w = NULL;
  refused(pz_workload_load(NULL, &o, &w, &err), PZ_BAD_USE);
  refused(pz_workload_load("gpt2", &o, NULL, &err), PZ_BAD_USE);
  refused(pz_workload_load("no-such", &o, &w, &err), PZ_BAD_INPUT);
  refused(pz_workload_load("", &o, &w, &err), PZ_BAD_INPUT);
  refused(pz_workload_parse("x", NULL, 0, &o, &w, &err), PZ_BAD_USE);
  refused(pz_workload_parse_onnx("x", NULL, 0, &o, &w, &err), PZ_BAD_USE);
  for (size_t size = 0; size < sizeof(size_t); size++) {
    o.size = size;
    refused(pz_workload_load("gpt2", &o, &w, &err), PZ_BAD_USE);
  }
  o.size = sizeof o + 1;
  refused(pz_workload_load("gpt2", &o, &w, &err), PZ_BAD_USE);
  o = pz_workload_options_default();
  o.kernels = (enum pz_kernels)7;
  refused(pz_workload_load("gpt2", &o, &w, &err), PZ_BAD_USE);
  o = pz_workload_options_default();
  o.unknown_ops = (enum pz_unknown_ops) - 1;
  refused(pz_workload_load("gpt2", &o, &w, &err), PZ_BAD_USE);
  o = pz_workload_options_default();
  o.dropout = (double)NAN;
  refused(pz_workload_load("gpt2", &o, &w, &err), PZ_BAD_USE);
  assert_null(w);
  assert_int_equal(pz_workload_load("gpt2", NULL, &w, NULL), PZ_OK); /* defaults */
  pz_workload_free(w);
  pz_workload_free(NULL);
}

static struct pz_chip *chip(const char *name) {
  struct pz_chip *c = NULL;
  struct pz_error err = {0};
  if (pz_chip_load(name, &c, &err) != PZ_OK) fail_msg("%s", err.message);
  return c;
}

static double number(const struct pz_chip *c, const char *field) {
  double value = 0;
  struct pz_error err = {0};
  if (pz_chip_number(c, field, &value, &err) != PZ_OK) fail_msg("%s", err.message);
  return value;
}

static void set(struct pz_chip *c, const char *field, double value) {
  struct pz_error err = {0};
  if (pz_chip_set_number(c, field, value, &err) != PZ_OK) fail_msg("%s", err.message);
}

static void chips_and_networks_are_checked(void **state) {
  (void)state;
  struct pz_chip *c = NULL;
  struct pz_cluster net;
  struct pz_cost *cost = NULL;
  refused(pz_chip_load(NULL, &c, &err), PZ_BAD_USE);
  refused(pz_chip_load("tpuv4", NULL, &err), PZ_BAD_USE);
  refused(pz_chip_load("tpu", &c, &err), PZ_BAD_INPUT);
  refused(pz_chip_parse("x", NULL, 0, &c, &err), PZ_BAD_USE);
  refused(pz_chip_parse("x", "{}", 2, &c, &err), PZ_BAD_INPUT);
  refused(pz_chip_copy(NULL, &c, &err), PZ_BAD_USE);
  assert_null(c);
  pz_chip_free(NULL);
  refused(pz_cluster_load(NULL, &net, &err), PZ_BAD_USE);
  refused(pz_cluster_parse("x", NULL, 0, &net, &err), PZ_BAD_USE);
  assert_null(pz_chip_preset_text(NULL));
  net = (struct pz_cluster){0};
  refused(pz_cluster_reach(&net, 8, "devices", &err), PZ_BAD_USE);
  refused(pz_cluster_reach(NULL, 8, "devices", &err), PZ_BAD_USE);
  assert_int_equal(pz_cluster_load("paper", &net, NULL), PZ_OK);
  refused(pz_cluster_reach(&net, -8, NULL, &err), PZ_BAD_USE);

  c = chip("tpuv4");
  refused(pz_chip_copy(c, NULL, &err), PZ_BAD_USE);
  refused(pz_cost_new(NULL, NULL, &cost, &err), PZ_BAD_USE);
  refused(pz_cost_new(c, NULL, NULL, &err), PZ_BAD_USE);
  net.n_levels = 9;
  refused(pz_cost_new(c, &net, &cost, &err), PZ_BAD_USE);
  net = (struct pz_cluster){.n_levels = 1, .devices = 4};
  refused(pz_cost_new(c, &net, &cost, &err), PZ_BAD_INPUT);
  set(c, "calibration.warm_from_bytes", 2); /* fields that contradict each other */
  set(c, "calibration.warm_to_bytes", 1);
  refused(pz_cost_new(c, NULL, &cost, &err), PZ_BAD_INPUT);
  assert_null(cost);
  pz_chip_free(c);
}

/* Every field that is listed can be read, written with what it has, and is in the text. */
static void fields_of_a_chip_have_the_names_of_its_file(void **state) {
  (void)state;
  enum pz_chip_kind kind;
  const char *field;
  for (size_t k = 0; pz_chip_preset_name(k); k++) {
    struct pz_chip *c = chip(pz_chip_preset_name(k)), *copy = NULL;
    char *before = NULL, *after = NULL, *word = NULL;
    size_t n[4] = {0};
    assert_int_equal(pz_chip_copy(c, &copy, NULL), PZ_OK);
    for (size_t i = 0; (field = pz_chip_field(i, &kind)); i++) {
      n[kind]++;
      if (kind != PZ_CHIP_WORD) {
        double value = number(c, field);
        assert_true(kind == PZ_CHIP_REAL || value == floor(value));
        assert_true(kind != PZ_CHIP_FLAG || value == 0 || value == 1);
        set(copy, field, value);
        continue;
      }
      assert_int_equal(pz_chip_word(c, field, &word, NULL), PZ_OK);
      assert_int_equal(pz_chip_set_word(copy, field, word, NULL), PZ_OK);
      pz_text_free(word);
    }
    assert_true(n[PZ_CHIP_INTEGER] > 10 && n[PZ_CHIP_REAL] > 30 && n[PZ_CHIP_FLAG] == 9);
    assert_int_equal(n[PZ_CHIP_WORD], 8);
    assert_int_equal(pz_chip_text(c, &before, NULL), PZ_OK);
    assert_int_equal(pz_chip_text(copy, &after, NULL), PZ_OK);
    assert_string_equal(before, after);
    pz_text_free(before);
    pz_text_free(after);
    pz_chip_free(copy);
    pz_chip_free(c);
  }
}

/* A copy is a chip of its own; changed fields count. */
static void changed_fields_count(void **state) {
  (void)state;
  struct pz_chip *c = chip("h100"), *copy = NULL;
  char *word = NULL;
  assert_int_equal(pz_chip_copy(c, &copy, NULL), PZ_OK);
  set(copy, "hbm.stacks", 2 * number(c, "hbm.stacks"));
  set(copy, "calibration.tensor_efficiency", 0.5);
  set(copy, "calibration.kernels.softmax.cycles", 3);
  set(copy, "rules.duplex", 1);
  set(copy, "link.bytes_per_s", 0); /* as in a file without it */
  assert_int_equal(pz_chip_set_word(copy, "name", "twice", NULL), PZ_OK);
  assert_int_equal(pz_chip_set_word(copy, "precisions", "fp16 bf16", NULL), PZ_OK);
  assert_true(pz_chip_hbm_bytes(copy) == 2 * pz_chip_hbm_bytes(c));
  assert_true(number(copy, "calibration.tensor_efficiency") == 0.5);
  assert_true(number(copy, "calibration.kernels.softmax.cycles") == 3);
  assert_true(number(copy, "rules.duplex") == 1 && number(c, "rules.duplex") == 0);
  assert_true(number(copy, "link.bytes_per_s") == 0 && number(c, "link.bytes_per_s") > 0);
  assert_string_equal(pz_chip_name(copy), "twice");
  assert_string_equal(pz_chip_name(c), "h100");
  assert_int_equal(pz_chip_can_run(copy, PZ_PRECISION_FP8, NULL), PZ_BAD_USE);
  assert_int_equal(pz_chip_word(copy, "precisions", &word, NULL), PZ_OK);
  assert_string_equal(word, "bf16 fp16");
  pz_text_free(word);
  pz_chip_free(copy);
  pz_chip_free(c);
}

static void wrong_fields_say_what_is_accepted(void **state) {
  (void)state;
  static const struct {
    const char *field;
    double value;
    const char *message;
  } wrong[] = {
      {"tensor.core", 1, "h100: no number 'tensor.core' (did you mean tensor.cores?); accepted: "},
      {"cores", 1, "did you mean tensor.cores, vector.cores, package.cores"},
      {"tech", 1, "no number 'tech'"},
      {"calibration", 1, "no number 'calibration'"},
      {"calibration.tiles", 1, "no number 'calibration.tiles'"},
      {"calibration.kernels.nothing.cycles", 1, "no number 'calibration.kernels.nothing.cycles'"},
      {"calibration.kernels.softmax.cycle", 1, "no number 'calibration.kernels.softmax.cycle'"},
      {"calibration.kernels.", 1, "no number 'calibration.kernels.'"},
      {"", 1, "no number ''; accepted: clock_hz, tensor.cores, "},
      {"hbm.stacks", 0, "h100: field 'hbm.stacks' is 0; accepted: an integer from 1 to 1024"},
      {"hbm.stacks", 1.5, "field 'hbm.stacks' is 1.5; accepted: an integer"},
      {"hbm.stacks", 1e300, "field 'hbm.stacks' is 1.0000000000000001e300; accepted: an integer"},
      {"clock_hz", (double)NAN, "field 'clock_hz' is nan; accepted: a finite number"},
      {"clock_hz", -(double)INFINITY, "field 'clock_hz' is -inf; accepted: a finite number"},
      {"clock_hz", 0, "field 'clock_hz' is 0.0; accepted: a number from 1 to 1e+12"},
      {"rules.fill", 2, "field 'rules.fill' is 2.0; accepted: true or false"},
      {"calibration.tensor_efficiency", 2, "is 2.0; accepted: a number from 0.01 to 1"},
      {"calibration.kernels.softmax.cycles", -1, "is -1.0; accepted: a number from 0 to 1e+06"},
  };
  static const char *const words[][3] = {
      {"tecc", "5nm", "h100: no word 'tecc' (did you mean tech?); accepted: name, about, tech"},
      {"clock_hz", "fast", "no word 'clock_hz'"},
      {"tech", "6nm", "h100: field 'tech' is \"6nm\"; accepted: one of 45nm, 22nm"},
      {"execution", "eager", "accepted: scheduled, stream or serial"},
      {"precisions", "fp4", "accepted: words among bf16, fp8, fp16 and nvfp4"},
      {"name", "a\nb", "field 'name' is"},
      {"about", "\xff", "field 'about' is no UTF-8"},
  };
  struct pz_chip *c = chip("h100");
  char *before = NULL, *after = NULL, *word = NULL;
  double value = 7;
  assert_int_equal(pz_chip_text(c, &before, NULL), PZ_OK);
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    struct pz_error err = {0};
    assert_int_equal(pz_chip_set_number(c, wrong[i].field, wrong[i].value, &err), PZ_BAD_INPUT);
    if (!strstr(err.message, wrong[i].message))
      fail_msg("'%s' lacks '%s'", err.message, wrong[i].message);
    if (i < 9) assert_int_equal(pz_chip_number(c, wrong[i].field, &value, NULL), PZ_BAD_INPUT);
  }
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    struct pz_error err = {0};
    assert_int_equal(pz_chip_set_word(c, words[i][0], words[i][1], &err), PZ_BAD_INPUT);
    if (!strstr(err.message, words[i][2])) fail_msg("'%s' lacks '%s'", err.message, words[i][2]);
    if (i < 2) assert_int_equal(pz_chip_word(c, words[i][0], &word, NULL), PZ_BAD_INPUT);
  }
  refused(pz_chip_number(NULL, "clock_hz", &value, &err), PZ_BAD_USE);
  refused(pz_chip_number(c, NULL, &value, &err), PZ_BAD_USE);
  refused(pz_chip_number(c, "clock_hz", NULL, &err), PZ_BAD_USE);
  refused(pz_chip_set_number(NULL, "clock_hz", 1, &err), PZ_BAD_USE);
  refused(pz_chip_set_number(c, NULL, 1, &err), PZ_BAD_USE);
  refused(pz_chip_word(NULL, "tech", &word, &err), PZ_BAD_USE);
  refused(pz_chip_word(c, "tech", NULL, &err), PZ_BAD_USE);
  refused(pz_chip_set_word(NULL, "tech", "5nm", &err), PZ_BAD_USE);
  refused(pz_chip_set_word(c, "tech", NULL, &err), PZ_BAD_USE);
  assert_true(value == 7 && !word);
  assert_null(pz_chip_field(SIZE_MAX, NULL));
  assert_int_equal(pz_chip_text(c, &after, NULL), PZ_OK);
  assert_string_equal(before, after); /* nothing was changed */
  pz_text_free(before);
  pz_text_free(after);
  pz_chip_free(c);
}

static void every_preset_passes_the_checks(void **state) {
  (void)state;
  for (size_t i = 0; pz_chip_preset_name(i); i++)
    for (size_t k = 0; pz_cluster_preset_name(k); k++) {
      struct pz_chip *c = chip(pz_chip_preset_name(i));
      struct pz_cluster net;
      struct pz_cost *cost = NULL;
      struct pz_error err = {0};
      assert_int_equal(pz_cluster_load(pz_cluster_preset_name(k), &net, &err), PZ_OK);
      if (pz_cost_new(c, &net, &cost, &err) != PZ_OK)
        fail_msg("%s: %s", pz_chip_name(c), err.message);
      pz_cost_free(cost);
      pz_chip_free(c);
    }
}

static void names_beyond_an_enum_are_harmless(void **state) {
  (void)state;
  assert_string_equal(pz_bound_name((enum pz_bound)99), "unknown");
  assert_string_equal(pz_dim_name((enum pz_dim) - 1), "unknown");
  assert_string_equal(pz_stationary_name((enum pz_stationary)3), "unknown");
  assert_string_equal(pz_op_class_name((enum pz_op_class)99), "unknown");
  assert_string_equal(pz_op_kind_name(-1), "unknown");
  assert_string_equal(pz_objective_unit((enum pz_objective_kind)99), "unknown");
  assert_string_equal(pz_status_name((enum pz_status)99), "unknown");
  assert_null(pz_assumption_at(PZ_ASSUMPTIONS));
  assert_null(pz_tech_at(PZ_TECHS));
  assert_null(pz_preset_name(SIZE_MAX));
  assert_null(pz_chip_preset_name(SIZE_MAX));
  assert_null(pz_cluster_preset_name(SIZE_MAX));
  assert_null(pz_space_preset_name(SIZE_MAX));
  char text[PZ_PLAN_LINE_MOST] = "x";
  struct pz_plan p = pz_plan_default();
  assert_string_equal(pz_plan_field_text(&p, (enum pz_plan_field)1000, text, sizeof text), "-");
  for (int v = -7; v < 2000; v += 1007) {
    p.framework = p.recompute = p.attention = p.execution = p.dispatcher = p.pipeline = v;
    p.ep = p.pp = 2;
    assert_non_null(strstr(pz_plan_line(&p, true, text, sizeof text), "recompute -"));
    assert_string_equal(pz_plan_field_text(&p, PZ_PLAN_DISPATCHER, text, sizeof text), "-");
  }
  text[0] = 'x';
  assert_int_equal(pz_plan_text(&p, text + 1, 0)[-1], 'x');
  struct pz_chip *c = chip("h100");
  refused(pz_chip_can_run(c, (enum pz_precision)99, &err), PZ_BAD_USE);
  pz_chip_free(c);
  struct pz_cluster net;
  assert_int_equal(pz_cluster_load("paper", &net, NULL), PZ_OK);
  memset(net.name, 'x', sizeof net.name);
  refused(pz_cluster_text(&net, NULL, &err), PZ_BAD_USE);
  char *told = NULL;
  refused(pz_cluster_text(&net, &told, &err), PZ_BAD_INPUT);
  net.n_levels = 1 << 30;
  (void)pz_cluster_node(&net);
}

/* Instance files of the original programs: two operators on one core each, and a chain of two layers. */
static void instances_are_solved(void **state) {
  (void)state;
  static const char ops[] =
      "{\"num_tc\": 1, \"num_vc\": 1, \"edges\": [], \"ops\": ["
      "{\"id\": 7, \"type\": \"TC\", \"latency\": 3, \"intra_op_latency\": 3},"
      "{\"id\": 8, \"type\": \"VC\", \"latency\": 2, \"intra_op_latency\": 2}]}";
  static const char nodes[] =
      "{\"maxMemoryPerDevice\": 100, \"maxDevices\": 2, \"bandwidth\": 1e9, \"mbsInBatch\": 8,"
      "\"nodes\": {\"1\": [{\"id\": 3, \"parameterSize\": 10, \"activationSize\": 1,"
      "\"optimalLatencyFw\": 1, \"optimalLatencyBw\": 2}, {\"id\": 4, \"parameterSize\": 10,"
      "\"activationSize\": 1, \"optimalLatencyFw\": 1, \"optimalLatencyBw\": 2}]},"
      "\"edges\": {\"1\": [{\"sourceId\": 3, \"destId\": 4, \"communicationCost\": 1}]}}";
  struct pz_schedule_options o = pz_schedule_options_default();
  struct pz_layer_schedule *s = NULL;
  struct pz_instance_plan *p = NULL;
  for (int solver = PZ_SOLVER_EXACT; solver <= PZ_SOLVER_ILP; solver++) {
    o.solver = (enum pz_solver)solver;
    assert_int_equal(pz_schedule_instance("two", ops, strlen(ops), &o, &s, NULL), PZ_OK);
    assert_true(s->optimal && s->makespan_s == 3 && s->n_operators == 2 && !s->layer);
    assert_string_equal(s->model, "two");
    pz_layer_schedule_free(s);
    s = NULL;
  }
  refused(pz_schedule_instance(NULL, ops, strlen(ops), NULL, &s, &err), PZ_BAD_USE);
  refused(pz_schedule_instance("two", NULL, 0, NULL, &s, &err), PZ_BAD_USE);
  refused(pz_schedule_instance("two", "{}", 2, NULL, &s, &err), PZ_BAD_INPUT);
  assert_null(s);
  assert_int_equal(pz_partition_instance("chain", nodes, strlen(nodes), NULL, &p, NULL), PZ_OK);
  assert_true(p->n_stages * p->dp * p->tp <= 2 && p->step_s > 0);
  assert_int_equal(p->stages[0].nodes[0], 3);
  assert_non_null(p->expert); /* the file has no expert plan */
  pz_instance_plan_free(p);
  p = NULL;
  refused(pz_partition_instance("chain", "{}", 2, NULL, &p, &err), PZ_BAD_INPUT);
  refused(pz_partition_instance("chain", NULL, 2, NULL, &p, &err), PZ_BAD_USE);
  assert_null(p);
  pz_instance_plan_free(NULL);
}

/* Passes, as often as there are layers and microbatches, are what a step without stages does before gradients are
 * exchanged. */
static void schedules_of_a_plan_add_up_to_its_step(void **state) {
  (void)state;
  struct pz_chip *c = chip("tpuv6e"), *described = NULL;
  struct pz_plan plan = pz_plan_default();
  struct pz_plan_schedules *s = NULL;
  struct pz_training_run *r = NULL;
  plan.framework = pz_framework_find("compiled");
  plan.execution = PZ_EXECUTION_SCHEDULED; /* which built chips do not by themselves */
  plan.devices = 4;
  plan.tp = 2;
  plan.mbs = 2;
  plan.batch = 16;
  for (int i = 0; i < 2 * PZ_RECOMPUTATIONS; i++) {
    double sum = 0;
    plan.recompute = i / 2;
    plan.halves = i % 2;
    assert_int_equal(pz_training_schedule("gpt2", c, NULL, &plan, NULL, &s, NULL), PZ_OK);
    assert_int_equal(pz_training_predict("gpt2", c, NULL, &plan, false, &r, NULL), PZ_OK);
    bool recomputed = false;
    for (uint32_t k = 0; k < s->n; k++) {
      const struct pz_layer_schedule *l = &s->list[k];
      assert_true(l->lower_bound_s <= l->makespan_s && l->n_operators > 0 && l->count > 0);
      sum += (double)l->count * pz_fmin(l->makespan_s, l->serial_s);
      recomputed |= strstr(l->layer, "-recomputed") != NULL;
      assert_int_equal(strstr(l->operators[0].name, " (") != NULL, plan.halves);
    }
    sum *= (double)s->microbatches;
    double step_s = r->p.step_s - r->p.parts.gradient_s - r->p.parts.optimizer_s;
    assert_true(fabs(sum - step_s) < 1e-9 * step_s);
    assert_int_equal(recomputed, plan.recompute != PZ_RECOMPUTATION_NONE);
    assert_int_equal(s->plan.dp, 2);
    assert_int_equal(s->plan.seq, r->plan.seq);
    pz_plan_schedules_free(s);
    pz_training_run_free(r);
    s = NULL;
  }
  refused(pz_training_schedule(NULL, c, NULL, &plan, NULL, &s, &err), PZ_BAD_USE);
  refused(pz_training_schedule("gpt2", c, NULL, &plan, NULL, NULL, &err), PZ_BAD_USE);
  struct pz_schedule_options o = pz_schedule_options_default();
  o.modes = PZ_MODES_TWO;
  refused(pz_training_schedule("gpt2", c, NULL, &plan, &o, &s, &err), PZ_BAD_USE);
  plan.mbs = 3; /* has no halves */
  refused(pz_training_schedule("gpt2", c, NULL, &plan, NULL, &s, &err), PZ_BAD_USE);
  plan.mbs = 2;
  plan.execution = PZ_EXECUTION_SERIAL;
  plan.halves = 0;
  refused(pz_training_schedule("gpt2", c, NULL, &plan, NULL, &s, &err), PZ_BAD_USE);
  described = chip("h100");
  refused(pz_training_schedule("gpt2", described, NULL, &plan, NULL, &s, &err), PZ_BAD_USE);
  assert_null(s);
  pz_plan_schedules_free(NULL);
  pz_chip_free(described);
  pz_chip_free(c);
}

static void costs_and_schedules_are_checked(void **state) {
  (void)state;
  struct pz_workload *w = pz_test_load("gpt2", NULL);
  const struct pz_layer *layer = &w->layers[0];
  struct pz_schedule_options o = pz_schedule_options_default();
  struct pz_layer_schedule *s = NULL;
  struct pz_estimate e;
  struct pz_mapping m;
  struct pz_product p = {.batch = 1, .m = -1, .n = 2, .k = INT64_MAX};
  struct pz_cost *cost = NULL;
  struct pz_chip *c = chip("tpuv4");
  assert_int_equal(pz_cost_new(c, NULL, &cost, NULL), PZ_OK);
  refused(pz_cost_op(NULL, &layer->ops[0].op[0], &e, &err), PZ_BAD_USE);
  refused(pz_cost_op(cost, NULL, &e, &err), PZ_BAD_USE);
  struct pz_op op = layer->ops[0].op[0];
  op.n_tail = 3;
  op.tail = NULL;
  refused(pz_cost_op(cost, &op, &e, &err), PZ_BAD_USE);
  op = layer->ops[0].op[0];
  op.kind = 9999;
  refused(pz_cost_op(cost, &op, &e, &err), PZ_BAD_USE);
  refused(pz_cost_product(cost, NULL, &m, &err), PZ_BAD_USE);
  refused(pz_cost_product(cost, &p, &m, &err), PZ_BAD_INPUT);
  pz_cost_counts(cost, NULL, NULL);
  refused(pz_schedule_layer(NULL, layer, PZ_FORWARD, &o, &s, &err), PZ_BAD_USE);
  refused(pz_schedule_layer(cost, NULL, PZ_FORWARD, &o, &s, &err), PZ_BAD_USE);
  refused(pz_schedule_layer(cost, layer, PZ_FORWARD, &o, NULL, &err), PZ_BAD_USE);
  refused(pz_schedule_layer(cost, layer, (enum pz_direction)2, &o, &s, &err), PZ_BAD_USE);
  refused(pz_schedule_layer(cost, layer, (enum pz_direction) - 1, &o, &s, &err), PZ_BAD_USE);
  o.steps = 0;
  refused(pz_schedule_layer(cost, layer, PZ_FORWARD, &o, &s, &err), PZ_BAD_USE);
  o = pz_schedule_options_default();
  o.modes = (enum pz_mode_set)3;
  refused(pz_schedule_layer(cost, layer, PZ_FORWARD, &o, &s, &err), PZ_BAD_USE);
  o = pz_schedule_options_default();
  o.disable = "best_frist";
  refused(pz_schedule_layer(cost, layer, PZ_FORWARD, &o, &s, &err), PZ_BAD_USE);
  o = pz_schedule_options_default();
  o.seconds = -1;
  refused(pz_schedule_layer(cost, layer, PZ_FORWARD, &o, &s, &err), PZ_BAD_USE);
  assert_null(s);
  assert_int_equal(pz_schedule_layer(cost, layer, PZ_FORWARD, NULL, &s, NULL), PZ_OK);
  pz_layer_schedule_free(s);
  pz_layer_schedule_free(NULL);
  pz_cost_free(cost);
  pz_cost_free(NULL);
  pz_workload_free(w);
  pz_chip_free(c);
}

static void plans_are_checked(void **state) {
  (void)state;
  struct pz_partition_options o = pz_partition_options_default();
  const struct pz_partition_options good = o;
  struct pz_partitions *p = NULL;
  struct pz_chip *c = chip("tpuv4"), *none = chip("tpuv4");
  set(none, "glb.bytes", 65536); /* less than a tile */
  refused(pz_partition_model(NULL, c, NULL, &o, &p, &err), PZ_BAD_USE);
  refused(pz_partition_model("gpt2", NULL, NULL, &o, &p, &err), PZ_BAD_USE);
  refused(pz_partition_model("gpt2", none, NULL, &o, &p, &err), PZ_BAD_INPUT);
  refused(pz_partition_model("gpt2", c, NULL, &o, NULL, &err), PZ_BAD_USE);
  o.devices = -1;
  refused(pz_partition_model("gpt2", c, NULL, &o, &p, &err), PZ_BAD_USE);
  o = good;
  o.n_next = UINT32_MAX;
  refused(pz_partition_model("gpt2", c, NULL, &o, &p, &err), PZ_BAD_USE);
  o = good;
  o.batch = INT64_MAX;
  refused(pz_partition_model("gpt2", c, NULL, &o, &p, &err), PZ_BAD_USE);
  o = good;
  o.mbs.n = 33;
  refused(pz_partition_model("gpt2", c, NULL, &o, &p, &err), PZ_BAD_USE);
  o = good;
  o.state = (double)NAN;
  refused(pz_partition_model("gpt2", c, NULL, &o, &p, &err), PZ_BAD_USE);
  o = good;
  o.recompute = PZ_RECOMPUTATION_SELECTIVE;
  refused(pz_partition_model("gpt2", c, NULL, &o, &p, &err), PZ_BAD_USE);
  o = good;
  o.workload.size = 0;
  refused(pz_partition_model("gpt2", c, NULL, &o, &p, &err), PZ_BAD_USE);
  o = good;
  o.hbm_bytes = 1;
  o.devices = 1;
  refused(pz_partition_model("gpt2", c, NULL, &o, &p, &err), PZ_NO_ANSWER);
  assert_null(p);
  pz_partitions_free(NULL);
  pz_chip_free(c);
  pz_chip_free(none);
}

static void placements_are_checked(void **state) {
  (void)state;
  struct pz_training_place_options o = pz_training_place_options_default();
  struct pz_training_plans *p = NULL;
  struct pz_chip *c = chip("a100-80"), *none = chip("tpuv4");
  set(none, "glb.bytes", 65536); /* less than a tile */
  o.plan.devices = 8;
  o.plan.batch = 16;
  const struct pz_training_place_options good = o;
  refused(pz_training_place(NULL, c, NULL, &o, &p, &err), PZ_BAD_USE);
  refused(pz_training_place("gpt2", NULL, NULL, &o, &p, &err), PZ_BAD_USE);
  refused(pz_training_place("gpt2", none, NULL, &o, &p, &err), PZ_BAD_INPUT);
  refused(pz_training_place("gpt2", c, NULL, &o, NULL, &err), PZ_BAD_USE);
  refused(pz_training_place("no-such", c, NULL, &o, &p, &err), PZ_BAD_INPUT);
  o.size = 0;
  refused(pz_training_place("gpt2", c, NULL, &o, &p, &err), PZ_BAD_USE);
#define FIELD(id, name) offsetof(struct pz_plan, name), PZ_PLAN_##id
  const struct {
    size_t offset;
    enum pz_plan_field field;
    int64_t v;
  } wrong[] = {{FIELD(DEVICES, devices), 0}, {FIELD(DEVICES, devices), INT64_MAX},
               {FIELD(BATCH, batch), -8},    {FIELD(BATCH, batch), INT64_MAX},
               {FIELD(TP, tp), 5},  /* of 12 heads */
               {FIELD(TP, tp), 12}, /* of 8 devices */
               {FIELD(TP, tp), 0},           {FIELD(PP, pp), INT64_MAX},
               {FIELD(VPP, vpp), -2},        {FIELD(DP, dp), 7},
               {FIELD(MBS, mbs), 3}};
#undef FIELD
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    o = good;
    memcpy((char *)&o.plan + wrong[i].offset, &wrong[i].v, sizeof wrong[i].v);
    if (wrong[i].field != PZ_PLAN_DEVICES && wrong[i].field != PZ_PLAN_BATCH)
      o.pinned = UINT64_C(1) << wrong[i].field;
    refused(pz_training_place("gpt2", c, NULL, &o, &p, &err), PZ_BAD_USE);
  }
  for (int i = 0; i < 3; i++) {
    o = good;
    o.pinned = i == 0 ? PZ_PLAN_PIN(SP) : i == 1 ? PZ_PLAN_PIN(ZERO) : PZ_PLAN_PIN(RECOMPUTE);
    refused(pz_training_place("gpt2", c, NULL, &o, &p, &err), PZ_BAD_USE); /* unset */
    *(i == 0   ? &o.plan.sp
      : i == 1 ? &o.plan.zero
               : &o.plan.recompute) = i == 0   ? 2
                                      : i == 1 ? 4
                                               : 99;
    refused(pz_training_place("gpt2", c, NULL, &o, &p, &err), PZ_BAD_USE);
  }
  o = good;
  o.pinned = PZ_PLAN_PIN(SEQ); /* not searched */
  refused(pz_training_place("gpt2", c, NULL, &o, &p, &err), PZ_BAD_USE);
  o = good;
  o.objective = PZ_PLAN_OBJECTIVES;
  refused(pz_training_place("gpt2", c, NULL, &o, &p, &err), PZ_BAD_USE);
  o = good;
  o.plan.framework = 99;
  refused(pz_training_place("gpt2", c, NULL, &o, &p, &err), PZ_BAD_USE);
  o = good;
  o.top = 1001;
  refused(pz_training_place("gpt2", c, NULL, &o, &p, &err), PZ_BAD_USE);
  assert_null(p);
  pz_training_plans_free(NULL);
  pz_chip_free(c);
  pz_chip_free(none);
}

/* What a search found is what a prediction of the same plan says, uneven stages included. */
static void placements_are_predictions(void **state) {
  (void)state;
  struct pz_training_place_options o = pz_training_place_options_default();
  struct pz_training_plans *p = NULL;
  struct pz_chip *c = chip("a100-80");
  struct pz_cluster net;
  assert_int_equal(pz_cluster_load("dgx-a100", &net, NULL), PZ_OK);
  o.plan.devices = 16;
  o.plan.batch = 32;
  o.plan.pp = 4;
  o.pinned = PZ_PLAN_PIN(PP);
  o.top = 20;
  double bytes = number(c, "hbm.bytes_per_stack") / 4; /* so that stages recompute */
  set(c, "hbm.bytes_per_stack", bytes);
  assert_int_equal(pz_training_place("llama2-7b", c, &net, &o, &p, NULL), PZ_OK);
  assert_true(p->n >= 1 && p->n <= 20);
  double before = 0;
  for (uint32_t i = 0; i < p->n; i++) {
    struct pz_training_run *r = NULL;
    assert_int_equal(pz_training_predict("llama2-7b", c, &net, &p->runs[i]->plan, false, &r, NULL),
                     PZ_OK);
    assert_true(r->p.step_s == p->runs[i]->p.step_s && r->p.peak_bytes <= r->hbm_bytes);
    double counted = r->p.step_s * (1 + p->runs[i]->expected.error);
    assert_true(i < 2 ||
                counted >= before * (1 - 1e-9)); /* the first is the simplest of the best */
    before = counted;
    pz_training_run_free(r);
  }
  const struct pz_plan_certificate *k = &p->certificate;
  assert_true(k->gap == 0 && k->plans == k->solved + k->by_bound + k->by_memory);
  pz_training_plans_free(p);
  set(c, "hbm.bytes_per_stack", floor(bytes / 100));
  assert_int_equal(pz_training_place("llama2-7b", c, &net, &o, &p, NULL), PZ_OK);
  assert_true(p->n == 0 && p->least && p->least->p.peak_bytes > p->least->hbm_bytes);
  pz_training_plans_free(p);
  pz_chip_free(c);
}

/* ---- texts, parts, and why nothing fits ----------------------------------------------------- */

static void descriptions_are_read_back(void **state) {
  (void)state;
  struct pz_cluster net, net_again;
  char *text = NULL;
  for (size_t i = 0; pz_chip_preset_name(i); i++) {
    struct pz_chip *c = chip(pz_chip_preset_name(i)), *again = NULL;
    char *same = NULL;
    assert_int_equal(pz_chip_text(c, &text, NULL), PZ_OK);
    assert_int_equal(pz_chip_parse("x", text, strlen(text), &again, NULL), PZ_OK);
    assert_int_equal(pz_chip_text(again, &same, NULL), PZ_OK);
    assert_string_equal(text, same);
    pz_text_free(text);
    pz_text_free(same);
    pz_chip_free(again);
    pz_chip_free(c);
  }
  for (size_t i = 0; pz_cluster_preset_name(i); i++) {
    assert_int_equal(pz_cluster_load(pz_cluster_preset_name(i), &net, NULL), PZ_OK);
    assert_int_equal(pz_cluster_text(&net, &text, NULL), PZ_OK);
    assert_int_equal(pz_cluster_parse("x", text, strlen(text), &net_again, NULL), PZ_OK);
    assert_true(net_again.devices == net.devices && net_again.n_levels == net.n_levels);
    pz_text_free(text);
  }
  refused(pz_chip_text(NULL, &text, &err), PZ_BAD_USE);
  refused(pz_cluster_text(&net, NULL, &err), PZ_BAD_USE);
  struct pz_chip *c = chip("h100");
  refused(pz_chip_text(c, NULL, &err), PZ_BAD_USE);
  set(c, "any_units", 1);
  set(c, "glb.bytes", 1);
  refused(pz_chip_text(c, &text, &err), PZ_BAD_INPUT);
  pz_chip_free(c);
  pz_text_free(NULL);
}

static void defaults_are_those_of_the_chip(void **state) {
  (void)state;
  static const struct {
    const char *chip, *framework;
    bool built;
  } rows[] = {
      {"h100", "megatron", true}, {"tpuv4-real", "maxtext", true}, {"tpuv4", "maxtext", false}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct pz_chip *c = chip(rows[i].chip);
    assert_string_equal(pz_framework_names[pz_framework_default(c)], rows[i].framework);
    assert_int_equal(pz_chip_built(c), rows[i].built);
    pz_chip_free(c);
  }
}

/* Parts add up to the whole; stages have all layers. */
static void plans_are_told(void **state) {
  (void)state;
  struct pz_plan o = pz_plan_default();
  struct pz_training_run *r = NULL;
  struct pz_chip *c = chip("h100");
  const struct pz_part_info *part;
  char text[PZ_PLAN_TEXT_MOST];
  double sum = 0;
  int64_t layers = 0;
  o.tp = 2;
  o.pp = 4;
  o.dp = 2;
  o.batch = 16;
  assert_int_equal(pz_training_predict("llama2-7b", c, NULL, &o, false, &r, NULL), PZ_OK);
  assert_string_equal(pz_plan_text(&r->plan, text, sizeof text),
                      "tp 2 sp, pp 4, dp 2, mbs 1, zero 0, recompute none");
  assert_string_equal(pz_plan_text(&r->plan, text, 5), "tp 2");
  struct pz_plan rare = r->plan;
  rare.precision = PZ_PRECISION_FP8;
  rare.fp8_recipe = PZ_FP8_MX;
  rare.bf16_layers = 2;
  rare.bf16_modules = 1;
  rare.peft = "lora:16:all";
  rare.offload = PZ_OFFLOAD_ACTIVATIONS;
  assert_string_equal(
      pz_plan_text(&rare, text, sizeof text),
      "tp 2 sp, pp 4, dp 2, mbs 1, zero 0, recompute none, fp8 GEMMs (mxfp8), the last "
      "2 layers bf16, bf16 attn, lora:16:all, activations on the host");
  for (int64_t k = 0; k < o.pp; k++) layers += pz_training_run_stage(r, k).layers;
  assert_int_equal(layers, r->layers);
  for (size_t i = 0; (part = pz_time_part_at(i)); i++) {
    double x;
    memcpy(&x, (const char *)&r->p.parts + part->offset, sizeof x);
    sum += x;
    assert_true(part->key[0] && part->label[0]);
  }
  assert_true(fabs(sum / r->p.step_s - 1) < 1e-9);
  sum = 0;
  for (size_t i = 0; (part = pz_memory_part_at(i)); i++) {
    double x;
    memcpy(&x, (const char *)&r->p.peak + part->offset, sizeof x);
    sum += x;
  }
  assert_true(fabs(sum / r->p.peak_bytes - 1) < 1e-9);
  pz_training_run_free(r);
  pz_chip_free(c);
}

static void what_would_fit_is_told(void **state) {
  (void)state;
  struct pz_training_place_options o = pz_training_place_options_default();
  struct pz_training_plans *p = NULL;
  struct pz_error told = {0};
  struct pz_chip *c = chip("h100");
  o.plan.devices = 8;
  o.plan.batch = 16;
  assert_int_equal(pz_training_place("llama3-70b", c, NULL, &o, &p, NULL), PZ_OK);
  assert_int_equal(p->n, 0);
  assert_int_equal(pz_training_nothing_fits("llama3-70b", c, NULL, &o, false, p, &told),
                   PZ_NO_ANSWER);
  assert_non_null(strstr(told.message, "Fits with: "));
  assert_non_null(strstr(strstr(told.message, "Fits with: "), " devices (tp "));
  refused(pz_training_nothing_fits(NULL, c, NULL, &o, false, p, &err), PZ_BAD_USE);
  refused(pz_training_nothing_fits("gpt2", NULL, NULL, &o, false, p, &err), PZ_BAD_USE);
  refused(pz_training_nothing_fits("gpt2", c, NULL, &o, false, NULL, &err), PZ_BAD_USE);
  o.size = 1;
  refused(pz_training_nothing_fits("gpt2", c, NULL, &o, false, p, &err), PZ_BAD_USE);
  pz_training_plans_free(p);
  pz_chip_free(c);
}

static void validations_are_checked(void **state) {
  (void)state;
  struct pz_validate_options o = pz_validate_options_default();
  struct pz_validation *v = NULL;
  const char *const runs[] = {PHAZE_TEST_DATA "/no-such.csv", NULL};
  refused(pz_validate(&o, NULL, &err), PZ_BAD_USE);
  o.runs = runs;
  refused(pz_validate(&o, &v, &err), PZ_IO);
  o = pz_validate_options_default();
  o.cold = true;
  o.ops = PHAZE_TEST_DATA "/few_ops.csv";
  refused(pz_validate(&o, &v, &err), PZ_BAD_USE);
  o = pz_validate_options_default();
  o.chip = NULL;
  refused(pz_validate(&o, &v, &err), PZ_BAD_USE);
  o.size = 3;
  refused(pz_validate(&o, &v, &err), PZ_BAD_USE);
  assert_null(v);
  pz_validation_free(NULL);
}

static void predictions_are_checked(void **state) {
  (void)state;
  struct pz_plan o = pz_plan_default();
  const struct pz_plan good = o;
  struct pz_training_run *r = NULL;
  struct pz_chip *c = chip("a100-80"), *none = chip("tpuv4");
  set(none, "glb.bytes", 65536); /* less than a tile */
  refused(pz_training_predict(NULL, c, NULL, &o, false, &r, &err), PZ_BAD_USE);
  refused(pz_training_predict("gpt2", NULL, NULL, &o, false, &r, &err), PZ_BAD_USE);
  refused(pz_training_predict("gpt2", none, NULL, &o, false, &r, &err), PZ_BAD_INPUT);
  refused(pz_training_predict("gpt2", c, NULL, &o, false, NULL, &err), PZ_BAD_USE);
  refused(pz_training_predict("no-such", c, NULL, &o, false, &r, &err), PZ_BAD_INPUT);
  o.size = 0;
  refused(pz_training_predict("gpt2", c, NULL, &o, false, &r, &err), PZ_BAD_USE);
  const struct {
    size_t offset;
    int64_t wide;
  } whole[] = {
      {offsetof(struct pz_plan, devices), -1},   {offsetof(struct pz_plan, tp), -1},
      {offsetof(struct pz_plan, tp), 5}, /* of 12 heads */
      {offsetof(struct pz_plan, pp), 13},        {offsetof(struct pz_plan, vpp), 2},
      {offsetof(struct pz_plan, dp), INT64_MAX}, {offsetof(struct pz_plan, mbs), -1},
      {offsetof(struct pz_plan, batch), -8},     {offsetof(struct pz_plan, seq), INT64_MIN},
      {offsetof(struct pz_plan, shard), 3}};
  for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
    o = good;
    memcpy((char *)&o + whole[i].offset, &whole[i].wide, sizeof whole[i].wide);
    refused(pz_training_predict("gpt2", c, NULL, &o, false, &r, &err), PZ_BAD_USE);
  }
  const size_t choices[] = {offsetof(struct pz_plan, sp),       offsetof(struct pz_plan, recompute),
                            offsetof(struct pz_plan, zero),     offsetof(struct pz_plan, attention),
                            offsetof(struct pz_plan, pipeline), offsetof(struct pz_plan, overlap),
                            offsetof(struct pz_plan, execution)};
  for (size_t i = 0; i < sizeof choices / sizeof *choices; i++)
    for (int wrong = -2; wrong < 100; wrong += 101) {
      o = good;
      memcpy((char *)&o + choices[i], &wrong, sizeof wrong);
      refused(pz_training_predict("gpt2", c, NULL, &o, false, &r, &err), PZ_BAD_USE);
    }
  o = good;
  o.framework = -2;
  refused(pz_training_predict("gpt2", c, NULL, &o, false, &r, &err), PZ_BAD_USE);
  o.framework = 99;
  refused(pz_training_predict("gpt2", c, NULL, &o, false, &r, &err), PZ_BAD_USE);
  o = good;
  o.grad_bytes = (double)NAN;
  refused(pz_training_predict("gpt2", c, NULL, &o, false, &r, &err), PZ_BAD_USE);
  assert_null(r);
  assert_int_equal(pz_training_predict("gpt2", c, NULL, NULL, false, &r, NULL),
                   PZ_OK); /* defaults */
  assert_true(r->p.step_s > 0 && r->plan.zero == 0 && r->plan.seq == 1024 && !r->events);
  struct pz_run_cost_options cost = pz_run_cost_options_default();
  struct pz_run_cost total;
  cost.tokens = 1e9;
  refused(pz_run_cost(NULL, c, &cost, &total, &err), PZ_BAD_USE);
  refused(pz_run_cost(r, NULL, &cost, &total, &err), PZ_BAD_USE);
  refused(pz_run_cost(r, c, &cost, NULL, &err), PZ_BAD_USE);
  refused(pz_run_cost(r, c, NULL, &total, &err), PZ_BAD_USE); /* no tokens */
  cost.price = (double)NAN;
  refused(pz_run_cost(r, c, &cost, &total, &err), PZ_BAD_USE);
  cost.price = 0;
  cost.mtbf_s = -1;
  refused(pz_run_cost(r, c, &cost, &total, &err), PZ_BAD_USE);
  cost.size = sizeof cost + 1;
  refused(pz_run_cost(r, c, &cost, &total, &err), PZ_BAD_USE);
  pz_training_run_free(r);
  pz_training_run_free(NULL);
  pz_chip_free(c);
  pz_chip_free(none);
}

/* ---- searches ------------------------------------------------------------------------------- */

static const char space[] =
    "{\"base\": \"tpuv4\", \"tensor_cores\": [1, 2], \"rows\": [32, 64], \"cols\": [32, 64],"
    " \"vector_cores\": [1, 2], \"glb_mib\": [4, 8]}";

static struct pz_study_options small_study(void) {
  struct pz_study_options o = pz_study_options_default();
  o.models[0] = "bert-base";
  o.models[1] = "gpt2";
  o.n_models = 2;
  o.mbs = (struct pz_choices){{1, 2}, 2};
  o.tp = (struct pz_choices){{1, 2}, 2};
  o.space_text = space;
  o.evaluator = PZ_EVALUATOR_ORIGINAL;
  o.devices = 4;
  o.batch = 16;
  o.workload.seq = 128;
  o.steps = 2000;
  return o;
}

static void not_a_study(const struct pz_study_options *o, enum pz_status expected) {
  struct pz_run *run = NULL;
  struct pz_original original;
  refused(pz_run_open(o, NULL, &run, &err), expected);
  assert_null(run);
  if (o) refused(pz_original_run(o, false, 1, NULL, NULL, &original, &err), expected);
}

static void studies_are_checked(void **state) {
  (void)state;
  struct pz_study_options o = small_study();
  not_a_study(NULL, PZ_BAD_USE); /* no models */
#define wrong(change, expected)                                                                    \
  do {                                                                                             \
    o = small_study();                                                                             \
    change;                                                                                        \
    not_a_study(&o, expected);                                                                     \
  } while (0)
  wrong(o.size = 0, PZ_BAD_USE);
  wrong(o.size = SIZE_MAX, PZ_BAD_USE);
  wrong(o.n_models = 0, PZ_BAD_USE);
  wrong(o.n_models = 65, PZ_BAD_USE);
  wrong(o.n_models = UINT32_MAX, PZ_BAD_USE);
  wrong(o.models[1] = NULL, PZ_BAD_USE);
  wrong((o.objective = PZ_OBJECTIVE_WEIGHTED, o.n_weight = 1), PZ_BAD_USE);
  wrong((o.objective = PZ_OBJECTIVE_WEIGHTED, o.n_weight = 3), PZ_BAD_USE);
  wrong(o.n_weight = 2, PZ_BAD_USE); /* without the objective */
  wrong(o.models[1] = o.models[0], PZ_BAD_USE);
  wrong(o.models[1] = "\xff", PZ_BAD_USE);
  wrong(o.models[1] = "no-such", PZ_BAD_INPUT);
  wrong(o.space = o.space_text = NULL, PZ_BAD_USE);
  wrong(o.cluster = NULL, PZ_BAD_USE);
  wrong(o.space_text = "{", PZ_BAD_INPUT);
  wrong(o.budget = "-1", PZ_BAD_USE);
  wrong(o.devices = -1, PZ_BAD_USE);
  wrong(o.devices = INT64_MAX, PZ_BAD_USE);
  wrong(o.batch = 0, PZ_BAD_USE);
  wrong(o.steps = 0, PZ_BAD_USE);
  wrong(o.mbs.n = 0, PZ_BAD_USE);
  wrong(o.mbs.n = 33, PZ_BAD_USE);
  wrong(o.tp.v[0] = -2, PZ_BAD_USE);
  wrong(o.hbm_gib.n = -1, PZ_BAD_USE);
  wrong(o.objective = PZ_OBJECTIVES, PZ_BAD_USE);
  wrong(o.objective = (enum pz_objective_kind) - 1, PZ_BAD_USE);
  wrong(o.gap = 2, PZ_BAD_USE);
  wrong(o.gap = 0.01, PZ_BAD_USE); /* of the evaluator original */
  wrong(o.rounds = -1, PZ_BAD_USE);
  wrong(o.seconds = (double)NAN, PZ_BAD_USE);
  wrong(o.limit_mm2 = -1, PZ_BAD_USE);
  wrong(o.limit_watts = (double)NAN, PZ_BAD_USE);
  wrong(o.limit_dollars = (double)INFINITY, PZ_BAD_USE);
  wrong(o.scale_up = 0, PZ_BAD_USE);
  wrong(o.outer_bytes_per_s = 0, PZ_BAD_USE);
  wrong(o.node = "5nm", PZ_BAD_USE);
  wrong(o.weight[1] = 0, PZ_BAD_USE);
  wrong(o.weight[1] = (double)NAN, PZ_BAD_USE);
  wrong(o.state = (double)INFINITY, PZ_BAD_USE);
  wrong(o.pareto_tolerance = (double)NAN, PZ_BAD_USE);
  wrong(o.workload.size = 1, PZ_BAD_USE);
  wrong(o.workload.seq = -1, PZ_BAD_USE);
#undef wrong
  o = small_study();
  o.assumptions = 1u << 20;
  struct pz_run *run = NULL;
  refused(pz_run_open(&o, NULL, &run, &err), PZ_BAD_USE);
  o = small_study();
  o.evaluator = PZ_EVALUATORS;
  refused(pz_run_open(&o, NULL, &run, &err), PZ_BAD_USE);
  o.evaluator = PZ_EVALUATOR_TRAINING;
  o.assumptions = 1;
  refused(pz_run_open(&o, NULL, &run, &err), PZ_BAD_USE);
}

static void spaces_are_checked(void **state) {
  (void)state;
  struct pz_space *s = NULL;
  char *text = NULL;
  refused(pz_space_open(NULL, &s, &err), PZ_BAD_USE);
  refused(pz_space_open("paper", NULL, &err), PZ_BAD_USE);
  refused(pz_space_open("papier", &s, &err), PZ_BAD_INPUT);
  refused(pz_space_open_text("x", NULL, 0, &s, &err), PZ_BAD_USE);
  refused(pz_space_open_text(NULL, "{}", 2, &s, &err), PZ_BAD_USE);
  refused(pz_space_open_text("x", "{}", 2, &s, &err), PZ_BAD_INPUT);
  refused(pz_space_describe(NULL, NULL, &text, &err), PZ_BAD_USE);
  assert_null(s);
  assert_int_equal(pz_space_open("paper", &s, NULL), PZ_OK);
  refused(pz_space_describe(s, NULL, NULL, &err), PZ_BAD_USE);
  refused(pz_space_describe(s, "-1", &text, &err), PZ_BAD_USE);
  refused(pz_space_describe(s, "0.001", &text, &err), PZ_NO_ANSWER);
  refused(pz_space_describe(s, "h100", &text, &err), PZ_BAD_USE);
  assert_null(text);
  assert_int_equal(pz_space_describe(s, NULL, &text, NULL), PZ_OK);
  assert_non_null(strstr(text, "\"chips\": 75712"));
  assert_non_null(strstr(text, "\"within\": 29360"));
  pz_text_free(text);
  pz_space_close(s);
  pz_space_close(NULL);
  assert_int_equal(pz_space_open_text("x", space, strlen(space), &s, NULL), PZ_OK);
  assert_int_equal(pz_space_describe(s, "1000", &text, NULL), PZ_OK);
  assert_non_null(strstr(text, "\"within\": 32"));
  pz_text_free(text);
  pz_space_close(s);
}

/* ---- runs ----------------------------------------------------------------------------------- */

static char dir[] = "/tmp/phaze-library-XXXXXX";

static int make_dir(void **state) {
  (void)state;
  return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state) {
  (void)state;
  char path[sizeof dir + 32];
  static const char *const files[] = {"run.sqlite", "run.sqlite-wal", "run.sqlite-shm",
                                      "lock",       "chip.json",      "cluster.json"};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    snprintf(path, sizeof path, "%s/%s", dir, files[i]);
    unlink(path);
  }
  for (int i = 1; i < 400; i++) {
    snprintf(path, sizeof path, "%s/run-%d.sqlite", dir, i);
    unlink(path);
  }
  return rmdir(dir);
}

static void runs_are_checked(void **state) {
  (void)state;
  struct pz_study_options o = small_study();
  struct pz_run_options how = pz_run_options_default();
  struct pz_verify_options verify = pz_verify_options_default();
  struct pz_run *run = NULL;
  bool holds = false;
  refused(pz_run_open(&o, &how, NULL, &err), PZ_BAD_USE);
  how.size = 3;
  refused(pz_run_open(&o, &how, &run, &err), PZ_BAD_USE);
  how = pz_run_options_default();
  how.threads = UINT32_MAX;
  refused(pz_run_open(&o, &how, &run, &err), PZ_BAD_USE);
  refused(pz_run_look(NULL, &run, &err), PZ_BAD_USE);
  how = pz_run_options_default();
  how.dir = "/nowhere/at/all";
  refused(pz_run_look(&how, &run, &err), PZ_IO);
  refused(pz_verify(NULL, &verify, &holds, &err), PZ_BAD_USE);
  refused(pz_verify("/nowhere", &verify, NULL, &err), PZ_BAD_USE);
  refused(pz_verify("/nowhere", NULL, &holds, &err), PZ_IO);
  how.dir = "/dev/null/x";
  refused(pz_run_open(&o, &how, &run, &err), PZ_IO);
  refused(pz_run_search(NULL, &err), PZ_BAD_USE);
  refused(pz_run_compare(NULL, NULL, &err), PZ_BAD_USE);
  refused(pz_run_detail(NULL, &err), PZ_BAD_USE);
  assert_null(run);
  pz_run_close(NULL);
}

static void the_search_comes_first(void **state) {
  (void)state;
  struct pz_study_options o = small_study();
  struct pz_run *run = NULL;
  struct pz_run_options how = pz_run_options_default();
  for (int i = 0; i < 2; i++) {
    how.dir = i ? dir : NULL;
    how.fresh = true;
    assert_int_equal(pz_run_open(&o, &how, &run, NULL), PZ_OK);
    assert_int_equal(pz_run_result(run)->n_answers, 0);
    refused(pz_run_compare(run, NULL, &err), PZ_BAD_USE);
    refused(pz_run_detail(run, &err), PZ_BAD_USE);
    assert_int_equal(pz_run_search(run, NULL), PZ_OK);
    const struct pz_answer *answers = pz_run_result(run)->answers;
    assert_int_equal(pz_run_search(run, NULL), PZ_OK); /* again: the same result */
    assert_ptr_equal(pz_run_result(run)->answers, answers);
    pz_run_close(run);
  }
}

/* Says no at one report. */
struct canceller {
  uint32_t at, seen;
};

static bool report(void *ctx, const struct pz_progress_state *s) {
  struct canceller *c = ctx;
  assert_true(s->phase && s->unit && s->note && s->done <= s->total);
  return ++c->seen != c->at;
}

static void validation_is_cancelled(void **state) {
  (void)state;
  struct pz_validate_options o = pz_validate_options_default();
  struct pz_validation *v = NULL;
  o.progress = report;
  for (uint32_t at = 1; at <= 5; at += 4) { /* in a table of operators; after two tables */
    struct canceller c = {.at = at};
    o.ctx = &c;
    refused(pz_validate(&o, &v, &err), PZ_STOPPED);
    assert_null(v);
  }
}

static enum pz_status everything(struct pz_run *run) {
  enum pz_status status = pz_run_search(run, NULL);
  if (status == PZ_OK) status = pz_run_detail(run, NULL);
  return status == PZ_OK ? pz_run_compare(run, NULL, NULL) : status;
}

static void same_result(const struct pz_result *a, const struct pz_result *b) {
  assert_int_equal(a->n_answers, b->n_answers);
  for (uint32_t i = 0; i < a->n_answers; i++) {
    const struct pz_answer *x = &a->answers[i], *y = &b->answers[i];
    assert_string_equal(pz_chip_name(x->chip), pz_chip_name(y->chip));
    assert_true(x->objective == y->objective && x->hbm_gib == y->hbm_gib);
    assert_true(x->certificate.gap == y->certificate.gap);
    assert_int_equal(x->certificate.n_evaluated, y->certificate.n_evaluated);
    for (uint32_t m = 0; m < x->n_models; m++)
      assert_true(x->models[m].plan->step_s == y->models[m].plan->step_s);
  }
  assert_int_equal(a->n_sensitivity, b->n_sensitivity);
  assert_int_equal(a->detail->n_shown, b->detail->n_shown);
  assert_int_equal(a->detail->n_plans, b->detail->n_plans);
  const struct pz_comparison_run *x = &a->comparison->runs[0], *y = &b->comparison->runs[0];
  for (uint32_t i = 0; i < x->n_methods; i++)
    assert_true(x->methods[i].objective == y->methods[i].objective);
}

/* Cancelled at report k; then to the end in the same run, or in one opened anew. */
static bool cancel_at(uint32_t k, const char *where, bool anew, const struct pz_result *expected) {
  struct pz_study_options o = small_study();
  struct pz_run_options how = pz_run_options_default();
  struct canceller c = {.at = k};
  struct pz_run *run = NULL;
  o.pareto = true;
  how.threads = 2;
  how.progress = report;
  how.ctx = &c;
  how.dir = where;
  how.fresh = where != NULL;
  assert_int_equal(pz_run_open(&o, &how, &run, NULL), PZ_OK);
  enum pz_status status = everything(run);
  assert_true(status == PZ_OK || status == PZ_STOPPED);
  c.at = 0; /* where there were fewer reports this time: not later either */
  if (where && anew) {
    pz_run_close(run);
    how.fresh = false;
    assert_int_equal(pz_run_open(&o, &how, &run, NULL), PZ_OK);
  }
  assert_int_equal(everything(run), PZ_OK);
  same_result(expected, pz_run_result(run));
  pz_run_close(run);
  return status == PZ_STOPPED;
}

static void cancelled_anywhere_it_goes_on(void **state) {
  (void)state;
  struct pz_study_options o = small_study();
  struct pz_run_options how = pz_run_options_default();
  struct canceller c = {.at = 0};
  struct pz_run *run = NULL;
  const uint32_t most = (uint32_t)pz_test_part(12) + 2; /* cancelled so often */
  uint32_t stopped[2] = {0};
  o.pareto = true;
  how.progress = report;
  how.ctx = &c;
  assert_int_equal(pz_run_open(&o, &how, &run, NULL), PZ_OK);
  assert_int_equal(everything(run), PZ_OK);
  print_message("  %u reports\n", c.seen);
  for (int i = 0; i < 2; i++)
    for (uint32_t k = 1, n = 0; k <= c.seen; k += 1 + c.seen / most)
      stopped[i] += cancel_at(k, i ? dir : NULL, n++ % 2, pz_run_result(run));
  print_message("  stopped %u times, and %u with a directory\n", stopped[0], stopped[1]);
  assert_true(stopped[0] > 0 && stopped[1] > 0);
  pz_run_close(run);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(models_are_checked),
      cmocka_unit_test(chips_and_networks_are_checked),
      cmocka_unit_test(fields_of_a_chip_have_the_names_of_its_file),
      cmocka_unit_test(changed_fields_count),
      cmocka_unit_test(wrong_fields_say_what_is_accepted),
      cmocka_unit_test(every_preset_passes_the_checks),
      cmocka_unit_test(names_beyond_an_enum_are_harmless),
      cmocka_unit_test(costs_and_schedules_are_checked),
      cmocka_unit_test(schedules_of_a_plan_add_up_to_its_step),
      cmocka_unit_test(instances_are_solved),
      cmocka_unit_test(validation_is_cancelled),
      cmocka_unit_test(plans_are_checked),
      cmocka_unit_test(placements_are_checked),
      cmocka_unit_test(placements_are_predictions),
      cmocka_unit_test(descriptions_are_read_back),
      cmocka_unit_test(defaults_are_those_of_the_chip),
      cmocka_unit_test(plans_are_told),
      cmocka_unit_test(what_would_fit_is_told),
      cmocka_unit_test(validations_are_checked),
      cmocka_unit_test(predictions_are_checked),
      cmocka_unit_test(studies_are_checked),
      cmocka_unit_test(spaces_are_checked),
      cmocka_unit_test(runs_are_checked),
      cmocka_unit_test(the_search_comes_first),
      cmocka_unit_test(cancelled_anywhere_it_goes_on),
  };
  return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
