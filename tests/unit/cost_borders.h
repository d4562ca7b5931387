/* Functions of src/cost for tests and benchmarks that check a status. */
#ifndef PZ_TESTS_COST_BORDERS_H
#define PZ_TESTS_COST_BORDERS_H

#include <string.h>

#include "cost/beside_table.h"
#include "cost/calibrate.h"
#include "cost/experts.h"
#include "cost/formats.h"
#include "cost/mapper.h"
#include "cost/measured_ops.h"
#include "cost/nccl_log.h"
#include "cost/silicon_table.h"

/* What the functions below need; results are allocated in `arena`. */
struct cost_arguments {
  struct pz_arena *arena;
  const char *name;
  char *text;
  const struct pz_csv *csv;
  struct pz_cost *cost;
  const struct pz_chip *chip;
  struct pz_chip *fitted_chip;
  const struct pz_measured *given;
  struct pz_measured *measured;
  const bool *use;
  struct pz_calibrated *calibrated;
  double *numbers;
  const char **description;
  const struct pz_ops_row *row, **rows;
  const struct pz_beside_row **beside_rows;
  struct pz_nccl_logs *logs;
  const struct pz_product *product;
  const struct pz_grouped *grouped;
  enum pz_format format;
  struct pz_mapping *mapping;
  const struct pz_experts_work *experts;
  const struct pz_sweep *sweep;
  double *core_s, *hbm_s;
};

static inline void read_measured_in_border(struct pz_call *call, void *ctx) {
  struct cost_arguments *x = ctx;
  struct pz_call in = pz_call_in(call, x->arena);
  *x->measured = pz_measured_read_csv(&in, x->name, x->csv);
}

static inline enum pz_status pz_measured_read(const char *name, const struct pz_csv *csv,
                                              struct pz_arena *arena, struct pz_measured *out,
                                              struct pz_error *err) {
  struct cost_arguments x = {.arena = arena, .name = name, .csv = csv, .measured = out};
  return pz_border(read_measured_in_border, &x, err);
}

static inline void load_measured_in_border(struct pz_call *call, void *ctx) {
  struct cost_arguments *x = ctx;
  struct pz_call in = pz_call_in(call, x->arena);
  *x->measured = pz_measured_load_path(&in, x->name);
}

static inline enum pz_status pz_measured_load(const char *path, struct pz_arena *arena,
                                              struct pz_measured *out, struct pz_error *err) {
  struct cost_arguments x = {.arena = arena, .name = path, .measured = out};
  return pz_border(load_measured_in_border, &x, err);
}

static inline void select_measured_in_border(struct pz_call *call, void *ctx) {
  struct cost_arguments *x = ctx;
  struct pz_call in = pz_call_in(call, x->arena);
  *x->measured = pz_measured_select_chip(&in, x->given, x->chip);
}

static inline enum pz_status pz_measured_of_chip(const struct pz_measured *m,
                                                 const struct pz_chip *chip, struct pz_arena *arena,
                                                 struct pz_measured *out, struct pz_error *err) {
  struct cost_arguments x = {.arena = arena, .given = m, .chip = chip, .measured = out};
  return pz_border(select_measured_in_border, &x, err);
}

static inline void read_silicon_in_border(struct pz_call *call, void *ctx) {
  struct cost_arguments *x = ctx;
  struct pz_call in = pz_call_in(call, x->arena);
  *x->rows = pz_silicon_read_csv(&in, x->name, x->csv);
}

static inline enum pz_status pz_silicon_read(const char *name, const struct pz_csv *csv,
                                             struct pz_arena *arena, const struct pz_ops_row **rows,
                                             struct pz_error *err) {
  struct cost_arguments x = {.arena = arena, .name = name, .csv = csv, .rows = rows};
  return pz_border(read_silicon_in_border, &x, err);
}

static inline void fit_chip_in_border(struct pz_call *call, void *ctx) {
  struct cost_arguments *x = ctx;
  pz_calibration_fit(call, x->fitted_chip, x->given, x->use);
}

static inline enum pz_status pz_calibrate_fit(struct pz_chip *chip, const struct pz_measured *m,
                                              const bool *use, struct pz_error *err) {
  struct cost_arguments x = {.fitted_chip = chip, .given = m, .use = use};
  return pz_border(fit_chip_in_border, &x, err);
}

static inline void find_errors_in_border(struct pz_call *call, void *ctx) {
  struct cost_arguments *x = ctx;
  memcpy(x->numbers, pz_calibration_errors(call, x->chip, x->given),
         x->given->n * sizeof *x->numbers);
}

static inline enum pz_status pz_calibrate_errors(const struct pz_chip *chip,
                                                 const struct pz_measured *m, double *errors,
                                                 struct pz_error *err) {
  struct cost_arguments x = {.chip = chip, .given = m, .numbers = errors};
  return pz_border(find_errors_in_border, &x, err);
}

static inline void calibrate_in_border(struct pz_call *call, void *ctx) {
  struct cost_arguments *x = ctx;
  struct pz_call in = pz_call_in(call, x->arena);
  *x->calibrated = pz_calibration_validated_fit(&in, x->chip, x->given, NULL);
}

static inline enum pz_status pz_calibrate_to(const struct pz_chip *chip,
                                             const struct pz_measured *m, struct pz_arena *arena,
                                             struct pz_calibrated *out, struct pz_error *err) {
  struct cost_arguments x = {.arena = arena, .chip = chip, .given = m, .calibrated = out};
  return pz_border(calibrate_in_border, &x, err);
}

static inline void predict_operator_in_border(struct pz_call *call, void *ctx) {
  struct cost_arguments *x = ctx;
  *x->numbers = pz_ops_predicted_us(call, x->cost, x->row);
}

