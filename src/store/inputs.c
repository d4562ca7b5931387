#include "store/inputs.h"

#include <stdio.h>
#include <string.h>

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

bool pz_inputs_differ(json_t *was, json_t *now, char *buf, size_t size) {
  struct place p = {.was = was, .now = now};
  const char *key;
  char before[LONGEST_VALUE], after[LONGEST_VALUE], others[48] = "";
  size_t n = differing_keys(was, now, &key);
  if (n == 0) return false;
  while (descend(&p)) continue;
  if (n > 1)
    snprintf(others, sizeof others, ", and %zu other input%s", n - 1,
             n > 2 ? "s differ" : " differs");
  snprintf(buf, size, "%s was %s and is %s now%s", p.name, brief(p.was, before),
           brief(p.now, after), others);
  return true;
}
