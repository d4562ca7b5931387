/* Text, table and JSON of a partition: its degrees of parallelism, and the layers, load and memory of its stages. */
#include "report/plan_table.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/text.h"
#include "partition/partition.h"
#include "report/table.h"

enum { LONGEST_STAGE_TEXT = 256 };

const char *pz_partition_text(const struct pz_partition *p, char *buf, size_t size) {
  snprintf(buf, size,
           "%u stage%s, %" PRId64 " replica%s, tensor parallel %" PRId64 ", microbatch %" PRId64
           ", activations %s",
           p->pp, pz_text_s(p->pp), p->dp, pz_text_s((double)p->dp), p->tp, p->mbs,
           p->recompute ? "recomputed" : "kept");
  return buf;
}

/* Returns how many of the `most` stages from `first` on have the same layers and the same load as the first one. */
static uint32_t count_equal_stages(const struct pz_partition_stage *first, uint32_t most) {
  char text[LONGEST_STAGE_TEXT], other[LONGEST_STAGE_TEXT];
  uint32_t n = 1;
  pz_partition_stage_text(first, text, sizeof text);
  for (; n < most; n++) {
    pz_partition_stage_text(&first[n], other, sizeof other);
    bool other_load = fabs(first[n].load_s - first->load_s) > 1e-9 * first->load_s;
    if (strcmp(other, text) != 0 || other_load) break;
  }
  return n;
}

void pz_partition_table(struct pz_call *call, const struct pz_partition *p, FILE *out) {
  static const char *const heads[] = {">stages", "layers",  ">devices", ">ms/microbatch",
                                      ">memory", ">of HBM", NULL};
  struct pz_table *t = pz_table_new(call, heads);
  uint32_t n;
  for (uint32_t k = 0; k < p->pp; k += n) {
    const struct pz_partition_stage *s = &p->stages[k];
    char text[LONGEST_STAGE_TEXT], bytes[32];
    n = count_equal_stages(s, p->pp - k);
    if (n > 1)
      pz_table_cell(t, "%u-%u", k + 1, k + n);
    else
      pz_table_cell(t, "%u", k + 1);
    pz_table_cell(t, "%s", pz_partition_stage_text(s, text, sizeof text));
    pz_table_cell(t, "%" PRId64, s->devices);
    pz_table_cell(t, "%.4g", 1e3 * s->load_s);
    pz_table_cell(t, "%s", pz_text_si(bytes, sizeof bytes, s->memory_bytes, "B"));
    pz_table_cell(t, "%.0f%%", 100 * s->memory_bytes / p->hbm_bytes);
  }
  pz_table_print(t, 0, out);
}

json_t *pz_partition_json(const struct pz_partition *p, bool with_stages) {
  json_t *o = pz_record_json(&pz_partition_record, p);
  if (o && !with_stages) json_object_del(o, "stages");
  return o;
}
