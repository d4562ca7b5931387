/* Files of a POSIX system.  open_input() accepts regular files and descriptors that the caller
 * has opened; pz_file_text() reads a file whole, pz_file_open() maps it.  find_target() follows
 * the links of a path to the place where the bytes will go and decides how: a regular file is
 * replaced by a new one that is written beside it and renamed (replace_file), so that a reader
 * sees either the old or the new content; pipes, devices and descriptors are written to
 * (pz_file_save). */
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
#include "core/buffer.h"
#include "core/vec.h"

/* Raises the error of the system call that has just failed: "path: cannot VERB: reason". */
static _Noreturn void raise_errno(struct pz_call *call, const char *path, const char *verb) {
  pz_raise_at(call, PZ_IO, path, 0, 0, "%s: cannot %s: %s", *path ? path : "an empty file name",
              verb, strerror(errno));
}

static void close_descriptor(void *fd) { close(*(int *)fd); }

/* Opens a regular file, or a descriptor that the caller opened.  Pipes and devices that are named
 * otherwise are refused, because opening a pipe without a writer blocks and a device need not end.
 * The descriptor is closed when the call ends. */
static int *open_input(struct pz_call *call, const char *path, struct stat *file_state) {
  int *fd = pz_alloc(call, 1, sizeof *fd);
  *fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (*fd < 0) raise_errno(call, path, "open");
  pz_defer(call, close_descriptor, fd);
  if (fstat(*fd, file_state) != 0) raise_errno(call, path, "stat");
  if (S_ISDIR(file_state->st_mode))
    pz_raise(call, PZ_IO, "%s: is a directory; a file is wanted", path);
  const char *type = "a block device";
  if (S_ISFIFO(file_state->st_mode)) type = "a pipe";
  if (S_ISCHR(file_state->st_mode)) type = "a character device";
  if (S_ISSOCK(file_state->st_mode)) type = "a socket";
  /* standard input, and the names that a shell gives to <(...) */
  bool is_descriptor = strcmp(path, "/dev/stdin") == 0 || strncmp(path, "/dev/fd/", 8) == 0 ||
                       strncmp(path, "/proc/self/fd/", 14) == 0;
  if (!S_ISREG(file_state->st_mode) && !is_descriptor)
    pz_raise(call, PZ_IO, "%s: is %s; accepted: a regular file, or /dev/stdin", path, type);
  if (fcntl(*fd, F_SETFL, 0) != 0) raise_errno(call, path, "open"); /* wait for slow writers */
  return fd;
}

/* Returns the bytes up to the end of a file of unknown size, such as a pipe. */
static char *read_until_end(struct pz_call *call, int fd, const char *path, size_t limit,
                            size_t *bytes) {
  enum { CHUNK = 1 << 14 };
  char chunk[CHUNK];
  struct pz_buffer *content = pz_buffer_new(call);
  for (;;) {
    ssize_t got = read(fd, chunk, sizeof chunk);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) raise_errno(call, path, "read");
    if (got == 0) break;
    if (content->bytes + (size_t)got > limit)
      pz_raise(call, PZ_LIMIT, "%s: larger than %zu bytes, the most that is read", path, limit);
    pz_buffer_add(call, content, chunk, (size_t)got);
  }
  *bytes = content->bytes;
  char *text = pz_buffer_take(call, content);
  pz_defer(call, pz_free, text);
  return text;
}

/* Returns the content of a file with a NUL behind it. */
char *pz_file_text(struct pz_call *call, const char *path, size_t limit, size_t *bytes) {
  struct stat file_state;
  int *fd = open_input(call, path, &file_state);
  char *text = read_until_end(call, *fd, path, limit, bytes);
  pz_close(call, fd);
  return text;
}

/* Unmaps a file of pz_file_open() (pz_close_fn). */
static void unmap_file(void *ctx) {
  const struct pz_file_bytes *mapped = ctx;
  munmap((void *)(uintptr_t)mapped->data, mapped->bytes);
}

