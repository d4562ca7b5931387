#include "study/cold_validation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "chip/chip.h"
#include "core/status.h"
#include "step/expected_error.h"

/* ---- errors by chip ------------------------------------------------------------------------- */

static bool is_ok(const struct pz_validation_point *p) { return strcmp(p->quality, "ok") == 0; }
static bool is_dense(const struct pz_validation_point *p) { return strcmp(p->work, "16-bit") == 0; }

static struct pz_errors *errors_of(struct pz_vec *list, const char *name) {
  for (uint32_t i = 0; i < list->n; i++) {
    struct pz_errors *g = pz_vec_at(list, struct pz_errors, i);
    if (strcmp(g->name, name) == 0) return g;
  }
  struct pz_errors fresh = {.name = name, .kind = PZ_POINT_RUN};
  return pz_vec_push(list, &fresh);
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const struct pz_errors *)a)->name, ((const struct pz_errors *)b)->name);
}

/* Of the dense 16-bit runs by chip, or of the others by chip and what they are. */
static enum pz_status make_errors(const struct pz_vec *points, bool dense, struct pz_vec *list) {
  for (uint32_t i = 0; i < points->n; i++) {
    const struct pz_validation_point *p = pz_vec_at(points, struct pz_validation_point, i);
    if (!is_ok(p) || is_dense(p) != dense) continue;
    const char *name = dense ? p->chip : pz_arena_printf(list->arena, "%s %s", p->chip, p->work);
    struct pz_errors *g = name ? errors_of(list, name) : NULL;
    if (!g) return PZ_NO_MEMORY;
    if (p->predicted_s > 0 && p->measured_s > 0)
      pz_errors_time(g, p->id, p->predicted_s / p->measured_s - 1);
    else
      g->not_predicted++;
  }
  for (uint32_t i = 0; i < list->n; i++) pz_errors_finish(pz_vec_at(list, struct pz_errors, i));
  if (list->n) qsort(list->items, list->n, sizeof(struct pz_errors), by_name);
  return PZ_OK;
}

static void make_means(struct pz_cold_errors *e) {
  double n = 0, bias = 0, squares = 0;
  e->mean = 0;
  for (uint32_t i = 0; i < e->n_chips; i++) {
    const struct pz_errors *c = &e->chips[i];
    if (!c->n) continue;
    n++;
    e->mean += c->mean;
    bias += c->bias;
    squares += c->bias * c->bias;
  }
  e->mean /= n > 0 ? n : (double)NAN;
  e->spread = n > 1 ? sqrt(fmax(0, squares - bias * bias / n) / (n - 1)) : (double)NAN;
}

/* ---- one line of chips left out ------------------------------------------------------------- */

enum {
  LEVELS = 6,
  MOST_FITTED = 3
}; /* values of a constant that are tried; constants of a class */

/* Every combination of values of the fitted constants of a class: the errors of each chip. */
struct grid {
  enum pz_chip_execution execution;
  uint32_t fitted[MOST_FITTED]; /* of enum pz_cold_constant */
  uint32_t n_fitted, n_cells;
  struct pz_errors *errors; /* [cell][chip] */
};

struct fit {
  const struct pz_vec *tables, *points;
  const struct pz_errors *chips;
  uint32_t n_chips;
  enum pz_chip_execution *execution; /* of a chip */
  uint32_t *chip_of;                 /* of a point; PZ_NONE: not counted */
  bool *wanted;                      /* points */
  double *step_s;
  unsigned threads;
  struct pz_arena *arena;
  struct pz_error *err;
};

/* Constants of compiled programs are named after them; all others are of launched kernels. */
static void find_fitted(struct grid *g) {
  const struct pz_cold_info *c;
  g->n_cells = 1;
  for (uint32_t i = 0; (c = pz_cold_at(i)); i++) {
    bool compiled = strncmp(c->name, "compiled", 8) == 0;
    if (strcmp(c->kind, "fitted") != 0 || compiled != (g->execution != PZ_CHIP_STREAM)) continue;
    if (g->n_fitted == MOST_FITTED) return;
    g->fitted[g->n_fitted++] = i;
    g->n_cells *= LEVELS;
  }
}