static inline enum pz_status pz_ops_us(struct pz_cost *cost, const struct pz_ops_row *row,
                                       double *us, struct pz_error *err) {
  struct cost_arguments x = {.cost = cost, .row = row, .numbers = us};
  return pz_border(predict_operator_in_border, &x, err);
}

static inline void describe_operator_in_border(struct pz_call *call, void *ctx) {
  struct cost_arguments *x = ctx;
  struct pz_call in = pz_call_in(call, x->arena);
  *x->description = pz_ops_describe(&in, x->row);
}

/* NULL if there is no memory. */
static inline const char *pz_ops_text(const struct pz_ops_row *row, struct pz_arena *arena) {
  const char *text = NULL;
  struct cost_arguments x = {.arena = arena, .row = row, .description = &text};
  return pz_border(describe_operator_in_border, &x, NULL) == PZ_OK ? text : NULL;
}

static inline void predict_beside_in_border(struct pz_call *call, void *ctx) {
  struct cost_arguments *x = ctx;
  struct pz_call in = pz_call_in(call, x->arena);
  *x->beside_rows = pz_beside_predict_csv(&in, x->cost, x->name, x->csv);
}

static inline enum pz_status pz_beside_predict(struct pz_cost *cost, const char *name,
                                               const struct pz_csv *csv, struct pz_arena *arena,
                                               const struct pz_beside_row **rows,
                                               struct pz_error *err) {
  struct cost_arguments x = {
      .arena = arena, .cost = cost, .name = name, .csv = csv, .beside_rows = rows};
  return pz_border(predict_beside_in_border, &x, err);
}

static inline void read_nccl_log_in_border(struct pz_call *call, void *ctx) {
  struct cost_arguments *x = ctx;
  struct pz_call in = pz_call_in(call, x->arena);
  pz_nccl_log_parse(&in, x->name, x->text, x->logs);
}

static inline enum pz_status pz_nccl_log_read(const char *name, char *text, struct pz_arena *arena,
                                              struct pz_nccl_logs *logs, struct pz_error *err) {
  struct cost_arguments x = {.arena = arena, .name = name, .text = text, .logs = logs};
  return pz_border(read_nccl_log_in_border, &x, err);
}

/* ---- mappings -------------------------------------------------------------------------------- */

static inline void find_mapping_in_border(struct pz_call *call, void *ctx) {
  struct cost_arguments *x = ctx;
  *x->mapping = pz_find_mapping(call, x->product, x->chip);
}

static inline enum pz_status pz_map_product(const struct pz_product *p, const struct pz_chip *c,
                                            struct pz_mapping *out, struct pz_error *err) {
  struct cost_arguments x = {.product = p, .chip = c, .mapping = out};
  return pz_border(find_mapping_in_border, &x, err);
}

static inline void sweep_in_border(struct pz_call *call, void *ctx) {
  struct cost_arguments *x = ctx;
  *x->numbers = pz_sweep_mappings(call, x->product, x->chip, x->sweep, x->core_s, x->hbm_s);
}

static inline enum pz_status pz_map_sweep(const struct pz_product *p, const struct pz_chip *c,
                                          const struct pz_sweep *sweep, double *core_s,
                                          double *hbm_s, double *startup_s, struct pz_error *err) {
  struct cost_arguments x = {.product = p,
                             .chip = c,
                             .sweep = sweep,
                             .core_s = core_s,
                             .hbm_s = hbm_s,
                             .numbers = startup_s};
  return pz_border(sweep_in_border, &x, err);
}

static inline void estimate_grouped_in_border(struct pz_call *call, void *ctx) {
  struct cost_arguments *x = ctx;
  *x->mapping = pz_estimate_grouped(call, x->cost, &x->cost->chip, x->grouped);
}

static inline enum pz_status pz_cost_grouped(struct pz_cost *cost, const struct pz_grouped *g,
                                             struct pz_mapping *out, struct pz_error *err) {
  struct cost_arguments x = {.cost = cost, .grouped = g, .mapping = out};
  return pz_border(estimate_grouped_in_border, &x, err);
}

static inline void estimate_narrow_product_in_border(struct pz_call *call, void *ctx) {
  struct cost_arguments *x = ctx;
  *x->mapping = pz_estimate_narrow_product(call, x->cost, x->format, x->product);
}

static inline enum pz_status pz_cost_format_product(struct pz_cost *cost, enum pz_format format,
                                                    const struct pz_product *p,
                                                    struct pz_mapping *out, struct pz_error *err) {
  struct cost_arguments x = {.cost = cost, .format = format, .product = p, .mapping = out};
  return pz_border(estimate_narrow_product_in_border, &x, err);
}

static inline void estimate_narrow_grouped_in_border(struct pz_call *call, void *ctx) {
  struct cost_arguments *x = ctx;
  *x->mapping = pz_estimate_narrow_grouped(call, x->cost, &x->cost->chip, x->format, x->grouped);
}

static inline enum pz_status pz_cost_format_grouped(struct pz_cost *cost, enum pz_format format,
                                                    const struct pz_grouped *g,
                                                    struct pz_mapping *out, struct pz_error *err) {
  struct cost_arguments x = {.cost = cost, .format = format, .grouped = g, .mapping = out};
  return pz_border(estimate_narrow_grouped_in_border, &x, err);
}

static inline void estimate_experts_in_border(struct pz_call *call, void *ctx) {
  struct cost_arguments *x = ctx;
  *x->numbers = pz_experts_s(call, x->cost, x->experts);
}

static inline enum pz_status pz_experts_cost(struct pz_cost *cost, const struct pz_experts_work *w,
                                             double *s, struct pz_error *err) {
  struct cost_arguments x = {.cost = cost, .experts = w, .numbers = s};
  return pz_border(estimate_experts_in_border, &x, err);
}

#endif
