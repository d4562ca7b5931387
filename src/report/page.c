/* HTML pages: pz_page_html() copies a template and replaces every {{NAME}} by the file of that
 * name, every {{>NAME}} by that template, whose own marks are replaced too, and {{document}} by
 * the data of the page. */
#include "report/page.h"

#include <string.h>

/* Appends a document as JSON for a script element.  The characters <, > and & are escaped, so
 * that the text cannot end the element. */
static void append_document(struct pz_call *call, struct pz_buffer *html, const json_t *document) {
  struct pz_buffer *text = pz_buffer_new(call);
  pz_json_add(call, text, document, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(9));
  for (const char *position = text->text; *position;) {
    size_t plain = strcspn(position, "<>&");
    pz_buffer_add(call, html, position, plain);
    position += plain;
    if (!*position) break;
    pz_buffer_print(call, html, "\\u%04x", (unsigned)*position);
    position++;
  }
  pz_close(call, text);
}

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
      append_document(call, html, document);
    } else {
      const char *text = find_embedded(call, key, n);
      pz_buffer_add(call, html, text, strlen(text));
    }
    position = end + 2;
  }
  pz_buffer_add(call, html, position, strlen(position));
}

struct pz_buffer *pz_page_html(struct pz_call *call, const char *template, const json_t *document) {
  struct pz_buffer *html = pz_buffer_new(call);
  append_template(call, html, template, strlen(template), document);
  return html;
}
