/* What a search by training plans found, its reference and its proof; the chips of today beside the best one, what it takes,
 * its operators, and chips under tighter limits. */
#include <math.h>
#include <string.h>

#include "chip/chip.h"
#include "core/text.h"
#include "plan/plan_fields.h"
#include "report/report_data.h"

/* ---- the chips ------------------------------------------------------------------------------ */

/* What a model does on a chip: of the best, or of the reference. */
struct told {
  const char *model;
  double samples_per_s, ratio;
  const struct pz_training_answer *t;
};

static json_t *models_json(const struct told *list, uint32_t n) {
  json_t *rows = json_array();
  for (uint32_t i = 0; i < n; i++) {
    const struct pz_training_answer *t = list[i].t;
    json_array_append_new(rows, json_pack("{s:s,s:f,s:f,s:f,s:f,s:f,s:f,s:o}", "model",
                                          list[i].model, "step_s", t->step_s, "samples_per_s",
                                          list[i].samples_per_s, "times_reference", list[i].ratio,
                                          "mfu", t->mfu, "mfu_conventional", t->mfu_conventional,
                                          "joules", t->joules, "plan", pz_plan_json(&t->plan)));
  }
  return rows;
}

/* Of the steps told; null where nothing is known of it. */
static json_t *power_json(const struct told *list, uint32_t n) {
  json_t *watts = json_array();
  bool known = true;
  for (uint32_t i = 0; i < n; i++) {
    known = known && list[i].t->full_watts > 0;
    json_array_append_new(watts, json_real(list[i].t->full_watts));
  }
  json_t *o = json_pack("{s:f,s:o}", "limit_watts", list[0].t->limit_watts, "full_watts", watts);
  if (known) return o;
  json_decref(o);
  return json_null();
}

static json_t *best_json(const struct pz_result *r, const struct told *list) {
  const struct pz_answer *a = pz_result_best(r);
  const struct pz_uncertainty *u = &a->uncertainty;
  return json_pack("{s:s,s:f,s:f,s:o,s:f,s:f,s:f,s:f,s:f,s:f,s:o,s:o,s:o}", "name", a->chip->name,
                   "value", a->objective, "gemm_hz", pz_chip_gemm_hz(a->chip), "uncertainty",
                   u->spread > 0 ? json_pack("{s:f,s:f,s:f}", "spread", u->spread, "low", u->low,
                                             "high", u->high)
                                 : json_null(),
                   "area_mm2", a->area_mm2, "watts", a->peak_watts, "dollars", a->dollars,
                   "owner_dollars", a->owner_dollars, "edge_mm", a->edge_mm, "edge_room_mm",
                   a->edge_room_mm, "models", models_json(list, a->n_models), "power",
                   power_json(list, a->n_models), "chip", pz_chip_json(a->chip));
}

static json_t *reference_json(const struct pz_result *r, const struct told *list) {
  const struct pz_result_chip_summary *c = &r->reference_chip;
  uint32_t n = r->n_references;
  return json_pack("{s:s,s:f,s:f,s:f,s:o,s:o,s:s?}", "name", c->name, "area_mm2", c->area_mm2,
                   "watts", c->peak_watts, "dollars", c->dollars, "models", models_json(list, n),
                   "power", power_json(list, n), "breaks", c->breaks);
}

/* ---- what was asked, and the proof ---------------------------------------------------------- */

static json_t *certificate_json(const struct pz_certificate *c) {
  int64_t closed = c->n_infeasible + c->n_excluded + c->n_excluded_by_schedules + c->n_evaluated;
  return json_pack("{s:I,s:I,s:I,s:f,s:I,s:I,s:b}", "space", (json_int_t)c->n_chips, "closed",
                   (json_int_t)closed, "evaluated",
                   (json_int_t)(c->n_evaluated + c->n_excluded_by_schedules), "gap", c->gap,
                   "boxes", (json_int_t)c->n_boxes, "rounds", (json_int_t)c->n_rounds, "finished",
                   c->finished);
}

