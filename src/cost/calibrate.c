/* Calibration of a chip from a table of measured operators (pz_calibrate).
 *
 * Constants are fitted in groups, because a row depends on the constants of one group only: those
 * of 16-bit GEMMs, those of each vector or attention kernel, those of the link between chips, and
 * the speedup of fp8 GEMMs.  Each group minimises the mean loss of its rows (cost/fit.h) within the
 * ranges that a chip file accepts.  pz_calibration_validated_fit() does this twice: with half of
 * the rows, so that the other half shows which groups gain from the fit, and then with all rows for
 * the groups that did.
 *
 * This file knows the names of calibration constants and kernels; how they determine a time is
 * known to cost/ops_table.h only. */
#include "cost/calibrate.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chip/chip.h"
#include "core/text.h"
#include "core/vec.h"
#include "cost/constants.h"
#include "cost/fit.h"

/* Returns the relative error of each row: predicted over measured time, less 1. */
const double *pz_calibration_errors(struct pz_call *call, const struct pz_chip *chip,
                                    const struct pz_measured *measured) {
  double *errors = pz_alloc(call, measured->n, sizeof *errors);
  struct pz_cost *cost = pz_cost_create(call, chip, NULL);
  for (uint32_t i = 0; i < measured->n; i++) {
    const struct pz_ops_row *row = &measured->rows[i];
    errors[i] = pz_ops_predicted_us(call, cost, row) / row->us - 1;
  }
  pz_close(call, cost);
  return errors;
}

/* ---- the constants of each group ------------------------------------------------------------- */

/* The fit of one group: constants of the calibration that the same rows depend on. */
struct group_fit {
  struct pz_call *call;
  struct pz_chip *chip; /* the chip whose constants the search changes */
  const struct pz_measured *measured;
  const uint32_t *rows; /* indices of the rows that the group is fitted to */
  uint32_t n_rows;
  struct pz_fit fit;
  struct pz_progress *progress; /* may be NULL */
};

/* Returns the mean loss over the rows of a group with the present constants of the chip, plus the
 * penalty for constants that left their initial values.  `ctx` is the struct group_fit.  Raises
 * PZ_STOPPED if the user has stopped the fit. */
static double group_loss(void *ctx) {
  struct group_fit *group = ctx;
  double sum = 0;
  pz_progress_add(group->progress, 0);
  if (pz_progress_stopped(group->progress)) {
    pz_progress_finish(group->progress, NULL);
    pz_raise(group->call, PZ_STOPPED, "stopped");
  }
  struct pz_cost *cost = pz_cost_create(group->call, group->chip, NULL);
  for (uint32_t i = 0; i < group->n_rows; i++) {
    const struct pz_ops_row *row = &group->measured->rows[group->rows[i]];
    sum += pz_fit_row_loss(log(pz_ops_predicted_us(group->call, cost, row) / row->us));
  }
  pz_close(group->call, cost);
  return (sum + pz_fit_prior(&group->fit)) / group->n_rows;
}

/* Returns the name of a constant without its path: startup_s of "calibration.startup_s". */
static const char *last_component(const char *key) {
  const char *dot = strrchr(key, '.');
  return dot ? dot + 1 : key;
}

/* The constants of one struct: their keys, and the struct that their offsets refer to. */
struct constant_list {
  const struct pz_key *keys;
  size_t n;
  void *base;
};

/* Adds the constant `name` of a list to the fit.  If it has the value of an uncalibrated chip, the
 * search begins at `guess` instead, unless that is 0. */
static void add_constant(struct group_fit *group, const struct constant_list *list,
                         const char *name, double guess) {
  for (size_t i = 0; i < list->n; i++) {
    const struct pz_key *key = &list->keys[i];
    if (strcmp(last_component(key->key), name) != 0) continue;
    double *value = (double *)((char *)list->base + key->offset);
    if (*value == key->absent && guess != 0) *value = guess;
    pz_fit_add(&group->fit, value, key->min, key->usual_max > 0 ? key->usual_max : key->max);
  }
}

/* Adds the constants of 16-bit GEMMs.  Constants that only some shapes depend on are added if there
 * are rows of such shapes: batches, and n or k that are not multiples of 8 (even) or not of 2
 * (odd).  The initial guesses are about those of an H200. */
