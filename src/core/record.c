#include "core/record.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "core/text.h"

/* ---- writing -------------------------------------------------------------------------------- */

static json_t *field_json(const struct pz_field *f, const void *value);

/* One item of a list, as a row of a table: its fields in their order. */
static json_t *row_json(const struct pz_record *r, const char *item) {
  json_t *row = json_array();
  for (size_t k = 0; k < r->n_fields && row; k++)
    if (json_array_append_new(row, field_json(&r->fields[k], item)) != 0) {
      json_decref(row);
      return NULL;
    }
  return row;
}

static json_t *items_json(const struct pz_field *f, const char *items, uint32_t n) {
  json_t *list = json_array();
  for (uint32_t i = 0; i < n && list; i++) {
    const char *item = items + i * f->record->size;
    json_t *one =
        f->type == PZ_FIELD_TABLE ? row_json(f->record, item) : pz_record_json(f->record, item);
    if (json_array_append_new(list, one) == 0) continue;
    json_decref(list);
    return NULL;
  }
  return list;
}

static json_t *table_json(const struct pz_field *f, const char *items, uint32_t n) {
  json_t *columns = json_array(), *rows = items_json(f, items, n);
  bool good = columns && rows;
  for (size_t k = 0; k < f->record->n_fields && good; k++)
    good = json_array_append_new(columns, json_string(f->record->fields[k].key)) == 0;
  json_t *table = good ? json_pack("{s:O,s:O}", "columns", columns, "rows", rows) : NULL;
  json_decref(columns);
  json_decref(rows);
  return table;
}

/* The value of field `f` of the struct at `value`. */
static json_t *field_json(const struct pz_field *f, const void *value) {
  const char *at = (const char *)value + f->offset;
  switch (f->type) {
  case PZ_FIELD_REAL: return json_real(*(const double *)(const void *)at);
  case PZ_FIELD_REAL_OR_NULL:
  case PZ_FIELD_REAL_KNOWN: {
    double v = *(const double *)(const void *)at;
    bool known = f->type == PZ_FIELD_REAL_KNOWN ? v != 0 : !isnan(v);
    return known ? json_real(v) : json_null();
  }
  case PZ_FIELD_INT: return json_integer(*(const int64_t *)(const void *)at);
  case PZ_FIELD_COUNT: return json_integer(*(const uint32_t *)(const void *)at);
  case PZ_FIELD_BOOL: return json_boolean(*(const bool *)(const void *)at);
  case PZ_FIELD_TEXT:
  case PZ_FIELD_TEXT_OR_NULL: {
    const char *text = *(const char *const *)(const void *)at;
    return text ? json_string(text) : json_null();
  }
  case PZ_FIELD_ENUM: return json_string(f->names[*(const unsigned *)(const void *)at]);
  case PZ_FIELD_STRUCT: return pz_record_json(f->record, at);
  case PZ_FIELD_OPTIONAL: {
    const void *one = *(const void *const *)(const void *)at;
    return one ? pz_record_json(f->record, one) : json_null();
  }
  case PZ_FIELD_LIST:
  case PZ_FIELD_TABLE: {
    const char *items = *(const char *const *)(const void *)at;
    uint32_t n = *(const uint32_t *)(const void *)((const char *)value + f->count_offset);
    return f->type == PZ_FIELD_TABLE ? table_json(f, items, n) : items_json(f, items, n);
  }
  case PZ_FIELD_CUSTOM: return f->codec->write(at);
  }
  return NULL;
}

json_t *pz_record_json(const struct pz_record *r, const void *value) {
  json_t *o = json_object();
  for (size_t i = 0; i < r->n_fields && o; i++)
    if (json_object_set_new(o, r->fields[i].key, field_json(&r->fields[i], value)) != 0) {
      json_decref(o);
      return NULL;
    }
  return o;
}

/* ---- reading -------------------------------------------------------------------------------- */

struct place {
  const char *where;
  struct pz_arena *arena;
  struct pz_error *err;
};

static enum pz_status read_field(const struct place *p, const struct pz_field *f,
                                 const json_t *json, void *value);

static enum pz_status no_memory(const struct place *p) {
  return pz_fail(p->err, PZ_NO_MEMORY, "%s: out of memory", p->where);
}

