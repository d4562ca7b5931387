/* Ranks by MPI: the transport of core/ranks.h.
 *
 * An exchange (exchange) is two collective calls: the heads of all ranks, which contain sizes and
 * statuses, and then their bytes.  A rank whose command has ended, with or without an error, answers
 * the next exchange of the others once (pz_ranks_end), so that no rank waits for a failed one.
 * Waiting ranks sleep instead of polling, so that they leave their processors to threads and
 * processes that work; rounds take milliseconds to seconds, and the naps at most one millisecond.
 *
 * The items of a round (next_item) are divided into one part for each rank.  A rank works through
 * its own part from the front, and then helps the ranks of its node from the back of theirs.  The
 * counters of a node's ranks are in shared memory.
 *
 * Sections: waiting, exchanges, items, memory of a node, the end of mpirun, start and end. */
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
#include "core/num.h"
#include "core/progress.h"
#include "core/ranks.h"
#include "ranks/start.h"

/* The first message of a rank in an exchange.  Times are processor times. */
struct head {
  uint32_t status;          /* enum pz_status of the rank */
  uint32_t has_ended;       /* the command of the rank has ended: this is its last exchange */
  uint64_t sequence;        /* the number of the exchange, counted from 0 */
  uint64_t bytes;           /* the length of its second message */
  uint64_t cpu_ns;          /* time of the process since its last exchange */
  uint64_t items_ns;        /* time of the items that this rank has worked on in the round */
  uint64_t longest_item_ns; /* the time of the longest of these items */
};

/* Statistics of all exchanges for --verbose.  critical_s bounds the time that R ranks need without
 * waiting for processors: for each exchange, the longest time that a rank spent outside of items,
 * plus the time in which R ranks complete n items that are begun in order by the next free rank,
 * which is at most sum / R + (1 - 1 / R) longest (Graham, 1966). */
struct counts {
  uint64_t exchanges, bytes;
  double cpu_s, critical_s, wait_s;
};

static struct {
  bool is_started;         /* MPI was initialized */
  bool all_know_end;       /* all ranks know that the job ends: there are no further exchanges */
  bool is_broken;          /* another rank does not answer */
  bool is_verbose;         /* pz_ranks_end() prints the counts */
  int error_fd;            /* the original stderr, also on ranks that do not print */
  const atomic_bool *stop; /* becomes true when a signal arrives; may be NULL */
  struct pz_error failure; /* the error that ended the command of this rank */
  struct head *heads;      /* of the current exchange, indexed by rank */
  int *part_bytes, *part_offset; /* bytes of the current exchange, indexed by rank */
  uint64_t sequence;             /* the number of the next exchange */
  unsigned first_rank_of_node, rank_in_node, ranks_of_node;
  MPI_Win counters_window;
  /* Shared by the ranks of a node: for each rank, two counters for the rounds with an even and an
   * odd sequence number.  The upper half of a counter counts the items begun from the front of the
   * rank's part, the lower half those from its back. */
  _Atomic uint64_t *begun_items;
  struct timespec cpu_time;                   /* processor time at the last exchange */
  _Atomic uint64_t items_ns, longest_item_ns; /* of the current round, as in struct head */
  double start_s;
  struct counts counts;
  struct pz_ranks ranks;
} job;

/* Returns the name and version of the MPI library, such as "Open MPI 4.1.4". */
const char *pz_ranks_library(void) {
  static char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int n = 0;
  MPI_Get_library_version(text, &n);
  text[strcspn(text, ",\n")] = '\0';
  if (strncmp(text, "Open MPI v", 10) == 0) memmove(text + 9, text + 10, strlen(text + 10) + 1);
  return text;
}

/* Registers a flag that becomes true when a signal arrives. */
void pz_ranks_watch(const atomic_bool *stop) { job.stop = stop; }
void pz_ranks_verbose(void) { job.is_verbose = true; }

