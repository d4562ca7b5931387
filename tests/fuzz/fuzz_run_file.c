/* run.sqlite: any bytes give evaluations within their ranges, or an error with a message; and
 * looking leaves the bytes as they are. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/file.h"
#include "store/run_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(bool ok) {
  if (!ok) abort();
}

static enum pz_status take_entry(void *into, const struct pz_entry *e) {
  (void)into;
  require(e->model < PZ_SEARCH_MOST_MODELS && e->e.time_s >= 0 && e->e.least_s <= e->e.time_s);
  require(e->e.effort == PZ_EFFORT_QUICK || e->e.effort == PZ_EFFORT_FULL);
  require((e->e.plan.n_stages > 0) == (e->e.time_s < HUGE_VAL) && e->e.plan.n_stages <= 1024);
  for (uint32_t k = 0; k < e->e.plan.n_stages; k++) require(e->e.plan.layers[k] > 0);
  return PZ_OK;
}

static enum pz_status take_chip_status(void *into, uint32_t id, const struct pz_chip_status *s) {
  (void)into;
  (void)id;
  require(s->kind < PZ_CHIP_STATUSES && !isnan(s->value) && !isnan(s->bound));
  return PZ_OK;
}

static void use(struct pz_run_file *f) {
  const struct pz_journal *j = pz_run_file_journal(f);
  char *result = NULL, *comparison = NULL;
  double seconds;
  struct pz_error errors[5] = {{0}};
  require(pz_run_file_inputs(f)[0]);
  if (j->recall(j->ctx, take_entry, NULL, &errors[0]) != PZ_OK) require(errors[0].message[0]);
  if (pz_run_file_read_chip_statuses(f, "a", take_chip_status, NULL, &errors[1]) != PZ_OK)
    require(errors[1].message[0]);
  if (pz_run_file_result(f, &result, &errors[2]) != PZ_OK) require(errors[2].message[0]);
  if (pz_run_file_timing(f, "search", &seconds, &errors[3]) != PZ_OK) require(errors[3].message[0]);
  if (pz_run_file_comparison(f, &comparison, &errors[4]) != PZ_OK) require(errors[4].message[0]);
  free(result);
  free(comparison);
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
