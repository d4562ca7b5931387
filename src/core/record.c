/* Structs as JSON and back: field_json() and read_field() switch over the types of fields. */
#include "core/record.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "core/text.h"

static json_t *field_json(const struct pz_field *field, const void *value);

/* Returns a text as JSON, or a placeholder if it is not UTF-8. */
json_t *pz_record_text(const char *text) {
  json_t *value = json_string(text);
  return value ? value : json_string("(not UTF-8)");
}

/* Returns n structs as a list of objects or, in a table, of rows with their fields' values. */
static json_t *items_json(const struct pz_field *field, const char *items, uint32_t n) {
  json_t *list = json_array();
  for (uint32_t i = 0; i < n && list; i++) {
    const char *item = items + i * field->record->size;
    bool is_table = field->type == PZ_FIELD_TABLE;
    json_t *element = is_table ? json_array() : pz_record_json(field->record, item);
    bool is_complete = true;
    for (size_t k = 0; is_table && is_complete && k < field->record->n_fields; k++)
      is_complete =
          json_array_append_new(element, field_json(&field->record->fields[k], item)) == 0;
    if (json_array_append_new(list, element) == 0 && is_complete) continue;
    json_decref(list);
    return NULL;
  }
  return list;
}

/* Returns the n numbers or texts of a field as a list. */
static json_t *values_json(const struct pz_field *field, const void *member, uint32_t n) {
  json_t *list = json_array();
  for (uint32_t i = 0; i < n && list; i++) {
    json_t *element = NULL;
    if (field->type == PZ_FIELD_REALS)
      element = json_real(((const double *)member)[i]);
    else if (field->type == PZ_FIELD_COUNTS)
      element = json_integer(((const uint32_t *)member)[i]);
    else if (field->type == PZ_FIELD_REAL_LIST)
      element = json_real((*(const double *const *)member)[i]);
    else if (field->type == PZ_FIELD_INT_LIST)
      element = json_integer((*(const int64_t *const *)member)[i]);
    else
      element = pz_record_text((*(const char *const *const *)member)[i]);
    if (json_array_append_new(list, element) == 0) continue;
    json_decref(list);
    return NULL;
  }
  return list;
}

/* Returns the field of the struct at `value` as JSON, or NULL if there is no memory. */
static json_t *field_json(const struct pz_field *field, const void *value) {
  if (field->via)
    value = *(const void *const *)(const void *)((const char *)value + field->via_offset);
  if (!value) return json_null();
  const char *member = (const char *)value + field->offset;
  const void *count = (const char *)value + field->count_offset;
  uint32_t n = 0; /* items of a list */
  if (field->count_offset)
    n = field->wide_count ? (uint32_t) * (const int64_t *)count : *(const uint32_t *)count;
  switch (field->type) {
  case PZ_FIELD_REAL: return json_real(*(const double *)(const void *)member);
  case PZ_FIELD_REAL_OR_NULL:
  case PZ_FIELD_REAL_KNOWN: {
    double real = *(const double *)(const void *)member;
    bool is_known = field->type == PZ_FIELD_REAL_KNOWN ? real != 0 : !isnan(real);
    return is_known ? json_real(real) : json_null();
  }
  case PZ_FIELD_INT: return json_integer(*(const int64_t *)(const void *)member);
  case PZ_FIELD_COUNT: return json_integer(*(const uint32_t *)(const void *)member);
  case PZ_FIELD_BIG_COUNT:
    return json_integer((json_int_t) * (const uint64_t *)(const void *)member);
  case PZ_FIELD_BOOL: return json_boolean(*(const bool *)(const void *)member);
  case PZ_FIELD_TEXT:
  case PZ_FIELD_TEXT_OR_NULL: {
    const char *text = *(const char *const *)(const void *)member;
    return text ? pz_record_text(text) : json_null();
  }
  case PZ_FIELD_CHARS: return pz_record_text(member);
  case PZ_FIELD_CHARS_KNOWN: return *member ? pz_record_text(member) : json_null();
  case PZ_FIELD_REALS:
  case PZ_FIELD_COUNTS: return values_json(field, member, field->length);
  case PZ_FIELD_REAL_LIST:
  case PZ_FIELD_INT_LIST:
  case PZ_FIELD_TEXTS: return values_json(field, member, n);
  case PZ_FIELD_ENUM: return json_string(field->names[*(const unsigned *)(const void *)member]);
  case PZ_FIELD_STRUCT: return pz_record_json(field->record, member);
  case PZ_FIELD_FLAT:
    return field->codec ? field->codec->write(member) : pz_record_json(field->record, member);
  case PZ_FIELD_OPTIONAL: {
    const void *target = *(const void *const *)(const void *)member;
    return target ? pz_record_json(field->record, target) : json_null();
  }
  case PZ_FIELD_LIST:
  case PZ_FIELD_TABLE: {
    const char *items = *(const char *const *)(const void *)member;
    if (field->type == PZ_FIELD_LIST) return items_json(field, items, n);
    json_t *columns = json_array(), *rows = items_json(field, items, n);
    bool is_complete = columns && rows;
    for (size_t k = 0; k < field->record->n_fields && is_complete; k++)
      is_complete = json_array_append_new(columns, json_string(field->record->fields[k].key)) == 0;
    json_t *table = is_complete ? json_pack("{s:O,s:O}", "columns", columns, "rows", rows) : NULL;
    json_decref(columns);
    json_decref(rows);
    return table;
  }
  case PZ_FIELD_CUSTOM: return field->codec->write(member);
  }
  return NULL;
}

