/* Schedule problems of layers: what the sets of modes have in common, and what not. */
#include "unit/testing.h"

#include <math.h>
#include <stdio.h>

#include "chip/chip.h"
#include "schedule/model/layer.h"
#include "schedule/model/rate_modes.h"
#include "unit/chip_borders.h"
#include "unit/schedule_calls.h"
#include "unit/vec_push.h"

struct layers {
  struct pz_arena arena;
  struct pz_cost cost;
  struct pz_workload *w;
};

static void open_layers(struct layers *x, const char *model, const char *chip_name) {
  struct pz_chip chip;
  pz_arena_init(&x->arena);
  x->w = pz_test_load(model, NULL);
  assert_int_equal(pz_test_chip_read(chip_name, &chip, NULL), PZ_OK);
  pz_cost_init(&x->cost, &chip, NULL);
}

static void close_layers(struct layers *x) {
  pz_cost_release(&x->cost);
  pz_workload_free(x->w);
  pz_arena_release(&x->arena);
}

static struct pz_problem problem_of(struct layers *x, uint32_t layer, int d, enum pz_mode_set set) {
  struct pz_layer_options kind = {set, PZ_EXCLUSIVE_ALL};
  struct pz_problem p;
  assert_int_equal(
      pz_layer_problem(&x->cost, &x->w->layers[layer].ops[d], &kind, &x->arena, &p, NULL), PZ_OK);
  return p;
}

static bool same_cores(const struct pz_mode *a, const struct pz_mode *b) {
  return memcmp(a->use, b->use, PZ_HBM_RATE * sizeof *a->use) == 0;
}

static bool has_full_rate(const struct pz_task *t, const struct pz_mode *m) {
  for (uint32_t k = 0; k < t->n_modes; k++)
    if (same_cores(&t->modes[k], m) && t->modes[k].duration >= m->duration &&
        t->modes[k].duration <= m->duration)
      return true;
  return false;
}

static bool has_no_slower(const struct pz_task *t, const struct pz_mode *m) {
  for (uint32_t k = 0; k < t->n_modes; k++)
    if (pz_mode_fits(m->use, &t->modes[k]) && t->modes[k].duration <= m->duration) return true;
  return false;
}

/* At full rate the same cores and times; only one of them takes memory rates, and has slower modes.
 */
static void modes_of_cores_are_those_of_all_without_rates(void **state) {
  (void)state;
  struct layers x;
  int64_t rates = 0;
  uint32_t more = 0;
  open_layers(&x, "gpt2", "h200");
  struct pz_problem all = problem_of(&x, 1, PZ_BACKWARD, PZ_MODES_ALL);
  struct pz_problem cores = problem_of(&x, 1, PZ_BACKWARD, PZ_MODES_CORES);
  assert_int_equal(all.n, cores.n);
  for (uint32_t i = 0; i < all.n; i++) {
    const struct pz_task *a = &all.tasks[i], *c = &cores.tasks[i];
    for (uint32_t m = 0; m < c->n_modes; m++) {
      assert_true(has_full_rate(a, &c->modes[m]));
      assert_int_equal(c->modes[m].use[PZ_HBM_RATE] + c->modes[m].use[PZ_GLB_RATE], 0);
    }
    for (uint32_t m = 0; m < a->n_modes; m++) {
      assert_true(has_no_slower(c, &a->modes[m]));
      rates += a->modes[m].use[PZ_HBM_RATE];
    }
    more += a->n_modes - c->n_modes;
  }
  assert_true(rates > 0 && more > 0);
  close_layers(&x);
}

