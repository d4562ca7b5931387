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

/* A row that is not UTF-8. */
static void append_bad_row(struct pz_call *call, void *rows) {
  pz_dataset_append(call, rows, json_pack("[s]", "\xff"));
}

static void write_dataset(struct pz_call *call, void *text) {
  json_t *datasets = pz_json_built(call, json_object());
  json_t *rows = pz_dataset_new(call, datasets, "s", "name,n,part,good");
  pz_dataset_append(call, rows, json_pack("[s,i,f,b]", "a,\"b\"\nc", 3, 0.1, true));
  pz_dataset_append(call, rows, json_pack("[s,i,n,b]", "d", -1, false));
  pz_dataset_append(call, rows, json_pack("[s,i,n,b]", "=1+1", -1, false));
  pz_dataset_append(call, rows, json_pack("[s,i,n,b]", "@a,b", 0, false));
  assert_int_equal(pz_border(append_bad_row, rows, NULL), PZ_NO_MEMORY);
  assert_ptr_equal(json_object_get(json_object_get(datasets, "s"), "rows"), rows);
  *(char **)text = strdup(pz_dataset_text(call, json_object_get(datasets, "s")));
}

static void a_sheet_is_a_table(void **state) {
  (void)state;
  char *text = NULL;
  assert_int_equal(pz_border(write_dataset, &text, NULL), PZ_OK);
  assert_string_equal(
      text,
      "name,n,part,good\n\"a,\"\"b\"\"\nc\",3,0.1,yes\nd,-1,,no\n'=1+1,-1,,no\n\"'@a,b\",0,,no\n");
  free(text);
}

static void write_page(struct pz_call *call, void *text) {
  json_t *document =
      pz_json_built(call, json_pack("{s:s}", "<&>", "</script><img src=x> \xe2\x80\xa8{{style}}"));
  struct pz_buffer *html = pz_page_html(call, "template", document);
  assert_int_equal(html->bytes, strlen(html->text));
  *(char **)text = strdup(html->text);
}

static void names_cannot_end_their_element(void **state) {
  (void)state;
  char *text = NULL;
  assert_int_equal(pz_border(write_page, &text, NULL), PZ_OK);
  assert_string_equal(text,
                      "<style>body {}</style><script>{\"\\u003c\\u0026\\u003e\":\"\\u003c/script"
                      "\\u003e\\u003cimg src=x\\u003e \\u2028{{style}}\"}</script>.");
  free(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_sheet_is_a_table),
                                     cmocka_unit_test(names_cannot_end_their_element)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
