#include "report/page.h"

#include <stdio.h>
#include <string.h>

#include "core/alloc.h"

/* As JSON for a script element, where only a '<' could begin the end of it. */
static bool put_document(const json_t *document, FILE *out) {
  char *text = pz_json_dump(document, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(9));
  for (const char *at = text; at && *at; at++)
    if (*at == '<' || *at == '>' || *at == '&')
      fprintf(out, "\\u%04x", (unsigned)*at);
    else
      fputc(*at, out);
  pz_free(text);
  return text != NULL;
}

static const char *find(const char *name, size_t n) {
  for (const struct pz_embedded *e = pz_embedded_html; e->name; e++)
    if (strlen(e->name) == n && memcmp(e->name, name, n) == 0) return e->text;
  return NULL;
}

/* The template with every {{NAME}} replaced by that file, {{>NAME}} by that template, and {{document}}. */
static bool put_page(const char *name, size_t bytes, const json_t *document, FILE *out) {
  const char *at = find(name, bytes);
  bool good = at != NULL;
  while (good && *at) {
    const char *mark = strstr(at, "{{"), *end = mark ? strstr(mark, "}}") : NULL;
    if (!end) {
      fputs(at, out);
      return true;
    }
    fwrite(at, 1, (size_t)(mark - at), out);
    size_t n = (size_t)(end - mark) - 2;
    const char *text = find(mark + 2, n);
    if (mark[2] == '>')
      good = put_page(mark + 3, n - 1, document, out);
    else if (n == strlen("document") && memcmp(mark + 2, "document", n) == 0)
      good = put_document(document, out);
    else if (text)
      fputs(text, out);
    else
      good = false;
    at = end + 2;
  }
  return good;
}

enum pz_status pz_page_text(const char *template, const json_t *document, char **text,
                            size_t *bytes, struct pz_error *err) {
  struct pz_buffer b = {0};
  FILE *out = pz_buffer_stream(&b);
  if (!out) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the page");
  bool good = put_page(template, strlen(template), document, out);
  if (pz_buffer_close(out) && good) {
    *text = b.text;
    *bytes = b.bytes;
    return PZ_OK;
  }
  pz_free(b.text);
  return pz_fail(err, PZ_NO_MEMORY, "out of memory for the page");
}