/* A slower mode moves what the one at full rate does: no bandwidth is gained. */
static void slower_modes_move_the_same_bytes(void **state) {
  (void)state;
  struct pz_arena arena;
  struct pz_vec full, modes;
  const struct pz_full_mode two = {.mode = {.use = {2, 1}, .duration = 6, .hbm_s = 3, .glb_s = 5}},
                            four = {.mode = {.use = {4, 1}, .duration = 5, .hbm_s = 3, .glb_s = 5}};
  pz_arena_init(&arena);
  pz_vec_init(&full, &arena, sizeof two);
  pz_vec_init(&modes, &arena, sizeof(struct pz_mode));
  assert_true(vec_push(&full, &two) && vec_push(&full, &four));
  assert_true(pz_rate_modes(&full, 100, &modes));
  for (uint32_t i = 0; i < modes.n; i++) {
    const struct pz_mode *m = pz_vec_at(&modes, struct pz_mode, i);
    assert_true(m->duration * m->use[PZ_HBM_RATE] >= 3 * (1 - 1e-9) * PZ_RATE_PARTS);
    assert_true(m->duration * m->use[PZ_GLB_RATE] >= 5 * (1 - 1e-9) * PZ_RATE_PARTS);
    assert_true(m->use[PZ_TENSOR_CORES] == 2 || m->duration < 6);
  }
  /* half of the one and three quarters of the other bandwidth on two cores; all of the other on
   * four */
  const struct pz_mode shared = {.use = {2, 1, 0, PZ_RATE_PARTS / 2, PZ_RATE_PARTS / 4 * 3},
                                 .duration = 5 / 0.75};
  const struct pz_mode fastest = {.use = {4, 1, 0, PZ_RATE_PARTS / 4 * 3, PZ_RATE_PARTS},
                                  .duration = 5};
  const struct pz_task t = {.modes = modes.items, .n_modes = modes.n};
  assert_true(has_no_slower(&t, &shared) && has_no_slower(&t, &fastest));
  pz_arena_release(&arena);
}

static struct pz_schedule solve(struct layers *x, uint32_t layer, int d, enum pz_mode_set set) {
  struct pz_problem p = problem_of(x, layer, d, set);
  struct pz_solve_options o = {.steps = 20000};
  struct pz_schedule s;
  assert_int_equal(pz_schedule_solve(&p, &o, &x->arena, &s, NULL), PZ_OK);
  return s;
}

/* Sharing rates is never faster: bounds and makespans of the one hold for the other. */
static void sharing_rates_is_never_faster(void **state) {
  (void)state;
  static const char *const models[] = {"gpt2", "llama2-7b"}, *const chips[] = {"tpuv4", "h200"};
  for (int m = 0; m < 2; m++)
    for (int c = 0; c < 2; c++) {
      struct layers x;
      open_layers(&x, models[m], chips[c]);
      for (uint32_t layer = 0; layer < x.w->n_layers; layer++)
        for (int d = 0; d < 2; d++) {
          struct pz_schedule all = solve(&x, layer, d, PZ_MODES_ALL);
          struct pz_schedule cores = solve(&x, layer, d, PZ_MODES_CORES);
          assert_true(cores.lower_bound <= all.makespan * (1 + 1e-9));
          if (cores.outcome == PZ_OUTCOME_OPTIMAL)
            assert_true(cores.makespan <= all.makespan * (1 + 1e-9));
        }
      close_layers(&x);
    }
}

/* ---- more hardware is never slower ----------------------------------------------------------- */

enum axis { TENSOR_CORES, VECTOR_CORES, LANES, CLOCK, GLB_BYTES, GLB_RATE, HBM_RATE, LINK, AXES };

static int64_t times(int64_t n, double factor) { return (int64_t)ceil((double)n * factor); }

static void enlarge(struct pz_chip *c, enum axis axis, double factor) {
  switch (axis) {
  case TENSOR_CORES: c->tensor.cores = times(c->tensor.cores, factor); break;
  case VECTOR_CORES: c->vector.cores = times(c->vector.cores, factor); break;
  case LANES: c->vector.lanes = times(c->vector.lanes, factor); break;
  case CLOCK: c->clock_hz *= factor; break;
  case GLB_BYTES: c->glb_bytes = times(c->glb_bytes, factor); break;
  case GLB_RATE: c->glb_bytes_per_s *= factor; break;
  case HBM_RATE: c->hbm.bytes_per_s_per_stack *= factor; break;
  default: c->link_bytes_per_s *= factor;
  }
}

static struct pz_schedule solve_on(const struct pz_chip *chip, const struct pz_ops *ops) {
  struct pz_layer_options kind = {PZ_MODES_ALL, PZ_EXCLUSIVE_ALL};
  struct pz_solve_options o = {.steps = 20000};
  struct pz_arena arena;
  struct pz_cost cost;
  struct pz_problem p;
  struct pz_schedule s;
  pz_arena_init(&arena);
  pz_cost_init(&cost, chip, NULL);
  assert_int_equal(pz_layer_problem(&cost, ops, &kind, &arena, &p, NULL), PZ_OK);
  assert_int_equal(pz_schedule_solve(&p, &o, &arena, &s, NULL), PZ_OK);
  pz_cost_release(&cost);
  pz_arena_release(&arena);
  return s;
}

