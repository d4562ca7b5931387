/* The mapper beside the published one: the same products on the same chips, our latency over its;
 * and the products of real layers on tpuv4 and h200.  On stderr the time of a mapping (best of a
 * few), beside that of the published mapper. */
#include <stdio.h>
#include <stdlib.h>

#include "core/progress.h"
#include "cost/mapper.h"
#include "unit/published.h"

enum { REPEAT = 20 };

/* Best of a few: microseconds of one call. */
static double microseconds(const struct pz_product *p, const struct pz_chip *c,
                           struct pz_mapping *o) {
  double best = 1e9;
  for (int i = 0; i < REPEAT; i++) {
    double start = pz_clock_s();
    if (pz_map_product(p, c, o, NULL) != PZ_OK) exit(1);
    double took = pz_clock_s() - start;
    best = took < best ? took : best;
  }
  return best * 1e6;
}

static void published(const char *path) {
  FILE *f = fopen(path, "r");
  char head[512];
  struct pz_published r;
  double us = 0, theirs_s = 0, ratio = 0, worst = 0;
  int n = 0;
  if (!f || !fgets(head, sizeof head, f)) exit(1);
  for (; pz_published_read(f, &r); n++) {
    struct pz_mapping o;
    us += microseconds(&r.product, &r.chip, &o);
    theirs_s += r.wall_s;
    double q = o.latency_s * r.chip.clock_hz / r.cycles;
    ratio += q;
    worst = q > worst ? q : worst;
  }
  fclose(f);
  printf("published rows,%d,%.3f,%.3f\n", n, ratio / n, worst);
  fprintf(stderr, "published rows: %.2f us each, published %.4f s, %.0f times as fast\n", us / n,
          theirs_s / n, theirs_s / (us * 1e-6));
}

/* Products of all operators of a model, forward and backward. */
static void model(const char *name, const char *chip_name) {
  struct pz_workload_options opt = pz_workload_options_default();
  struct pz_workload *w = NULL;
  struct pz_chip chip;
  double us = 0;
  int n = 0;
  if (pz_workload_load(name, &opt, &w, NULL) != PZ_OK ||
      pz_chip_load(chip_name, &chip, NULL) != PZ_OK)
    exit(1);
  for (uint32_t l = 0; l < w->n_layers; l++)
    for (int d = 0; d < 2; d++)
      for (uint32_t i = 0; i < w->layers[l].ops[d].n; i++) {
        const struct pz_dims *s = &w->layers[l].ops[d].op[i].dims;
        struct pz_product p = {s->batch, s->m, s->n, s->k, false};
        struct pz_mapping o;
        if (!w->layers[l].ops[d].op[i].matmul_flop) continue;
        us += microseconds(&p, &chip, &o);
        n++;
      }
  printf("%s on %s,%d,,\n", name, chip_name, n);
  fprintf(stderr, "%s on %s: %.2f us each\n", name, chip_name, us / n);
  pz_workload_free(w);
}

int main(int argc, char **argv) {
  printf("what,products,mean_latency_ratio,worst_latency_ratio\n");
  published(argc > 1 ? argv[1] : "tests/data/published_mapper.csv");
  static const char *const models[] = {"bert-large", "gpt2-xl", "llama2-7b", "gpt3-175b"};
  static const char *const chips[] = {"tpuv4", "h200"};
  for (int c = 0; c < 2; c++)
    for (int m = 0; m < 4; m++) model(models[m], chips[c]);
  return 0;
}
