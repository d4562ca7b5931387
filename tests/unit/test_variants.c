/* Variants of a model: which widths and microbatch sizes are left out, and what is said of them. */
#include "unit/testing.h"

#include <stdio.h>

#include "unit/evaluate_calls.h"

static const struct pz_choices tp = {{1, 5, 8}, 3}, mbs = {{1, 2, 64}, 3};

struct table {
  const char *cells; /* 3 x 3, '.' for a variant that is possible, else the letter of its reason */
  struct pz_vec *notes;
};

static void conclude_table(struct pz_call *call, void *ctx) {
  const struct table *table = ctx;
  struct pz_variants *v = pz_variants_new(call, &tp, &mbs);
  for (int i = 0; i < 9; i++) {
    struct pz_error why = {.status = PZ_LIMIT};
    if (table->cells[i] == '.') continue;
    snprintf(why.message, sizeof why.message, "reason %c", table->cells[i]);
    pz_variants_refuse(call, v, i / 3, i % 3, &why);
  }
  pz_variants_conclude(call, v, table->notes);
}

/* Concludes a table.  The arena holds the notes. */
static enum pz_status conclude(const char *cells, struct pz_arena *arena, struct pz_vec *notes,
                               struct pz_error *err) {
  struct table table = {cells, notes};
  pz_arena_init(arena);
  pz_vec_init(notes, arena, sizeof(struct pz_note));
  return pz_border(conclude_table, &table, err);
}

static void refuse_first(struct pz_call *call, void *why) {
  pz_variants_refuse(call, pz_variants_new(call, &tp, &mbs), 0, 0, why);
}

static void what_is_left_out_is_named_once(void **state) {
  (void)state;
  static const struct {
    const char *table;
    const char *notes[3];
    unsigned lists[3];
  } cases[] = {
      {".........", {NULL}, {0}},
      {"...aaa...", {"--tp 5 is left out: reason a"}, {PZ_LIST_TP}},
      {"..b..b..b", {"--mbs 64 is left out: reason b"}, {PZ_LIST_MBS}},
      {"..baaa..b",
       {"--tp 5 is left out: reason a", "--mbs 64 is left out: reason b"},
       {PZ_LIST_TP, PZ_LIST_MBS}},
      {"..b......", {"--tp 1 with --mbs 64 is left out: reason b"}, {PZ_LIST_TP | PZ_LIST_MBS}},
      {".bbaaaaaa",
       {"--tp 5 is left out: reason a", "--tp 8 is left out: reason a",
        "--mbs 2 is left out: reason b"},
       {PZ_LIST_TP, PZ_LIST_TP, PZ_LIST_MBS}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct pz_arena arena;
    struct pz_vec notes;
    struct pz_error err = {0};
    assert_int_equal(conclude(cases[i].table, &arena, &notes, &err), PZ_OK);
    for (uint32_t k = 0; k < 3 && cases[i].notes[k]; k++) {
      assert_true(k < notes.n);
      assert_string_equal(pz_vec_at(&notes, struct pz_note, k)->text, cases[i].notes[k]);
      assert_int_equal(pz_vec_at(&notes, struct pz_note, k)->lists, cases[i].lists[k]);
    }
    pz_arena_release(&arena);
  }
}

static void none_left_is_an_error(void **state) {
  (void)state;
  static const char *const cases[][2] = {
      {"aaaaaaaaa", "reason a"},
      {"abbabbabb",
       "none of the microbatch sizes and tensor-parallel degrees is possible: reason a"}};
  for (int i = 0; i < 2; i++) {
    struct pz_arena arena;
    struct pz_vec notes;
    struct pz_error err = {0};
    assert_int_equal(conclude(cases[i][0], &arena, &notes, &err), PZ_LIMIT);
    assert_string_equal(err.message, cases[i][1]);
    assert_int_equal(notes.n, 0);
    pz_arena_release(&arena);
  }
}

static void other_errors_are_passed_on(void **state) {
  (void)state;
  static const enum pz_status others[] = {PZ_NO_MEMORY, PZ_IO, PZ_INTERNAL, PZ_STOPPED};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    struct pz_error err = {0}, why = {.status = others[i], .message = "why"};
    assert_int_equal(pz_border(refuse_first, &why, &err), others[i]);
    assert_string_equal(err.message, "why");
  }
}

/* A search has the loads that can be, and a note of each kind once, whatever the models. */
static void a_portfolio_keeps_what_can_be(void **state) {
  (void)state;
  static const char *const models[] = {"gpt2", "gpt2-medium"};
  const struct pz_variant_choices choices = {&mbs, &tp, .batch = 32, .devices = 4};
  struct pz_workload_options how = pz_workload_options_default();
  struct pz_portfolio p;
  struct pz_error err = {0};
  how.seq = 2048;
  assert_int_equal(pz_portfolio_init(&p, models, 2, &choices, &how, &err), PZ_OK);
  assert_int_equal(p.n_variants, 4);
  for (uint32_t i = 0; i < p.n_variants; i++)
    assert_true(p.variants[i].tp == 1 && p.variants[i].mbs == 1 + i % 2 &&
                p.variants[i].model == i / 2);
  static const char *const begin[] = {"gpt2 has 1024 learned",
                                      "--tp 5 is left out: ", "--tp 8 is left out: ",
                                      "--mbs 64 is left out: ", "gpt2-medium has 1024 learned"};
  assert_int_equal(p.notes.n, sizeof begin / sizeof *begin);
  for (uint32_t i = 0; i < p.notes.n; i++)
    assert_ptr_equal(strstr(pz_vec_at(&p.notes, struct pz_note, i)->text, begin[i]),
                     pz_vec_at(&p.notes, struct pz_note, i)->text);
  pz_portfolio_release(&p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_left_out_is_named_once),
      cmocka_unit_test(none_left_is_an_error),
      cmocka_unit_test(other_errors_are_passed_on),
      cmocka_unit_test(a_portfolio_keeps_what_can_be),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
