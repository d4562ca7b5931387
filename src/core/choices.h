/* A list of numbers to choose from, as given on the command line: 1,2,4. */
#ifndef PZ_CORE_CHOICES_H
#define PZ_CORE_CHOICES_H

#include "core/status.h"

/* Powers of two from 1 to `most`. */
struct pz_choices pz_choices_powers(int64_t most);

/* PZ_BAD_USE unless it has at least `least` numbers from 1 to 2^20, ascending. */
PZ_NODISCARD enum pz_status pz_choices_check(const char *what, const struct pz_choices *c,
                                             int least, struct pz_error *err);

/* Numbers from 1 to `most` with commas; `name` is the option's, for the message. */
PZ_NODISCARD enum pz_status pz_choices_parse(const char *text, const char *name, int64_t most,
                                             struct pz_choices *out, struct pz_error *err);

#endif
