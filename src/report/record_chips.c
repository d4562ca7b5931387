/* Records of `phaze chips`, `phaze chip` and `phaze models`: published dies beside the cost model,
 * constants of the model with their sources, measured power, and built-in models. */
#include "report/records.h"

/* ---- published dies ------------------------------------------------------------------------- */

#define DIE struct pz_known_die
#define KNOWN_FIELDS                                                                               \
  PZ_ROW(DIE, die, PZ_FIELD_TEXT, NULL, "Die; chips with the same die have the same name here"),   \
      PZ_ROW(DIE, fitted, PZ_FIELD_BOOL, NULL, "Constants of the cost model were fitted to it"),   \
      PZ_ROW(DIE, mm2, PZ_FIELD_REAL, "mm2", "Published area of all dies",                         \
             .omitted = PZ_OMITTED_IF_EMPTY),                                                      \
      PZ_ROW(DIE, area_error, PZ_FIELD_REAL, "ratio", "Modelled over published area, minus 1",     \
             .omitted = PZ_OMITTED_IF_EMPTY),                                                      \
      PZ_ROW(DIE, watts, PZ_FIELD_REAL, "W", "Published power limit",                              \
             .omitted = PZ_OMITTED_IF_EMPTY),                                                      \
      PZ_ROW(DIE, watts_error, PZ_FIELD_REAL, "ratio",                                             \
             "Modelled peak power over the published limit, minus 1",                              \
             .omitted = PZ_OMITTED_IF_EMPTY)
static const struct pz_field known_fields[] = {KNOWN_FIELDS};
const struct pz_record pz_known_die_record = PZ_RECORD(known_fields, DIE);

static const struct pz_field die_fields[] = {
    KNOWN_FIELDS,
    PZ_ROW(DIE, chip, PZ_FIELD_TEXT, NULL, "Name of the built-in chip"),
    PZ_ROW(DIE, area_mm2, PZ_FIELD_REAL, "mm2", "Modelled area of all dies"),
    PZ_ROW(DIE, bill_watts, PZ_FIELD_REAL, "W", "Modelled peak power"),
    PZ_ROW(DIE, dollars, PZ_FIELD_REAL, "$", "Modelled production cost"),
};
static const struct pz_record die_record = PZ_RECORD(die_fields, DIE);

#define DIES struct pz_known_dies
static const struct pz_field dies_fields[] = {
    PZ_ROW_MANY(DIES, dies, n_dies, PZ_FIELD_LIST, "dies", &die_record,
                "Built-in chips with published dies"),
    PZ_ROW(DIES, area_error, PZ_FIELD_REAL, "ratio", "Mean absolute error of the area"),
    PZ_ROW(DIES, area_error_judged, PZ_FIELD_REAL, "ratio",
           "The same over dies to which nothing was fitted"),
    PZ_ROW(DIES, watts_error, PZ_FIELD_REAL, "ratio", "Mean absolute error of the power"),
    PZ_ROW(DIES, watts_error_judged, PZ_FIELD_REAL, "ratio",
           "The same over chips to which nothing was fitted"),
};
const struct pz_record pz_known_dies_record = PZ_RECORD(dies_fields, DIES);

/* ---- constants ------------------------------------------------------------------------------ */

#define SILICON struct pz_silicon
static const struct pz_field silicon_fields[] = {
    PZ_ROW(SILICON, name, PZ_FIELD_TEXT, NULL, "Constant"),
    PZ_ROW(SILICON, unit, PZ_FIELD_TEXT, NULL, "Its unit"),
    PZ_ROW_AS(SILICON, value, PZ_FIELD_REALS, "values", NULL, "Values at the nodes", .length = 4),
    PZ_ROW(SILICON, low, PZ_FIELD_REAL, "ratio", "Least value of the sources over this one"),
    PZ_ROW(SILICON, high, PZ_FIELD_REAL, "ratio", "Greatest value of the sources over this one"),
    PZ_ROW(SILICON, kind, PZ_FIELD_TEXT, NULL, "Where the value comes from"),
    PZ_ROW(SILICON, source, PZ_FIELD_TEXT, NULL, "Source"),
};
static const struct pz_record silicon_record = PZ_RECORD(silicon_fields, SILICON);