/* Returns the content of a file, which is mapped if it is regular and copied otherwise. */
const struct pz_file_bytes *pz_file_open(struct pz_call *call, const char *path, size_t limit) {
  struct pz_file_bytes *content = pz_alloc(call, 1, sizeof *content);
  struct stat file_state;
  int *fd = open_input(call, path, &file_state);
  bool regular = S_ISREG(file_state.st_mode);
  if (regular && (size_t)file_state.st_size > limit)
    pz_raise(call, PZ_LIMIT, "%s: larger than %zu bytes, the most that is read", path, limit);
  if (regular && file_state.st_size > 0) {
    content->data = mmap(NULL, (size_t)file_state.st_size, PROT_READ, MAP_PRIVATE, *fd, 0);
    if (content->data == MAP_FAILED) raise_errno(call, path, "map");
    content->bytes = (size_t)file_state.st_size;
    pz_defer(call, unmap_file, content);
  } else {
    size_t most = limit < PZ_FILE_MOST_COPIED ? limit : PZ_FILE_MOST_COPIED;
    content->data = read_until_end(call, *fd, path, most, &content->bytes);
  }
  pz_close(call, fd);
  return content;
}

enum { LONGEST_PATH = 4096, LONGEST_BASE = 200, MOST_LINKS = 40, MOST_ATTEMPTS = 100 };

/* The place where the bytes for a path are written, after its links were followed. */
struct target {
  char path[LONGEST_PATH];
  enum { REPLACE_FILE, OPEN_FILE, USE_DESCRIPTOR } how;
  int fd;            /* the descriptor to write to, if `how` is USE_DESCRIPTOR */
  bool exists;       /* there is a file at the path */
  struct stat state; /* of that file */
};

/* Returns whether the path is /proc/PID/fd/N, to which /dev/stdout and /dev/fd/N lead, and sets
 * how it is written.  Such a link need not name a file, so it is not followed.  Descriptors of
 * this process are used as they are, which keeps their offset; those of others are opened. */
static bool find_descriptor(struct target *target) {
  char folder[LONGEST_PATH], *number_end;
  struct stat folder_state, proc, own;
  const char *slash = strrchr(target->path, '/');
  if (!slash) return false;
  snprintf(folder, sizeof folder, "%.*s", (int)(slash + 1 - target->path), target->path);
  if (stat(folder, &folder_state) != 0 || stat("/proc", &proc) != 0 ||
      folder_state.st_dev != proc.st_dev)
    return false;
  if (stat("/proc/self", &own) != 0 || own.st_dev != proc.st_dev) return false; /* no procfs */
  bool own_folder = stat("/proc/self/fd", &own) == 0 && own.st_ino == folder_state.st_ino;
  long fd = strtol(slash + 1, &number_end, 10);
  bool is_number = number_end != slash + 1 && !*number_end;
  target->how = own_folder && is_number ? USE_DESCRIPTOR : OPEN_FILE;
  target->fd = target->how == USE_DESCRIPTOR ? (int)fd : -1;
  return true;
}

/* Sets the target to the file, existing or not, to which the links of a path lead. */
static void follow_links(struct pz_call *call, const char *path, struct target *target) {
  char link[LONGEST_PATH], whole[2 * LONGEST_PATH];
  *target = (struct target){.fd = -1};
  int length = snprintf(whole, sizeof whole, "%s", path);
  for (int i = 0; i < MOST_LINKS; i++) {
    if (length < 0 || length >= LONGEST_PATH)
      pz_raise(call, PZ_LIMIT, "%.200s...: the path is too long", path);
    memcpy(target->path, whole, (size_t)length + 1);
    if (lstat(target->path, &target->state) != 0) {
      if (errno != ENOENT) raise_errno(call, path, "write");
      return;
    }
    target->exists = !S_ISLNK(target->state.st_mode);
    if (target->exists || find_descriptor(target)) return;
    ssize_t n = readlink(target->path, link, sizeof link - 1);
    if (n < 0) raise_errno(call, path, "follow the link");
    link[n] = '\0';
    /* a link is relative to its folder, or absolute */
    const char *slash = strrchr(target->path, '/');
    int folder_length = slash && link[0] != '/' ? (int)(slash + 1 - target->path) : 0;
    length = snprintf(whole, sizeof whole, "%.*s%s", folder_length, target->path, link);
  }
  errno = ELOOP;
  raise_errno(call, path, "follow the links");
}

