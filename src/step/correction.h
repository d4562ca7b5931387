/* A chip's correction (chip/chip.h) from training steps that were measured: the factor of each part's time.
 *
 * In logarithms a step is nearly linear in the factors, by the part of the step that each has.  A factor is taken to lie
 * around 1 with a spread that is not known, a measured step around the corrected prediction with another; both are found
 * from the steps themselves: the answers for each pair of spreads are weighed by how likely they make the steps.  So a few
 * steps that are all off alike correct much, those that are off by chance nearly nothing. */
#ifndef PZ_STEP_CORRECTION_H
#define PZ_STEP_CORRECTION_H

#include "chip/chip.h"
#include "step/predict.h"

/* A run with its step, or with the time that one rank of it computes in a rehearsal (step/rank_alone.h). */
struct pz_measured_step {
  const char *id;
  const struct pz_job *job;
  const struct pz_plan *plan;
  double measured_s;
  int64_t microbatches; /* of the rank that ran alone; 0: the step of the whole run */
  int64_t stage;        /* of that rank */
};

enum { PZ_CORRECTION_FACTORS = 5 };

/* A step that no chip takes, or in another unit, is an error, said of `where`, and no reason to correct. */
void pz_measured_step_check(struct pz_call *call, const char *where, const struct pz_prediction *p,
                            double measured_s);

/* Names as in chip.json: "gemms", ...; where one stands in a correction. */
extern const char *const pz_correction_names[PZ_CORRECTION_FACTORS];
double *pz_correction_factor(struct pz_correction *c, int factor);

/* Steps of a list without correction, and what a change of each factor does to them. */
struct pz_step_sensitivity {
  double step_s, share[PZ_CORRECTION_FACTORS]; /* part of the step that grows with it */
};

/* One for each. */
struct pz_step_sensitivity *pz_step_sensitivities(struct pz_call *call,
                                                  const struct pz_measured_step *steps, uint32_t n,
                                                  unsigned threads);

/* Are two steps of the same run, measured again?  Their predictions are the same. */
bool pz_step_repeats(const struct pz_step_sensitivity *a, const struct pz_step_sensitivity *b);

/* From all steps but one and its repeats; skip >= n: from all.  Repeats of a run count as one.  Steps and error are left to
 * the caller. */
struct pz_correction pz_correction_fit(const struct pz_measured_step *steps,
                                       const struct pz_step_sensitivity *s, uint32_t n,
                                       uint32_t skip);

/* The factors of a correction, the first n of them, with the part of the n_steps steps that each has on average. */
void pz_correction_tell(const struct pz_correction *c, const struct pz_step_sensitivity *s,
                        uint32_t n_steps, struct pz_step_factor *list, int n);

/* Steps on their chips with this correction. */
void pz_steps_corrected(struct pz_call *call, const struct pz_measured_step *steps, uint32_t n,
                        const struct pz_correction *c, unsigned threads, double *step_s);

#endif