/* Records the first error of this rank, which pz_ranks_end() sends to the others. */
void pz_ranks_failed(const struct pz_error *err) {
  if (job.failure.status == PZ_OK) job.failure = *err;
}

/* ---- waiting -------------------------------------------------------------------------------- */

/* Returns the nanoseconds of processor time that the process used since *last, and sets *last to the
 * processor time now. */
static uint64_t cpu_ns_since(struct timespec *last) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  int64_t ns = (int64_t)(now.tv_sec - last->tv_sec) * 1000000000 + (now.tv_nsec - last->tv_nsec);
  *last = now;
  return (uint64_t)ns;
}

/* Waits for a collective call, in naps of growing length after some polls.  Returns false if the
 * other ranks have not answered within PATIENCE_S after a signal. */
static bool wait_for(MPI_Request *request) {
  enum { POLLS = 200, SHORTEST_NAP_NS = 20000, LONGEST_NAP_NS = 1000000 };
  static const double PATIENCE_S = 0.5;
  double start_s = pz_clock_s(), signal_s = 0; /* 0: no signal was seen */
  long nap_ns = SHORTEST_NAP_NS;
  int done = 0;
  for (int i = 0;; i++) {
    MPI_Test(request, &done, MPI_STATUS_IGNORE);
    if (done) break;
    if (i < POLLS) continue;
    nanosleep(&(struct timespec){0, nap_ns}, NULL);
    nap_ns = nap_ns * 2 < LONGEST_NAP_NS ? nap_ns * 2 : LONGEST_NAP_NS;
    if (!job.stop || !atomic_load(job.stop)) continue;
    if (!(signal_s > 0)) signal_s = pz_clock_s();
    if (pz_clock_s() - signal_s > PATIENCE_S) break;
  }
  job.counts.wait_s += pz_clock_s() - start_s;
  job.is_broken = !done;
  return done;
}

/* Ends all ranks at once, with exit status 3, where there is no way to send them an error. */
static void abort_job(const char *reason) {
  dprintf(job.error_fd, "phaze: rank %u: %s\n", job.ranks.rank, reason);
  MPI_Abort(MPI_COMM_WORLD, 3);
}

/* ---- exchanges ------------------------------------------------------------------------------ */

/* Sends the head of this rank, receives the heads of all ranks in job.heads, and adds their times
 * to the statistics.  Returns false if the other ranks do not answer. */
static bool exchange_heads(const struct head *own_head) {
  MPI_Request request;
  uint64_t longest_outside = 0, items = 0, longest_item = 0;
  MPI_Iallgather(own_head, (int)sizeof *own_head, MPI_BYTE, job.heads, (int)sizeof *own_head,
                 MPI_BYTE, MPI_COMM_WORLD, &request);
  if (!wait_for(&request)) return false;
  for (unsigned r = 0; r < job.ranks.size; r++) {
    const struct head *head = &job.heads[r];
    uint64_t outside = head->cpu_ns > head->items_ns ? head->cpu_ns - head->items_ns : 0;
    job.counts.cpu_s += (double)head->cpu_ns / 1e9;
    if (outside > longest_outside) longest_outside = outside;
    if (head->longest_item_ns > longest_item) longest_item = head->longest_item_ns;
    items += head->items_ns;
  }
  double size = job.ranks.size;
  job.counts.critical_s +=
      ((double)longest_outside + (double)items / size + (1 - 1 / size) * (double)longest_item) /
      1e9;
  return true;
}

/* Sends n bytes and returns the bytes of all ranks, concatenated.  The caller frees them with
 * pz_free().  Returns NULL if the other ranks do not answer. */
