/* Describes the difference between the inputs of two runs in one sentence.  pz_inputs_differ()
 * follows the first difference downward, one level of objects and arrays at a time (descend()), as
 * far as the two can be compared part by part. */
#include "store/inputs.h"

#include <stdio.h>
#include <string.h>

#include "core/text.h"

enum { LONGEST_NAME = 160, LONGEST_VALUE = 160 };

/* The values of one key in the old and the new inputs, and the path of the key from the root.  A
 * value is NULL if the key is missing. */
struct compared_value {
  char path[LONGEST_NAME];
  json_t *was, *now;
};

/* Returns the number of keys whose values differ; *first is the first of them. */
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

/* Appends a separator and a key, or an index, to the path. */
static void append_to_path(struct compared_value *compared, const char *separator,
                           const char *key) {
  size_t n = strlen(compared->path);
  snprintf(compared->path + n, sizeof compared->path - n, "%s%s", separator, key);
}

/* Goes one level down to the first difference.  Returns false if the two cannot be compared part by
 * part. */
static bool descend(struct compared_value *compared) {
  if (json_is_object(compared->was) && json_is_object(compared->now)) {
    const char *key = "";
    if (count_differing_keys(compared->was, compared->now, &key) == 0) return false;
    append_to_path(compared, *compared->path ? "." : "", key);
    compared->was = json_object_get(compared->was, key);
    compared->now = json_object_get(compared->now, key);
    return true;
  }
  if (!json_is_array(compared->was) || !json_is_array(compared->now) ||
      json_array_size(compared->was) != json_array_size(compared->now))
    return false;
  char index[32];
  size_t i = 0;
  while (json_equal(json_array_get(compared->was, i), json_array_get(compared->now, i))) i++;
  snprintf(index, sizeof index, "[%zu]", i);
  append_to_path(compared, "", index);
  compared->was = json_array_get(compared->was, i);
  compared->now = json_array_get(compared->now, i);
  return true;
}

/* ---- lists of named objects, such as the models --------------------------------------------- */

/* Returns the name of item i of a list (pz_name_at). */
static const char *name_in_list(const void *list, size_t i) {
  return json_string_value(json_object_get(json_array_get(list, i), "name"));
}

/* Returns whether both are lists of named objects, and the names differ. */
static bool are_lists_with_other_names(const json_t *was, const json_t *now) {
  size_t n = json_array_size(was), i = 0;
  if (!name_in_list(was, 0) || !name_in_list(now, 0)) return false;
  while (i < n && name_in_list(was, i) && name_in_list(now, i) &&
         strcmp(name_in_list(was, i), name_in_list(now, i)) == 0)
    i++;
  return i < n || json_array_size(now) > n;
}

/* ---- the sentence --------------------------------------------------------------------------- */

static const char *brief_value(const json_t *value, char buf[LONGEST_VALUE]) {
  return value ? pz_json_brief(value, buf, LONGEST_VALUE) : "absent";
}

bool pz_inputs_differ(json_t *was, json_t *now, char *buf, size_t size) {
  char before[LONGEST_VALUE], after[LONGEST_VALUE];
  struct compared_value compared = {.was = was, .now = now};
  const char *key, *innermost_name = NULL; /* the innermost named object on the way down */
  size_t n = count_differing_keys(was, now, &key);
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
    snprintf(buf, size, "%s was %s and is %s now", compared.path, brief_value(compared.was, before),
             brief_value(compared.now, after));
  length = strlen(buf);
  if (n > 1)
    snprintf(buf + length, size - length, ", and %zu other input%s", n - 1,
             n > 2 ? "s differ" : " differs");
  return true;
}
