/* A record is a struct whose fields are described once, in a table: the key, the type, the unit
 * and the meaning of each field.  From the table follow the JSON of the struct, its reader, its
 * schema in doc/fields.md, and columns of text tables.  The reader has limits and messages of its
 * own: a missing field, a field of another type and a key that is not in the table are errors that
 * name the place. */
#ifndef PZ_CORE_RECORD_H
#define PZ_CORE_RECORD_H

#include "core/call.h"
#include "core/json.h"

enum pz_field_type {
  PZ_FIELD_REAL,         /* double */
  PZ_FIELD_REAL_OR_NULL, /* double; NaN is null */
  PZ_FIELD_REAL_KNOWN,   /* double; 0 means unknown and is null */
  PZ_FIELD_INT,          /* int64_t */
  PZ_FIELD_COUNT,        /* uint32_t */
  PZ_FIELD_BIG_COUNT,    /* uint64_t, at most INT64_MAX */
  PZ_FIELD_BOOL,
  PZ_FIELD_TEXT,         /* const char *, never NULL */
  PZ_FIELD_TEXT_OR_NULL, /* const char *; NULL is null */
  PZ_FIELD_CHARS,        /* an array of char in the struct, ended by NUL; only written */
  PZ_FIELD_CHARS_KNOWN,  /* the same; "" is null */
  PZ_FIELD_REALS,        /* an array of `length` double in the struct; only written */
  PZ_FIELD_REAL_LIST,    /* a pointer to double, and the count of a list; only written */
  PZ_FIELD_INT_LIST,     /* a pointer to int64_t, and the count of a list; only written */
  PZ_FIELD_COUNTS,       /* an array of `length` uint32_t in the struct; only written */
  PZ_FIELD_TEXTS,        /* a pointer to texts and a uint32_t count: an array; only written */
  PZ_FIELD_ENUM,         /* an enum, by its name in `names` */
  PZ_FIELD_STRUCT,       /* a struct within the struct */
  PZ_FIELD_FLAT,     /* a struct within the struct: its fields stand among the outer ones, or are
                          * missing if it is behind a pointer that is NULL; only written */
  PZ_FIELD_OPTIONAL, /* a pointer to a struct; NULL is null */
  PZ_FIELD_LIST,     /* a pointer to structs and a uint32_t count: an array of objects */
  PZ_FIELD_TABLE,    /* like a list, but {columns, rows}: for long lists of numbers and texts */
  PZ_FIELD_CUSTOM    /* whatever its codec reads and writes */
};

/* When a field is left out of the object that is written. */
enum pz_field_omission {
  PZ_WRITTEN_ALWAYS,
  PZ_OMITTED_IF_EMPTY, /* if it is null, false, 0, "" or an empty array */
  PZ_OMITTED_IF_NULL
};

struct pz_record;

/* Functions for a field that no other type describes.  `write` returns a new reference, or NULL if
 * there is no memory.  A field whose `read` is NULL is skipped by the reader.  The schema in
 * doc/fields.md is generated from `type` and `record`. */
struct pz_field_codec {
  json_t *(*write)(const void *value);
  void (*read)(struct pz_call *call, const json_t *json, void *value);
  const char *type; /* type of the JSON that `write` returns: "number", "array of numbers" */
  const struct pz_record *record; /* fields of the objects that `write` returns; NULL if none */
};

struct pz_field {
  const char *key;
  enum pz_field_type type;
  size_t offset, count_offset; /* offsets of the member and of the count of a list */
  const struct pz_record *record;
  const char *const *names; /* ends with NULL */
  const struct pz_field_codec *codec;
  const char *unit;    /* "s", "bytes", "ratio"; NULL: none */
  const char *meaning; /* one line for people; NULL: not described yet */
  uint32_t length;
  bool wide_count; /* the count of the list is an int64_t */
  bool via; /* the member belongs to the struct behind the pointer at via_offset; only written */
  size_t via_offset;
  enum pz_field_omission omitted;
};

struct pz_record {
  const struct pz_field *fields;
  size_t n_fields, size;
};