static json_t *robustness_json(const struct pz_robustness *x) {
  if (!x) return json_null();
  return json_pack("{s:I,s:f,s:b}", "candidates", (json_int_t)x->n_candidates, "tolerance",
                   x->tolerance, "robust", x->robust);
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

/* A list of flat objects as a table: in each row what the columns name. */
static bool tell_list(json_t *datasets, const char *name, const char *columns, const json_t *list) {
  json_t *rows = pz_dataset_add(datasets, name, columns);
  bool good = rows && json_is_array(list);
  for (size_t i = 0; good && i < json_array_size(list); i++) {
    const json_t *from = json_array_get(list, i);
    json_t *row = json_array();
    for (const char *at = columns; row && *at;) {
      size_t n = strcspn(at, ",");
      json_t *v = json_object_getn(from, at, n);
      if (json_array_append_new(row, v ? json_incref(v) : json_null()) != 0) break;
      at += n + (at[n] == ',');
    }
    good = pz_dataset_row(rows, row);
  }
  return good;
}

static bool tell_robustness(const struct pz_result *r, json_t *datasets) {
  json_t *rows = pz_dataset_add(datasets, "robustness",
                                "constant,value,usual,objective,change,better,better_by");
  const struct pz_robustness *x = r->robustness;
  bool good = rows;
  for (uint32_t i = 0; x && i < x->n_moves && good; i++) {
    const struct pz_moved_constant *m = &x->moves[i];
    const struct pz_cold_info *k;
    size_t at = 0;
    while ((k = pz_cold_at(at)) && strcmp(k->name, m->constant) != 0) at++;
    good = pz_dataset_row(rows, json_pack("[s,f,o,f,f,s?,f]", m->constant, m->value,
                                          k ? json_real(k->value) : json_null(), m->objective,
                                          m->change, m->better, m->better_by));
  }
  return good;
}

/* Parts of each model's step on the best chip. */
static bool tell_step(const struct told *list, uint32_t n, json_t *datasets) {
  json_t *rows = pz_dataset_add(datasets, "step", "model,part,seconds,share");
  const struct pz_part_info *part;
  bool good = rows;
  for (uint32_t i = 0; i < n; i++)
    for (size_t k = 0; (part = pz_time_part_at(k)) && good; k++) {
      double s = pz_time_part(&list[i].t->parts, part);
      if (s > 0)
        good = pz_dataset_row(
            rows, json_pack("[s,s,f,f]", list[i].model, part->label, s, s / list[i].t->step_s));
    }
  return good;
}

static bool tell_detail(const json_t *detail, json_t *datasets) {
  return tell_list(datasets, "chips",
                   "chip,role,model,step_s,samples_per_s,mfu,mfu_conventional,watts,joules_per_"
                   "sample,value,area_mm2,peak_watts,gemm_hz,dollars,plan",
                   json_object_get(detail, "chips")) &&
         tell_list(datasets, "front",
                   "chip,throughput,area_mm2,watts,dollars,limit_watts,limit_dollars,gap",
                   json_object_get(detail, "front")) &&
         tell_list(datasets, "roofline",
                   "model,layer,operator,direction,cores,operations,hbm_bytes,seconds,bound,times",
                   json_object_get(detail, "roofline")) &&
         tell_list(datasets, "bills", "role,chip,sum,part,amount",
                   json_object_get(detail, "bills"));
}

enum pz_status pz_report_training(struct pz_report *t) {
  const struct pz_result *r = t->result;
  const struct pz_answer *a = pz_result_best(r);
  struct told best[PZ_SEARCH_MOST_MODELS], reference[PZ_SEARCH_MOST_MODELS];
  json_t *detail = NULL;
  enum pz_status status = pz_json_parse("the report's data", r->training_detail,
                                        strlen(r->training_detail), &detail, t->err);
  if (status != PZ_OK) return status;
  for (uint32_t i = 0; i < a->n_models; i++) {
    const struct pz_answer_model *m = &a->models[i];
    const struct pz_result_reference *ref = &r->references[i];
    best[i] = (struct told){m->model, m->samples_per_s, m->ratio, m->training};
    reference[i] = (struct told){ref->model, ref->samples_per_s, 1, ref->training};
  }
  bool good = tell_step(best, a->n_models, t->datasets) && tell_detail(detail, t->datasets) &&
              tell_robustness(r, t->datasets);
  json_decref(detail);
  t->search = json_pack("{s:o,s:o,s:o,s:o,s:o}", "best", best_json(r, best), "robustness",
                        robustness_json(r->robustness), "reference", reference_json(r, reference),
                        "certificate", certificate_json(&a->certificate), "inputs", inputs_json(r));
  return pz_report_check(t, good && t->search);
}
