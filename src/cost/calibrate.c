#include "cost/calibrate.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chip/chip.h"
#include "core/held.h"
#include "core/status.h"
#include "core/text.h"
#include "core/vec.h"
#include "cost/constants.h"
#include "cost/fit.h"

enum pz_status pz_calibrate_errors(const struct pz_chip *chip, const struct pz_measured *m,
                                   double *errors, struct pz_error *err) {
  struct pz_cost cost;
  enum pz_status status = PZ_OK;
  pz_cost_init(&cost, chip, NULL);
  for (uint32_t i = 0; i < m->n && status == PZ_OK; i++) {
    double us;
    status = pz_ops_us(&cost, &m->rows[i], &us, err);
    if (status == PZ_OK) errors[i] = us / m->rows[i].us - 1;
  }
  pz_cost_release(&cost);
  return status;
}

/* ---- groups of rows that show the same constants -------------------------------------------- */

struct group {
  struct pz_chip *chip;
  const struct pz_measured *m;
  const uint32_t *rows; /* that show them */
  uint32_t n_rows;
  struct pz_fit fit;
  enum pz_status status; /* of the last prediction that failed */
  struct pz_progress *progress;
  struct pz_error *err;
};

/* The mean over rows, with the prior. */
static double loss(void *ctx) {
  struct group *g = ctx;
  struct pz_cost cost;
  double sum = 0, us = 0;
  pz_progress_add(g->progress, 0);
  if (g->status == PZ_OK && pz_progress_stopped(g->progress))
    g->status = pz_fail(g->err, PZ_STOPPED, "stopped");
  if (g->status != PZ_OK) return HUGE_VAL;
  pz_cost_init(&cost, g->chip, NULL);
  for (uint32_t i = 0; i < g->n_rows && sum < HUGE_VAL; i++) {
    uint32_t r = g->rows[i];
    struct pz_error err = {0};
    enum pz_status status = pz_ops_us(&cost, &g->m->rows[r], &us, &err);
    sum += status == PZ_OK ? pz_fit_row_loss(log(us / g->m->rows[r].us)) : HUGE_VAL;
    if (status != PZ_OK) g->status = pz_fail(g->err, status, "%s", err.message);
  }
  pz_cost_release(&cost);
  return (sum + pz_fit_prior(&g->fit)) / g->n_rows;
}

static enum pz_status search(struct group *g) {
  g->fit.loss = loss;
  g->fit.ctx = g;
  if (g->n_rows > 0) pz_fit_search(&g->fit);
  return g->status;
}

/* ---- constants ------------------------------------------------------------------------------ */

static const char *last_word(const char *key) {
  const char *dot = strrchr(key, '.');
  return dot ? dot + 1 : key;
}

/* A constant by name; where it has the value of an uncalibrated chip it begins at `guess`, unless
 * that is 0. */
static void add_constant(struct group *g, const struct pz_key *list, size_t n, void *base,
                         const char *name, double guess) {
  for (size_t i = 0; i < n; i++) {
    if (strcmp(last_word(list[i].key), name) != 0) continue;
    double *at = (double *)((char *)base + list[i].offset);
    if (*at == list[i].absent && guess != 0) *at = guess;
    pz_fit_add(&g->fit, at, list[i].min, pz_key_most(&list[i]));
  }
}

struct needs {
  bool batched, even, odd; /* rows of this kind are there */
};

static struct needs needs_of(const struct group *g) {
  struct needs x = {0};
  for (uint32_t i = 0; i < g->n_rows; i++) {
    const struct pz_ops_row *r = &g->m->rows[g->rows[i]];
    bool even = r->n % 2 == 0 && r->k % 2 == 0;
    x.batched |= r->batch > 1;
    x.even |= even && (r->n % 8 || r->k % 8);
    x.odd |= !even;
  }
  return x;
}

