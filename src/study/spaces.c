/* Design spaces for users of the library. */
#include <string.h>

#include "core/alloc.h"
#include "core/json.h"
#include "search/search.h"

static enum pz_status make(struct pz_space **out, struct pz_error *err) {
  *out = pz_calloc(1, sizeof **out);
  return *out ? PZ_OK : pz_fail(err, PZ_NO_MEMORY, "out of memory for the space");
}

static enum pz_status hand_over(struct pz_space *s, enum pz_status status, struct pz_space **out) {
  if (status == PZ_OK)
    *out = s;
  else
    pz_free(s);
  return status;
}

enum pz_status pz_space_open(const char *space, struct pz_space **out, struct pz_error *err) {
  struct pz_space *s = NULL;
  if (!space || !out) return pz_need(NULL, space ? "out" : "space", err);
  enum pz_status status = make(&s, err);
  return status == PZ_OK ? hand_over(s, pz_space_load(space, s, err), out) : status;
}

enum pz_status pz_space_open_text(const char *name, const char *text, size_t bytes,
                                  struct pz_space **out, struct pz_error *err) {
  struct pz_space *s = NULL;
  enum pz_status status = pz_need(name, "name", err);
  if (status == PZ_OK) status = pz_need(text, "text", err);
  if (status == PZ_OK) status = pz_need(out, "out", err);
  if (status == PZ_OK) status = make(&s, err);
  return status == PZ_OK ? hand_over(s, pz_space_parse(name, text, bytes, s, err), out) : status;
}

void pz_space_close(struct pz_space *s) { pz_free(s); }

/* How many are within the limits, where they can be listed. */
static enum pz_status count(const struct pz_space *s, const char *budget, json_t *o,
                            struct pz_error *err) {
  struct pz_limits l = {.mm2 = 0};
  struct pz_arena arena;
  struct pz_point *points;
  uint32_t n = 0;
  enum pz_status status = pz_limits_complete(s, budget, NULL, &l, err);
  if (status != PZ_OK || pz_space_chips(s) > PZ_SPACE_MOST_LISTED) return status;
  pz_arena_init(&arena, NULL);
  status = pz_space_list(s, &l, &arena, &points, &n, err);
  pz_arena_release(&arena);
  if (status == PZ_OK && (json_object_set_new(o, "within", json_integer(n)) != 0 ||
                          json_object_set_new(o, "limit_mm2", json_real(l.mm2)) != 0))
    status = pz_fail(err, PZ_NO_MEMORY, "out of memory for the space");
  return status;
}

enum pz_status pz_space_describe(const struct pz_space *s, const char *budget, char **text,
                                 struct pz_error *err) {
  enum pz_status status = pz_need(s, "space", err);
  if (status == PZ_OK) status = pz_need(text, "text", err);
  if (status != PZ_OK) return status;
  json_t *o = pz_space_json(s);
  if (!o || json_object_set_new(o, "chips", json_integer((json_int_t)pz_space_chips(s))) != 0)
    status = pz_fail(err, PZ_NO_MEMORY, "out of memory for the space");
  if (status == PZ_OK) status = count(s, budget, o, err);
  if (status == PZ_OK) status = pz_json_text(o, text, err);
  json_decref(o);
  return status;
}

const char *const pz_file_names[] = {"chip", "cluster", "space", NULL};

enum pz_status pz_file_fields(const char *file, char **text, struct pz_error *err) {
  static void (*const describe[])(json_t *) = {pz_chip_fields, pz_cluster_fields, pz_space_fields};
  enum pz_status status = pz_need_each(err, {file, "file"}, {text, "text"});
  size_t i = 0;
  while (status == PZ_OK && pz_file_names[i] && strcmp(pz_file_names[i], file) != 0) i++;
  if (status == PZ_OK && !pz_file_names[i])
    status = pz_fail(err, PZ_BAD_USE, "file '%.40s'; accepted: chip, cluster or space", file);
  if (status != PZ_OK) return status;
  json_t *o = json_pack("{s:[]}", "fields");
  if (o) describe[i](json_object_get(o, "fields"));
  status = pz_json_text(o, text, err);
  json_decref(o);
  return status;
}
