#include "cli/schedule_view.h"

#include <inttypes.h>

#include "cli/workload_options.h"
#include "report/gantt.h"
#include "schedule/model/schedule.h"

/* ---- JSON ----------------------------------------------------------------------------------- */

static json_t *totals_json(const struct pz_schedule_view *v) {
  double s[2] = {0};
  for (uint32_t i = 0; i < v->n; i++)
    s[v->list[i].direction] += v->list[i].schedule.makespan * (double)v->list[i].count;
  return json_pack("{s:f,s:f}", "forward_s", s[PZ_FORWARD], "backward_s", s[PZ_BACKWARD]);
}

json_t *pz_schedule_view_json(const struct pz_schedule_view *v) {
  if (!v->workload) return pz_scheduled_json(v->list);
  json_t *layers = json_array();
  for (uint32_t i = 0; i < v->n; i++) json_array_append_new(layers, pz_scheduled_json(&v->list[i]));
  json_t *root = json_pack("{s:s,s:s,s:s}", "model", v->workload->model, "chip", v->chip, "modes",
                           pz_modes_names[v->kind.modes]);
  if (v->kind.modes == PZ_MODES_TWO)
    json_object_set_new(root, "exclusive", json_string(pz_exclusive_names[v->kind.exclusive]));
  json_object_set_new(root, "layers", layers);
  if (v->whole) json_object_set_new(root, "totals", totals_json(v));
  return root;
}

/* ---- text ----------------------------------------------------------------------------------- */

static enum pz_status print_instance(const struct pz_scheduled *o, struct pz_arena *arena) {
  const struct pz_schedule *d = &o->schedule;
  double share[PZ_RESOURCES], serial = pz_problem_serial(&o->problem);
  char gap[16];
  printf("makespan %.9g, ", d->makespan);
  if (d->outcome == PZ_OUTCOME_OPTIMAL)
    printf("optimal\n");
  else
    printf("gap at most %s (lower bound %.9g)\n",
           pz_scheduled_gap_text(pz_scheduled_gap(o), false, gap), d->lower_bound);
  pz_schedule_use(&o->problem, d->slots, d->makespan, share);
  if (d->makespan > 0)
    printf(
        "utilisation: tensor cores %.0f%%, vector cores %.0f%%; speedup over sequential execution "
        "%.2fx\n\n",
        100 * share[PZ_TENSOR_CORES], 100 * share[PZ_VECTOR_CORES], serial / d->makespan);
  else
    printf("no operator takes time\n\n");
  return pz_gantt_print(o, arena, stdout);
}

static enum pz_status print_charts(const struct pz_schedule_view *v, struct pz_arena *arena) {
  enum pz_status status = PZ_OK;
  static const char *const modes[] = {"mode: number of tensor (t) and vector (v) cores",
                                      "mode: number of tensor (t) and vector (v) cores",
                                      "mode: one core of its type (single), or all (intra)"};
  printf("\n%s\nbars: # tensor cores, = vector cores only, ~ collectives; times in us\n",
         modes[v->kind.modes]);
  for (uint32_t i = 0; i < v->n && status == PZ_OK; i++) {
    printf("\n%s\n", v->list[i].title);
    status = pz_gantt_print(&v->list[i], arena, stdout);
  }
  return status;
}

enum pz_status pz_schedule_view_print(const struct pz_schedule_view *v, struct pz_arena *arena) {
  const struct pz_workload *w = v->workload;
  char context[64];
  if (!w) return print_instance(v->list, arena);
  printf("%s on %s: sequence %" PRId64 ", microbatch %" PRId64 ", tensor parallel %" PRId64 "%s",
         w->model, v->chip, w->options.seq, w->options.mbs, w->options.tp,
         pz_workload_context(&w->options, context, sizeof context));
  if (v->kind.modes != PZ_MODES_ALL) printf(", modes %s", pz_modes_names[v->kind.modes]);
  if (v->kind.modes == PZ_MODES_TWO)
    printf(", exclusive %s", pz_exclusive_names[v->kind.exclusive]);
  printf("\n\n");
  enum pz_status status = pz_scheduled_table(v->list, v->n, v->whole, arena, stdout);
  printf(
      "\nus: makespan; bound: proven lower bound; gap: (us - bound) / us; tensor .. glb: "
      "utilisation\n"
      "over the makespan; speedup: over sequential execution, each operator in its fastest mode\n");
  return status == PZ_OK && v->charts ? print_charts(v, arena) : status;
}
