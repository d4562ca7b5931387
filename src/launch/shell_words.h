/* Reader of a shell script, or of a plain list of arguments, as words, for readers of launch
 * scripts. Nothing is run.
 *
 * Quotes, continued lines and comments are read as a shell reads them.  Variables that the text
 * itself assigns (NAME=8, ${NAME}, ${NAME:-8}, $((A * B))) are expanded.  The text is read from top
 * to bottom.  Branches of `if` and `case`, and commands after && and ||, are left out if the values
 * in the text decide that they are not run.  If the text does not decide it, they are read and
 * their words are marked as guesses.  An array or string of arguments, ARGS=(--a 1) or ARGS="--a
 * 1", is read where it is assigned, and its expansion "${ARGS[@]}" is empty. */
#ifndef PZ_LAUNCH_SHELL_WORDS_H
#define PZ_LAUNCH_SHELL_WORDS_H

#include "core/vec.h"

enum {
  PZ_SHELL_MOST_BYTES = 1 << 20, /* bytes of a script */
  PZ_SHELL_MOST_WORDS = 1 << 16,
  PZ_SHELL_MOST_VARIABLES = 1024,
  PZ_SHELL_MOST_VALUE = 4096 /* bytes of a variable or a word */
};

struct pz_shell_word {
  const char *text;    /* without quotes, variables expanded */
  const char *unknown; /* a variable or command in the word whose value is unknown, or NULL */
  uint32_t line;
  bool is_first; /* the first word of a line, list or command, so not the value of an argument */
  bool is_slurm; /* an option of Slurm, in a comment #SBATCH */
  bool guessed;  /* the text does not decide whether the word's command is run */
};

struct pz_shell_variable {
  const char *name, *value;
  const char *unknown; /* a part of the value that is unknown, or NULL */
  uint32_t line;
  bool list;           /* a list of arguments, whose words were read at the assignment */
  bool preset;         /* set by the caller; assignments do not change it */
  bool guessed;        /* assigned in a branch that may not be run */
  uint32_t other_line; /* line of an earlier assignment of another value, or 0 */
};

struct pz_shell_text {
  struct pz_vec words;     /* struct pz_shell_word */
  struct pz_vec variables; /* struct pz_shell_variable */
};

/* Reads a text.  `name` stands for it in messages; `presets` is a list NAME=VALUE that ends with
 * NULL, or NULL.  Raises PZ_BAD_INPUT with a line for a quote or bracket that is not closed and for
 * a zero byte, PZ_BAD_USE for a preset that is no assignment, and PZ_LIMIT above the limits. */
struct pz_shell_text pz_shell_read(struct pz_call *call, const char *name, const char *text,
                                   size_t bytes, const char *const *presets);

#endif
