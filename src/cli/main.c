/* phaze: the command line.  Finds the subcommand and hands over. */
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/completion.h"
#include "core/text.h"

static const char *command_name(const void *ctx, size_t i) {
  (void)ctx;
  return pz_command_at(i) ? pz_command_at(i)->name : NULL;
}

static void usage(FILE *out) {
  fprintf(out,
          "phaze %s: which chip, and how should a cluster of it train these models?\n\nCommands:\n",
          pz_version());
  for (size_t i = 0; pz_command_at(i); i++)
    fprintf(out, "  %-8s %s\n", pz_command_at(i)->name, pz_command_at(i)->summary);
  fprintf(
      out,
      "\n'phaze COMMAND --help' explains one; 'man phaze' all of them.  'phaze --version' tells "
      "the version,\n'phaze --completion bash' prints completion for bash, 'phaze --man' the man "
      "page.\n");
}

static enum pz_exit unknown(const char *name) {
  char list[128], meant[160];
  fprintf(stderr, "phaze: unknown command '%s'%s; accepted: %s\n", name,
          pz_text_meant(meant, sizeof meant, name, command_name, NULL),
          pz_text_join(list, sizeof list, command_name, NULL));
  return PZ_EXIT_BAD_USE;
}

static enum pz_exit completion(const char *shell) {
  if (shell && strcmp(shell, "bash") == 0) {
    pz_completion_print(stdout);
    return pz_command_end();
  }
  fprintf(stderr, "phaze: --completion %s%s%s; accepted: bash\n", shell ? "'" : "",
          shell ? shell : "wants a shell", shell ? "'" : "");
  return PZ_EXIT_BAD_USE;
}

int main(int argc, char **argv) {
  if (argc < 2) {
    usage(stderr);
    return PZ_EXIT_BAD_USE;
  }
  const char *name = argv[1];
  for (size_t i = 0; pz_command_at(i); i++)
    if (strcmp(pz_command_at(i)->name, name) == 0)
      return (int)pz_command_at(i)->run(argc - 1, argv + 1);
  if (strcmp(name, "--version") == 0)
    printf("phaze %s\n", pz_version());
  else if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0)
    usage(stdout);
  else if (strcmp(name, "--man") == 0)
    pz_command_man(stdout);
  else if (strcmp(name, "--completion") == 0)
    return (int)completion(argc > 2 ? argv[2] : NULL);
  else
    return (int)unknown(name);
  return (int)pz_command_end();
}
