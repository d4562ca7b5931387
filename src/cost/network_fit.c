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

/* A row and where it lies in the network. */
struct measured {
  const struct pz_nccl_row *row;
  struct pz_group group;
  int level; /* outermost one that it crosses */
  bool left_out;
};

struct fitter {
  const struct pz_constants *k;
  struct pz_cluster *net;
  struct measured *rows;
  uint32_t n;
  int level; /* that is fitted */
  struct pz_fit fit;
};

static double predicted_s(const struct fitter *f, const struct pz_cluster *net, uint32_t i) {
  const struct measured *m = &f->rows[i];
  struct pz_group g = m->group;
  if (m->row->kind == PZ_COLLECTIVE_SEND &&
      m->level > 0) /* neighbours across the outermost level */
    g.stride = f->net->level[m->level - 1].devices;
  return pz_network_s(f->k, net, m->row->kind, m->row->bytes, g);
}

static double loss(void *ctx) {
  const struct fitter *f = ctx;
  double sum = 0;
  uint32_t n = 0;
  for (uint32_t i = 0; i < f->n; i++) {
    if (f->rows[i].level != f->level || f->rows[i].left_out) continue;
    double weight = WEIGHTS[size_class(f->rows[i].row->bytes)];
    sum += weight * pz_fit_row_loss(log(predicted_s(f, f->net, i) / f->rows[i].row->s));
    n++;
  }
  return n ? (sum + pz_fit_prior(&f->fit)) / n : HUGE_VAL;
}

/* ---- rows ----------------------------------------------------------------------------------- */

/* The group of a row: hosts of a few devices each inside one domain are packed; in nodes, devices are spread evenly where not
 * all of a node take part. */
static enum pz_status place_row(const struct pz_nccl_row *row, struct pz_cluster *net,
                                struct measured *m, struct pz_error *err) {
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
  *m = (struct measured){row, {row->devices, stride}, 0, false};
  if (status == PZ_OK) m->level = (int)(pz_cluster_level(net, row->devices * stride) - net->level);
  return status;
}

/* Seconds that the bytes of a row need at the full rate of its outermost level. */
static double least_s(const struct pz_cluster *net, const struct measured *m) {
  const struct pz_nccl_row *row = m->row;
  double n = (double)m->group.devices, rate = net->level[m->level].bytes_per_s, below = 1;
  if (m->level) below = (double)pz_max(1, net->level[m->level - 1].devices / m->group.stride);
  double ring = row->bytes * (1 - 1 / n);
  bool sums = net->level[0].collectives.switch_efficiency > 0;
  switch (row->kind) {
  case PZ_COLLECTIVE_ALL_REDUCE: return (sums ? 1 : 2) * ring / (below * rate);
  case PZ_COLLECTIVE_ALL_TO_ALL: return row->bytes * (1 - below / n) / rate;
  case PZ_COLLECTIVE_SEND: return row->bytes / rate;
  default: return ring / (below * rate);
  }
}

/* Rows that are faster than the links belong to another network.  All-reduces between two nodes may run over trees, which
 * send half of what a ring sends; the model has these only with sums in switches, and leaves them out otherwise. */
static enum pz_status check_rate(const struct pz_cluster *net, struct measured *m,
                                 struct pz_error *err) {
  static const double SLACK = 1.03;
  const struct pz_nccl_row *row = m->row;
  double least = least_s(net, m), node = (double)(net->level[0].devices / m->group.stride);
  bool sums = net->level[0].collectives.switch_efficiency > 0;
  if (row->s * SLACK >= least) return PZ_OK;
  m->left_out = row->kind == PZ_COLLECTIVE_ALL_REDUCE && m->level > 0 && !sums &&
                (double)m->group.devices <= 2 * node;
  if (m->left_out) return PZ_OK;
  return pz_fail(err, PZ_BAD_INPUT,
                 "%s:%u: %s of %.0f B over %" PRId64
                 " devices in %.4g us, %.4g at the full rate of %s of cluster %s (%.4g GB/s a "
                 "device); accepted: --cluster with the rates of this network",
                 row->log, row->line, row->test, row->bytes, row->devices, 1e6 * row->s,
                 1e6 * least, net->level[m->level].name, net->name,
                 net->level[m->level].bytes_per_s / 1e9);
}

/* ---- the account ---------------------------------------------------------------------------- */

