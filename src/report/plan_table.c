#include "report/plan_table.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/text.h"
#include "report/table.h"

const char *pz_plan_stage_text(const struct pz_plan_stage *s, char *buf, size_t size) {
  size_t at = 0;
  if (size) buf[0] = '\0';
  for (uint32_t i = 0; i < s->n_layers && at + 1 < size; i++) {
    const struct pz_plan_layers *l = &s->layers[i];
    int wrote = snprintf(buf + at, size - at, l->count > 1 ? "%s%s x %u" : "%s%s", at ? ", " : "",
                         l->name, l->count);
    at += wrote > 0 ? (size_t)wrote : 0;
  }
  return buf;
}

const char *pz_plan_text(const struct pz_model_plan *p, char *buf, size_t size) {
  snprintf(buf, size,
           "%u stage%s, %" PRId64 " replica%s, tensor parallel %" PRId64 ", microbatch %" PRId64
           ", activations %s",
           p->n_stages, pz_text_s(p->n_stages), p->data_parallel,
           pz_text_s((double)p->data_parallel), p->tensor_parallel, p->microbatch_samples,
           p->recompute ? "recomputed" : "kept");
  return buf;
}

static json_t *stages_json(const struct pz_model_plan *p) {
  char text[256];
  json_t *stages = json_array();
  for (uint32_t k = 0; k < p->n_stages; k++) {
    const struct pz_plan_stage *s = &p->stages[k];
    json_array_append_new(stages,
                          json_pack("{s:s,s:I,s:I,s:f,s:f}", "layers",
                                    pz_plan_stage_text(s, text, sizeof text), "count",
                                    (json_int_t)s->layer_count, "devices", (json_int_t)s->devices,
                                    "load_s", s->load_s, "memory_bytes", s->memory_bytes));
  }
  return stages;
}

json_t *pz_plan_json(const struct pz_model_plan *p, bool whole) {
  const struct pz_step_parts *parts = &p->parts;
  json_t *v =
      json_pack("{s:f,s:I,s:I,s:I,s:b,s:f,s:f,s:f,s:{s:f,s:f,s:f,s:f,s:f}}", "step_s", p->step_s,
                "tensor_parallel", (json_int_t)p->tensor_parallel, "data_parallel",
                (json_int_t)p->data_parallel, "microbatch", (json_int_t)p->microbatch_samples,
                "recompute", p->recompute, "samples_per_s", p->samples_per_s, "tokens_per_s",
                p->tokens_per_s, "flop_utilisation", p->flop_utilisation, "parts", "compute_s",
                parts->compute_s, "collectives_s", parts->collectives_s, "transfers_s",
                parts->transfers_s, "bubble_s", parts->bubble_s, "exchange_s", parts->exchange_s);
  json_object_set_new(v, "worst_schedule_gap", json_real(p->worst_schedule_gap));
  json_object_set_new(v, "devices_used", json_integer(p->devices_used));
  json_object_set_new(v, "n_stages", json_integer(p->n_stages));
  if (whole) json_object_set_new(v, "stages", stages_json(p));
  return v;
}

/* How many stages from this one on are told in one row. */
static uint32_t equal_stages(const struct pz_plan_stage *s, uint32_t most) {
  char text[256], other[256];
  uint32_t n = 1;
  pz_plan_stage_text(s, text, sizeof text);
  while (n < most && strcmp(pz_plan_stage_text(&s[n], other, sizeof other), text) == 0 &&
         !(fabs(s[n].load_s - s->load_s) > 1e-9 * s->load_s))
    n++;
  return n;
}

enum pz_status pz_plan_table(const struct pz_model_plan *p, struct pz_arena *arena, FILE *out) {
  static const char *const heads[] = {">stages", "layers",  ">devices", ">ms/microbatch",
                                      ">memory", ">of HBM", NULL};
  struct pz_table t;
  pz_table_init(&t, arena, heads);
  for (uint32_t k = 0, n; k < p->n_stages; k += n) {
    const struct pz_plan_stage *s = &p->stages[k];
    char text[256], bytes[32];
    n = equal_stages(s, p->n_stages - k);
    pz_table_cell(&t, n > 1 ? "%u-%u" : "%u", k + 1, k + n);
    pz_table_cell(&t, "%s", pz_plan_stage_text(s, text, sizeof text));
    pz_table_cell(&t, "%" PRId64, s->devices);
    pz_table_cell(&t, "%.4g", 1e3 * s->load_s);
    pz_table_cell(&t, "%s", pz_text_si(bytes, sizeof bytes, s->memory_bytes, "B"));
    pz_table_cell(&t, "%.0f%%", 100 * s->memory_bytes / p->hbm_bytes);
  }
  return pz_table_print(&t, 0, out);
}
