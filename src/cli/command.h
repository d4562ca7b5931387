/* Subcommands.  Each is one file that defines a pz_command, listed in command_table.c. */
#ifndef PZ_CLI_COMMAND_H
#define PZ_CLI_COMMAND_H

#include "core/json.h"
#include "core/options.h"
#include "core/progress.h"

/* What users see as exit status. */
enum pz_exit {
  PZ_EXIT_DONE = 0,
  PZ_EXIT_NO_ANSWER = 1,
  PZ_EXIT_BAD_USE = 2,
  PZ_EXIT_INTERNAL = 3,
  PZ_EXIT_STOPPED = 130 /* 128 + SIGINT, the convention of shells */
};

struct pz_command {
  const char *name;
  const char *synopsis; /* arguments after the name */
  const char *summary;  /* one line */
  const char *detail;   /* paragraphs and examples for --help and the man page; lines that begin
                         * with a space keep their line break */
  struct pz_option_table table;
  const void *defaults; /* settings shown as defaults */
  bool ranks;           /* divides its work among ranks under mpirun */
  int n_args;           /* what pz_call_begin accepts; -1: any number */
  const char *argument; /* the one, for messages */
  enum pz_exit (*run)(int argc, char **argv);
};

/* Command i of the table, NULL after the last. */
const struct pz_command *pz_command_at(size_t i);

/* Options every command has; put them first in its table and settings. */
struct pz_common {
  bool help, quiet, json, verbose;
};
/* clang-format off */
#define PZ_COMMON_OPTIONS(T)                                                                            \
  {.name = "help", .letter = 'h', .type = PZ_OPTION_FLAG, .offset = offsetof(T, common.help),           \
   .help = "Show this help"},                                                                           \
  {.name = "quiet", .letter = 'q', .type = PZ_OPTION_FLAG, .offset = offsetof(T, common.quiet),         \
   .help = "Suppress warnings and progress on stderr"},                                                 \
  {.name = "json", .type = PZ_OPTION_FLAG, .offset = offsetof(T, common.json),                          \
   .help = "Print the result as JSON"},                                                                 \
  {.name = "verbose", .letter = 'v', .type = PZ_OPTION_FLAG, .offset = offsetof(T, common.verbose),     \
   .help = "Print more detail on stderr"}
/* clang-format on */

/* Parse a command's options and show its help when asked for.  True: go on, with *n_args arguments
 * at argv[1..]; false: return *code. */
bool pz_command_begin(const struct pz_command *c, int argc, char **argv, void *settings,
                      int *n_args, enum pz_exit *code);

/* One run of a command, between its options and its exit status. */
struct pz_long_call {
  int n_args;
  struct pz_error err;
  enum pz_exit code;
};

/* pz_command_begin, and the number of arguments is checked.  False: return call->code. */
bool pz_call_begin(struct pz_long_call *call, const struct pz_command *c, int argc, char **argv,
                   void *settings);

/* The exit status of a run that ended with `status` and call->err, which is printed. */
enum pz_exit pz_call_end(const struct pz_long_call *call, enum pz_status status);

/* An option whose field stands at `from` or after it and differs between two settings, or NULL. */
const struct pz_option *pz_command_changed(const struct pz_command *c, size_t from, const void *a,
                                           const void *b);

/* Print an error to stderr; the exit status that belongs to it. */
enum pz_exit pz_command_fail(const struct pz_error *err);

/* A warning on stderr, unless quiet; NULL: none. */
void pz_command_warn(bool quiet, const char *text);

/* From now on SIGINT and SIGTERM set what is returned, once: the second one ends the process. */
atomic_bool *pz_command_listen(void);

/* A command whose work can be stopped: progress on stderr, with lines where it is no terminal only if so asked for.  The
 * function for the library, with the progress as its context, is false once a signal came. */
void pz_command_progress_start(struct pz_progress *p, bool quiet, bool lines);
bool pz_command_progress(void *ctx, const struct pz_progress_state *s);

/* A line of information on stderr. */
void pz_command_say(const char *format, ...) PZ_PRINTF(1, 2);

/* A wrong number of arguments. */
enum pz_exit pz_command_misuse(const struct pz_command *c, const char *what);

/* Flush stdout; a full disk or closed pipe is an error, and so is a JSON value for a part of which
 * there was no memory. */
enum pz_exit pz_command_end(void);

/* Print a JSON value to stdout; takes over the reference. */
PZ_NODISCARD enum pz_status pz_command_json(json_t *value, struct pz_error *err);

/* The whole command, after pz_alloc_use: finds the subcommand and runs it.  The exit status. */
int pz_command_main(int argc, char **argv);

/* The man page, made from the tables. */
void pz_command_man(FILE *out);

extern const struct pz_command pz_cmd_chip, pz_cmd_chips, pz_cmd_compare, pz_cmd_estimate,
    pz_cmd_explore, pz_cmd_graph, pz_cmd_models, pz_cmd_place, pz_cmd_report, pz_cmd_schedule,
    pz_cmd_search, pz_cmd_spaces, pz_cmd_verify, pz_cmd_predict, pz_cmd_validate, pz_cmd_calibrate,
    pz_cmd_tune, pz_cmd_diff, pz_cmd_rehearse;

#endif
