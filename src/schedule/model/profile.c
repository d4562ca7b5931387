/* The residual capacity over time as a list of intervals (profile.h).  A task of zero duration
 * (a milestone) needs its resources only at one instant, and occupies no interval. */
#include "schedule/model/profile.h"

#include <string.h>

/* Returns a profile in which all capacity is free, with memory for all tasks of the problem. */
struct pz_profile pz_profile_new(struct pz_call *call, const struct pz_problem *problem) {
  size_t most = 2 * (size_t)problem->n + 2;
  struct pz_profile profile = {.problem = problem};
  profile.time = pz_alloc(call, most, sizeof *profile.time);
  profile.residual = pz_alloc(call, most, sizeof *profile.residual);
  pz_profile_clear(&profile);
  return profile;
}

/* Makes all capacity free. */
void pz_profile_clear(struct pz_profile *profile) {
  profile->n = 1;
  profile->time[0] = 0;
  memcpy(profile->residual[0], profile->problem->capacity, sizeof profile->residual[0]);
}

/* Returns the earliest start from `ready` on at which the mode fits until its end. */
double pz_profile_earliest(const struct pz_profile *profile, double ready,
                           const struct pz_mode *mode) {
  const double *time = profile->time;
  uint32_t i = 0; /* the interval in which the start lies */
  while (i + 1 < profile->n && time[i + 1] <= ready) i++;
  double start = ready;
  if (mode->duration <= 0) {
    for (;; i++, start = time[i]) {
      /* At the beginning of an interval, only tasks that run on both sides of that instant count,
       * which use at most the smaller of both uses. */
      const int32_t *after = profile->residual[i];
      const int32_t *before = i ? profile->residual[i - 1] : profile->problem->capacity;
      int32_t residual[PZ_RESOURCES];
      for (int r = 0; r < PZ_RESOURCES; r++)
        residual[r] = time[i] >= start && before[r] > after[r] ? before[r] : after[r];
      if (pz_mode_fits(residual, mode)) return start;
    }
  }
  for (;;) {
    uint32_t k = i; /* becomes the first interval that is too late or too full */
    while (k < profile->n && time[k] < start + mode->duration &&
           pz_mode_fits(profile->residual[k], mode))
      k++;
    if (k >= profile->n || time[k] >= start + mode->duration) return start;
    i = k + 1;
    start = time[i];
  }
}

/* Splits the interval that contains the instant.  Returns the interval that begins there. */
static uint32_t split_interval(struct pz_profile *profile, double instant) {
  double *time = profile->time;
  int32_t(*residual)[PZ_RESOURCES] = profile->residual;
  uint32_t i = profile->n - 1;
  while (time[i] > instant) i--;
  if (time[i] == instant) return i;
  memmove(&time[i + 2], &time[i + 1], (profile->n - i - 1) * sizeof time[0]);
  memmove(&residual[i + 2], &residual[i + 1], (profile->n - i - 1) * sizeof residual[0]);
  time[i + 1] = instant;
  memcpy(residual[i + 1], residual[i], sizeof residual[0]);
  profile->n++;
  return i + 1;
}

/* Subtracts the capacity that a mode uses from its start to its end. */
void pz_profile_occupy(struct pz_profile *profile, double start, const struct pz_mode *mode) {
  if (mode->duration <= 0) return;
  uint32_t first = split_interval(profile, start);
  uint32_t end = split_interval(profile, start + mode->duration);
  for (uint32_t i = first; i < end; i++)
    for (int r = 0; r < PZ_RESOURCES; r++) profile->residual[i][r] -= mode->use[r];
}
