/* Records of `phaze calibrate`: a chip fitted to operators, a chip corrected by training steps, and
 * a cluster fitted to collectives. */
#include "report/records.h"

#include "chip/chip.h"

static json_t *write_chip(const void *member) {
  const struct pz_chip *chip = *(const struct pz_chip *const *)member;
  return chip ? pz_chip_json(chip) : json_null();
}
const struct pz_field_codec pz_chip_codec = {.write = write_chip, .type = "object, chip.json"};

static json_t *write_cluster(const void *member) { return pz_cluster_json(member); }
const struct pz_field_codec pz_cluster_codec = {.write = write_cluster,
                                                .type = "object, cluster.json"};

/* ---- a chip fitted to operators ------------------------------------------------------------- */

#define ROW(f, t, ...) PZ_ROW(struct pz_fit_residual, f, t, __VA_ARGS__)
static const struct pz_field residual_fields[] = {
    ROW(op, PZ_FIELD_TEXT, NULL, "Operator, or \"all\""),
    ROW(rows, PZ_FIELD_COUNT, NULL, "Measured rows"),
    ROW(held, PZ_FIELD_COUNT, NULL, "Rows that were held back from the first fit"),
    ROW(before, PZ_FIELD_REAL, "ratio", "Mean error of the chip before the fit"),
    ROW(fitted_half, PZ_FIELD_REAL, "ratio", "Mean error of the half that was fitted"),
    ROW(after, PZ_FIELD_REAL, "ratio", "Mean error after the fit to all rows"),
    ROW(held_half, PZ_FIELD_REAL_KNOWN, "ratio",
        "Mean error of the half that was held back; null: no row was"),
};
#undef ROW
static const struct pz_record residual_record = PZ_RECORD(residual_fields, struct pz_fit_residual);

#define CHANGE struct pz_constant_change
static const struct pz_field change_fields[] = {
    PZ_ROW_AS(CHANGE, name, PZ_FIELD_CHARS, "constant", NULL, "Name of the constant in chip.json"),
    PZ_ROW(CHANGE, before, PZ_FIELD_REAL, NULL, "Value before the fit"),
    PZ_ROW(CHANGE, after, PZ_FIELD_REAL, NULL, "Value after the fit"),
    PZ_ROW(CHANGE, at_bound, PZ_FIELD_BOOL, NULL, "The value is at a bound of the accepted range"),
};
static const struct pz_record change_record = PZ_RECORD(change_fields, CHANGE);

#define REJECTED struct pz_rejected_fit
static const struct pz_field rejected_fields[] = {
    PZ_ROW_AS(REJECTED, name, PZ_FIELD_TEXT, "group", NULL, "Group of constants"),
    PZ_ROW(REJECTED, before, PZ_FIELD_REAL, "ratio", "Mean error of its rows before the fit"),
    PZ_ROW(REJECTED, fitted, PZ_FIELD_REAL, "ratio", "Mean error of its rows after the fit"),
};
static const struct pz_record rejected_record = PZ_RECORD(rejected_fields, REJECTED);

#define FIT struct pz_calibrated
static const struct pz_field fit_fields[] = {
    PZ_ROW_VIA(FIT, chip, struct pz_chip, name, PZ_FIELD_CHARS, "chip", NULL, "Name of the chip"),
    PZ_ROW_IN(FIT, all, PZ_FIELD_STRUCT, "all", &residual_record, "Errors of all rows"),
    PZ_ROW_MANY(FIT, residuals, n_residuals, PZ_FIELD_LIST, "ops", &residual_record,
                "Errors by operator"),
    PZ_ROW_MANY(FIT, changes, n_changes, PZ_FIELD_LIST, "constants", &change_record,
                "Constants that the fit changed"),
    PZ_ROW_MANY(FIT, kept, n_kept, PZ_FIELD_TEXTS, "kept", NULL,
                "Kernels whose constants stay because no row shows them"),
    PZ_ROW_MANY(FIT, rejected, n_rejected, PZ_FIELD_LIST, "rejected", &rejected_record,
                "Groups whose constants stay because the fit predicts their rows no better"),
    PZ_ROW_BY(FIT, chip, "description", &pz_chip_codec, "The fitted chip as chip.json"),
};
const struct pz_record pz_calibrated_record = PZ_RECORD(fit_fields, FIT);

