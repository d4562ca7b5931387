#include "study/cold_validation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "chip/chip.h"
#include "core/status.h"
#include "step/expected_error.h"

/* ---- errors by chip ------------------------------------------------------------------------- */

/* Is it a run of quality ok: a dense one in 16 bits, or another? */
static bool is_counted(const struct pz_validation_point *p, bool dense) {
  return strcmp(p->quality, "ok") == 0 && (strcmp(p->work, "16-bit") == 0) == dense;
}

static bool is_compared(const struct pz_validation_point *p) {
  return p->predicted_s > 0 && p->measured_s > 0;
}

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
    if (!is_counted(p, dense)) continue;
    const char *name = dense ? p->chip : pz_arena_printf(list->arena, "%s %s", p->chip, p->work);
    struct pz_errors *g = name ? errors_of(list, name) : NULL;
    if (!g) return PZ_NO_MEMORY;
    if (is_compared(p))
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

enum pz_status pz_cold_chips(const struct pz_vec *points, struct pz_cold_errors *out) {
  struct pz_vec chips, others;
  pz_vec_init(&chips, points->arena, sizeof(struct pz_errors));
  pz_vec_init(&others, points->arena, sizeof(struct pz_errors));
  enum pz_status status = make_errors(points, true, &chips);
  if (status == PZ_OK) status = make_errors(points, false, &others);
  if (status != PZ_OK) return status;
  *out = (struct pz_cold_errors){.chips = chips.items,
                                 .n_chips = chips.n,
                                 .others = others.items,
                                 .n_others = others.n,
                                 .families_mean = (double)NAN};
  make_means(out);
  return PZ_OK;
}

/* ---- one line of chips left out ------------------------------------------------------------- */

enum {
  LEVELS = 6,       /* values of a constant that are tried */
  MOST_FITTED = 3,  /* constants of a class */
  MOST_SAMPLED = 20 /* runs of a chip that constants are fitted on */
};

/* Every combination of values of the fitted constants of a class: the errors of each chip. */
struct grid {
  uint32_t fitted[MOST_FITTED]; /* of enum pz_cold_constant */
  uint32_t n_fitted, n_cells;
  struct pz_errors *errors; /* [cell][chip]; NULL: no run is of the class */
};

/* A chip's runs. */
struct fit_chip {
  const char *line;
  enum pz_chip_execution execution;
  uint32_t stride, seen; /* constants are fitted on every so many of them */
};

struct fit_point {
  const struct fit_chip *chip; /* NULL: not counted */
  bool sampled;
};

struct fit {
  const struct pz_vec *tables, *points;
  const struct pz_errors *errors; /* of the chips */
  uint32_t n_chips;
  struct fit_chip *chips;
  struct fit_point *at; /* of a point */
  bool *wanted;         /* points to be predicted */
  double *step_s;
  unsigned threads;
  struct pz_arena *arena;
  struct pz_error *err;
};

static enum pz_status no_memory(const struct fit *f) {
  return pz_fail(f->err, PZ_NO_MEMORY, "out of memory for the fit");
}

/* Constants of compiled programs are named after them; all others are of launched kernels. */
static void find_fitted(enum pz_chip_execution execution, struct grid *g) {
  const struct pz_cold_info *c;
  g->n_cells = 1;
  for (uint32_t i = 0; (c = pz_cold_at(i)) && g->n_fitted < MOST_FITTED; i++) {
    bool compiled = strncmp(c->name, "compiled", 8) == 0;
    if (strcmp(c->kind, "fitted") != 0 || compiled == (execution == PZ_CHIP_STREAM)) continue;
    g->fitted[g->n_fitted++] = i;
    g->n_cells *= LEVELS;
  }
}

static double level_of(const struct grid *g, uint32_t cell, uint32_t fitted) {
  const struct pz_cold_info *c = pz_cold_at(g->fitted[fitted]);
  while (fitted--) cell /= LEVELS;
  return c->low + (c->high - c->low) * (cell % LEVELS) / (LEVELS - 1);
}

/* The errors of every chip over the wanted points with the constants of a cell. */
static enum pz_status try_cell(const struct fit *f, const struct grid *g, uint32_t cell,
                               struct pz_errors *errors) {
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
      pz_errors_time(&errors[f->at[i].chip - f->chips], p->id, f->step_s[i] / p->measured_s - 1);
  }
  for (uint32_t i = 0; i < f->n_chips; i++) pz_errors_finish(&errors[i]);
  return PZ_OK;
}

static enum pz_status make_grid(const struct fit *f, enum pz_chip_execution execution,
                                struct grid *g) {
  bool any = false;
  find_fitted(execution, g);
  for (uint32_t i = 0; i < f->points->n; i++) {
    const struct fit_point *p = &f->at[i];
    f->wanted[i] = p->chip && p->sampled && p->chip->execution == execution;
    any |= f->wanted[i];
  }
  if (!any) return PZ_OK;
  g->errors = pz_arena_alloc(f->arena, (size_t)g->n_cells * f->n_chips, sizeof *g->errors);
  enum pz_status status = g->errors ? PZ_OK : no_memory(f);
  for (uint32_t cell = 0; cell < g->n_cells && status == PZ_OK; cell++)
    status = try_cell(f, g, cell, &g->errors[(size_t)cell * f->n_chips]);
  return status;
}

