/* The common-chip search of the demo and how its work grows with models and chips.  One row a case:
 * what was settled (chips x models x microbatch sizes x widths, evaluated or excluded), what of it
 * was evaluated, and the answer, which is the same on any number of threads.  On stderr seconds of
 * this machine: compare rows. */
#include <stdio.h>
#include <string.h>

#include "core/progress.h"
#include "unit/study_borders.h"

static const char *const models[] = {"bert-large", "gpt2-xl",       "opt-350m",
                                     "llama2-7b",  "megatron-8.3b", "gpt3-175b"};

struct measured {
  double bounds_s, search_s;
  uint32_t chips;
  uint64_t boxes;
  uint64_t settled, evaluated;
  struct pz_chip chip; /* the common one */
  double value;
};

static enum pz_status measure(uint32_t n_models, const char *budget, unsigned threads,
                              struct measured *m, struct pz_error *err) {
  struct pz_study_options o = pz_study_options_default();
  struct pz_study_watch how = {.store = NULL};
  struct pz_study s;
  for (uint32_t i = 0; i < n_models; i++) o.models[i] = models[i];
  o.n_models = n_models;
  o.budget = budget;
  double start = pz_clock_s();
  enum pz_status status = pz_study_init(&s, &o, threads, err);
  if (status != PZ_OK) return status;
  status = pz_study_prepare(&s, &how, err);
  m->bounds_s = pz_clock_s() - start;
  m->boxes = 0;
  for (uint32_t i = 0; i < s.n_runs && status == PZ_OK; i++) {
    status = pz_study_run(&s, i, err);
    m->boxes += s.objective_run[i].n_boxes;
  }
  m->search_s = pz_clock_s() - start - m->bounds_s;
  m->chips = s.n_points;
  if (status == PZ_OK) pz_space_chip(&s.space, &s.objective_run[s.n_runs - 1].best, &m->chip);
  if (status == PZ_OK) m->value = s.objective_run[s.n_runs - 1].value;
  m->settled = (uint64_t)s.n_points * s.portfolio.n_variants;
  m->evaluated = s.evaluator ? pz_original_variants(s.evaluator) : 0;
  pz_study_release(&s);
  return status;
}

int main(void) {
  static const struct {
    const char *what, *budget;
    uint32_t models;
    unsigned threads;
  } cases[] = {
      {"demo", "tpuv4", 6, 2},   {"models", "tpuv4", 1, 2},  {"models", "tpuv4", 2, 2},
      {"models", "tpuv4", 4, 2}, {"chips", "17", 6, 2},      {"chips", "70", 6, 2},
      {"chips", "140", 6, 2},    {"threads", "tpuv4", 6, 1}, {"threads", "tpuv4", 6, 4},
  };
  printf("case,models,chips,threads,boxes,settled,evaluated,chip,objective\n");
  double demo_s = 0;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct measured m;
    struct pz_error err = {0};
    if (measure(cases[i].models, cases[i].budget, cases[i].threads, &m, &err) != PZ_OK) {
      fprintf(stderr, "%s\n", err.message);
      return 1;
    }
    double all = m.bounds_s + m.search_s;
    if (i == 0) demo_s = all;
    printf("%s,%u,%u,%u,%llu,%llu,%llu,%s,%.9g\n", cases[i].what, cases[i].models, m.chips,
           cases[i].threads, (unsigned long long)m.boxes, (unsigned long long)m.settled,
           (unsigned long long)m.evaluated, m.chip.name, m.value);
    fflush(stdout);
    fprintf(stderr,
            "%s, %u models, %u chips, %u threads: bounds %.2f s, search %.2f s, %.2f of the "
            "demo; %.0f settled, %.0f evaluated a second\n",
            cases[i].what, cases[i].models, m.chips, cases[i].threads, m.bounds_s, m.search_s,
            all / demo_s, (double)m.settled / all, (double)m.evaluated / all);
  }
  return 0;
}