static char *exchange_bytes(const char *own, size_t n) {
  MPI_Request request;
  uint64_t total = 0;
  for (unsigned r = 0; r < job.ranks.size; r++) {
    if (total + job.heads[r].bytes > INT_MAX) abort_job("more than 2 GiB to exchange at once");
    job.part_bytes[r] = (int)job.heads[r].bytes;
    job.part_offset[r] = (int)total;
    total += job.heads[r].bytes;
  }
  char *parts = pz_malloc(total + 1);
  if (!parts) abort_job("out of memory for what ranks exchange");
  job.counts.bytes += total;
  if (!total || !parts) return parts;
  MPI_Iallgatherv(own ? own : "", (int)n, MPI_BYTE, parts, job.part_bytes, job.part_offset,
                  MPI_BYTE, MPI_COMM_WORLD, &request);
  if (wait_for(&request)) return parts;
  return NULL; /* not freed, because MPI may still write to it */
}

/* Raises the error of the lowest rank that has one, or an error if a rank has ended or is at
 * another exchange.  The messages of the ranks are in `parts`. */
static void raise_error_of_ranks(struct pz_call *call, const char *parts,
                                 const struct pz_error *own_error) {
  bool in_step = true; /* all ranks are at the same exchange */
  for (unsigned r = 0; r < job.ranks.size; r++) {
    const struct head *head = &job.heads[r];
    enum pz_status status = (enum pz_status)head->status;
    if (head->has_ended || head->sequence != job.sequence) in_step = false;
    if (status == PZ_OK) continue;
    job.all_know_end = true; /* all ranks have received the same heads */
    if (status == PZ_STOPPED) pz_raise(call, PZ_STOPPED, "stopped");
    if (r == job.ranks.rank) pz_raise_again(call, own_error);
    if (!head->bytes) pz_raise(call, status, "rank %u has failed", r);
    const char *message = parts + job.part_offset[r];
    if (r == 0) pz_raise(call, status, "%.*s", job.part_bytes[r], message);
    pz_raise(call, status, "rank %u: %.*s", r, job.part_bytes[r], message);
  }
  if (in_step) return;
  job.all_know_end = true;
  pz_raise(call, PZ_INTERNAL, "ranks differ in what they do: all need the same program");
}

/* The bytes of an exchange, and the function that receives them on this rank. */
struct reception {
  pz_ranks_receive *receive; /* NULL if nothing is received */
  void *receiver;
  const char *parts;
};

/* Passes the bytes of each other rank to the function that receives them, in the order of the ranks. */
static void receive_parts(struct pz_call *call, void *ctx) {
  const struct reception *reception = ctx;
  for (unsigned r = 0; r < job.ranks.size && reception->receive; r++) {
    const struct head *head = &job.heads[r];
    bool has_data = !head->has_ended && (head->status == PZ_OK || head->status == PZ_STOPPED);
    if (has_data && r != job.ranks.rank)
      reception->receive(call, reception->receiver, r, reception->parts + job.part_offset[r],
                         head->bytes);
  }
}

/* Sends the bytes or the error of this rank to all others, and passes theirs to `receive`, as struct
 * pz_ranks requires.  Raises the error of the lowest rank that has one. */
static void exchange(struct pz_call *call, void *ctx, const struct pz_ranks_part *own,
                     pz_ranks_receive *receive, void *receiver) {
  static const struct pz_error no_error = {.status = PZ_OK};
  const struct pz_error *own_error = own->error ? own->error : &no_error;
  bool sends_message = own_error->status != PZ_OK && own_error->status != PZ_STOPPED;
  const char *bytes = sends_message ? own_error->message : own->bytes;
  size_t n = sends_message ? strlen(own_error->message) : own->n;
  (void)ctx;
  bool answered = !job.all_know_end && !job.is_broken; /* otherwise no rank would answer */
  struct head head = {.status = own_error->status,
                      .sequence = job.sequence,
                      .bytes = n,
                      .cpu_ns = cpu_ns_since(&job.cpu_time),
                      .items_ns = atomic_exchange(&job.items_ns, 0),
                      .longest_item_ns = atomic_exchange(&job.longest_item_ns, 0)};
  job.counts.exchanges += answered;
  answered = answered && exchange_heads(&head);
  char *parts = answered ? exchange_bytes(bytes, n) : NULL;
  if (!parts) pz_raise(call, PZ_STOPPED, "interrupted: another rank does not answer");
  pz_defer(call, pz_free, parts);
  struct pz_error refusal = {0};
  struct reception reception = {receive, receiver, parts};
  enum pz_status received = pz_border(receive_parts, &reception, &refusal);
  raise_error_of_ranks(call, parts, own_error);
  pz_close(call, parts);
  /* All ranks have ended this round, so that its counter can be reset for the round after the next,
   * which begins only after this rank's next exchange. */
  atomic_store(&job.begun_items[2 * job.rank_in_node + job.sequence % 2], 0);
  job.sequence++;
  pz_raise_if_memory(call, &refusal);
  if (received != PZ_OK)
    pz_raise(call, received, "ranks differ in what they send: %s", refusal.message);
}

