/* Records of `phaze search` and of `phaze place` on chips of the original system: the time that the
 * search needed, and the partitions of a model. */
#include "report/records.h"

#include "partition/partition.h"
#include "report/plan_table.h"

/* ---- the time of a search ------------------------------------------------------------------- */

#define TIMES struct pz_search_times
#define SEARCHED(f, t, unit, meaning) PZ_ROW(TIMES, f, t, unit, meaning)
static const struct pz_field searched_fields[] = {
    SEARCHED(bounds_s, PZ_FIELD_REAL, "s", "Time of the bounds of single operators"),
    SEARCHED(search_s, PZ_FIELD_REAL, "s", "Time of the search"),
    SEARCHED(result_s, PZ_FIELD_REAL, "s", "Time of the details of the result"),
    SEARCHED(evaluations, PZ_FIELD_INT, NULL, "Chips that were evaluated"),
};
static const struct pz_record searched_record = PZ_RECORD(searched_fields, TIMES);
static json_t *write_searched(const void *value) {
  return ((const TIMES *)value)->reused ? json_object() : pz_record_json(&searched_record, value);
}
PZ_CODEC(searched, "object", &searched_record);
static const struct pz_field times_fields[] = {
    PZ_ROW(TIMES, reused, PZ_FIELD_BOOL, NULL, "A finished run was loaded; nothing was searched",
           .omitted = PZ_OMITTED_IF_EMPTY),
    {.key = "", .type = PZ_FIELD_FLAT, .codec = &searched_codec, .record = &searched_record},
    PZ_ROW(TIMES, total_s, PZ_FIELD_REAL, "s", "Time of the command"),
    PZ_ROW(TIMES, threads, PZ_FIELD_COUNT, NULL, "Threads"),
};
const struct pz_record pz_search_times_record = PZ_RECORD(times_fields, TIMES);

/* ---- partitions ----------------------------------------------------------------------------- */

#define ANSWER struct pz_partition_answer
static json_t *write_best(const void *value) {
  return pz_partition_json(((const ANSWER *)value)->found->plans, true);
}
static json_t *write_others(const void *value) {
  const struct pz_partitions *found = ((const ANSWER *)value)->found;
  json_t *list = json_array();
  for (uint32_t i = 1; i < found->n_plans; i++)
    json_array_append_new(list, pz_partition_json(&found->plans[i], false));
  return list;
}
PZ_CODEC(best, "object", &pz_partition_record);
PZ_CODEC(others, "array of objects", &pz_partition_record);

static const struct pz_field answer_fields[] = {
    PZ_ROW(ANSWER, model, PZ_FIELD_TEXT, NULL, "Model"),
    PZ_ROW(ANSWER, chip, PZ_FIELD_TEXT, NULL, "Chip"),
    PZ_ROW(ANSWER, devices, PZ_FIELD_INT, NULL, "Devices of the question"),
    PZ_ROW(ANSWER, batch, PZ_FIELD_INT, NULL, "Samples of a step"),
    PZ_ROW(ANSWER, hbm_bytes, PZ_FIELD_REAL, "B", "Memory of a device"),
    PZ_ROW_MADE("plan", &best_codec, NULL, "The best plan"),
    PZ_ROW_MADE("others", &others_codec, NULL, "The next best plans, without their stages"),
    PZ_ROW(ANSWER, seconds, PZ_FIELD_REAL, "s", "Time of the search"),
};
const struct pz_record pz_partition_answer_record = PZ_RECORD(answer_fields, ANSWER);
