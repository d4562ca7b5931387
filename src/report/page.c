/* HTML pages: pz_page_html() copies a template and replaces {{NAME}} by a file, {{>NAME}} by a
 * template, whose own marks are replaced too, and {{document}} by the data of the page. */
#include "report/page.h"

#include <string.h>

/* Returns the text of the file of html/ whose name has these bytes. */
static const char *find_embedded(struct pz_call *call, const char *name, size_t bytes) {
  for (const struct pz_embedded *entry = pz_embedded_html; entry->name; entry++)
    if (strlen(entry->name) == bytes && memcmp(entry->name, name, bytes) == 0) return entry->text;
  pz_raise(call, PZ_INTERNAL, "the page has no part '%.*s'", (int)bytes, name);
}

/* Appends a template and replaces its marks, also those of templates within it. */
static void append_template(struct pz_call *call, struct pz_buffer *html, const char *name,
                            size_t bytes, const json_t *document) {
  const char *position = find_embedded(call, name, bytes);
  for (;;) {
    const char *mark = strstr(position, "{{"), *end = mark ? strstr(mark, "}}") : NULL;
    if (!end) break;
    const char *key = mark + 2;
    size_t n = (size_t)(end - key);
    pz_buffer_add(call, html, position, (size_t)(mark - position));
    if (*key == '>') {
      append_template(call, html, key + 1, n - 1, document);
    } else if (n == strlen("document") && memcmp(key, "document", n) == 0) {
      /* The characters <, > and & are escaped, so that the JSON cannot end its script element. */
      struct pz_buffer *json = pz_buffer_new(call);
      pz_json_add(call, json, document, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(9));
      for (const char *text = json->text; *text;) {
        size_t plain = strcspn(text, "<>&");
        pz_buffer_add(call, html, text, plain);
        text += plain;
        if (!*text) break;
        pz_buffer_print(call, html, "\\u%04x", (unsigned)*text);
        text++;
      }
      pz_close(call, json);
    } else {
      const char *text = find_embedded(call, key, n);
      pz_buffer_add(call, html, text, strlen(text));
    }
    position = end + 2;
  }
  pz_buffer_add(call, html, position, strlen(position));
}

/* Returns the page of a template in the memory of the call. */
struct pz_buffer *pz_page_html(struct pz_call *call, const char *template, const json_t *document) {
  struct pz_buffer *html = pz_buffer_new(call);
  append_template(call, html, template, strlen(template), document);
  return html;
}