/* ---- items ---------------------------------------------------------------------------------- */

/* Consecutive items of a round, with which one rank begins. */
struct part {
  size_t first, n;
};

/* Returns the part of a rank of this node in a round of n items. */
static struct part part_of_rank(size_t n, unsigned rank_in_node) {
  size_t rank = job.first_rank_of_node + rank_in_node, size = job.ranks.size;
  size_t first = n * rank / size;
  return (struct part){first, n * (rank + 1) / size - first};
}

/* Claims one of the n items of a rank, so that no other rank works on it: the next one from the
 * front, or if at_back is set, from the back.  Returns its index among them, or n if all have been
 * claimed before.  Other ranks change the counter at the same time, hence the compare-exchange. */
static size_t begin_item(unsigned rank_in_node, size_t n, bool at_back) {
  _Atomic uint64_t *begun = &job.begun_items[2 * rank_in_node + job.sequence % 2];
  uint64_t counter = atomic_load(begun), increment = at_back ? 1 : UINT64_C(1) << 32;
  uint64_t from_front, from_back;
  do {
    from_front = counter >> 32;
    from_back = counter & UINT32_MAX;
    if (from_front + from_back >= n) return n; /* the two ends have met */
  } while (!atomic_compare_exchange_weak(begun, &counter, counter + increment));
  return at_back ? n - 1 - from_back : from_front;
}

/* Returns a work item of a round of n items that no rank has begun, or n if there is none: the next
 * one of this rank's part, or else one from the back of the rank of this node with most items left.
 * The call also ends the thread's last item, whose processor time counts for the statistics. */
