/* Record of `phaze rehearse --results`: measured ranks of a plan beside the prediction. */
#include "report/records.h"

#define RANK struct pz_rehearsed_rank
/* Rows for the predicted and the measured value of one measure of a rank. */
#define MEASURE(name, measure, unit)                                                               \
  static const struct pz_field name##_fields[] = {                                                 \
      PZ_ROW_AS(RANK, predicted[measure], PZ_FIELD_REAL, "predicted", unit, "Prediction"),         \
      PZ_ROW_AS(RANK, measured[measure], PZ_FIELD_REAL_KNOWN, "measured", unit,                    \
                "Measurement; null: none"),                                                        \
  };                                                                                               \
  static const struct pz_record name##_record = PZ_RECORD(name##_fields, RANK)
MEASURE(compute, PZ_REHEARSAL_COMPUTE, "s");
MEASURE(between, PZ_REHEARSAL_STATIC, "B");
MEASURE(peak, PZ_REHEARSAL_PEAK, "B");
MEASURE(reserved, PZ_REHEARSAL_RESERVED, "B");

static const char *const statuses[] = {"ok", "oom", "failed", NULL}; /* pz_rank_status_names */

static const struct pz_field rank_fields[] = {
    PZ_ROW(RANK, rank, PZ_FIELD_INT, NULL, "Rank, from 0"),
    PZ_ROW(RANK, stage, PZ_FIELD_INT, NULL, "Pipeline stage, from 0"),
    PZ_ROW_NAMED(RANK, status, "status", statuses, "ok, oom (out of memory) or failed"),
    PZ_ROW(RANK, microbatches, PZ_FIELD_INT, NULL, "Microbatches of the measured step"),
    PZ_ROW_PART("compute_s", &compute_record, "Time in which the rank computes a step"),
    PZ_ROW_PART("static_bytes", &between_record, "Memory between two steps"),
    PZ_ROW_PART("peak_bytes", &peak_record, "Largest memory of all tensors"),
    PZ_ROW_PART("reserved_bytes", &reserved_record, "Memory that the allocator reserved"),
    PZ_ROW(RANK, corrected_s, PZ_FIELD_REAL_KNOWN, "s",
           "Compute by the corrected chip; null: not measured"),
    PZ_ROW(RANK, needed_bytes, PZ_FIELD_REAL_KNOWN, "B",
           "Reserved memory of the whole plan, by the measurement; null: not known"),
    PZ_ROW(RANK, usable_bytes, PZ_FIELD_REAL, "B", "Memory that the allocator can reserve"),
    PZ_ROW(RANK, left_out, PZ_FIELD_TEXT, NULL, "What the rehearsal left out"),
    PZ_ROW(RANK, message, PZ_FIELD_TEXT, NULL, "What the rehearsal reported"),
};
static const struct pz_record rank_record = PZ_RECORD(rank_fields, RANK);

#define ANSWER struct pz_rehearsal_answer
#define FOUND(f, t, key, unit, ...)                                                                \
  PZ_ROW_VIA(ANSWER, found, struct pz_rehearsal, f, t, key, unit, __VA_ARGS__)
#define FOUND_MANY(f, t, r, meaning)                                                               \
  FOUND(f, t, #f, NULL, meaning, .count_offset = offsetof(struct pz_rehearsal, n_##f), .record = r)
static const struct pz_field answer_fields[] = {
    PZ_ROW(ANSWER, model, PZ_FIELD_TEXT, NULL, "Model"),
    PZ_ROW(ANSWER, chip, PZ_FIELD_TEXT, NULL, "Chip of the plan"),
    FOUND(plan, PZ_FIELD_CHARS, "plan", NULL, "Digest of the plan"),
    FOUND(framework, PZ_FIELD_TEXT, "framework", NULL, "Framework of the rehearsal"),
    FOUND(version, PZ_FIELD_TEXT, "version", NULL, "Its version"),
    FOUND(torch, PZ_FIELD_TEXT, "torch", NULL, "Version of PyTorch"),
    FOUND(device, PZ_FIELD_TEXT, "device", NULL, "GPU of the rehearsal"),
    FOUND_MANY(ranks, PZ_FIELD_LIST, &rank_record, "Rehearsed ranks"),
    FOUND(fits, PZ_FIELD_BOOL, "fits", NULL, "The measured ranks fit in memory"),
    FOUND(complete, PZ_FIELD_BOOL, "complete", NULL, "All ranks that decide were measured"),
    FOUND(spare_bytes, PZ_FIELD_REAL, "spare_bytes", "B",
          "Free memory of the fullest rank; below 0: missing memory"),
    FOUND(p.step_s, PZ_FIELD_REAL, "step_s", "s", "Predicted step with network and pipeline"),
    PZ_ROW(ANSWER, corrected_step_s, PZ_FIELD_REAL_OR_NULL, "s",
           "The same with the measured compute; null: not measured"),
    FOUND_MANY(factors, PZ_FIELD_LIST, &pz_step_factor_record, "Factors of the parts of a step"),
    FOUND(chip, PZ_FIELD_CUSTOM, "description", NULL,
          "The corrected chip as chip.json; null: no time was measured", .codec = &pz_chip_codec),
    FOUND_MANY(notes, PZ_FIELD_TEXTS, NULL, "Remarks on the figures"),
};
const struct pz_record pz_rehearsal_record = PZ_RECORD(answer_fields, ANSWER);