static double level_of(const struct grid *g, uint32_t cell, uint32_t fitted) {
  const struct pz_cold_info *c = pz_cold_at(g->fitted[fitted]);
  while (fitted--) cell /= LEVELS;
  return c->low + (c->high - c->low) * (cell % LEVELS) / (LEVELS - 1);
}

/* The errors of every chip of the class with the constants of a cell. */
static enum pz_status try_cell(const struct fit *f, const struct grid *g, uint32_t cell) {
  struct pz_errors *errors = &g->errors[(size_t)cell * f->n_chips];
  struct pz_cold k = pz_cold_usual();
  uint32_t first = 0;
  for (uint32_t i = 0; i < g->n_fitted; i++) k.v[g->fitted[i]] = level_of(g, cell, i);
  for (uint32_t t = 0; t < f->tables->n; t++) {
    const struct pz_run_table *table = pz_vec_at(f->tables, struct pz_run_table, t);
    enum pz_status status =
        pz_run_table_again(table, &k, &f->wanted[first], f->threads, &f->step_s[first], f->err);
    if (status != PZ_OK) return status;
    first += table->n_rows;
  }
  for (uint32_t i = 0; i < f->points->n; i++) {
    const struct pz_validation_point *p = pz_vec_at(f->points, struct pz_validation_point, i);
    if (f->step_s[i] > 0)
      pz_errors_time(&errors[f->chip_of[i]], p->id, f->step_s[i] / p->measured_s - 1);
  }
  for (uint32_t i = 0; i < f->n_chips; i++) pz_errors_finish(&errors[i]);
  return PZ_OK;
}

static enum pz_status make_grid(const struct fit *f, struct grid *g) {
  bool any = false;
  find_fitted(g);
  for (uint32_t i = 0; i < f->points->n; i++) {
    const struct pz_validation_point *p = pz_vec_at(f->points, struct pz_validation_point, i);
    f->wanted[i] = f->chip_of[i] != PZ_NONE && p->measured_s > 0 &&
                   f->execution[f->chip_of[i]] == g->execution;
    any |= f->wanted[i];
  }
  if (!any) return PZ_OK;
  g->errors = pz_arena_alloc(f->arena, (size_t)g->n_cells * f->n_chips, sizeof *g->errors);
  enum pz_status status =
      g->errors ? PZ_OK : pz_fail(f->err, PZ_NO_MEMORY, "out of memory for the fit");
  for (uint32_t cell = 0; cell < g->n_cells && status == PZ_OK; cell++)
    status = try_cell(f, g, cell);
  return status;
}

/* The mean over chips of a line, or of all others, of their mean errors; NaN: there are none. */
static struct pz_cold_family line_errors(const struct fit *f, const struct grid *g, uint32_t cell,
                                         const char *line, bool within) {
  struct pz_cold_family e = {.name = line};
  double n = 0;
  for (uint32_t i = 0; i < f->n_chips; i++) {
    const struct pz_errors *c = &g->errors[(size_t)cell * f->n_chips + i];
    if (!c->n || (strcmp(pz_chip_line(f->chips[i].name), line) == 0) != within) continue;
    n++;
    e.n += c->n;
    e.mean += c->mean;
    e.bias += c->bias;
  }
  e.mean /= n > 0 ? n : (double)NAN;
  e.bias /= n > 0 ? n : (double)NAN;
  return e;
}

/* A line of chips with the constants that are best for all others of its class; none where there are no others. */
static enum pz_status leave_out(const struct fit *f, const struct grid *g, const char *line,
                                struct pz_vec *families) {
  uint32_t best = 0;
  for (uint32_t cell = 1; cell < g->n_cells; cell++)
    if (line_errors(f, g, cell, line, false).mean < line_errors(f, g, best, line, false).mean)
      best = cell;
  if (isnan(line_errors(f, g, best, line, false).mean)) return PZ_OK;
  struct pz_cold_family e = line_errors(f, g, best, line, true);
  struct pz_cold_value *constants = pz_arena_alloc(f->arena, g->n_fitted, sizeof *constants);
  if (!constants) return PZ_NO_MEMORY;
  for (uint32_t i = 0; i < g->n_fitted; i++)
    constants[i] = (struct pz_cold_value){pz_cold_at(g->fitted[i])->name, level_of(g, best, i)};
  e.constants = constants;
  e.n_constants = g->n_fitted;
  return pz_vec_push(families, &e) ? PZ_OK : PZ_NO_MEMORY;
}

