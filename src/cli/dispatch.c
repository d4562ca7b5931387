/* The program: pz_command_main() finds the subcommand in the table and runs it, among ranks if
 * it supports them, or prints the version, the usage, the completion script, or the man page,
 * which is made from the tables of all subcommands. */
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "core/text.h"
#include "ranks/start.h"

/* The subcommands, in the order in which the usage and the man page show them. */
static const struct pz_command *const table[] = {
    &pz_cmd_models,   &pz_cmd_graph,    &pz_cmd_chips,     &pz_cmd_chip,    &pz_cmd_estimate,
    &pz_cmd_schedule, &pz_cmd_place,    &pz_cmd_search,    &pz_cmd_compare, &pz_cmd_report,
    &pz_cmd_verify,   &pz_cmd_spaces,   &pz_cmd_predict,   &pz_cmd_explore, &pz_cmd_fields,
    &pz_cmd_tune,     &pz_cmd_validate, &pz_cmd_calibrate, &pz_cmd_diff,    &pz_cmd_rehearse};

const struct pz_command *pz_command_at(size_t i) {
  return i < sizeof table / sizeof *table ? table[i] : NULL;
}

/* ---- the man page --------------------------------------------------------------------------- */

/* Prints text with the escapes of roff: a leading dot or quote would start a request, a
 * backslash an escape.  Lines that begin with a space keep their line break. */
static void print_roff(const char *text, FILE *out) {
  bool filled = true;
  for (bool line_start = true; *text; text++) {
    bool keep_break = line_start && *text == ' ';
    if (line_start && filled == keep_break) {
      filled = !filled;
      fputs(filled ? ".fi\n" : ".nf\n", out);
    }
    if (line_start && (*text == '.' || *text == '\'')) fputs("\\&", out);
    if (*text == '\\' || *text == '-') fputc('\\', out);
    fputc(*text, out);
    line_start = *text == '\n';
  }
  if (!filled) fputs(".fi\n", out);
}

/* Prints the man page of all subcommands in roff format. */
static void print_man_page(FILE *out) {
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
    const struct pz_command *command = pz_command_at(i);
    fprintf(out, ".SH PHAZE %s\n.B phaze %s\n", command->name, command->name);
    print_roff(command->synopsis, out);
    fprintf(out, "\n.PP\n");
    print_roff(command->summary, out);
    fprintf(out, ".\n.PP\n");
    print_roff(command->detail, out);
    pz_options_man(&command->table, command->defaults, out);
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

/* ---- the program ---------------------------------------------------------------------------- */

/* Prints the list of subcommands with a line about each. */
static void print_usage(FILE *out) {
  fprintf(out,
          "phaze %s: find the best accelerator chip for training models, and how to train\nthem on "
          "a cluster of it\n\nUsage: phaze COMMAND [arguments] [options]\n\nCommands:\n",
          pz_version());
  for (size_t i = 0; pz_command_at(i); i++)
    fprintf(out, "  %-9s %s\n", pz_command_at(i)->name, pz_command_at(i)->summary);
  fprintf(out, "\n'phaze COMMAND --help' describes a command, 'man phaze' all of them.  'phaze\n"
               "--version' prints the version, 'phaze --completion bash' a completion script,\n"
               "'phaze --man' the man page.\n\nExamples:\n"
               "    phaze estimate --gemm 1,4096,4096,4096 --chip h200\n"
               "    phaze place llama3-70b --chip h200 --devices 512\n"
               "    phaze search gpt2-xl llama2-7b -o run\n");
}

/* Returns the name of subcommand i, or NULL after the last one (a pz_name_at). */
static const char *command_name(const void *ctx, size_t i) {
  (void)ctx;
  return pz_command_at(i) ? pz_command_at(i)->name : NULL;
}

/* Runs the subcommand or the option of the program that argv[1] names; returns the exit status. */
int pz_command_main(int argc, char **argv) {
  struct pz_error err = {0};
  if (argc < 2) {
    print_usage(stderr);
    return PZ_EXIT_BAD_USE;
  }
  const char *name = argv[1], *shell = argc > 2 ? argv[2] : NULL;
  for (size_t i = 0; pz_command_at(i); i++) {
    const struct pz_command *command = pz_command_at(i);
    if (strcmp(command->name, name) != 0) continue;
    /* Under mpirun, a command either divides its work among the ranks or runs in every rank. */
    if (command->ranks && pz_border(pz_ranks_start, NULL, &err) != PZ_OK)
      return (int)pz_command_fail(&err);
    int code = (int)pz_command_invoke(command, argc - 1, argv + 1);
    return command->ranks ? pz_ranks_end(code) : code;
  }
  if (strcmp(name, "--version") == 0) {
    const char *mpi = pz_ranks_library();
    printf("phaze %s\nMPI: %s\n", pz_version(), mpi ? mpi : "not built in");
  } else if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
    print_usage(stdout);
  } else if (strcmp(name, "--man") == 0) {
    print_man_page(stdout);
  } else if (strcmp(name, "--completion") == 0 && shell && strcmp(shell, "bash") == 0) {
    pz_completion_print(stdout);
  } else if (strcmp(name, "--completion") == 0) {
    pz_fail(&err, PZ_BAD_USE, "--completion %s%s%s; accepted: bash", shell ? "'" : "",
            shell ? shell : "needs the name of a shell", shell ? "'" : "");
  } else {
    char list[200], meant[160];
    pz_fail(&err, PZ_BAD_USE, "unknown command '%s'%s; accepted: %s", name,
            pz_text_meant(meant, sizeof meant, name, command_name, NULL),
            pz_text_join(list, sizeof list, command_name, NULL));
  }
  return (int)(err.status == PZ_OK ? pz_command_end() : pz_command_fail(&err));
}
