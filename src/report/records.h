/* The records that phaze prints as JSON, each described by one table of fields (core/record.h),
 * and a list of all of them, from which the schema in doc/fields.md is generated.
 *
 * The tables are in record_*.c, one file for each group of commands. */
#ifndef PZ_REPORT_RECORDS_H
#define PZ_REPORT_RECORDS_H

#include "core/record.h"

/* Version of the JSON results.  It is raised when a field is removed or changes its meaning, not
 * when one is added. */
enum { PZ_JSON_VERSION = 1 };

/* A record with its name in the schema. */
struct pz_named_record {
  const char *name;    /* "calibration" */
  const char *meaning; /* one line: what it describes, and which command prints it */
  const struct pz_record *record;
};

/* Returns named record i, or NULL after the last. */
const struct pz_named_record *pz_named_record_at(size_t i);

/* A field of a record as the schema describes it. */
struct pz_schema_row {
  const char *path; /* "stages[].weight_bytes" */
  const char *type; /* what JSON contains: "number", "array of objects", "object, plan" */
  const char *unit, *meaning;
  bool optional; /* whether the field is left out where it says nothing */
};
struct pz_schema {
  const struct pz_schema_row *rows;
  uint32_t n_rows;
};

/* Return the fields of a record, and those of a plan (plan/plan_fields.def), in the memory of the
 * call.  The fields of an object with a name of its own are not repeated. */
struct pz_schema pz_record_schema(struct pz_call *call, const struct pz_record *record);
struct pz_schema pz_plan_schema(struct pz_call *call);
extern const struct pz_record pz_schema_record;

/* Results of `calibrate`: struct pz_calibrated, pz_step_calibration, pz_network_calibration. */
extern const struct pz_record pz_calibrated_record, pz_step_calibration_record,
    pz_network_calibration_record;
/* A factor of a part of the step: struct pz_step_factor. */
extern const struct pz_record pz_step_factor_record;

/* A built-in chip with published dies.  Published values are 0 if they are not known. */
struct pz_known_die {
  const char *chip, *die;
  bool fitted;
  double mm2, area_error, watts, watts_error;
  double area_mm2, bill_watts, dollars; /* by the cost model */
};

struct pz_known_dies {
  struct pz_known_die *dies;
  uint32_t n_dies;
  double area_error, area_error_judged, watts_error, watts_error_judged;
};

/* pz_known_die_record has what is published, without the members of the cost model. */
extern const struct pz_record pz_known_die_record, pz_known_dies_record;

/* Constants of the cost model and of chips known only by their data sheets. */
struct pz_silicon_constants {
  const char *const *nodes;
  const struct pz_silicon *constants;
  const struct pz_cold_info *cold;
  uint32_t n_nodes, n_constants, n_cold;
  double cold_spread;
};
extern const struct pz_record pz_silicon_constants_record;

struct pz_chip_rates {
  double tensor_flop_per_s, vector_op_per_s, hbm_bytes_per_s, peak_watts;
  int64_t hbm_bytes;
};
extern const struct pz_record pz_chip_rates_record;

/* Measured power of operators with the mean errors of its prediction. */
struct pz_power_comparison {
  const struct pz_power_row *rows;
  uint32_t n_rows;
  double time_error, watts_error, joules_error, sustained_watts_error, sustained_joules_error;
};
extern const struct pz_record pz_power_comparison_record;

struct pz_listed_model {
  const char *name, *hugging_face, *family;
  int64_t layers, hidden, heads, kv_heads, ffn, vocab, positions, seq, params;
};

struct pz_listed_models {
  const struct pz_listed_model *models;
  uint32_t n_models;
};
extern const struct pz_record pz_listed_models_record;

/* A matrix product with names for the enums of its mapping. */
struct pz_mapped_product {
  const struct pz_mapping *mapping;
  const char *bound, *along_rows, *along_cols, *local_stays, *glb_stays;
};
extern const struct pz_record pz_mapped_product_record;

struct pz_operator_estimate {
  const char *name, *op_class, *bound;
  int64_t flop, bytes;
  double latency_s, energy_j, utilisation;
};

/* Operators of a layer; arrays are indexed by enum pz_direction. */
struct pz_layer_estimate {
  const char *name;
  int64_t count;
  struct pz_operator_estimate *ops[2];
  uint32_t n_ops[2];
};

