/* Has an allocation of jansson failed in this thread, and no error with PZ_NO_MEMORY been recorded
 * since (pz_fail tells)?  Then a part of what was built or read meanwhile can be missing. */
#ifndef PZ_CORE_JSON_LOST_H
#define PZ_CORE_JSON_LOST_H

#include <stdbool.h>

bool pz_json_lost(void);
void pz_json_lost_set(bool lost);

#endif
