#include "core/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/vec.h"

bool pz_file_named(const char *word) {
  size_t n = strlen(word);
  return strchr(word, '/') || (n > 5 && strcmp(word + n - 5, ".json") == 0) ||
         (n > 5 && strcmp(word + n - 5, ".onnx") == 0);
}

static enum pz_status fail_io(struct pz_error *err, const char *path, const char *verb) {
  enum pz_status status = pz_fail(err, PZ_IO, "%s: cannot %s: %s",
                                  *path ? path : "an empty file name", verb, strerror(errno));
  pz_error_at(err, path, 0, 0);
  return status;
}

/* Read until the end: sizes of pipes and of files under /proc are not known beforehand. */
static enum pz_status read_all(int fd, const char *path, size_t limit, char **text, size_t *bytes,
                               struct pz_error *err) {
  size_t n = 0, cap = 4096;
  char *buf = pz_malloc(cap);
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
      char *more = pz_realloc(buf, cap *= 2);
      if (!more) break;
      buf = more;
    }
  }
  pz_free(buf);
  return pz_fail(err, status, "%s: out of memory while reading", path);
}

/* Standard input, and what a shell's <(...) is called. */
static bool names_descriptor(const char *path) {
  return strcmp(path, "/dev/stdin") == 0 || strncmp(path, "/dev/fd/", 8) == 0 ||
         strncmp(path, "/proc/self/fd/", 14) == 0;
}

static const char *kind_of_file(mode_t mode) {
  return S_ISFIFO(mode)   ? "a pipe"
         : S_ISCHR(mode)  ? "a character device"
         : S_ISSOCK(mode) ? "a socket"
                          : "a block device";
}

/* A regular file, or a descriptor that the caller opened.  Anything else by its name is refused: a
 * pipe without a writer would be waited for, and a device need not end. */
static enum pz_status open_input(const char *path, int *fd, struct stat *st, struct pz_error *err) {
  enum pz_status status = PZ_OK;
  *fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (*fd < 0) return fail_io(err, path, "open");
  if (fstat(*fd, st) != 0)
    status = fail_io(err, path, "stat");
  else if (S_ISDIR(st->st_mode))
    status = pz_fail(err, PZ_IO, "%s: is a directory; a file is wanted", path);
  else if (!S_ISREG(st->st_mode) && !names_descriptor(path))
    status = pz_fail(err, PZ_IO, "%s: is %s; accepted: a regular file, or /dev/stdin", path,
                     kind_of_file(st->st_mode));
  else if (fcntl(*fd, F_SETFL, 0) != 0) /* waits for a writer that is slow */
    status = fail_io(err, path, "open");
  if (status != PZ_OK) close(*fd);
  return status;
}

enum pz_status pz_file_read(const char *path, size_t limit, char **text, size_t *bytes,
                            struct pz_error *err) {
  struct stat st;
  int fd;
  enum pz_status status = open_input(path, &fd, &st, err);
  if (status != PZ_OK) return status;
  status = read_all(fd, path, limit, text, bytes, err);
  close(fd);
  return status;
}

static enum pz_status map_open(int fd, const struct stat *st, const char *path, size_t limit,
                               struct pz_file_bytes *out, struct pz_error *err) {
  char *text = NULL;
  size_t bytes = 0;
  if (S_ISREG(st->st_mode) && (size_t)st->st_size > limit)
    return pz_fail(err, PZ_LIMIT, "%s: larger than %zu bytes, the most that is read", path, limit);
  if (S_ISREG(st->st_mode) && st->st_size > 0) {
    void *data = mmap(NULL, (size_t)st->st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) return fail_io(err, path, "map");
    *out = (struct pz_file_bytes){data, (size_t)st->st_size, false};
    return PZ_OK;
  }
  if (limit > PZ_FILE_MOST_COPIED) limit = PZ_FILE_MOST_COPIED;
  enum pz_status status = read_all(fd, path, limit, &text, &bytes, err);
  if (status == PZ_OK) *out = (struct pz_file_bytes){text, bytes, true};
  return status;
}