/* Guesses are about those of an H200. */
static void product_constants(struct group *g) {
  struct pz_calibration *c = &g->chip->calibration;
  size_t n;
  const struct pz_key *list = pz_calibration_constants(&n);
  struct needs has = needs_of(g);
  add_constant(g, list, n, c, "tensor_efficiency", 0.8);
  if (g->n_rows < 4) return;
  add_constant(g, list, n, c, "startup_s", 3e-6);
  if (has.batched) add_constant(g, list, n, c, "batched_startup_s", 3e-6);
  add_constant(g, list, n, c, "tile_value_s", 1e-11);
  add_constant(g, list, n, c, "hbm_read_efficiency", 0.85);
  add_constant(g, list, n, c, "hbm_write_efficiency", 0.85);
  if (c->throttle > 1) add_constant(g, list, n, c, "boost_s", 0);
  if (has.even) add_constant(g, list, n, c, "even_rows", 0);
  if (has.odd) add_constant(g, list, n, c, "odd_rows", 0);
}

/* What a kernel that the chip lacks begins with.  Attention: the forward kernel of the library, or
 * the default.  A derivative: bytes at the rate of the default kernel, with the forward kernel's time
 * for a row.  A variant (gelu_tanh): its operator's kernel. */
static struct pz_kernel first_kernel(const struct pz_chip *chip, const char *name) {
  char parent[sizeof chip->calibration.kernels[0].kind];
  pz_text_copy(parent, sizeof parent, name);
  char *last = strrchr(parent, '_');
  bool attention = strncmp(name, "attention", 9) == 0, derivative = last && !strcmp(last, "_bwd");
  if (last) *last = '\0';
  const struct pz_kernel *own = pz_chip_kernel(chip, parent),
                         *other = pz_chip_kernel(chip, attention ? "attention" : "default"),
                         *from = own && (attention || !derivative) ? own : other;
  struct pz_kernel k = from ? *from : pz_kernel_none();
  if (own && !attention) k.row_s = own->row_s;
  if (strcmp(name, "experts") == 0) {
    k = pz_kernel_none();
    k.efficiency = pz_constants_default.experts_efficiency;
    k.hbm_efficiency = pz_constants_default.experts_hbm_efficiency;
  }
  pz_text_copy(k.kind, sizeof k.kind, name);
  return k;
}

/* The kernel of this name, new where the chip has none; NULL where it has no room for one. */
static struct pz_kernel *kernel_named(struct pz_chip *chip, const char *name) {
  struct pz_calibration *c = &chip->calibration;
  for (int i = 0; i < c->n_kernels; i++)
    if (strcmp(c->kernels[i].kind, name) == 0) return &c->kernels[i];
  if (c->n_kernels == PZ_CHIP_MOST_KERNELS) return NULL;
  struct pz_kernel *k = &c->kernels[c->n_kernels++];
  *k = first_kernel(chip, name);
  return k;
}

static void kernel_constants(struct group *g, struct pz_kernel *k) {
  static const char *const others[] = {"value_latency_s", "row_s", "long_row_again", "block_row_s",
                                       "block_value_s"};
  bool attention = strncmp(k->kind, "attention", 9) == 0;
  size_t n;
  const struct pz_key *list = pz_kernel_constants(&n);
  bool many = g->n_rows >= 4, experts = strcmp(k->kind, "experts") == 0;
  if (experts) add_constant(g, list, n, k, "efficiency", 0);
  add_constant(g, list, n, k, attention ? "efficiency" : "hbm_efficiency", attention ? 0.7 : 0.85);
  if (!many || experts) return;
  add_constant(g, list, n, k, "startup_s", 3e-6);
  add_constant(g, list, n, k, "cycles", attention ? 12 : 0);
  if (attention) add_constant(g, list, n, k, "row_s", 3e-6);
  for (size_t i = 0; i < sizeof others / sizeof *others && !attention; i++)
    add_constant(g, list, n, k, others[i], 0);
}

/* What collectives reach over the link, with the ranges of a chip file. */
#define LINK(name, least, most)                                                                    \
  {                                                                                                \
    .key = "link." #name, .offset = offsetof(struct pz_collective_facts, name), .min = least,      \
    .max = most                                                                                    \
  }