static void add_gemm_constants(struct group_fit *group) {
  struct pz_calibration *calibration = &group->chip->calibration;
  struct constant_list list = {.base = calibration};
  list.keys = pz_calibration_constants(&list.n);
  bool has_batched = false, has_even = false, has_odd = false;
  for (uint32_t i = 0; i < group->n_rows; i++) {
    const struct pz_ops_row *row = &group->measured->rows[group->rows[i]];
    bool even = row->n % 2 == 0 && row->k % 2 == 0;
    bool aligned = row->n % 8 == 0 && row->k % 8 == 0;
    if (row->batch > 1) has_batched = true;
    if (even && !aligned) has_even = true;
    if (!even) has_odd = true;
  }
  add_constant(group, &list, "tensor_efficiency", 0.8);
  if (group->n_rows < 4) return;
  add_constant(group, &list, "startup_s", 3e-6);
  if (has_batched) add_constant(group, &list, "batched_startup_s", 3e-6);
  add_constant(group, &list, "tile_value_s", 1e-11);
  add_constant(group, &list, "hbm_read_efficiency", 0.85);
  add_constant(group, &list, "hbm_write_efficiency", 0.85);
  if (calibration->throttle > 1) add_constant(group, &list, "boost_s", 0);
  if (has_even) add_constant(group, &list, "even_rows", 0);
  if (has_odd) add_constant(group, &list, "odd_rows", 0);
}

/* Returns the initial constants of a kernel that the chip does not have yet.  They are copied from
 * a related kernel: attention from the forward kernel of the same library, or else from the default
 * attention kernel; a backward kernel from the default kernel, with the time per row of its forward
 * kernel; a variant such as gelu_tanh from its operator's kernel.  Kernels of routed experts begin
 * with the model's constants. */
static struct pz_kernel initial_kernel(const struct pz_chip *chip, const char *name) {
  char parent_name[sizeof chip->calibration.kernels[0].kind];
  pz_text_copy(parent_name, sizeof parent_name, name);
  char *suffix = strrchr(parent_name, '_');
  bool attention = strncmp(name, "attention", 9) == 0;
  bool backward = suffix && strcmp(suffix, "_bwd") == 0;
  if (suffix) *suffix = '\0';
  const struct pz_kernel *parent = pz_chip_kernel(chip, parent_name);
  const struct pz_kernel *fallback = pz_chip_kernel(chip, attention ? "attention" : "default");
  const struct pz_kernel *source = parent && (attention || !backward) ? parent : fallback;
  struct pz_kernel kernel = source ? *source : pz_kernel_none();
  if (parent && !attention) kernel.row_s = parent->row_s;
  if (strcmp(name, "experts") == 0) {
    kernel = pz_kernel_none();
    kernel.efficiency = pz_constants_default.experts_efficiency;
    kernel.hbm_efficiency = pz_constants_default.experts_hbm_efficiency;
  }
  pz_text_copy(kernel.kind, sizeof kernel.kind, name);
  return kernel;
}

/* Adds the constants of the kernel `name`, which is no GEMM; the chip gets the kernel if it has
 * none.  Few rows determine only its efficiency. */
static void add_kernel_constants(struct group_fit *group, const char *name) {
  static const char *const vector_only[] = {"value_latency_s", "row_s", "long_row_again",
                                            "block_row_s", "block_value_s"};
  struct pz_calibration *calibration = &group->chip->calibration;
  bool attention = strncmp(name, "attention", 9) == 0, experts = strcmp(name, "experts") == 0;
  int index = 0;
  while (index < calibration->n_kernels && strcmp(calibration->kernels[index].kind, name) != 0)
    index++;
  if (index == PZ_CHIP_MOST_KERNELS)
    pz_raise(group->call, PZ_BAD_INPUT, "chip %s has %d kernels; accepted: room for '%s'",
             group->chip->name, PZ_CHIP_MOST_KERNELS, name);
  struct constant_list list = {.base = &calibration->kernels[index]};
  if (index == calibration->n_kernels) {
    calibration->kernels[index] = initial_kernel(group->chip, name);
    calibration->n_kernels++;
  }
  list.keys = pz_kernel_constants(&list.n);
  if (experts) add_constant(group, &list, "efficiency", 0);
  if (attention)
    add_constant(group, &list, "efficiency", 0.7);
  else
    add_constant(group, &list, "hbm_efficiency", 0.85);
  if (group->n_rows < 4 || experts) return;
  add_constant(group, &list, "startup_s", 3e-6);
  add_constant(group, &list, "cycles", attention ? 12 : 0);
  if (attention) {
    add_constant(group, &list, "row_s", 3e-6);
    return;
  }
  for (size_t i = 0; i < sizeof vector_only / sizeof *vector_only; i++)
    add_constant(group, &list, vector_only[i], 0);
}

