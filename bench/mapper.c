/* The mapper beside the published one: the same products on the same chips, our latency over its;
 * the products of real layers on tpuv4 and h200; and those products on chips of the paper's space,
 * the latency of nested tiles over that of the relaxation.  On stderr the time of a mapping (best
 * of a few), beside that of the published mapper; a mapping is the best one of a product, not one
 * of the candidates that are compared for it. */
#include <stdio.h>
#include <stdlib.h>

#include "core/progress.h"
#include "cost/mapper.h"
#include "unit/chip_borders.h"
#include "unit/cost_borders.h"
#include "unit/published.h"

enum { REPEAT = 5 };

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
struct products {
  struct pz_product at[256];
  int n;
};

static struct products model_products(const char *name) {
  struct pz_workload_options opt = pz_workload_options_default();
  struct pz_workload *w = NULL;
  struct products list = {.n = 0};
  if (pz_workload_load(name, &opt, &w, NULL) != PZ_OK) exit(1);
  for (uint32_t l = 0; l < w->n_layers; l++)
    for (int d = 0; d < 2; d++)
      for (uint32_t i = 0; i < w->layers[l].ops[d].n; i++) {
        const struct pz_dims *s = &w->layers[l].ops[d].op[i].dims;
        if (!w->layers[l].ops[d].op[i].matmul_flop) continue;
        if (list.n == sizeof list.at / sizeof *list.at) exit(1);
        list.at[list.n++] = (struct pz_product){s->batch, s->m, s->n, s->k, false};
      }
  pz_workload_free(w);
  return list;
}

static void model(const char *name, const char *chip_name) {
  struct products list = model_products(name);
  struct pz_chip chip;
  double us = 0;
  if (pz_test_chip_read(chip_name, &chip, NULL) != PZ_OK) exit(1);
  for (int i = 0; i < list.n; i++) {
    struct pz_mapping o;
    us += microseconds(&list.at[i], &chip, &o);
  }
  printf("%s on %s,%d,,\n", name, chip_name, list.n);
  fprintf(stderr, "%s on %s: %.2f us each\n", name, chip_name, us / list.n);
}

struct nested_sums {
  double us, relaxed_us, slowest_us, ratio, worst;
  int n, equal;
};

static void add_nested(const struct pz_product *p, struct pz_chip *c, struct nested_sums *s) {
  struct pz_mapping nested, relaxed;
  c->rules.nested_mapping = false;
  s->relaxed_us += microseconds(p, c, &relaxed);
  c->rules.nested_mapping = true;
  double us = microseconds(p, c, &nested), ratio = nested.latency_s / relaxed.latency_s;
  s->us += us;
  s->slowest_us = us > s->slowest_us ? us : s->slowest_us;
  s->ratio += ratio;
  s->worst = ratio > s->worst ? ratio : s->worst;
  s->equal += ratio <= 1 + 1e-12;
  s->n++;
}

/* Chips of the paper's space with one size of the global buffer, whatever their area. */
static void nested(const char *const *models, int n_models, int64_t glb_mib) {
  static const int64_t cores[] = {1, 8, 64, 512, 4096}, sides[] = {4, 16, 64, 256};
  struct nested_sums s = {0};
  struct pz_chip c;
  if (pz_test_chip_read("tpuv4", &c, NULL) != PZ_OK) exit(1);
  c.glb_bytes = glb_mib << 20;
  for (int m = 0; m < n_models; m++) {
    struct products list = model_products(models[m]);
    for (int i = 0; i < 5 * 4 * 4; i++) {
      c.tensor.cores = cores[i / 16];
      c.tensor.rows = sides[i / 4 % 4];
      c.tensor.cols = sides[i % 4];
      int64_t local = 16 * c.tensor.rows * c.tensor.cols;
      c.tensor.local_bytes = local > 1024 ? local : 1024;
      for (int p = 0; p < list.n; p++) add_nested(&list.at[p], &c, &s);
    }
  }
  printf("nested over relaxed with %d MiB,%d,%.3f,%.3f\n", (int)glb_mib, s.n, s.ratio / s.n,
         s.worst);
  fprintf(
      stderr,
      "nested, %d MiB: %.2f us each, %.0f a second, slowest %.0f us; relaxed %.2f us; %.1f%% of "
      "the latencies equal\n",
      (int)glb_mib, s.us / s.n, 1e6 * s.n / s.us, s.slowest_us, s.relaxed_us / s.n,
      100.0 * s.equal / s.n);
}

int main(int argc, char **argv) {
  printf("what,products,mean_latency_ratio,worst_latency_ratio\n");
  published(argc > 1 ? argv[1] : "tests/data/published_mapper.csv");
  static const char *const models[] = {"bert-large", "gpt2-xl", "llama2-7b", "gpt3-175b"};
  static const char *const chips[] = {"tpuv4", "h200"};
  for (int c = 0; c < 2; c++)
    for (int m = 0; m < 4; m++) model(models[m], chips[c]);
  for (int64_t mib = 2; mib <= 128; mib *= 4) nested(models, 4, mib);
  return 0;
}