static const struct pz_key link_constants[] = {
    LINK(efficiency, 0.01, 1),
    LINK(startup_s, 0, 1e-3),
    LINK(switch_efficiency, 0.01, 1),
};
enum { LINK_CONSTANTS = sizeof link_constants / sizeof *link_constants };

static void add_link_constants(struct group *g) {
  static const double guess[LINK_CONSTANTS] = {0.76, 1e-5, 0}; /* those of an A100 */
  for (int i = 0; i < LINK_CONSTANTS; i++)
    add_constant(g, link_constants, LINK_CONSTANTS, &g->chip->collectives,
                 last_word(link_constants[i].key), guess[i]);
}

/* ---- the fit -------------------------------------------------------------------------------- */

static bool row_shows(const struct pz_ops_row *row, const char *kernel, bool fp8) {
  const char *own = pz_ops_kernel(row);
  const char *name = pz_ops_name(row->op);
  bool large = row->m >= 1024 && row->n >= 1024 && row->k >= 1024; /* more product than cast */
  if (fp8) return strcmp(name, "fp8_gemm") == 0 || (strcmp(name, "fp8_linear") == 0 && large);
  return own && strcmp(own, kernel) == 0;
}

/* Fit the constants that one kernel's rows show; "" for products. */
static enum pz_status fit_group(struct group *g, uint32_t *rows, const bool *use,
                                const char *kernel, bool fp8, struct pz_error *err) {
  size_t n;
  const struct pz_key *list = pz_calibration_constants(&n);
  g->rows = rows;
  g->n_rows = 0;
  g->fit.n = 0;
  for (uint32_t i = 0; i < g->m->n; i++)
    if ((!use || use[i]) && row_shows(&g->m->rows[i], kernel, fp8)) rows[g->n_rows++] = i;
  if (g->n_rows == 0) return PZ_OK;
  uint32_t shown = g->n_rows; /* of many rows a sample, spread over the table */
  if (shown > PZ_CALIBRATE_MOST_ROWS) g->n_rows = PZ_CALIBRATE_MOST_ROWS;
  for (uint32_t i = 0; i < g->n_rows; i++) rows[i] = rows[(uint64_t)i * shown / g->n_rows];
  bool link = strcmp(kernel, "link") == 0;
  struct pz_kernel *k = *kernel && !link ? kernel_named(g->chip, kernel) : NULL;
  if (*kernel && !link && !k)
    return pz_fail(err, PZ_BAD_INPUT, "chip %s has %d kernels; accepted: room for '%s'",
                   g->chip->name, PZ_CHIP_MOST_KERNELS, kernel);
  if (fp8)
    add_constant(g, list, n, &g->chip->calibration, "fp8_speedup", 1.8);
  else if (link)
    add_link_constants(g);
  else if (k)
    kernel_constants(g, k);
  else
    product_constants(g);
  return search(g);
}

/* Kernels that rows show, each once, in the order of the operators. */
struct shown {
  const char *name[PZ_CHIP_MOST_KERNELS + 2];
  int n;
};

static void add_shown(struct shown *s, const char *kernel) {
  int i = 0;
  while (i < s->n && strcmp(s->name[i], kernel) != 0) i++;
  if (i == s->n && i < (int)(sizeof s->name / sizeof *s->name)) s->name[s->n++] = kernel;
}

static void find_shown(const struct pz_measured *m, struct shown *s) {
  for (uint32_t op = 0; pz_ops_name(op); op++)
    for (uint32_t i = 0; i < m->n; i++)
      if (m->rows[i].op == op && pz_ops_kernel(&m->rows[i]))
        add_shown(s, pz_ops_kernel(&m->rows[i]));
}

/* Groups are numbered: the kernels shown, then fp8 products. */
static const char *group_name(const struct shown *s, int i) {
  return i == s->n ? "fp8 products" : *s->name[i] ? s->name[i] : "products";
}

