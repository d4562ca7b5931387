/* Reader of nccl-tests' output.
 *
 * Logs come with prefixes of launchers and lines of other programs, and differ between versions, so
 * the reader looks for three kinds of lines and skips all others: a command or title that names the
 * test ("all_reduce_perf"), a rank with its host and device, and a row of the table of results.
 * The ranks say on how many devices and nodes the rows after them ran.  If the test is not named,
 * it is guessed from the name of the file or from the ratio of the bus rate to the rate of the
 * bytes, which nccl-tests prints side by side and which depends on the collective (nccl-tests,
 * doc/PERFORMANCE.md). */
#include "cost/nccl_log.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/num.h"

/* ---- tests ----------------------------------------------------------------------------------- */

enum { NOT_MODELLED = -1 };

/* The tests and their bus rates: over n devices, the bus rate is `passes` * (n-1)/n times the rate
 * of the bytes, or equal to it if `passes` is 0.  A name contained in another comes after it. */
static const struct test {
  const char *name;
  int kind; /* enum pz_collective, or NOT_MODELLED */
  double passes;
} tests[] = {{"all_reduce", PZ_COLLECTIVE_ALL_REDUCE, 2},
             {"all_gather", PZ_COLLECTIVE_ALL_GATHER, 1},
             {"reduce_scatter", PZ_COLLECTIVE_REDUCE_SCATTER, 1},
             {"alltoall", PZ_COLLECTIVE_ALL_TO_ALL, 1},
             {"sendrecv", PZ_COLLECTIVE_SEND, 0},
             {"alltoallv", NOT_MODELLED, 0},
             {"broadcast", NOT_MODELLED, 0},
             {"hypercube", NOT_MODELLED, 0},
             {"reduce", NOT_MODELLED, 0},
             {"gather", NOT_MODELLED, 0},
             {"scatter", NOT_MODELLED, 0}};
enum { TESTS = sizeof tests / sizeof *tests };

/* Returns the first test whose name, followed by `suffix`, occurs in a text, or NULL. */
static const struct test *find_test_in(const char *text, const char *suffix) {
  char word[32];
  for (size_t i = 0; i < TESTS; i++) {
    snprintf(word, sizeof word, "%s%s", tests[i].name, suffix);
    if (strstr(text, word)) return &tests[i];
  }
  return NULL;
}

/* ---- lines ----------------------------------------------------------------------------------- */

enum { MOST_WORDS = 32 };

/* The state of reading one log, line by line. */
struct log_reader {
  struct pz_call *call;
  struct pz_nccl_logs *logs;
  const char *name;
  uint32_t line;
  uint32_t first_row;      /* index of the log's first row in logs->rows */
  const struct test *test; /* NULL while the test is unknown */
  /* The ranks of the header before the rows.  A split job runs several groups at once; only the
   * first one is read. */
  int64_t ranks;        /* number of ranks in the first group */
  int64_t listed_ranks; /* number of ranks in all groups */
  int64_t highest_rank; /* highest number of a rank in all groups */
  struct pz_vec hosts;  /* names of the first group's hosts, const char * */
  bool in_table; /* a row was read after the ranks, so that the next rank begins a new header */
  char *word[MOST_WORDS]; /* words of the line that is being read */
  int n_words;
};

/* Sets *out to the non-negative number that a word is.  Returns false if it is none; *out is then
 * -1 or part of a number. */
static bool read_number(const char *word, double *out) {
  char *end;
  *out = -1;
  if (!isdigit((unsigned char)*word) && *word != '.') return false;
  *out = strtod(word, &end);
  return !*end && isfinite(*out);
}

/* Sets *out to the integer from 0 to 10^15 that a word is.  Returns false if it is none. */
static bool read_integer(const char *word, int64_t *out) {
  double value;
  if (word[strspn(word, "0123456789")] != '\0') return false;
  if (!read_number(word, &value) || value > 1e15) return false;
  *out = (int64_t)value;
  return true;
}