/* Defines the codec NAME_codec of a field that is only written, by the function write_NAME. */
#define PZ_CODEC(name, t, r)                                                                       \
  static const struct pz_field_codec name##_codec = {.write = write_##name, .type = t, .record = r}

/* Rows of a table of fields. */
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
/* The same with unit and meaning; `...` may hold further members of struct pz_field. */
#define PZ_ROW(s, f, t, unit_, ...)                                                                \
  { .key = #f, .type = (t), .offset = offsetof(s, f), .unit = (unit_), .meaning = __VA_ARGS__ }
#define PZ_ROW_AS(s, f, t, name, unit_, ...)                                                       \
  { .key = (name), .type = (t), .offset = offsetof(s, f), .unit = (unit_), .meaning = __VA_ARGS__ }
#define PZ_ROW_NAMED(s, f, name, list, ...)                                                        \
  {                                                                                                \
    .key = (name), .type = PZ_FIELD_ENUM, .offset = offsetof(s, f), .names = (list),               \
    .meaning = __VA_ARGS__                                                                         \
  }
#define PZ_ROW_IN(s, f, t, name, r, ...)                                                           \
  { .key = (name), .type = (t), .offset = offsetof(s, f), .record = (r), .meaning = __VA_ARGS__ }
#define PZ_ROW_MANY(s, f, n, t, name, r, ...)                                                      \
  {                                                                                                \
    .key = (name), .type = (t), .offset = offsetof(s, f), .count_offset = offsetof(s, n),          \
    .record = (r), .meaning = __VA_ARGS__                                                          \
  }
/* A member of the struct S that the pointer p points to. */
#define PZ_ROW_VIA(s, p, S, f, t, name, unit_, ...)                                                \
  {                                                                                                \
    .key = (name), .type = (t), .via = true, .via_offset = offsetof(s, p),                         \
    .offset = offsetof(S, f), .unit = (unit_), .meaning = __VA_ARGS__                              \
  }
#define PZ_ROW_BY(s, f, name, c, ...)                                                              \
  {                                                                                                \
    .key = (name), .type = PZ_FIELD_CUSTOM, .offset = offsetof(s, f), .codec = (c),                \
    .meaning = __VA_ARGS__                                                                         \
  }
/* An object whose values are members of the same struct, described by the record r. */
#define PZ_ROW_PART(name, r, ...)                                                                  \
  { .key = (name), .type = PZ_FIELD_STRUCT, .record = (r), .meaning = __VA_ARGS__ }
/* The struct that the pointer p points to, which is not NULL, as an object. */
#define PZ_ROW_TO(s, p, r, ...)                                                                    \
  {                                                                                                \
    .key = #p, .type = PZ_FIELD_STRUCT, .via = true, .via_offset = offsetof(s, p), .record = (r),  \
    .meaning = __VA_ARGS__                                                                         \
  }
/* The fields of the struct that the pointer p points to, among those of the struct s. */
#define PZ_ROW_FLAT(s, p, r)                                                                       \
  { .key = "", .type = PZ_FIELD_FLAT, .via = true, .via_offset = offsetof(s, p), .record = (r) }
/* A field that `codec` computes from the whole struct. */
#define PZ_ROW_MADE(name, c, unit_, ...)                                                           \
  { .key = (name), .type = PZ_FIELD_CUSTOM, .codec = (c), .unit = (unit_), .meaning = __VA_ARGS__ }
#define PZ_RECORD(fields, s)                                                                       \
  { (fields), sizeof(fields) / sizeof *(fields), sizeof(s) }

/* Longest list that is read. */
enum { PZ_RECORD_MOST = 1 << 21 };

/* Returns a new JSON object with the fields of a struct in the order of the table, or NULL if
 * memory ran out or a number is not finite. */
json_t *pz_record_json(const struct pz_record *record, const void *value);

/* Returns a text as JSON.  A text that is not UTF-8, which JSON cannot contain, is written as
 * "(not UTF-8)". */
json_t *pz_record_text(const char *text);

/* Reads an object into *value, with lists and texts in the memory of the call.  `where` is the
 * place of the object in messages.  After an error the struct is partly filled and of no use. */
void pz_record_parse(struct pz_call *call, const struct pz_record *record, const json_t *json,
                     const char *where, void *value);

#endif
