/* The journal of a search of boxes: any bytes give entries within their ranges, or an error with a message.  Twice: as a
 * file, and as rounds whose digests are right, which bytes at random never have. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "box/journal.h"
#include "core/map.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(bool ok) {
  if (!ok) abort();
}

static void check_entry(const struct pz_entry *e) {
  require(e->kind <= PZ_ENTRY_PRICED && e->end <= PZ_BOX_OPEN && e->value >= 0);
  if (e->kind == PZ_ENTRY_PRICED) require(e->value < 0x1p32 && e->value == floor(e->value));
  for (enum pz_range_axis a = 0; a < PZ_RANGE_AXES; a++)
    require(e->box.lo[a] <= e->box.hi[a] && e->box.hi[a] < PZ_RANGE_MOST_VALUES);
}

static void read_rounds(const char *path, const char *inputs) {
  struct pz_journal *j = NULL;
  struct pz_entry e;
  struct pz_error err = {0};
  if (pz_journal_open(path, inputs, &j, &err) != PZ_OK) {
    require(err.message[0] && !j);
    return;
  }
  enum pz_status status = PZ_OK;
  for (bool more = false; status == PZ_OK && (more || pz_journal_has(j));) {
    status = pz_journal_next(j, &e, &more, &err);
    if (status == PZ_OK && more) check_entry(&e);
  }
  require(status == PZ_OK || err.message[0]);
  pz_journal_close(j);
}

static void put(FILE *out, const void *data, size_t bytes) {
  require(fwrite(data, 1, bytes, out) == bytes);
}

/* Lines that begin with "=" end a round: they get the digest of what is before them (box/journal.c). */
static void put_rounds(FILE *out, const char *inputs, const char *data, size_t bytes) {
  char line[128];
  const char *end = data + bytes, *start = data;
  int n = snprintf(line, sizeof line, "phaze boxes 2 %.40s %016" PRIx64 "\n", pz_version(),
                   pz_hash(inputs, strlen(inputs)));
  uint64_t digest = pz_hash(line, (size_t)n);
  put(out, line, (size_t)n);
  for (const char *at = data, *next; at < end; at = next) {
    next = memchr(at, '\n', (size_t)(end - at));
    next = next ? next + 1 : end;
    if (*at != '=') continue;
    uint64_t both[2] = {digest, pz_hash(start, (size_t)(at - start))};
    digest = pz_hash(both, sizeof both);
    put(out, start, (size_t)(at - start));
    n = snprintf(line, sizeof line, "= %016" PRIx64 "\n", digest);
    put(out, line, (size_t)n);
    start = next;
  }
  put(out, start, (size_t)(end - start));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  static const char inputs[] = "a space";
  char path[] = "/dev/shm/phaze-fuzz-XXXXXX", other[] = "/tmp/phaze-fuzz-XXXXXX";
  if (access("/dev/shm", W_OK) != 0) memcpy(path, other, sizeof other);
  int fd = mkstemp(path);
  if (bytes > 1 << 16) bytes = 1 << 16;
  for (int digests = 0; digests < 2; digests++) {
    FILE *out = fopen(path, "wb");
    require(fd >= 0 && out);
    if (digests)
      put_rounds(out, inputs, (const char *)data, bytes);
    else
      put(out, data, bytes);
    require(fclose(out) == 0);
    read_rounds(path, inputs);
  }
  close(fd);
  require(unlink(path) == 0);
  return 0;
}
