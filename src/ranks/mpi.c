/* Ranks by MPI.  An exchange is two collective calls: the heads of all ranks, then their bytes.  A
 * rank that has ended, well or not, answers the others' exchanges once, with its head alone: so no
 * rank waits for one that failed.
 *
 * Waiting sleeps instead of polling at full speed, so that a rank that waits leaves its processor to
 * threads and processes that work; rounds take milliseconds to seconds, the naps at most one
 * millisecond. */
#define _GNU_SOURCE /* memfd_create, pidfd_open; NOLINT(bugprone-reserved-identifier) */

#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <limits.h>
#include <mpi.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/progress.h"
#include "core/ranks.h"
#include "ranks/start.h"

/* What a rank says before its bytes. */
struct head {
  uint32_t status, ended;
  uint64_t sequence, bytes;
  uint64_t cpu_ns; /* of the process since its last exchange, ... */
  uint64_t items_ns,
      most_ns; /* ... of items that any rank could take, and of the longest of them */
};

/* What the exchanges came to: seconds of processor time, summed over ranks, and along the longest
 * way.  That is, of each exchange, what a rank did beside items, at most, and what n items take that
 * are taken one after another by the next free rank: at most sum / R + (1 - 1 / R) longest (Graham,
 * 1966).  Unlike time on the clock, it does not contain what other programs take of the processors. */
struct counts {
  uint64_t exchanges, all_bytes;
  double cpu_s, longest_s, wait_s;
};

static struct {
  bool started; /* MPI is */
  bool agreed;  /* all ranks know that the job ends: nothing more is exchanged */
  bool broken;  /* another rank does not answer */
  bool verbose;
  int error_fd; /* the true stderr, also on ranks that are silent */
  const atomic_bool *stop;
  struct pz_error failed; /* what ended this rank's command */
  struct head *heads;     /* by rank */
  int *bytes, *offset;
  uint64_t sequence;
  MPI_Win window;          /* of a node's ranks: ... */
  _Atomic uint64_t *taken; /* ... items of a rank's part from the front (upper half) and the back,
                              by rank and sequence */
  unsigned first_rank, node_rank, node_size; /* of the node, of this rank in it */
  struct timespec cpu;
  _Atomic uint64_t items_ns, most_ns; /* of this round, as in its head */
  double start_s;
  struct counts counts;
  struct pz_ranks ranks;
} job;

const char *pz_ranks_library(void) {
  static char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int n = 0;
  MPI_Get_library_version(text, &n);
  text[strcspn(text, ",\n")] = '\0';
  if (strncmp(text, "Open MPI v", 10) == 0) memmove(text + 9, text + 10, strlen(text + 10) + 1);
  return text;
}

void pz_ranks_watch(const atomic_bool *stop) { job.stop = stop; }
void pz_ranks_verbose(void) { job.verbose = true; }

void pz_ranks_failed(const struct pz_error *err) {
  if (job.failed.status == PZ_OK) job.failed = *err;
}

/* ---- waiting -------------------------------------------------------------------------------- */

static uint64_t cpu_ns_since(struct timespec *last) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  int64_t ns = (int64_t)(now.tv_sec - last->tv_sec) * 1000000000 + (now.tv_nsec - last->tv_nsec);
  *last = now;
  return (uint64_t)ns;
}

/* False: a signal has come, and the others have not answered for a while after it. */
static bool wait_for(MPI_Request *request) {
  enum { POLLS = 200, LEAST_NS = 20000, MOST_NS = 1000000 };
  static const double PATIENCE_S = 0.5;
  double since = pz_clock_s(), stopped = 0;
  long nap = LEAST_NS;
  int done = 0;
  for (int i = 0;; i++) {
    MPI_Test(request, &done, MPI_STATUS_IGNORE);
    if (done) break;
    if (i < POLLS) continue;
    nanosleep(&(struct timespec){0, nap}, NULL);
    nap = nap * 2 < MOST_NS ? nap * 2 : MOST_NS;
    if (!job.stop || !atomic_load(job.stop)) continue;
    if (!(stopped > 0)) stopped = pz_clock_s();
    if (pz_clock_s() - stopped > PATIENCE_S) break;
  }
  job.counts.wait_s += pz_clock_s() - since;
  job.broken = !done;
  return done;
}

/* ---- exchanges ------------------------------------------------------------------------------ */

static enum pz_status silence(struct pz_error *err) {
  return pz_fail(err, PZ_STOPPED, "interrupted: another rank does not answer");
}

