/* Verification of a run, as the public header has it: everything is recomputed from its inputs and
 * compared; plans are checked by code that shares nothing with their solver, and a sample of the
 * excluded chips is evaluated without bounds. */
#ifndef PZ_STUDY_VERIFY_H
#define PZ_STUDY_VERIFY_H

#include "study/run.h"

#endif
