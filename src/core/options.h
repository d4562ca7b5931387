/* Options of a subcommand: a table for parsing, range checks, --help and the man page. */
#ifndef PZ_CORE_OPTIONS_H
#define PZ_CORE_OPTIONS_H

#include <stdio.h>

#include "core/call.h"

enum pz_option_type {
  PZ_OPTION_FLAG,   /* bool: true if given */
  PZ_OPTION_INT,    /* int64_t in [min, max] */
  PZ_OPTION_NUMBER, /* int in [min, max] */
  PZ_OPTION_REAL,   /* double in [min, max] */
  PZ_OPTION_CHOICE, /* int: the index in choices */
  PZ_OPTION_SET,    /* int: a bit for each choice in a comma-separated list; or none, or all */
  PZ_OPTION_SWITCH, /* int: 1 with --name, 0 with --no-name */
  PZ_OPTION_TEXT,   /* const char *, which points into argv */
  PZ_OPTION_TEXTS,  /* const char *[max], filled in order */
};

struct pz_option {
  const char *name; /* without leading dashes, with _ for - */
  char letter;      /* short name, or 0 */
  enum pz_option_type type;
  size_t offset;   /* offset of the member in the settings, which have the defaults at first */
  const char *arg; /* name of the value in --help; NULL stands for N, or LIST of a set */
  const char *help;
  double min, max;
  const char *const *choices; /* ends with NULL */
  bool hidden;                /* the command refuses the option */
  const char *default_text;   /* the default in --help; NULL stands for the value in the settings */
};

struct pz_option_table {
  const struct pz_option *options;
  size_t n;
};

/* Parses the options in argv[1..] into `settings`.  Moves the other words to the front of
 * argv[1..], in their order, and returns their number.  Options end at `--`. */
int pz_options_read(struct pz_call *call, const struct pz_option_table *table, void *settings,
                    int argc, char **argv);

/* Writes the name of an option as on the command line, with - for _, and returns buf. */
char *pz_option_name(const char *name, char *buf, size_t size);

/* Returns whether an option has the same value in two settings of a command. */
bool pz_option_same(const struct pz_option *option, const void *a, const void *b);

/* Prints aligned lines for --help; `settings` holds the defaults to show, or is NULL. */
void pz_options_help(const struct pz_option_table *table, const void *settings, FILE *out);

/* Prints the options as .TP entries of a man page. */
void pz_options_man(const struct pz_option_table *table, const void *settings, FILE *out);

/* ---- lists of numbers to choose from, as given on the command line: 1,2,4 ------------------- */

/* Returns the powers of two from 1 to `most`. */
struct pz_choices pz_choices_powers(int64_t most);

/* Raises PZ_BAD_USE unless the list has at least `least` ascending numbers from 1 to 2^20;
 * `name` is that of the list, for messages. */
void pz_choices_require(struct pz_call *call, const char *name, const struct pz_choices *choices,
                        int least);

/* Reads comma-separated numbers from 1 to `most`; `name` is that of the option, for messages. */
struct pz_choices pz_choices_read(struct pz_call *call, const char *text, const char *name,
                                  int64_t most);

#endif
