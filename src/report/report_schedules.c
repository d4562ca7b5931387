/* How the common chip runs the layers of each model: every operator with its cores, shares of the rates, and times. */
#include "report/report_data.h"

static bool tell_layer(const struct pz_layer_schedule *s, json_t *layers, json_t *operators) {
  static const char *const names[] = {"forward", "backward"};
  const char *direction = names[s->direction];
  bool good = pz_dataset_row(
      layers,
      json_pack("[s,s,I,s,f,f,f,b,f,f,f,f,f,f]", s->model, s->layer, (json_int_t)s->count,
                direction, s->makespan_s * 1e6, s->lower_bound_s * 1e6, s->serial_s * 1e6,
                s->optimal, s->use[PZ_TENSOR_CORES], s->use[PZ_VECTOR_CORES], s->use[PZ_LINK],
                s->use[PZ_HBM_RATE], s->use[PZ_GLB_RATE], s->use[PZ_POWER]));
  for (uint32_t i = 0; i < s->n_operators && good; i++) {
    const struct pz_scheduled_operator *o = &s->operators[i];
    good = pz_dataset_row(operators,
                          json_pack("[s,s,s,s,s,I,I,f,f,f,f,f,f]", s->model, s->layer, direction,
                                    o->name, pz_op_class_name(o->op_class),
                                    (json_int_t)o->tensor_cores, (json_int_t)o->vector_cores,
                                    o->start_s * 1e6, o->end_s * 1e6, o->used[PZ_LINK],
                                    o->used[PZ_HBM_RATE], o->used[PZ_GLB_RATE], o->used[PZ_POWER]));
  }
  return good;
}

enum pz_status pz_report_schedules(struct pz_report *t) {
  const struct pz_result_detail *d = t->result->detail;
  if (!d->n_schedules) return PZ_OK; /* operators run one after another */
  json_t *layers = pz_dataset_add(
      t->datasets, "layers",
      "model,layer,count,direction,makespan_us,bound_us,serial_us,optimal,tensor_use,"
      "vector_use,link_use,hbm_use,glb_use,power_use");
  json_t *operators = pz_dataset_add(t->datasets, "operators",
                                     "model,layer,direction,operator,class,tensor_cores,vector_"
                                     "cores,start_us,end_us,link,hbm,glb,power");
  bool good = layers && operators;
  for (uint32_t i = 0; i < d->n_schedules && good; i++)
    good = tell_layer(&d->schedules[i], layers, operators);
  return pz_report_check(t, good);
}
