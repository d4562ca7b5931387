/* A shell script, or a plain list of arguments, as words: what a reader of launch scripts needs, and no shell.
 *
 * Nothing is run.  Quotes, continued lines and comments are as in a shell; variables that the text itself assigns
 * (NAME=8, ${NAME}, ${NAME:-8}, $((A * B))) are put in.  The text is read from top to bottom.  Branches of `if` and `case`
 * and commands behind && and || are left out where the values in the text decide so; where they do not decide, all are
 * read, and the words marked.  A list of arguments, ARGS=(--a 1) or ARGS="--a 1", counts where it stands and is nothing where it is used. */
#ifndef PZ_LAUNCH_SHELL_WORDS_H
#define PZ_LAUNCH_SHELL_WORDS_H

#include "core/vec.h"

enum {
  PZ_SHELL_MOST_BYTES = 1 << 20, /* of a text */
  PZ_SHELL_MOST_WORDS = 1 << 16,
  PZ_SHELL_MOST_VARIABLES = 1024,
  PZ_SHELL_MOST_VALUE = 4096 /* bytes of a variable or a word */
};

struct pz_shell_word {
  const char *text;    /* without quotes, variables put in */
  const char *unknown; /* a variable or command in it that has no known value; NULL: none */
  uint32_t line;
  bool begins;  /* a line, list or command: it is no value of the word before */
  bool batch;   /* of a batch system's comment, #SBATCH */
  bool guessed; /* nothing decides whether it is run */
};

struct pz_shell_variable {
  const char *name, *value;
  const char *unknown; /* as of a word */
  uint32_t line;
  bool list;           /* of arguments: it was read where it stands */
  bool preset;         /* by the caller: assignments do not change it */
  bool guessed;        /* by a branch of which nothing decides whether it is taken */
  uint32_t other_line; /* where it has another value before; 0: nowhere */
};

struct pz_shell_text {
  struct pz_vec words;     /* struct pz_shell_word */
  struct pz_vec variables; /* struct pz_shell_variable */
};

/* Words of a text; `name` stands for it in messages, `presets` are NAME=VALUE, NULL behind the last (or NULL: none).
 * PZ_BAD_INPUT with a line for a quote or bracket that is not closed, a zero byte, and a preset that is no assignment;
 * PZ_LIMIT above the limits.  The arena holds all. */
PZ_NODISCARD enum pz_status pz_shell_read(const char *name, const char *text, size_t bytes,
                                          const char *const *presets, struct pz_arena *arena,
                                          struct pz_shell_text *out, struct pz_error *err);

#endif