#define COLD struct pz_cold_info
static const struct pz_field cold_fields[] = {
    PZ_ROW(COLD, name, PZ_FIELD_TEXT, NULL, "Constant of chips known only by their data sheets"),
    PZ_ROW(COLD, value, PZ_FIELD_REAL, NULL, "Its value"),
    PZ_ROW(COLD, low, PZ_FIELD_REAL, NULL, "Least value that chips or sources show"),
    PZ_ROW(COLD, high, PZ_FIELD_REAL, NULL, "Greatest value that chips or sources show"),
    PZ_ROW(COLD, kind, PZ_FIELD_TEXT, NULL, "Where the value comes from"),
    PZ_ROW(COLD, source, PZ_FIELD_TEXT, NULL, "Source"),
};
static const struct pz_record cold_record = PZ_RECORD(cold_fields, COLD);

#define CONSTANTS struct pz_silicon_constants
static const struct pz_field constants_fields[] = {
    PZ_ROW_MANY(CONSTANTS, nodes, n_nodes, PZ_FIELD_TEXTS, "nodes", NULL, "Technology nodes"),
    PZ_ROW_MANY(CONSTANTS, constants, n_constants, PZ_FIELD_LIST, "constants", &silicon_record,
                "Constants of area, energy and price by node"),
    PZ_ROW_MANY(CONSTANTS, cold, n_cold, PZ_FIELD_LIST, "cold", &cold_record,
                "Constants of chips that nobody measured"),
    PZ_ROW(CONSTANTS, cold_spread, PZ_FIELD_REAL, "ratio",
           "Standard deviation, over chips, of the mean error of their published runs"),
};
const struct pz_record pz_silicon_constants_record = PZ_RECORD(constants_fields, CONSTANTS);

/* ---- rates of a chip ------------------------------------------------------------------------ */

#define RATES struct pz_chip_rates
static const struct pz_field rate_fields[] = {
    PZ_ROW(RATES, tensor_flop_per_s, PZ_FIELD_REAL, "FLOP/s", "Peak of the tensor cores, 16 bit"),
    PZ_ROW(RATES, vector_op_per_s, PZ_FIELD_REAL, "op/s", "Peak of the vector cores"),
    PZ_ROW(RATES, hbm_bytes_per_s, PZ_FIELD_REAL, "B/s", "Rate of all HBM stacks"),
    PZ_ROW(RATES, hbm_bytes, PZ_FIELD_INT, "B", "Capacity of all HBM stacks"),
    PZ_ROW(RATES, peak_watts, PZ_FIELD_REAL, "W", "Peak power, which a search limits"),
};
const struct pz_record pz_chip_rates_record = PZ_RECORD(rate_fields, RATES);

/* ---- measured power ------------------------------------------------------------------------- */

