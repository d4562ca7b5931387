/* Runs each fuzz target over every file of its folder of the corpus and of the data of tests, for
 * compilers without libFuzzer. */
#include <dirent.h>
#include <stdio.h>

#include "../unit/core_borders.h"
#include "core/alloc.h"
#include "core/file.h"
#include "fuzz.h"

static const struct {
  const char *name;
  fuzz_target *run;
} targets[] = {
#define X(name) {#name, fuzz_##name},
    FUZZ_TARGETS
#undef X
};

static int replay_folder(fuzz_target *run, const char *folder) {
  DIR *dir = opendir(folder);
  if (!dir) return 0;
  int n = 0;
  for (struct dirent *e; (e = readdir(dir));) {
    char path[1024], *text = NULL;
    size_t bytes = 0;
    snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
    if (e->d_name[0] == '.' || pz_file_read(path, 16u << 20, &text, &bytes, NULL) != PZ_OK)
      continue;
    run(text, bytes);
    pz_free(text);
    n++;
  }
  closedir(dir);
  return n;
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
    char corpus[1024];
    snprintf(corpus, sizeof corpus, "%s/%s", argv[1], targets[i].name);
    printf("%s: ", targets[i].name);
    fflush(stdout); /* before it crashes */
    int n = replay_folder(targets[i].run, corpus), data = replay_folder(targets[i].run, argv[2]);
    printf("%d inputs replayed\n", n + data);
    if (!n) return 1;
  }
  return 0;
}
