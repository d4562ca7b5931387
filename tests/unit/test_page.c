/* Datasets as CSV, and the page that a document is put into. */
#include "unit/testing.h"

#include <string.h>

#include "report/dataset.h"
#include "report/page.h"

/* Instead of the real files: the rules are the same. */
const struct pz_embedded pz_embedded_html[] = {
    {"style", "body {}"},
    {"head", "<style>{{style}}</style>"},
    {"template", "{{>head}}<script>{{document}}</script>."},
    {NULL, NULL},
};

static void a_sheet_is_a_table(void **state) {
  (void)state;
  json_t *datasets = json_object(), *rows = pz_dataset_add(datasets, "s", "name,n,part,good");
  char *text = NULL;
  struct pz_error err = {0};
  assert_true(pz_dataset_row(rows, json_pack("[s,i,f,b]", "a,\"b\"\nc", 3, 0.1, true)));
  assert_true(pz_dataset_row(rows, json_pack("[s,i,n,b]", "d", -1, false)));
  assert_true(pz_dataset_row(rows, json_pack("[s,i,n,b]", "=1+1", -1, false)));
  assert_true(pz_dataset_row(rows, json_pack("[s,i,n,b]", "@a,b", 0, false)));
  assert_false(pz_dataset_row(rows, json_pack("[s]", "\xff"))); /* not UTF-8 */
  assert_ptr_equal(pz_dataset_rows(datasets, "s"), rows);
  assert_int_equal(pz_dataset_csv(json_object_get(datasets, "s"), &text, &err), PZ_OK);
  assert_string_equal(
      text,
      "name,n,part,good\n\"a,\"\"b\"\"\nc\",3,0.1,yes\nd,-1,,no\n'=1+1,-1,,no\n\"'@a,b\",0,,no\n");
  free(text);
  json_decref(datasets);
}

static void names_cannot_end_their_element(void **state) {
  (void)state;
  json_t *document = json_pack("{s:s}", "<&>", "</script><img src=x> \xe2\x80\xa8{{style}}");
  char *text = NULL;
  size_t bytes = 0;
  struct pz_error err = {0};
  assert_int_equal(pz_page_text("template", document, &text, &bytes, &err), PZ_OK);
  assert_int_equal(bytes, strlen(text));
  assert_string_equal(text,
                      "<style>body {}</style><script>{\"\\u003c\\u0026\\u003e\":\"\\u003c/script"
                      "\\u003e\\u003cimg src=x\\u003e \\u2028{{style}}\"}</script>.");
  free(text);
  json_decref(document);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_sheet_is_a_table),
                                     cmocka_unit_test(names_cannot_end_their_element)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