/* ---- a chip corrected by training steps ----------------------------------------------------- */

#define FACTOR struct pz_step_factor
static const struct pz_field factor_fields[] = {
    PZ_ROW(FACTOR, name, PZ_FIELD_TEXT, NULL,
           "Part of the step: gemms, attention, elementwise, launches or collectives"),
    PZ_ROW(FACTOR, factor, PZ_FIELD_REAL, "ratio", "Corrected over predicted time of the part"),
    PZ_ROW(FACTOR, share, PZ_FIELD_REAL, "ratio",
           "Mean share of the step time that grows with this factor"),
};
const struct pz_record pz_step_factor_record = PZ_RECORD(factor_fields, FACTOR);

#define STEP struct pz_step_residual
#define STEP_FIELDS                                                                                \
  PZ_ROW(STEP, id, PZ_FIELD_TEXT, NULL, "Row of the table, or log"),                               \
      PZ_ROW(STEP, measured_s, PZ_FIELD_REAL, "s", "Measured time of the step"),                   \
      PZ_ROW(STEP, before_s, PZ_FIELD_REAL, "s", "Prediction before the correction"),              \
      PZ_ROW(STEP, after_s, PZ_FIELD_REAL, "s", "Prediction after the correction")
static const struct pz_field held_step_fields[] = {STEP_FIELDS};
static const struct pz_field step_fields[] = {
    STEP_FIELDS,
    PZ_ROW(STEP, left_out_s, PZ_FIELD_REAL_KNOWN, "s",
           "Prediction with a correction from all other steps; null: there are none"),
};
static const struct pz_record held_step_record = PZ_RECORD(held_step_fields, STEP);
static const struct pz_record step_record = PZ_RECORD(step_fields, STEP);

#define ERRORS struct pz_step_errors
#define ERROR_FIELDS                                                                               \
  PZ_ROW(ERRORS, before, PZ_FIELD_REAL, "ratio", "Mean error before the correction"),              \
      PZ_ROW(ERRORS, after, PZ_FIELD_REAL, "ratio", "Mean error after the correction")
static const struct pz_field held_error_fields[] = {ERROR_FIELDS};
static const struct pz_field error_fields[] = {
    ERROR_FIELDS,
    PZ_ROW(ERRORS, left_out, PZ_FIELD_REAL_OR_NULL, "ratio",
           "Mean error if each step is predicted from the others; null: there is one step"),
};
static const struct pz_record held_error_record = PZ_RECORD(held_error_fields, ERRORS);
static const struct pz_record error_record = PZ_RECORD(error_fields, ERRORS);

#define CORRECTION struct pz_step_calibration
/* Returns the errors on the steps that are held out of the fit, or null if there are none. */
static json_t *write_held_errors(const void *value) {
  const CORRECTION *fit = value;
  return fit->n_held ? pz_record_json(&held_error_record, &fit->held_errors) : json_null();
}
PZ_CODEC(held_errors, "object", NULL);

static const struct pz_field correction_fields[] = {
    PZ_ROW_MANY(CORRECTION, factors, n_factors, PZ_FIELD_LIST, "factors", &pz_step_factor_record,
                "Factors of the parts of a step"),
    PZ_ROW_IN(CORRECTION, errors, PZ_FIELD_STRUCT, "errors", &error_record,
              "Mean errors of the steps"),
    PZ_ROW_MANY(CORRECTION, steps, n_steps, PZ_FIELD_LIST, "steps", &step_record,
                "Steps that the factors follow from"),
    PZ_ROW_MADE("held_errors", &held_errors_codec, NULL, "Mean errors of the held steps",
                .omitted = PZ_OMITTED_IF_NULL),
    PZ_ROW_MANY(CORRECTION, held, n_held, PZ_FIELD_LIST, "held", &held_step_record,
                "Steps that only judge the correction", .omitted = PZ_OMITTED_IF_EMPTY),
    PZ_ROW_BY(CORRECTION, chip, "description", &pz_chip_codec,
              "The corrected chip as chip.json; null: the steps are of several chips"),
};
const struct pz_record pz_step_calibration_record = PZ_RECORD(correction_fields, CORRECTION);

