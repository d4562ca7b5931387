/* Section of a report: how a cluster of the best chip trains each model, with the plan, its
 * pipeline stages and their memory, and the parts of the step time. */
#include "report/plan_table.h"
#include "report/report_data.h"

/* Adds a row for each model, for each part of its step time, and for each pipeline stage. */
void pz_report_plans(struct pz_call *call, struct pz_report *report) {
  const struct pz_result *result = report->result;
  const struct pz_answer *best = pz_result_best(result);
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
  for (uint32_t i = 0; i < best->n_models; i++) {
    const struct pz_answer_model *model = &best->models[i];
    const struct pz_partition *plan = model->plan;
    const struct pz_result_reference *reference = &result->references[i];
    pz_dataset_add(call, models, "[s,I,f,o,f,f,b,I,I,I,I,b,f,f,f,I,f,I,f,I]", model->model,
                   (json_int_t)result->inputs.models[i].seq, model->samples_per_s,
                   pz_dataset_real(model->ratio), reference->samples_per_s, reference->hbm_gib,
                   reference->expert, (json_int_t)plan->pp, (json_int_t)plan->dp,
                   (json_int_t)plan->tp, (json_int_t)plan->mbs, plan->recompute, plan->step_s,
                   plan->slowest_stage_s, plan->parts.exchange_s, (json_int_t)plan->microbatches,
                   plan->flop_utilisation, (json_int_t)plan->devices_used, plan->hbm_bytes,
                   (json_int_t)plan->batch);
    const struct {
      const char *name;
      double seconds;
    } list[] = {{"compute", plan->parts.compute_s},
                {"tensor-parallel collectives", plan->parts.collectives_s},
                {"transfers between stages", plan->parts.transfers_s},
                {"pipeline bubble", plan->parts.bubble_s},
                {"gradient all-reduce", plan->parts.exchange_s}};
    for (size_t k = 0; k < sizeof list / sizeof *list; k++)
      pz_dataset_add(call, parts, "[s,s,f,f]", model->model, list[k].name, list[k].seconds,
                     list[k].seconds / plan->step_s);
    for (uint32_t k = 0; k < plan->pp; k++) {
      const struct pz_partition_stage *stage = &plan->stages[k];
      char layers[256];
      pz_dataset_add(call, stages, "[s,I,s,I,f,f,f,f,f,f,f,f,f]", model->model, (json_int_t)k + 1,
                     pz_partition_stage_text(stage, layers, sizeof layers),
                     (json_int_t)stage->devices, stage->forward_s, stage->backward_s, stage->load_s,
                     stage->param_bytes, stage->optimizer_bytes, stage->activation_bytes,
                     stage->in_flight_bytes, stage->memory_bytes, plan->hbm_bytes);
    }
  }
}