/* There is no way to tell the others: this ends the job. */
static void give_up(const char *why) {
  dprintf(job.error_fd, "phaze: rank %u: %s\n", job.ranks.rank, why);
  MPI_Abort(MPI_COMM_WORLD, 3);
}

static bool exchange_heads(const struct head *mine) {
  MPI_Request request;
  uint64_t beside = 0, items = 0, most = 0;
  MPI_Iallgather(mine, (int)sizeof *mine, MPI_BYTE, job.heads, (int)sizeof *mine, MPI_BYTE,
                 MPI_COMM_WORLD, &request);
  if (!wait_for(&request)) return false;
  for (unsigned r = 0; r < job.ranks.size; r++) {
    const struct head *h = &job.heads[r];
    uint64_t other = h->cpu_ns > h->items_ns ? h->cpu_ns - h->items_ns : 0;
    job.counts.cpu_s += (double)h->cpu_ns / 1e9;
    beside = other > beside ? other : beside;
    most = h->most_ns > most ? h->most_ns : most;
    items += h->items_ns;
  }
  double size = job.ranks.size;
  job.counts.longest_s +=
      ((double)beside + (double)items / size + (1 - 1 / size) * (double)most) / 1e9;
  return true;
}

/* All bytes behind one another, to be freed; NULL: the others do not answer. */
static char *exchange_bytes(const char *mine, size_t n) {
  MPI_Request request;
  uint64_t all = 0;
  for (unsigned r = 0; r < job.ranks.size; r++) {
    if (all + job.heads[r].bytes > INT_MAX) give_up("more than 2 GiB to exchange at once");
    job.bytes[r] = (int)job.heads[r].bytes;
    job.offset[r] = (int)all;
    all += job.heads[r].bytes;
  }
  char *text = pz_malloc(all + 1);
  if (!text) give_up("out of memory for what ranks exchange");
  job.counts.all_bytes += all;
  if (!all || !text) return text;
  MPI_Iallgatherv(mine ? mine : "", (int)n, MPI_BYTE, text, job.bytes, job.offset, MPI_BYTE,
                  MPI_COMM_WORLD, &request);
  if (wait_for(&request)) return text;
  return NULL; /* MPI may still write to it */
}

/* What the heads say: the first rank that failed, for all the same. */
static enum pz_status judge_heads(const char *text, struct pz_error *err) {
  bool ended = false;
  for (unsigned r = 0; r < job.ranks.size; r++) {
    const struct head *h = &job.heads[r];
    ended = ended || h->ended;
    if (h->status == PZ_OK) continue;
    job.agreed = true;
    if (h->status == PZ_STOPPED) return pz_fail(err, PZ_STOPPED, "stopped");
    if (!h->bytes) return pz_fail(err, (enum pz_status)h->status, "rank %u has failed", r);
    return pz_fail(err, (enum pz_status)h->status, r ? "rank %u: %.*s" : "%.0u%.*s", r,
                   job.bytes[r], text + job.offset[r]);
  }
  for (unsigned r = 0; r < job.ranks.size; r++)
    if (ended || job.heads[r].sequence != job.sequence)
      return job.agreed = true,
             pz_fail(err, PZ_INTERNAL, "ranks differ in what they do: all need the same program");
  return PZ_OK;
}

static enum pz_status exchange(void *ctx, const struct pz_ranks_part *mine, pz_ranks_take *take,
                               void *into, struct pz_error *err) {
  (void)ctx;
  if (job.agreed || job.broken) return silence(err);
  struct head head = {.status = mine->status,
                      .sequence = job.sequence,
                      .bytes = mine->n,
                      .cpu_ns = cpu_ns_since(&job.cpu),
                      .items_ns = atomic_exchange(&job.items_ns, 0),
                      .most_ns = atomic_exchange(&job.most_ns, 0)};
  job.counts.exchanges++;
  char *text = exchange_heads(&head) ? exchange_bytes(mine->bytes, mine->n) : NULL;
  if (!text) return silence(err);
  enum pz_status taken = PZ_OK;
  for (unsigned r = 0; r < job.ranks.size && taken == PZ_OK; r++) {
    const struct head *h = &job.heads[r];
    bool data = !h->ended && (h->status == PZ_OK || h->status == PZ_STOPPED);
    if (data && r != job.ranks.rank) taken = take(into, r, text + job.offset[r], h->bytes);
  }
  enum pz_status status = judge_heads(text, err);
  pz_free(text);
  /* all have ended this round; the next but one begins only after this rank's next exchange */
  atomic_store(&job.taken[2 * job.node_rank + job.sequence % 2], 0);
  job.sequence++;
  if (status == PZ_OK && taken != PZ_OK)
    status = pz_fail(err, taken,
                     taken == PZ_NO_MEMORY ? "out of memory for what ranks exchange"
                                           : "ranks differ in what they send");
  return status;
}