/* Returns whether a JSON value is null, false, 0, an empty text or an empty array. */
static bool is_empty(const json_t *json) {
  return json_is_null(json) || json_is_false(json) ||
         (json_is_number(json) && !(json_number_value(json) != 0)) ||
         (json_is_string(json) && json_string_length(json) == 0) ||
         (json_is_array(json) && json_array_size(json) == 0);
}

/* Returns a struct as a JSON object, or NULL if memory runs out or a number is not finite. */
json_t *pz_record_json(const struct pz_record *record, const void *value) {
  json_t *object = json_object();
  for (size_t i = 0; i < record->n_fields && object; i++) {
    const struct pz_field *field = &record->fields[i];
    json_t *json = field_json(field, value);
    int failed = 0;
    bool is_absent = field->type == PZ_FIELD_FLAT && json_is_null(json);
    bool omitted = is_absent || (field->omitted == PZ_OMITTED_IF_EMPTY && is_empty(json)) ||
                   (field->omitted == PZ_OMITTED_IF_NULL && json_is_null(json));
    if (omitted) {
      json_decref(json);
    } else if (json && field->type == PZ_FIELD_FLAT) {
      failed = json_object_update(object, json);
      json_decref(json);
    } else {
      failed = json_object_set_new(object, field->key, json);
    }
    if (failed == 0) continue;
    json_decref(object);
    return NULL;
  }
  return object;
}

static void read_field(struct pz_call *call, const struct pz_field *field, const json_t *json,
                       const char *where, void *value);

/* Raises "WHERE.KEY: found ...; accepted: ..." for a field. */
static _Noreturn void raise_field(struct pz_call *call, const char *where,
                                  const struct pz_field *field, const json_t *found,
                                  const char *accepted) {
  pz_raise(call, PZ_BAD_INPUT, "%s.%s: found %s; accepted: %s", where, field->key,
           pz_json_type(found), accepted);
}

/* Returns the string of a text field, or NULL for null where the type allows it. */
static const char *read_text(struct pz_call *call, const struct pz_field *field, const json_t *json,
                             const char *where) {
  const char *text = json_string_value(json);
  bool may_be_null = field->type == PZ_FIELD_TEXT_OR_NULL;
  if (may_be_null && json_is_null(json)) return NULL;
  if (!text) raise_field(call, where, field, json, may_be_null ? "a string, or null" : "a string");
  if (!pz_text_is_plain(text))
    raise_field(call, where, field, json, "one without control characters");
  return pz_copy_text(call, text);
}

/* Returns the position of a string among the names of an enum. */
static unsigned read_enum(struct pz_call *call, const struct pz_field *field, const json_t *json,
                          const char *where) {
  const char *name = json_string_value(json);
  for (unsigned i = 0; name && field->names[i]; i++)
    if (strcmp(field->names[i], name) == 0) return i;
  raise_field(call, where, field, json, "one of the names this program writes");
}

/* Returns the number of a field, and NaN or 0 for null where the type allows it. */
static double read_real(struct pz_call *call, const struct pz_field *field, const json_t *json,
                        const char *where) {
  if (json_is_number(json)) return json_number_value(json);
  bool may_be_null = field->type != PZ_FIELD_REAL;
  if (!may_be_null || !json_is_null(json)) raise_field(call, where, field, json, "a number");
  return field->type == PZ_FIELD_REAL_OR_NULL ? (double)NAN : 0;
}

/* Reads a list of objects, or a table: {columns, rows} with the values of each row in the order of
 * the record's fields.  Stores the structs and their number in the struct at `value`. */
static void read_items(struct pz_call *call, const struct pz_field *field, const json_t *json,
                       const char *where, void *value) {
  const struct pz_record *record = field->record;
  const json_t *list = json;
  if (field->type == PZ_FIELD_TABLE) {
    const json_t *columns = json_object_get(json, "columns");
    bool has_our_columns = json_array_size(columns) == record->n_fields;
    for (size_t k = 0; k < record->n_fields && has_our_columns; k++) {
      const char *key = json_string_value(json_array_get(columns, k));
      has_our_columns = key && strcmp(key, record->fields[k].key) == 0;
    }
    if (!has_our_columns)
      raise_field(call, where, field, json, "a table with the columns that this program writes");
    list = json_object_get(json, "rows");
  }
  size_t n = json_array_size(list);
  if (!json_is_array(list)) raise_field(call, where, field, list, "an array");
  if (n > PZ_RECORD_MOST)
    raise_field(call, where, field, list, "an array of at most 2097152 items");
  char *items = pz_alloc(call, n, record->size);
  for (size_t i = 0; i < n; i++) {
    const json_t *element = json_array_get(list, i);
    char *item = items + i * record->size, item_where[300];
    snprintf(item_where, sizeof item_where, "%s.%s[%zu]", where, field->key, i);
    if (field->type == PZ_FIELD_LIST) {
      pz_record_parse(call, record, element, item_where, item);
      continue;
    }
    if (json_array_size(element) != record->n_fields)
      pz_raise(call, PZ_BAD_INPUT, "%s: a row of %zu values; accepted: %zu", item_where,
               json_array_size(element), record->n_fields);
    for (size_t k = 0; k < record->n_fields; k++)
      read_field(call, &record->fields[k], json_array_get(element, k), item_where, item);
  }
  uint32_t count = (uint32_t)n;
  memcpy((char *)value + field->offset, &items, sizeof items);
  memcpy((char *)value + field->count_offset, &count, sizeof count);
}

