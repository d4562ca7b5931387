/* Subcommands of the program phaze.
 *
 * A subcommand is one file cmd_NAME.c that defines a struct pz_command, which the table in
 * dispatch.c lists.  Its body runs under one border (core/call.h): pz_command_invoke() calls the
 * body, prints an error that the body raised, flushes stdout and returns the exit status.  A
 * body first calls pz_command_options(), which fills the settings of the subcommand from its
 * table of options.  Results go to stdout, everything else to stderr.
 *
 * A body leaves what public functions return to its call: texts with pz_defer(call, pz_free, text),
 * and objects with pz_defer(call, pz_object_free, object), which is what most functions pz_*_free()
 * of the public header do. */
#ifndef PZ_CLI_COMMAND_H
#define PZ_CLI_COMMAND_H

#include "core/json.h"
#include "core/options.h"
#include "core/progress.h"

/* Exit statuses of the program. */
enum pz_exit {
  PZ_EXIT_DONE = 0,
  PZ_EXIT_NO_ANSWER = 1,
  PZ_EXIT_BAD_USE = 2,
  PZ_EXIT_INTERNAL = 3,
  PZ_EXIT_STOPPED = 130 /* 128 + SIGINT, the convention of shells */
};

struct pz_invocation;

struct pz_command {
  const char *name;
  const char *synopsis; /* usage of the arguments that follow the name */
  const char *summary;  /* a description of one line */
  const char *detail;   /* paragraphs and examples for --help and the man page; lines that begin
                         * with a space keep their line break */
  struct pz_option_table table;
  const void *defaults; /* settings from which --help shows the default values */
  bool ranks;           /* whether it divides its work among MPI ranks */
  int n_args;           /* required number of arguments, or -1 if the body checks it */
  const char *argument; /* name of the required argument, for messages */
  void (*body)(struct pz_call *call, struct pz_invocation *invocation);
};

/* One run of a subcommand. */
struct pz_invocation {
  const struct pz_command *command;
  int argc;
  char **argv; /* argv[0] is the name of the subcommand */
  int n_args;
  char **args;       /* the arguments that are no options, after pz_command_options() */
  enum pz_exit exit; /* exit status if no error is raised; the body may change PZ_EXIT_DONE */
  bool bad_option;   /* an error message begins with the name of the subcommand */
  bool usage;        /* the synopsis follows the error message */
};

/* Runs a subcommand and returns its exit status.  Errors are printed to stderr. */
enum pz_exit pz_command_invoke(const struct pz_command *command, int argc, char **argv);

/* ---- for the bodies of subcommands ---------------------------------------------------------- */

/* Parses the options into `settings`, which contain the defaults and begin with a struct
 * pz_common, and checks the number of arguments.  Returns false if --help was given and the help
 * has been printed: then the body returns. */
bool pz_command_options(struct pz_call *call, struct pz_invocation *invocation, void *settings);

/* Raises PZ_BAD_USE because of the arguments: the message is followed by the synopsis. */
_Noreturn void pz_command_refuse(struct pz_call *call, struct pz_invocation *invocation,
                                 const char *what);

/* Raises an error that an inner border has caught.  If it is about the input and its message
 * does not contain the name of the input, the name is put before the message. */
_Noreturn void pz_command_raise_about(struct pz_call *call, const char *input,
                                      const struct pz_error *why);

/* Prints a JSON value to stdout, an object with the field json_version.  The reference passes to
 * the call. */
void pz_command_print_json(struct pz_call *call, json_t *value);

/* Writes a text that a public function returned to a file.  The text passes to the call. */
void pz_command_save_text(struct pz_call *call, const char *path, char *text);

/* ---- options that every subcommand has ------------------------------------------------------ */

/* Rows of a table of options.  `at` is the offset of the value in the settings, `value` its
 * placeholder in --help, and `...` the help text, which other members of struct pz_option may
 * follow. */
#define PZ_FLAG_OPTION(option, at, ...)                                                            \
  { .name = option, .type = PZ_OPTION_FLAG, .offset = at, .help = __VA_ARGS__ }
#define PZ_TEXT_OPTION(option, at, value, ...)                                                     \
  { .name = option, .type = PZ_OPTION_TEXT, .offset = at, .arg = value, .help = __VA_ARGS__ }