static bool has_family(const struct pz_vec *families, const char *line) {
  for (uint32_t i = 0; i < families->n; i++)
    if (strcmp(pz_vec_at(families, struct pz_cold_family, i)->name, line) == 0) return true;
  return false;
}

/* Room for points and chips; the chip of each point, how each chip runs its programs. */
static enum pz_status prepare(struct fit *f) {
  f->execution = pz_arena_alloc(f->arena, f->n_chips, sizeof *f->execution);
  f->chip_of = pz_arena_alloc(f->arena, f->points->n, sizeof *f->chip_of);
  f->wanted = pz_arena_alloc(f->arena, f->points->n, sizeof *f->wanted);
  f->step_s = pz_arena_alloc(f->arena, f->points->n, sizeof *f->step_s);
  if (!f->execution || !f->chip_of || !f->wanted || !f->step_s)
    return pz_fail(f->err, PZ_NO_MEMORY, "out of memory for the fit");
  for (uint32_t i = 0; i < f->n_chips; i++) {
    struct pz_chip chip;
    if (!f->chips[i].n) continue; /* may be no chip */
    enum pz_status status = pz_chip_load(f->chips[i].name, &chip, f->err);
    if (status != PZ_OK) return status;
    f->execution[i] = chip.execution;
  }
  for (uint32_t i = 0; i < f->points->n; i++) {
    const struct pz_validation_point *p = pz_vec_at(f->points, struct pz_validation_point, i);
    f->chip_of[i] = PZ_NONE;
    for (uint32_t c = 0; c < f->n_chips && is_ok(p) && is_dense(p); c++)
      if (strcmp(f->chips[c].name, p->chip) == 0) f->chip_of[i] = c;
  }
  return PZ_OK;
}

static enum pz_status make_families(struct fit *f, struct pz_vec *families) {
  struct grid grids[PZ_CHIP_EXECUTIONS] = {0};
  enum pz_status status = prepare(f);
  for (int k = 0; k < PZ_CHIP_EXECUTIONS && status == PZ_OK; k++) {
    grids[k].execution = (enum pz_chip_execution)k;
    status = make_grid(f, &grids[k]);
  }
  for (uint32_t i = 0; i < f->n_chips && status == PZ_OK; i++) {
    const char *line = pz_chip_line(f->chips[i].name);
    const struct grid *g = &grids[f->execution[i]];
    if (!g->errors || !f->chips[i].n || has_family(families, line)) continue;
    if (leave_out(f, g, line, families) != PZ_OK)
      status = pz_fail(f->err, PZ_NO_MEMORY, "out of memory for the fit");
  }
  return status;
}

enum pz_status pz_cold_validate(const struct pz_vec *tables, const struct pz_vec *points,
                                unsigned threads, struct pz_arena *arena,
                                struct pz_cold_errors *out, struct pz_error *err) {
  struct pz_vec chips, others, families;
  pz_vec_init(&chips, arena, sizeof(struct pz_errors));
  pz_vec_init(&others, arena, sizeof(struct pz_errors));
  pz_vec_init(&families, arena, sizeof(struct pz_cold_family));
  if (make_errors(points, true, &chips) != PZ_OK || make_errors(points, false, &others) != PZ_OK)
    return pz_fail(err, PZ_NO_MEMORY, "out of memory for the validation");
  struct pz_cold_errors e = {
      .chips = chips.items, .n_chips = chips.n, .others = others.items, .n_others = others.n};
  make_means(&e);
  struct fit f = {.tables = tables,
                  .points = points,
                  .chips = e.chips,
                  .n_chips = e.n_chips,
                  .threads = threads,
                  .arena = arena,
                  .err = err};
  enum pz_status status = make_families(&f, &families);
  if (status != PZ_OK) return status;
  e.families = families.items;
  e.n_families = families.n;
  for (uint32_t i = 0; i < e.n_families; i++) e.families_mean += e.families[i].mean / e.n_families;
  *out = e;
  return PZ_OK;
}