static size_t next_item(void *ctx, size_t n) {
  (void)ctx;
  /* when the last item of this thread began: processor time, and number of the round */
  static _Thread_local uint64_t since_ns;
  static _Thread_local uint64_t sequence = UINT64_MAX;
  struct timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  uint64_t now_ns = (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
  uint64_t item_ns = now_ns - since_ns, longest_ns = atomic_load(&job.longest_item_ns);
  if (sequence == job.sequence) {
    atomic_fetch_add(&job.items_ns, item_ns);
    while (item_ns > longest_ns && /* raise the longest time, which other threads raise as well */
           !atomic_compare_exchange_weak(&job.longest_item_ns, &longest_ns, item_ns)) {
    }
  }
  since_ns = now_ns;
  sequence = job.sequence;
  struct part own_part = part_of_rank(n, job.rank_in_node);
  size_t item = begin_item(job.rank_in_node, own_part.n, false); /* from the front */
  if (item < own_part.n) return own_part.first + item;
  for (;;) { /* until an item is claimed, or none is left on the node */
    unsigned slowest = 0;
    size_t most_left = 0;
    for (unsigned r = 0; r < job.ranks_of_node; r++) {
      uint64_t counter = atomic_load(&job.begun_items[2 * r + job.sequence % 2]);
      uint64_t begun = (counter >> 32) + (counter & UINT32_MAX);
      size_t n_part = part_of_rank(n, r).n, left = begun < n_part ? n_part - begun : 0;
      if (left > most_left) {
        most_left = left;
        slowest = r;
      }
    }
    if (!most_left) return n;
    struct part helped = part_of_rank(n, slowest);
    item = begin_item(slowest, helped.n, true); /* from the back */
    if (item < helped.n) return helped.first + item;
  }
}

/* Makes the counters of begun items in memory that the ranks of a node share.  The ranks of a node
 * have consecutive numbers, as mpirun assigns them unless it is told otherwise; if not, each rank
 * has counters of its own. */
static void share_counters(void) {
  MPI_Comm node;
  MPI_Aint bytes;
  int unit, rank = 0, size = 1, lowest, highest;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  /* the second attempt is with a communicator of this rank alone */
  for (int attempt = 0; attempt < 2; attempt++) {
    int own_rank = (int)job.ranks.rank;
    MPI_Comm_rank(node, &rank);
    MPI_Comm_size(node, &size);
    MPI_Allreduce(&own_rank, &lowest, 1, MPI_INT, MPI_MIN, node);
    MPI_Allreduce(&own_rank, &highest, 1, MPI_INT, MPI_MAX, node);
    if (highest - lowest == size - 1) break; /* consecutive ranks */
    MPI_Comm_free(&node);
    MPI_Comm_dup(MPI_COMM_SELF, &node);
  }
  job.first_rank_of_node = (unsigned)lowest;
  job.rank_in_node = (unsigned)rank;
  job.ranks_of_node = (unsigned)size;
  MPI_Win_allocate_shared(rank ? 0 : 2 * size * (MPI_Aint)sizeof *job.begun_items, 1, MPI_INFO_NULL,
                          node, &job.begun_items, &job.counters_window);
  MPI_Win_shared_query(job.counters_window, 0, &bytes, &unit, &job.begun_items);
  for (int i = 0; i < 2; i++) atomic_init(&job.begun_items[2 * rank + i], 0);
  MPI_Barrier(node);
  MPI_Comm_free(&node);
}

/* ---- memory of a node ----------------------------------------------------------------------- */

/* Identifies memory that the first rank of a node has made for the others: a file without a name,
 * so that nothing is left however that rank ends. */
struct node_memory {
  int64_t process, fd; /* process 0 stands for no memory */
  uint64_t inode;
};

/* Maps the memory of the first rank.  Returns NULL if that is impossible, or if the inode shows
 * that the file belongs to another process, because ranks in containers see processes under
 * different numbers. */
static void *open_memory(size_t bytes, const struct node_memory *memory) {
  char path[64];
  struct stat file_state;
  void *address = MAP_FAILED;
  snprintf(path, sizeof path, "/proc/%lld/fd/%lld", (long long)memory->process,
           (long long)memory->fd);
  int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return NULL;
  if (fstat(fd, &file_state) == 0 && file_state.st_ino == memory->inode &&
      file_state.st_size == (off_t)bytes)
    address = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  return address == MAP_FAILED ? NULL : address;
}

/* Receives the struct node_memory of the first rank of this node. */
static void receive_memory(struct pz_call *call, void *receiver, unsigned rank, const char *bytes,
                           size_t n) {
  (void)call;
  if (rank == job.first_rank_of_node && n == sizeof(struct node_memory)) memcpy(receiver, bytes, n);
}

/* Closes a file descriptor unless it is negative. */
static void close_memory_file(void *fd) {
  if (*(int *)fd >= 0) close(*(int *)fd);
}

/* Returns memory that the ranks of a node share (struct pz_ranks), or NULL where that is
 * impossible.  The first rank of the node makes a file in memory, and the others open and map it.
 * It is closed after a second exchange, when all have opened it. */
static void *share_memory(struct pz_call *call, void *ctx, size_t bytes) {
  struct node_memory memory = {.process = 0};
  bool makes_memory = !job.rank_in_node && job.ranks_of_node > 1;
  int *fd = pz_alloc(call, 1, sizeof *fd);
  *fd = -1;
  pz_defer(call, close_memory_file, fd);
  void *memory_address = NULL;
  if (makes_memory) {
    /* the pages are allocated at once, because a shortage later would end the program */
    struct stat file_state;
    *fd = memfd_create("phaze", MFD_CLOEXEC);
    bool made =
        *fd >= 0 && posix_fallocate(*fd, 0, (off_t)bytes) == 0 && fstat(*fd, &file_state) == 0;
    void *address = MAP_FAILED;
    if (made) address = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
    if (address != MAP_FAILED) {
      memory = (struct node_memory){getpid(), *fd, file_state.st_ino};
      memory_address = address;
    }
  }
  struct pz_ranks_part own = {.bytes = (const char *)&memory,
                              .n = makes_memory ? sizeof memory : 0};
  exchange(call, ctx, &own, receive_memory, &memory);
  if (job.rank_in_node && memory.process) memory_address = open_memory(bytes, &memory);
  exchange(call, ctx, &(struct pz_ranks_part){.n = 0}, NULL, NULL);
  pz_close(call, fd);
  return memory_address;
}

/* ---- the end of mpirun ---------------------------------------------------------------------- */

/* Removes a file or an empty folder (nftw()). */
static int remove_entry(const char *path, const struct stat *file_state, int kind, struct FTW *at) {
  (void)file_state, (void)kind, (void)at;
  (void)remove(path);
  return 0;
}

/* Removes the files that mpirun would remove if it were not killed: the session folder of Open MPI,
 * and the shared memory of the job's ranks.  Repeats this for a second, in which ranks that are
 * just starting may still write there. */
static void remove_session(const char *session) {
  char pattern[128];
  const char *job_id = getenv("PMIX_NAMESPACE");
  snprintf(pattern, sizeof pattern, "/dev/shm/vader_segment.*.%u.%lx.*", (unsigned)geteuid(),
           job_id ? strtoul(job_id, NULL, 10) : 0);
  for (int i = 0; i < 20; i++) { /* for a second */
    glob_t found;
    (void)nftw(session, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    if (glob(pattern, 0, NULL, &found) == 0) {
      for (size_t k = 0; k < found.gl_pathc; k++) (void)unlink(found.gl_pathv[k]);
      globfree(&found);
    }
    nanosleep(&(struct timespec){0, 50000000}, NULL);
  }
}

/* Ends this rank when mpirun ends, because nobody would read its answer; Open MPI itself does so
 * only some seconds later.  `session` is Open MPI's folder of the job, whose path ends in "/pid."
 * and the process number of mpirun.  Returns if the parent process is not mpirun. */
static void *watch_mpirun(void *session) {
  char suffix[32];
  pid_t parent = getppid();
  size_t n = strlen(session);
  size_t n_suffix = (size_t)snprintf(suffix, sizeof suffix, "/pid.%ld", (long)parent);
  bool is_mpirun = n >= n_suffix && strcmp((const char *)session + n - n_suffix, suffix) == 0;
  if (!is_mpirun) return NULL;
  struct pollfd parent_end = {.fd = (int)syscall(SYS_pidfd_open, parent, 0), .events = POLLIN};
  if (parent_end.fd < 0 || getppid() != parent) return NULL;
  while (poll(&parent_end, 1, -1) < 0) { /* waits until mpirun ends; a signal may interrupt it */
  }
  if (fork() == 0) remove_session(session); /* a process of its own: Open MPI may end this one */
  _exit(3);                                 /* as abort_job() */
}

/* ---- start and end -------------------------------------------------------------------------- */

/* Starts MPI and the transport between ranks if a launcher has started this process. */
void pz_ranks_start(struct pz_call *call, void *unused) {
  int rank = 0, size = 1, threads = 0;
  (void)unused;
  /* mpirun sets OMPI_COMM_WORLD_SIZE, and a launcher that speaks PMIx, such as srun, PMIX_RANK.
   * mpirun reads stdout through a terminal of its own, which is no reason for colours. */
  const char *world_size = getenv("OMPI_COMM_WORLD_SIZE");
  if (world_size) setenv("NO_COLOR", "1", 1);
  bool is_under_launcher = world_size ? atoi(world_size) > 1 : getenv("PMIX_RANK") != NULL;
  if (!is_under_launcher) return;
  char *session = getenv("OMPI_MCA_orte_jobfam_session_dir");
  pthread_t thread;
  sigset_t every_signal, before;
  sigfillset(&every_signal);
  pthread_sigmask(SIG_SETMASK, &every_signal, &before); /* the new thread shall get none */
  if (session && pthread_create(&thread, NULL, watch_mpirun, session) == 0) pthread_detach(thread);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &threads) != MPI_SUCCESS)
    pz_raise(call, PZ_INTERNAL, "MPI does not start");
  job.is_started = true;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  job.ranks = (struct pz_ranks){.rank = (unsigned)rank,
                                .size = (unsigned)size,
                                .next_item = next_item,
                                .exchange = exchange,
                                .shared_memory = share_memory};
  int null = open("/dev/null", O_WRONLY);
  job.error_fd = dup(STDERR_FILENO);
  if (rank > 0 && null >= 0) { /* only rank 0 prints */
    dup2(null, STDOUT_FILENO);
    dup2(null, STDERR_FILENO);
    close(null);
  }
  job.heads = pz_calloc((size_t)size, sizeof *job.heads);
  job.part_bytes = pz_calloc((size_t)size, sizeof *job.part_bytes);
  job.part_offset = pz_calloc((size_t)size, sizeof *job.part_offset);
  if (!job.heads || !job.part_bytes || !job.part_offset) abort_job("out of memory for the ranks");
  job.start_s = pz_clock_s();
  cpu_ns_since(&job.cpu_time);
  if (size > 1) {
    share_counters();
    pz_ranks_use(&job.ranks);
  }
}