/* The constants of collectives over the chip's link, with their range in a chip file. */
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

/* ---- the fit --------------------------------------------------------------------------------- */

/* A group of constants that the same rows depend on. */
struct group_key {
  const char *kernel; /* a kernel's name; "link" for collectives; "" for GEMMs */
  bool fp8;           /* the only constant is the speedup of fp8 GEMMs; kernel is "" then */
  const char *name;   /* name in messages */
};

/* Returns whether the time of a row depends on the constants of a group.  Small fp8 linear layers
 * spend more time in the cast than in the GEMM and say nothing about its speedup. */
static bool row_depends_on(const struct pz_ops_row *row, const struct group_key *key) {
  if (key->fp8) {
    const char *op = pz_ops_name(row->op);
    bool is_large = row->m >= 1024 && row->n >= 1024 && row->k >= 1024;
    return strcmp(op, "fp8_gemm") == 0 || (strcmp(op, "fp8_linear") == 0 && is_large);
  }
  const char *kernel = pz_ops_kernel(row);
  return kernel && strcmp(kernel, key->kernel) == 0;
}

/* Fits the constants of one group to those of its rows that have is_used[i], or to all if `is_used`
 * is NULL.  Does nothing if there are none.  `rows` is scratch space. */
static void fit_group(struct group_fit *group, uint32_t *rows, const bool *is_used,
                      const struct group_key *key) {
  group->rows = rows;
  group->n_rows = 0;
  group->fit.n = 0;
  for (uint32_t i = 0; i < group->measured->n; i++)
    if ((!is_used || is_used[i]) && row_depends_on(&group->measured->rows[i], key))
      rows[group->n_rows++] = i;
  if (group->n_rows == 0) return;
  uint32_t n_found = group->n_rows;
  if (n_found > PZ_CALIBRATE_MOST_ROWS) group->n_rows = PZ_CALIBRATE_MOST_ROWS;
  for (uint32_t i = 0; i < group->n_rows; i++) /* keep rows at even distances */
    rows[i] = rows[(uint64_t)i * n_found / group->n_rows];

  /* Add the constants of the group to the fit, and search. */
  if (key->fp8) {
    struct constant_list list = {.base = &group->chip->calibration};
    list.keys = pz_calibration_constants(&list.n);
    add_constant(group, &list, "fp8_speedup", 1.8);
  } else if (strcmp(key->kernel, "link") == 0) {
    static const double guesses[LINK_CONSTANTS] = {0.76, 1e-5, 0}; /* about those of an A100 */
    const struct constant_list list = {link_constants, LINK_CONSTANTS, &group->chip->collectives};
    for (int i = 0; i < LINK_CONSTANTS; i++)
      add_constant(group, &list, last_component(link_constants[i].key), guesses[i]);
  } else if (*key->kernel) {
    add_kernel_constants(group, key->kernel);
  } else {
    add_gemm_constants(group);
  }
  group->fit.loss = group_loss;
  group->fit.ctx = group;
  pz_fit_search(&group->fit);
}

/* The result of a group's validation. */
struct validated_errors {
  double before, after; /* mean errors of the group's rows that the fit did not use */
  uint32_t n_rows;
  bool an_op_is_worse; /* the mean error of one operator rose by more than a tenth */
};

/* Returns the mean errors of a group's rows on the chip `before` and on the fitted chip, over the
 * rows that the fit did not use, or over all if `is_used` is NULL. */
