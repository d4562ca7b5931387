/* Describes the difference between the inputs of two runs in one sentence.  pz_inputs_differ()
 * follows the first difference downward, one level of objects and arrays at a time (descend()), as
 * far as the two can be compared part by part. */
#include "store/inputs.h"

#include <stdio.h>
#include <string.h>

#include "core/text.h"

enum { LONGEST_PATH = 160, LONGEST_VALUE = 160 }; /* bytes in a message; longer texts are cut */

/* The values of one key in the old and the new inputs, and the path of the key from the root.  A
 * value is NULL if the key is missing. */
struct compared_value {
  char path[LONGEST_PATH];
  json_t *was, *now;
};

/* Returns the number of keys whose values differ or that only one of the objects has, and sets
 * *first to the first of them. */
static size_t count_differing_keys(json_t *was, json_t *now, const char **first) {
  size_t n = 0;
  const char *key;
  json_t *value;
  json_object_foreach(was, key, value) {
    if (json_equal(value, json_object_get(now, key))) continue;
    if (n == 0) *first = key;
    n++;
  }
  json_object_foreach(now, key, value) {
    if (json_object_get(was, key)) continue;
    if (n == 0) *first = key;
    n++;
  }
  return n;
}

/* Replaces the compared values by the first of their members or elements that differ, and appends
 * its key or index to the path.  Returns false if the values are neither two objects nor two arrays
 * of the same length. */
static bool descend(struct compared_value *compared) {
  json_t *was = compared->was, *now = compared->now;
  size_t length = strlen(compared->path), i = 0;
  const char *key = "", *separator = "";
  char index[32];
  if (json_is_object(was) && json_is_object(now)) {
    if (count_differing_keys(was, now, &key) == 0) return false;
    compared->was = json_object_get(was, key);
    compared->now = json_object_get(now, key);
    if (length) separator = ".";
  } else {
    bool are_arrays = json_is_array(was) && json_is_array(now);
    if (!are_arrays || json_array_size(was) != json_array_size(now)) return false;
    while (json_equal(json_array_get(was, i), json_array_get(now, i))) i++;
    compared->was = json_array_get(was, i);
    compared->now = json_array_get(now, i);
    snprintf(index, sizeof index, "[%zu]", i);
    key = index;
  }
  snprintf(compared->path + length, sizeof compared->path - length, "%s%s", separator, key);
  return true;
}

/* Returns the name of item i of a JSON list, or NULL if it has none (pz_name_at). */
static const char *name_in_list(const void *list, size_t i) {
  return json_string_value(json_object_get(json_array_get(list, i), "name"));
}

/* Returns whether both values are lists of named objects, such as the models of a search, and their
 * names differ. */
static bool are_lists_with_other_names(const json_t *was, const json_t *now) {
  size_t n = json_array_size(was), i = 0;
  if (!name_in_list(was, 0) || !name_in_list(now, 0)) return false;
  bool same = true;
  while (i < n && same) {
    const char *old_name = name_in_list(was, i), *new_name = name_in_list(now, i);
    same = old_name && new_name && strcmp(old_name, new_name) == 0;
    if (same) i++;
  }
  return i < n || json_array_size(now) > n;
}

/* Follows the first difference downward, and counts the other inputs that differ. */
bool pz_inputs_differ(json_t *was, json_t *now, char *buf, size_t size) {
  char before[LONGEST_VALUE], after[LONGEST_VALUE];
  struct compared_value compared = {.was = was, .now = now};
  const char *key, *innermost_name = NULL;         /* the innermost named object on the way down */
  size_t n = count_differing_keys(was, now, &key); /* top-level inputs that differ */
  if (n == 0) return false;
  while (!are_lists_with_other_names(compared.was, compared.now) && descend(&compared)) {
    const char *name = json_string_value(json_object_get(compared.was, "name"));
    if (name) innermost_name = name;
  }
  size_t length = strlen(compared.path), suffix = strlen(".digest");
  bool is_digest = length > suffix && strcmp(compared.path + length - suffix, ".digest") == 0;
  if (are_lists_with_other_names(compared.was, compared.now))
    snprintf(buf, size, "%s were %s and are %s now", compared.path,
             pz_text_join(before, sizeof before, name_in_list, compared.was),
             pz_text_join(after, sizeof after, name_in_list, compared.now));
  else if (innermost_name && is_digest)
    snprintf(buf, size, "%s has other contents now", innermost_name);
  else
    snprintf(buf, size, "%s was %s and is %s now", compared.path,
             compared.was ? pz_json_brief(compared.was, before, sizeof before) : "absent",
             compared.now ? pz_json_brief(compared.now, after, sizeof after) : "absent");
  length = strlen(buf);
  if (n > 1)
    snprintf(buf + length, size - length, ", and %zu other input%s", n - 1,
             n > 2 ? "s differ" : " differs");
  return true;
}
