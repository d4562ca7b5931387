#include "box/journal.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/file.h"
#include "core/map.h"

enum { MOST_BYTES = 1 << 30, MOST_LINE = 1024, MOST_PRICED = 1 << 20 };

struct pz_journal {
  int fd;
  char path[4096];
  char *text;       /* of the rounds that the file had */
  size_t at, whole; /* read up to; where the last whole round ends */
  uint64_t digest;  /* of all before */
  char *round;      /* lines of the round at hand */
  size_t n, capacity;
};

static const char HEAD[] = "phaze boxes 2 ";

/* A digest of a text that follows another. */
static uint64_t chained(uint64_t before, const char *text, size_t n) {
  uint64_t both[2] = {before, pz_hash(text, n)};
  return pz_hash(both, sizeof both);
}

/* ---- the file ------------------------------------------------------------------------------- */

/* A line "= DIGEST" ends a round: where the last one ends whose digest is right. */
static void find_whole_rounds(struct pz_journal *j) {
  size_t start = j->at;
  uint64_t digest = j->digest;
  for (char *line = j->text + start, *end; (end = strchr(line, '\n')); line = end + 1) {
    if (*line != '=') continue;
    digest = chained(digest, j->text + start, (size_t)(line - (j->text + start)));
    if (strtoull(line + 1, NULL, 16) != digest) break;
    j->digest = digest;
    j->whole = start = (size_t)(end + 1 - j->text);
  }
}

/* The first line names the program, and the inputs by their digest. */
static enum pz_status read_head(struct pz_journal *j, const char *inputs, struct pz_error *err) {
  char head[128];
  int n = snprintf(head, sizeof head, "%s%.40s %016" PRIx64 "\n", HEAD, pz_version(),
                   pz_hash(inputs, strlen(inputs)));
  j->digest = pz_hash(head, (size_t)n);
  bool good = strncmp(j->text, head, (size_t)n) == 0;
  if (!good && strchr(j->text, '\n'))
    return pz_fail(
        err, PZ_BAD_USE,
        "%s: an interrupted search with other inputs or of another version; accepted: the same, or "
        "another folder",
        j->path);
  if (good) {
    j->at = j->whole = (size_t)n;
    find_whole_rounds(j);
    return PZ_OK;
  }
  if (ftruncate(j->fd, 0) == 0 && write(j->fd, head, (size_t)n) == n) return PZ_OK;
  return pz_fail(err, PZ_IO, "cannot write %s: %s", j->path, strerror(errno));
}