/* The larger chip's lower bound, its makespan where that is proven, is at most the makespan of the
 * smaller.  True: both are proven. */
static bool check_no_slower(const struct pz_chip *small, const struct pz_chip *large,
                            const struct pz_ops *ops, const char *what) {
  struct pz_schedule a = solve_on(small, ops), b = solve_on(large, ops);
  if (!(b.lower_bound <= a.makespan * (1 + 1e-9)))
    fail_msg("%s: %.9g us, and at least %.9g with more hardware", what, a.makespan * 1e6,
             b.lower_bound * 1e6);
  return a.outcome == PZ_OUTCOME_OPTIMAL && b.outcome == PZ_OUTCOME_OPTIMAL;
}

/* Layers that took longer on the larger chip while operators held just what they needed: by 1.5%,
 * 8%, 1.3% and 3.7%. */
static void a_faster_operator_still_fits_beside_another(void **state) {
  (void)state;
  static const struct {
    const char *model;
    int64_t seq;
    int direction;
    enum axis axis;
    double factor;
  } cases[] = {{"llama2-7b", 4096, PZ_FORWARD, LANES, 2},
               {"opt-1.3b", 128, PZ_FORWARD, CLOCK, 1.1},
               {"llama3-8b", 128, PZ_FORWARD, CLOCK, 1.1},
               {"bert-base", 128, PZ_BACKWARD, CLOCK, 1.1}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct pz_workload_options o = pz_workload_options_default();
    struct pz_chip chip, more;
    o.seq = cases[i].seq;
    struct pz_workload *w = pz_test_load(cases[i].model, &o);
    assert_int_equal(pz_test_chip_load_described("h100", &chip, NULL), PZ_OK);
    more = chip;
    enlarge(&more, cases[i].axis, cases[i].factor);
    (void)check_no_slower(&chip, &more, &w->layers[1].ops[cases[i].direction], cases[i].model);
    pz_workload_free(w);
  }
}

static uint64_t seed = 11;

static uint32_t draw(uint32_t n) { return pz_random_lcg(&seed) % n; }

/* From 1 to `most`. */
static double draw_factor(double most) { return pow(most, draw(1000) / 1000.0); }

/* A chip around a preset, and one that has more, along one axis or several. */
static void draw_chips(struct pz_chip *small, struct pz_chip *large) {
  static const char *const names[] = {"h100", "tpuv4", "a100-80", "trainium2", "tpuv4-real"};
  assert_int_equal(pz_test_chip_load_described(names[draw(5)], small, NULL), PZ_OK);
  small->rules.rate_levels = small->rules.nested_mapping = true; /* tpuv4 has the original's */
  if (!(small->link_bytes_per_s > 0)) small->link_bytes_per_s = 1e11;
  for (int a = 0; a < AXES; a++)
    if (draw(3) == 0) enlarge(small, (enum axis)a, draw_factor(2) * 0.7);
  *large = *small;
  uint32_t axis = draw(AXES + 3);
  for (uint32_t a = 0; a < AXES; a++)
    if (axis < AXES ? a == axis : draw(2))
      enlarge(large, (enum axis)a, draw_factor(draw(2) ? 1.3 : 3));
}

static void more_hardware_is_never_slower(void **state) {
  (void)state;
  static const char *const models[] = {"gpt2", "bert-base", "opt-1.3b", "qwen3-0.6b",
                                       "llama3.2-1b"};
  int proven = 0, cases = pz_test_part(200);
  for (int k = 0; k < cases; k++) {
    struct pz_workload_options o = pz_workload_options_default();
    struct pz_chip small, large;
    char what[40];
    o.seq = 128 << draw(4);
    o.tp = 1 << draw(3);
    struct pz_workload *w = pz_test_load(models[draw(5)], &o);
    draw_chips(&small, &large);
    uint32_t layer = draw(4) ? 1 : draw(w->n_layers);
    snprintf(what, sizeof what, "case %d", k);
    proven += check_no_slower(&small, &large, &w->layers[layer].ops[draw(2)], what);
    pz_workload_free(w);
  }
  assert_true(proven >= cases / 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(modes_of_cores_are_those_of_all_without_rates),
      cmocka_unit_test(slower_modes_move_the_same_bytes),
      cmocka_unit_test(sharing_rates_is_never_faster),
      cmocka_unit_test(a_faster_operator_still_fits_beside_another),
      cmocka_unit_test(more_hardware_is_never_slower),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
