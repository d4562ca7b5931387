#include "store/inputs.h"

#include <stdio.h>
#include <string.h>

#include "core/text.h"

enum { LONGEST_NAME = 160, LONGEST_VALUE = 160 };

/* A value in both, NULL where there is none, and its name from the top. */
struct place {
  char name[LONGEST_NAME];
  json_t *was, *now;
};

/* The first key whose values differ, and how many do. */
static size_t differing_keys(json_t *was, json_t *now, const char **first) {
  size_t n = 0;
  const char *key;
  json_t *value;
  json_object_foreach(was, key, value) {
    if (!json_equal(value, json_object_get(now, key)) && n++ == 0) *first = key;
  }
  json_object_foreach(now, key, value) {
    if (!json_object_get(was, key) && n++ == 0) *first = key;
  }
  return n;
}

static size_t differing_item(json_t *was, json_t *now) {
  size_t i = 0;
  while (json_equal(json_array_get(was, i), json_array_get(now, i))) i++;
  return i;
}

static void append(struct place *p, const char *dot, const char *key) {
  size_t n = strlen(p->name);
  snprintf(p->name + n, sizeof p->name - n, "%s%s", dot, key);
}

/* One level down to a difference, if the two can be compared part by part. */
static bool descend(struct place *p) {
  char index[32];
  if (json_is_object(p->was) && json_is_object(p->now)) {
    const char *key = "";
    if (differing_keys(p->was, p->now, &key) == 0) return false;
    append(p, *p->name ? "." : "", key);
    p->was = json_object_get(p->was, key);
    p->now = json_object_get(p->now, key);
    return true;
  }
  if (!json_is_array(p->was) || !json_is_array(p->now) ||
      json_array_size(p->was) != json_array_size(p->now))
    return false;
  size_t i = differing_item(p->was, p->now);
  snprintf(index, sizeof index, "[%zu]", i);
  append(p, "", index);
  p->was = json_array_get(p->was, i);
  p->now = json_array_get(p->now, i);
  return true;
}

static const char *brief(const json_t *value, char buf[LONGEST_VALUE]) {
  return value ? pz_json_brief(value, buf, LONGEST_VALUE) : "absent";
}

/* ---- lists of named objects, such as the models --------------------------------------------- */

static const char *name_at(const void *list, size_t i) {
  return json_string_value(json_object_get(json_array_get(list, i), "name"));
}

static bool have_other_names(const json_t *was, const json_t *now) {
  size_t n = json_array_size(was), i = 0;
  if (!name_at(was, 0) || !name_at(now, 0)) return false;
  while (i < n && name_at(was, i) && name_at(now, i) && !strcmp(name_at(was, i), name_at(now, i)))
    i++;
  return i < n || json_array_size(now) > n;
}

/* "models were gpt2 and are bert-base, gpt2 now" */
static void tell_names(const struct place *p, char *buf, size_t size) {
  char before[LONGEST_VALUE], after[LONGEST_VALUE];
  snprintf(buf, size, "%s were %s and are %s now", p->name,
           pz_text_join(before, sizeof before, name_at, p->was),
           pz_text_join(after, sizeof after, name_at, p->now));
}

static void tell_values(const struct place *p, char *buf, size_t size) {
  char before[LONGEST_VALUE], after[LONGEST_VALUE];
  snprintf(buf, size, "%s was %s and is %s now", p->name, brief(p->was, before),
           brief(p->now, after));
}

bool pz_inputs_differ(json_t *was, json_t *now, char *buf, size_t size) {
  struct place p = {.was = was, .now = now};
  const char *key, *named = NULL; /* the innermost object with a name on the way */
  size_t n = differing_keys(was, now, &key);
  if (n == 0) return false;
  while (!have_other_names(p.was, p.now) && descend(&p)) {
    const char *name = json_string_value(json_object_get(p.was, "name"));
    if (name) named = name;
  }
  size_t length = strlen(p.name);
  if (have_other_names(p.was, p.now))
    tell_names(&p, buf, size);
  else if (named && length > 7 && strcmp(p.name + length - 7, ".digest") == 0)
    snprintf(buf, size, "%s has other contents now", named);
  else
    tell_values(&p, buf, size);
  length = strlen(buf);
  if (n > 1)
    snprintf(buf + length, size - length, ", and %zu other input%s", n - 1,
             n > 2 ? "s differ" : " differs");
  return true;
}