/* Time of an item of a thread: from its taking to that of the next. */
static void count_item(void) {
  static _Thread_local uint64_t since_ns;
  static _Thread_local uint64_t sequence = UINT64_MAX;
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  uint64_t now = (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec, took = now - since_ns;
  if (sequence == job.sequence) { /* not the first of the round */
    atomic_fetch_add(&job.items_ns, took);
    for (uint64_t most = atomic_load(&job.most_ns);
         took > most && !atomic_compare_exchange_weak(&job.most_ns, &most, took);)
      ;
  }
  since_ns = now;
  sequence = job.sequence;
}

/* The part of a round's order that is this rank's to begin with, or another's of its node. */
struct part {
  size_t first, n;
};

static struct part part_of(size_t n, unsigned node_rank) {
  size_t rank = job.first_rank + node_rank, size = job.ranks.size;
  size_t first = n * rank / size;
  return (struct part){first, n * (rank + 1) / size - first};
}

/* Take one from the front, or from the back, of a part of n; n: it is empty. */
static size_t take_from(unsigned node_rank, size_t n, bool back) {
  _Atomic uint64_t *taken = &job.taken[2 * node_rank + job.sequence % 2];
  uint64_t was = atomic_load(taken), front, behind;
  do {
    front = was >> 32;
    behind = was & UINT32_MAX;
    if (front + behind >= n) return n;
  } while (!atomic_compare_exchange_weak(taken, &was, was + (back ? 1 : UINT64_C(1) << 32)));
  return back ? n - 1 - behind : front;
}

static size_t left_of(unsigned node_rank, size_t n) {
  uint64_t was = atomic_load(&job.taken[2 * node_rank + job.sequence % 2]);
  uint64_t gone = (was >> 32) + (was & UINT32_MAX);
  return gone < n ? n - gone : 0;
}

/* This rank's own part from the front; then from the back of that of its node of which most is left. */
static size_t next_item(void *ctx, size_t n) {
  (void)ctx;
  count_item();
  struct part own = part_of(n, job.node_rank);
  size_t at = take_from(job.node_rank, own.n, false);
  if (at < own.n) return own.first + at;
  for (;;) {
    unsigned from = 0;
    size_t most = 0;
    for (unsigned r = 0; r < job.node_size; r++) {
      size_t left = left_of(r, part_of(n, r).n);
      if (left > most) most = left, from = r;
    }
    if (!most) return n;
    struct part other = part_of(n, from);
    at = take_from(from, other.n, true);
    if (at < other.n) return other.first + at;
  }
}

/* ---- beginning and end ---------------------------------------------------------------------- */

/* Of mpirun, or of a launcher such as srun that speaks PMIx.  mpirun reads stdout through a
 * terminal of its own, which is no reason for colours. */
static bool under_launcher(void) {
  const char *size = getenv("OMPI_COMM_WORLD_SIZE");
  if (size) setenv("NO_COLOR", "1", 1);
  return size ? atoi(size) > 1 : getenv("PMIX_RANK") != NULL;
}

static void be_silent(void) {
  int null = open("/dev/null", O_WRONLY);
  job.error_fd = dup(STDERR_FILENO);
  if (job.ranks.rank == 0 || null < 0) return;
  dup2(null, STDOUT_FILENO);
  dup2(null, STDERR_FILENO);
  close(null);
}

/* Ranks of a node count the items that they have taken in memory that they share.  Ranks of a node
 * follow one another, as mpirun maps them unless told otherwise; else each counts for itself. */
static void share_counters(void) {
  MPI_Comm node;
  MPI_Aint bytes;
  int unit, rank = 0, size = 1, least, most;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  for (int again = 0; again < 2; again++) {
    int mine = (int)job.ranks.rank;
    MPI_Comm_rank(node, &rank);
    MPI_Comm_size(node, &size);
    MPI_Allreduce(&mine, &least, 1, MPI_INT, MPI_MIN, node);
    MPI_Allreduce(&mine, &most, 1, MPI_INT, MPI_MAX, node);
    if (most - least == size - 1) break;
    MPI_Comm_free(&node);
    MPI_Comm_dup(MPI_COMM_SELF, &node);
  }
  job.first_rank = (unsigned)least;
  job.node_rank = (unsigned)rank;
  job.node_size = (unsigned)size;
  MPI_Win_allocate_shared(rank ? 0 : 2 * size * (MPI_Aint)sizeof *job.taken, 1, MPI_INFO_NULL, node,
                          &job.taken, &job.window);
  MPI_Win_shared_query(job.window, 0, &bytes, &unit, &job.taken);
  for (int i = 0; i < 2; i++) atomic_init(&job.taken[2 * rank + i], 0);
  MPI_Barrier(node);
  MPI_Comm_free(&node);
}

/* ---- memory of a node ----------------------------------------------------------------------- */

/* Memory of the first rank of a node, for the others of the node: a file without a name, so that nothing is left however
 * that rank ends.  Process 0: none. */
struct node_memory {
  int64_t process, file;
  uint64_t inode;
};

/* Space is taken at once: memory that is short later would end the program. */
static void *make_memory(size_t bytes, int *fd, struct node_memory *mine) {
  struct stat st;
  *fd = memfd_create("phaze", MFD_CLOEXEC);
  if (*fd < 0 || posix_fallocate(*fd, 0, (off_t)bytes) != 0 || fstat(*fd, &st) != 0) return NULL;
  void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
  if (at == MAP_FAILED) return NULL;
  *mine = (struct node_memory){getpid(), *fd, st.st_ino};
  return at;
}

/* The inode tells it from a file of another process, where ranks see processes under different numbers. */
static void *open_memory(size_t bytes, const struct node_memory *first) {
  char path[64];
  struct stat st;
  void *at = MAP_FAILED;
  snprintf(path, sizeof path, "/proc/%lld/fd/%lld", (long long)first->process,
           (long long)first->file);
  int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return NULL;
  if (fstat(fd, &st) == 0 && st.st_ino == first->inode && st.st_size == (off_t)bytes)
    at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  return at == MAP_FAILED ? NULL : at;
}

static enum pz_status take_memory(void *into, unsigned rank, const char *bytes, size_t n) {
  if (rank == job.first_rank && n == sizeof(struct node_memory)) memcpy(into, bytes, n);
  return PZ_OK;
}

static enum pz_status take_nothing(void *into, unsigned rank, const char *bytes, size_t n) {
  (void)into, (void)rank, (void)bytes, (void)n;
  return PZ_OK;
}

/* A rank that cannot have it goes without. */
static enum pz_status share_memory(void *ctx, size_t bytes, void **out, struct pz_error *err) {
  struct node_memory of_node = {.process = 0};
  bool first = !job.node_rank && job.node_size > 1;
  int fd = -1;
  *out = first ? make_memory(bytes, &fd, &of_node) : NULL;
  struct pz_ranks_part mine = {PZ_OK, (const char *)&of_node, first ? sizeof of_node : 0};
  enum pz_status status = exchange(ctx, &mine, take_memory, &of_node, err);
  if (status == PZ_OK && job.node_rank && of_node.process) *out = open_memory(bytes, &of_node);
  if (status == PZ_OK)
    status = exchange(ctx, &(struct pz_ranks_part){PZ_OK, NULL, 0}, take_nothing, NULL, err);
  if (fd >= 0) close(fd);
  return status;
}

/* ---- the end of mpirun ---------------------------------------------------------------------- */

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *at) {
  (void)st, (void)kind, (void)at;
  (void)remove(path);
  return 0;
}

