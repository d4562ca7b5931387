/* TOML (toml.io, 1.0) as a list of keys with their lines: what configurations of training frameworks need.  Strings,
 * numbers, truths and arrays are values; dates, inline tables and variables of a shell ("steps = ${STEPS:-1000}", in a
 * script that writes the file) are kept as their text. */
#ifndef PZ_LAUNCH_TOML_H
#define PZ_LAUNCH_TOML_H

#include "core/vec.h"

enum {
  PZ_TOML_MOST_BYTES = 1 << 20,
  PZ_TOML_MOST_KEYS = 1 << 12,
  PZ_TOML_MOST_NESTED = 16, /* arrays */
  PZ_TOML_MOST_NAME = 200   /* bytes of a key with its table */
};

enum pz_toml_kind { PZ_TOML_STRING, PZ_TOML_WORD, PZ_TOML_ARRAY };

struct pz_toml_value {
  enum pz_toml_kind kind;
  const char *text;            /* of a string without quotes, or of a word: 8, true, 1e-4 */
  struct pz_toml_value *items; /* of an array */
  uint32_t n;
};

struct pz_toml_entry {
  const char *name; /* "parallelism.tensor_parallel_degree" */
  uint32_t line;
  struct pz_toml_value value;
};

/* Entries (struct pz_toml_entry) of a text, whose first line is `line` of the file `name`.  PZ_BAD_INPUT with file and
 * line, also for a table or key that stands there twice; PZ_LIMIT above the limits.  The arena holds all. */
PZ_NODISCARD enum pz_status pz_toml_read(const char *name, const char *text, size_t bytes,
                                         uint32_t line, struct pz_arena *arena, struct pz_vec *out,
                                         struct pz_error *err);

#endif