enum pz_status pz_file_map(const char *path, size_t limit, struct pz_file_bytes *out,
                           struct pz_error *err) {
  struct stat st;
  int fd;
  enum pz_status status = open_input(path, &fd, &st, err);
  if (status != PZ_OK) return status;
  status = map_open(fd, &st, path, limit, out, err);
  close(fd);
  return status;
}

void pz_file_unmap(struct pz_file_bytes *m) {
  union {
    const void *in;
    void *out;
  } data = {.in = m->data}; /* ours to give back, though read-only to others */
  if (m->copied)
    pz_free(data.out);
  else if (m->data)
    munmap(data.out, m->bytes);
  *m = (struct pz_file_bytes){0};
}

/* ---- writing -------------------------------------------------------------------------------- */

enum { LONGEST_PATH = 4096, LONGEST_BASE = 200, MOST_LINKS = 40, MOST_BESIDE = 100 };

/* Where a path leads, links followed: what stands there and how it is to be written. */
struct target {
  char path[LONGEST_PATH];
  enum { REPLACED, OPENED, DESCRIPTOR } how;
  int fd;         /* DESCRIPTOR: one of this process */
  bool exists;    /* REPLACED: a file stands there ... */
  struct stat st; /* ... and this is its mode and owner */
};

static enum pz_status fail_long(struct pz_error *err, const char *path) {
  return pz_fail(err, PZ_LIMIT, "%.200s...: the path is too long", path);
}

/* A path in the directory of t->path, or as it is when it begins at the root. */
static bool set_beside(struct target *t, const char *name) {
  char whole[2 * LONGEST_PATH];
  const char *slash = strrchr(t->path, '/');
  int dir = slash && name[0] != '/' ? (int)(slash + 1 - t->path) : 0;
  int n = snprintf(whole, sizeof whole, "%.*s%s", dir, t->path, name);
  if (n < 0 || n >= LONGEST_PATH) return false;
  memcpy(t->path, whole, (size_t)n + 1);
  return true;
}

/* /proc/PID/fd/N and what leads there (/dev/stdout, /dev/fd/N): the text of such a link need not
 * name anything, so it is not followed.  Our own descriptors are written to as they are, which
 * keeps their offset; those of others are opened. */
static bool is_descriptor(struct target *t) {
  char dir[LONGEST_PATH], *end;
  struct stat at, proc, own;
  const char *slash = strrchr(t->path, '/');
  if (!slash) return false;
  snprintf(dir, sizeof dir, "%.*s", (int)(slash + 1 - t->path), t->path);
  if (stat(dir, &at) != 0 || stat("/proc", &proc) != 0 || at.st_dev != proc.st_dev) return false;
  if (stat("/proc/self", &own) != 0 || own.st_dev != proc.st_dev) return false; /* no procfs */
  bool ours = stat("/proc/self/fd", &own) == 0 && own.st_ino == at.st_ino;
  long fd = strtol(slash + 1, &end, 10);
  ours = ours && end != slash + 1 && !*end;
  t->how = ours ? DESCRIPTOR : OPENED;
  t->fd = ours ? (int)fd : -1;
  return true;
}

static enum pz_status follow_links(const char *path, struct target *t, struct pz_error *err) {
  char link[LONGEST_PATH];
  *t = (struct target){.fd = -1};
  if (strlen(path) >= LONGEST_PATH) return fail_long(err, path);
  memcpy(t->path, path, strlen(path) + 1);
  for (int i = 0; i < MOST_LINKS; i++) {
    if (lstat(t->path, &t->st) != 0) {
      if (errno != ENOENT) return fail_io(err, path, "write");
      return PZ_OK;
    }
    t->exists = !S_ISLNK(t->st.st_mode);
    if (t->exists || is_descriptor(t)) return PZ_OK;
    ssize_t n = readlink(t->path, link, sizeof link - 1);
    if (n < 0) return fail_io(err, path, "follow the link");
    link[n] = '\0';
    if (!set_beside(t, link)) return fail_long(err, path);
  }
  errno = ELOOP;
  return fail_io(err, path, "follow the links");
}

