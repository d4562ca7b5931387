/* Commands one after another in one process, so that the address sanitizer looks through memory once,
 * at its end, and not in a process for each: on some processors that takes seconds.
 *
 *     phaze_leaks OUTPUT <COMMANDS
 *
 * Each line of COMMANDS is "works" or "fails" and the arguments of a command, without quotes; what it
 * prints is in the file OUTPUT until the next begins.  The status is 1 at the first that does not do
 * as its line says. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "core/alloc.h"

enum { MOST_WORDS = 64 };

/* The words of a line, parted where spaces are. */
static int split(char *line, char *words[MOST_WORDS + 1]) {
  int n = 0;
  for (char *rest = line, *word; n < MOST_WORDS && (word = strtok_r(rest, " \n", &rest));)
    words[n++] = word;
  words[n] = NULL;
  return n;
}

/* A command's status with both streams going to the file. */
static int run(const char *output, int argc, char **argv) {
  if (!freopen(output, "w", stdout) || dup2(STDOUT_FILENO, STDERR_FILENO) < 0) return 99;
  int code = pz_command_main(argc, argv);
  fflush(NULL);
  return code;
}

int main(int argc, char **argv) {
  char line[4096], *words[MOST_WORDS + 1], phaze[] = "phaze";
  int n_works = 0, n_fails = 0, told = dup(STDERR_FILENO);
  if (argc != 2 || told < 0 || pz_alloc_use(NULL, NULL) != PZ_OK) return 2;
  while (fgets(line, sizeof line, stdin)) {
    char text[sizeof line];
    strcpy(text, line);
    int n = split(line, words);
    if (n < 2) return 2;
    bool works = strcmp(words[0], "works") == 0;
    words[0] = phaze;
    int code = run(argv[1], n, words);
    n_works += works;
    n_fails += !works;
    if (works == (code == PZ_EXIT_DONE)) continue;
    dprintf(told, "exit status %d, but it %s", code, text);
    return 1;
  }
  dup2(told, STDERR_FILENO); /* where the sanitizer tells of leaks */
  dprintf(told, "%d commands that work, %d that do not\n", n_works, n_fails);
  return 0;
}
