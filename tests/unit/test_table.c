/* Aligned tables. */
#include "unit/testing.h"

#include "report/table.h"

static void print_columns(struct pz_call *call, void *out) {
  struct pz_table *table = pz_table_new(call, "name|>n|note");
  pz_table_cell(table, "%s", "µ");
  pz_table_cell(table, "%d", 1000);
  pz_table_cell(table, "x");
  pz_table_cells(table, "%s|%d|%s", "long name", 7, "");
  assert_int_equal(pz_table_width(table), 9 + 2 + 4 + 2 + 4);
  pz_table_print(table, 2, out);
}

static void print_control_characters(struct pz_call *call, void *out) {
  static const char *const heads[] = {"name", NULL};
  struct pz_table *table = pz_table_with(call, heads);
  pz_table_cell(table, "%s", "a\033[31mb\n");
  pz_table_print(table, 0, out);
}

/* Arguments of pz_table_cells() may contain bars and the characters by which it divides cells. */
static void print_separators(struct pz_call *call, void *out) {
  static const char *const heads[] = {"a", "b", "c", NULL};
  struct pz_table *table = pz_table_with(call, heads);
  pz_table_cells(table, "%s|x%s|%d%%", "1|2", "\001|\002", 5);
  pz_table_dashes(table, 2);
  pz_table_known(table, true, "%d", 3);
  pz_table_cells(table, "%s|", "d");
  pz_table_known(table, false, "%d", 3);
  pz_table_print(table, 0, out);
}

static void assert_prints(pz_call_fn *print, const char *expected) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  assert_int_equal(pz_border(print, out, NULL), PZ_OK);
  fclose(out);
  assert_string_equal(text, expected);
  free(text);
}

static void columns_line_up(void **state) {
  (void)state;
  assert_prints(print_columns, "  name          n  note\n"
                               "  µ          1000  x\n"
                               "  long name     7\n");
}

static void one_column_and_control_characters(void **state) {
  (void)state;
  assert_prints(print_control_characters, "name\na?[31mb?\n");
}

static void cells_are_divided_at_the_bars_of_the_format(void **state) {
  (void)state;
  assert_prints(print_separators, "a    b     c\n"
                                  "1|2  x?|?  5%\n"
                                  "-    -     3\n"
                                  "d          -\n");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(columns_line_up),
                                     cmocka_unit_test(one_column_and_control_characters),
                                     cmocka_unit_test(cells_are_divided_at_the_bars_of_the_format)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
