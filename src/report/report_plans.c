/* How a cluster of the common chip trains each model: the plan, its stages and their memory, what
 * a step is made of. */
#include "report/plan_table.h"
#include "report/report_data.h"

struct rows {
  json_t *models, *stages, *parts;
};

static bool tell_model(const struct rows *w, const struct pz_result *r, uint32_t m) {
  const struct pz_answer_model *a = &pz_result_best(r)->models[m];
  const struct pz_partition *p = a->plan;
  const struct pz_result_reference *ref = &r->references[m];
  return pz_dataset_row(
      w->models,
      json_pack("[s,I,f,o,f,f,b,I,I,I,I,b,f,f,f,I,f,I,f,I]", a->model,
                (json_int_t)r->inputs.models[m].seq, a->samples_per_s, pz_report_ratio(a->ratio),
                ref->samples_per_s, ref->hbm_gib, ref->expert, (json_int_t)p->pp, (json_int_t)p->dp,
                (json_int_t)p->tp, (json_int_t)p->mbs, p->recompute, p->step_s, p->slowest_stage_s,
                p->parts.exchange_s, (json_int_t)p->microbatches, p->flop_utilisation,
                (json_int_t)p->devices_used, p->hbm_bytes, (json_int_t)p->batch));
}

static bool tell_parts(const struct rows *w, const struct pz_answer_model *a) {
  const struct pz_step_parts *s = &a->plan->parts;
  const struct {
    const char *name;
    double s;
  } list[] = {{"compute", s->compute_s},
              {"tensor-parallel collectives", s->collectives_s},
              {"transfers between stages", s->transfers_s},
              {"pipeline bubble", s->bubble_s},
              {"gradient all-reduce", s->exchange_s}};
  for (size_t i = 0; i < sizeof list / sizeof *list; i++)
    if (!pz_dataset_row(w->parts, json_pack("[s,s,f,f]", a->model, list[i].name, list[i].s,
                                            list[i].s / a->plan->step_s)))
      return false;
  return true;
}

static bool tell_stages(const struct rows *w, const struct pz_answer_model *a) {
  const struct pz_partition *p = a->plan;
  for (uint32_t k = 0; k < p->pp; k++) {
    const struct pz_partition_stage *s = &p->stages[k];
    char text[256];
    if (!pz_dataset_row(w->stages,
                        json_pack("[s,I,s,I,f,f,f,f,f,f,f,f,f]", a->model, (json_int_t)k + 1,
                                  pz_partition_stage_text(s, text, sizeof text),
                                  (json_int_t)s->devices, s->forward_s, s->backward_s, s->load_s,
                                  s->param_bytes, s->optimizer_bytes, s->activation_bytes,
                                  s->in_flight_bytes, s->memory_bytes, p->hbm_bytes)))
      return false;
  }
  return true;
}

enum pz_status pz_report_plans(struct pz_report *t) {
  const struct pz_answer *best = pz_result_best(t->result);
  struct rows w;
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
  bool good = w.models && w.parts && w.stages;
  for (uint32_t m = 0; m < best->n_models && good; m++)
    good = tell_model(&w, t->result, m) && tell_parts(&w, &best->models[m]) &&
           tell_stages(&w, &best->models[m]);
  return pz_report_check(t, good);
}
