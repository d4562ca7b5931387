#include "report/plan_table.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/text.h"
#include "partition/partition.h"
#include "report/table.h"

const char *pz_partition_text(const struct pz_partition *p, char *buf, size_t size) {
  snprintf(buf, size,
           "%u stage%s, %" PRId64 " replica%s, tensor parallel %" PRId64 ", microbatch %" PRId64
           ", activations %s",
           p->pp, pz_text_s(p->pp), p->dp, pz_text_s((double)p->dp), p->tp, p->mbs,
           p->recompute ? "recomputed" : "kept");
  return buf;
}

/* How many stages from this one on are told in one row. */
static uint32_t equal_stages(const struct pz_partition_stage *s, uint32_t most) {
  char text[256], other[256];
  uint32_t n = 1;
  pz_partition_stage_text(s, text, sizeof text);
  while (n < most && strcmp(pz_partition_stage_text(&s[n], other, sizeof other), text) == 0 &&
         !(fabs(s[n].load_s - s->load_s) > 1e-9 * s->load_s))
    n++;
  return n;
}

enum pz_status pz_plan_table(const struct pz_partition *p, struct pz_arena *arena, FILE *out) {
  static const char *const heads[] = {">stages", "layers",  ">devices", ">ms/microbatch",
                                      ">memory", ">of HBM", NULL};
  struct pz_table t;
  pz_table_init(&t, arena, heads);
  for (uint32_t k = 0, n; k < p->pp; k += n) {
    const struct pz_partition_stage *s = &p->stages[k];
    char text[256], bytes[32];
    n = equal_stages(s, p->pp - k);
    pz_table_cell(&t, n > 1 ? "%u-%u" : "%u", k + 1, k + n);
    pz_table_cell(&t, "%s", pz_partition_stage_text(s, text, sizeof text));
    pz_table_cell(&t, "%" PRId64, s->devices);
    pz_table_cell(&t, "%.4g", 1e3 * s->load_s);
    pz_table_cell(&t, "%s", pz_text_si(bytes, sizeof bytes, s->memory_bytes, "B"));
    pz_table_cell(&t, "%.0f%%", 100 * s->memory_bytes / p->hbm_bytes);
  }
  return pz_table_print(&t, 0, out);
}

json_t *pz_partition_json(const struct pz_partition *p, bool whole) {
  json_t *o = pz_record_json(&pz_partition_record, p);
  if (o && !whole) json_object_del(o, "stages");
  return o;
}
