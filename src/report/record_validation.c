/* Records of `phaze validate`: errors of predictions beside measurements by group, how well plans of
 * one model are ordered, limits that do not hold, and single measurements. */
#include "report/records.h"

#include "study/validate.h"

static const char *const limited_names[] = {"mean_error",       "memory_error", "not_predicted",
                                            "rank_correlation", "regret",       NULL};

/* ---- errors --------------------------------------------------------------------------------- */

#define ERRORS struct pz_errors
#define ERROR(f, key, meaning)                                                                     \
  PZ_ROW_AS(ERRORS, f, PZ_FIELD_REAL_OR_NULL, key, "ratio", meaning "; null: no such row")
static const struct pz_field error_fields[] = {
    PZ_ROW_AS(ERRORS, name, PZ_FIELD_TEXT, "group", NULL, "Group of measurements"),
    PZ_ROW_NAMED(ERRORS, kind, "kind", pz_point_kind_names, "What was measured"),
    PZ_ROW_AS(ERRORS, n, PZ_FIELD_COUNT, "rows", NULL, "Measurements with a prediction"),
    PZ_ROW(ERRORS, not_predicted, PZ_FIELD_COUNT, NULL, "Measurements without a prediction"),
    ERROR(mean, "mean_error", "Mean absolute error of the time"),
    ERROR(bias, "bias", "Mean error of the time"),
    ERROR(worst, "worst", "Largest error of the time"),
    PZ_ROW(ERRORS, worst_id, PZ_FIELD_TEXT_OR_NULL, NULL, "Measurement with the largest error"),
    PZ_ROW_AS(ERRORS, n_memory, PZ_FIELD_COUNT, "memory_rows", NULL,
              "Measurements of peak memory with a prediction"),
    ERROR(memory_mean, "memory_error", "Mean absolute error of the peak memory"),
    ERROR(memory_bias, "memory_bias", "Mean error of the peak memory"),
    ERROR(memory_worst, "memory_worst", "Largest error of the peak memory"),
};
static const struct pz_record error_record = PZ_RECORD(error_fields, ERRORS);

/* ---- the order of plans --------------------------------------------------------------------- */

#define ORDER struct pz_plan_order
static const struct pz_field order_fields[] = {
    PZ_ROW(ORDER, model, PZ_FIELD_TEXT, NULL, "Model"),
    PZ_ROW(ORDER, shape, PZ_FIELD_TEXT, NULL, "Its layers and hidden size"),
    PZ_ROW(ORDER, group, PZ_FIELD_TEXT, NULL, "Group of measurements"),
    PZ_ROW(ORDER, chip, PZ_FIELD_TEXT, NULL, "Chip"),
    PZ_ROW(ORDER, devices, PZ_FIELD_INT, NULL, "Devices"),
    PZ_ROW(ORDER, batch, PZ_FIELD_INT, NULL, "Samples of a step"),
    PZ_ROW(ORDER, plans, PZ_FIELD_COUNT, NULL, "Measured plans of the same job"),
    PZ_ROW(
        ORDER, rank_correlation, PZ_FIELD_REAL_OR_NULL, NULL,
        "Spearman's rank correlation of measured and predicted times; null: all times are equal"),
    PZ_ROW(ORDER, regret, PZ_FIELD_REAL, "ratio",
           "Measured time of the plan that is predicted to be best over that of the best, minus 1"),
};
static const struct pz_record order_record = PZ_RECORD(order_fields, ORDER);

#define ORDER_MEAN struct pz_order_mean
static const struct pz_field order_mean_fields[] = {
    PZ_ROW_AS(ORDER_MEAN, name, PZ_FIELD_TEXT, "group", NULL, "Group of models"),
    PZ_ROW_AS(ORDER_MEAN, n, PZ_FIELD_COUNT, "models", NULL, "Jobs with several measured plans"),
    PZ_ROW(ORDER_MEAN, rank_correlation, PZ_FIELD_REAL_OR_NULL, NULL, "Mean rank correlation"),
    PZ_ROW(ORDER_MEAN, regret, PZ_FIELD_REAL, "ratio", "Mean regret"),
};
static const struct pz_record order_mean_record = PZ_RECORD(order_mean_fields, ORDER_MEAN);