struct judged {
  double before, after; /* mean errors of the group's rows that were not used */
  uint32_t rows;
  bool worse; /* an operator of it */
};

/* Errors of a group's rows with use[i] false (NULL: of all rows), of the chip before and after its fit. */
static enum pz_status judge_group(const struct pz_chip *before, struct group *g, const bool *use,
                                  const char *kernel, bool fp8, struct judged *j) {
  static const double RISE = 1.1;
  const struct pz_chip *chips[] = {before, g->chip};
  struct pz_cost cost[2];
  enum pz_status status = PZ_OK;
  *j = (struct judged){0};
  for (int c = 0; c < 2; c++) pz_cost_init(&cost[c], chips[c], NULL);
  for (uint32_t op = 0; pz_ops_name(op) && status == PZ_OK; op++) {
    double sum[2] = {0};
    for (uint32_t i = 0; i < g->m->n && status == PZ_OK; i++) {
      const struct pz_ops_row *row = &g->m->rows[i];
      double us = 0;
      if (row->op != op || (use && use[i]) || !row_shows(row, kernel, fp8)) continue;
      j->rows++;
      for (int c = 0; c < 2 && status == PZ_OK; c++) {
        status = pz_ops_us(&cost[c], row, &us, g->err);
        sum[c] += fabs(us / row->us - 1);
      }
    }
    j->before += sum[0];
    j->after += sum[1];
    j->worse |= sum[1] > RISE * sum[0];
  }
  for (int c = 0; c < 2; c++) pz_cost_release(&cost[c]);
  j->before /= fmax(1, j->rows);
  j->after /= fmax(1, j->rows);
  return status;
}

/* Fit every group to the rows with use[i]; with `rejected` put back those that are judged worse with the others, and leave
 * alone those that stand there already. */
static enum pz_status fit_groups(struct pz_chip *chip, const struct pz_measured *m, const bool *use,
                                 struct pz_vec *rejected, struct pz_progress *progress,
                                 struct pz_error *err) {
  struct pz_arena arena;
  struct pz_chip fitted = *chip;
  struct group g = {.chip = &fitted, .m = m, .progress = progress, .err = err};
  struct shown shown = {.n = 0};
  pz_arena_init(&arena, NULL);
  uint32_t *rows = pz_arena_alloc(&arena, m->n, sizeof *rows);
  enum pz_status status =
      rows ? PZ_OK : pz_fail(err, PZ_NO_MEMORY, "out of memory for the calibration");
  find_shown(m, &shown);
  pz_progress_next(progress, use ? "fit to one half" : "fit to all", "kernels",
                   (uint64_t)shown.n + 1);
  for (int i = 0; i <= shown.n && status == PZ_OK; i++) {
    pz_progress_add(progress, i > 0);
    bool fp8 = i == shown.n, skip = false;
    const char *kernel = fp8 ? "" : shown.name[i], *name = group_name(&shown, i);
    for (uint32_t k = 0; rejected && k < rejected->n; k++)
      skip |= strcmp(pz_vec_at(rejected, struct pz_rejected_fit, k)->name, name) == 0;
    if (skip) continue;
    struct pz_chip before = fitted;
    struct judged j = {0};
    status = fit_group(&g, rows, use, kernel, fp8, err);
    if (status == PZ_OK && rejected) status = judge_group(&before, &g, use, kernel, fp8, &j);
    if (status != PZ_OK || !j.rows || (j.after < j.before && !j.worse)) continue;
    struct pz_rejected_fit x = {name, j.before, j.after};
    fitted = before;
    if (g.fit.n && !pz_vec_push(rejected, &x))
      status = pz_fail(err, PZ_NO_MEMORY, "out of memory for the calibration");
  }
  pz_progress_finish(progress, NULL);
  pz_arena_release(&arena);
  if (status == PZ_OK) *chip = fitted;
  return status;
}