static struct validated_errors validate_group(const struct pz_chip *before, struct group_fit *group,
                                              const bool *is_used, const struct group_key *key) {
  static const double MOST_RISE = 1.1;
  struct validated_errors errors = {0};
  struct pz_cost *cost[] = {pz_cost_create(group->call, before, NULL),
                            pz_cost_create(group->call, group->chip, NULL)};
  for (uint32_t op = 0; pz_ops_name(op); op++) {
    double sum[2] = {0};
    for (uint32_t i = 0; i < group->measured->n; i++) {
      const struct pz_ops_row *row = &group->measured->rows[i];
      if (row->op != op || (is_used && is_used[i]) || !row_depends_on(row, key)) continue;
      errors.n_rows++;
      for (int fitted = 0; fitted < 2; fitted++)
        sum[fitted] += fabs(pz_ops_predicted_us(group->call, cost[fitted], row) / row->us - 1);
    }
    errors.before += sum[0];
    errors.after += sum[1];
    if (sum[1] > MOST_RISE * sum[0]) errors.an_op_is_worse = true;
  }
  pz_close(group->call, cost[1]);
  pz_close(group->call, cost[0]);
  errors.before /= fmax(1, errors.n_rows);
  errors.after /= fmax(1, errors.n_rows);
  return errors;
}

/* Fits every group of *chip to the rows i with is_used[i], or to all rows if `is_used` is NULL.  A
 * group whose fit fails its validation gets its old constants back and is added to the list
 * `rejected` (struct pz_rejected_fit); those in the list are left alone.  If it is NULL, no fit is
 * validated. */
static void fit_groups(struct pz_call *call, struct pz_chip *chip,
                       const struct pz_measured *measured, const bool *is_used,
                       struct pz_vec *rejected, struct pz_progress *progress) {
  struct pz_call work = pz_scratch(call);
  struct pz_chip fitted = *chip;
  struct group_fit group = {
      .call = &work, .chip = &fitted, .measured = measured, .progress = progress};
  uint32_t *rows = pz_alloc(&work, measured->n, sizeof *rows);
  /* Lists the groups of constants to fit: one for each kernel that a row depends on ("" for GEMMs,
   * "link" for collectives), in the order of their operators, and last the speedup of fp8 GEMMs. */
  enum { MOST_GROUPS = PZ_CHIP_MOST_KERNELS + 2 }; /* kernels, GEMMs and the link, without fp8 */
  struct group_key groups[MOST_GROUPS + 1];
  int n_groups = 0;
  for (uint32_t op = 0; pz_ops_name(op); op++)
    for (uint32_t i = 0; i < measured->n; i++) {
      const char *kernel = pz_ops_kernel(&measured->rows[i]);
      if (measured->rows[i].op != op || !kernel) continue;
      int index = 0;
      while (index < n_groups && strcmp(groups[index].kernel, kernel) != 0) index++;
      if (index == n_groups && n_groups < MOST_GROUPS)
        groups[n_groups++] = (struct group_key){kernel, false, *kernel ? kernel : "products"};
    }
  groups[n_groups++] = (struct group_key){"", true, "fp8 products"};
  const char *progress_name = is_used ? "fit to one half" : "fit to all";
  pz_progress_next(progress, progress_name, "kernels", (uint64_t)n_groups);
  /* Fit each group, and undo the fit if it fails its validation. */
  for (int i = 0; i < n_groups; i++) {
    const struct group_key *key = &groups[i];
    pz_progress_add(progress, i > 0); /* the group before is finished */
    bool is_rejected = false;
    for (uint32_t r = 0; rejected && r < rejected->n && !is_rejected; r++)
      is_rejected = strcmp(pz_vec_at(rejected, struct pz_rejected_fit, r)->name, key->name) == 0;
    if (is_rejected) continue;
    struct pz_chip before = fitted;
    fit_group(&group, rows, is_used, key);
    if (!rejected) continue;
    struct validated_errors errors = validate_group(&before, &group, is_used, key);
    bool is_better = errors.after < errors.before && !errors.an_op_is_worse;
    if (errors.n_rows == 0 || is_better) continue;
    fitted = before;
    struct pz_rejected_fit fit = {key->name, errors.before, errors.after};
    if (group.fit.n) pz_append(call, rejected, &fit);
  }
  pz_progress_finish(progress, NULL);
  *chip = fitted;
  pz_scratch_end(&work);
}

