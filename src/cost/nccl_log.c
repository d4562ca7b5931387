#include "cost/nccl_log.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/num.h"

/* ---- tests ---------------------------------------------------------------------------------- */

enum { OTHER = -1 };

/* Tests, and the bus rate that they print over the rate of the bytes: `passes` times (n-1)/n of n devices.  A name within
 * another one comes after it. */
static const struct test {
  const char *name;
  int kind;
  double passes;
} tests[] = {{"all_reduce", PZ_COLLECTIVE_ALL_REDUCE, 2},
             {"all_gather", PZ_COLLECTIVE_ALL_GATHER, 1},
             {"reduce_scatter", PZ_COLLECTIVE_REDUCE_SCATTER, 1},
             {"alltoall", PZ_COLLECTIVE_ALL_TO_ALL, 1},
             {"sendrecv", PZ_COLLECTIVE_SEND, 0},
             {"alltoallv", OTHER, 0},
             {"broadcast", OTHER, 0},
             {"hypercube", OTHER, 0},
             {"reduce", OTHER, 0},
             {"gather", OTHER, 0},
             {"scatter", OTHER, 0}};
enum { TESTS = sizeof tests / sizeof *tests };

static double bus_factor(const struct test *t, double n) {
  return t->passes > 0 ? t->passes * (n - 1) / n : 1;
}

/* The test whose name and `suffix` occur in a text. */
static const struct test *test_in(const char *text, const char *suffix) {
  char word[32];
  for (size_t i = 0; i < TESTS; i++) {
    snprintf(word, sizeof word, "%s%s", tests[i].name, suffix);
    if (strstr(text, word)) return &tests[i];
  }
  return NULL;
}

/* ---- lines ---------------------------------------------------------------------------------- */

enum { MOST_WORDS = 32 };

struct reader {
  const char *name;
  uint32_t line;
  struct pz_error *err;
  struct pz_nccl_logs *logs;
  const struct test *test;
  int64_t ranks;       /* of the first group of a split job */
  int64_t listed;      /* of all groups of the header */
  int64_t last;        /* highest rank */
  struct pz_vec hosts; /* const char *, of the first group */
  bool in_table;       /* rows follow the ranks that were listed */
  uint32_t first;      /* row of the log */
  char *word[MOST_WORDS];
  int words;
};

/* Cuts a line into words.  What stands in brackets is dropped: labels of launchers, addresses of devices. */
static void cut(struct reader *r, char *line) {
  char *end = NULL;
  for (char *open = strchr(line, '['); open && (end = strchr(open, ']')); open = strchr(end, '['))
    memset(open, ' ', (size_t)(end - open) + 1);
  r->words = 0;
  for (char *w = strtok_r(line, " \t\r", &end); w && r->words < MOST_WORDS;
       w = strtok_r(NULL, " \t\r", &end))
    r->word[r->words++] = w;
}

static bool read_number(const char *word, double *out) {
  char *end;
  bool plain = isdigit((unsigned char)*word) || *word == '.';
  *out = plain ? strtod(word, &end) : -1;
  return plain && !*end && isfinite(*out);
}

static bool read_integer(const char *word, int64_t *out) {
  double v;
  bool whole = word[strspn(word, "0123456789")] == '\0' && read_number(word, &v) && v <= 1e15;
  if (whole) *out = (int64_t)v;
  return whole;
}

static int find_word(const struct reader *r, int from, const char *word) {
  for (int i = from; i < r->words; i++)
    if (strcmp(r->word[i], word) == 0) return i;
  return r->words;
}

/* "Rank 3 Group 0 Pid 4711 on HOST device 3 [0x18] NVIDIA H100"; *found: the line is that of a rank. */
static enum pz_status read_rank(struct reader *r, bool *found) {
  int at = find_word(r, 0, "Rank"), on = find_word(r, at, "on"), group = find_word(r, 0, "Group");
  int device = find_word(r, on, "device");
  char *name = r->logs->device;
  size_t size = *name ? 0 : sizeof r->logs->device;
  int64_t rank;
  *found = at + 1 < r->words && read_integer(r->word[at + 1], &rank) && rank < PZ_NCCL_MOST_RANKS &&
           on + 1 < r->words && device < r->words;
  if (!*found) return PZ_OK;
  if (r->in_table) {
    r->ranks = r->listed = r->last = 0;
    r->hosts.n = 0;
    r->in_table = false;
  }
  r->listed++;
  r->last = pz_max(r->last, rank);
  for (int i = device + 2; i < r->words && size; i++)
    snprintf(name + strlen(name), size - strlen(name), "%s%s", *name ? " " : "", r->word[i]);
  if (group + 1 < on && strcmp(r->word[group + 1], "0") != 0) return PZ_OK;
  r->ranks++;
  const char *host = r->word[on + 1];
  for (uint32_t i = r->hosts.n; i-- > 0;)
    if (strcmp(*pz_vec_at(&r->hosts, const char *, i), host) == 0) return PZ_OK;
  if (r->hosts.n == PZ_NCCL_MOST_HOSTS)
    return pz_fail(r->err, PZ_BAD_INPUT, "%s:%u: more than %d hosts; accepted: at most so many",
                   r->name, r->line, PZ_NCCL_MOST_HOSTS);
  return pz_vec_push(&r->hosts, &host) ? PZ_OK
                                       : pz_fail(r->err, PZ_NO_MEMORY, "out of memory for hosts");
}