static void add_error(struct pz_network_error *e, int size, double before, double after) {
  const int sizes[] = {size, PZ_NETWORK_SIZES - 1};
  for (int i = 0; i < 2; i++) {
    double n = ++e->rows[sizes[i]];
    e->before[sizes[i]] += (before - e->before[sizes[i]]) / n;
    e->after[sizes[i]] += (after - e->after[sizes[i]]) / n;
  }
}

/* Errors by test, and of all; rows that were left out. */
static uint32_t find_errors(const struct fitter *f, const struct pz_cluster *before,
                            struct pz_network_error *tests, struct pz_network_calibration *out) {
  struct pz_network_error all = {.test = "all"};
  uint32_t left_out = 0;
  for (uint32_t i = 0, t; i < f->n; i++) {
    const struct pz_nccl_row *row = f->rows[i].row;
    left_out += f->rows[i].left_out;
    if (f->rows[i].left_out) continue;
    double was = fabs(predicted_s(f, before, i) / row->s - 1);
    double is = fabs(predicted_s(f, f->net, i) / row->s - 1);
    for (t = 0; t < out->n_tests && strcmp(tests[t].test, row->test) != 0;) t++;
    if (t == out->n_tests) tests[out->n_tests++].test = row->test;
    add_error(&tests[t], size_class(row->bytes), was, is);
    add_error(&all, size_class(row->bytes), was, is);
  }
  tests[out->n_tests++] = all;
  out->tests = tests;
  out->cluster.calibration_error = all.after[all.rows[2] ? 2 : PZ_NETWORK_SIZES - 1];
  return left_out;
}

static double reached(const struct fitter *f, const struct pz_level *l, int level) {
  double efficiency = l->collectives.efficiency;
  return level ? pz_network_outer_rate(f->k, l)
               : l->bytes_per_s * (efficiency > 0 ? efficiency : f->k->ring_efficiency);
}

/* Starts at the best point of a coarse grid over parts from 1 down and times from 0.5 us up: where another limit hides the
 * links, small steps change nothing. */
static void begin_search(struct fitter *f) {
  enum { STEPS = 12, MOST = 3 };
  struct pz_fit_constant *v = f->fit.v;
  double best = loss(f), at[MOST];
  int points = 1;
  for (int k = 0; k < f->fit.n; k++) {
    at[k] = *v[k].at;
    points *= STEPS;
  }
  for (int i = 0; i < points; i++) {
    for (int k = 0, digits = i; k < f->fit.n; k++, digits /= STEPS)
      *v[k].at = v[k].max < 1 ? pz_fmin(5e-7 * pow(2, digits % STEPS), v[k].max)
                              : pow(0.75, digits % STEPS);
    double now = loss(f);
    for (int k = 0; now < best && k < f->fit.n; k++) at[k] = *v[k].at;
    best = pz_fmin(best, now);
  }
  for (int k = 0; k < f->fit.n; k++) *v[k].at = at[k];
}

/* Fits one level where rows show it. */
static void fit_level(struct fitter *f, struct pz_network_level_fit *out) {
  struct pz_level *l = &f->net->level[f->level];
  struct pz_collective_facts *facts = &l->collectives;
  double *delay = f->level ? &l->latency_s : &facts->startup_s;
  for (uint32_t i = 0; i < f->n; i++) {
    double bytes = f->rows[i].row->bytes;
    if (f->rows[i].level != f->level || f->rows[i].left_out) continue;
    out->least_bytes = out->rows ? pz_fmin(out->least_bytes, bytes) : bytes;
    out->most_bytes = pz_fmax(out->most_bytes, bytes);
    out->rows++;
  }
  out->before_bytes_per_s = out->after_bytes_per_s = reached(f, l, f->level);
  if (!f->level && !(*delay > 0)) *delay = f->k->ring_startup_s;
  if (f->level) *delay = pz_fmax(*delay, 1e-7);
  if (f->level && !(facts->startup_s > 0)) facts->startup_s = FIRST_START_S;
  out->before_s = out->after_s = *delay;
  facts->efficiency = out->before_bytes_per_s / l->bytes_per_s;
  if (!out->rows) return;
  f->fit = (struct pz_fit){.loss = loss, .ctx = f};
  pz_fit_add(&f->fit, &facts->efficiency, 0.01, 1);
  pz_fit_add(&f->fit, delay, 1e-7, f->level ? MOST_LATENCY_S : 1e-3);
  if (f->level) pz_fit_add(&f->fit, &facts->startup_s, 1e-7, 0.01);
  pz_fit_add(&f->fit, &facts->switch_efficiency, 0.01, 1);
  begin_search(f);
  pz_fit_search(&f->fit);
  out->after_bytes_per_s = reached(f, l, f->level);
  out->after_s = *delay;
}

