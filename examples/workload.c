/* Builds the operator graphs of a model and prints each operator's share of the forward FLOP; without a model, the names of
 * what is built in.
 *
 *     cc examples/workload.c $(pkg-config --cflags --libs phaze) -o workload
 *     ./workload gpt2-xl
 */
#include <inttypes.h>
#include <phaze/phaze.h>
#include <stdio.h>

static void list(const char *what, const char *(*name_at)(size_t)) {
  const char *name;
  printf("%s:", what);
  for (size_t i = 0; (name = name_at(i)); i++) printf(" %s", name);
  printf("\n");
}

static int list_all(void) {
  list("models", pz_preset_name);
  list("chips", pz_chip_preset_name);
  list("clusters", pz_cluster_preset_name);
  list("spaces", pz_space_preset_name);
  return 0;
}

int main(int argc, char **argv) {
  struct pz_error err = {0};
  if (argc < 2) return list_all();
  struct pz_workload_options options = pz_workload_options_default();
  struct pz_workload *w = NULL;
  if (pz_workload_load(argv[1], &options, &w, &err) != PZ_OK) {
    fprintf(stderr, "%s\n", err.message);
    return 2;
  }
  printf("%s: %" PRId64 " parameters\n", w->model, w->totals.params);
  for (uint32_t l = 0; l < w->n_layers; l++) {
    const struct pz_layer *layer = &w->layers[l];
    for (uint32_t i = 0; i < layer->ops[PZ_FORWARD].n; i++) {
      const struct pz_op *op = &layer->ops[PZ_FORWARD].op[i];
      double share = (double)op->flop * (double)layer->count / (double)w->totals.forward_flop;
      printf("%5.1f%%  %s / %s\n", 100 * share, layer->name, op->name);
    }
  }
  char *dot = NULL; /* the graph for Graphviz */
  if (pz_workload_text(w, PZ_WORKLOAD_DOT, &dot, &err) == PZ_OK) printf("%.8s ...\n", dot);
  pz_text_free(dot);
  pz_workload_free(w);
  return 0;
}
