/* Reader of TOML 1.0 (toml.io) for the configurations of training frameworks.
 *
 * The result is a list of keys with their values and lines.  Strings, words and arrays are told
 * apart.  Dates, inline tables and shell variables ("steps = ${STEPS:-1000}", in a script that
 * writes the file) are kept as text. */
#ifndef PZ_LAUNCH_TOML_H
#define PZ_LAUNCH_TOML_H

#include "core/vec.h"

enum {
  PZ_TOML_MOST_BYTES = 1 << 20,
  PZ_TOML_MOST_KEYS = 1 << 12,
  PZ_TOML_MOST_NESTED = 16, /* depth of nested arrays */
  PZ_TOML_MOST_NAME = 200   /* length of a key with its table, in bytes */
};

enum pz_toml_kind { PZ_TOML_STRING, PZ_TOML_WORD, PZ_TOML_ARRAY };

struct pz_toml_value {
  enum pz_toml_kind kind;
  const char *text; /* a string without its quotes, or a word such as 8 or true; "" for an array */
  struct pz_toml_value *items; /* elements of an array */
  uint32_t n;
};

struct pz_toml_entry {
  const char *name; /* "parallelism.tensor_parallel_degree" */
  uint32_t line;
  struct pz_toml_value value;
};

/* Returns the keys of a text, as a vector of struct pz_toml_entry.  `name` stands for the file in
 * messages, and `first_line` is the line of the file that the text begins on.  Raises PZ_BAD_INPUT
 * with file and line for text that is not TOML and for a table or key that is defined twice, and
 * PZ_LIMIT above the limits. */
struct pz_vec pz_toml_read(struct pz_call *call, const char *name, const char *text, size_t bytes,
                           uint32_t first_line);

#endif
