/* Records of `phaze search` and of `phaze place` on chips of the original system: the time that the
 * search needed, and the partitions of a model. */
#include "report/records.h"

#include "partition/partition.h"

/* ---- the time of a search ------------------------------------------------------------------- */

#define SEARCHED struct pz_searched
static const struct pz_field searched_fields[] = {
    PZ_ROW(SEARCHED, bounds_s, PZ_FIELD_REAL, "s", "Time of the bounds of single operators"),
    PZ_ROW(SEARCHED, search_s, PZ_FIELD_REAL, "s", "Time of the search"),
    PZ_ROW(SEARCHED, result_s, PZ_FIELD_REAL, "s", "Time of the details of the result"),
    PZ_ROW(SEARCHED, evaluations, PZ_FIELD_INT, NULL, "Chips that were evaluated"),
};
static const struct pz_record searched_record = PZ_RECORD(searched_fields, SEARCHED);

#define TIMES struct pz_search_times
static const struct pz_field times_fields[] = {
    PZ_ROW(TIMES, reused, PZ_FIELD_BOOL, NULL, "A finished run was loaded; nothing was searched",
           .omitted = PZ_OMITTED_IF_EMPTY),
    PZ_ROW_FLAT(TIMES, searched, &searched_record),
    PZ_ROW(TIMES, total_s, PZ_FIELD_REAL, "s", "Time of the command"),
    PZ_ROW(TIMES, threads, PZ_FIELD_COUNT, NULL, "Threads"),
};
const struct pz_record pz_search_times_record = PZ_RECORD(times_fields, TIMES);

/* ---- partitions ----------------------------------------------------------------------------- */

#define ANSWER struct pz_partition_answer
static const struct pz_field answer_fields[] = {
    PZ_ROW(ANSWER, model, PZ_FIELD_TEXT, NULL, "Model"),
    PZ_ROW(ANSWER, chip, PZ_FIELD_TEXT, NULL, "Chip"),
    PZ_ROW(ANSWER, devices, PZ_FIELD_INT, NULL, "Devices of the question"),
    PZ_ROW(ANSWER, batch, PZ_FIELD_INT, NULL, "Samples of a step"),
    PZ_ROW(ANSWER, hbm_bytes, PZ_FIELD_REAL, "B", "Memory of a device"),
    PZ_ROW_TO(ANSWER, plan, &pz_partition_record, "The best plan"),
    PZ_ROW_MANY(ANSWER, others, n_others, PZ_FIELD_LIST, "others", &pz_partition_brief_record,
                "The next best plans, without their stages"),
    PZ_ROW(ANSWER, seconds, PZ_FIELD_REAL, "s", "Time of the search"),
};
const struct pz_record pz_partition_answer_record = PZ_RECORD(answer_fields, ANSWER);
