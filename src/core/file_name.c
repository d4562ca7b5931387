/* The functions of core/file.h that do not depend on the operating system.  src/wasm/files.c
 * implements the others for files in memory. */
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
