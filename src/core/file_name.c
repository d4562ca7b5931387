/* The functions of core/file.h that do not depend on the operating system.  src/wasm/files.c implements
 * the others for files in memory. */
#include <string.h>

#include "core/file.h"

bool pz_file_named(const char *word) {
  size_t n = strlen(word);
  return strchr(word, '/') || (n > 5 && strcmp(word + n - 5, ".json") == 0) ||
         (n > 5 && strcmp(word + n - 5, ".onnx") == 0);
}

const char *pz_file_with(struct pz_call *call, const char *path, const char *text) {
  const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
  size_t n = dot ? (size_t)(dot - path) : strlen(path);
  return pz_format(call, "%.*s%s%s", (int)n, path, text, path + n);
}

/* ---- old name, for rooms that do not raise yet ---- */

struct read_request {
  const char *path;
  size_t limit, *bytes;
  char **text;
};

static void read_in_border(struct pz_call *call, void *ctx) {
  struct read_request *x = ctx;
  *x->text = pz_file_text(call, x->path, x->limit, x->bytes);
  pz_undefer(call, *x->text);
}

enum pz_status pz_file_read(const char *path, size_t limit, char **text, size_t *bytes,
                            struct pz_error *err) {
  struct read_request x = {path, limit, bytes, text};
  return pz_border(read_in_border, &x, err);
}