enum pz_status pz_calibrate_fit(struct pz_chip *chip, const struct pz_measured *m, const bool *use,
                                struct pz_error *err) {
  return fit_groups(chip, m, use, NULL, NULL, err);
}

/* ---- the account ---------------------------------------------------------------------------- */

static void add_residual(struct pz_fit_residual *r, const double e[3], bool use) {
  r->rows++;
  r->held += !use;
  r->before += fabs(e[0]);
  *(use ? &r->fitted_half : &r->held_half) += fabs(e[1]);
  r->after += fabs(e[2]);
}

static void mean_residual(struct pz_fit_residual *r) {
  uint32_t fitted = r->rows - r->held;
  r->before /= r->rows;
  r->after /= r->rows;
  if (fitted) r->fitted_half /= fitted;
  if (r->held) r->held_half /= r->held;
}

static uint32_t count_ops(void) {
  uint32_t n = 0;
  while (pz_ops_name(n)) n++;
  return n;
}

static bool tell_residuals(const struct pz_measured *m, double *const errors[3], const bool *use,
                           struct pz_arena *arena, struct pz_calibrated *out) {
  struct pz_fit_residual *list = pz_arena_alloc(arena, count_ops(), sizeof *list);
  if (!list) return false;
  for (uint32_t op = 0; pz_ops_name(op); op++) {
    struct pz_fit_residual r = {.op = pz_ops_name(op)};
    for (uint32_t i = 0; i < m->n; i++) {
      const double e[] = {errors[0][i], errors[1][i], errors[2][i]};
      if (m->rows[i].op != op) continue;
      add_residual(&r, e, use[i]);
      add_residual(&out->all, e, use[i]);
    }
    if (r.rows == 0) continue;
    mean_residual(&r);
    list[out->n_residuals++] = r;
  }
  out->all.op = "all";
  mean_residual(&out->all);
  out->residuals = list;
  return true;
}

/* From a to b; `first` is where the search began. */
static void tell_change(struct pz_calibrated *out, struct pz_constant_change *list,
                        const char *kernel, const struct pz_key *c, const void *a,
                        const void *first, const void *b) {
  double before = a ? *(const double *)((const char *)a + c->offset) : c->absent,
         begin = *(const double *)((const char *)first + c->offset),
         after = *(const double *)((const char *)b + c->offset);
  if (before == after) return;
  struct pz_constant_change *x = &list[out->n_changes++];
  snprintf(x->name, sizeof x->name, "%s%s%s", kernel, *kernel ? "." : "", last_word(c->key));
  x->before = before;
  x->after = after;
  x->at_bound = after != begin && (after == c->min || after == pz_key_most(c));
}

static bool tell_changes(const struct pz_chip *chip, struct pz_arena *arena,
                         struct pz_calibrated *out) {
  size_t n, per_kernel;
  const struct pz_key *list = pz_calibration_constants(&n),
                      *kernel = pz_kernel_constants(&per_kernel);
  const struct pz_calibration *c = &out->chip->calibration;
  struct pz_constant_change *to =
      pz_arena_alloc(arena, n + LINK_CONSTANTS + per_kernel * (size_t)c->n_kernels, sizeof *to);
  if (!to) return false;
  for (size_t i = 0; i < n; i++)
    tell_change(out, to, "", &list[i], &chip->calibration, &chip->calibration, c);
  for (int i = 0; i < LINK_CONSTANTS; i++)
    tell_change(out, to, "link", &link_constants[i], &chip->collectives, &chip->collectives,
                &out->chip->collectives);
  for (int k = 0; k < c->n_kernels; k++) {
    const struct pz_kernel *own = pz_chip_kernel(chip, c->kernels[k].kind);
    struct pz_kernel first = own ? *own : first_kernel(chip, c->kernels[k].kind);
    for (size_t i = 0; i < per_kernel; i++)
      tell_change(out, to, c->kernels[k].kind, &kernel[i], own, &first, &c->kernels[k]);
  }
  out->changes = to;
  return true;
}