void pz_calibration_fit(struct pz_call *call, struct pz_chip *chip,
                        const struct pz_measured *measured, const bool *is_used) {
  fit_groups(call, chip, measured, is_used, NULL, NULL);
}

/* ---- the report ------------------------------------------------------------------------------ */

/* Turns the sums of absolute errors in *residual into means over its rows: all of them, those that
 * the fit to one half used, and those that it did not use (held). */
static void sums_to_means(struct pz_fit_residual *residual) {
  uint32_t fitted = residual->rows - residual->held;
  residual->before /= residual->rows;
  residual->after /= residual->rows;
  if (fitted) residual->fitted_half /= fitted;
  if (residual->held) residual->held_half /= residual->held;
}

/* The chips whose errors are reported: the old one, and those fitted to half and to all rows. */
enum { OLD, HALF_FITTED, FITTED, CHIPS };

/* Reports the mean errors of each operator that has rows, and of all rows.  errors[] has the errors
 * of the rows for each of the CHIPS.  The half that HALF_FITTED was fitted to has is_used[i]. */
static void report_residuals(struct pz_call *call, const struct pz_measured *measured,
                             const double *const errors[CHIPS], const bool *is_used,
                             struct pz_calibrated *result) {
  struct pz_vec residuals;
  pz_vec_init(&residuals, call->arena, sizeof(struct pz_fit_residual));
  for (uint32_t op = 0; pz_ops_name(op); op++) {
    struct pz_fit_residual residual = {.op = pz_ops_name(op)};
    for (uint32_t i = 0; i < measured->n; i++) {
      if (measured->rows[i].op != op) continue;
      struct pz_fit_residual *const sums[] = {&residual, &result->all};
      for (int s = 0; s < 2; s++) {
        sums[s]->rows++;
        sums[s]->before += fabs(errors[OLD][i]);
        sums[s]->after += fabs(errors[FITTED][i]);
        if (is_used[i]) {
          sums[s]->fitted_half += fabs(errors[HALF_FITTED][i]);
          continue;
        }
        sums[s]->held++;
        sums[s]->held_half += fabs(errors[HALF_FITTED][i]);
      }
    }
    if (residual.rows == 0) continue;
    sums_to_means(&residual);
    pz_append(call, &residuals, &residual);
  }
  result->all.op = "all";
  sums_to_means(&result->all);
  result->residuals = residuals.items;
  result->n_residuals = residuals.n;
}

/* Appends a constant to the list of changes if its value on the fitted chip is not that on the old
 * one.  Three structs contain its value: `old` on the old chip (NULL if this has no such kernel),
 * `initial` at the beginning of the search, and `fitted` on the fitted chip. */
static void append_change(struct pz_call *call, struct pz_vec *changes, const char *kernel,
                          const struct pz_key *key, const void *old, const void *initial,
                          const void *fitted) {
  double before = old ? *(const double *)((const char *)old + key->offset) : key->absent;
  double begin = *(const double *)((const char *)initial + key->offset);
  double after = *(const double *)((const char *)fitted + key->offset);
  if (before == after) return;
  struct pz_constant_change *change = pz_append(call, changes, NULL);
  snprintf(change->name, sizeof change->name, "%s%s%s", kernel, *kernel ? "." : "",
           last_component(key->key));
  change->before = before;
  change->after = after;
  double most = key->usual_max > 0 ? key->usual_max : key->max;
  change->at_bound = after != begin && (after == key->min || after == most);
}

