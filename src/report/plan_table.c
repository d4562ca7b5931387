#include "report/plan_table.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/text.h"
#include "report/table.h"

static const struct pz_place_width *width_of(const struct pz_planned *p) {
  return &p->model->p.widths[p->plan->width];
}

static const struct pz_stage *busiest(const struct pz_plan *plan) {
  const struct pz_stage *busy = &plan->stages[0];
  for (uint32_t k = 1; k < plan->n_stages; k++)
    if (plan->stages[k].load_s > busy->load_s) busy = &plan->stages[k];
  return busy;
}

struct pz_step_parts pz_planned_parts(const struct pz_planned *p) {
  const struct pz_plan *plan = p->plan;
  const struct pz_stage *busy = busiest(plan);
  double own = 0, link = 0;
  int64_t m = p->model->p.microbatches, n_rounds = (m + plan->d - 1) / plan->d;
  double rounds = (double)n_rounds;
  bool again = p->recompute && busy != &plan->stages[plan->n_stages - 1];
  for (uint32_t i = 0; i < busy->n; i++) {
    const struct pz_place_layer *l = &width_of(p)->layers[busy->layers[i]];
    own += l->fwd_s * (again ? 2 : 1) + l->bwd_s;
    const double *by = p->model->parts[busy->layers[i]].link_s;
    link += by[PZ_FORWARD] * (again ? 2 : 1) + by[PZ_BACKWARD];
  }
  return (struct pz_step_parts){.compute_s = rounds * (own - link),
                                .collectives_s = rounds * link,
                                .transfers_s = rounds * fmax(0, busy->load_s - own),
                                .bubble_s = plan->maxload_s * (plan->n_stages - 1),
                                .exchange_s = plan->resync_s};
}

const char *pz_planned_stage(const struct pz_planned *p, const struct pz_stage *s, char *buf,
                             size_t size) {
  size_t at = 0;
  const struct pz_place_part *parts = p->model->parts;
  for (uint32_t i = 0, n; i < s->n && at + 1 < size; i += n) {
    for (n = 1; i + n < s->n; n++)
      if (strcmp(parts[s->layers[i + n]].name, parts[s->layers[i]].name) != 0) break;
    int wrote = snprintf(buf + at, size - at, n > 1 ? "%s%s x %u" : "%s%s", at ? ", " : "",
                         parts[s->layers[i]].name, n);
    at += wrote > 0 ? (size_t)wrote : 0;
  }
  return buf;
}

int64_t pz_planned_devices(const struct pz_planned *p) {
  int64_t n = 0;
  for (uint32_t k = 0; k < p->plan->n_stages; k++) n += p->plan->stages[k].devices;
  return n * p->plan->d;
}

double pz_planned_flop_part(const struct pz_planned *p) {
  double peak = (double)pz_planned_devices(p) * p->peak_flop_per_s;
  return p->model->sample_flop * (double)p->batch / (p->plan->time_s * peak);
}

static json_t *stages_json(const struct pz_planned *p) {
  char text[256];
  json_t *stages = json_array();
  for (uint32_t k = 0; k < p->plan->n_stages; k++) {
    const struct pz_stage *s = &p->plan->stages[k];
    json_array_append_new(stages, json_pack("{s:s,s:I,s:I,s:f,s:f}", "layers",
                                            pz_planned_stage(p, s, text, sizeof text), "count",
                                            (json_int_t)s->n, "devices", (json_int_t)s->devices,
                                            "load_s", s->load_s, "memory_bytes", s->memory_bytes));
  }
  return stages;
}

json_t *pz_planned_json(const struct pz_planned *p, bool whole) {
  const struct pz_plan *plan = p->plan;
  struct pz_step_parts parts = pz_planned_parts(p);
  double t = plan->time_s;
  json_t *v =
      json_pack("{s:f,s:I,s:I,s:I,s:b,s:f,s:f,s:f,s:{s:f,s:f,s:f,s:f,s:f}}", "step_s", t,
                "tensor_parallel", (json_int_t)width_of(p)->t, "data_parallel", (json_int_t)plan->d,
                "microbatch", (json_int_t)p->model->mbs, "recompute", p->recompute, "samples_per_s",
                (double)p->batch / t, "tokens_per_s", (double)(p->batch * p->model->seq) / t,
                "flop_utilisation", pz_planned_flop_part(p), "parts", "compute_s", parts.compute_s,
                "collectives_s", parts.collectives_s, "transfers_s", parts.transfers_s, "bubble_s",
                parts.bubble_s, "exchange_s", parts.exchange_s);
  json_object_set_new(v, "worst_schedule_gap", json_real(p->model->worst_gap));
  json_object_set_new(v, "devices_used", json_integer(pz_planned_devices(p)));
  json_object_set_new(v, "n_stages", json_integer(plan->n_stages));
  if (whole) json_object_set_new(v, "stages", stages_json(p));
  return v;
}

const char *pz_planned_text(const struct pz_planned *p, char *buf, size_t size) {
  snprintf(buf, size,
           "%u stage%s, %" PRId64 " replica%s, tensor parallel %" PRId64 ", microbatch %" PRId64
           ", activations %s",
           p->plan->n_stages, p->plan->n_stages == 1 ? "" : "s", p->plan->d,
           p->plan->d == 1 ? "" : "s", width_of(p)->t, p->model->mbs,
           p->recompute ? "recomputed" : "kept");
  return buf;
}

enum pz_status pz_planned_table(const struct pz_planned *p, struct pz_arena *arena, FILE *out) {
  static const char *const heads[] = {">stages", "layers",  ">devices", ">ms/microbatch",
                                      ">memory", ">of HBM", NULL};
  struct pz_table t;
  pz_table_init(&t, arena, heads);
  for (uint32_t k = 0, n; k < p->plan->n_stages; k += n) {
    const struct pz_stage *s = &p->plan->stages[k];
    char text[256], other[256], bytes[32];
    pz_planned_stage(p, s, text, sizeof text);
    for (n = 1; k + n < p->plan->n_stages; n++) /* equal ones in one row */
      if (strcmp(pz_planned_stage(p, &s[n], other, sizeof other), text) != 0 ||
          fabs(s[n].load_s - s->load_s) > 1e-9 * s->load_s)
        break;
    pz_table_cell(&t, n > 1 ? "%u-%u" : "%u", k + 1, k + n);
    pz_table_cell(&t, "%s", text);
    pz_table_cell(&t, "%" PRId64, s->devices);
    pz_table_cell(&t, "%.4g", 1e3 * s->load_s);
    pz_table_cell(&t, "%s", pz_text_si(bytes, sizeof bytes, s->memory_bytes, "B"));
    pz_table_cell(&t, "%.0f%%", 100 * s->memory_bytes / p->model->p.hbm_bytes);
  }
  return pz_table_print(&t, 0, out);
}