#define POWER struct pz_power_row
#define POWER_ROW(f, key, unit, meaning) PZ_ROW_AS(POWER, f, PZ_FIELD_REAL, key, unit, meaning)
static const struct pz_field power_fields[] = {
    PZ_ROW(POWER, op, PZ_FIELD_TEXT, NULL, "Operator"),
    PZ_ROW(POWER, m, PZ_FIELD_INT, NULL, "Rows of the result"),
    PZ_ROW(POWER, n, PZ_FIELD_INT, NULL, "Columns of the result"),
    PZ_ROW(POWER, k, PZ_FIELD_INT, NULL, "Length of the sums"),
    POWER_ROW(cap_watts, "cap_watts", "W", "Power limit of the measurement; 0: that of the chip"),
    POWER_ROW(lock_hz, "lock_hz", "Hz", "Locked clock of the measurement; 0: none"),
    POWER_ROW(sustained.latency_s, "sustained_s", "s", "Predicted time of calls without pauses"),
    POWER_ROW(called.latency_s, "latency_s", "s", "Predicted time at the measured rate of calls"),
    POWER_ROW(called.clock_hz, "clock_hz", "Hz", "Predicted clock at the measured rate of calls"),
    POWER_ROW(called.watts, "watts", "W", "Predicted power at the measured rate of calls"),
    POWER_ROW(called.joules, "joules", "J", "Predicted energy of a call"),
    POWER_ROW(throttled_s, "throttled_s", "s", "Time by the calibration's rate of throttled GEMMs"),
    POWER_ROW(call_s, "measured_s", "s", "Measured time of a call; 0: not measured"),
    POWER_ROW(clock_hz, "measured_clock_hz", "Hz", "Measured clock; 0: not measured"),
    POWER_ROW(watts, "measured_watts", "W", "Measured power; 0: not measured"),
    POWER_ROW(joules, "measured_joules", "J", "Measured energy of a call; 0: not measured"),
};
static const struct pz_record power_record = PZ_RECORD(power_fields, POWER);

#define COMPARISON struct pz_power_comparison
#define ERROR_ROW(f, meaning) PZ_ROW(COMPARISON, f, PZ_FIELD_REAL, "ratio", meaning)
static const struct pz_field comparison_fields[] = {
    PZ_ROW_MANY(COMPARISON, rows, n_rows, PZ_FIELD_LIST, "operators", &power_record, "Operators"),
    ERROR_ROW(time_error, "Mean absolute error of the time"),
    ERROR_ROW(watts_error, "Mean absolute error of the power at the measured rate of calls"),
    ERROR_ROW(joules_error, "Mean absolute error of the energy at the measured rate of calls"),
    ERROR_ROW(sustained_watts_error, "Mean absolute error of the power of calls without pauses"),
    ERROR_ROW(sustained_joules_error, "Mean absolute error of the energy of calls without pauses"),
};
const struct pz_record pz_power_comparison_record = PZ_RECORD(comparison_fields, COMPARISON);

/* ---- models --------------------------------------------------------------------------------- */

#define MODEL struct pz_listed_model
#define SIZE_ROW(f, meaning) PZ_ROW(MODEL, f, PZ_FIELD_INT, NULL, meaning)
static const struct pz_field model_fields[] = {
    PZ_ROW(MODEL, name, PZ_FIELD_TEXT, NULL, "Name of the built-in model"),
    PZ_ROW(MODEL, hugging_face, PZ_FIELD_TEXT_OR_NULL, NULL,
           "Name on Hugging Face; null: it is not there"),
    PZ_ROW(MODEL, family, PZ_FIELD_TEXT, NULL, "Family of architectures"),
    SIZE_ROW(layers, "Repeated layers"),
    SIZE_ROW(hidden, "Hidden size"),
    SIZE_ROW(heads, "Attention heads"),
    SIZE_ROW(kv_heads, "Heads of keys and values"),
    SIZE_ROW(ffn, "Width of the feed-forward layers"),
    SIZE_ROW(vocab, "Size of the vocabulary"),
    SIZE_ROW(positions, "Rows of a learned position table, or longest sequence of a rotary model"),
    SIZE_ROW(seq, "Default sequence length in tokens"),
    SIZE_ROW(params, "Parameters, tied ones counted once"),
};
static const struct pz_record model_record = PZ_RECORD(model_fields, MODEL);

#define MODELS struct pz_listed_models
static const struct pz_field models_fields[] = {
    PZ_ROW_MANY(MODELS, models, n_models, PZ_FIELD_LIST, "models", &model_record,
                "Built-in models"),
};
const struct pz_record pz_listed_models_record = PZ_RECORD(models_fields, MODELS);
