/* Has an allocation of jansson failed in this thread, and no error with PZ_NO_MEMORY been recorded
 * since (pz_fail tells)?  Then a part of what was built or read meanwhile can be missing. */
#ifndef PZ_CORE_JSON_LOST_H
#define PZ_CORE_JSON_LOST_H

#include <stdbool.h>
#include <stddef.h>

bool pz_json_lost(void);
void pz_json_lost_set(bool lost);

/* A block for the first allocation of jansson's reader that fails in this thread, if it is large enough for it
 * (json.c says why there is one). */
bool pz_json_reserve(size_t bytes); /* false: out of memory */
void pz_json_reserve_end(void);

/* For these two (alloc.c).  Take: NULL where there is none, or a smaller one. */
void pz_json_reserve_set(void *block, size_t bytes);
void *pz_json_reserve_take(size_t bytes);

#endif
