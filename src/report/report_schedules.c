/* Section of a report: how the best chip executes the layers of each model, with the cores, the shares of the rates and the
 * times of every operator. */
#include "report/report_data.h"

void pz_report_schedules(struct pz_call *call, struct pz_report *report) {
  static const char *const direction_names[] = {"forward", "backward"};
  const struct pz_result_detail *d = report->result->detail;
  if (!d->n_schedules) return; /* operators run one after another */
  json_t *layers = pz_dataset_new(
      call, report->datasets, "layers",
      "model,layer,count,direction,makespan_us,bound_us,serial_us,optimal,tensor_use,"
      "vector_use,link_use,hbm_use,glb_use,power_use");
  json_t *operators = pz_dataset_new(call, report->datasets, "operators",
                                     "model,layer,direction,operator,class,tensor_cores,vector_"
                                     "cores,start_us,end_us,link,hbm,glb,power");
  for (uint32_t i = 0; i < d->n_schedules; i++) {
    const struct pz_layer_schedule *s = &d->schedules[i];
    const char *direction = direction_names[s->direction];
    pz_dataset_append(call, layers,
                      json_pack("[s,s,I,s,f,f,f,b,f,f,f,f,f,f]", s->model, s->layer,
                                (json_int_t)s->count, direction, s->makespan_s * 1e6,
                                s->lower_bound_s * 1e6, s->serial_s * 1e6, s->optimal,
                                s->use[PZ_TENSOR_CORES], s->use[PZ_VECTOR_CORES], s->use[PZ_LINK],
                                s->use[PZ_HBM_RATE], s->use[PZ_GLB_RATE], s->use[PZ_POWER]));
    for (uint32_t k = 0; k < s->n_operators; k++) {
      const struct pz_scheduled_operator *o = &s->operators[k];
      pz_dataset_append(call, operators,
                        json_pack("[s,s,s,s,s,I,I,f,f,f,f,f,f]", s->model, s->layer, direction,
                                  o->name, pz_op_class_name(o->op_class),
                                  (json_int_t)o->tensor_cores, (json_int_t)o->vector_cores,
                                  o->start_s * 1e6, o->end_s * 1e6, o->used[PZ_LINK],
                                  o->used[PZ_HBM_RATE], o->used[PZ_GLB_RATE], o->used[PZ_POWER]));
    }
  }
}
