/* How a cluster of the common chip trains each model: the plan, its stages and their memory, what
 * a step is made of. */
#include <math.h>

#include "place/cost.h"
#include "report/plan_table.h"
#include "report/report_data.h"

struct winner {
  struct pz_story *t;
  json_t *models, *stages, *parts; /* rows */
};

static bool tell_model(const struct winner *w, uint32_t m, const struct pz_evaluation *v,
                       const struct pz_planned *p) {
  const struct pz_study *s = w->t->study;
  const struct pz_reference *ref = &s->reference[m];
  double rate = (double)s->o.batch / v->time_s;
  int64_t rounds = (p->model->p.microbatches + p->plan->d - 1) / p->plan->d;
  return pz_dataset_row(
      w->models,
      json_pack("[s,I,f,o,f,f,b,I,I,I,I,b,f,f,f,I,f,I,f,I]", s->portfolio.models[m],
                (json_int_t)s->portfolio.seq[m], rate,
                ref->samples_per_s > 0 ? json_real(rate / ref->samples_per_s) : json_null(),
                ref->samples_per_s, ref->hbm_gib, ref->expert, (json_int_t)p->plan->n_stages,
                (json_int_t)p->plan->d, (json_int_t)p->model->p.widths[0].t,
                (json_int_t)p->model->mbs, p->recompute, p->plan->time_s, p->plan->maxload_s,
                p->plan->resync_s, (json_int_t)rounds, pz_planned_flop_part(p),
                (json_int_t)pz_planned_devices(p), p->model->p.hbm_bytes, (json_int_t)s->o.batch));
}

static bool tell_parts(const struct winner *w, const char *model, const struct pz_planned *p) {
  struct pz_step_parts s = pz_planned_parts(p);
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
                                            list[i].s / p->plan->time_s)))
      return false;
  return true;
}

/* memory = state P + A + (i - 1) K, with the parameters and what else is held for them apart. */
static bool tell_stage(const struct winner *w, const char *model, const struct pz_planned *p,
                       const struct pz_stage_sum *sum, uint32_t k) {
  const struct pz_place_problem *q = &p->model->p;
  const struct pz_stage *s = &p->plan->stages[k];
  uint32_t from_end = p->plan->n_stages - k;
  double kept = q->recompute ? sum->in_bytes : sum->act_bytes;
  double backward_s = q->recompute && from_end > 1 ? sum->recompute_s : sum->backward_s;
  char text[256];
  return pz_dataset_row(w->stages,
                        json_pack("[s,I,s,I,f,f,f,f,f,f,f,f,f]", model, (json_int_t)k + 1,
                                  pz_planned_stage(p, s, text, sizeof text), (json_int_t)s->devices,
                                  sum->forward_s, backward_s, s->load_s, sum->param_bytes,
                                  (q->state - 1) * sum->param_bytes, sum->act_bytes,
                                  (from_end - 1) * kept, s->memory_bytes, q->hbm_bytes));
}

static bool tell_stages(const struct winner *w, const char *model, const struct pz_planned *p) {
  const struct pz_place_width *width = &p->model->p.widths[p->plan->width];
  uint32_t *stage = pz_arena_alloc(&w->t->arena, width->n, sizeof *stage);
  if (!stage) return false;
  for (uint32_t k = 0; k < p->plan->n_stages; k++)
    for (uint32_t i = 0; i < p->plan->stages[k].n; i++) stage[p->plan->stages[k].layers[i]] = k;
  for (uint32_t k = 0; k < p->plan->n_stages; k++) {
    struct pz_stage_sum sum = pz_stage_sum(&p->model->p, width, stage, k);
    if (!tell_stage(w, model, p, &sum, k)) return false;
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
  struct pz_place_model made;
  struct pz_plan plan;
  struct pz_chip chip;
  if (!most) return pz_fail(t->err, PZ_BAD_INPUT, "the run does not have its best chip's plans");
  pz_study_chip(s, c, &chip);
  enum pz_status status =
      pz_evaluate(e, &s->points[c->best], m, c->hbm_gib, most->effort, &v, t->err);
  if (status == PZ_OK)
    status = pz_evaluation_plan(e, &chip, c->hbm_gib, &v, &t->arena, &made, &plan, t->err);
  if (status != PZ_OK) return status;
  struct pz_planned p = {&made, &plan, v.plan.recompute, s->o.batch,
                         pz_chip_tensor_flop_per_s(&chip)};
  const char *name = s->portfolio.models[m];
  return pz_story_check(t, tell_model(w, m, &v, &p) && tell_parts(w, name, &p) &&
                               tell_stages(w, name, &p));
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
