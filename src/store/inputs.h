/* How the inputs of a stored run differ from those of the current command. */
#ifndef PZ_STORE_INPUTS_H
#define PZ_STORE_INPUTS_H

#include "core/json.h"

/* Compares two JSON objects, whatever the order of their keys.  Returns false if they are equal;
 * otherwise writes "batch was 4096 and is 2048 now, and 2 other inputs differ" into buf.  The first
 * difference is followed into objects and arrays ("space.rows[3] was ..."); lists of named objects
 * are reported by their names. */
bool pz_inputs_differ(json_t *was, json_t *now, char *buf, size_t size);

#endif
