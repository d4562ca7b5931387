/* The command with allocations that fail: each in turn, alone and with all after it.  Every run is
 * to end with an error that says "out of memory", and without a result where the last argument is
 * --json, or with the output of the run in which nothing fails; and to give all memory back.
 *
 *     phaze_faults MOST COMMAND ARGUMENTS...
 *
 * tries all allocations if there are at most MOST, or else MOST of them: the first quarter one by
 * one, so the last, and between them half at equal distances.  With PHAZE_FAULT=N in the environment,
 * and PHAZE_FAULT_ON=1 for those after it too, the command runs once, to be looked at.
 *
 * MOST 0 tries all in one run: at each allocation it forks, and the allocation fails in the child, so that
 * what came before runs once.  The command writes to no directory.
 *
 * With PHAZE_FAULT_DIR=DIR that directory is the run's: it is emptied before each run; after one with
 * a fault the command runs again without, and is to come to the same answer and report. */
#define _GNU_SOURCE /* memfd_create */

#include <dirent.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/command.h"
#include "core/alloc.h"
#include "core/pool.h"

/* Shared with the child that runs the command.  n counts from 1; 0: nothing fails. */
struct faults {
  atomic_long calls, live;
  long n;
  bool on;   /* those after the n-th too */
  bool fork; /* each fails in a child of its own */
  long tried, answers, bad;
};

static bool fails_in_child(struct faults *f, long call);

static bool fails(struct faults *f) {
  long call = atomic_fetch_add(&f->calls, 1) + 1;
  if (f->fork && !f->n) return fails_in_child(f, call);
  return f->n && (call == f->n || (f->on && call > f->n));
}

static void *take(void *ctx, size_t bytes) {
  struct faults *f = ctx;
  void *block = fails(f) ? NULL : malloc(bytes);
  if (block) atomic_fetch_add(&f->live, 1);
  return block;
}

static void *resize(void *ctx, void *block, size_t bytes) {
  struct faults *f = ctx;
  void *more = fails(f) ? NULL : realloc(block, bytes);
  if (more && !block) atomic_fetch_add(&f->live, 1);
  return more;
}

static void give(void *ctx, void *block) {
  struct faults *f = ctx;
  atomic_fetch_sub(&f->live, 1);
  free(block);
}

/* A fork has the thread that calls it alone: the command has no other (the linker puts this before pz_pool_open). */
static bool one_thread;
struct pz_pool *__real_pz_pool_open(struct pz_call *call, unsigned threads);
struct pz_pool *__wrap_pz_pool_open(struct pz_call *call, unsigned threads);
struct pz_pool *__wrap_pz_pool_open(struct pz_call *call, unsigned threads) {
  return __real_pz_pool_open(call, one_thread ? 1 : threads);
}

static atomic_long *child_live; /* blocks that a child with a fault has not given back */

static int command(struct faults *f, int argc, char **argv) {
  struct pz_allocator allocator = {take, resize, give, f};
  if (pz_alloc_use(&allocator, NULL) != PZ_OK) return 99;
  if (f->fork) sqlite3_config(SQLITE_CONFIG_SINGLETHREAD); /* a child owns no mutex of its parent */
  int code = pz_command_main(argc, argv);
  fflush(NULL);
  if (f->fork && f->n) *child_live = f->live;
  return code;
}

struct outcome {
  int code; /* 128 + N: killed by signal N */
  char *text[2];
  size_t bytes[2];
};

static char *read_back(int fd, size_t *bytes) {
  *bytes = (size_t)lseek(fd, 0, SEEK_END);
  char *text = calloc(*bytes + 1, 1);
  if (!text || pread(fd, text, *bytes, 0) != (ssize_t)*bytes) abort();
  return text;
}

/* Lines with wall-clock time differ from run to run; of a search all of it comes last. */
static void drop_seconds(char *text, size_t *bytes) {
  char *last = strstr(text, " \"timing\": {");
  if (last) *last = '\0';
  for (char *at; (at = strstr(text, "seconds\": "));) {
    char *begin = at, *end = at + strcspn(at, "\n");
    while (begin > text && begin[-1] != '\n') begin--;
    memmove(begin, end, strlen(end) + 1);
  }
  *bytes = strlen(text);
}

static struct outcome outcome_of(int status, const int fd[2]) {
  struct outcome o = {.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status)};
  for (int i = 0; i < 2; i++) {
    o.text[i] = read_back(fd[i], &o.bytes[i]);
    drop_seconds(o.text[i], &o.bytes[i]);
  }
  return o;
}

