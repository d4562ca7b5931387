/* Prints the schedules of phaze schedule: pz_schedule_view_json() as JSON, pz_schedule_view_print() as a table with the
 * model or plan above it, and as Gantt charts if they are asked for.  An instance has one schedule and no table. */
#include "cli/schedule_view.h"

#include <inttypes.h>

#include "cli/workload_options.h"
#include "report/gantt.h"

/* ---- JSON ----------------------------------------------------------------------------------- */

static json_t *totals_json(const struct pz_schedule_view *v) {
  double sum_s[2] = {0}; /* of each direction */
  for (uint32_t i = 0; i < v->n; i++)
    sum_s[v->list[i]->direction] += v->list[i]->makespan_s * (double)v->list[i]->count;
  return json_pack("{s:f,s:f}", "forward_s", sum_s[PZ_FORWARD], "backward_s", sum_s[PZ_BACKWARD]);
}

static double solving_s(const struct pz_schedule_view *v, uint32_t i) {
  return v->seconds ? v->seconds[i] : -1;
}

json_t *pz_schedule_view_json(const struct pz_schedule_view *v) {
  if (!v->model) return pz_scheduled_json(v->list[0], solving_s(v, 0));
  json_t *layers = json_array();
  for (uint32_t i = 0; i < v->n; i++)
    json_array_append_new(layers, pz_scheduled_json(v->list[i], solving_s(v, i)));
  json_t *root = json_pack("{s:s,s:s}", "model", v->model, "chip", v->chip);
  if (v->passes) {
    json_object_set_new(root, "cluster", v->cluster ? json_string(v->cluster) : json_null());
    json_object_set_new(root, "plan", pz_scheduled_plan_json(v->passes));
    json_object_set_new(root, "microbatches", json_integer((json_int_t)v->passes->microbatches));
  } else {
    json_object_set_new(root, "modes", json_string(pz_modes_names[v->how->modes]));
  }
  if (v->how->modes == PZ_MODES_TWO)
    json_object_set_new(root, "exclusive", json_string(pz_exclusive_names[v->how->exclusive]));
  json_object_set_new(root, "layers", layers);
  if (v->whole) json_object_set_new(root, "totals", totals_json(v));
  return root;
}

/* ---- text ----------------------------------------------------------------------------------- */

static void print_instance(struct pz_call *call, const struct pz_layer_schedule *s) {
  char gap[16];
  printf("makespan %.9g, ", s->makespan_s);
  if (s->optimal)
    printf("optimal\n");
  else
    printf("gap at most %s (lower bound %.9g)\n",
           pz_scheduled_gap_text(pz_scheduled_gap(s), false, gap), s->lower_bound_s);
  if (s->makespan_s > 0)
    printf(
        "utilisation: tensor cores %.0f%%, vector cores %.0f%%; speedup over sequential execution "
        "%.2fx\n\n",
        100 * s->use[PZ_TENSOR_CORES], 100 * s->use[PZ_VECTOR_CORES], s->serial_s / s->makespan_s);
  else
    printf("no operator takes time\n\n");
  pz_must(call, pz_gantt_print(s, call->arena, stdout));
}

static void print_charts(struct pz_call *call, const struct pz_schedule_view *v) {
  char title[256];
  static const char *const modes[] = {"mode: number of tensor (t) and vector (v) cores",
                                      "mode: number of tensor (t) and vector (v) cores",
                                      "mode: one core of its type (single), or all (intra)"};
  printf("\n%s\nbars: # tensor cores, = vector cores only, ~ collectives; times in us\n",
         modes[v->how->modes]);
  for (uint32_t i = 0; i < v->n; i++) {
    printf("\n%s\n", pz_scheduled_title(v->list[i], title));
    pz_must(call, pz_gantt_print(v->list[i], call->arena, stdout));
  }
}

static void print_workload(const struct pz_schedule_view *v) {
  const struct pz_workload_options *o = &v->workload->options;
  char context[64];
  printf("%s on %s: sequence %" PRId64 ", microbatch %" PRId64 ", tensor parallel %" PRId64 "%s",
         v->model, v->chip, o->seq, o->mbs, o->tp, pz_workload_context(o, context, sizeof context));
  if (v->how->modes != PZ_MODES_ALL) printf(", modes %s", pz_modes_names[v->how->modes]);
  if (v->how->modes == PZ_MODES_TWO)
    printf(", exclusive %s", pz_exclusive_names[v->how->exclusive]);
  printf("\n\n");
}

static void print_plan(const struct pz_schedule_view *v) {
  const struct pz_plan *p = &v->passes->plan;
  char line[PZ_PLAN_LINE_MOST];
  printf("%s on %" PRId64 " x %s%s%s\n%s\n", v->model, p->devices, v->chip,
         v->cluster ? " in " : "", v->cluster ? v->cluster : "",
         pz_plan_line(p, true, line, sizeof line));
  printf("sequence %" PRId64 ", microbatch %" PRId64 "; a step runs each pass %" PRId64
         " times on each replica\n\n",
         p->seq, p->mbs, v->passes->microbatches);
}

void pz_schedule_view_print(struct pz_call *call, const struct pz_schedule_view *v) {
  if (!v->model) {
    print_instance(call, v->list[0]);
    return;
  }
  if (v->passes)
    print_plan(v);
  else
    print_workload(v);
  pz_must(call, pz_scheduled_table(v->list, v->n, v->whole, call->arena, stdout));
  fputs(v->passes
            ? "\nus: makespan; bound: proven lower bound; gap: (us - bound) / us; %: utilisation "
              "over "
              "the\nmakespan; speedup: over operators one after another (execution serial)\n"
            : "\nus: makespan; bound: proven lower bound; gap: (us - bound) / us; tensor .. glb: "
              "utilisation\nover the makespan; speedup: over sequential execution, each operator "
              "in its "
              "fastest mode\n",
        stdout);
  if (v->charts) print_charts(call, v);
}