/* Latency and energy are summed over the layers of one microbatch. */
struct pz_model_estimate {
  const char *model, *chip;
  struct pz_layer_estimate *layers;
  uint32_t n_layers;
  double latency_s[2], energy_j[2], optimizer_s;
};
extern const struct pz_record pz_model_estimate_record;

/* The results of a rehearsal with the model and the chip of its plan. */
struct pz_rehearsal_answer {
  const char *model, *chip;
  double corrected_step_s; /* NaN if no time was measured */
  const struct pz_rehearsal *found;
};
extern const struct pz_record pz_rehearsal_record;

/* struct pz_runs, the rows of a table with their predictions. */
extern const struct pz_record pz_runs_record;

/* ---- training plans ------------------------------------------------------------------------- */

/* Structs of phaze.h with the names of the records. */
extern const struct pz_record pz_training_run_record, pz_training_memory_record,
    pz_plan_certificate_record, pz_run_cost_record;
/* The certificate without the two reasons for which plans are excluded. */
extern const struct pz_record pz_short_certificate_record;

/* How much slower a plan is than the chosen one.  grown_part is the part of its step that grows
 * most against the chosen plan, and grown_s the seconds by which it grows. */
struct pz_slower_plan {
  double slower, grown_s;
  const char *grown_part;
};

/* A plan that a search found; `slower` is NULL for the chosen one. */
struct pz_found_plan {
  const struct pz_training_run *run;
  const int64_t *stage_layers, *recomputed_layers; /* by pipeline stage */
  uint32_t n_stages;
  const struct pz_slower_plan *slower;
  int64_t ep; /* expert-parallel degree, or 0 if the model has no experts */
};
extern const struct pz_record pz_found_plan_record;

/* Returns the plan of a run with how much slower it is than `best`, which is NULL for the best plan
 * itself.  Returns NULL if `run` is NULL.  `experts` is the number of experts of the model. */
struct pz_found_plan *pz_found_plan_new(struct pz_call *call, const struct pz_training_run *run,
                                        const struct pz_training_run *best, int64_t experts);

/* The chosen plan with its prediction and the plans that were not chosen. */
struct pz_placed_plans {
  const struct pz_training_plans *plans;
  const struct pz_training_run *best;
  const char *recompute;
  const struct pz_found_plan *plan, *all_devices, *fastest, *others;
  uint32_t n_others;
};
extern const struct pz_record pz_placed_plans_record;
struct pz_placed_plans *pz_placed_plans_new(struct pz_call *call,
                                            const struct pz_training_plans *plans);

/* Returns the part of the step time of `other` that exceeds the same part of `best` most, and the
 * difference in *grown_s.  Returns NULL if no part is longer. */
const struct pz_part_info *pz_grown_part(const struct pz_prediction *best,
                                         const struct pz_prediction *other, double *grown_s);

/* The model, chip and network that a question names.  A file name is NULL if a preset is named. */
struct pz_asked {
  const char *model, *chip, *cluster, *chip_file, *cluster_file;
  const char *warning; /* about the network, or "" */
};

/* The answer of `phaze predict`; pointers are NULL for what was not asked. */
struct pz_predict_answer {
  struct pz_asked asked;
  const struct pz_training_run *run;
  bool no_network;
  const struct pz_run_cost *cost;
  const struct pz_plan_changes *fits_with; /* changes after which a plan fits that does not */
  const struct pz_explanation *explanation;
};
extern const struct pz_record pz_predict_answer_record;

/* A plan file of the user (--compare), and its difference from the best plan. */
struct pz_compared_plan {
  const char *file;
  const struct pz_plan_diff *diff;
};

/* The answer of `phaze place` for one number of devices; `late` is NULL without a deadline. */
struct pz_place_answer {
  struct pz_asked asked;
  int64_t devices, batch;
  const struct pz_placed_plans *placed;
  const struct pz_run_cost *cost;
  const struct pz_compared_plan *compared;
  const bool *late;
};
extern const struct pz_record pz_place_answer_record;

/* The answer of `phaze place` for one of several numbers of devices: first the chosen plan, then
 * the whole row, which states whether a plan fits. */
