/* One program for libFuzzer, which runs the target that it is called by: fuzz_NAME is a link to it. */
#include <stdio.h>
#include <string.h>

#include "fuzz.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static fuzz_target *target;

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  const char *slash = strrchr((*argv)[0], '/'), *name = slash ? slash + 1 : (*argv)[0];
  (void)argc;
#define X(n)                                                                                       \
  if (strcmp(name, "fuzz_" #n) == 0) target = fuzz_##n;
  FUZZ_TARGETS
#undef X
  if (target) return 0;
  fprintf(stderr, "%s: accepted: the name fuzz_TARGET\n", name);
  exit(2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  target((const char *)data, bytes);
  return 0;
}