/* Does any row show the constants of this kernel, of products ("") or of fp8 products? */
static bool is_shown(const struct pz_measured *m, const char *kernel, bool fp8) {
  for (uint32_t i = 0; i < m->n; i++)
    if (row_shows(&m->rows[i], kernel, fp8)) return true;
  return false;
}

static bool tell_kept(const struct pz_chip *chip, const struct pz_measured *m,
                      struct pz_arena *arena, struct pz_calibrated *out) {
  const struct pz_calibration *c = &chip->calibration;
  const char **list = pz_arena_alloc(arena, (size_t)c->n_kernels + 2, sizeof *list);
  if (!list) return false;
  if (!is_shown(m, "", false)) list[out->n_kept++] = "products";
  if (!is_shown(m, "", true)) list[out->n_kept++] = "fp8 products";
  for (int k = 0; k < c->n_kernels; k++)
    if (!is_shown(m, c->kernels[k].kind, false)) {
      list[out->n_kept] = pz_arena_printf(arena, "%s", c->kernels[k].kind);
      if (!list[out->n_kept++]) return false;
    }
  out->kept = list;
  return true;
}

/* Every second row of each operator, the first included. */
static void halve(const struct pz_measured *m, bool *use) {
  for (uint32_t op = 0; pz_ops_name(op); op++) {
    bool next = true;
    for (uint32_t i = 0; i < m->n; i++)
      if (m->rows[i].op == op) {
        use[i] = next;
        next = !next;
      }
  }
}

/* Times that no chip like this one would show: another unit, another chip, a broken measurement. */
static enum pz_status check_times(const struct pz_chip *chip, const struct pz_measured *m,
                                  const double *errors, struct pz_error *err) {
  static const double MOST = 50, START_US = 10; /* an uncalibrated chip starts in no time */
  for (uint32_t i = 0; i < m->n; i++) {
    double us = (errors[i] + 1) * m->rows[i].us;
    if (m->rows[i].us <= MOST * (us + START_US) && m->rows[i].us >= us / MOST) continue;
    return pz_fail(err, PZ_BAD_INPUT,
                   "%s:%u: %s takes %.4g us, %.4g are predicted for %s; accepted: microseconds "
                   "within a factor of %.0f",
                   m->rows[i].table, m->rows[i].line, pz_ops_name(m->rows[i].op), m->rows[i].us, us,
                   chip->name, MOST);
  }
  return PZ_OK;
}

enum pz_status pz_calibrate_to(const struct pz_chip *chip, const struct pz_measured *m,
                               struct pz_progress *progress, struct pz_arena *arena,
                               struct pz_calibrated *out, struct pz_error *err) {
  struct pz_chip half = *chip, *all = pz_arena_alloc(arena, 1, sizeof *all);
  double *errors[3];
  bool *use = pz_arena_alloc(arena, m->n, sizeof *use), room = all && use;
  for (int i = 0; i < 3; i++) {
    errors[i] = pz_arena_alloc(arena, m->n, sizeof *errors[i]);
    room = room && errors[i];
  }
  if (!room) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the calibration");
  *all = *chip;
  halve(m, use);
  enum pz_status status = pz_calibrate_errors(chip, m, errors[0], err);
  if (status == PZ_OK) status = check_times(chip, m, errors[0], err);
  struct pz_vec rejected;
  pz_vec_init(&rejected, arena, sizeof(struct pz_rejected_fit));
  if (status == PZ_OK) status = fit_groups(&half, m, use, &rejected, progress, err);
  if (status == PZ_OK) status = pz_calibrate_errors(&half, m, errors[1], err);
  if (status == PZ_OK) status = fit_groups(all, m, NULL, &rejected, progress, err);
  if (status == PZ_OK) status = pz_calibrate_errors(all, m, errors[2], err);
  if (status != PZ_OK) return status;
  struct pz_calibrated o = {.chip = all, .rejected = rejected.items, .n_rejected = rejected.n};
  if (!tell_residuals(m, errors, use, arena, &o) || !tell_changes(chip, arena, &o) ||
      !tell_kept(chip, m, arena, &o))
    return pz_fail(err, PZ_NO_MEMORY, "out of memory for the calibration");
  *out = o;
  return PZ_OK;
}

