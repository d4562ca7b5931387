/* Calibration of a cluster from the output of nccl-tests (pz_calibrate_network).
 *
 * Every row of a log is a collective over a group of devices.  place_row() finds the group in the
 * cluster, and with it the outermost level of the network that the group crosses.  Levels are
 * fitted from the innermost one outward, each to the rows whose outermost level it is: the
 * efficiency that large messages reach and the delay of small ones (cost/fit.h).  Levels without
 * rows keep the numbers of the cluster's description. */
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/csv.h"
#include "core/file.h"
#include "core/num.h"
#include "core/text.h"
#include "cost/constants.h"
#include "cost/fit.h"
#include "cost/nccl_log.h"

/* The state of the fit of a cluster to rows of logs. */
struct network_fit {
  struct pz_cluster *net;
  struct pz_nccl_row *rows;
  uint32_t n;
  int level; /* the level that is being fitted */
  struct pz_fit fit;
};

/* Returns the seconds that the model predicts for the collective of a row. */
static double predicted_s(const struct pz_cluster *net, const struct pz_nccl_row *row) {
  return pz_network_time(&pz_constants_default, net, row->kind, row->bytes, row->group).s;
}

/* Returns the size class of a message, by which errors are weighted and reported: 0 for up to 64
 * KiB, 1 for up to 16 MiB, and 2 above. */
