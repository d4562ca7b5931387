/* The inputs of a run, and how they differ from those of the current command. */
#ifndef PZ_STORE_INPUTS_H
#define PZ_STORE_INPUTS_H

#include "core/json.h"

/* "batch was 4096 and is 2048 now, and 2 other inputs differ" into buf; false when the two objects
 * are equal, whatever the order of their keys.  The first difference is followed into objects and
 * arrays: "space.rows[3] was ..."; lists of named objects are told by their names. */
bool pz_inputs_differ(json_t *was, json_t *now, char *buf, size_t size);

#endif
