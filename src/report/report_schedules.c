/* Section of a report: how the best chip executes the layers of each model, with the cores, the
 * shares of the rates and the times of every operator. */
#include "report/report_data.h"

/* Adds a row for each scheduled layer and pass, and for each of its operators. */
void pz_report_schedules(struct pz_call *call, struct pz_report *report) {
  static const char *const direction_names[] = {"forward", "backward"};
  const struct pz_result_detail *detail = report->result->detail;
  if (!detail->n_schedules) return; /* no schedules exist if operators run one after another */
  json_t *layers = pz_dataset_new(
      call, report->datasets, "layers",
      "model,layer,count,direction,makespan_us,bound_us,serial_us,optimal,tensor_use,"
      "vector_use,link_use,hbm_use,glb_use,power_use");
  json_t *operators = pz_dataset_new(call, report->datasets, "operators",
                                     "model,layer,direction,operator,class,tensor_cores,vector_"
                                     "cores,start_us,end_us,link,hbm,glb,power");
  for (uint32_t i = 0; i < detail->n_schedules; i++) {
    const struct pz_layer_schedule *schedule = &detail->schedules[i];
    const char *direction = direction_names[schedule->direction];
    const double *use = schedule->use;
    pz_dataset_add(call, layers, "[s,s,I,s,f,f,f,b,f,f,f,f,f,f]", schedule->model, schedule->layer,
                   (json_int_t)schedule->count, direction, schedule->makespan_s * 1e6,
                   schedule->lower_bound_s * 1e6, schedule->serial_s * 1e6, schedule->optimal,
                   use[PZ_TENSOR_CORES], use[PZ_VECTOR_CORES], use[PZ_LINK], use[PZ_HBM_RATE],
                   use[PZ_GLB_RATE], use[PZ_POWER]);
    for (uint32_t k = 0; k < schedule->n_operators; k++) {
      const struct pz_scheduled_operator *op = &schedule->operators[k];
      pz_dataset_add(call, operators, "[s,s,s,s,s,I,I,f,f,f,f,f,f]", schedule->model,
                     schedule->layer, direction, op->name, pz_op_class_name(op->op_class),
                     (json_int_t)op->tensor_cores, (json_int_t)op->vector_cores, op->start_s * 1e6,
                     op->end_s * 1e6, op->used[PZ_LINK], op->used[PZ_HBM_RATE],
                     op->used[PZ_GLB_RATE], op->used[PZ_POWER]);
    }
  }
}
