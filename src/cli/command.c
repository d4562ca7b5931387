#include "cli/command.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>

#include "core/alloc.h"
#include "core/text.h"
#include "ranks/start.h"

static void help(const struct pz_command *c) {
  printf("Usage: phaze %s %s\n\n%s.\n\n%s\nOptions:\n", c->name, c->synopsis, c->summary,
         c->detail);
  pz_options_help(&c->table, c->defaults, stdout);
}

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
  help(c);
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

const struct pz_option *pz_command_changed(const struct pz_command *c, size_t from, const void *a,
                                           const void *b) {
  for (size_t i = 0; i < c->table.n; i++) {
    const struct pz_option *o = &c->table.options[i];
    if (o->offset >= from && !pz_option_same(o, a, b)) return o;
  }
  return NULL;
}

enum pz_exit pz_command_fail(const struct pz_error *err) {
  /* functions without an error to fill, such as those that print tables, fail for one reason */
  bool bare = err->status == PZ_OK;
  if (!bare) pz_ranks_failed(err);
  fprintf(stderr, "phaze: %s\n", bare ? "out of memory" : err->message);
  if (bare) return PZ_EXIT_INTERNAL;
  switch (err->status) {
  case PZ_NO_MEMORY:
  case PZ_INTERNAL: return PZ_EXIT_INTERNAL;
  case PZ_NO_ANSWER: return PZ_EXIT_NO_ANSWER;
  case PZ_STOPPED: return PZ_EXIT_STOPPED;
  default: return PZ_EXIT_BAD_USE;
  }
}

void pz_command_warn(bool quiet, const char *text) {
  if (text && !quiet) pz_command_say("warning: %s", text);
}

static atomic_bool stop;

static void on_signal(int sig) {
  (void)sig;
  atomic_store(&stop, true);
}

atomic_bool *pz_command_listen(void) {
  struct sigaction a = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
  sigemptyset(&a.sa_mask);
  sigaction(SIGINT, &a, NULL);
  sigaction(SIGTERM, &a, NULL);
  return &stop;
}

/* The first phase; those that follow are begun as the library tells of them. */
void pz_command_progress_start(struct pz_progress *p, bool quiet, bool lines) {
  enum pz_progress_style style = quiet ? PZ_PROGRESS_SILENT : pz_progress_style_of(stderr);
  if (style == PZ_PROGRESS_LINES && !lines) style = PZ_PROGRESS_SILENT;
  pz_progress_start(p, stderr, style, "models", "models", 1);
}

bool pz_command_progress(void *ctx, const struct pz_progress_state *s) {
  pz_progress_follow(ctx, s);
  return !atomic_load(&stop);
}

void pz_command_say(const char *format, ...) {
  char text[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  fprintf(stderr, "phaze: %s\n", pz_text_plain(text));
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

/* Escapes text for roff: a leading dot or quote would start a request, a backslash an escape.
 * Lines that begin with a space are not filled. */
static void roff(const char *s, FILE *out) {
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

static void man_command(const struct pz_command *c, FILE *out) {
  fprintf(out, ".SH PHAZE %s\n.B phaze %s\n", c->name, c->name);
  roff(c->synopsis, out);
  fprintf(out, "\n.PP\n");
  roff(c->summary, out);
  fprintf(out, ".\n.PP\n");
  roff(c->detail, out);
  pz_options_man(&c->table, c->defaults, out);
}

void pz_command_man(FILE *out) {
  fprintf(out,
          ".TH PHAZE 1 \"\" \"phaze %s\" \"User commands\"\n.SH NAME\nphaze \\- find the best "
          "accelerator chip for training models, and how to train them on a cluster of it\n.SH "
          "SYNOPSIS\n",
          pz_version());
  for (size_t i = 0; pz_command_at(i); i++) {
    fprintf(out, "%s.B phaze %s\n", i ? ".br\n" : "", pz_command_at(i)->name);
    roff(pz_command_at(i)->synopsis, out);
    fputc('\n', out);
  }
  fprintf(out, ".SH DESCRIPTION\nphaze builds the operator graphs of a model's training step, "
               "estimates the latency and energy of every operator on a chip, schedules the "
               "operators on the chip's cores, divides the model over a cluster (pipeline, data "
               "and tensor parallelism), and searches a design space for the best chip.  Each "
               "part has a subcommand; doc/ explains the models and algorithms.\n.PP\nResults "
               "go to stdout, warnings and progress to stderr.\n");
  for (size_t i = 0; pz_command_at(i); i++) man_command(pz_command_at(i), out);
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