#define PZ_TEXTS_OPTION(option, at, value, most, ...)                                              \
  {                                                                                                \
    .name = option, .type = PZ_OPTION_TEXTS, .offset = at, .arg = value, .max = most,              \
    .help = __VA_ARGS__                                                                            \
  }
#define PZ_INT_OPTION(option, at, value, least, most, ...)                                         \
  {                                                                                                \
    .name = option, .type = PZ_OPTION_INT, .offset = at, .arg = value, .min = least, .max = most,  \
    .help = __VA_ARGS__                                                                            \
  }
#define PZ_REAL_OPTION(option, at, value, least, most, ...)                                        \
  {                                                                                                \
    .name = option, .type = PZ_OPTION_REAL, .offset = at, .arg = value, .min = least, .max = most, \
    .help = __VA_ARGS__                                                                            \
  }
#define PZ_CHOICE_OPTION(option, at, names, ...)                                                   \
  { .name = option, .type = PZ_OPTION_CHOICE, .offset = at, .choices = names, .help = __VA_ARGS__ }
#define PZ_SET_OPTION(option, at, names, ...)                                                      \
  { .name = option, .type = PZ_OPTION_SET, .offset = at, .choices = names, .help = __VA_ARGS__ }

/* First member of all settings; PZ_COMMON_OPTIONS begins the table of their options. */
struct pz_common {
  bool help, quiet, json, verbose;
};
/* clang-format off */
#define PZ_COMMON_OPTIONS(T) \
  PZ_FLAG_OPTION("help", offsetof(T, common.help), "Show this help", .letter = 'h'), \
  PZ_FLAG_OPTION("quiet", offsetof(T, common.quiet), "Suppress warnings and progress on stderr", .letter = 'q'), \
  PZ_FLAG_OPTION("json", offsetof(T, common.json), "Print the result as JSON"), \
  PZ_FLAG_OPTION("verbose", offsetof(T, common.verbose), "Print more detail on stderr", .letter = 'v')
/* clang-format on */

/* Returns the first option whose value differs between two settings of a subcommand, among the
 * options whose offset in the settings is at least `least_offset`.  Returns NULL if there is
 * none. */
const struct pz_option *pz_command_changed(const struct pz_command *command, size_t least_offset,
                                           const void *settings, const void *other_settings);

/* ---- messages, progress and signals --------------------------------------------------------- */

/* Prints a line of information to stderr. */
void pz_command_say(const char *format, ...) PZ_PRINTF(1, 2);

/* Prints a warning to stderr, unless `quiet` is set or `text` is NULL. */
void pz_command_warn(bool quiet, const char *text);

/* Prints an error to stderr and returns the exit status that belongs to it. */
enum pz_exit pz_command_fail(const struct pz_error *err);

/* Installs handlers of SIGINT and SIGTERM, which set the flag; a second signal is fatal. */
atomic_bool *pz_command_listen(void);

/* Starts a progress display on stderr.  If stderr is not a terminal, progress is printed as
 * lines if `lines` is set, otherwise not at all.  pz_command_progress() is the callback for the
 * library, with the progress as its context; it returns false after a signal, which stops the
 * work. */
void pz_command_progress_start(struct pz_progress *progress, bool quiet, bool lines);
bool pz_command_progress(void *progress, const struct pz_progress_state *state);

/* ---- the program ---------------------------------------------------------------------------- */

/* Returns subcommand i of the table, or NULL after the last. */
const struct pz_command *pz_command_at(size_t i);

/* Runs the subcommand argv[1] and returns the exit status.  Requires pz_alloc_use(). */
int pz_command_main(int argc, char **argv);

/* Flushes stdout and returns the exit status.  A full disk, a closed pipe, and a JSON document
 * for which memory ran out are errors, which are printed. */
enum pz_exit pz_command_end(void);

/* Prints the bash completion script, made from the tables of options (completion.c). */
void pz_completion_print(FILE *out);

extern const struct pz_command pz_cmd_chip, pz_cmd_chips, pz_cmd_compare, pz_cmd_estimate,
    pz_cmd_explore, pz_cmd_fields, pz_cmd_graph, pz_cmd_models, pz_cmd_place, pz_cmd_report,
    pz_cmd_schedule, pz_cmd_search, pz_cmd_spaces, pz_cmd_verify, pz_cmd_predict, pz_cmd_validate,
    pz_cmd_calibrate, pz_cmd_tune, pz_cmd_diff, pz_cmd_rehearse;

#endif
