/* Errors of predictions by data sheet: by chip, and by cross-validation over families of chips.
 * For each class of chips (those that launch kernels, and those that run compiled programs)
 * tabulate_errors() predicts a sample of the runs with every combination of values of the class's
 * fitted constants. leave_out_family() chooses the combination that is best for all other families
 * of the class and predicts the runs of the family with it.  All chips have equal weight. */
#include "study/cold_validation.h"

#include <math.h>
#include <stdlib.h>

#include "chip/chip.h"
#include "step/expected_error.h"

/* ---- errors by chip ------------------------------------------------------------------------- */

static int compare_names(const void *a, const void *b) {
  const struct pz_errors *first = a, *second = b;
  return strcmp(first->name, second->name);
}

/* Returns whether a run is dense (without experts, state-space layers or adapters) with 16-bit
 * GEMMs, which is the work that validations call "16-bit". */
static bool is_dense_16bit(const struct pz_validation_point *point) {
  return strcmp(point->work, "16-bit") == 0;
}

/* Returns the errors of the runs of quality ok as a sorted vector of struct pz_errors: those of
 * dense 16-bit runs by chip, or those of all others by chip and kind of work. */
static struct pz_vec errors_by_chip(struct pz_call *call, const struct pz_vec *points, bool dense) {
  struct pz_vec list;
  pz_vec_init(&list, call->arena, sizeof(struct pz_errors));
  for (uint32_t i = 0; i < points->n; i++) {
    const struct pz_validation_point *point = pz_vec_at(points, struct pz_validation_point, i);
    if (strcmp(point->quality, "ok") != 0) continue;
    if (is_dense_16bit(point) != dense) continue;
    const char *name = dense ? point->chip : pz_format(call, "%s %s", point->chip, point->work);
    struct pz_errors *errors = pz_errors_find(call, &list, name, PZ_POINT_RUN);
    if (point->predicted_s > 0 && point->measured_s > 0)
      pz_errors_time(errors, point->id, point->predicted_s / point->measured_s - 1);
    else
      errors->not_predicted++;
  }
  for (uint32_t i = 0; i < list.n; i++) pz_errors_finish(pz_vec_at(&list, struct pz_errors, i));
  if (list.n) qsort(list.items, list.n, sizeof(struct pz_errors), compare_names);
  return list;
}

/* Returns the errors of dense 16-bit runs by chip, their mean over chips and the standard deviation
 * of their biases, and the errors of all other runs (`others`) by chip and kind of work. */
struct pz_cold_errors pz_cold_chip_errors(struct pz_call *call, const struct pz_vec *points) {
  struct pz_vec chips = errors_by_chip(call, points, true);
  struct pz_vec others = errors_by_chip(call, points, false);
  struct pz_cold_errors errors = {.chips = chips.items,
                                  .n_chips = chips.n,
                                  .others = others.items,
                                  .n_others = others.n,
                                  .families_mean = (double)NAN};
  double n = 0, bias = 0, squares = 0;
  for (uint32_t i = 0; i < errors.n_chips; i++) {
    const struct pz_errors *chip = &errors.chips[i];
    if (!chip->n) continue;
    n++;
    errors.mean += chip->mean;
    bias += chip->bias;
    squares += chip->bias * chip->bias;
  }
  errors.mean /= n > 0 ? n : (double)NAN;
  errors.spread = n > 1 ? sqrt(fmax(0, squares - bias * bias / n) / (n - 1)) : (double)NAN;
  return errors;
}

/* ---- one family of chips left out ----------------------------------------------------------- */

enum {
  LEVELS = 6,       /* values that are tried for each constant */
  MOST_FITTED = 3,  /* fitted constants of a class */
  MOST_SAMPLED = 20 /* runs of a chip that constants are fitted on */
};

/* The fitted constants of a class of chips, and the errors of each chip in each cell of the grid,
 * which is one combination of their values. */
struct constant_grid {
  uint32_t constant[MOST_FITTED]; /* indices in pz_cold_at() */
  uint32_t n_constants, n_cells;
  struct pz_errors *errors; /* [cell][chip]; NULL if no run is of the class */
};

struct fitted_chip {
  const char *family;               /* product line: pz_chip_line() */
  enum pz_chip_execution execution; /* its class */
  uint32_t stride; /* every stride-th run is in the sample; 0 without any compared run */
};

/* The use of a point in the fit.  Only dense 16-bit runs on a chip are used. */
struct fitted_point {
  const struct fitted_chip *chip; /* NULL if the point is not used */
  bool sampled;
};

struct family_fit {
  const struct pz_vec *tables, *points;
  unsigned threads;
  uint32_t n_chips;
  struct fitted_chip *chips; /* in the order of struct pz_cold_errors */
  struct fitted_point *used; /* by point */
  bool *wanted;              /* by point: whether it is predicted next */
  double *step_s;            /* by point: the last prediction */
};

