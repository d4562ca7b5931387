/* Fits efficiency and latency of each level of a network to collectives that nccl-tests measured on it: levels from the
 * innermost one outward, each to the rows whose outermost level it is. */

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "core/csv.h"
#include "core/file.h"
#include "core/held.h"
#include "core/num.h"
#include "core/text.h"
#include "cost/constants.h"
#include "cost/fit.h"
#include "cost/nccl_log.h"

enum { MOST_TESTS = 5 };
static const double POOR = 0.3; /* mean error */
static const double SMALL_BYTES = 65536, LARGE_BYTES = 16777216;
static const double FIRST_START_S = 5e-6;
/* No message between nodes of a cluster takes longer; what does is the start of a protocol, which other hops do not repeat. */
static const double MOST_LATENCY_S = 2e-4;
/* Weights of rows up to these sizes and of larger ones: most bytes of a training step are sent in large messages. */
static const double WEIGHTS[] = {0.25, 1, 4};

static int size_class(double bytes) {
  return bytes <= SMALL_BYTES ? 0 : bytes <= LARGE_BYTES ? 1 : 2;
}

struct fitter {
  struct pz_cluster *net;
  struct pz_nccl_row *rows;
  uint32_t n;
  int level; /* that is fitted */
  struct pz_fit fit;
};

static double predicted_s(const struct pz_cluster *net, const struct pz_nccl_row *row) {
  return pz_network_s(&pz_constants_default, net, row->kind, row->bytes, row->group);
}

static double loss(void *ctx) {
  const struct fitter *f = ctx;
  double sum = 0;
  uint32_t n = 0;
  for (uint32_t i = 0; i < f->n; i++) {
    const struct pz_nccl_row *row = &f->rows[i];
    if (row->level != f->level || row->left_out) continue;
    sum +=
        WEIGHTS[size_class(row->bytes)] * pz_fit_row_loss(log(predicted_s(f->net, row) / row->s));
    n++;
  }
  return n ? (sum + pz_fit_prior(&f->fit)) / n : HUGE_VAL;
}

/* ---- rows ----------------------------------------------------------------------------------- */

/* The group of a row: hosts of a few devices each inside one domain are packed; in nodes, devices are spread evenly where not
 * all of a node take part.  Messages of sendrecv go to neighbours across the outermost level. */
static enum pz_status place_row(struct pz_nccl_row *row, struct pz_cluster *net,
                                struct pz_error *err) {
  int64_t node = net->level[0].devices, stride = 1;
  bool nodes = row->devices > row->per_node && node <= PZ_SERVER_DEVICES;
  if (node <= PZ_SERVER_DEVICES && (row->per_node > node || (nodes && node % row->per_node)))
    return pz_fail(err, PZ_BAD_INPUT,
                   "%s:%u: %" PRId64 " devices of a node; cluster %s has %" PRId64
                   "; accepted: a divisor of these, or --cluster with such nodes",
                   row->log, row->line, row->per_node, net->name, node);
  if (nodes) stride = node / row->per_node;
  if (nodes && net->n_levels < 2)
    return pz_fail(err, PZ_BAD_INPUT,
                   "%s:%u: %" PRId64 " devices on nodes of %" PRId64
                   "; cluster %s has one node; accepted: --cluster with a level between nodes",
                   row->log, row->line, row->devices, row->per_node, net->name);
  enum pz_status status =
      pz_cluster_reach(net, row->devices * stride, "the devices of the log", err);
  if (status != PZ_OK) return status;
  row->level = (int)(pz_cluster_level(net, row->devices * stride) - net->level);
  if (row->kind == PZ_COLLECTIVE_SEND && row->level) stride = net->level[row->level - 1].devices;
  row->group = (struct pz_group){row->devices, stride};
  return PZ_OK;
}

/* Rows that are faster than the bytes allow at the full rate of their outermost level belong to another network.  All-reduces
 * between two nodes may run over trees, which send half of what a ring sends; the model has these only with sums in switches,
 * and leaves them out otherwise. */