static int size_class(double bytes) {
  static const double SMALL_BYTES = 65536, LARGE_BYTES = 16777216;
  if (bytes <= SMALL_BYTES) return 0;
  return bytes <= LARGE_BYTES ? 1 : 2;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Sets the group of a row, and the outermost level of the network that the group crosses.  In
 * clusters of nodes, the devices of a row are spread evenly over each node if not all of a node
 * take part; inside one large domain, hosts with a few devices each are packed.  A sendrecv test
 * sends to neighbours across the outermost level. */
static void place_row(struct pz_call *call, struct pz_nccl_row *row, struct pz_cluster *net) {
  int64_t node = net->level[0].devices, stride = 1;
  bool has_nodes = node <= PZ_SERVER_DEVICES;
  bool crosses_nodes = has_nodes && row->devices > row->per_node;
  bool is_uneven = crosses_nodes && node % row->per_node != 0;
  if (has_nodes && (row->per_node > node || is_uneven))
    pz_raise(call, PZ_BAD_INPUT,
             "%s:%u: %" PRId64 " devices of a node; cluster %s has %" PRId64
             "; accepted: a divisor of these, or --cluster with such nodes",
             row->log, row->line, row->per_node, net->name, node);
  if (crosses_nodes) stride = node / row->per_node;
  if (crosses_nodes && net->n_levels < 2)
    pz_raise(call, PZ_BAD_INPUT,
             "%s:%u: %" PRId64 " devices on nodes of %" PRId64
             "; cluster %s has one node; accepted: --cluster with a level between nodes",
             row->log, row->line, row->devices, row->per_node, net->name);
  pz_must(call, pz_cluster_reach(net, row->devices * stride, "the devices of the log",
                                 pz_call_error(call)));
  row->level = (int)(pz_cluster_level(net, row->devices * stride) - net->level);
  if (row->kind == PZ_COLLECTIVE_SEND && row->level > 0)
    stride = net->level[row->level - 1].devices;
  row->group = (struct pz_group){row->devices, stride};
}

/* Raises an error for a row that is faster than its bytes allow at the full rate of its outermost
 * level: it ran on another network. An exception is an all-reduce between two nodes, which may run
 * over trees that send half of what a ring sends.  The model has such trees only where switches add
 * up; elsewhere the row is left out. */
static void check_rate(struct pz_call *call, const struct pz_cluster *net,
                       struct pz_nccl_row *row) {
  static const double TOLERANCE = 1.03;
  const struct pz_level *level = &net->level[row->level];
  double devices = (double)row->devices, node = (double)net->level[0].devices;
  double below = 1; /* members in a unit of the level below, each with an interface */
  if (row->level > 0) below = (double)pz_max(1, level[-1].devices / row->group.stride);
  bool is_ring_all_reduce =
      row->kind == PZ_COLLECTIVE_ALL_REDUCE && !(net->level[0].collectives.switch_efficiency > 0);
  double least_s =
      (is_ring_all_reduce ? 2 : 1) * (1 - 1 / devices) / below * row->bytes / level->bytes_per_s;
  if (row->kind == PZ_COLLECTIVE_ALL_TO_ALL)
    least_s = (1 - below / devices) * row->bytes / level->bytes_per_s;
  if (row->kind == PZ_COLLECTIVE_SEND) least_s = row->bytes / level->bytes_per_s;
  if (row->s * TOLERANCE >= least_s) return;
  row->left_out =
      is_ring_all_reduce && row->level > 0 && devices * (double)row->group.stride <= 2 * node;
  if (row->left_out) return;
  pz_raise(call, PZ_BAD_INPUT,
           "%s:%u: %s of %.0f B over %" PRId64
           " devices in %.4g us, %.4g at the full rate of %s of cluster %s (%.4g GB/s a "
           "device); accepted: --cluster with the rates of this network",
           row->log, row->line, row->test, row->bytes, row->devices, 1e6 * row->s, 1e6 * least_s,
           level->name, net->name, level->bytes_per_s / 1e9);
}

/* ---- the fit of a level ---------------------------------------------------------------------- */

/* Returns the mean loss over the rows of the level that is being fitted; `ctx` is the struct
 * network_fit.  Large messages weigh more, because they contain most bytes of a training step. */
static double level_loss(void *ctx) {
  static const double WEIGHTS[] = {0.25, 1, 4}; /* by size class */
  const struct network_fit *fitter = ctx;
  double sum = 0;
  uint32_t n = 0;
  for (uint32_t i = 0; i < fitter->n; i++) {
    const struct pz_nccl_row *row = &fitter->rows[i];
    if (row->level != fitter->level || row->left_out) continue;
    double log_ratio = log(predicted_s(fitter->net, row) / row->s);
    sum += WEIGHTS[size_class(row->bytes)] * pz_fit_row_loss(log_ratio);
    n++;
  }
  return n ? (sum + pz_fit_prior(&fitter->fit)) / n : HUGE_VAL;
}

/* Fits one level, if it has rows: the efficiency of its links, and the delay of a message.  That is
 * the start-up time of a collective on the innermost level, and on outer levels the latency of a
 * hop and the start-up time of the protocol for large messages. */
static void fit_level(struct network_fit *fitter, struct pz_network_level_fit *out) {
  static const double FIRST_STARTUP_S = 5e-6; /* where the search for an unknown delay begins */
  /* Longer delays between nodes are the start-up of a protocol, not the latency of a message. */
  static const double MOST_LATENCY_S = 2e-4;
  const struct pz_constants *constants = &pz_constants_default;
  struct pz_level *level = &fitter->net->level[fitter->level];
  struct pz_collective_facts *facts = &level->collectives;
  bool is_outer = fitter->level > 0;
  double *delay_s = is_outer ? &level->latency_s : &facts->startup_s;
  for (uint32_t i = 0; i < fitter->n; i++) {
    double bytes = fitter->rows[i].bytes;
    if (fitter->rows[i].level != fitter->level || fitter->rows[i].left_out) continue;
    out->least_bytes = out->rows ? pz_fmin(out->least_bytes, bytes) : bytes;
    out->most_bytes = pz_fmax(out->most_bytes, bytes);
    out->rows++;
  }
  if (!(facts->efficiency > 0))
    facts->efficiency = is_outer ? constants->outer_efficiency : constants->ring_efficiency;
  if (is_outer) {
    *delay_s = pz_fmax(*delay_s, 1e-7);
    if (!(facts->startup_s > 0)) facts->startup_s = FIRST_STARTUP_S;
  } else if (!(*delay_s > 0)) {
    *delay_s = constants->ring_startup_s;
  }
  out->before_bytes_per_s = facts->efficiency * level->bytes_per_s;
  out->before_s = *delay_s;
  if (out->rows) {
    fitter->fit = (struct pz_fit){.loss = level_loss, .ctx = fitter};
    pz_fit_add(&fitter->fit, &facts->efficiency, 0.01, 1);
    pz_fit_add(&fitter->fit, delay_s, 1e-7, is_outer ? MOST_LATENCY_S : 1e-3);
    if (is_outer) pz_fit_add(&fitter->fit, &facts->startup_s, 1e-7, 0.01);
    pz_fit_add(&fitter->fit, &facts->switch_efficiency, 0.01, 1);
    pz_fit_search(&fitter->fit);
  }
  out->after_bytes_per_s = facts->efficiency * level->bytes_per_s;
  out->after_s = *delay_s;
}

/* ---- the report ------------------------------------------------------------------------------ */

enum { ALL_SIZES = PZ_NETWORK_SIZES - 1 };

/* Reports the mean errors of each test and of all, before and after the fit, by message size. */
static void report_errors(struct pz_call *call, const struct network_fit *fitter,
                          const struct pz_cluster *before, struct pz_network_calibration *result) {
  enum { MOST_TESTS = 5 };
  struct pz_network_error *tests = pz_alloc(call, MOST_TESTS + 1, sizeof *tests);
  struct pz_network_error all = {.test = "all"};
  for (uint32_t i = 0; i < fitter->n; i++) {
    const struct pz_nccl_row *row = &fitter->rows[i];
    if (row->left_out) continue;
    uint32_t test = 0;
    while (test < result->n_tests && strcmp(tests[test].test, row->test) != 0) test++;
    if (test == result->n_tests) {
      tests[test].test = row->test;
      result->n_tests++;
    }
    double before_error = fabs(predicted_s(before, row) / row->s - 1);
    double after_error = fabs(predicted_s(fitter->net, row) / row->s - 1);
    /* Running means of the row's test and of all tests, by size class and over all sizes. */
    struct pz_network_error *const lists[] = {&tests[test], &all};
    const int sizes[] = {size_class(row->bytes), ALL_SIZES};
    for (int mean = 0; mean < 4; mean++) {
      struct pz_network_error *errors = lists[mean / 2];
      int size = sizes[mean % 2];
      double n = ++errors->rows[size];
      errors->before[size] += (before_error - errors->before[size]) / n;
      errors->after[size] += (after_error - errors->after[size]) / n;
    }
  }
  tests[result->n_tests++] = all;
  result->tests = tests;
  enum { LARGE = 2 }; /* the size class of large messages, if there are any */
  result->cluster.calibration_error = all.after[all.rows[LARGE] ? LARGE : ALL_SIZES];
}

/* Fits the cluster in *result, which has the numbers of its data sheet, to the rows. */
static void fit_network(struct pz_call *call, struct pz_network_calibration *result,
                        const struct pz_chip *chip, const struct pz_vec *rows) {
  const struct pz_cluster sheet = result->cluster;
  struct pz_cluster *net = &result->cluster;
  struct network_fit fitter = {.net = net, .rows = rows->items, .n = rows->n};
  struct pz_network_level_fit *levels = pz_alloc(call, PZ_CLUSTER_MOST_LEVELS, sizeof *levels);
  if (net->level[0].n_axes)
    pz_raise(call, PZ_BAD_INPUT,
             "cluster %s is a torus; accepted: clusters of nodes, on which NCCL runs", net->name);
  net->level[0].collectives = pz_cluster_facts(net, &chip->collectives);
  for (uint32_t i = 0; i < fitter.n; i++) place_row(call, &fitter.rows[i], net);
  for (uint32_t i = 0; i < fitter.n; i++) check_rate(call, net, &fitter.rows[i]);
  const struct pz_cluster before = *net;
  for (fitter.level = 0; fitter.level < net->n_levels; fitter.level++)
    fit_level(&fitter, &levels[fitter.level]);
  result->levels = levels;
  report_errors(call, &fitter, &before, result);
  for (int l = 0; l < net->n_levels; l++) {
    if (!levels[l].rows) net->level[l] = sheet.level[l];
    net->level[l].devices = sheet.level[l].devices;
  }
  net->devices = sheet.devices;
  if (result->tests[result->n_tests - 1].rows[ALL_SIZES]) return;
  pz_raise(call, PZ_BAD_INPUT,
           "%s: all %u all-reduces between two nodes are faster than a ring on cluster %s; "
           "accepted: logs of all_gather_perf or of more nodes, or another --cluster",
           fitter.rows[0].log, fitter.n, net->name);
}

/* ---- the public function --------------------------------------------------------------------- */

/* Returns the preset that a device's name stands for, or NULL.  Each part of the preset's name
 * occurs in that of the device, as a100-80 in "NVIDIA A100-SXM4-80GB"; the longest counts. */
static const char *find_chip_of_device(const char *device) {
  char lower[64];
  const char *best = NULL, *preset;
  for (size_t i = 0; i < sizeof lower; i++) lower[i] = (char)tolower((unsigned char)device[i]);
  for (size_t i = 0; (preset = pz_chip_preset_name(i)); i++) {
    bool has_all_parts = true;
    const char *remaining = preset;
    while (*remaining && has_all_parts) {
      char part[32];
      snprintf(part, sizeof part, "%.*s", (int)strcspn(remaining, "-"), remaining);
      has_all_parts = strstr(lower, part) != NULL;
      remaining += strcspn(remaining, "-");
      if (*remaining == '-') remaining++;
    }
    if (has_all_parts && (!best || strlen(preset) > strlen(best))) best = preset;
  }
  return best;
}

/* Finds chip and cluster of the options, or else the logged device and its standard cluster. */
static void find_machine(struct pz_call *call, const struct pz_calibrate_network_options *options,
                         const char *device, struct pz_chip *chip,
                         struct pz_network_calibration *result) {
  const char *name = options->chip ? options->chip : find_chip_of_device(device);
  if (options->cluster)
    pz_must(call, pz_cluster_load(options->cluster, &result->cluster, pz_call_error(call)));
  if (!name && *result->cluster.chips) name = result->cluster.chips;
  if (!name)
    pz_raise(call, PZ_BAD_USE, "the logs name no known device%s%s; accepted: --chip CHIP",
             *device ? ", but " : "", device);
  result->chip = pz_format(call, "%.*s", (int)strcspn(name, " "), name);
  pz_chip_read(call, result->chip, chip);
  if (!options->cluster && !pz_cluster_standard(chip->name, &result->cluster))
    pz_raise(call, PZ_BAD_USE, "no cluster of chip %s is known; accepted: --cluster NET",
             chip->name);
}

/* Reads the logs whose paths are separated by commas, and appends the paths to `files`. */
static void read_logs(struct pz_call *call, const char *paths, struct pz_nccl_logs *logs,
                      struct pz_vec *files) {
  const char *next = paths;
  while (next) {
    const char *path = pz_format(call, "%.*s", (int)strcspn(next, ","), next),
               *comma = strchr(next, ',');
    pz_append(call, files, &path);
    size_t bytes;
    char *text = pz_file_text(call, path, PZ_CSV_MOST_BYTES, &bytes);
    pz_nccl_log_parse(call, path, text, logs);
    pz_close(call, text);
    next = comma ? comma + 1 : NULL;
  }
  if (!logs->rows.n)
    pz_raise(call, PZ_BAD_INPUT,
             "%s: no row of a test that is read, but %u of others; accepted: all_reduce, "
             "all_gather, reduce_scatter, alltoall, sendrecv",
             paths, logs->n_unused);
}

/* Adds sentences for the user about rows that were not used and about a poor fit. */
static void add_notes(struct pz_call *call, struct pz_network_calibration *result,
                      const struct pz_nccl_logs *logs) {
  static const double POOR_ERROR = 0.3;
  /* The last test is the sum of all tests. */
  uint32_t n_used = result->tests[result->n_tests - 1].rows[ALL_SIZES];
  uint32_t left_out = logs->rows.n - n_used;
  const char **notes = pz_alloc(call, 3, sizeof *notes);
  uint32_t n = 0;
  if (logs->n_unused)
    notes[n++] = pz_format(call, "%u rows of other tests are not used", logs->n_unused);
  if (left_out)
    notes[n++] = pz_format(
        call,
        "%u all-reduces between two nodes are faster than a ring on these links; they ran over "
        "trees, and are left out",
        left_out);
  if (result->cluster.calibration_error > POOR_ERROR)
    notes[n++] = "the fit is poor: are cluster, devices and test those of the logs?";
  result->notes = notes;
  result->n_notes = n;
}

struct pz_calibrate_network_options pz_calibrate_network_options_default(void) {
  return (struct pz_calibrate_network_options){.size = sizeof(struct pz_calibrate_network_options)};
}

struct calibrate_network_args {
  const struct pz_calibrate_network_options *options;
  struct pz_network_calibration **out;
};

/* The body of pz_calibrate_network(). */
static void calibrate_network(struct pz_call *call, void *ctx) {
  const struct calibrate_network_args *args = ctx;
  struct pz_calibrate_network_options options = pz_calibrate_network_options_default();
  struct pz_call own;
  struct pz_chip chip;
  struct pz_vec files;
  pz_require_options(call, &options, sizeof options, args->options,
                     "pz_calibrate_network_options_default");
  pz_require(call, options.logs, "logs");
  pz_require(call, args->out, "out");
  struct pz_network_calibration *result = pz_object_new(call, sizeof *result, &own);
  struct pz_nccl_logs logs = {.devices = options.devices, .per_node = options.node_devices};
  pz_vec_init(&logs.rows, call->arena, sizeof(struct pz_nccl_row));
  pz_vec_init(&files, own.arena, sizeof(const char *));
  read_logs(&own, options.logs, &logs, &files);
  result->files = files.items;
  result->n_files = files.n;
  find_machine(&own, &options, logs.device, &chip, result);
  fit_network(&own, result, &chip, &logs.rows);
  add_notes(&own, result, &logs);
  /* The cluster keeps the name of its data sheet; `calibrated` says what it was fitted to. */
  struct pz_cluster *net = &result->cluster;
  const char *first_log = strrchr(result->files[0], '/');
  char name[sizeof net->name];
  snprintf(name, sizeof name, "%.*s, calibrated", (int)sizeof name - 14, net->name);
  pz_text_copy(net->name, sizeof net->name, name);
  snprintf(net->calibrated, sizeof net->calibrated, "nccl-tests, %u rows: %.80s%s",
           result->tests[result->n_tests - 1].rows[ALL_SIZES],
           first_log ? first_log + 1 : result->files[0], result->n_files > 1 ? " and others" : "");
  pz_text_plain(net->calibrated);
  net->standard = false;
  *args->out = pz_object_keep(call, result);
}

enum pz_status pz_calibrate_network(const struct pz_calibrate_network_options *options,
                                    struct pz_network_calibration **out, struct pz_error *err) {
  struct calibrate_network_args args = {options, out};
  return pz_border(calibrate_network, &args, err);
}

void pz_network_calibration_free(struct pz_network_calibration *calibration) {
  pz_object_free(calibration);
}
