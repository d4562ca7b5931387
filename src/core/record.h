/* Plain structs as JSON and back, by a table of their fields: what is written can be read, and both
 * are described once.  Reading has limits and messages of its own: a missing field, one of another
 * type and one that is not in the table are errors that say where. */
#ifndef PZ_CORE_RECORD_H
#define PZ_CORE_RECORD_H

#include "core/call.h"
#include "core/json.h"

enum pz_field_type {
  PZ_FIELD_REAL,         /* double */
  PZ_FIELD_REAL_OR_NULL, /* double; NaN is null */
  PZ_FIELD_REAL_KNOWN,   /* double; 0, not known, is null */
  PZ_FIELD_INT,          /* int64_t */
  PZ_FIELD_COUNT,        /* uint32_t */
  PZ_FIELD_BOOL,
  PZ_FIELD_TEXT,         /* const char *, never NULL */
  PZ_FIELD_TEXT_OR_NULL, /* const char *; NULL is null */
  PZ_FIELD_ENUM,         /* an enum, by the name at its index in `names` */
  PZ_FIELD_STRUCT,       /* in place */
  PZ_FIELD_OPTIONAL,     /* a pointer to one; NULL is null */
  PZ_FIELD_LIST,         /* a pointer, and its uint32_t count: an array of objects */
  PZ_FIELD_TABLE,        /* the same: {columns, rows}, for long lists of numbers and texts */
  PZ_FIELD_CUSTOM        /* by two functions */
};

struct pz_record;

/* How a field that is no record of ours is written and read.  `write` returns a new reference, NULL
 * when out of memory; `read` NULL: it is skipped. */
struct pz_field_codec {
  json_t *(*write)(const void *value);
  enum pz_status (*read)(const json_t *json, struct pz_arena *arena, void *value,
                         struct pz_error *err);
};

struct pz_field {
  const char *key;
  enum pz_field_type type;
  size_t offset, count_offset; /* the count's of a list or table */
  const struct pz_record *record;
  const char *const *names; /* ends with NULL */
  const struct pz_field_codec *codec;
};

struct pz_record {
  const struct pz_field *fields;
  size_t n_fields, size;
};

/* Rows of such tables. */
#define PZ_FIELD(s, f, t)                                                                          \
  { .key = #f, .type = (t), .offset = offsetof(s, f) }
#define PZ_FIELD_AS(s, f, t, name)                                                                 \
  { .key = (name), .type = (t), .offset = offsetof(s, f) }
#define PZ_FIELD_NAMED(s, f, name, list)                                                           \
  { .key = (name), .type = PZ_FIELD_ENUM, .offset = offsetof(s, f), .names = (list) }
#define PZ_FIELD_IN(s, f, t, name, r)                                                              \
  { .key = (name), .type = (t), .offset = offsetof(s, f), .record = (r) }
#define PZ_FIELD_MANY_AS(s, f, n, t, name, r)                                                      \
  {                                                                                                \
    .key = (name), .type = (t), .offset = offsetof(s, f), .count_offset = offsetof(s, n),          \
    .record = (r)                                                                                  \
  }
#define PZ_FIELD_MANY(s, f, t, name, r) PZ_FIELD_MANY_AS(s, f, n_##f, t, name, r)
#define PZ_FIELD_BY(s, f, name, c)                                                                 \
  { .key = (name), .type = PZ_FIELD_CUSTOM, .offset = offsetof(s, f), .codec = (c) }
#define PZ_RECORD(fields, s)                                                                       \
  { (fields), sizeof(fields) / sizeof *(fields), sizeof(s) }

/* Longest list that is read. */
enum { PZ_RECORD_MOST = 1 << 21 };

/* A struct as a JSON object, keys in the order of the table.  New reference; NULL: no memory, or a
 * number that is not finite. */
json_t *pz_record_json(const struct pz_record *r, const void *value);

/* Read an object into *value; lists and texts go to the arena.  `where` begins the place in
 * messages.  On error the struct is in part filled, and of no use. */
PZ_NODISCARD enum pz_status pz_record_read(const struct pz_record *r, const json_t *json,
                                           const char *where, struct pz_arena *arena, void *value,
                                           struct pz_error *err);

/* Like pz_record_read(), in the memory of the call. */
void pz_record_parse(struct pz_call *call, const struct pz_record *r, const json_t *json,
                     const char *where, void *value);

#endif
