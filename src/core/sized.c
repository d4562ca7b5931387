#include "core/sized.h"

#include <string.h>

enum pz_status pz_sized_take(void *own, size_t own_size, const void *caller, const char *name,
                             struct pz_error *err) {
  size_t size;
  if (!caller) return PZ_OK;
  memcpy(&size, caller, sizeof size);
  if (size < sizeof size || size > own_size)
    return pz_fail(err, PZ_BAD_USE,
                   "options of %zu bytes; accepted: those that begin as %s(), at most %zu bytes",
                   size, name, own_size);
  memcpy(own, caller, size);
  memcpy(own, &own_size, sizeof own_size);
  return PZ_OK;
}