static enum pz_status check_rate(const struct pz_cluster *net, struct pz_nccl_row *row,
                                 struct pz_error *err) {
  static const double SLACK = 1.03;
  const struct pz_level *l = &net->level[row->level];
  double n = (double)row->devices, node = (double)net->level[0].devices, below = 1;
  bool rings =
      row->kind == PZ_COLLECTIVE_ALL_REDUCE && !(net->level[0].collectives.switch_efficiency > 0);
  if (row->level) below = (double)pz_max(1, l[-1].devices / row->group.stride);
  double least = (rings ? 2 : 1) * (1 - 1 / n) / below * row->bytes / l->bytes_per_s;
  if (row->kind == PZ_COLLECTIVE_ALL_TO_ALL) least = (1 - below / n) * row->bytes / l->bytes_per_s;
  if (row->kind == PZ_COLLECTIVE_SEND) least = row->bytes / l->bytes_per_s;
  if (row->s * SLACK >= least) return PZ_OK;
  row->left_out = rings && row->level && n * (double)row->group.stride <= 2 * node;
  if (row->left_out) return PZ_OK;
  return pz_fail(err, PZ_BAD_INPUT,
                 "%s:%u: %s of %.0f B over %" PRId64
                 " devices in %.4g us, %.4g at the full rate of %s of cluster %s (%.4g GB/s a "
                 "device); accepted: --cluster with the rates of this network",
                 row->log, row->line, row->test, row->bytes, row->devices, 1e6 * row->s,
                 1e6 * least, l->name, net->name, l->bytes_per_s / 1e9);
}

/* ---- the account ---------------------------------------------------------------------------- */

static void add_error(struct pz_network_error *e, int size, double before, double after) {
  double n = ++e->rows[size];
  e->before[size] += (before - e->before[size]) / n;
  e->after[size] += (after - e->after[size]) / n;
}

/* Errors by test, and of all, the last. */
static void find_errors(const struct fitter *f, const struct pz_cluster *before,
                        struct pz_network_error *tests, struct pz_network_calibration *out) {
  struct pz_network_error all = {.test = "all"};
  for (uint32_t i = 0, t; i < f->n; i++) {
    const struct pz_nccl_row *row = &f->rows[i];
    if (row->left_out) continue;
    for (t = 0; t < out->n_tests && strcmp(tests[t].test, row->test) != 0;) t++;
    if (t == out->n_tests) tests[out->n_tests++].test = row->test;
    for (int k = 0; k < 4; k++)
      add_error(k & 1 ? &all : &tests[t], k & 2 ? PZ_NETWORK_SIZES - 1 : size_class(row->bytes),
                fabs(predicted_s(before, row) / row->s - 1),
                fabs(predicted_s(f->net, row) / row->s - 1));
  }
  tests[out->n_tests++] = all;
  out->tests = tests;
  out->cluster.calibration_error = all.after[all.rows[2] ? 2 : PZ_NETWORK_SIZES - 1];
}

/* Fits one level where rows show it. */
static void fit_level(struct fitter *f, struct pz_network_level_fit *out) {
  const struct pz_constants *k = &pz_constants_default;
  struct pz_level *l = &f->net->level[f->level];
  struct pz_collective_facts *facts = &l->collectives;
  double *delay = f->level ? &l->latency_s : &facts->startup_s;
  for (uint32_t i = 0; i < f->n; i++) {
    double bytes = f->rows[i].bytes;
    if (f->rows[i].level != f->level || f->rows[i].left_out) continue;
    out->least_bytes = out->rows ? pz_fmin(out->least_bytes, bytes) : bytes;
    out->most_bytes = pz_fmax(out->most_bytes, bytes);
    out->rows++;
  }
  if (!(facts->efficiency > 0))
    facts->efficiency = f->level ? k->outer_efficiency : k->ring_efficiency;
  if (!f->level && !(*delay > 0)) *delay = k->ring_startup_s;
  if (f->level) *delay = pz_fmax(*delay, 1e-7);
  if (f->level && !(facts->startup_s > 0)) facts->startup_s = FIRST_START_S;
  out->before_bytes_per_s = facts->efficiency * l->bytes_per_s;
  out->before_s = *delay;
  if (out->rows) {
    f->fit = (struct pz_fit){.loss = loss, .ctx = f};
    pz_fit_add(&f->fit, &facts->efficiency, 0.01, 1);
    pz_fit_add(&f->fit, delay, 1e-7, f->level ? MOST_LATENCY_S : 1e-3);
    if (f->level) pz_fit_add(&f->fit, &facts->startup_s, 1e-7, 0.01);
    pz_fit_add(&f->fit, &facts->switch_efficiency, 0.01, 1);
    pz_fit_search(&f->fit);
  }
  out->after_bytes_per_s = facts->efficiency * l->bytes_per_s;
  out->after_s = *delay;
}

