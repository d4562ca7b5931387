/* Runs a fuzz target over every file of the folders given, for compilers without libFuzzer. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static int replay_folder(const char *folder) {
  DIR *dir = opendir(folder);
  if (!dir) return 0;
  int n = 0;
  for (struct dirent *e; (e = readdir(dir));) {
    char path[1024], *text = NULL;
    size_t bytes = 0;
    snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
    if (e->d_name[0] == '.' || pz_file_read(path, 16u << 20, &text, &bytes, NULL) != PZ_OK)
      continue;
    LLVMFuzzerTestOneInput((const uint8_t *)text, bytes);
    free(text);
    n++;
  }
  closedir(dir);
  return n;
}

int main(int argc, char **argv) {
  int n = 0;
  for (int i = 1; i < argc; i++) n += replay_folder(argv[i]);
  printf("%d inputs replayed\n", n);
  return n ? 0 : 1;
}
