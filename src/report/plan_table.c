/* Table of a partition: the layers and the memory of its stages. */
#include "report/plan_table.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/text.h"
#include "partition/partition.h"
#include "report/table.h"

/* Prints a row for each stage, or for several neighbours that are equal. */
void pz_partition_table(struct pz_call *call, const struct pz_partition *plan, FILE *out) {
  struct pz_table *table =
      pz_table_new(call, ">stages|layers|>devices|>ms/microbatch|>memory|>of HBM");
  uint32_t n;
  for (uint32_t k = 0; k < plan->pp; k += n) {
    const struct pz_partition_stage *stage = &plan->stages[k];
    char text[256], other[256], bytes[32];
    /* Counts the neighbours with the same layers and load, which share the row. */
    pz_partition_stage_text(stage, text, sizeof text);
    for (n = 1; k + n < plan->pp; n++) {
      pz_partition_stage_text(&stage[n], other, sizeof other);
      bool other_load = fabs(stage[n].load_s - stage->load_s) > 1e-9 * stage->load_s;
      if (strcmp(other, text) != 0 || other_load) break;
    }
    if (n > 1)
      pz_table_cell(table, "%u-%u", k + 1, k + n);
    else
      pz_table_cell(table, "%u", k + 1);
    pz_table_cell(table, "%s", text);
    pz_table_cell(table, "%" PRId64, stage->devices);
    pz_table_cell(table, "%.4g", 1e3 * stage->load_s);
    pz_table_cell(table, "%s", pz_text_si(bytes, sizeof bytes, stage->memory_bytes, "B"));
    pz_table_cell(table, "%.0f%%", 100 * stage->memory_bytes / plan->hbm_bytes);
  }
  pz_table_print(table, 0, out);
}