/* Returns the index of the first occurrence of a word at or after index `from`, or n_words. */
static int find_word(const struct log_reader *reader, int from, const char *word) {
  for (int i = from; i < reader->n_words; i++)
    if (strcmp(reader->word[i], word) == 0) return i;
  return reader->n_words;
}

/* Reads a line such as "Rank 3 Group 0 Pid 4711 on HOST device 3 [0x18] NVIDIA H100".  Returns
 * false if the line does not describe a rank. */
static bool read_rank(struct log_reader *reader) {
  int rank_word = find_word(reader, 0, "Rank"), on = find_word(reader, rank_word, "on"),
      group = find_word(reader, 0, "Group");
  int device = find_word(reader, on, "device");
  int64_t rank;
  if (rank_word + 1 >= reader->n_words || !read_integer(reader->word[rank_word + 1], &rank) ||
      rank >= PZ_NCCL_MOST_RANKS)
    return false;
  if (on + 1 >= reader->n_words || device >= reader->n_words) return false;
  if (reader->in_table) {
    reader->ranks = reader->listed_ranks = reader->highest_rank = 0;
    reader->hosts.n = 0;
    reader->in_table = false;
  }
  reader->listed_ranks++;
  reader->highest_rank = pz_max(reader->highest_rank, rank);
  char *name = reader->logs->device;
  /* Only the first rank that names a device sets logs->device. */
  size_t size = *name ? 0 : sizeof reader->logs->device;
  for (int i = device + 2; i < reader->n_words && size; i++)
    snprintf(name + strlen(name), size - strlen(name), "%s%s", *name ? " " : "", reader->word[i]);
  bool in_first_group = group + 1 >= on || strcmp(reader->word[group + 1], "0") == 0;
  if (!in_first_group) return true;
  reader->ranks++;
  const char *host = reader->word[on + 1];
  for (uint32_t i = reader->hosts.n; i > 0; i--)
    if (strcmp(*pz_vec_at(&reader->hosts, const char *, i - 1), host) == 0) return true;
  if (reader->hosts.n == PZ_NCCL_MOST_HOSTS)
    pz_raise(reader->call, PZ_BAD_INPUT, "%s:%u: more than %d hosts; accepted: at most so many",
             reader->name, reader->line, PZ_NCCL_MOST_HOSTS);
  pz_append(reader->call, &reader->hosts, &host);
  return true;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Sets the devices of a row, and of a node, to those of the user or else of the ranks. */
static void find_devices(const struct log_reader *reader, struct pz_nccl_row *row) {
  int64_t hosts = reader->hosts.n;
  int64_t devices = reader->logs->devices > 0 ? reader->logs->devices : reader->ranks;
  int64_t per_node = reader->logs->per_node;
  if (devices < 2)
    pz_raise(reader->call, PZ_BAD_INPUT,
             "%s:%u: %s; accepted: logs of two or more ranks, each with a line \"Rank 0 ... on "
             "HOST device 0\" before the rows, or --devices N",
             reader->name, reader->line,
             devices ? "a collective of one device" : "the ranks are not listed");
  if (!reader->logs->devices && reader->highest_rank + 1 != reader->listed_ranks)
    pz_raise(reader->call, PZ_BAD_INPUT,
             "%s:%u: %" PRId64 " ranks are listed, the last is rank %" PRId64
             "; accepted: a line for each rank, or --devices N",
             reader->name, reader->line, reader->listed_ranks, reader->highest_rank);
  if (!per_node && hosts && devices == reader->ranks && devices % hosts == 0)
    per_node = devices / hosts;
  if (!per_node || devices % pz_min(per_node, devices))
    pz_raise(reader->call, PZ_BAD_INPUT,
             "%s:%u: %" PRId64 " devices on %" PRId64
             " hosts; accepted: the same number on every host, or --devices-per-node N",
             reader->name, reader->line, devices, hosts);
  row->devices = devices;
  row->per_node = pz_min(per_node, devices);
}

/* Raises an error for a log whose test is unknown. */
static _Noreturn void refuse_unnamed_test(const struct log_reader *reader) {
  pz_raise(reader->call, PZ_BAD_INPUT,
           "%s:%u: the log does not say which test it is of; accepted: logs with the command "
           "before the rows, as all_gather_perf, or a file name with all_gather in it",
           reader->name, reader->line);
}

/* Sets the test (or NULL if it is still unknown) of the rows that follow, and of the rows before
 * whose rates were too low to guess it. */
static void set_test(struct log_reader *reader, const struct test *test) {
  for (uint32_t i = reader->logs->rows.n; test && i > reader->first_row; i--) {
    struct pz_nccl_row *row = pz_vec_at(&reader->logs->rows, struct pz_nccl_row, i - 1);
    if (row->test) break;
    if (test->kind == NOT_MODELLED) refuse_unnamed_test(reader);
    row->test = test->name;
    row->kind = (enum pz_collective)test->kind;
  }
  reader->test = test;
}

/* Raises an error unless the numbers of a row agree: its rate with size and time, and its bus rate
 * with test and devices.  Rates are in GB/s with two decimals, so they may be off by 0.01. */
static void check_row(const struct log_reader *reader, const struct pz_nccl_row *row, double rate,
                      double bus_rate) {
  double expected_rate = row->bytes / row->s / 1e9;
  if (row->s > 3600 || fabs(expected_rate - rate) > 0.02 * rate + 0.01)
    pz_raise(reader->call, PZ_BAD_INPUT,
             "%s:%u: %.0f B in %g us are %.3g GB/s, but the row says %g; accepted: rows of "
             "nccl-tests with size in B and time in us",
             reader->name, reader->line, row->bytes, 1e6 * row->s, expected_rate, rate);
  if (!reader->test || rate < 1) return;
  double n = (double)row->devices;
  double expected_factor = reader->test->passes > 0 ? reader->test->passes * (n - 1) / n : 1;
  if (fabs(bus_rate / rate - expected_factor) > 0.01 * expected_factor + 0.01 / rate)
    pz_raise(reader->call, PZ_BAD_INPUT,
             "%s:%u: the bus rate is %.3f times the rate, of %s over %" PRId64
             " devices it is %.3f times; accepted: a log whose test and ranks belong to its "
             "rows, or --devices N",
             reader->name, reader->line, bus_rate / rate, reader->test->name, row->devices,
             expected_factor);
}

/* Reads the row of results whose words begin at first_word, and appends it to the logs' rows if its
 * test is modelled.  Its words are size, number of elements, type, the operator and root where they
 * are printed, then time, rate, bus rate and errors of the out-of-place collective, and the same of
 * the in-place one, which is not used. */
static void add_row(struct log_reader *reader, int first_word) {
  struct pz_nccl_row row = {.log = reader->name, .line = reader->line};
  double us, rate, bus_rate;
  int next = first_word + 3;
  bool has_operator = next < reader->n_words && isalpha((unsigned char)*reader->word[next]);
  bool reduces = has_operator && strcmp(reader->word[next], "none") != 0;
  if (has_operator) next++;
  /* 8 numbers are two collectives, 6 two without errors, and 4 one; one more is the root. */
  int numbers = reader->n_words - next;
  bool has_root = numbers >= 9 || numbers == 7 || numbers == 5;
  if (has_root) next++;
  if (next + 2 >= reader->n_words || !read_number(reader->word[next], &us) ||
      !read_number(reader->word[next + 1], &rate) ||
      !read_number(reader->word[next + 2], &bus_rate))
    return;
  read_number(reader->word[first_word], &row.bytes);
  reader->in_table = true;
  if (!reader->test) {
    /* The log does not name its test, but the name of its file may.  Otherwise the test is guessed
     * if the row names an operator such as "sum", which only reductions have (`reduces`).  Over n
     * devices, the ratio of the bus rate to the rate of the bytes is 2(n-1)/n >= 1 for an
     * all-reduce and (n-1)/n < 1 for a reduce-scatter.  check_row() refuses the row if its ratio
     * is not that of the guessed test on these devices. */
    const char *slash = strrchr(reader->name, '/');
    const struct test *test = find_test_in(slash ? slash + 1 : reader->name, "");
    /* 0: rates below 1 GB/s, printed with two decimals, are too inexact for a ratio */
    double bus_factor = rate >= 1 ? bus_rate / rate : 0;
    const struct test *all_reduce = &tests[0], *reduce_scatter = &tests[2];
    static const double ABOUT_ONE = 0.97; /* 1, lowered by the rounding of both rates */
    if (!test && reduces && bus_factor > 0)
      test = bus_factor > ABOUT_ONE ? all_reduce : reduce_scatter;
    set_test(reader, test);
  }
  /* A small row of a reduction may remain without a test, until a larger row allows a guess. */
  if (!reader->test && !reduces) refuse_unnamed_test(reader);
  if (reader->test && reader->test->kind == NOT_MODELLED) {
    reader->logs->n_unused++;
    return;
  }
  if (!(row.bytes > 0 && us > 0)) return;
  row.s = us / 1e6;
  find_devices(reader, &row);
  check_row(reader, &row, rate, bus_rate);
  if (reader->logs->rows.n == PZ_NCCL_MOST_ROWS)
    pz_raise(reader->call, PZ_BAD_INPUT, "%s:%u: more than %d rows; accepted: at most so many",
             reader->name, reader->line, PZ_NCCL_MOST_ROWS);
  pz_append(reader->call, &reader->logs->rows, &row);
  set_test(reader, reader->test); /* the new row gets the test, if it is known by now */
}

/* Appends the rows of a log to logs->rows, line by line. */
void pz_nccl_log_parse(struct pz_call *call, const char *name, char *text,
                       struct pz_nccl_logs *logs) {
  static const char *const types[] = {"int", "uint", "half", "float", "double", "bf", "fp", "f8"};
  struct log_reader reader = {.call = call, .logs = logs, .name = name, .first_row = logs->rows.n};
  uint32_t unused_before = logs->n_unused;
  pz_vec_init(&reader.hosts, call->arena, sizeof(const char *));
  for (char *line = text, *next; line; line = next) {
    next = strchr(line, '\n');
    if (next) {
      *next = '\0';
      next++;
    }
    reader.line++;
    const struct test *named = find_test_in(line, "_perf");
    if (named) {
      set_test(&reader, named);
      continue;
    }
    /* Splits a line into words without text in brackets, such as labels of launchers. */
    char *close = NULL, *rest;
    for (char *open = strchr(line, '['); open; open = strchr(close, '[')) {
      close = strchr(open, ']');
      if (!close) break;
      memset(open, ' ', (size_t)(close - open) + 1);
    }
    reader.n_words = 0;
    char *word = strtok_r(line, " \t\r", &rest);
    while (word && reader.n_words < MOST_WORDS) {
      reader.word[reader.n_words++] = word;
      word = strtok_r(NULL, " \t\r", &rest);
    }
    if (read_rank(&reader)) continue;
    /* A row of results begins with two integers and the name of a type. */
    int64_t bytes, count;
    bool is_row = false;
    for (int i = 0; i + 2 < reader.n_words && !is_row; i++) {
      for (size_t type = 0; type < sizeof types / sizeof *types; type++)
        if (strncmp(reader.word[i + 2], types[type], strlen(types[type])) == 0) is_row = true;
      is_row = is_row && read_integer(reader.word[i], &bytes) &&
               read_integer(reader.word[i + 1], &count);
      if (is_row) add_row(&reader, i);
    }
  }
  if (logs->rows.n > reader.first_row && !reader.test) refuse_unnamed_test(&reader);
  if (logs->rows.n == reader.first_row && logs->n_unused == unused_before)
    pz_raise(call, PZ_BAD_INPUT,
             "%s: no row of nccl-tests in %u lines; accepted: the output of all_reduce_perf, "
             "all_gather_perf, reduce_scatter_perf, alltoall_perf or sendrecv_perf",
             name, reader.line);
}