static enum pz_status open_file(struct pz_journal *j, const char *inputs, struct pz_error *err) {
  size_t bytes = 0;
  j->fd = open(j->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (j->fd < 0) return pz_fail(err, PZ_IO, "cannot open %s: %s", j->path, strerror(errno));
  if (flock(j->fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    return pz_fail(err, PZ_BAD_USE,
                   "%s is in use by another search; accepted: another directory, or wait for it",
                   j->path);
  enum pz_status status = pz_file_read(j->path, MOST_BYTES, &j->text, &bytes, err);
  if (status == PZ_OK) status = read_head(j, inputs, err);
  if (status != PZ_OK || !j->whole) return status;
  if (ftruncate(j->fd, (off_t)j->whole) == 0 && lseek(j->fd, 0, SEEK_END) >= 0) return PZ_OK;
  return pz_fail(err, PZ_IO, "cannot write %s: %s", j->path, strerror(errno));
}

enum pz_status pz_journal_open(const char *path, const char *inputs, struct pz_journal **out,
                               struct pz_error *err) {
  struct pz_journal *j = pz_calloc(1, sizeof *j);
  if (!j) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the journal");
  j->fd = -1;
  int n = snprintf(j->path, sizeof j->path, "%s", path);
  enum pz_status status = n >= 0 && (size_t)n < sizeof j->path
                              ? open_file(j, inputs, err)
                              : pz_fail(err, PZ_BAD_USE, "the path of the journal is too long");
  if (status == PZ_OK)
    *out = j;
  else
    pz_journal_close(j);
  return status;
}

void pz_journal_close(struct pz_journal *j) {
  if (!j) return;
  if (j->fd >= 0) close(j->fd);
  pz_free(j->text);
  pz_free(j->round);
  pz_free(j);
}

/* ---- reading -------------------------------------------------------------------------------- */

bool pz_journal_has(const struct pz_journal *j) { return j && j->at < j->whole; }

/* A number of the line and the space before it; numbers are not looked for behind the line's end. */
static bool read_number(char **p, double least, double most, double *out) {
  char *end;
  if (**p != ' ' || isspace((unsigned char)(*p)[1])) return false;
  *out = strtod(*p, &end);
  if (end == *p) return false;
  *p = end;
  return *out >= least && *out <= most;
}

/* A whole number. */
static bool read_count(char **p, double most, double *out) {
  return read_number(p, 0, most, out) && *out == floor(*out);
}

static bool read_box(char **p, struct pz_box *b) {
  double kind, lo, hi;
  if (!read_count(p, UINT32_MAX, &kind)) return false;
  b->kind = (uint32_t)kind;
  for (enum pz_range_axis a = 0; a < PZ_RANGE_AXES; a++) {
    if (!read_count(p, PZ_RANGE_MOST_VALUES - 1, &lo)) return false;
    if (!read_count(p, PZ_RANGE_MOST_VALUES - 1, &hi) || lo > hi) return false;
    b->lo[a] = (uint8_t)lo;
    b->hi[a] = (uint8_t)hi;
  }
  return true;
}

static const char letters[] = "cohp";

/* A line that this file has written, or the digest is somebody else's. */
static bool read_entry(char *line, struct pz_entry *e) {
  const char *letter = *line ? strchr(letters, *line) : NULL;
  char *p = line + 1;
  double end;
  *e = (struct pz_entry){.kind = PZ_ENTRY_PRICED};
  if (!letter) return false;
  e->kind = (enum pz_entry_kind)(letter - letters);
  if (e->kind == PZ_ENTRY_PRICED) return read_count(&p, MOST_PRICED, &e->value) && *p == '\n';
  if (!read_number(&p, 0, HUGE_VAL, &e->value)) return false;
  if (e->kind == PZ_ENTRY_CLOSED) {
    if (!read_count(&p, PZ_BOX_OPEN, &end)) return false;
    e->end = (enum pz_box_end)(int)end;
  }
  return read_box(&p, &e->box) && *p == '\n';
}

enum pz_status pz_journal_next(struct pz_journal *j, struct pz_entry *out, bool *more,
                               struct pz_error *err) {
  char *line = j->text + j->at, *end = strchr(line, '\n');
  j->at = (size_t)(end + 1 - j->text);
  *more = *line != '=';
  if (!*more || read_entry(line, out)) return PZ_OK;
  return pz_fail(err, PZ_BAD_INPUT, "%s: a line that no search writes at byte %zu", j->path,
                 (size_t)(line - j->text));
}

/* ---- writing -------------------------------------------------------------------------------- */

static bool make_room(struct pz_journal *j) {
  if (j->capacity - j->n >= MOST_LINE) return true;
  size_t capacity = 2 * j->capacity + 2 * MOST_LINE;
  char *round = pz_realloc(j->round, capacity);
  if (!round) return false;
  j->round = round;
  j->capacity = capacity;
  return true;
}

/* Reads again as the same number. */
static void put(struct pz_journal *j, double v) {
  j->n += (size_t)snprintf(j->round + j->n, j->capacity - j->n, " %.17g", v);
}

enum pz_status pz_journal_add(struct pz_journal *j, const struct pz_entry *e,
                              struct pz_error *err) {
  if (!make_room(j)) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the journal");
  j->round[j->n++] = letters[e->kind];
  put(j, e->value);
  if (e->kind == PZ_ENTRY_CLOSED) put(j, e->end);
  if (e->kind != PZ_ENTRY_PRICED) {
    put(j, e->box.kind);
    for (enum pz_range_axis a = 0; a < PZ_RANGE_AXES; a++) {
      put(j, e->box.lo[a]);
      put(j, e->box.hi[a]);
    }
  }
  j->round[j->n++] = '\n';
  return PZ_OK;
}

enum pz_status pz_journal_end_round(struct pz_journal *j, struct pz_error *err) {
  if (!make_room(j)) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the journal");
  j->digest = chained(j->digest, j->round, j->n);
  j->n += (size_t)snprintf(j->round + j->n, j->capacity - j->n, "= %016" PRIx64 "\n", j->digest);
  size_t n = j->n;
  j->n = 0;
  for (size_t done = 0; done < n;) {
    ssize_t wrote = write(j->fd, j->round + done, n - done);
    if (wrote < 0 && errno != EINTR)
      return pz_fail(err, PZ_IO, "cannot write %s: %s", j->path, strerror(errno));
    if (wrote > 0) done += (size_t)wrote;
  }
  return PZ_OK;
}
