/* Schedule problems of layers: what the sets of modes have in common, and what not. */
#include "unit/testing.h"

#include "schedule/model/layer.h"
#include "schedule/solve.h"

struct layers {
  struct pz_arena arena;
  struct pz_cost cost;
  struct pz_workload *w;
};

static void open_layers(struct layers *x, const char *model, const char *chip_name) {
  struct pz_chip chip;
  pz_arena_init(&x->arena, NULL);
  x->w = pz_test_load(model, NULL);
  assert_int_equal(pz_chip_load(chip_name, &chip, NULL), PZ_OK);
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

/* The same cores and times; only one of them takes memory rates. */
static void modes_of_cores_are_those_of_all_without_rates(void **state) {
  (void)state;
  struct layers x;
  int64_t rates = 0;
  open_layers(&x, "gpt2", "h200");
  struct pz_problem all = problem_of(&x, 1, PZ_BACKWARD, PZ_MODES_ALL);
  struct pz_problem cores = problem_of(&x, 1, PZ_BACKWARD, PZ_MODES_CORES);
  assert_int_equal(all.n, cores.n);
  for (uint32_t i = 0; i < all.n; i++) {
    assert_int_equal(all.tasks[i].n_modes, cores.tasks[i].n_modes);
    for (uint32_t m = 0; m < all.tasks[i].n_modes; m++) {
      const struct pz_mode *a = &all.tasks[i].modes[m], *b = &cores.tasks[i].modes[m];
      assert_true(a->s >= b->s && a->s <= b->s);
      for (int r = 0; r < PZ_RESOURCES; r++) {
        bool rate = r == PZ_HBM_RATE || r == PZ_GLB_RATE;
        assert_int_equal(b->use[r], rate ? 0 : a->use[r]);
        rates += rate ? a->use[r] : 0;
      }
    }
  }
  assert_true(rates > 0);
  close_layers(&x);
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(modes_of_cores_are_those_of_all_without_rates),
      cmocka_unit_test(sharing_rates_is_never_faster),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
