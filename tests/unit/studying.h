/* Small studies for tests. */
#ifndef PZ_TESTS_STUDYING_H
#define PZ_TESTS_STUDYING_H

#include "study/study.h"

/* All objective runs; the study is the caller's to release if that goes well. */
static inline enum pz_status run_study(struct pz_study *s, const struct pz_study_options *o,
                                       unsigned threads, const struct pz_search_options *how,
                                       struct pz_error *err) {
  static const struct pz_search_options plain;
  enum pz_status status = pz_study_init(s, o, threads, err);
  if (status != PZ_OK) return status;
  status = pz_study_prepare(s, how ? how : &plain, err);
  for (uint32_t i = 0; i < s->n_runs && status == PZ_OK; i++) status = pz_study_run(s, i, err);
  if (status != PZ_OK) pz_study_release(s);
  return status;
}

/* Two small models on the smaller chips of the paper's space. */
static inline struct pz_study_options paper_study(void) {
  struct pz_study_options o = pz_study_options_default();
  o.models[0] = "bert-base";
  o.models[1] = "gpt2";
  o.n_models = 2;
  o.mbs = (struct pz_choices){{1, 4}, 2};
  o.tp = (struct pz_choices){{1}, 1};
  o.workload.seq = 256;
  o.steps = 300;
  o.budget = "6";
  return o;
}

#endif
