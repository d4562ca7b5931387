/* Options of the public header: a struct with its size in front, so that programs built with an
 * older header, whose struct is shorter, get the defaults for what they do not know. */
#ifndef PZ_CORE_SIZED_H
#define PZ_CORE_SIZED_H

#include "core/status.h"

/* `own` holds the defaults, own_size bytes; take over what the caller's struct has.  PZ_BAD_USE for
 * one without a size, or longer than this library knows; `name` is its default function. */
PZ_NODISCARD enum pz_status pz_sized_take(void *own, size_t own_size, const void *caller,
                                          const char *name, struct pz_error *err);

#endif