/* Returns the value of fitted constant i in a cell.  The digits of the cell's number in base LEVELS
 * are the levels of the constants, from the low end of a constant's range to the high end. */
static double constant_value(const struct constant_grid *grid, uint32_t cell, uint32_t i) {
  const struct pz_cold_info *constant = pz_cold_at(grid->constant[i]);
  for (uint32_t k = 0; k < i; k++) cell /= LEVELS;
  return constant->low + (constant->high - constant->low) * (cell % LEVELS) / (LEVELS - 1);
}

/* Predicts the wanted points with the constants of a cell, and stores the errors of every chip. */
static void predict_with_cell(struct pz_call *call, const struct family_fit *fit,
                              const struct constant_grid *grid, uint32_t cell,
                              struct pz_errors *errors) {
  struct pz_cold constants = pz_cold_usual();
  for (uint32_t i = 0; i < grid->n_constants; i++)
    constants.v[grid->constant[i]] = constant_value(grid, cell, i);
  uint32_t first = 0;
  for (uint32_t table_index = 0; table_index < fit->tables->n; table_index++) {
    const struct pz_run_table *table = pz_vec_at(fit->tables, struct pz_run_table, table_index);
    pz_run_table_again(call, table, &constants, &fit->wanted[first], fit->threads,
                       &fit->step_s[first]);
    first += table->n_rows;
  }
  for (uint32_t i = 0; i < fit->points->n; i++) {
    const struct pz_validation_point *point = pz_vec_at(fit->points, struct pz_validation_point, i);
    if (!(fit->step_s[i] > 0)) continue;
    struct pz_errors *chip_errors = &errors[fit->used[i].chip - fit->chips];
    pz_errors_time(chip_errors, point->id, fit->step_s[i] / point->measured_s - 1);
  }
  for (uint32_t i = 0; i < fit->n_chips; i++) pz_errors_finish(&errors[i]);
}

/* Lists the fitted constants of a class of chips, and predicts the sampled runs with every
 * combination of their values. */
static void tabulate_errors(struct pz_call *call, const struct family_fit *fit,
                            enum pz_chip_execution execution, struct constant_grid *grid) {
  grid->n_cells = 1;
  for (uint32_t i = 0; pz_cold_at(i) && grid->n_constants < MOST_FITTED; i++) {
    const struct pz_cold_info *constant = pz_cold_at(i);
    bool is_compiled = strncmp(constant->name, "compiled", 8) == 0; /* of compiled programs */
    if (strcmp(constant->kind, "fitted") != 0 || is_compiled == (execution == PZ_CHIP_STREAM))
      continue;
    grid->constant[grid->n_constants] = i;
    grid->n_constants++;
    grid->n_cells *= LEVELS;
  }
  bool has_sample = false;
  for (uint32_t i = 0; i < fit->points->n; i++) {
    const struct fitted_point *fitted = &fit->used[i];
    fit->wanted[i] = fitted->chip && fitted->sampled && fitted->chip->execution == execution;
    if (fit->wanted[i]) has_sample = true;
  }
  if (!has_sample) return;
  grid->errors = pz_alloc(call, (size_t)grid->n_cells * fit->n_chips, sizeof *grid->errors);
  for (uint32_t cell = 0; cell < grid->n_cells; cell++)
    predict_with_cell(call, fit, grid, cell, &grid->errors[(size_t)cell * fit->n_chips]);
}

/* Returns the mean over the chips in a family (`inside`), or over all chips outside of it, of
 * their mean errors and biases; NaN without chips. */
static struct pz_cold_family family_mean(const struct family_fit *fit,
                                         const struct pz_errors *errors, const char *family,
                                         bool inside) {
  struct pz_cold_family family_errors = {.name = family};
  double n = 0;
  for (uint32_t i = 0; i < fit->n_chips; i++) {
    bool is_member = strcmp(fit->chips[i].family, family) == 0;
    if (!errors[i].n || is_member != inside) continue;
    n++;
    family_errors.n += errors[i].n;
    family_errors.mean += errors[i].mean;
    family_errors.bias += errors[i].bias;
  }
  family_errors.mean /= n > 0 ? n : (double)NAN;
  family_errors.bias /= n > 0 ? n : (double)NAN;
  return family_errors;
}

/* Appends the errors of a family with the constants that are best for all other families of its
 * class, or nothing if there are none. */