/* ---- a cluster fitted to collectives -------------------------------------------------------- */

/* A level of the network by its data sheet, and as it was fitted to measured collectives. */
struct fitted_level {
  const struct pz_level *level;
  const struct pz_network_level_fit *fit;
};

#define LEVEL struct fitted_level
#define FITTED(f, t, key, unit, meaning)                                                           \
  PZ_ROW_VIA(LEVEL, fit, struct pz_network_level_fit, f, t, key, unit, meaning)
static const struct pz_field level_fields[] = {
    PZ_ROW_VIA(LEVEL, level, struct pz_level, name, PZ_FIELD_CHARS, "name", NULL,
               "Name of the level"),
    FITTED(rows, PZ_FIELD_COUNT, "rows", NULL, "Measured rows whose outermost level this is"),
    PZ_ROW_VIA(LEVEL, level, struct pz_level, bytes_per_s, PZ_FIELD_REAL, "data_sheet_bytes_per_s",
               "B/s", "Rate of a device by the data sheet, in one direction"),
    FITTED(before_bytes_per_s, PZ_FIELD_REAL, "before_bytes_per_s", "B/s",
           "Rate that large messages reached before the fit"),
    FITTED(after_bytes_per_s, PZ_FIELD_REAL, "after_bytes_per_s", "B/s",
           "Rate that large messages reach after the fit"),
    FITTED(before_s, PZ_FIELD_REAL, "before_s", "s",
           "Start of a collective (innermost level) or latency of a message before the fit"),
    FITTED(after_s, PZ_FIELD_REAL, "after_s", "s", "The same after the fit"),
};
static const struct pz_record level_record = PZ_RECORD(level_fields, LEVEL);

static json_t *write_levels(const void *value) {
  const struct pz_network_calibration *fit = value;
  json_t *list = json_array();
  for (int i = 0; i < fit->cluster.n_levels; i++) {
    const struct fitted_level level = {&fit->cluster.level[i], &fit->levels[i]};
    json_array_append_new(list, pz_record_json(&level_record, &level));
  }
  return list;
}
PZ_CODEC(levels, "array of objects", &level_record);

#define TEST struct pz_network_error
#define BY_SIZE .length = PZ_NETWORK_SIZES
static const struct pz_field test_fields[] = {
    PZ_ROW(TEST, test, PZ_FIELD_TEXT, NULL, "Collective, or \"all\""),
    PZ_ROW(TEST, rows, PZ_FIELD_COUNTS, NULL,
           "Measured rows with messages up to 64 KiB, up to 16 MiB, larger, and of all sizes",
           BY_SIZE),
    PZ_ROW(TEST, before, PZ_FIELD_REALS, "ratio", "Mean errors before the fit, by the same sizes",
           BY_SIZE),
    PZ_ROW(TEST, after, PZ_FIELD_REALS, "ratio", "Mean errors after the fit, by the same sizes",
           BY_SIZE),
};
static const struct pz_record test_record = PZ_RECORD(test_fields, TEST);

#define NETWORK struct pz_network_calibration
static const struct pz_field network_fields[] = {
    PZ_ROW(NETWORK, chip, PZ_FIELD_TEXT, NULL, "Chip of the cluster: a preset or a file"),
    PZ_ROW_MADE("levels", &levels_codec, NULL, "Levels of the network, innermost first"),
    PZ_ROW_MANY(NETWORK, tests, n_tests, PZ_FIELD_LIST, "tests", &test_record,
                "Errors by collective"),
    PZ_ROW_BY(NETWORK, cluster, "description", &pz_cluster_codec,
              "The fitted cluster as cluster.json"),
};
const struct pz_record pz_network_calibration_record = PZ_RECORD(network_fields, NETWORK);