/* Fits the cluster in *out to the rows. */
static enum pz_status fit(struct pz_network_calibration *out, const struct pz_chip *chip,
                          const struct pz_vec *rows, struct pz_arena *arena, struct pz_error *err) {
  const struct pz_cluster sheet = out->cluster;
  struct pz_cluster *net = &out->cluster;
  struct fitter f = {.net = net, .rows = rows->items, .n = rows->n};
  struct pz_network_level_fit *levels =
      pz_arena_alloc(arena, PZ_CLUSTER_MOST_LEVELS, sizeof *levels);
  struct pz_network_error *tests = pz_arena_alloc(arena, MOST_TESTS + 1, sizeof *tests);
  enum pz_status status = PZ_OK;
  if (!levels || !tests) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the fit");
  if (net->level[0].n_axes)
    return pz_fail(err, PZ_BAD_INPUT,
                   "cluster %s is a torus; accepted: clusters of nodes, on which NCCL runs",
                   net->name);
  net->level[0].collectives = pz_cluster_facts(net, &chip->collectives);
  for (uint32_t i = 0; i < f.n && status == PZ_OK; i++) status = place_row(&f.rows[i], net, err);
  for (uint32_t i = 0; i < f.n && status == PZ_OK; i++) status = check_rate(net, &f.rows[i], err);
  if (status != PZ_OK) return status;
  struct pz_cluster before = *net;
  for (f.level = 0; f.level < net->n_levels; f.level++) fit_level(&f, &levels[f.level]);
  out->levels = levels;
  find_errors(&f, &before, tests, out);
  for (int l = 0; l < net->n_levels; l++) {
    if (!levels[l].rows) net->level[l] = sheet.level[l];
    net->level[l].devices = sheet.level[l].devices;
  }
  net->devices = sheet.devices;
  if (tests[out->n_tests - 1].rows[PZ_NETWORK_SIZES - 1]) return PZ_OK;
  return pz_fail(err, PZ_BAD_INPUT,
                 "%s: all %u all-reduces between two nodes are faster than a ring on cluster %s; "
                 "accepted: logs of all_gather_perf or of more nodes, or another --cluster",
                 f.rows[0].log, f.n, net->name);
}

/* ---- for programs --------------------------------------------------------------------------- */

/* The preset whose name is in that of a device, as a100-80 in "NVIDIA A100-SXM4-80GB": the longest one; NULL: none. */
static const char *chip_of_device(const char *device) {
  char small[64];
  const char *best = NULL, *name;
  for (size_t i = 0; i < sizeof small; i++) small[i] = (char)tolower((unsigned char)device[i]);
  for (size_t i = 0; (name = pz_chip_preset_name(i)); i++) {
    bool in = true;
    for (const char *at = name; *at && in; at += strcspn(at, "-"), at += *at == '-') {
      char word[32];
      snprintf(word, sizeof word, "%.*s", (int)strcspn(at, "-"), at);
      in = strstr(small, word) != NULL;
    }
    if (in && (!best || strlen(name) > strlen(best))) best = name;
  }
  return best;
}

/* Chip and data sheet: as the options say, otherwise as the logs and presets do. */
static enum pz_status find_machine(const struct pz_calibrate_network_options *o, const char *device,
                                   struct pz_chip *chip, struct pz_network_calibration *out,
                                   struct pz_arena *arena, struct pz_error *err) {
  enum pz_status status = PZ_OK;
  out->chip = o->chip ? o->chip : chip_of_device(device);
  if (o->cluster) status = pz_cluster_load(o->cluster, &out->cluster, err);
  if (status != PZ_OK) return status;
  if (!out->chip && *out->cluster.chips) out->chip = out->cluster.chips;
  if (!out->chip)
    return pz_fail(err, PZ_BAD_USE, "the logs name no known device%s%s; accepted: --chip CHIP",
                   *device ? ", but " : "", device);
  out->chip = pz_arena_printf(arena, "%.*s", (int)strcspn(out->chip, " "), out->chip);
  if (!out->chip) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the chip");
  status = pz_chip_read(out->chip, chip, err);
  if (status == PZ_OK && !o->cluster && !pz_cluster_standard(chip->name, &out->cluster))
    status = pz_fail(err, PZ_BAD_USE, "no cluster of chip %s is known; accepted: --cluster NET",
                     chip->name);
  return status;
}