/* Fits the cluster in *out to the rows. */
static enum pz_status fit(struct pz_network_calibration *out, const struct pz_chip *chip,
                          const struct pz_vec *rows, struct pz_arena *arena, uint32_t *left_out,
                          struct pz_error *err) {
  const struct pz_cluster sheet = out->cluster;
  struct pz_cluster *net = &out->cluster;
  struct fitter f = {.k = &pz_constants_default, .net = net, .n = rows->n};
  struct pz_network_level_fit *levels =
      pz_arena_alloc(arena, PZ_CLUSTER_MOST_LEVELS, sizeof *levels);
  struct pz_network_error *tests = pz_arena_alloc(arena, MOST_TESTS + 1, sizeof *tests);
  f.rows = pz_arena_alloc(arena, rows->n, sizeof *f.rows);
  if (!f.rows || !levels || !tests) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the fit");
  enum pz_status status = PZ_OK;
  if (net->level[0].n_axes)
    status = pz_fail(err, PZ_BAD_INPUT,
                     "cluster %s is a torus; accepted: clusters of nodes, on which NCCL runs",
                     net->name);
  net->level[0].collectives = pz_cluster_facts(net, &chip->collectives);
  for (uint32_t i = 0; i < f.n && status == PZ_OK; i++)
    status = place_row(pz_vec_at(rows, struct pz_nccl_row, i), net, &f.rows[i], err);
  for (uint32_t i = 0; i < f.n && status == PZ_OK; i++) status = check_rate(net, &f.rows[i], err);
  if (status != PZ_OK) return status;
  struct pz_cluster before = *net;
  for (f.level = 0; f.level < net->n_levels; f.level++) fit_level(&f, &levels[f.level]);
  out->levels = levels;
  *left_out = find_errors(&f, &before, tests, out);
  if (*left_out == f.n)
    return pz_fail(err, PZ_BAD_INPUT,
                   "%s: all %u all-reduces between two nodes are faster than a ring on cluster %s; "
                   "accepted: logs of all_gather_perf or of more nodes, or another --cluster",
                   f.rows[0].row->log, f.n, net->name);
  for (int l = 0; l < net->n_levels; l++) {
    if (!levels[l].rows) net->level[l] = sheet.level[l];
    net->level[l].devices = sheet.level[l].devices;
  }
  net->devices = sheet.devices;
  return PZ_OK;
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

static bool note_fit(struct pz_network_calibration *c, uint32_t others, uint32_t left_out,
                     struct pz_arena *arena) {
  const char **list = pz_arena_alloc(arena, 3, sizeof *list);
  bool good = list != NULL;
  if (good && others)
    good = (list[c->n_notes++] =
                pz_arena_printf(arena, "%u rows of other tests are not used", others)) != NULL;
  if (good && left_out)
    good = (list[c->n_notes++] = pz_arena_printf(
                arena,
                "%u all-reduces between two nodes are faster than a ring on these links; they ran "
                "over trees, and are left out",
                left_out)) != NULL;
  if (good && c->cluster.calibration_error > POOR)
    list[c->n_notes++] = "the fit is poor: are cluster, devices and test those of the logs?";
  c->notes = list;
  return good;
}

static void name_cluster(struct pz_network_calibration *c, uint32_t rows) {
  struct pz_cluster *net = &c->cluster;
  const char *slash = strrchr(c->files[0], '/');
  char name[sizeof net->name];
  snprintf(name, sizeof name, "%.*s, calibrated", (int)sizeof name - 14, net->name);
  pz_text_copy(net->name, sizeof net->name, name);
  snprintf(net->calibrated, sizeof net->calibrated, "nccl-tests, %u rows: %.80s%s", rows,
           slash ? slash + 1 : c->files[0], c->n_files > 1 ? " and others" : "");
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
  uint32_t left_out = 0;
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
  if (status == PZ_OK) status = fit(c, &chip, &logs.rows, arena, &left_out, err);
  if (status == PZ_OK && !note_fit(c, logs.others, left_out, arena))
    status = pz_fail(err, PZ_NO_MEMORY, "out of memory for the calibration");
  if (status == PZ_OK) name_cluster(c, c->tests[c->n_tests - 1].rows[PZ_NETWORK_SIZES - 1]);
  return pz_held_give(status, made, out);
}

void pz_network_calibration_free(struct pz_network_calibration *c) { pz_held_free(c); }
