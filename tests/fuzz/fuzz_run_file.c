/* run.sqlite: any bytes give rounds, texts and digests, or an error with a message; and looking leaves the bytes as they
 * are. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/file.h"
#include "store/run_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(bool ok) {
  if (!ok) abort();
}

static void use(struct pz_run_file *f) {
  const struct pz_round_store *store = pz_run_file_rounds(f);
  struct pz_error err = {0};
  require(pz_run_file_inputs(f)[0]);
  for (uint32_t i = 0; i < 4; i++) {
    struct pz_buffer b = {0};
    err = (struct pz_error){0};
    if (store->read(store->ctx, i / 2, i % 2, &b, &err) != PZ_OK) require(err.message[0]);
    pz_free(b.text);
  }
  for (enum pz_part part = PZ_PART_RESULT; part <= PZ_PART_DETAIL; part++) {
    char *text = NULL;
    err = (struct pz_error){0};
    if (pz_run_file_text(f, part, &text, &err) != PZ_OK) require(err.message[0] && !text);
    pz_free(text);
  }
  err = (struct pz_error){0};
  if (pz_run_file_check(f, &err) != PZ_OK) require(err.message[0]);
}

static void put(const char *path, const uint8_t *data, size_t bytes) {
  FILE *out = fopen(path, "wb");
  require(out && fwrite(data, 1, bytes, out) == bytes && fclose(out) == 0);
}

static void require_unchanged(const char *path, const uint8_t *data, size_t bytes) {
  char *text = NULL;
  size_t n = 0;
  require(pz_file_read(path, bytes, &text, &n, NULL) == PZ_OK);
  require(n == bytes && memcmp(text, data, n) == 0);
  free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  char dir[] = "/tmp/phaze-fuzz-XXXXXX", path[sizeof dir + 16];
  struct pz_run_file *f = NULL;
  struct pz_error err = {0};
  require(mkdtemp(dir));
  snprintf(path, sizeof path, "%s/run.sqlite", dir);
  put(path, data, bytes);
  if (pz_run_file_look(dir, &f, &err) == PZ_OK)
    use(f);
  else
    require(err.message[0] && !f);
  pz_run_file_close(f);
  require_unchanged(path, data, bytes);
  unlink(path);
  require(rmdir(dir) == 0); /* nothing else was left there */
  return 0;
}
