/* Targets of the fuzzer, one for each reader of outside data: any bytes are read, and what was read can be used, or they
 * are refused with a message.  The bytes do not end with a zero. */
#ifndef PZ_FUZZ_FUZZ_H
#define PZ_FUZZ_FUZZ_H

#include <stdlib.h>

#include "core/arena.h"
#include "core/status.h"

/* clang-format off */
#define FUZZ_TARGETS                                                                              \
  X(config) X(shape) X(onnx) X(layers)                                                            \
  X(chip) X(space)                                                                                \
  X(ops) X(silicon) X(runs) X(steps) X(nccl) X(rehearsal) X(limits) X(prices)                     \
  X(instance) X(place)                                                                            \
  X(run_file) X(rounds) X(result)                                                                 \
  X(megatron) X(torchtitan) X(bridge) X(log) X(plan) X(arguments) X(words)
/* clang-format on */

typedef void fuzz_target(const char *text, size_t bytes);
#define X(name) fuzz_target fuzz_##name;
FUZZ_TARGETS
#undef X

static inline void require(bool ok) {
  if (!ok) abort();
}

/* Was it read?  If not, there is a message, and the mistake is not ours. */
static inline bool was_read(enum pz_status status, const struct pz_error *err) {
  require(status == PZ_OK || (err->message[0] && status != PZ_INTERNAL));
  return status == PZ_OK;
}

/* A number that varies with the input, so that every combination of options comes up. */
static inline uint64_t hash(const char *text, size_t bytes, uint64_t salt) {
  for (size_t i = 0; i < bytes; i++) salt = salt * 31 + (unsigned char)text[i];
  return salt;
}

#endif