/* Reports every constant that differs between the chip and the fitted chip. */
static void report_changes(struct pz_call *call, const struct pz_chip *chip,
                           struct pz_calibrated *result) {
  size_t n_numbers, n_kernel_numbers;
  const struct pz_key *numbers = pz_calibration_constants(&n_numbers);
  const struct pz_key *kernel_numbers = pz_kernel_constants(&n_kernel_numbers);
  const struct pz_calibration *fitted = &result->chip->calibration;
  struct pz_vec changes;
  pz_vec_init(&changes, call->arena, sizeof(struct pz_constant_change));
  for (size_t i = 0; i < n_numbers; i++)
    append_change(call, &changes, "", &numbers[i], &chip->calibration, &chip->calibration, fitted);
  for (int i = 0; i < LINK_CONSTANTS; i++)
    append_change(call, &changes, "link", &link_constants[i], &chip->collectives,
                  &chip->collectives, &result->chip->collectives);
  for (int k = 0; k < fitted->n_kernels; k++) {
    const char *name = fitted->kernels[k].kind;
    const struct pz_kernel *old = pz_chip_kernel(chip, name);
    struct pz_kernel initial = old ? *old : initial_kernel(chip, name);
    for (size_t i = 0; i < n_kernel_numbers; i++)
      append_change(call, &changes, name, &kernel_numbers[i], old, &initial, &fitted->kernels[k]);
  }
  result->changes = changes.items;
  result->n_changes = changes.n;
}

/* Raises PZ_BAD_INPUT for times that no chip like this one could show: they are in another unit, of
 * another chip, or wrong.  errors[i] is the relative error of row i.  The allowance is for the
 * start-up time, which the description of an uncalibrated chip lacks. */
static void check_times(struct pz_call *call, const struct pz_chip *chip,
                        const struct pz_measured *measured, const double *errors) {
  static const double MOST_FACTOR = 50, STARTUP_ALLOWANCE_US = 10;
  for (uint32_t i = 0; i < measured->n; i++) {
    const struct pz_ops_row *row = &measured->rows[i];
    double predicted_us = (errors[i] + 1) * row->us;
    bool plausible = row->us <= MOST_FACTOR * (predicted_us + STARTUP_ALLOWANCE_US) &&
                     row->us >= predicted_us / MOST_FACTOR;
    if (plausible) continue;
    pz_raise(call, PZ_BAD_INPUT,
             "%s:%u: %s takes %.4g us, %.4g are predicted for %s; accepted: microseconds "
             "within a factor of %.0f",
             row->table, row->line, pz_ops_name(row->op), row->us, predicted_us, chip->name,
             MOST_FACTOR);
  }
}

/* Fits the chip to half of the rows, validates the groups with the other half, fits the groups that
 * passed to all rows, and reports errors and changes. */
struct pz_calibrated pz_calibration_validated_fit(struct pz_call *call, const struct pz_chip *chip,
                                                  const struct pz_measured *measured,
                                                  struct pz_progress *progress) {
  struct pz_call work = pz_scratch(call);
  struct pz_chip *half_fitted = pz_copy(&work, chip, 1, sizeof *chip);
  struct pz_chip *fitted = pz_copy(call, chip, 1, sizeof *chip);
  bool *is_used = pz_alloc(&work, measured->n, sizeof *is_used);
  for (uint32_t op = 0; pz_ops_name(op); op++) {
    bool use_next = true; /* every second row of each operator, the first included */
    for (uint32_t i = 0; i < measured->n; i++)
      if (measured->rows[i].op == op) {
        is_used[i] = use_next;
        use_next = !use_next;
      }
  }
  const double *errors[CHIPS];
  struct pz_vec rejected;
  pz_vec_init(&rejected, call->arena, sizeof(struct pz_rejected_fit));
  errors[OLD] = pz_calibration_errors(&work, chip, measured);
  check_times(call, chip, measured, errors[OLD]);
  fit_groups(call, half_fitted, measured, is_used, &rejected, progress);
  errors[HALF_FITTED] = pz_calibration_errors(&work, half_fitted, measured);
  fit_groups(call, fitted, measured, NULL, &rejected, progress);
  errors[FITTED] = pz_calibration_errors(&work, fitted, measured);

  struct pz_calibrated result = {
      .chip = fitted, .rejected = rejected.items, .n_rejected = rejected.n};
  report_residuals(call, measured, errors, is_used, &result);
  report_changes(call, chip, &result);
  /* Reports the groups of constants that kept their values because no row depends on them. */
  int n_kernels = chip->calibration.n_kernels;
  const char **kept = pz_alloc(call, (size_t)n_kernels + 2, sizeof *kept);
  uint32_t n = 0;
  enum { GEMMS_16 = -2, GEMMS_8 = -1 }; /* groups before those of the kernels */
  for (int k = GEMMS_16; k < n_kernels; k++) {
    const char *kernel = k < 0 ? "" : chip->calibration.kernels[k].kind;
    const struct group_key key = {kernel, k == GEMMS_8,
                                  k == GEMMS_16 ? "products" : "fp8 products"};
    bool has_rows = false;
    for (uint32_t i = 0; i < measured->n && !has_rows; i++)
      has_rows = row_depends_on(&measured->rows[i], &key);
    if (!has_rows) kept[n++] = k < 0 ? key.name : pz_copy_text(call, kernel);
  }
  result.kept = kept;
  result.n_kept = n;
  pz_scratch_end(&work);
  return result;
}

