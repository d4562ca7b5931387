/* The program: pz_command_main() finds the subcommand in the table and runs it, among ranks if it supports them, or
 * prints the version, the usage, the man page or the completion script. */
#include "cli/command.h"

#include <stdio.h>
#include <string.h>

#include "cli/completion.h"
#include "core/text.h"
#include "ranks/start.h"

static const char *command_name(const void *ctx, size_t i) {
  (void)ctx;
  return pz_command_at(i) ? pz_command_at(i)->name : NULL;
}

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

static enum pz_exit refuse_name(const char *name) {
  char list[200], meant[160];
  struct pz_error err = {0};
  pz_fail(&err, PZ_BAD_USE, "unknown command '%s'%s; accepted: %s", name,
          pz_text_meant(meant, sizeof meant, name, command_name, NULL),
          pz_text_join(list, sizeof list, command_name, NULL));
  return pz_command_fail(&err);
}

static enum pz_exit print_completion(const char *shell) {
  if (shell && strcmp(shell, "bash") == 0) {
    pz_completion_print(stdout);
    return pz_command_end();
  }
  struct pz_error err = {0};
  pz_fail(&err, PZ_BAD_USE, "--completion %s%s%s; accepted: bash", shell ? "'" : "",
          shell ? shell : "needs the name of a shell", shell ? "'" : "");
  return pz_command_fail(&err);
}

int pz_command_main(int argc, char **argv) {
  if (argc < 2) {
    print_usage(stderr);
    return PZ_EXIT_BAD_USE;
  }
  const char *name = argv[1];
  for (size_t i = 0; pz_command_at(i); i++) {
    const struct pz_command *c = pz_command_at(i);
    struct pz_error err = {0};
    if (strcmp(c->name, name) != 0) continue;
    /* Under mpirun, a command that can divide its work among ranks does so; the others run in every rank. */
    if (c->ranks && pz_ranks_start(&err) != PZ_OK) return (int)pz_command_fail(&err);
    int code = (int)pz_command_invoke(c, argc - 1, argv + 1);
    return c->ranks ? pz_ranks_end(code) : code;
  }
  if (strcmp(name, "--version") == 0) {
    const char *mpi = pz_ranks_library();
    printf("phaze %s\nMPI: %s\n", pz_version(), mpi ? mpi : "not built in");
  } else if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
    print_usage(stdout);
  } else if (strcmp(name, "--man") == 0) {
    pz_command_man(stdout);
  } else if (strcmp(name, "--completion") == 0) {
    return (int)print_completion(argc > 2 ? argv[2] : NULL);
  } else {
    return (int)refuse_name(name);
  }
  return (int)pz_command_end();
}
