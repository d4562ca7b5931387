/* Section of a report of the evaluator training: the best chip and the reference with their plans, the inputs and the
 * certificate as one object, `search`; and as datasets the parts of each step, today's chips beside the best one, the front,
 * the roofline of its operators, cost breakdowns, and how robust the answer is. */
#include <math.h>
#include <string.h>

#include "chip/chip.h"
#include "core/text.h"
#include "plan/plan_fields.h"
#include "report/report_data.h"

/* ---- the chips ------------------------------------------------------------------------------ */

/* How a model trains on one chip. */
struct trained_model {
  const char *model;
  double samples_per_s, ratio; /* ratio: throughput over that on the reference chip */
  const struct pz_training_answer *training;
};

static json_t *models_json(const struct trained_model *list, uint32_t n) {
  json_t *rows = json_array();
  for (uint32_t i = 0; i < n; i++) {
    const struct pz_training_answer *t = list[i].training;
    json_array_append_new(rows, json_pack("{s:s,s:f,s:f,s:f,s:f,s:f,s:f,s:o}", "model",
                                          list[i].model, "step_s", t->step_s, "samples_per_s",
                                          list[i].samples_per_s, "times_reference", list[i].ratio,
                                          "mfu", t->mfu, "mfu_conventional", t->mfu_conventional,
                                          "joules", t->joules, "plan", pz_plan_json(&t->plan)));
  }
  return rows;
}

/* Power during the steps of the models; null unless it is known for all of them. */
static json_t *power_json(const struct trained_model *list, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    if (!(list[i].training->full_watts > 0)) return json_null();
  json_t *watts = json_array();
  for (uint32_t i = 0; i < n; i++)
    json_array_append_new(watts, json_real(list[i].training->full_watts));
  return json_pack("{s:f,s:o}", "limit_watts", list[0].training->limit_watts, "full_watts", watts);
}

static json_t *best_json(const struct pz_result *r, const struct trained_model *list) {
  const struct pz_answer *a = pz_result_best(r);
  const struct pz_uncertainty *u = &a->uncertainty;
  json_t *uncertainty = json_null();
  if (u->spread > 0)
    uncertainty = json_pack("{s:f,s:f,s:f}", "spread", u->spread, "low", u->low, "high", u->high);
  return json_pack("{s:s,s:f,s:f,s:o,s:f,s:f,s:f,s:f,s:f,s:f,s:o,s:o,s:o}", "name", a->chip->name,
                   "value", a->objective, "gemm_hz", pz_chip_gemm_hz(a->chip), "uncertainty",
                   uncertainty, "area_mm2", a->area_mm2, "watts", a->peak_watts, "dollars",
                   a->dollars, "owner_dollars", a->owner_dollars, "edge_mm", a->edge_mm,
                   "edge_room_mm", a->edge_room_mm, "models", models_json(list, a->n_models),
                   "power", power_json(list, a->n_models), "chip", pz_chip_json(a->chip));
}

static json_t *reference_json(const struct pz_result *r, const struct trained_model *list) {
  const struct pz_result_chip_summary *c = &r->reference_chip;
  uint32_t n = r->n_references;
  return json_pack("{s:s,s:f,s:f,s:f,s:o,s:o,s:s?}", "name", c->name, "area_mm2", c->area_mm2,
                   "watts", c->peak_watts, "dollars", c->dollars, "models", models_json(list, n),
                   "power", power_json(list, n), "breaks", c->breaks);
}

/* ---- inputs and certificate ----------------------------------------------------------------- */

static json_t *certificate_json(const struct pz_certificate *c) {
  int64_t closed = c->n_infeasible + c->n_excluded + c->n_excluded_by_schedules + c->n_evaluated;
  return json_pack("{s:I,s:I,s:I,s:f,s:I,s:I,s:b}", "space", (json_int_t)c->n_chips, "closed",
                   (json_int_t)closed, "evaluated",
                   (json_int_t)(c->n_evaluated + c->n_excluded_by_schedules), "gap", c->gap,
                   "boxes", (json_int_t)c->n_boxes, "rounds", (json_int_t)c->n_rounds, "finished",
                   c->finished);
}

static json_t *inputs_json(const struct pz_result *r) {
  const struct pz_study_options *o = &r->inputs.options;
  json_t *models = json_array();
  for (uint32_t i = 0; i < o->n_models; i++)
    json_array_append_new(models, json_string(o->models[i]));
  return json_pack("{s:o,s:s,s:s,s:I,s:I,s:I,s:I,s:f,s:s,s:s,s:f,s:f,s:f,s:f}", "models", models,
                   "space", r->inputs.space_name, "evaluator", pz_evaluator_names[o->evaluator],
                   "devices", (json_int_t)o->devices, "batch", (json_int_t)o->batch, "seq",
                   (json_int_t)o->workload.seq, "scale_up", (json_int_t)o->scale_up,
                   "outer_bytes_per_s", o->outer_bytes_per_s, "objective",
                   pz_objective_names[o->objective], "meaning", pz_objective_unit(o->objective),
                   "limit_mm2", o->limit_mm2, "limit_watts", o->limit_watts, "limit_dollars",
                   o->limit_dollars, "gap", o->gap);
}

