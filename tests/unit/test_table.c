/* Aligned tables. */
#include "unit/testing.h"

#include "report/table.h"

static void columns_line_up(void **state) {
  (void)state;
  static const char *const heads[] = {"name", ">n", "note", NULL};
  struct pz_arena arena;
  struct pz_table t;
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  pz_arena_init(&arena, NULL);
  pz_table_init(&t, &arena, heads);
  pz_table_cell(&t, "%s", "µ");
  pz_table_cell(&t, "%d", 1000);
  pz_table_cell(&t, "x");
  pz_table_cell(&t, "long name");
  pz_table_cell(&t, "%d", 7);
  pz_table_cell(&t, "%s", "");
  assert_int_equal(pz_table_width(&t), 9 + 2 + 4 + 2 + 4);
  assert_int_equal(pz_table_print(&t, 2, out), PZ_OK);
  fclose(out);
  assert_string_equal(text, "  name          n  note\n"
                            "  µ          1000  x\n"
                            "  long name     7\n");
  free(text);
  pz_arena_release(&arena);
}

static void one_column_and_control_characters(void **state) {
  (void)state;
  static const char *const heads[] = {"name", NULL};
  struct pz_arena arena;
  struct pz_table t;
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  pz_arena_init(&arena, NULL);
  pz_table_init(&t, &arena, heads);
  pz_table_cell(&t, "%s", "a\033[31mb\n");
  assert_int_equal(pz_table_print(&t, 0, out), PZ_OK);
  fclose(out);
  assert_string_equal(text, "name\na?[31mb?\n");
  free(text);
  pz_arena_release(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(columns_line_up),
                                     cmocka_unit_test(one_column_and_control_characters)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