/* ---- the public function --------------------------------------------------------------------- */

struct pz_calibrate_options pz_calibrate_options_default(void) {
  return (struct pz_calibrate_options){.size = sizeof(struct pz_calibrate_options)};
}

/* Adds sentences for the user about skipped files, unused rows, another chip, and a poor fit. */
static void add_notes(struct pz_call *call, const struct pz_measured *all_rows,
                      const struct pz_measured *used_rows, const char *chip,
                      struct pz_calibrated *result) {
  static const double POOR_ERROR = 0.3;
  const char **notes = pz_alloc(call, (size_t)all_rows->n_skipped + 3, sizeof *notes);
  uint32_t n = 0;
  for (; n < all_rows->n_skipped; n++) notes[n] = pz_copy_text(call, all_rows->skipped[n]);
  if (used_rows->n != all_rows->n)
    notes[n++] = pz_format(
        call,
        "%u of %u rows are used; the others are of other chips, marked as slow or not predicted "
        "('phaze validate --ops' lists them)",
        used_rows->n, all_rows->n);
  if (used_rows->rows[0].chip && strcmp(used_rows->rows[0].chip, chip) != 0)
    notes[n++] =
        pz_format(call, "all rows are of %s, and used for %s", used_rows->rows[0].chip, chip);
  if (result->all.after > POOR_ERROR)
    notes[n++] = "the fit is poor: is the table of a chip like this one?";
  result->notes = notes;
  result->n_notes = n;
}

struct calibrate_args {
  const struct pz_chip *chip;
  const struct pz_calibrate_options *options;
  struct pz_calibrated **out;
};

/* The body of pz_calibrate(): loads the rows, fits, and names the fitted chip after its file. */
static void calibrate(struct pz_call *call, void *ctx) {
  const struct calibrate_args *args = ctx;
  struct pz_calibrate_options options = pz_calibrate_options_default();
  struct pz_progress progress;
  struct pz_call own;
  atomic_bool stop = false;
  pz_require_options(call, &options, sizeof options, args->options, "pz_calibrate_options_default");
  pz_require(call, options.ops, "ops");
  pz_require(call, args->out, "out");
  pz_chip_check(call, args->chip);
  struct pz_calibrated *result = pz_object_new(call, sizeof *result, &own);
  if (options.progress) pz_progress_start_call(&progress, options.progress, options.ctx, &stop);

  struct pz_measured all_rows = pz_measured_load_path(call, options.ops);
  struct pz_measured used_rows = pz_measured_select_chip(call, &all_rows, args->chip);
  *result = pz_calibration_validated_fit(&own, args->chip, &used_rows,
                                         options.progress ? &progress : NULL);
  struct pz_chip *named = pz_copy(&own, result->chip, 1, sizeof *named);
  /* A correction holds only for the constants that it was fitted with. */
  named->correction = (struct pz_correction){.steps = 0};
  named->name[strcspn(named->name, ",")] = '\0';
  pz_chip_name_calibrated(named, options.ops);
  result->chip = named;
  add_notes(&own, &all_rows, &used_rows, args->chip->name, result);
  *args->out = pz_object_keep(call, result);
}

enum pz_status pz_calibrate(const struct pz_chip *chip, const struct pz_calibrate_options *options,
                            struct pz_calibrated **out, struct pz_error *err) {
  struct calibrate_args args = {chip, options, out};
  return pz_border(calibrate, &args, err);
}

void pz_calibrated_free(struct pz_calibrated *calibrated) { pz_object_free(calibrated); }