/* ---- for programs --------------------------------------------------------------------------- */

struct pz_calibrate_options pz_calibrate_options_default(void) {
  return (struct pz_calibrate_options){.size = sizeof(struct pz_calibrate_options)};
}

static const double POOR = 0.3; /* mean error */

/* What the user should know of tables and fit: of so many rows only some are used; rows that name one chip are taken for
 * those of this one, whatever its name. */
static bool add_notes(const struct pz_measured *all, const struct pz_measured *used,
                      const char *chip, struct pz_arena *arena, struct pz_calibrated *out) {
  const char **notes = pz_arena_alloc(arena, (size_t)all->n_skipped + 3, sizeof *notes);
  uint32_t n = all->n_skipped;
  if (!notes) return false;
  for (uint32_t i = 0; i < n; i++) notes[i] = all->skipped[i];
  if (used->n != all->n)
    notes[n++] = pz_arena_printf(
        arena,
        "%u of %u rows are used; the others are of other chips, marked as slow or not predicted "
        "('phaze validate --ops' lists them)",
        used->n, all->n);
  if (used->rows[0].chip && strcmp(used->rows[0].chip, chip) != 0)
    notes[n++] =
        pz_arena_printf(arena, "all rows are of %s, and used for %s", used->rows[0].chip, chip);
  if (out->all.after > POOR) notes[n++] = "the fit is poor: is the table of a chip like this one?";
  for (uint32_t i = 0; i < n; i++)
    if (!notes[i]) return false;
  out->notes = notes;
  out->n_notes = n;
  return true;
}

static enum pz_status calibrate(const struct pz_chip *chip, const char *ops,
                                struct pz_progress *progress, struct pz_arena *arena,
                                struct pz_calibrated *out, struct pz_error *err) {
  struct pz_measured all, used;
  enum pz_status status = pz_measured_load(ops, arena, &all, err);
  if (status == PZ_OK) status = pz_measured_of_chip(&all, chip, arena, &used, err);
  if (status == PZ_OK) status = pz_calibrate_to(chip, &used, progress, arena, out, err);
  if (status == PZ_OK) {
    struct pz_chip *named = pz_arena_alloc(arena, 1, sizeof *named);
    if (!named) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the calibration");
    *named = *out->chip;
    named->correction = (struct pz_correction){.steps = 0}; /* of other constants */
    named->name[strcspn(named->name, ",")] = '\0';
    pz_chip_name_calibrated(named, ops);
    out->chip = named;
  }
  if (status == PZ_OK && !add_notes(&all, &used, chip->name, arena, out))
    status = pz_fail(err, PZ_NO_MEMORY, "out of memory for the calibration");
  return status;
}

enum pz_status pz_calibrate(const struct pz_chip *chip, const struct pz_calibrate_options *options,
                            struct pz_calibrated **out, struct pz_error *err) {
  struct pz_calibrate_options o = pz_calibrate_options_default();
  struct pz_progress progress;
  atomic_bool stop = false;
  struct pz_arena *arena;
  void *made = NULL;
  enum pz_status status = pz_sized_take(&o, sizeof o, options, "pz_calibrate_options_default", err);
  if (status == PZ_OK) status = pz_need_each(err, {o.ops, "ops"}, {out, "out"});
  if (status == PZ_OK) status = pz_chip_check(chip, err);
  if (status == PZ_OK) status = pz_held_new(sizeof **out, "the calibration", &made, &arena, err);
  if (status != PZ_OK) return status;
  if (o.progress) pz_progress_start_call(&progress, o.progress, o.ctx, &stop);
  status = calibrate(chip, o.ops, o.progress ? &progress : NULL, arena, made, err);
  return pz_held_give(status, made, out);
}

void pz_calibrated_free(struct pz_calibrated *c) { pz_held_free(c); }