/* ---- datasets ------------------------------------------------------------------------------- */

/* Adds a dataset from a list of flat objects: one row for each object, with the members that the columns name. */
static void add_list_dataset(struct pz_call *call, json_t *datasets, const char *name,
                             const char *columns, const json_t *list) {
  json_t *rows = pz_dataset_new(call, datasets, name, columns);
  if (!json_is_array(list))
    pz_raise(call, PZ_NO_MEMORY, "the report's data have no list '%s'", name);
  for (size_t i = 0; i < json_array_size(list); i++) {
    const json_t *object = json_array_get(list, i);
    json_t *row = json_array();
    for (const char *at = columns; *at;) {
      size_t n = strcspn(at, ",");
      json_t *v = json_object_getn(object, at, n);
      json_array_append_new(row, v ? json_incref(v) : json_null());
      at += n;
      if (*at == ',') at++;
    }
    pz_dataset_append(call, rows, row);
  }
}

/* One row for each constant of unmeasured chips that was moved to an end of its range. */
static void add_robustness_dataset(struct pz_call *call, json_t *datasets,
                                   const struct pz_robustness *x) {
  json_t *rows = pz_dataset_new(call, datasets, "robustness",
                                "constant,value,usual,objective,change,better,better_by");
  for (uint32_t i = 0; x && i < x->n_moves; i++) {
    const struct pz_moved_constant *m = &x->moves[i];
    json_t *usual = json_null();
    for (size_t k = 0; pz_cold_at(k); k++)
      if (strcmp(pz_cold_at(k)->name, m->constant) == 0) usual = json_real(pz_cold_at(k)->value);
    pz_dataset_append(call, rows,
                      json_pack("[s,f,o,f,f,s?,f]", m->constant, m->value, usual, m->objective,
                                m->change, m->better, m->better_by));
  }
}

/* Parts of each model's step time on the best chip. */
static void add_step_dataset(struct pz_call *call, json_t *datasets,
                             const struct trained_model *list, uint32_t n) {
  json_t *rows = pz_dataset_new(call, datasets, "step", "model,part,seconds,share");
  for (uint32_t i = 0; i < n; i++)
    for (size_t k = 0; pz_time_part_at(k); k++) {
      const struct pz_part_info *part = pz_time_part_at(k);
      double seconds = pz_time_part(&list[i].training->parts, part);
      if (seconds > 0)
        pz_dataset_append(call, rows,
                          json_pack("[s,s,f,f]", list[i].model, part->label, seconds,
                                    seconds / list[i].training->step_s));
    }
}

void pz_report_training(struct pz_call *call, struct pz_report *report) {
  const struct pz_result *r = report->result;
  const struct pz_answer *a = pz_result_best(r);
  struct trained_model best[PZ_SEARCH_MOST_MODELS], reference[PZ_SEARCH_MOST_MODELS];
  json_t *detail =
      pz_json_read(call, "the report's data", r->training_detail, strlen(r->training_detail));
  for (uint32_t i = 0; i < a->n_models; i++) {
    const struct pz_answer_model *m = &a->models[i];
    const struct pz_result_reference *ref = &r->references[i];
    best[i] = (struct trained_model){m->model, m->samples_per_s, m->ratio, m->training};
    reference[i] = (struct trained_model){ref->model, ref->samples_per_s, 1, ref->training};
  }
  add_step_dataset(call, report->datasets, best, a->n_models);
  add_list_dataset(call, report->datasets, "chips",
                   "chip,role,model,step_s,samples_per_s,mfu,mfu_conventional,watts,joules_per_"
                   "sample,value,area_mm2,peak_watts,gemm_hz,dollars,plan",
                   json_object_get(detail, "chips"));
  add_list_dataset(call, report->datasets, "front",
                   "chip,throughput,area_mm2,watts,dollars,limit_watts,limit_dollars,gap",
                   json_object_get(detail, "front"));
  add_list_dataset(call, report->datasets, "roofline",
                   "model,layer,operator,direction,cores,operations,hbm_bytes,seconds,bound,times",
                   json_object_get(detail, "roofline"));
  add_list_dataset(call, report->datasets, "bills", "role,chip,sum,part,amount",
                   json_object_get(detail, "bills"));
  add_robustness_dataset(call, report->datasets, r->robustness);
  const struct pz_robustness *x = r->robustness;
  json_t *robustness = json_null();
  if (x)
    robustness = json_pack("{s:I,s:f,s:b}", "candidates", (json_int_t)x->n_candidates, "tolerance",
                           x->tolerance, "robust", x->robust);
  report->search = pz_json_built(
      call, json_pack("{s:o,s:o,s:o,s:o,s:o}", "best", best_json(r, best), "robustness", robustness,
                      "reference", reference_json(r, reference), "certificate",
                      certificate_json(&a->certificate), "inputs", inputs_json(r)));
}