static enum pz_status refuse(const struct place *p, const struct pz_field *f, const json_t *found,
                             const char *accepted) {
  return pz_fail(p->err, PZ_BAD_INPUT, "%s.%s: found %s; accepted: %s", p->where, f->key,
                 pz_json_type(found), accepted);
}

static enum pz_status read_text(const struct place *p, const struct pz_field *f, const json_t *json,
                                const char **out) {
  const char *text = json_string_value(json);
  bool may_be_null = f->type == PZ_FIELD_TEXT_OR_NULL;
  *out = NULL;
  if (may_be_null && json_is_null(json)) return PZ_OK;
  if (!text) return refuse(p, f, json, may_be_null ? "a string, or null" : "a string");
  if (!pz_text_is_plain(text)) return refuse(p, f, json, "one without control characters");
  *out = pz_arena_strdup(p->arena, text);
  return *out ? PZ_OK : no_memory(p);
}

static enum pz_status read_enum(const struct place *p, const struct pz_field *f, const json_t *json,
                                unsigned *out) {
  const char *name = json_string_value(json);
  for (unsigned i = 0; name && f->names[i]; i++)
    if (strcmp(f->names[i], name) == 0) {
      *out = i;
      return PZ_OK;
    }
  return refuse(p, f, json, "one of the names this program writes");
}

/* One row of a table into the item. */
static enum pz_status read_row(const struct place *p, const struct pz_record *r, const json_t *row,
                               char *item) {
  if (json_array_size(row) != r->n_fields)
    return pz_fail(p->err, PZ_BAD_INPUT, "%s: a row of %zu values; accepted: %zu", p->where,
                   json_array_size(row), r->n_fields);
  for (size_t k = 0; k < r->n_fields; k++) {
    enum pz_status status = read_field(p, &r->fields[k], json_array_get(row, k), item);
    if (status != PZ_OK) return status;
  }
  return PZ_OK;
}

static enum pz_status read_items(const struct place *p, const struct pz_field *f,
                                 const json_t *list, char **items, uint32_t *n) {
  size_t size = f->record->size;
  *n = 0;
  if (!json_is_array(list)) return refuse(p, f, list, "an array");
  if (json_array_size(list) > PZ_RECORD_MOST)
    return refuse(p, f, list, "an array of at most 2097152 items");
  *items = pz_arena_alloc(p->arena, json_array_size(list), size);
  if (!*items) return no_memory(p);
  for (size_t i = 0; i < json_array_size(list); i++) {
    char where[300];
    struct place inside = {where, p->arena, p->err};
    snprintf(where, sizeof where, "%s.%s[%zu]", p->where, f->key, i);
    const json_t *one = json_array_get(list, i);
    char *item = *items + i * size;
    enum pz_status status = f->type == PZ_FIELD_TABLE
                                ? read_row(&inside, f->record, one, item)
                                : pz_record_read(f->record, one, where, p->arena, item, p->err);
    if (status != PZ_OK) return status;
    ++*n;
  }
  return PZ_OK;
}

static enum pz_status read_table(const struct place *p, const struct pz_field *f,
                                 const json_t *json, char **items, uint32_t *n) {
  const json_t *columns = json_object_get(json, "columns");
  bool same = json_array_size(columns) == f->record->n_fields;
  for (size_t k = 0; k < f->record->n_fields && same; k++) {
    const char *key = json_string_value(json_array_get(columns, k));
    same = key && strcmp(key, f->record->fields[k].key) == 0;
  }
  if (!same) return refuse(p, f, json, "a table with the columns that this program writes");
  return read_items(p, f, json_object_get(json, "rows"), items, n);
}

static enum pz_status read_many(const struct place *p, const struct pz_field *f, const json_t *json,
                                void *value) {
  char *items = NULL;
  uint32_t n = 0;
  enum pz_status status = f->type == PZ_FIELD_TABLE ? read_table(p, f, json, &items, &n)
                                                    : read_items(p, f, json, &items, &n);
  memcpy((char *)value + f->offset, &items, sizeof items);
  memcpy((char *)value + f->count_offset, &n, sizeof n);
  return status;
}