/* Where and how to write; what cannot be written is refused here. */
static enum pz_status find_target(const char *path, struct target *t, struct pz_error *err) {
  static const char accepted[] = "a file, a pipe or a character device";
  enum pz_status status = follow_links(path, t, err);
  if (status != PZ_OK || !t->exists) return status;
  mode_t mode = t->st.st_mode;
  if (S_ISDIR(mode) || S_ISSOCK(mode) || S_ISBLK(mode))
    return pz_fail(err, PZ_IO, "%s: is a %s; accepted: %s", path,
                   S_ISDIR(mode)    ? "directory"
                   : S_ISSOCK(mode) ? "socket"
                                    : "block device",
                   accepted);
  if (!S_ISREG(mode)) t->how = OPENED;
  return access(t->path, W_OK) == 0 ? PZ_OK : fail_io(err, path, "write");
}

/* A new file beside the target, with its mode and owner; -1 and errno when that cannot be. */
static int open_beside(const struct target *t, char beside[LONGEST_PATH]) {
  const char *slash = strrchr(t->path, '/'), *base = slash ? slash + 1 : t->path;
  int fd = -1;
  for (int i = 0; fd < 0 && i < MOST_BESIDE; i++) {
    int n = snprintf(beside, LONGEST_PATH, "%.*s%.*s.%ld-%d.part", (int)(base - t->path), t->path,
                     LONGEST_BASE, base, (long)getpid(), i);
    if (n < 0 || n >= LONGEST_PATH) errno = ENAMETOOLONG;
    if (n < 0 || n >= LONGEST_PATH) return -1;
    fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0 && errno != EEXIST) return -1;
  }
  if (fd < 0 || !t->exists) return fd;
  struct stat made;
  bool same = fstat(fd, &made) == 0 &&
              ((made.st_uid == t->st.st_uid && made.st_gid == t->st.st_gid) ||
               fchown(fd, t->st.st_uid, t->st.st_gid) == 0) &&
              fchmod(fd, t->st.st_mode & 07777) == 0;
  if (same) return fd;
  close(fd);
  unlink(beside);
  errno = EPERM;
  return -1;
}

/* Is a file that cannot be replaced to be written where it stands?  Its directory is closed to us,
 * or its owner cannot be kept. */
static bool in_place(const struct target *t) {
  return t->exists && (errno == EACCES || errno == EPERM || errno == EROFS);
}

static bool write_all(int fd, const char *text, size_t bytes) {
  while (bytes) {
    ssize_t put = write(fd, text, bytes);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return false;
    text += put;
    bytes -= (size_t)put;
  }
  return true;
}

/* Write, close, and keep the errno of what failed first. */
static bool write_and_close(int fd, const char *text, size_t bytes, bool sync) {
  bool ok = write_all(fd, text, bytes) && (!sync || fsync(fd) == 0);
  int why = errno;
  if (close(fd) != 0 && ok) return false;
  errno = why;
  return ok;
}

/* Pipes, devices, descriptors: nothing is replaced. */
static bool write_open(const struct target *t, const char *text, size_t bytes) {
  if (t->fd == STDOUT_FILENO && fflush(stdout) != 0) return false;
  int fd = t->how == DESCRIPTOR ? dup(t->fd) : open(t->path, O_WRONLY | O_APPEND | O_CLOEXEC);
  return fd >= 0 && write_and_close(fd, text, bytes, false);
}

static bool write_in_place(const struct target *t, const char *text, size_t bytes) {
  int fd = open(t->path, O_WRONLY | O_TRUNC | O_CLOEXEC);
  return fd >= 0 && write_and_close(fd, text, bytes, true);
}