static void leave_out_family(struct pz_call *call, const struct family_fit *fit,
                             const struct constant_grid *grid, const char *family,
                             struct pz_vec *families) {
  uint32_t best = 0; /* cell with the smallest mean error outside of the family */
  double least = family_mean(fit, grid->errors, family, false).mean;
  if (isnan(least)) return;
  for (uint32_t cell = 1; cell < grid->n_cells; cell++) {
    const struct pz_errors *errors = &grid->errors[(size_t)cell * fit->n_chips];
    double mean = family_mean(fit, errors, family, false).mean;
    if (mean < least) best = cell;
    least = fmin(least, mean);
  }
  /* Predict all runs of the family, sampled or not, with these constants. */
  for (uint32_t i = 0; i < fit->points->n; i++)
    fit->wanted[i] = fit->used[i].chip && strcmp(fit->used[i].chip->family, family) == 0;
  struct pz_errors *errors = pz_alloc(call, fit->n_chips, sizeof *errors);
  predict_with_cell(call, fit, grid, best, errors);
  struct pz_cold_value *constants = pz_alloc(call, grid->n_constants, sizeof *constants);
  for (uint32_t i = 0; i < grid->n_constants; i++)
    constants[i] =
        (struct pz_cold_value){pz_cold_at(grid->constant[i])->name, constant_value(grid, best, i)};
  struct pz_cold_family family_errors = family_mean(fit, errors, family, true);
  family_errors.constants = constants;
  family_errors.n_constants = grid->n_constants;
  pz_append(call, families, &family_errors);
}

/* Sets the chips and the used points of a fit: the family and class of every chip, and its dense
 * 16-bit runs of quality ok, of which an even sample of at most MOST_SAMPLED is fitted. */
static void set_chips_and_points(struct pz_call *call, const struct pz_cold_errors *errors,
                                 struct family_fit *fit) {
  for (uint32_t i = 0; i < fit->n_chips; i++) {
    const struct pz_errors *chip_errors = &errors->chips[i];
    struct pz_chip chip;
    fit->chips[i].family = pz_chip_line(chip_errors->name);
    if (!chip_errors->n) continue; /* without a compared run, the chip may be unknown */
    pz_chip_read(call, chip_errors->name, &chip);
    fit->chips[i].execution = chip.execution;
    fit->chips[i].stride = (chip_errors->n + MOST_SAMPLED - 1) / MOST_SAMPLED;
  }
  uint32_t *n_seen = pz_alloc(call, fit->n_chips, sizeof *n_seen); /* by chip: its runs so far */
  for (uint32_t i = 0; i < fit->points->n; i++) {
    const struct pz_validation_point *point = pz_vec_at(fit->points, struct pz_validation_point, i);
    bool is_compared = point->predicted_s > 0 && point->measured_s > 0;
    if (strcmp(point->quality, "ok") != 0 || !is_compared || !is_dense_16bit(point)) continue;
    uint32_t k = 0;
    while (k < fit->n_chips && strcmp(errors->chips[k].name, point->chip) != 0) k++;
    if (k == fit->n_chips) continue;
    fit->used[i] = (struct fitted_point){&fit->chips[k], n_seen[k] % fit->chips[k].stride == 0};
    n_seen[k]++;
  }
}

/* Sets errors->families, by cross-validation: the errors of every family of chips (a product line,
 * pz_chip_line) with the constants that are best for the other families of its class.  The class of
 * a chip is how it executes programs (enum pz_chip_execution).  Families without such runs, and
 * those without another family in their class, are omitted. */
void pz_cold_leave_out_families(struct pz_call *call, const struct pz_vec *tables,
                                const struct pz_vec *points, unsigned threads,
                                struct pz_cold_errors *errors) {
  struct family_fit fit = {
      .tables = tables, .points = points, .threads = threads, .n_chips = errors->n_chips};
  struct constant_grid grids[PZ_CHIP_EXECUTIONS] = {0}; /* errors by values of the constants */
  struct pz_vec families;
  pz_vec_init(&families, call->arena, sizeof(struct pz_cold_family));
  fit.chips = pz_alloc(call, fit.n_chips, sizeof *fit.chips);
  fit.used = pz_alloc(call, points->n, sizeof *fit.used);
  fit.wanted = pz_alloc(call, points->n, sizeof *fit.wanted);
  fit.step_s = pz_alloc(call, points->n, sizeof *fit.step_s);
  set_chips_and_points(call, errors, &fit);
  for (int execution = 0; execution < PZ_CHIP_EXECUTIONS; execution++)
    tabulate_errors(call, &fit, (enum pz_chip_execution)execution, &grids[execution]);
  for (uint32_t i = 0; i < fit.n_chips; i++) {
    const struct fitted_chip *chip = &fit.chips[i];
    const struct constant_grid *grid = &grids[chip->execution];
    bool is_done = false; /* an earlier chip has the same family */
    for (uint32_t k = 0; k < families.n && !is_done; k++)
      is_done = strcmp(pz_vec_at(&families, struct pz_cold_family, k)->name, chip->family) == 0;
    bool has_runs = chip->stride > 0, has_errors = grid->errors != NULL;
    if (has_runs && has_errors && !is_done)
      leave_out_family(call, &fit, grid, chip->family, &families);
  }
  errors->families = families.items;
  errors->n_families = families.n;
  errors->families_mean = 0;
  for (uint32_t i = 0; i < families.n; i++) errors->families_mean += errors->families[i].mean;
  errors->families_mean /= families.n ? (double)families.n : (double)NAN;
}
