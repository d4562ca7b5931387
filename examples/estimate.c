/* Every operator of a model's repeated layer on a chip: its time, what limits it, and how the chip
 * runs them beside each other.
 *
 *     cc examples/estimate.c $(pkg-config --cflags --libs phaze) -o estimate
 *     ./estimate gpt2-xl h200
 */
#include <phaze/phaze.h>
#include <stdio.h>

static int fail(const struct pz_error *err) {
  fprintf(stderr, "%s\n", err->message);
  return 2;
}

/* The layer that occurs most often. */
static const struct pz_layer *repeated_layer(const struct pz_workload *w) {
  const struct pz_layer *most = w->layers;
  for (uint32_t i = 1; i < w->n_layers; i++)
    if (w->layers[i].count > most->count) most = &w->layers[i];
  return most;
}

static enum pz_status estimate(struct pz_cost *cost, const struct pz_layer *layer,
                               struct pz_error *err) {
  double sum_s = 0;
  for (uint32_t i = 0; i < layer->ops[PZ_FORWARD].n; i++) {
    const struct pz_op *op = &layer->ops[PZ_FORWARD].op[i];
    struct pz_estimate e;
    enum pz_status status = pz_cost_op(cost, op, &e, err);
    if (status != PZ_OK) return status;
    if (op->op_class == PZ_CLASS_NONE) continue;
    printf("%-24s %8.1f us  limited by %s\n", op->name, 1e6 * e.latency_s, pz_bound_name(e.bound));
    sum_s += e.latency_s;
  }
  printf("one after the other: %.1f us\n", 1e6 * sum_s);
  return PZ_OK;
}

static enum pz_status schedule(struct pz_cost *cost, const struct pz_layer *layer,
                               struct pz_error *err) {
  struct pz_layer_schedule *s = NULL;
  enum pz_status status = pz_schedule_layer(cost, layer, PZ_FORWARD, NULL, &s, err);
  if (status != PZ_OK) return status;
  printf("scheduled: %.1f us, %s; tensor cores busy %.0f%%, vector cores %.0f%%\n",
         1e6 * s->makespan_s, s->optimal ? "proven optimal" : "not proven optimal",
         100 * s->use[PZ_TENSOR_CORES], 100 * s->use[PZ_VECTOR_CORES]);
  pz_layer_schedule_free(s);
  return PZ_OK;
}

int main(int argc, char **argv) {
  struct pz_error err = {0};
  struct pz_workload_options options = pz_workload_options_default();
  struct pz_workload *w = NULL;
  struct pz_cost *cost = NULL;
  struct pz_chip *chip = NULL;
  enum pz_status status = pz_chip_load(argc > 2 ? argv[2] : "h200", &chip, &err);
  if (status == PZ_OK)
    status = pz_workload_load(argc > 1 ? argv[1] : "gpt2-xl", &options, &w, &err);
  if (status == PZ_OK) status = pz_cost_new(chip, NULL, &cost, &err);
  if (status == PZ_OK) {
    const struct pz_layer *layer = repeated_layer(w);
    printf("%s on %s: layer '%s', forward\n", w->model, pz_chip_name(chip), layer->name);
    status = estimate(cost, layer, &err);
    if (status == PZ_OK) status = schedule(cost, layer, &err);
  }
  pz_cost_free(cost);
  pz_workload_free(w);
  pz_chip_free(chip);
  return status == PZ_OK ? 0 : fail(&err);
}
