/* Fits the correction of a chip (chip/chip.h) to measured training steps: one factor for the time
 * of each part of the step (GEMMs, attention, element-wise operators, launches, collectives).
 *
 * In logarithms, a step is nearly linear in the factors, with the shares of the step that each
 * part has.  The prior of a factor is a normal distribution around 1, and a measured step is
 * normally distributed around the corrected prediction. Both standard deviations are unknown: for
 * each pair of a few values the most likely factors are found, and these answers are averaged,
 * weighted by how likely they make the measured steps.  A few steps that are all wrong in the same
 * way thus correct a lot, and steps that are wrong by chance nearly nothing. */
#ifndef PZ_STEP_CORRECTION_H
#define PZ_STEP_CORRECTION_H

#include "chip/chip.h"
#include "step/predict.h"

/* A run with its measured step, or the time of one rank in a rehearsal (step/rank_alone.h). */
struct pz_measured_step {
  const char *id;
  const struct pz_job *job;
  const struct pz_plan *plan;
  double measured_s;
  int64_t microbatches; /* of the rank in a rehearsal, or 0 if the step of the whole run */
  int64_t stage;        /* of that rank */
};

enum { PZ_CORRECTION_FACTORS = 5 };

/* Raises PZ_BAD_INPUT, with a message that begins with `where`, for an impossible step time. */
void pz_measured_step_check(struct pz_call *call, const char *where,
                            const struct pz_prediction *prediction, double measured_s);

/* The names of the factors as in a chip file ("gemms", ...), and a pointer to the member of a
 * correction that holds the factor with this index. */
extern const char *const pz_correction_names[PZ_CORRECTION_FACTORS];
double *pz_correction_factor(struct pz_correction *correction, int factor);

/* A predicted step without correction, and the share of the step that grows with each factor. */
struct pz_step_sensitivity {
  double step_s, share[PZ_CORRECTION_FACTORS];
};

/* Returns the sensitivity of each step to the correction factors. */
struct pz_step_sensitivity *pz_step_sensitivities(struct pz_call *call,
                                                  const struct pz_measured_step *steps, uint32_t n,
                                                  unsigned threads);

/* Returns whether two steps are measurements of the same run: their predictions are the same. */
bool pz_step_repeats(const struct pz_step_sensitivity *a, const struct pz_step_sensitivity *b);

/* Returns the correction that fits the steps best.  Leaves out step `skip` and its repetitions, or
 * nothing if skip >= n. All repetitions of a run together count as one step.  Number of steps and
 * error are left for the caller to set. */
struct pz_correction pz_correction_fit(const struct pz_measured_step *steps,
                                       const struct pz_step_sensitivity *sensitivities, uint32_t n,
                                       uint32_t skip);

/* Lists the first n factors of a correction in the order of pz_correction_names, each with the
 * share of a step that grows with it, on average over the n_steps steps. */
void pz_correction_tell(const struct pz_correction *correction,
                        const struct pz_step_sensitivity *sensitivities, uint32_t n_steps,
                        struct pz_step_factor *list, int n);

/* Predicts the steps with a correction of their chips, into step_s. */
void pz_steps_corrected(struct pz_call *call, const struct pz_measured_step *steps, uint32_t n,
                        const struct pz_correction *correction, unsigned threads, double *step_s);

#endif