static enum pz_status read_logs(const char *paths, struct pz_nccl_logs *logs, struct pz_vec *files,
                                struct pz_arena *arena, struct pz_error *err) {
  enum pz_status status = PZ_OK;
  for (const char *at = paths; status == PZ_OK && at;
       at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
    const char *path = pz_arena_printf(arena, "%.*s", (int)strcspn(at, ","), at);
    char *text = NULL;
    size_t bytes = 0;
    if (!path || !pz_vec_push(files, &path))
      return pz_fail(err, PZ_NO_MEMORY, "out of memory for the logs");
    status = pz_file_read(path, PZ_CSV_MOST_BYTES, &text, &bytes, err);
    if (status == PZ_OK) status = pz_nccl_log_read(path, text, arena, logs, err);
    pz_free(text);
  }
  if (status == PZ_OK && !logs->rows.n)
    status = pz_fail(err, PZ_BAD_INPUT,
                     "%s: no row of a test that is read, but %u of others; accepted: all_reduce, "
                     "all_gather, reduce_scatter, alltoall, sendrecv",
                     paths, logs->others);
  return status;
}

/* What the user should know of logs and fit. */
static bool add_notes(struct pz_network_calibration *c, const struct pz_nccl_logs *logs,
                      struct pz_arena *arena) {
  uint32_t left_out = logs->rows.n - c->tests[c->n_tests - 1].rows[PZ_NETWORK_SIZES - 1];
  const char **notes = pz_arena_alloc(arena, 3, sizeof *notes);
  if (!notes) return false;
  if (logs->others)
    notes[c->n_notes++] =
        pz_arena_printf(arena, "%u rows of other tests are not used", logs->others);
  if (left_out)
    notes[c->n_notes++] = pz_arena_printf(
        arena,
        "%u all-reduces between two nodes are faster than a ring on these links; they ran over "
        "trees, and are left out",
        left_out);
  if (c->cluster.calibration_error > POOR)
    notes[c->n_notes++] = "the fit is poor: are cluster, devices and test those of the logs?";
  c->notes = notes;
  for (uint32_t i = 0; i < c->n_notes; i++)
    if (!notes[i]) return false;
  return true;
}

static void name_cluster(struct pz_network_calibration *c) {
  struct pz_cluster *net = &c->cluster;
  const char *slash = strrchr(c->files[0], '/');
  char name[sizeof net->name];
  snprintf(name, sizeof name, "%.*s, calibrated", (int)sizeof name - 14, net->name);
  pz_text_copy(net->name, sizeof net->name, name);
  snprintf(net->calibrated, sizeof net->calibrated, "nccl-tests, %u rows: %.80s%s",
           c->tests[c->n_tests - 1].rows[PZ_NETWORK_SIZES - 1], slash ? slash + 1 : c->files[0],
           c->n_files > 1 ? " and others" : "");
  pz_text_plain(net->calibrated);
  net->standard = false;
}

struct pz_calibrate_network_options pz_calibrate_network_options_default(void) {
  return (struct pz_calibrate_network_options){.size = sizeof(struct pz_calibrate_network_options)};
}

enum pz_status pz_calibrate_network(const struct pz_calibrate_network_options *options,
                                    struct pz_network_calibration **out, struct pz_error *err) {
  struct pz_calibrate_network_options o = pz_calibrate_network_options_default();
  struct pz_arena *arena;
  struct pz_chip chip;
  struct pz_vec files;
  void *made = NULL;
  enum pz_status status =
      pz_sized_take(&o, sizeof o, options, "pz_calibrate_network_options_default", err);
  if (status == PZ_OK) status = pz_need_each(err, {o.logs, "logs"}, {out, "out"});
  if (status == PZ_OK) status = pz_held_new(sizeof **out, "the calibration", &made, &arena, err);
  if (status != PZ_OK) return status;
  struct pz_network_calibration *c = made;
  struct pz_nccl_logs logs = {.devices = o.devices, .per_node = o.node_devices};
  pz_vec_init(&logs.rows, arena, sizeof(struct pz_nccl_row));
  pz_vec_init(&files, arena, sizeof(const char *));
  status = read_logs(o.logs, &logs, &files, arena, err);
  c->files = files.items;
  c->n_files = files.n;
  if (status == PZ_OK) status = find_machine(&o, logs.device, &chip, c, arena, err);
  if (status == PZ_OK) status = fit(c, &chip, &logs.rows, arena, err);
  if (status == PZ_OK && !add_notes(c, &logs, arena))
    status = pz_fail(err, PZ_NO_MEMORY, "out of memory for the calibration");
  if (status == PZ_OK) name_cluster(c);
  return pz_held_give(status, made, out);
}

void pz_network_calibration_free(struct pz_network_calibration *c) { pz_held_free(c); }