static enum pz_status read_optional(const struct place *p, const struct pz_field *f,
                                    const json_t *json, void *at) {
  char where[300];
  void *one = NULL;
  enum pz_status status = PZ_OK;
  snprintf(where, sizeof where, "%s.%s", p->where, f->key);
  if (!json_is_null(json)) {
    one = pz_arena_alloc(p->arena, 1, f->record->size);
    status = one ? pz_record_read(f->record, json, where, p->arena, one, p->err) : no_memory(p);
  }
  memcpy(at, &one, sizeof one);
  return status;
}

static enum pz_status read_real(const struct place *p, const struct pz_field *f, const json_t *json,
                                double *out) {
  bool null = f->type != PZ_FIELD_REAL && json_is_null(json);
  *out = null && f->type == PZ_FIELD_REAL_OR_NULL ? (double)NAN : json_number_value(json);
  return null || json_is_number(json) ? PZ_OK : refuse(p, f, json, "a number");
}

static enum pz_status read_count(const struct place *p, const struct pz_field *f,
                                 const json_t *json, uint32_t *out) {
  json_int_t v = json_integer_value(json);
  if (!json_is_integer(json) || v < 0 || v > UINT32_MAX)
    return refuse(p, f, json, "an integer from 0 to 4294967295");
  *out = (uint32_t)v;
  return PZ_OK;
}

static enum pz_status read_field(const struct place *p, const struct pz_field *f,
                                 const json_t *json, void *value) {
  void *at = (char *)value + f->offset;
  char where[300];
  switch (f->type) {
  case PZ_FIELD_REAL:
  case PZ_FIELD_REAL_OR_NULL:
  case PZ_FIELD_REAL_KNOWN: return read_real(p, f, json, at);
  case PZ_FIELD_INT:
    *(int64_t *)at = json_integer_value(json);
    return json_is_integer(json) ? PZ_OK : refuse(p, f, json, "an integer");
  case PZ_FIELD_COUNT: return read_count(p, f, json, at);
  case PZ_FIELD_BOOL:
    *(bool *)at = json_is_true(json);
    return json_is_boolean(json) ? PZ_OK : refuse(p, f, json, "true or false");
  case PZ_FIELD_TEXT:
  case PZ_FIELD_TEXT_OR_NULL: return read_text(p, f, json, at);
  case PZ_FIELD_ENUM: return read_enum(p, f, json, at);
  case PZ_FIELD_STRUCT:
    snprintf(where, sizeof where, "%s.%s", p->where, f->key);
    return pz_record_read(f->record, json, where, p->arena, at, p->err);
  case PZ_FIELD_OPTIONAL: return read_optional(p, f, json, at);
  case PZ_FIELD_LIST:
  case PZ_FIELD_TABLE: return read_many(p, f, json, value);
  case PZ_FIELD_CUSTOM: return f->codec->read ? f->codec->read(json, p->arena, at, p->err) : PZ_OK;
  }
  return pz_fail(p->err, PZ_INTERNAL, "%s.%s: a field of no type", p->where, f->key);
}

static bool has_key(const struct pz_record *r, const char *key) {
  for (size_t i = 0; i < r->n_fields; i++)
    if (strcmp(r->fields[i].key, key) == 0) return true;
  return false;
}

enum pz_status pz_record_read(const struct pz_record *r, const json_t *json, const char *where,
                              struct pz_arena *arena, void *value, struct pz_error *err) {
  struct place p = {where, arena, err};
  const char *key;
  json_t *v;
  if (!json_is_object(json))
    return pz_fail(err, PZ_BAD_INPUT, "%s: found %s; accepted: an object", where,
                   pz_json_type(json));
  json_object_foreach((json_t *)(uintptr_t)json, key, v) if (!has_key(r, key)) return pz_fail(
      err, PZ_BAD_INPUT, "%s: unknown key '%s'", where, key);
  for (size_t i = 0; i < r->n_fields; i++) {
    const json_t *one = json_object_get(json, r->fields[i].key);
    if (!one) return pz_fail(err, PZ_BAD_INPUT, "%s: '%s' is missing", where, r->fields[i].key);
    enum pz_status status = read_field(&p, &r->fields[i], one, value);
    if (status != PZ_OK) return status;
  }
  return PZ_OK;
}

void pz_record_parse(struct pz_call *call, const struct pz_record *r, const json_t *json,
                     const char *where, void *value) {
  pz_must(call, pz_record_read(r, json, where, call->arena, value, pz_call_error(call)));
}
