#include "place/found_plan_json.h"

#include "plan/plan_fields.h"
#include "plan/plan_text.h"
#include "step/prediction.h"

/* Layers by stage: all, or those that are recomputed. */
static json_t *layers_json(const struct pz_training_run *r, bool recomputed) {
  json_t *list = json_array();
  for (int64_t k = 0; k < r->plan.pp; k++) {
    struct pz_stage_layers x = pz_training_run_stage(r, k);
    json_array_append_new(list, json_integer((json_int_t)(recomputed ? x.again : x.layers)));
  }
  return list;
}

json_t *pz_found_plan_json(const struct pz_training_run *r, const struct pz_training_run *best) {
  const struct pz_plan *o = &r->plan;
  const struct pz_prediction *p = &r->p;
  json_t *j =
      json_pack("{s:f,s:f,s:f,s:I,s:I,s:f,s:f,s:f}", "step_s", p->step_s, "mfu", p->mfu,
                "mfu_conventional", p->mfu_conventional, "devices_used", (json_int_t)o->devices,
                "microbatches", (json_int_t)p->microbatches, "samples_per_s", p->samples_per_s,
                "tokens_per_s_per_device", p->tokens_per_s_per_device, "peak_bytes", p->peak_bytes);
  json_t *plan = pz_plan_json(o);
  if (j && plan) json_object_update(j, plan);
  json_decref(plan);
  json_object_del(j, "devices"); /* devices_used */
  json_object_set_new(j, "stage_layers", layers_json(r, false));
  json_object_set_new(j, "recompute_by_stage", layers_json(r, true));
  if (best) {
    double grew;
    const struct pz_part_info *part = pz_grown_part(&best->p, p, &grew);
    json_object_set_new(j, "slower", json_real(p->step_s / best->p.step_s - 1));
    json_object_set_new(j, "grown_part", part ? json_string(part->key) : json_null());
    json_object_set_new(j, "grown_s", json_real(grew));
  }
  return j;
}

json_t *pz_plan_certificate_json(const struct pz_plan_certificate *c) {
  return json_pack("{s:I,s:I,s:I,s:I,s:I,s:f}", "plans", (json_int_t)c->plans, "solved",
                   (json_int_t)c->solved, "excluded", (json_int_t)(c->by_bound + c->by_memory),
                   "excluded_by_bound", (json_int_t)c->by_bound, "excluded_by_memory",
                   (json_int_t)c->by_memory, "gap", c->gap);
}

/* In a word: "partial" where only some layers are recomputed. */
static const char *recompute_word(const struct pz_training_run *r) {
  int64_t n = 0;
  if (r->plan.recompute != PZ_RECOMPUTATION_FULL) return pz_recomputation_names[r->plan.recompute];
  for (int64_t k = 0; k < r->plan.pp; k++) n += pz_training_run_stage(r, k).again;
  return n == r->layers ? "full" : n ? "partial" : "none";
}

json_t *pz_found_plans_json(const struct pz_training_plans *p) {
  const struct pz_training_run *best = p->runs[0];
  json_t *j = pz_training_run_json(best), *others = json_array();
  for (uint32_t i = 1; i < p->n; i++)
    json_array_append_new(others, pz_found_plan_json(p->runs[i], best));
  json_object_set_new(j, "devices_used", json_integer((json_int_t)best->plan.devices));
  json_object_set_new(j, "recompute", json_string(recompute_word(best)));
  json_object_set_new(j, "plan", pz_found_plan_json(best, NULL));
  json_object_set_new(j, "certificate", pz_plan_certificate_json(&p->certificate));
  json_object_set_new(j, "others", others);
  if (p->fastest) json_object_set_new(j, "fastest", pz_found_plan_json(p->fastest, best));
  if (p->experts) /* how these are divided is said of every plan */
    json_object_set_new(json_object_get(j, "plan"), "ep", json_integer((json_int_t)best->plan.ep));
  for (uint32_t i = 1; p->experts && i < p->n; i++)
    json_object_set_new(json_array_get(others, i - 1), "ep",
                        json_integer((json_int_t)p->runs[i]->plan.ep));
  return j;
}
