/* What every subcommand shares: pz_command_invoke() runs the body of a subcommand under a border
 * and turns what it raised into a message and an exit status; pz_command_options() parses the
 * options or shows the help.  Then come messages, progress, signals and the end of the output.
 * The program around the subcommands is dispatch.c. */
#include "cli/command.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>

#include "core/alloc.h"
#include "core/file.h"
#include "core/text.h"
#include "ranks/start.h"
#include "report/records.h"

/* ---- running a subcommand ------------------------------------------------------------------- */

/* Runs the body of a subcommand; a function of pz_border(). */
static void call_body(struct pz_call *call, void *ctx) {
  struct pz_invocation *invocation = ctx;
  invocation->command->body(call, invocation);
}

/* Runs a subcommand, prints the error that its body raised, and returns the exit status. */
enum pz_exit pz_command_invoke(const struct pz_command *command, int argc, char **argv) {
  struct pz_invocation invocation = {
      .command = command, .argc = argc, .argv = argv, .exit = PZ_EXIT_DONE};
  struct pz_error err = {0};
  if (pz_border(call_body, &invocation, &err) == PZ_OK) {
    enum pz_exit end = pz_command_end();
    return end == PZ_EXIT_DONE ? invocation.exit : end;
  }
  if (!invocation.bad_option && !invocation.usage) return pz_command_fail(&err);
  fprintf(stderr, "phaze %s: %s\n", command->name, err.message);
  if (invocation.usage) fprintf(stderr, "usage: phaze %s %s\n", command->name, command->synopsis);
  return PZ_EXIT_BAD_USE;
}

/* Parses the options and counts the arguments; prints the help and returns false for --help. */
bool pz_command_options(struct pz_call *call, struct pz_invocation *invocation, void *settings) {
  const struct pz_command *command = invocation->command;
  const struct pz_common *common = settings;
  invocation->bad_option = true;
  invocation->n_args =
      pz_options_read(call, &command->table, settings, invocation->argc, invocation->argv);
  invocation->bad_option = false;
  invocation->args = invocation->argv + 1;
  if (common->verbose) pz_ranks_verbose();
  if (common->help) {
    printf("Usage: phaze %s %s\n\n%s.\n\n%s\nOptions:\n", command->name, command->synopsis,
           command->summary, command->detail);
    pz_options_help(&command->table, command->defaults, stdout);
    return false;
  }
  if (command->n_args == 0 && invocation->n_args != 0)
    pz_command_refuse(call, invocation, "takes no arguments");
  if (command->n_args > 0 && invocation->n_args != command->n_args)
    pz_command_refuse(call, invocation, pz_format(call, "expected one %s", command->argument));
  return true;
}

/* Raises an error about the arguments, after which the synopsis is printed. */
_Noreturn void pz_command_refuse(struct pz_call *call, struct pz_invocation *invocation,
                                 const char *what) {
  invocation->usage = true;
  pz_raise(call, PZ_BAD_USE, "%s", what);
}

/* Raises a caught error again, with the name of the input if its message lacks it. */
_Noreturn void pz_command_raise_about(struct pz_call *call, const char *input,
                                      const struct pz_error *why) {
  enum pz_status status = why->status;
  bool about_input = status == PZ_BAD_USE || status == PZ_BAD_INPUT || status == PZ_LIMIT;
  if (about_input && !strstr(why->message, input))
    pz_raise(call, status, "%s: %s", input, why->message);
  pz_raise_again(call, why);
}

/* Prints a JSON value to stdout; the reference passes to the call. */
void pz_command_print_json(struct pz_call *call, json_t *value) {
  if (json_is_object(value))
    json_object_set_new(value, "json_version", json_integer(PZ_JSON_VERSION));
  pz_json_built(call, value);
  struct pz_buffer *text = pz_buffer_new(call);
  pz_json_print(call, text, value);
  fputs(text->text, stdout);
}

/* Writes a text that a public function returned to a file; the text passes to the call. */
void pz_command_save_text(struct pz_call *call, const char *path, char *text) {
  pz_defer(call, pz_free, text);
  pz_file_save(call, path, text, strlen(text));
}

/* Returns the first option at or after an offset whose value differs between two settings. */
const struct pz_option *pz_command_changed(const struct pz_command *command, size_t least_offset,
                                           const void *settings, const void *other_settings) {
  for (size_t i = 0; i < command->table.n; i++) {
    const struct pz_option *option = &command->table.options[i];
    if (option->offset >= least_offset && !pz_option_same(option, settings, other_settings))
      return option;
  }
  return NULL;
}

/* ---- messages, progress and signals --------------------------------------------------------- */

/* Prints a line of information to stderr, at most 1023 bytes of it. */
void pz_command_say(const char *format, ...) {
  char text[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  fprintf(stderr, "phaze: %s\n", pz_text_plain(text));
}

void pz_command_warn(bool quiet, const char *text) {
  if (text && !quiet) pz_command_say("warning: %s", text);
}

/* Prints an error to stderr, tells the other ranks, and returns the exit status. */
enum pz_exit pz_command_fail(const struct pz_error *err) {
  pz_ranks_failed(err);
  fprintf(stderr, "phaze: %s\n", err->message);
  switch (err->status) {
  case PZ_NO_MEMORY:
  case PZ_INTERNAL: return PZ_EXIT_INTERNAL;
  case PZ_NO_ANSWER: return PZ_EXIT_NO_ANSWER;
  case PZ_STOPPED: return PZ_EXIT_STOPPED;
  default: return PZ_EXIT_BAD_USE;
  }
}

static atomic_bool signal_came;

/* Notes that a signal came, so that pz_command_progress() stops the work. */
static void on_signal(int signal) {
  (void)signal;
  atomic_store(&signal_came, true);
}

/* Installs handlers that set the returned flag at the first signal; a second one is fatal. */
atomic_bool *pz_command_listen(void) {
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
  return &signal_came;
}

/* The first phase has one item.  The library announces the later phases. */
void pz_command_progress_start(struct pz_progress *progress, bool quiet, bool lines) {
  enum pz_progress_style style = quiet ? PZ_PROGRESS_SILENT : pz_progress_style_of(stderr);
  if (style == PZ_PROGRESS_LINES && !lines) style = PZ_PROGRESS_SILENT;
  pz_progress_start(progress, stderr, style, "models", "models", 1);
}

/* Shows the progress; returns false after a signal, which stops the work. */
bool pz_command_progress(void *progress, const struct pz_progress_state *state) {
  pz_progress_follow(progress, state);
  return !atomic_load(&signal_came);
}

/* Flushes stdout, and returns an error status if the result is incomplete or not written. */
enum pz_exit pz_command_end(void) {
  struct pz_error err = {0};
  if (pz_json_lost()) {
    pz_fail(&err, PZ_NO_MEMORY, "out of memory: the result is not complete");
    return pz_command_fail(&err);
  }
  if (fflush(stdout) == 0 && !ferror(stdout)) return PZ_EXIT_DONE;
  fprintf(stderr, "phaze: cannot write the result: %s\n", strerror(errno));
  return PZ_EXIT_BAD_USE;
}