struct pz_scaled_plan {
  const struct pz_scaling_row *row;
  const struct pz_training_run *run;
  double tokens_per_s;
  const struct pz_found_plan *plan;
  const struct pz_run_cost *cost;
  const bool *cheapest, *late;
};
struct pz_scaled_plans {
  const struct pz_scaling_row *row;
  bool fits, stopped;
  const struct pz_plan_certificate *certificate;
  const struct pz_scaled_plan *chosen; /* NULL if no plan fits */
};
struct pz_scaling_answer {
  struct pz_asked asked;
  bool weak;
  const struct pz_scaled_plans *rows;
  uint32_t n_rows;
};
extern const struct pz_record pz_scaling_answer_record;

/* A value of both runs of `phaze diff`. */
struct pz_compared_value {
  double a, b, difference;
};
struct pz_compared_value pz_compare_values(double a, double b);

/* The answer of `phaze diff`. */
struct pz_diff_run {
  struct pz_asked asked;
  const struct pz_training_run *run;
};
struct pz_diff_answer {
  struct pz_diff_run a, b;
  const struct pz_plan_diff *diff;
  struct pz_compared_value step_s, peak_bytes;
};
extern const struct pz_record pz_diff_answer_record;

/* The answer of `phaze tune`.  Plans are JSON objects in the form of plan files, which the call
 * owns. */
struct pz_tuned_change {
  const char *field; /* the only field that changes, or NULL if several do */
  const struct pz_plan_change *change;
  const json_t *plan;
};
struct pz_measured_step {
  double step_s, predicted_s, error;
};
struct pz_tune_answer {
  const struct pz_plan_tuning *tuning;
  const struct pz_run_plan *run;
  const json_t *run_plan;
  const struct pz_measured_step *measured; /* NULL if the step was not measured */
  const struct pz_tuned_change *best, *overlapped, *changes;
  uint32_t n_changes;
};
extern const struct pz_record pz_tune_answer_record, pz_tuned_change_record;

/* ---- schedules ------------------------------------------------------------------------------ */

/* A schedule with the time that the solver needed, which is NaN if it was not measured. */
struct pz_solved_schedule {
  const struct pz_layer_schedule *schedule;
  /* The same if it is of a layer of a model, or NULL if it is of a problem file (--instance). */
  const struct pz_layer_schedule *layer;
  double gap, solving_s;
  const char *outcome; /* "optimal" or "feasible" */
};
extern const struct pz_record pz_solved_schedule_record;

/* The fields that the answer of `phaze schedule` has only for a training plan. */
struct pz_scheduled_plan {
  const char *cluster; /* network, or NULL for the chip's own link */
  const struct pz_plan_schedules *passes;
};
struct pz_schedule_totals {
  double forward_s, backward_s;
};

/* The answer of `phaze schedule` for a model, or for a training plan (otherwise `plan` is NULL).
 * `totals` is NULL unless all layers of the model are in the list. */
struct pz_schedule_answer {
  const char *model, *chip, *modes, *exclusive;
  const struct pz_scheduled_plan *plan;
  const struct pz_solved_schedule *layers;
  uint32_t n_layers;
  const struct pz_schedule_totals *totals;
};
extern const struct pz_record pz_schedule_answer_record;

/* ---- searches ------------------------------------------------------------------------------- */

/* The time of a search, or of a command that loaded a finished run (`searched` is NULL). */
struct pz_searched {
  double bounds_s, search_s, result_s;
  int64_t evaluations;
};
struct pz_search_times {
  bool reused;
  const struct pz_searched *searched;
  double total_s;
  uint32_t threads;
};
extern const struct pz_record pz_search_times_record;

/* The answer of `phaze place` by the original system. */
struct pz_partition_answer {
  const char *model, *chip;
  int64_t devices, batch;
  double hbm_bytes, seconds;
  const struct pz_partition *plan, *others;
  uint32_t n_others;
};
extern const struct pz_record pz_partition_answer_record;

/* struct pz_validation without and with its measurements, and struct pz_cold_errors. */
extern const struct pz_record pz_validation_record, pz_validation_rows_record,
    pz_cold_errors_record;

/* Writes the chip or the cluster behind a pointer as its JSON file; NULL is null. */
extern const struct pz_field_codec pz_chip_codec, pz_cluster_codec;

#endif