static bool replace(const struct target *t, const char *text, size_t bytes) {
  char beside[LONGEST_PATH];
  int fd = open_beside(t, beside);
  if (fd < 0) return in_place(t) && write_in_place(t, text, bytes);
  bool ok = write_and_close(fd, text, bytes, true) && rename(beside, t->path) == 0;
  int why = errno;
  if (!ok) unlink(beside);
  errno = why;
  return ok;
}

enum pz_status pz_file_writable(const char *path, struct pz_error *err) {
  char beside[LONGEST_PATH];
  struct target t;
  enum pz_status status = find_target(path, &t, err);
  if (status != PZ_OK || t.how == OPENED) return status;
  if (t.how == DESCRIPTOR) {
    int flags = fcntl(t.fd, F_GETFL);
    if (flags >= 0 && (flags & O_ACCMODE) != O_RDONLY) return PZ_OK;
    errno = EBADF;
    return fail_io(err, path, "write");
  }
  int fd = open_beside(&t, beside);
  if (fd < 0) return in_place(&t) ? PZ_OK : fail_io(err, path, "create a file beside it");
  close(fd);
  unlink(beside);
  return PZ_OK;
}

enum pz_status pz_file_write(const char *path, const char *text, size_t bytes,
                             struct pz_error *err) {
  struct target t;
  enum pz_status status = find_target(path, &t, err);
  if (status != PZ_OK) return status;
  bool ok = t.how == REPLACED ? replace(&t, text, bytes) : write_open(&t, text, bytes);
  return ok ? PZ_OK : fail_io(err, path, "write");
}

bool pz_file_same(const char *a, const char *b) {
  struct stat x, y;
  if (strcmp(a, b) == 0) return true;
  return stat(a, &x) == 0 && stat(b, &y) == 0 && S_ISREG(x.st_mode) && x.st_dev == y.st_dev &&
         x.st_ino == y.st_ino;
}

/* Is the path a link that leads to a file, or nowhere?  /dev/stdout is none. */
static bool is_link(const char *path) {
  struct target t;
  struct stat own;
  return lstat(path, &own) == 0 && S_ISLNK(own.st_mode) && follow_links(path, &t, NULL) == PZ_OK &&
         t.how == REPLACED && (!t.exists || S_ISREG(t.st.st_mode));
}

enum pz_status pz_file_output(const char *path, const char *const *inputs, size_t n,
                              struct pz_error *err) {
  for (size_t i = 0; i < n; i++)
    if (pz_file_same(path, inputs[i]))
      return pz_fail(err, PZ_IO, "%s would be overwritten, and is read; accepted: another file",
                     path);
  if (is_link(path))
    return pz_fail(err, PZ_IO, "%s is a link; accepted: a new file or one to replace", path);
  return pz_file_writable(path, err);
}

/* ---- directories ---------------------------------------------------------------------------- */

const char *pz_file_with(const char *path, const char *text, struct pz_arena *arena) {
  const char *slash = strrchr(path, '/'), *end = strrchr(slash ? slash : path, '.');
  size_t n = end ? (size_t)(end - path) : strlen(path);
  return pz_arena_printf(arena, "%.*s%s%s", (int)n, path, text, path + n);
}

bool pz_file_is_directory(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool pz_file_is_regular(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

static int by_name(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

enum pz_status pz_file_list(const char *path, struct pz_arena *arena, const char *const **names,
                            struct pz_error *err) {
  struct pz_vec list;
  DIR *dir = opendir(path);
  bool room = true;
  if (!dir) return fail_io(err, path, "read");
  pz_vec_init(&list, arena, sizeof(const char *));
  for (struct dirent *e = readdir(dir); e && room; e = readdir(dir)) {
    if (e->d_name[0] == '.') continue;
    const char *name = pz_arena_strdup(arena, e->d_name);
    room = name && pz_vec_push(&list, &name);
  }
  closedir(dir);
  if (list.n) qsort(list.items, list.n, sizeof(const char *), by_name);
  if (!room || !pz_vec_push(&list, NULL))
    return pz_fail(err, PZ_NO_MEMORY, "%s: out of memory", path);
  *names = list.items;
  return PZ_OK;
}
