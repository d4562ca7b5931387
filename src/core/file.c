#include "core/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

bool pz_file_named(const char *word) {
  size_t n = strlen(word);
  return strchr(word, '/') || (n > 5 && strcmp(word + n - 5, ".json") == 0) ||
         (n > 5 && strcmp(word + n - 5, ".onnx") == 0);
}

static enum pz_status fail_io(struct pz_error *err, const char *path, const char *verb) {
  enum pz_status status = pz_fail(err, PZ_IO, "%s: cannot %s: %s", path, verb, strerror(errno));
  pz_error_at(err, path, 0, 0);
  return status;
}

/* Read until the end: sizes of pipes and of files under /proc are not known beforehand. */
static enum pz_status read_all(int fd, const char *path, size_t limit, char **text, size_t *bytes,
                               struct pz_error *err) {
  size_t n = 0, cap = 4096;
  char *buf = malloc(cap);
  enum pz_status status = PZ_NO_MEMORY;
  while (buf) {
    ssize_t got = read(fd, buf + n, cap - n - 1);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      status = fail_io(err, path, "read");
      break;
    }
    n += (size_t)got;
    if (n > limit) {
      status =
          pz_fail(err, PZ_LIMIT, "%s: larger than %zu bytes, the most that is read", path, limit);
      break;
    }
    if (got == 0) {
      buf[n] = '\0';
      *text = buf;
      *bytes = n;
      return PZ_OK;
    }
    if (cap - n < 2) {
      char *more = realloc(buf, cap *= 2);
      if (!more) break;
      buf = more;
    }
  }
  free(buf);
  return pz_fail(err, status, "%s: out of memory while reading", path);
}

enum pz_status pz_file_read(const char *path, size_t limit, char **text, size_t *bytes,
                            struct pz_error *err) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return fail_io(err, path, "open");
  struct stat st;
  enum pz_status status;
  if (fstat(fd, &st) != 0)
    status = fail_io(err, path, "stat");
  else if (S_ISDIR(st.st_mode))
    status = pz_fail(err, PZ_IO, "%s: is a directory; a file is wanted", path);
  else
    status = read_all(fd, path, limit, text, bytes, err);
  close(fd);
  return status;
}

static enum pz_status map_open(int fd, const char *path, size_t limit, struct pz_file_bytes *out,
                               struct pz_error *err) {
  struct stat st;
  char *text = NULL;
  if (fstat(fd, &st) != 0) return fail_io(err, path, "stat");
  if (S_ISDIR(st.st_mode)) return pz_fail(err, PZ_IO, "%s: is a directory; a file is wanted", path);
  if (S_ISREG(st.st_mode) && (size_t)st.st_size > limit)
    return pz_fail(err, PZ_LIMIT, "%s: larger than %zu bytes, the most that is read", path, limit);
  if (S_ISREG(st.st_mode) && st.st_size > 0) {
    void *data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) return fail_io(err, path, "map");
    *out = (struct pz_file_bytes){data, (size_t)st.st_size, false};
    return PZ_OK;
  }
  size_t bytes = 0;
  enum pz_status status = read_all(fd, path, limit, &text, &bytes, err);
  if (status == PZ_OK) *out = (struct pz_file_bytes){text, bytes, true};
  return status;
}

enum pz_status pz_file_map(const char *path, size_t limit, struct pz_file_bytes *out,
                           struct pz_error *err) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return fail_io(err, path, "open");
  enum pz_status status = map_open(fd, path, limit, out, err);
  close(fd);
  return status;
}

void pz_file_unmap(struct pz_file_bytes *m) {
  union {
    const void *in;
    void *out;
  } data = {.in = m->data}; /* ours to give back, though read-only to others */
  if (m->copied)
    free(data.out);
  else if (m->data)
    munmap(data.out, m->bytes);
  *m = (struct pz_file_bytes){0};
}

static bool write_all(int fd, const char *text, size_t bytes) {
  while (bytes) {
    ssize_t put = write(fd, text, bytes);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return false;
    text += put;
    bytes -= (size_t)put;
  }
  return fsync(fd) == 0;
}

enum { LONGEST_PATH = 4096 };

static enum pz_status open_beside(const char *path, char beside[LONGEST_PATH], int *fd,
                                  struct pz_error *err) {
  struct stat st;
  int n = snprintf(beside, LONGEST_PATH, "%s.%ld.part", path, (long)getpid());
  if (n < 0 || n >= LONGEST_PATH) return pz_fail(err, PZ_LIMIT, "%s: the path is too long", path);
  if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
    return pz_fail(err, PZ_IO, "%s: is a directory or device; a file is wanted", path);
  *fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  return *fd < 0 ? fail_io(err, path, "create a file beside it") : PZ_OK;
}

enum pz_status pz_file_writable(const char *path, struct pz_error *err) {
  char beside[LONGEST_PATH];
  int fd = -1;
  enum pz_status status = open_beside(path, beside, &fd, err);
  if (status != PZ_OK) return status;
  close(fd);
  unlink(beside);
  return PZ_OK;
}

enum pz_status pz_file_write(const char *path, const char *text, size_t bytes,
                             struct pz_error *err) {
  char beside[LONGEST_PATH];
  int fd = -1;
  enum pz_status status = open_beside(path, beside, &fd, err);
  if (status != PZ_OK) return status;
  bool ok = write_all(fd, text, bytes);
  ok = close(fd) == 0 && ok;
  if (ok && rename(beside, path) == 0) return PZ_OK;
  status = fail_io(err, path, "write");
  unlink(beside);
  return status;
}