/* ---- limits and single measurements --------------------------------------------------------- */

#define BROKEN struct pz_broken_limit
static const struct pz_field broken_fields[] = {
    PZ_ROW(BROKEN, group, PZ_FIELD_TEXT, NULL, "Group of measurements"),
    PZ_ROW_NAMED(BROKEN, what, "what", limited_names,
                 "mean_error, memory_error, not_predicted, rank_correlation or regret"),
    PZ_ROW(BROKEN, value, PZ_FIELD_REAL_OR_NULL, NULL, "Its value; null: nothing is left to judge"),
    PZ_ROW(BROKEN, limit, PZ_FIELD_REAL, NULL, "Its limit"),
};
static const struct pz_record broken_record = PZ_RECORD(broken_fields, BROKEN);

#define POINT struct pz_validation_point
#define POINT_TEXT(f, meaning) PZ_ROW(POINT, f, PZ_FIELD_TEXT, NULL, meaning)
#define POINT_REAL(f, unit, meaning) PZ_ROW(POINT, f, PZ_FIELD_REAL, unit, meaning "; 0: none")
static const struct pz_field point_fields[] = {
    PZ_ROW_NAMED(POINT, kind, "kind", pz_point_kind_names, "What was measured"),
    POINT_TEXT(id, "Row of the table"),
    POINT_TEXT(group, "Group of measurements"),
    POINT_TEXT(quality, "ok, or why the measurement is not counted"),
    POINT_TEXT(chip, "Chip"),
    POINT_TEXT(framework, "Framework"),
    POINT_TEXT(model, "Model"),
    POINT_TEXT(shape, "Its layers and hidden size"),
    POINT_TEXT(plan, "Degrees and microbatch of the plan"),
    PZ_ROW(POINT, devices, PZ_FIELD_INT, NULL, "Devices"),
    PZ_ROW(POINT, batch, PZ_FIELD_INT, NULL, "Samples of a step"),
    POINT_REAL(measured_s, "s", "Measured time"),
    POINT_REAL(predicted_s, "s", "Predicted time"),
    POINT_REAL(measured_bytes, "B", "Measured peak memory"),
    POINT_REAL(predicted_bytes, "B", "Predicted peak memory"),
    PZ_ROW_AS(POINT, reason, PZ_FIELD_TEXT, "not_predicted", NULL,
              "Why there is no prediction; empty: there is one"),
};
static const struct pz_record point_record = PZ_RECORD(point_fields, POINT);

/* ---- chips without measurements ------------------------------------------------------------- */

static const struct pz_field chip_fields[] = {
    PZ_ROW(ERRORS, name, PZ_FIELD_TEXT, NULL, "Chip"),
    PZ_ROW(ERRORS, n, PZ_FIELD_COUNT, NULL, "Training runs with a prediction"),
    PZ_ROW(ERRORS, not_predicted, PZ_FIELD_COUNT, NULL, "Training runs without a prediction"),
    ERROR(mean, "mean", "Mean absolute error of the time"),
    ERROR(bias, "bias", "Mean error of the time"),
};
static const struct pz_record chip_record = PZ_RECORD(chip_fields, ERRORS);

#define CONSTANT struct pz_cold_value
static const struct pz_field constant_fields[] = {
    PZ_ROW(CONSTANT, name, PZ_FIELD_TEXT, NULL, "Constant"),
    PZ_ROW(CONSTANT, value, PZ_FIELD_REAL, NULL, "Fitted value"),
};
static const struct pz_record constant_record = PZ_RECORD(constant_fields, CONSTANT);