/* Tells the other ranks that this one has ended, and ends MPI.  Returns the exit status. */
int pz_ranks_end(int code) {
  if (!job.is_started) return code;
  pz_ranks_use(NULL);
  if (job.ranks.size > 1 && !job.all_know_end && !job.is_broken) {
    /* answer the next exchange of the other ranks, which may be in the middle of a round */
    bool has_error = code != 0 && job.failure.status != PZ_OK;
    enum pz_status status = PZ_OK;
    if (has_error)
      status = job.failure.status;
    else if (code == 128 + SIGINT) /* the exit status after an interrupt */
      status = PZ_STOPPED;
    else if (code > 1) /* an error without a message */
      status = PZ_BAD_USE;
    struct head head = {.status = status,
                        .has_ended = 1,
                        .sequence = job.sequence,
                        .bytes = has_error ? strlen(job.failure.message) : 0,
                        .cpu_ns = cpu_ns_since(&job.cpu_time)};
    if (exchange_heads(&head)) pz_free(exchange_bytes(job.failure.message, head.bytes));
  }
  if (job.is_verbose && job.ranks.rank == 0 && job.ranks.size > 1) {
    const struct counts *counts = &job.counts;
    double available_s = counts->critical_s * job.ranks.size;
    fprintf(stderr,
            "phaze: %u ranks: %llu exchanges, %llu bytes in all; processor time %.3f s, along the "
            "longest way at most %.3f s, idle share at most %.4f; rank 0: %.3f s, of them %.3f s "
            "waiting\n",
            job.ranks.size, (unsigned long long)counts->exchanges,
            (unsigned long long)counts->bytes, counts->cpu_s, counts->critical_s,
            available_s > 0 ? 1 - counts->cpu_s / available_s : 0, pz_clock_s() - job.start_s,
            counts->wait_s);
  }
  fflush(NULL);
  if (job.is_broken) _exit(code); /* MPI_Finalize() would wait for ranks that do not answer */
  pz_free(job.heads);
  pz_free(job.part_bytes);
  pz_free(job.part_offset);
  if (job.ranks.size > 1) MPI_Win_free(&job.counters_window);
  MPI_Finalize();
  return job.ranks.rank ? 0 : code;
}
