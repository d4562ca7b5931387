/* Options of a subcommand: one table, from which parsing, range checks, --help and the man page
 * follow. */
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
  /* In the struct of the command's settings, which holds the defaults before parsing. */
  size_t offset;
  const char *arg; /* what --help calls the value; NULL for N, or LIST of a set */
  const char *help;
  double min, max;
  const char *const *choices; /* ends with NULL */
  bool hidden;                /* the command refuses the option */
  const char *standard; /* what --help calls the default; NULL for the value in the settings */
};

struct pz_option_table {
  const struct pz_option *options;
  size_t n;
};

/* Parses argv[1..] into `settings`, moves the words that are no options to the front of argv[1..]
 * in their order, and returns their number.  Options end with `--`.  Errors name the word that was
 * found and what is accepted. */
int pz_options_read(struct pz_call *call, const struct pz_option_table *table, void *settings,
                    int argc, char **argv);

/* Returns the name of an option on the command line, with - for _.  Returns buf. */
char *pz_option_name(const struct pz_option *option, char *buf, size_t size);

/* Returns whether an option has the same value in two settings of a command. */
bool pz_option_same(const struct pz_option *option, const void *a, const void *b);

/* Prints aligned lines for --help; `settings` holds the defaults to show, or is NULL. */
void pz_options_help(const struct pz_option_table *table, const void *settings, FILE *out);

/* Prints the same as .TP entries of a man page. */
void pz_options_man(const struct pz_option_table *table, const void *settings, FILE *out);

/* ---- lists of numbers to choose from, as given on the command line: 1,2,4 ------------------- */

/* Powers of two from 1 to `most`. */
struct pz_choices pz_choices_powers(int64_t most);

/* Raises PZ_BAD_USE unless the list has at least `least` ascending numbers from 1 to 2^20. */
void pz_choices_require(struct pz_call *call, const char *what, const struct pz_choices *choices,
                        int least);

/* Reads comma-separated numbers from 1 to `most`; `name` is that of the option, for messages. */
struct pz_choices pz_choices_read(struct pz_call *call, const char *text, const char *name,
                                  int64_t most);

#endif