/* Finds where and how to write, and refuses what cannot be written. */
static void find_target(struct pz_call *call, const char *path, struct target *target) {
  follow_links(call, path, target);
  if (!target->exists) return;
  mode_t mode = target->state.st_mode;
  const char *refused = NULL;
  if (S_ISDIR(mode)) refused = "directory";
  if (S_ISSOCK(mode)) refused = "socket";
  if (S_ISBLK(mode)) refused = "block device";
  if (refused)
    pz_raise(call, PZ_IO, "%s: is a %s; accepted: a file, a pipe or a character device", path,
             refused);
  if (!S_ISREG(mode)) target->how = OPEN_FILE;
  if (access(target->path, W_OK) != 0) raise_errno(call, path, "write");
}

/* Creates a file beside the target, with its mode and owner.  Returns -1, and errno, on failure. */
static int create_temporary(const struct target *target, char temporary[LONGEST_PATH]) {
  const char *slash = strrchr(target->path, '/'), *base = slash ? slash + 1 : target->path;
  int fd = -1;
  for (int i = 0; fd < 0 && i < MOST_ATTEMPTS; i++) {
    int n = snprintf(temporary, LONGEST_PATH, "%.*s%.*s.%ld-%d.part", (int)(base - target->path),
                     target->path, LONGEST_BASE, base, (long)getpid(), i);
    if (n < 0 || n >= LONGEST_PATH) {
      errno = ENAMETOOLONG;
      return -1;
    }
    fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0 && errno != EEXIST) return -1;
  }
  if (fd < 0 || !target->exists) return fd;
  struct stat created;
  bool owner_kept =
      fstat(fd, &created) == 0 &&
      ((created.st_uid == target->state.st_uid && created.st_gid == target->state.st_gid) ||
       fchown(fd, target->state.st_uid, target->state.st_gid) == 0);
  if (owner_kept && fchmod(fd, target->state.st_mode & 07777) == 0) return fd;
  close(fd);
  unlink(temporary);
  errno = EPERM;
  return -1;
}

/* Writes bytes to a descriptor and closes it.  Returns false, with the errno of the first
 * failure, if not all were written. */
static bool write_and_close(int fd, const char *text, size_t bytes, bool sync) {
  bool written = true;
  while (bytes && written) {
    ssize_t n = write(fd, text, bytes);
    written = n >= 0 || errno == EINTR;
    if (n < 0) continue;
    text += n;
    bytes -= (size_t)n;
  }
  if (written && sync) written = fsync(fd) == 0;
  int first_errno = errno;
  bool closed = close(fd) == 0;
  if (!written) errno = first_errno;
  return written && closed;
}

/* Writes a temporary file and renames it.  Overwrites an existing target instead if its folder is
 * not writable for us or its owner cannot be kept.  Returns false, with errno, on failure. */
