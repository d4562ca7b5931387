/* What a study was asked, as JSON and back (study.h has the calls); what models compute in a few digits. */
#ifndef PZ_STUDY_STUDY_INPUTS_H
#define PZ_STUDY_STUDY_INPUTS_H

#include "study/study.h"

/* A file may change under its name: s->digest and s->seq of every model. */
PZ_NODISCARD enum pz_status pz_study_digest_models(struct pz_study *s, struct pz_error *err);

#endif
