/* Section of a report: how a cluster of the best chip trains each model, with the plan, its pipeline stages and their memory,
 * and the parts of the step time. */
#include "report/plan_table.h"
#include "report/report_data.h"

static void append_step_parts(struct pz_call *call, json_t *rows, const struct pz_answer_model *a) {
  const struct pz_step_parts *parts = &a->plan->parts;
  const struct {
    const char *name;
    double seconds;
  } list[] = {{"compute", parts->compute_s},
              {"tensor-parallel collectives", parts->collectives_s},
              {"transfers between stages", parts->transfers_s},
              {"pipeline bubble", parts->bubble_s},
              {"gradient all-reduce", parts->exchange_s}};
  for (size_t i = 0; i < sizeof list / sizeof *list; i++)
    pz_dataset_append(call, rows,
                      json_pack("[s,s,f,f]", a->model, list[i].name, list[i].seconds,
                                list[i].seconds / a->plan->step_s));
}

static void append_stages(struct pz_call *call, json_t *rows, const struct pz_answer_model *a) {
  const struct pz_partition *p = a->plan;
  for (uint32_t k = 0; k < p->pp; k++) {
    const struct pz_partition_stage *s = &p->stages[k];
    char layers[256];
    pz_dataset_append(call, rows,
                      json_pack("[s,I,s,I,f,f,f,f,f,f,f,f,f]", a->model, (json_int_t)k + 1,
                                pz_partition_stage_text(s, layers, sizeof layers),
                                (json_int_t)s->devices, s->forward_s, s->backward_s, s->load_s,
                                s->param_bytes, s->optimizer_bytes, s->activation_bytes,
                                s->in_flight_bytes, s->memory_bytes, p->hbm_bytes));
  }
}

void pz_report_plans(struct pz_call *call, struct pz_report *report) {
  const struct pz_answer *best = pz_result_best(report->result);
  json_t *models = pz_dataset_new(
      call, report->datasets, "models",
      "model,seq,samples_per_s,ratio,reference_samples_per_s,reference_hbm_gib,reference_expert,"
      "stages,replicas,tensor_parallel,microbatch,recompute,step_s,slot_s,exchange_s,rounds,of_"
      "peak,devices,hbm_bytes,batch");
  json_t *parts = pz_dataset_new(call, report->datasets, "step", "model,part,seconds,share");
  json_t *stages = pz_dataset_new(
      call, report->datasets, "stages",
      "model,stage,layers,devices,forward_s,backward_s,load_s,parameter_bytes,gradient_and_"
      "optimizer_bytes,activation_bytes,in_flight_bytes,memory_bytes,hbm_bytes");
  for (uint32_t m = 0; m < best->n_models; m++) {
    const struct pz_answer_model *a = &best->models[m];
    const struct pz_partition *p = a->plan;
    const struct pz_result_reference *ref = &report->result->references[m];
    pz_dataset_append(call, models,
                      json_pack("[s,I,f,o,f,f,b,I,I,I,I,b,f,f,f,I,f,I,f,I]", a->model,
                                (json_int_t)report->result->inputs.models[m].seq, a->samples_per_s,
                                pz_report_ratio(a->ratio), ref->samples_per_s, ref->hbm_gib,
                                ref->expert, (json_int_t)p->pp, (json_int_t)p->dp,
                                (json_int_t)p->tp, (json_int_t)p->mbs, p->recompute, p->step_s,
                                p->slowest_stage_s, p->parts.exchange_s,
                                (json_int_t)p->microbatches, p->flop_utilisation,
                                (json_int_t)p->devices_used, p->hbm_bytes, (json_int_t)p->batch));
    append_step_parts(call, parts, a);
    append_stages(call, stages, a);
  }
}