/* What Open MPI leaves if mpirun, which would remove it, is killed: the folder of the session, and the shared memory of
 * the job's ranks.  For a second, in which ranks that are just starting may still write there. */
static void remove_session(const char *session) {
  char pattern[128];
  const char *space = getenv("PMIX_NAMESPACE");
  snprintf(pattern, sizeof pattern, "/dev/shm/vader_segment.*.%u.%lx.*", (unsigned)geteuid(),
           space ? strtoul(space, NULL, 10) : 0);
  for (int i = 0; i < 20; i++) {
    glob_t found;
    (void)nftw(session, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    if (glob(pattern, 0, NULL, &found) == 0) {
      for (size_t k = 0; k < found.gl_pathc; k++) (void)unlink(found.gl_pathv[k]);
      globfree(&found);
    }
    nanosleep(&(struct timespec){0, 50000000}, NULL);
  }
}

/* A rank does not outlive mpirun: nobody would read its answer.  The run file is as after any kill.  Open MPI itself ends
 * ranks some seconds later, and also those that something else than mpirun has started. */
static void *watch_mpirun(void *session) {
  char own[32];
  pid_t parent = getppid();
  size_t n = strlen(session), m = (size_t)snprintf(own, sizeof own, "/pid.%ld", (long)parent);
  if (n < m || strcmp((const char *)session + n - m, own) != 0) return NULL;
  struct pollfd end = {.fd = (int)syscall(SYS_pidfd_open, parent, 0), .events = POLLIN};
  if (end.fd < 0 || getppid() != parent) return NULL;
  while (poll(&end, 1, -1) < 0) {
  }
  if (fork() == 0) remove_session(session); /* a process of its own: Open MPI may end this one */
  _exit(3);
}

static void start_watch(void) {
  char *session = getenv("OMPI_MCA_orte_jobfam_session_dir");
  pthread_t thread;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the thread that works */
  if (session && pthread_create(&thread, NULL, watch_mpirun, session) == 0) pthread_detach(thread);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

enum pz_status pz_ranks_start(struct pz_error *err) {
  int rank = 0, size = 1, threads = 0;
  if (!under_launcher()) return PZ_OK;
  start_watch();
  if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &threads) != MPI_SUCCESS)
    return pz_fail(err, PZ_INTERNAL, "MPI does not start");
  job.started = true;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  job.ranks = (struct pz_ranks){.rank = (unsigned)rank,
                                .size = (unsigned)size,
                                .next = next_item,
                                .exchange = exchange,
                                .shared = share_memory};
  be_silent();
  job.heads = pz_calloc((size_t)size, sizeof *job.heads);
  job.bytes = pz_calloc((size_t)size, sizeof *job.bytes);
  job.offset = pz_calloc((size_t)size, sizeof *job.offset);
  if (!job.heads || !job.bytes || !job.offset) give_up("out of memory for the ranks");
  job.start_s = pz_clock_s();
  cpu_ns_since(&job.cpu);
  if (size > 1) {
    share_counters();
    pz_ranks_use(&job.ranks);
  }
  return PZ_OK;
}

