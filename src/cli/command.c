/* What every subcommand shares: pz_command_invoke() runs the body of a subcommand under a border and turns what it
 * raised into a message and an exit status; pz_command_options() parses the options or shows the help.  Then come
 * messages, progress, signals, the end of the output, and the man page, which pz_command_man() makes from the tables of
 * all subcommands.  The functions of the last section serve subcommands without a body. */
#include "cli/command.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>

#include "cli/owned.h"
#include "core/alloc.h"
#include "core/file.h"
#include "core/text.h"
#include "ranks/start.h"

/* ---- running a subcommand ------------------------------------------------------------------- */

static void call_body(struct pz_call *call, void *ctx) {
  struct pz_invocation *in = ctx;
  in->command->body(call, in);
}

enum pz_exit pz_command_invoke(const struct pz_command *c, int argc, char **argv) {
  if (c->run) return c->run(argc, argv);
  struct pz_invocation in = {.command = c, .argc = argc, .argv = argv, .exit = PZ_EXIT_DONE};
  struct pz_error err = {0};
  enum pz_status status = pz_border(call_body, &in, &err);
  if (status != PZ_OK && in.usage) return pz_command_misuse(c, err.message);
  if (status != PZ_OK && in.bad_option) {
    fprintf(stderr, "phaze %s: %s\n", c->name, err.message);
    return PZ_EXIT_BAD_USE;
  }
  if (status != PZ_OK) return pz_command_fail(&err);
  enum pz_exit end = pz_command_end();
  return end == PZ_EXIT_DONE ? in.exit : end;
}

static void print_help(const struct pz_command *c) {
  printf("Usage: phaze %s %s\n\n%s.\n\n%s\nOptions:\n", c->name, c->synopsis, c->summary,
         c->detail);
  pz_options_help(&c->table, c->defaults, stdout);
}

bool pz_command_options(struct pz_call *call, struct pz_invocation *in, void *settings) {
  const struct pz_command *c = in->command;
  const struct pz_common *common = settings;
  in->bad_option = true;
  in->n_args = pz_options_read(call, &c->table, settings, in->argc, in->argv);
  in->bad_option = false;
  in->args = in->argv + 1;
  if (common->verbose) pz_ranks_verbose();
  if (common->help) {
    print_help(c);
    return false;
  }
  if (c->n_args == 0 && in->n_args != 0) pz_command_refuse(call, in, "takes no arguments");
  if (c->n_args > 0 && in->n_args != c->n_args)
    pz_command_refuse(call, in, pz_format(call, "expected one %s", c->argument));
  return true;
}

_Noreturn void pz_command_refuse(struct pz_call *call, struct pz_invocation *in, const char *what) {
  in->usage = true;
  pz_raise(call, PZ_BAD_USE, "%s", what);
}

void pz_command_print_json(struct pz_call *call, json_t *value) {
  pz_json_built(call, value);
  struct pz_buffer *text = pz_buffer_new(call);
  pz_json_print(call, text, value);
  fputs(text->text, stdout);
}

void pz_command_save_text(struct pz_call *call, const char *path, char *text) {
  pz_defer(call, pz_free_text, text);
  pz_file_save(call, path, text, strlen(text));
}

_Noreturn void pz_command_raise_about(struct pz_call *call, const char *input,
                                      const struct pz_error *why) {
  enum pz_status status = why->status;
  bool about_input = status == PZ_BAD_USE || status == PZ_BAD_INPUT || status == PZ_LIMIT;
  if (about_input && !strstr(why->message, input))
    pz_raise(call, status, "%s: %s", input, why->message);
  pz_raise_again(call, why);
}

const struct pz_option *pz_command_changed(const struct pz_command *c, size_t from, const void *a,
                                           const void *b) {
  for (size_t i = 0; i < c->table.n; i++) {
    const struct pz_option *o = &c->table.options[i];
    if (o->offset >= from && !pz_option_same(o, a, b)) return o;
  }
  return NULL;
}

/* ---- messages, progress and signals --------------------------------------------------------- */

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

