/* Errors of functions that return a status.  pz_fail() records a message and the source line,
 * unless the record already holds an earlier error.  Functions that raise use core/call.h. */
#ifndef PZ_CORE_STATUS_H
#define PZ_CORE_STATUS_H

#include <stdarg.h>

#include "phaze/phaze.h"

/* Records an error and returns its status.  `err` may be NULL. */
#define pz_fail(err, status, ...) pz_error_set((err), (status), __FILE__, __LINE__, __VA_ARGS__)

enum pz_status pz_error_set(struct pz_error *err, enum pz_status status, const char *file, int line,
                            const char *format, ...) PZ_PRINTF(5, 6);

enum pz_status pz_error_setv(struct pz_error *err, enum pz_status status, const char *file,
                             int line, const char *format, va_list args) PZ_PRINTF(5, 0);

/* Stores the input that an error is about and the place in it; rows and columns count from 1, and 0
 * means unknown. */
void pz_error_at(struct pz_error *err, const char *input, int line, int column);

#endif