/* ---- rows ----------------------------------------------------------------------------------- */

/* Devices of the rows that follow, and how many of them are in a node: as the options say, otherwise as the ranks do. */
static enum pz_status find_devices(const struct reader *r, int64_t *devices, int64_t *per_node) {
  int64_t hosts = r->hosts.n;
  *devices = r->logs->devices > 0 ? r->logs->devices : r->ranks;
  *per_node = r->logs->per_node;
  if (*devices < 2)
    return pz_fail(
        r->err, PZ_BAD_INPUT,
        "%s:%u: %s; accepted: logs of two or more ranks, each with a line \"Rank 0 ... on "
        "HOST device 0\" before the rows, or --devices N",
        r->name, r->line, *devices ? "a collective of one device" : "the ranks are not listed");
  if (!r->logs->devices && r->last + 1 != r->listed)
    return pz_fail(r->err, PZ_BAD_INPUT,
                   "%s:%u: %" PRId64 " ranks are listed, the last is rank %" PRId64
                   "; accepted: a line for each rank, or --devices N",
                   r->name, r->line, r->listed, r->last);
  if (!*per_node && hosts && *devices == r->ranks && *devices % hosts == 0)
    *per_node = *devices / hosts;
  if (!*per_node || *devices % pz_min(*per_node, *devices))
    return pz_fail(r->err, PZ_BAD_INPUT,
                   "%s:%u: %" PRId64 " devices on %" PRId64
                   " hosts; accepted: the same number on every host, or --devices-per-node N",
                   r->name, r->line, *devices, hosts);
  *per_node = pz_min(*per_node, *devices);
  return PZ_OK;
}

/* Logs of tests that do not print their name: the file's name, or else reductions have an operator, and the bus rate of an
 * all-reduce is at least that of its bytes. */
static const struct test *guess_test(const struct reader *r, bool reduces, double factor) {
  const char *slash = strrchr(r->name, '/');
  const struct test *t = test_in(slash ? slash + 1 : r->name, "");
  if (t || !reduces || !(factor > 0)) return t;
  return factor > 0.97 ? &tests[0] : &tests[2];
}

static enum pz_status refuse_unnamed(const struct reader *r) {
  return pz_fail(r->err, PZ_BAD_INPUT,
                 "%s:%u: the log does not say which test it is of; accepted: logs with the command "
                 "before the rows, as all_gather_perf, or a file name with all_gather in it",
                 r->name, r->line);
}

/* The test of the rows that follow, and of those before them, which were too small to tell. */
static enum pz_status set_test(struct reader *r, const struct test *t) {
  for (uint32_t i = r->logs->rows.n; t && i-- > r->first;) {
    struct pz_nccl_row *row = pz_vec_at(&r->logs->rows, struct pz_nccl_row, i);
    if (row->test) break;
    if (t->kind == OTHER) return refuse_unnamed(r);
    row->test = t->name;
    row->kind = (enum pz_collective)t->kind;
  }
  r->test = t;
  return PZ_OK;
}

/* Do the numbers of a row agree: the rate with size and time, the bus rate with test and devices?  Printed rates have two
 * decimals. */
