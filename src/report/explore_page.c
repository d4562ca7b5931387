#include "report/explore_page.h"

#include "core/alloc.h"
#include "report/page.h"

/* Base64 (RFC 4648); to be freed. */
static char *base64(const unsigned char *bytes, size_t n) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  char *text = pz_malloc((n + 2) / 3 * 4 + 1), *to = text;
  for (size_t i = 0; text && i < n; i += 3) {
    size_t left = n - i;
    unsigned v = (unsigned)bytes[i] << 16 | (left > 1 ? (unsigned)bytes[i + 1] << 8 : 0) |
                 (left > 2 ? (unsigned)bytes[i + 2] : 0);
    *to++ = digits[v >> 18];
    *to++ = digits[v >> 12 & 63];
    *to++ = left > 1 ? digits[v >> 6 & 63] : '=';
    *to++ = left > 2 ? digits[v & 63] : '=';
  }
  if (text) *to = '\0';
  return text;
}

enum pz_status pz_explore_page(const struct pz_explore *e, char **text, size_t *bytes,
                               struct pz_error *err) {
  char *wasm = base64((const unsigned char *)e->wasm, e->wasm_bytes);
  json_t *document =
      wasm ? json_pack("{s:s,s:O,s:O,s:O,s:O,s:O,s:{},s:s}", "version", pz_version(), "models",
                       e->models, "files", e->files, "state", e->state, "presets", e->presets,
                       "frameworks", e->frameworks, "datasets", "wasm", wasm)
           : NULL;
  enum pz_status status = document ? pz_page_text("explore_page", document, text, bytes, err)
                                   : pz_fail(err, PZ_NO_MEMORY, "out of memory for the page");
  pz_free(wasm);
  json_decref(document);
  return status;
}
