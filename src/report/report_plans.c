/* How a cluster of the common chip trains each model: the plan, its stages and their memory, what
 * a step is made of. */
#include "report/plan_table.h"
#include "report/report_data.h"

struct winner {
  struct pz_story *t;
  json_t *models, *stages, *parts; /* rows */
};

static bool tell_model(const struct winner *w, uint32_t m, const struct pz_evaluation *v,
                       const struct pz_model_plan *p) {
  const struct pz_study *s = w->t->study;
  const struct pz_reference *ref = &s->reference[m];
  double rate = (double)s->o.batch / v->time_s;
  return pz_dataset_row(
      w->models,
      json_pack("[s,I,f,o,f,f,b,I,I,I,I,b,f,f,f,I,f,I,f,I]", s->portfolio.models[m],
                (json_int_t)s->portfolio.seq[m], rate,
                ref->samples_per_s > 0 ? json_real(rate / ref->samples_per_s) : json_null(),
                ref->samples_per_s, ref->hbm_gib, ref->expert, (json_int_t)p->n_stages,
                (json_int_t)p->data_parallel, (json_int_t)p->tensor_parallel,
                (json_int_t)p->microbatch_samples, p->recompute, p->step_s, p->slowest_stage_s,
                p->parts.exchange_s, (json_int_t)p->microbatches, p->flop_utilisation,
                (json_int_t)p->devices_used, p->hbm_bytes, (json_int_t)s->o.batch));
}

static bool tell_parts(const struct winner *w, const char *model, const struct pz_model_plan *p) {
  struct pz_step_parts s = p->parts;
  const struct {
    const char *name;
    double s;
  } list[] = {{"compute", s.compute_s},
              {"tensor-parallel collectives", s.collectives_s},
              {"transfers between stages", s.transfers_s},
              {"pipeline bubble", s.bubble_s},
              {"gradient all-reduce", s.exchange_s}};
  for (size_t i = 0; i < sizeof list / sizeof *list; i++)
    if (!pz_dataset_row(w->parts, json_pack("[s,s,f,f]", model, list[i].name, list[i].s,
                                            list[i].s / p->step_s)))
      return false;
  return true;
}

static bool tell_stages(const struct winner *w, const char *model, const struct pz_model_plan *p) {
  for (uint32_t k = 0; k < p->n_stages; k++) {
    const struct pz_plan_stage *s = &p->stages[k];
    char text[256];
    if (!pz_dataset_row(w->stages,
                        json_pack("[s,I,s,I,f,f,f,f,f,f,f,f,f]", model, (json_int_t)k + 1,
                                  pz_plan_stage_text(s, text, sizeof text), (json_int_t)s->devices,
                                  s->forward_s, s->backward_s, s->load_s, s->param_bytes,
                                  s->optimizer_bytes, s->activation_bytes, s->in_flight_bytes,
                                  s->memory_bytes, p->hbm_bytes)))
      return false;
  }
  return true;
}

static enum pz_status tell_plan(const struct winner *w, uint32_t m) {
  struct pz_story *t = w->t;
  struct pz_study *s = t->study;
  const struct pz_objective_run *c = pz_story_common(t);
  const struct pz_evaluation *most = pz_story_kept(t, c->best, m);
  struct pz_evaluator *e = pz_search_evaluator(s->search);
  struct pz_evaluation v;
  struct pz_model_plan plan;
  struct pz_chip chip;
  if (!most) return pz_fail(t->err, PZ_BAD_INPUT, "the run does not have its best chip's plans");
  pz_study_chip(s, c, &chip);
  enum pz_status status =
      pz_evaluate(e, &s->points[c->best], m, c->hbm_gib, most->effort, &v, t->err);
  if (status == PZ_OK)
    status = pz_evaluation_model_plan(e, &chip, c->hbm_gib, &v, &t->arena, &plan, t->err);
  if (status != PZ_OK) return status;
  const char *name = s->portfolio.models[m];
  return pz_story_check(t, tell_model(w, m, &v, &plan) && tell_parts(w, name, &plan) &&
                               tell_stages(w, name, &plan));
}

enum pz_status pz_story_winner(struct pz_story *t) {
  struct winner w = {.t = t};
  w.models = pz_dataset_add(
      t->datasets, "models",
      "model,seq,samples_per_s,ratio,reference_samples_per_s,reference_hbm_gib,reference_expert,"
      "stages,replicas,tensor_parallel,microbatch,recompute,step_s,slot_s,exchange_s,rounds,of_"
      "peak,devices,hbm_bytes,batch");
  w.parts = pz_dataset_add(t->datasets, "step", "model,part,seconds,share");
  w.stages = pz_dataset_add(
      t->datasets, "stages",
      "model,stage,layers,devices,forward_s,backward_s,load_s,parameter_bytes,gradient_and_"
      "optimizer_bytes,activation_bytes,in_flight_bytes,memory_bytes,hbm_bytes");
  enum pz_status status = pz_story_check(t, w.models && w.parts && w.stages);
  for (uint32_t m = 0; m < t->study->portfolio.n_models && status == PZ_OK; m++)
    status = tell_plan(&w, m);
  return status;
}
