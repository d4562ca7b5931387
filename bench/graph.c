/* The graphs of every preset: operators in the distinct layers.  On stderr the time to build them
 * (best of many), and its ratio to gpt2's in the same run. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/progress.h"

static double best_seconds(const char *model, const struct pz_workload_options *o, uint32_t *ops) {
  double best = 1e9;
  for (int round = 0; round < 200; round++) {
    struct pz_workload *w = NULL;
    double start = pz_clock_s();
    if (pz_workload_load(model, o, &w, NULL) != PZ_OK) exit(1);
    double took = pz_clock_s() - start;
    best = took < best ? took : best;
    *ops = 0;
    for (uint32_t l = 0; l < w->n_layers; l++)
      *ops += w->layers[l].ops[0].n + w->layers[l].ops[1].n;
    pz_workload_free(w);
  }
  return best;
}

int main(void) {
  struct pz_workload_options o = pz_workload_options_default();
  uint32_t ops;
  double unit = best_seconds("gpt2", &o, &ops);
  printf("model,kernels,operators\n");
  for (int eager = 0; eager < 2; eager++)
    for (size_t i = 0; pz_preset_name(i); i++) {
      o.kernels = eager ? PZ_KERNELS_EAGER : PZ_KERNELS_FUSED;
      double s = best_seconds(pz_preset_name(i), &o, &ops);
      const char *kernels = eager ? "eager" : "fused";
      printf("%s,%s,%" PRIu32 "\n", pz_preset_name(i), kernels, ops);
      fprintf(stderr, "%-24s %s %8.1f us, %.2f of gpt2\n", pz_preset_name(i), kernels, 1e6 * s,
              s / unit);
    }
  return 0;
}