static enum pz_status check_row(const struct reader *r, const struct pz_nccl_row *row, double rate,
                                double bus) {
  double actual = row->bytes / row->s / 1e9;
  double factor = r->test ? bus_factor(r->test, (double)row->devices) : 0;
  if (row->s > 3600 || fabs(actual - rate) > 0.02 * rate + 0.01)
    return pz_fail(r->err, PZ_BAD_INPUT,
                   "%s:%u: %.0f B in %g us are %.3g GB/s, but the row says %g; accepted: rows of "
                   "nccl-tests with size in B and time in us",
                   r->name, r->line, row->bytes, 1e6 * row->s, actual, rate);
  if (r->test && rate >= 1 && fabs(bus / rate - factor) > 0.01 * factor + 0.01 / rate)
    return pz_fail(r->err, PZ_BAD_INPUT,
                   "%s:%u: the bus rate is %.3f times the rate, of %s over %" PRId64
                   " devices it is %.3f times; accepted: a log whose test and ranks belong to its "
                   "rows, or --devices N",
                   r->name, r->line, bus / rate, r->test->name, row->devices, factor);
  return PZ_OK;
}

/* The words from `at`: size, elements, type, operator and root where they are printed, then time, rate, bus rate and errors
 * out of place, and the same in place. */
static enum pz_status add_row(struct reader *r, int at) {
  struct pz_nccl_row row = {.log = r->name, .line = r->line};
  double us, rate, bus;
  int w = at + 3;
  bool has_operator = w < r->words && isalpha((unsigned char)*r->word[w]);
  bool reduces = has_operator && strcmp(r->word[w], "none") != 0;
  w += has_operator;
  int numbers = r->words - w;
  if (numbers >= 9 || numbers == 7 || numbers == 5) w++; /* root */
  if (w + 2 >= r->words || !read_number(r->word[w], &us) || !read_number(r->word[w + 1], &rate) ||
      !read_number(r->word[w + 2], &bus))
    return PZ_OK;
  read_number(r->word[at], &row.bytes);
  r->in_table = true;
  enum pz_status status = PZ_OK;
  if (!r->test) status = set_test(r, guess_test(r, reduces, rate >= 1 ? bus / rate : 0));
  if (!r->test && !reduces) return refuse_unnamed(r);
  if (r->test && r->test->kind == OTHER) return r->logs->others++, PZ_OK;
  if (!(row.bytes > 0 && us > 0)) return PZ_OK;
  row.s = us / 1e6;
  if (status == PZ_OK) status = find_devices(r, &row.devices, &row.per_node);
  if (status == PZ_OK) status = check_row(r, &row, rate, bus);
  if (status == PZ_OK && r->logs->rows.n == PZ_NCCL_MOST_ROWS)
    return pz_fail(r->err, PZ_BAD_INPUT, "%s:%u: more than %d rows; accepted: at most so many",
                   r->name, r->line, PZ_NCCL_MOST_ROWS);
  if (status == PZ_OK && !pz_vec_push(&r->logs->rows, &row))
    status = pz_fail(r->err, PZ_NO_MEMORY, "out of memory for rows");
  return status == PZ_OK ? set_test(r, r->test) : status;
}

/* Where a row begins: two integers and the name of a type. */
static int row_at(const struct reader *r) {
  static const char *const types[] = {"int", "uint", "half", "float", "double", "bf", "fp", "f8"};
  int64_t bytes, count;
  for (int i = 0; i + 2 < r->words; i++)
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
      if (strncmp(r->word[i + 2], types[t], strlen(types[t])) == 0 &&
          read_integer(r->word[i], &bytes) && read_integer(r->word[i + 1], &count))
        return i;
  return -1;
}

static enum pz_status read_line(struct reader *r, char *line) {
  const struct test *named = test_in(line, "_perf");
  bool rank;
  if (named) return set_test(r, named);
  cut(r, line);
  enum pz_status status = read_rank(r, &rank);
  int at = rank ? -1 : row_at(r);
  return at < 0 ? status : add_row(r, at);
}

enum pz_status pz_nccl_log_read(const char *name, char *text, struct pz_arena *arena,
                                struct pz_nccl_logs *logs, struct pz_error *err) {
  struct reader r = {.name = name, .err = err, .logs = logs, .first = logs->rows.n};
  uint32_t others = logs->others;
  enum pz_status status = PZ_OK;
  pz_vec_init(&r.hosts, arena, sizeof(const char *));
  for (char *line = text, *end; line && status == PZ_OK; line = end) {
    end = strchr(line, '\n');
    if (end) *end++ = '\0';
    r.line++;
    status = read_line(&r, line);
  }
  if (status == PZ_OK && logs->rows.n > r.first && !r.test) status = refuse_unnamed(&r);
  if (status == PZ_OK && logs->rows.n == r.first && logs->others == others)
    status =
        pz_fail(err, PZ_BAD_INPUT,
                "%s: no row of nccl-tests in %u lines; accepted: the output of all_reduce_perf, "
                "all_gather_perf, reduce_scatter_perf, alltoall_perf or sendrecv_perf",
                name, r.line);
  return status;
}