/* Means over the chips of a line, or over all others; NaN: there are none. */
static struct pz_cold_family line_errors(const struct fit *f, const struct pz_errors *errors,
                                         const char *line, bool within) {
  struct pz_cold_family e = {.name = line};
  double n = 0;
  for (uint32_t i = 0; i < f->n_chips; i++) {
    if (!errors[i].n || (strcmp(f->chips[i].line, line) == 0) != within) continue;
    n++;
    e.n += errors[i].n;
    e.mean += errors[i].mean;
    e.bias += errors[i].bias;
  }
  e.mean /= n > 0 ? n : (double)NAN;
  e.bias /= n > 0 ? n : (double)NAN;
  return e;
}

/* A line of chips with the constants that are best for all others of its class; none where there are no others. */
static enum pz_status leave_out(const struct fit *f, const struct grid *g, const char *line,
                                struct pz_vec *families) {
  uint32_t best = 0;
  double least = line_errors(f, g->errors, line, false).mean;
  if (isnan(least)) return PZ_OK;
  for (uint32_t cell = 1; cell < g->n_cells; cell++) {
    double mean = line_errors(f, &g->errors[(size_t)cell * f->n_chips], line, false).mean;
    if (mean < least) best = cell;
    least = fmin(least, mean);
  }
  struct pz_errors *own = pz_arena_alloc(f->arena, f->n_chips, sizeof *own);
  struct pz_cold_value *constants = pz_arena_alloc(f->arena, g->n_fitted, sizeof *constants);
  if (!own || !constants) return no_memory(f);
  for (uint32_t i = 0; i < f->points->n; i++)
    f->wanted[i] = f->at[i].chip && strcmp(f->at[i].chip->line, line) == 0;
  enum pz_status status = try_cell(f, g, best, own);
  if (status != PZ_OK) return status;
  for (uint32_t i = 0; i < g->n_fitted; i++)
    constants[i] = (struct pz_cold_value){pz_cold_at(g->fitted[i])->name, level_of(g, best, i)};
  struct pz_cold_family e = line_errors(f, own, line, true);
  e.constants = constants;
  e.n_constants = g->n_fitted;
  return pz_vec_push(families, &e) ? PZ_OK : no_memory(f);
}

static bool has_family(const struct pz_vec *families, const char *line) {
  for (uint32_t i = 0; i < families->n; i++)
    if (strcmp(pz_vec_at(families, struct pz_cold_family, i)->name, line) == 0) return true;
  return false;
}

/* The chip of a point that is counted. */
static struct fit_chip *chip_of(const struct fit *f, const struct pz_validation_point *p) {
  for (uint32_t c = 0; c < f->n_chips && is_counted(p, true) && is_compared(p); c++)
    if (strcmp(f->errors[c].name, p->chip) == 0) return &f->chips[c];
  return NULL;
}

static enum pz_status prepare(struct fit *f) {
  f->chips = pz_arena_alloc(f->arena, f->n_chips, sizeof *f->chips);
  f->at = pz_arena_alloc(f->arena, f->points->n, sizeof *f->at);
  f->wanted = pz_arena_alloc(f->arena, f->points->n, sizeof *f->wanted);
  f->step_s = pz_arena_alloc(f->arena, f->points->n, sizeof *f->step_s);
  if (!f->chips || !f->at || !f->wanted || !f->step_s) return no_memory(f);
  for (uint32_t i = 0; i < f->n_chips; i++) {
    struct pz_chip chip;
    const struct pz_errors *e = &f->errors[i];
    f->chips[i].line = pz_chip_line(e->name);
    if (!e->n) continue; /* may be no chip */
    enum pz_status status = pz_chip_read(e->name, &chip, f->err);
    if (status != PZ_OK) return status;
    f->chips[i].execution = chip.execution;
    f->chips[i].stride = (e->n + MOST_SAMPLED - 1) / MOST_SAMPLED;
  }
  for (uint32_t i = 0; i < f->points->n; i++) {
    struct fit_chip *c = chip_of(f, pz_vec_at(f->points, struct pz_validation_point, i));
    f->at[i].chip = c;
    f->at[i].sampled = c && c->seen++ % c->stride == 0;
  }
  return PZ_OK;
}

static enum pz_status make_families(struct fit *f, struct pz_vec *families) {
  struct grid grids[PZ_CHIP_EXECUTIONS] = {0};
  enum pz_status status = prepare(f);
  for (int k = 0; k < PZ_CHIP_EXECUTIONS && status == PZ_OK; k++)
    status = make_grid(f, (enum pz_chip_execution)k, &grids[k]);
  for (uint32_t i = 0; i < f->n_chips && status == PZ_OK; i++) {
    const struct fit_chip *c = &f->chips[i];
    const struct grid *g = &grids[c->execution];
    if (g->errors && c->stride && !has_family(families, c->line))
      status = leave_out(f, g, c->line, families);
  }
  return status;
}

enum pz_status pz_cold_families(const struct pz_vec *tables, const struct pz_vec *points,
                                unsigned threads, struct pz_cold_errors *e, struct pz_error *err) {
  struct fit f = {.tables = tables,
                  .points = points,
                  .errors = e->chips,
                  .n_chips = e->n_chips,
                  .threads = threads,
                  .arena = points->arena,
                  .err = err};
  struct pz_vec families;
  pz_vec_init(&families, points->arena, sizeof(struct pz_cold_family));
  enum pz_status status = make_families(&f, &families);
  if (status != PZ_OK) return status;
  e->families = families.items;
  e->n_families = families.n;
  e->families_mean = 0;
  for (uint32_t i = 0; i < e->n_families; i++) e->families_mean += e->families[i].mean;
  e->families_mean /= e->n_families ? (double)e->n_families : (double)NAN;
  return PZ_OK;
}