#define FAMILY struct pz_cold_family
#define FAMILY_ERROR(f, meaning) PZ_ROW(FAMILY, f, PZ_FIELD_REAL_OR_NULL, "ratio", meaning)
static const struct pz_field family_fields[] = {
    PZ_ROW(FAMILY, name, PZ_FIELD_TEXT, NULL, "Family of chips, whose runs were not fitted to"),
    PZ_ROW(FAMILY, n, PZ_FIELD_COUNT, NULL, "Its training runs"),
    FAMILY_ERROR(mean, "Mean over its chips of their mean absolute errors"),
    FAMILY_ERROR(bias, "Mean over its chips of their mean errors"),
    PZ_ROW_MANY(FAMILY, constants, n_constants, PZ_FIELD_LIST, "constants", &constant_record,
                "Constants that were fitted to the runs of all other families"),
};
static const struct pz_record family_record = PZ_RECORD(family_fields, FAMILY);

#define COLD struct pz_cold_errors
#define COLD_ERROR(f, meaning) PZ_ROW(COLD, f, PZ_FIELD_REAL_OR_NULL, "ratio", meaning)
#define COLD_MANY(f, r, meaning) PZ_ROW_MANY(COLD, f, n_##f, PZ_FIELD_LIST, #f, r, meaning)
static const struct pz_field cold_fields[] = {
    COLD_MANY(chips, &chip_record, "Errors of dense 16-bit runs by chip"),
    COLD_ERROR(mean, "Mean over chips of their mean absolute errors"),
    COLD_ERROR(spread, "Standard deviation over chips of their mean errors"),
    COLD_MANY(others, &chip_record, "Errors of runs with 8 bits or experts by chip"),
    COLD_MANY(families, &family_record,
              "Errors of families of chips that were left out of the fit"),
    COLD_ERROR(families_mean, "Mean over families of their mean absolute errors"),
};
const struct pz_record pz_cold_errors_record = PZ_RECORD(cold_fields, COLD);

/* ---- a validation --------------------------------------------------------------------------- */

#define VALIDATION struct pz_validation
/* Errors of chips without measurements, or null if they were not asked for (--cold). */
static json_t *write_cold(const void *member) {
  const COLD *cold = member;
  bool is_asked = cold->n_chips || cold->n_others;
  return is_asked ? pz_record_json(&pz_cold_errors_record, cold) : json_null();
}
PZ_CODEC(cold, "object", &pz_cold_errors_record);

#define MANY(f, key, r, meaning) PZ_ROW_MANY(VALIDATION, f, n_##f, PZ_FIELD_LIST, key, r, meaning)
#define GROUPS                                                                                     \
  MANY(groups, "groups", &error_record, "Errors of measurements whose quality is ok, by group"),   \
      MANY(apart, "apart", &error_record, "Errors of the other measurements"),                     \
      MANY(totals, "totals", &error_record, "Errors over several groups of training runs"),        \
      MANY(orders, "plans", &order_record, "Order of the plans of each job"),                      \
      MANY(order_means, "plan_means", &order_mean_record, "Means over jobs"),                      \
      MANY(broken, "broken_limits", &broken_record, "Limits that do not hold")
#define COLD_ERRORS                                                                                \
  PZ_ROW_BY(VALIDATION, cold, "cold", &cold_codec,                                                 \
            "Errors of chips as if nothing had been measured on them (--cold)",                    \
            .omitted = PZ_OMITTED_IF_NULL)
static const struct pz_field validation_fields[] = {GROUPS, COLD_ERRORS};
static const struct pz_field rows_fields[] = {
    GROUPS,
    PZ_ROW_MANY(VALIDATION, points, n_points, PZ_FIELD_LIST, "rows", &point_record,
                "Measurements (--rows)", .omitted = PZ_OMITTED_IF_NULL),
    COLD_ERRORS};
const struct pz_record pz_validation_record = PZ_RECORD(validation_fields, VALIDATION);
const struct pz_record pz_validation_rows_record = PZ_RECORD(rows_fields, VALIDATION);