/* Reads the field of the struct at `value`; `where` is the place of the struct in messages. */
static void read_field(struct pz_call *call, const struct pz_field *field, const json_t *json,
                       const char *where, void *value) {
  void *member = (char *)value + field->offset;
  char inner_where[300];
  switch (field->type) {
  case PZ_FIELD_REAL:
  case PZ_FIELD_REAL_OR_NULL:
  case PZ_FIELD_REAL_KNOWN: *(double *)member = read_real(call, field, json, where); break;
  case PZ_FIELD_INT:
    if (!json_is_integer(json)) raise_field(call, where, field, json, "an integer");
    *(int64_t *)member = json_integer_value(json);
    break;
  case PZ_FIELD_COUNT: {
    json_int_t count = json_integer_value(json);
    if (!json_is_integer(json) || count < 0 || count > UINT32_MAX)
      raise_field(call, where, field, json, "an integer from 0 to 4294967295");
    *(uint32_t *)member = (uint32_t)count;
    break;
  }
  case PZ_FIELD_BIG_COUNT:
    if (!json_is_integer(json) || json_integer_value(json) < 0)
      raise_field(call, where, field, json, "an integer from 0");
    *(uint64_t *)member = (uint64_t)json_integer_value(json);
    break;
  case PZ_FIELD_BOOL:
    if (!json_is_boolean(json)) raise_field(call, where, field, json, "true or false");
    *(bool *)member = json_is_true(json);
    break;
  case PZ_FIELD_TEXT:
  case PZ_FIELD_TEXT_OR_NULL: *(const char **)member = read_text(call, field, json, where); break;
  case PZ_FIELD_ENUM: *(unsigned *)member = read_enum(call, field, json, where); break;
  case PZ_FIELD_STRUCT:
    snprintf(inner_where, sizeof inner_where, "%s.%s", where, field->key);
    pz_record_parse(call, field->record, json, inner_where, member);
    break;
  case PZ_FIELD_OPTIONAL: {
    void *target = NULL;
    snprintf(inner_where, sizeof inner_where, "%s.%s", where, field->key);
    if (!json_is_null(json)) {
      target = pz_alloc(call, 1, field->record->size);
      pz_record_parse(call, field->record, json, inner_where, target);
    }
    memcpy(member, &target, sizeof target);
    break;
  }
  case PZ_FIELD_LIST:
  case PZ_FIELD_TABLE: read_items(call, field, json, where, value); break;
  case PZ_FIELD_CUSTOM:
    if (field->codec->read) field->codec->read(call, json, member);
    break;
  case PZ_FIELD_CHARS:
  case PZ_FIELD_CHARS_KNOWN:
  case PZ_FIELD_REAL_LIST:
  case PZ_FIELD_INT_LIST:
  case PZ_FIELD_REALS:
  case PZ_FIELD_COUNTS:
  case PZ_FIELD_TEXTS:
  case PZ_FIELD_FLAT: pz_raise(call, PZ_INTERNAL, "%s.%s is only written", where, field->key);
  }
}

/* Reads an object into the struct *value; `where` is its place in messages. */
void pz_record_parse(struct pz_call *call, const struct pz_record *record, const json_t *json,
                     const char *where, void *value) {
  if (!json_is_object(json))
    pz_raise(call, PZ_BAD_INPUT, "%s: found %s; accepted: an object", where, pz_json_type(json));
  json_t *object = (json_t *)(uintptr_t)json; /* jansson's iterators have no const variant */
  for (void *pair = json_object_iter(object); pair; pair = json_object_iter_next(object, pair)) {
    const char *key = json_object_iter_key(pair);
    bool is_known = false;
    for (size_t k = 0; k < record->n_fields; k++)
      is_known = is_known || strcmp(record->fields[k].key, key) == 0;
    if (!is_known) pz_raise(call, PZ_BAD_INPUT, "%s: unknown key '%s'", where, key);
  }
  for (size_t i = 0; i < record->n_fields; i++) {
    const struct pz_field *field = &record->fields[i];
    const json_t *member = json_object_get(json, field->key);
    if (!member) pz_raise(call, PZ_BAD_INPUT, "%s: '%s' is missing", where, field->key);
    read_field(call, field, member, where, value);
  }
}