static struct outcome run(struct faults *f, const int fd[2], int argc, char **argv) {
  int status = 0;
  for (int i = 0; i < 2; i++)
    if (ftruncate(fd[i], 0) != 0 || lseek(fd[i], 0, SEEK_SET) != 0) abort();
  f->calls = f->live = 0;
  fflush(stdout); /* or the child would print it again */
  pid_t child = fork();
  if (child == 0) {
    dup2(fd[0], STDOUT_FILENO);
    dup2(fd[1], STDERR_FILENO);
    _exit(command(f, argc, argv));
  }
  if (child < 0 || waitpid(child, &status, 0) != child) abort();
  return outcome_of(status, fd);
}

/* ---- the directory of a run ------------------------------------------------------------------- */

static void empty(const char *dir) {
  char path[4096];
  DIR *d = dir ? opendir(dir) : NULL;
  for (struct dirent *e; d && (e = readdir(d));) {
    snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
    if (e->d_name[0] != '.') unlink(path);
  }
  if (d) closedir(d);
}

/* The page in it; NULL: none. */
static char *page_of(const char *dir, size_t *bytes) {
  char path[4096];
  snprintf(path, sizeof path, "%s/report.html", dir);
  int fd = open(path, O_RDONLY);
  char *text = fd < 0 ? NULL : read_back(fd, bytes);
  if (fd >= 0) close(fd);
  return text;
}

static bool same(const struct outcome *a, const struct outcome *b) {
  for (int i = 0; i < 2; i++)
    if (a->bytes[i] != b->bytes[i] || memcmp(a->text[i], b->text[i], a->bytes[i]) != 0)
      return false;
  return a->code == b->code;
}

static bool same_result(const struct outcome *a, const struct outcome *b) {
  return a->bytes[0] == b->bytes[0] && memcmp(a->text[0], b->text[0], a->bytes[0]) == 0;
}

/* NULL, or what is wrong.  A search with a directory prints its result before it writes the report. */
static const char *judge(const struct outcome *whole, const struct outcome *o, long live, bool json,
                         bool report) {
  bool failed =
      o->code != whole->code; /* an answer may have status 1, as of a plan that does not fit */
  if (failed && o->code != PZ_EXIT_INTERNAL)
    return "it crashed, or its exit status is neither that without faults, nor 3";
  if (!failed && !same(whole, o)) return "the exit status of an answer, but not the whole output";
  if (failed && !strstr(o->text[1], "out of memory")) return "no 'out of memory' on stderr";
  if (failed && o->bytes[0] && json && !(report && same_result(whole, o)))
    return "an error, and a result";
  return live ? "not all memory was given back" : NULL;
}

/* NULL, or what is wrong with a directory in which a run failed: the same command is to finish it. */
static const char *judge_dir(struct faults *f, const int fd[2], const struct outcome *whole,
                             const char *page, const char *dir, int argc, char **argv) {
  size_t bytes = 0;
  struct faults before = {.n = f->n, .on = f->on};
  f->n = 0;
  struct outcome o = run(f, fd, argc, argv);
  char *again = page_of(dir, &bytes);
  const char *what = NULL;
  if (o.code != 0)
    what = "the same command does not go on with the directory";
  else if (!same_result(whole, &o))
    what = "the same command then comes to another answer";
  else if (!again != !page || (page && strcmp(again, page) != 0))
    what = "the same command then writes another report";
  if (what) printf("%s", o.text[1]);
  f->n = before.n;
  f->on = before.on;
  free(again);
  free(o.text[0]);
  free(o.text[1]);
  return what;
}

static long following(long n, long all, long most) {
  long edge = most / 4, between = all - 2 * edge, tries = most - 2 * edge;
  if (all <= most || n < edge || n >= all - edge) return n + 1;
  long next = n + (between + tries - 1) / tries;
  return next < all - edge ? next : all - edge;
}

enum { MOST_SHOWN = 20 };

/* What a command with faults is compared with, and the directory of its run. */
static struct {
  struct outcome whole;
  long all;
  bool json;
  const char *dir;
  int report_fd;
} want;

