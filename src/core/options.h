/* Options: one table per command, from which parsing, range checks, --help and the man page are
 * generated. */
#ifndef PZ_CORE_OPTIONS_H
#define PZ_CORE_OPTIONS_H

#include <stdio.h>

#include "core/status.h"

enum pz_option_type {
  PZ_OPTION_FLAG,   /* bool */
  PZ_OPTION_INT,    /* int64_t in [min, max] */
  PZ_OPTION_NUMBER, /* int in [min, max] */
  PZ_OPTION_REAL,   /* double in [min, max] */
  PZ_OPTION_CHOICE, /* int: the index in choices */
  PZ_OPTION_SET,    /* int: a bit for each of choices that a list with commas names; none, all */
  PZ_OPTION_SWITCH, /* int: --name 1, --no-name 0 */
  PZ_OPTION_TEXT,   /* const char *, points into argv */
  PZ_OPTION_TEXTS,  /* const char *[max], filled in order each time it is given */
};

struct pz_option {
  const char *name; /* without dashes; - for _ */
  char letter;      /* 0: none */
  enum pz_option_type type;
  size_t offset;   /* in the command's settings struct, which holds the defaults before parsing */
  const char *arg; /* NULL: N, or LIST */
  const char *help;
  double min, max;
  const char *const *choices; /* ends with NULL */
  bool hidden;                /* there is no such option */
  const char *standard;       /* what --help calls the default; NULL: that of the settings */
};

struct pz_option_table {
  const struct pz_option *options;
  size_t n;
};

/* Parse argv[1..].  Values go to `settings`; what is no option is moved to the front of argv[1..]
 * in order and counted in *n_args.  `--` ends options.  Errors say what was found and what is
 * accepted. */
PZ_NODISCARD enum pz_status pz_options_parse(const struct pz_option_table *table, void *settings,
                                             int argc, char **argv, int *n_args,
                                             struct pz_error *err);

/* The name as it is written: with - for _.  Returns buf. */
char *pz_option_name(const struct pz_option *o, char *buf, size_t size);

/* Does an option have the same value in two settings? */
bool pz_option_same(const struct pz_option *o, const void *a, const void *b);

/* Aligned lines for --help; `settings` (may be NULL) holds the defaults to show. */
void pz_options_help(const struct pz_option_table *table, const void *settings, FILE *out);

/* The same as .TP entries of a man page. */
void pz_options_man(const struct pz_option_table *table, const void *settings, FILE *out);

/* ---- lists of numbers to choose from, as given on the command line: 1,2,4 ------------------- */

/* Powers of two from 1 to `most`. */
struct pz_choices pz_choices_powers(int64_t most);

/* PZ_BAD_USE unless it has at least `least` numbers from 1 to 2^20, ascending. */
PZ_NODISCARD enum pz_status pz_choices_check(const char *what, const struct pz_choices *c,
                                             int least, struct pz_error *err);

/* Numbers from 1 to `most` with commas; `name` is the option's, for the message. */
PZ_NODISCARD enum pz_status pz_choices_parse(const char *text, const char *name, int64_t most,
                                             struct pz_choices *out, struct pz_error *err);

#endif
