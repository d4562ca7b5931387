/* Status and error context.  An error is born in one place, pz_fail, which records the sentence for
 * people, the input it is about and the source line.  The first error wins. */
#ifndef PZ_CORE_STATUS_H
#define PZ_CORE_STATUS_H

#include <stdarg.h>

#include "phaze/phaze.h"

/* Record an error and return its status.  `err` may be NULL. */
#define pz_fail(err, status, ...) pz_error_set((err), (status), __FILE__, __LINE__, __VA_ARGS__)

enum pz_status pz_error_set(struct pz_error *err, enum pz_status status, const char *file, int line,
                            const char *format, ...) PZ_PRINTF(5, 6);

enum pz_status pz_error_setv(struct pz_error *err, enum pz_status status, const char *file,
                             int line, const char *format, va_list args);

/* PZ_BAD_USE where a pointer that a caller must give is NULL; `what` names it. */
PZ_NODISCARD enum pz_status pz_need(const void *given, const char *what, struct pz_error *err);

/* The same for several: pz_need_each(err, {model, "model"}, {out, "out"}). */
struct pz_needed {
  const void *given;
  const char *what;
};
#define pz_need_each(err, ...)                                                                     \
  pz_need_list((const struct pz_needed[]){__VA_ARGS__, {NULL, NULL}}, (err))
PZ_NODISCARD enum pz_status pz_need_list(const struct pz_needed *list, struct pz_error *err);

/* PZ_BAD_USE for a number out of range. */
PZ_NODISCARD enum pz_status pz_need_range(const char *what, int64_t value, int64_t min, int64_t max,
                                          struct pz_error *err);

/* Options of the public header are structs with their size in front, so that programs built with an
 * older header, whose struct is shorter, get the defaults for what they do not know.  `own` holds the
 * defaults, own_size bytes; take over what the caller's struct has.  PZ_BAD_USE for one without a size,
 * or longer than this library knows; `name` is its default function. */
PZ_NODISCARD enum pz_status pz_sized_take(void *own, size_t own_size, const void *caller,
                                          const char *name, struct pz_error *err);

/* Attach the input an error is about, and the place in it (1-based, 0 = unknown). */
void pz_error_at(struct pz_error *err, const char *input, int line, int column);

#endif