static void count(struct faults *f, const struct outcome *o, long live, const char *what) {
  if (what)
    dprintf(want.report_fd,
            "allocation %ld of %ld%s: %s (exit status %d, %zu of %zu bytes, %ld blocks): %s\n",
            f->n, want.all, f->on ? " and all after it" : "", what, o->code, o->bytes[0],
            want.whole.bytes[0], live, o->text[1]);
  f->bad += what != NULL;
  f->tried++;
  f->answers += !what && o->code == want.whole.code;
  free(o->text[0]);
  free(o->text[1]);
}

/* The child's counts are its own, its output begins with the parent's. */
static void become_child(struct faults *f, const int fd[2]) {
  struct faults own = *f;
  if (mmap(f, sizeof *f, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) !=
      f)
    abort();
  *f = own;
  for (int i = 0; i < 2; i++) dup2(fd[i], STDOUT_FILENO + i);
  alarm(60);
}

static bool fails_in_child(struct faults *f, long call) {
  if (gettid() != getpid()) abort();
  for (f->on = false; f->bad < MOST_SHOWN; f->on = true) {
    int status = 0, fd[2];
    for (int i = 0; i < 2; i++) {
      size_t bytes;
      char *before = read_back(STDOUT_FILENO + i, &bytes);
      fd[i] = memfd_create("child", 0);
      if (write(fd[i], before, bytes) != (ssize_t)bytes) abort();
      free(before);
    }
    f->n = call;
    pid_t child = fork();
    if (child == 0) return become_child(f, fd), true;
    if (child < 0 || waitpid(child, &status, 0) != child) abort();
    struct outcome o = outcome_of(status, fd);
    count(f, &o, *child_live, judge(&want.whole, &o, *child_live, want.json, false));
    for (int i = 0; i < 2; i++) close(fd[i]);
    if (f->on) break;
  }
  f->n = 0;
  return false;
}

static void try_some(struct faults *f, long most, const int fd[2], int argc, char **argv) {
  size_t page_bytes = 0;
  char *page = want.dir ? page_of(want.dir, &page_bytes) : NULL;
  for (int on = 0; on < 2; on++)
    for (long n = 1; n <= want.all && f->bad < MOST_SHOWN; n = following(n, want.all, most)) {
      f->n = n;
      f->on = on;
      empty(want.dir);
      struct outcome o = run(f, fd, argc, argv);
      long live = f->live;
      const char *what = judge(&want.whole, &o, live, want.json, want.dir);
      if (!what && want.dir) what = judge_dir(f, fd, &want.whole, page, want.dir, argc, argv);
      count(f, &o, live, what);
    }
  free(page);
}

static int try_all(struct faults *f, long most, int argc, char **argv) {
  const int fd[2] = {memfd_create("out", 0), memfd_create("err", 0)};
  want.dir = getenv("PHAZE_FAULT_DIR");
  want.json = strcmp(argv[argc - 1], "--json") == 0;
  want.report_fd = dup(STDOUT_FILENO);
  empty(want.dir);
  want.whole = run(f, fd, argc, argv);
  want.all = f->calls;
  if (want.whole.code < 0 || want.whole.code > 1 || f->live != 0 || want.all == 0) {
    printf("without faults: exit status %d, %ld blocks not given back\n%s", want.whole.code,
           (long)f->live, want.whole.text[1]);
    return 1;
  }
  if (most) {
    try_some(f, most, fd, argc, argv);
  } else {
    f->fork = one_thread = true;
    struct outcome o = run(f, fd, argc, argv);
    free(o.text[0]);
    free(o.text[1]);
    if (o.code != want.whole.code) printf("with forks: exit status %d\n", o.code);
    f->bad += o.code != want.whole.code;
  }
  printf("%ld allocations, %ld faults: %ld errors, %ld whole answers, %ld wrong\n", want.all,
         f->tried, f->tried - f->answers - f->bad, f->answers, f->bad);
  free(want.whole.text[0]);
  free(want.whole.text[1]);
  return f->bad != 0;
}

int main(int argc, char **argv) {
  const char *n = getenv("PHAZE_FAULT"), *on = getenv("PHAZE_FAULT_ON");
  struct faults *f =
      mmap(NULL, sizeof *f, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  child_live =
      mmap(NULL, sizeof *child_live, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (argc < 3 || f == MAP_FAILED || child_live == MAP_FAILED) return 2;
  *f = (struct faults){.n = n ? strtol(n, NULL, 10) : 0, .on = on && *on == '1'};
  long most = strtol(argv[1], NULL, 10);
  argv[1] = argv[0];
  if (n) return command(f, argc - 1, argv + 1);
  return try_all(f, most, argc - 1, argv + 1);
}