static void tell_counts(void) {
  const struct counts *c = &job.counts;
  double whole = c->longest_s * job.ranks.size, s = pz_clock_s() - job.start_s;
  fprintf(stderr,
          "phaze: %u ranks: %llu exchanges, %llu bytes in all; processor time %.3f s, along the "
          "longest way at most %.3f s, idle share at most %.4f; rank 0: %.3f s, of them %.3f s "
          "waiting\n",
          job.ranks.size, (unsigned long long)c->exchanges, (unsigned long long)c->all_bytes,
          c->cpu_s, c->longest_s, whole > 0 ? 1 - c->cpu_s / whole : 0, s, c->wait_s);
}

/* Others may be in the middle of a round: they learn that this rank has ended. */
static void part_from_others(int code) {
  const struct pz_error *failed = &job.failed;
  bool bad = code != 0 && failed->status != PZ_OK;
  struct head head = {.status = bad           ? (uint32_t)failed->status
                                : code == 130 ? (uint32_t)PZ_STOPPED
                                : code > 1    ? (uint32_t)PZ_BAD_USE
                                              : (uint32_t)PZ_OK,
                      .ended = 1,
                      .sequence = job.sequence,
                      .bytes = bad ? strlen(failed->message) : 0,
                      .cpu_ns = cpu_ns_since(&job.cpu)};
  if (exchange_heads(&head)) pz_free(exchange_bytes(failed->message, head.bytes));
}

int pz_ranks_end(int code) {
  if (!job.started) return code;
  pz_ranks_use(NULL);
  if (job.ranks.size > 1 && !job.agreed && !job.broken) part_from_others(code);
  if (job.verbose && job.ranks.rank == 0 && job.ranks.size > 1) tell_counts();
  fflush(NULL);
  if (job.broken) _exit(code);
  pz_free(job.heads);
  pz_free(job.bytes);
  pz_free(job.offset);
  if (job.ranks.size > 1) MPI_Win_free(&job.window);
  MPI_Finalize();
  return job.ranks.rank ? 0 : code;
}
