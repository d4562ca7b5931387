/* How the common chip runs the layers of each model: every operator with its cores and times. */
#include "report/report_data.h"
#include "schedule/model/use.h"

struct telling {
  struct pz_story *t;
  json_t *layers, *operators; /* rows */
  const char *model;
};

static bool tell_layer(const struct telling *x, const struct pz_scheduled *s) {
  static const char *const names[] = {"forward", "backward"};
  const struct pz_schedule *d = &s->schedule;
  double share[PZ_RESOURCES];
  pz_schedule_use(&s->problem, d->slots, d->makespan, share);
  bool good = pz_dataset_row(
      x->layers,
      json_pack("[s,s,I,s,f,f,b,f,f,f,f,f]", x->model, s->layer, (json_int_t)s->count,
                names[s->direction], d->makespan * s->to_us, d->lower_bound * s->to_us,
                d->outcome == PZ_OUTCOME_OPTIMAL, share[PZ_TENSOR_CORES], share[PZ_VECTOR_CORES],
                share[PZ_LINK], share[PZ_HBM_RATE], share[PZ_GLB_RATE]));
  for (uint32_t i = 0; i < s->problem.n && good; i++) {
    const struct pz_task *task = &s->problem.tasks[i];
    const struct pz_slot *slot = &d->slots[i];
    if (task->op_class == PZ_CLASS_NONE) continue;
    good = pz_dataset_row(x->operators,
                          json_pack("[s,s,s,s,s,I,I,f,f]", x->model, s->layer, names[s->direction],
                                    task->name, pz_op_class_name(task->op_class),
                                    (json_int_t)pz_task_use(task, slot->mode, PZ_TENSOR_CORES),
                                    (json_int_t)pz_task_use(task, slot->mode, PZ_VECTOR_CORES),
                                    slot->start * s->to_us, slot->end * s->to_us));
  }
  return good;
}

static enum pz_status tell_model(struct telling *x, uint32_t m) {
  struct pz_story *t = x->t;
  struct pz_study *s = t->study;
  const struct pz_objective_run *c = pz_story_common(t);
  struct pz_evaluator *e = pz_search_evaluator(s->search);
  const struct pz_evaluation *most = pz_story_kept(t, c->best, m);
  struct pz_evaluation v;
  if (!most) return pz_fail(t->err, PZ_BAD_INPUT, "the run does not have its best chip's plans");
  enum pz_status status =
      pz_evaluate(e, &s->points[c->best], m, c->hbm_gib, most->effort, &v, t->err);
  const struct pz_workload *w = s->portfolio.variants[status == PZ_OK ? v.plan.variant : 0].w;
  x->model = s->portfolio.models[m];
  for (uint32_t i = 0; i < w->n_layers && status == PZ_OK; i++)
    for (enum pz_direction d = PZ_FORWARD; d <= PZ_BACKWARD && status == PZ_OK; d++) {
      struct pz_scheduled one;
      status = pz_story_schedule(e, &w->layers[i], d, most->effort, &t->arena, &one, t->err);
      if (status == PZ_OK) status = pz_story_check(t, tell_layer(x, &one));
    }
  return status;
}

enum pz_status pz_story_schedules(struct pz_story *t) {
  struct telling x = {.t = t};
  x.layers = pz_dataset_add(t->datasets, "layers",
                            "model,layer,count,direction,makespan_us,bound_us,optimal,tensor_use,"
                            "vector_use,link_use,hbm_use,glb_use");
  x.operators = pz_dataset_add(
      t->datasets, "operators",
      "model,layer,direction,operator,class,tensor_cores,vector_cores,start_us,end_us");
  enum pz_status status = pz_story_check(t, x.layers && x.operators);
  for (uint32_t m = 0; m < t->study->portfolio.n_models && status == PZ_OK; m++)
    status = tell_model(&x, m);
  return status;
}