static bool replace_file(const struct target *target, const char *text, size_t bytes) {
  char temporary[LONGEST_PATH];
  int fd = create_temporary(target, temporary);
  if (fd < 0) {
    bool is_denied = errno == EACCES || errno == EPERM || errno == EROFS;
    if (!target->exists || !is_denied) return false;
    fd = open(target->path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    return fd >= 0 && write_and_close(fd, text, bytes, true);
  }
  if (write_and_close(fd, text, bytes, true) && rename(temporary, target->path) == 0) return true;
  int first_errno = errno;
  unlink(temporary);
  errno = first_errno;
  return false;
}

/* Raises the error that pz_file_save() would raise, and changes nothing. */
void pz_file_require_writable(struct pz_call *call, const char *path) {
  char temporary[LONGEST_PATH];
  struct target target;
  find_target(call, path, &target);
  if (target.how == OPEN_FILE) return;
  if (target.how == USE_DESCRIPTOR) {
    int flags = fcntl(target.fd, F_GETFL);
    if (flags >= 0 && (flags & O_ACCMODE) != O_RDONLY) return;
    errno = EBADF;
    raise_errno(call, path, "write");
  }
  int fd = create_temporary(&target, temporary);
  if (fd >= 0) {
    close(fd);
    unlink(temporary);
    return;
  }
  bool is_denied = errno == EACCES || errno == EPERM || errno == EROFS; /* as in replace_file() */
  if (!target.exists || !is_denied) raise_errno(call, path, "create a file beside it");
}

/* Writes a text to the file to which the path leads through links. */
void pz_file_save(struct pz_call *call, const char *path, const char *text, size_t bytes) {
  struct target target;
  bool written = false;
  find_target(call, path, &target);
  if (target.how == REPLACE_FILE) {
    written = replace_file(&target, text, bytes);
  } else if (target.fd != STDOUT_FILENO || fflush(stdout) == 0) {
    int fd = target.how == USE_DESCRIPTOR ? dup(target.fd)
                                          : open(target.path, O_WRONLY | O_APPEND | O_CLOEXEC);
    written = fd >= 0 && write_and_close(fd, text, bytes, false);
  }
  if (!written) raise_errno(call, path, "write");
}

/* Returns whether two paths are equal or lead to the same regular file. */
bool pz_file_same(const char *a, const char *b) {
  struct stat a_state, b_state;
  if (strcmp(a, b) == 0) return true;
  return stat(a, &a_state) == 0 && stat(b, &b_state) == 0 && S_ISREG(a_state.st_mode) &&
         a_state.st_dev == b_state.st_dev && a_state.st_ino == b_state.st_ino;
}

/* Arguments of check_link(). */
struct link_check {
  const char *path;
  bool is_link; /* the path is a link to a regular file or to nowhere */
};

/* Finds out whether a path is a link that pz_file_require_output() refuses (pz_call_fn). */
static void check_link(struct pz_call *call, void *ctx) {
  struct link_check *check = ctx;
  struct target target;
  struct stat path_state;
  if (lstat(check->path, &path_state) != 0 || !S_ISLNK(path_state.st_mode)) return;
  follow_links(call, check->path, &target);
  check->is_link = target.how == REPLACE_FILE && (!target.exists || S_ISREG(target.state.st_mode));
}

/* Raises an error unless a command that reads the n `inputs` may write its output to the path. */
void pz_file_require_output(struct pz_call *call, const char *path, const char *const *inputs,
                            size_t n) {
  struct link_check check = {path, false};
  for (size_t i = 0; i < n; i++)
    if (pz_file_same(path, inputs[i]))
      pz_raise(call, PZ_IO, "%s would be overwritten, and is read; accepted: another file", path);
  if (pz_border(check_link, &check, NULL) == PZ_OK && check.is_link)
    pz_raise(call, PZ_IO, "%s is a link; accepted: a new file or one to replace", path);
  pz_file_require_writable(call, path);
}

bool pz_file_is_directory(const char *path) {
  struct stat file_state;
  return stat(path, &file_state) == 0 && S_ISDIR(file_state.st_mode);
}

bool pz_file_is_regular(const char *path) {
  struct stat file_state;
  return stat(path, &file_state) == 0 && S_ISREG(file_state.st_mode);
}

static int compare_names(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void close_folder(void *folder) { closedir(folder); }

/* Returns the sorted names of the files in a folder, without hidden ones.  NULL ends the list. */
const char *const *pz_file_names_in(struct pz_call *call, const char *path) {
  struct pz_vec names;
  DIR *folder = opendir(path);
  if (!folder) raise_errno(call, path, "read");
  pz_defer(call, close_folder, folder);
  pz_vec_init(&names, call->arena, sizeof(const char *));
  for (struct dirent *entry = readdir(folder); entry; entry = readdir(folder)) {
    if (entry->d_name[0] == '.') continue;
    const char *name = pz_copy_text(call, entry->d_name);
    pz_append(call, &names, &name);
  }
  pz_close(call, folder);
  if (names.n) qsort(names.items, names.n, sizeof(const char *), compare_names);
  pz_append(call, &names, NULL);
  return names.items;
}
