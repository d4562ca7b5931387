/* readlink is of POSIX. */
#define _POSIX_C_SOURCE 200809L /* NOLINT(bugprone-reserved-identifier) */

#include "cli/shared_file.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool pz_shared_file(const char *name, char *path, size_t size) {
  /* from the folder of the program: bin/phaze, or build/release/src/phaze */
  static const char *const places[] = {"../share/phaze", "../wasm", "../../wasm"};
  char program[2048];
  ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
  if (n <= 0) return false;
  program[n] = '\0';
  char *slash = strrchr(program, '/');
  if (!slash) return false;
  *slash = '\0';
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    int bytes = snprintf(path, size, "%s/%s/%s", program, places[i], name);
    if (bytes > 0 && (size_t)bytes < size && access(path, R_OK) == 0) return true;
  }
  return false;
}