enum pz_exit pz_command_fail(const struct pz_error *err) {
  /* Functions that fail without filling an error, such as those that print tables, fail for want of memory only. */
  if (err->status == PZ_OK) {
    fprintf(stderr, "phaze: out of memory\n");
    return PZ_EXIT_INTERNAL;
  }
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

static void on_signal(int sig) {
  (void)sig;
  atomic_store(&signal_came, true);
}

atomic_bool *pz_command_listen(void) {
  struct sigaction a = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
  sigemptyset(&a.sa_mask);
  sigaction(SIGINT, &a, NULL);
  sigaction(SIGTERM, &a, NULL);
  return &signal_came;
}

/* The library announces the phases after the first one through pz_command_progress(). */
void pz_command_progress_start(struct pz_progress *p, bool quiet, bool lines) {
  enum pz_progress_style style = quiet ? PZ_PROGRESS_SILENT : pz_progress_style_of(stderr);
  if (style == PZ_PROGRESS_LINES && !lines) style = PZ_PROGRESS_SILENT;
  pz_progress_start(p, stderr, style, "models", "models", 1);
}

bool pz_command_progress(void *ctx, const struct pz_progress_state *s) {
  pz_progress_follow(ctx, s);
  return !atomic_load(&signal_came);
}

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

/* ---- the man page --------------------------------------------------------------------------- */

/* Prints text with the escapes of roff: a leading dot or quote would start a request, a backslash an escape.  Lines that
 * begin with a space keep their line break. */
static void print_roff(const char *s, FILE *out) {
  bool filled = true;
  for (bool start = true; *s; s++) {
    if (start && filled != (*s != ' ')) {
      filled = !filled;
      fputs(filled ? ".fi\n" : ".nf\n", out);
    }
    if (start && (*s == '.' || *s == '\'')) fputs("\\&", out);
    if (*s == '\\' || *s == '-') fputc('\\', out);
    fputc(*s, out);
    start = *s == '\n';
  }
  if (!filled) fputs(".fi\n", out);
}

void pz_command_man(FILE *out) {
  fprintf(out,
          ".TH PHAZE 1 \"\" \"phaze %s\" \"User commands\"\n.SH NAME\nphaze \\- find the best "
          "accelerator chip for training models, and how to train them on a cluster of it\n.SH "
          "SYNOPSIS\n",
          pz_version());
  for (size_t i = 0; pz_command_at(i); i++) {
    fprintf(out, "%s.B phaze %s\n", i ? ".br\n" : "", pz_command_at(i)->name);
    print_roff(pz_command_at(i)->synopsis, out);
    fputc('\n', out);
  }
  fprintf(out, ".SH DESCRIPTION\nphaze builds the operator graphs of a model's training step, "
               "estimates the latency and energy of every operator on a chip, schedules the "
               "operators on the chip's cores, divides the model over a cluster (pipeline, data "
               "and tensor parallelism), and searches a design space for the best chip.  Each "
               "part has a subcommand; doc/ explains the models and algorithms.\n.PP\nResults "
               "go to stdout, warnings and progress to stderr.\n");
  for (size_t i = 0; pz_command_at(i); i++) {
    const struct pz_command *c = pz_command_at(i);
    fprintf(out, ".SH PHAZE %s\n.B phaze %s\n", c->name, c->name);
    print_roff(c->synopsis, out);
    fprintf(out, "\n.PP\n");
    print_roff(c->summary, out);
    fprintf(out, ".\n.PP\n");
    print_roff(c->detail, out);
    pz_options_man(&c->table, c->defaults, out);
  }
  fprintf(out, ".SH OTHER OPTIONS\n.TP\n.B phaze \\-\\-version\nPrint the version.\n.TP\n.B phaze "
               "\\-\\-completion bash\nPrint the bash completion script, to be sourced.\n.TP\n.B "
               "phaze \\-\\-man\nPrint this page in roff format.\n");
  fprintf(out,
          ".SH FILES\n.TP\n.I DIR/run.sqlite\nA run saved by search or compare with \\-o DIR "
          "(SQLite).\n.TP\n.I "
          "DIR/report.html\nThe report of that run.\n.SH ENVIRONMENT\n.TP\n.B NO_COLOR\nIf set, "
          "terminal output has no colour.\n");
  fprintf(out, ".SH EXAMPLES\n.nf\nphaze search gpt2\\-xl llama2\\-7b \\-o run\nphaze verify "
               "run\nphaze report run \\-\\-csv tables\nphaze place llama3\\-70b "
               "\\-\\-chip h200 \\-\\-devices 512 \\-\\-emit megatron\n.fi\n");
  fprintf(out, ".SH EXIT STATUS\n0: done; 1: no feasible solution, verify found a difference, or "
               "validate a broken limit; 2: wrong "
               "usage or invalid input; 3: internal error; 130: interrupted (Ctrl-C).\n");
}

/* ---- for subcommands with `run` instead of `body` -------------------------------------------- */

bool pz_command_begin(const struct pz_command *c, int argc, char **argv, void *settings,
                      int *n_args, enum pz_exit *code) {
  struct pz_error err = {0};
  if (pz_options_parse(&c->table, settings, argc, argv, n_args, &err) != PZ_OK) {
    fprintf(stderr, "phaze %s: %s\n", c->name, err.message);
    *code = PZ_EXIT_BAD_USE;
    return false;
  }
  const struct pz_common *common = settings;
  if (common->verbose) pz_ranks_verbose();
  if (!common->help) return true;
  print_help(c);
  *code = pz_command_end();
  return false;
}

bool pz_call_begin(struct pz_long_call *call, const struct pz_command *c, int argc, char **argv,
                   void *settings) {
  char what[80] = "takes no arguments";
  *call = (struct pz_long_call){0};
  if (!pz_command_begin(c, argc, argv, settings, &call->n_args, &call->code)) return false;
  if (c->n_args < 0 || call->n_args == c->n_args) return true;
  if (c->n_args) snprintf(what, sizeof what, "expected one %s", c->argument);
  call->code = pz_command_misuse(c, what);
  return false;
}

enum pz_exit pz_call_end(const struct pz_long_call *call, enum pz_status status) {
  return status == PZ_OK ? pz_command_end() : pz_command_fail(&call->err);
}

enum pz_exit pz_command_misuse(const struct pz_command *c, const char *what) {
  fprintf(stderr, "phaze %s: %s\nusage: phaze %s %s\n", c->name, what, c->name, c->synopsis);
  return PZ_EXIT_BAD_USE;
}

enum pz_status pz_command_json(json_t *value, struct pz_error *err) {
  char *text = NULL;
  enum pz_status status = pz_json_text(value, &text, err);
  if (status == PZ_OK) fputs(text, stdout);
  pz_free(text);
  json_decref(value);
  return status;
}
