/* Access to the fields of a plan by number or name, as plan_fields.def describes them: printing and
 * reading a field as text or JSON, comparing it with its unset value, and copying it. */
#ifndef PZ_PLAN_PLAN_FIELDS_H
#define PZ_PLAN_PLAN_FIELDS_H

#include "core/call.h"
#include "core/json.h"

enum pz_plan_kind {
  PZ_PLAN_KIND_COUNT,  /* int64_t */
  PZ_PLAN_KIND_NUMBER, /* int */
  PZ_PLAN_KIND_CHOICE, /* int, an index in `names` */
  PZ_PLAN_KIND_SET,    /* int with a bit for each word in `names` */
  PZ_PLAN_KIND_SWITCH, /* int that is 0 or 1 */
  PZ_PLAN_KIND_FLAG,   /* bool */
  PZ_PLAN_KIND_REAL,   /* double */
  PZ_PLAN_KIND_TEXT,   /* const char * */
  PZ_PLAN_KIND_LIST,   /* const int64_t *, a number for each stage; not read from text */
  PZ_PLAN_KIND_LENGTH  /* int64_t, the length of the list; not read from text */
};

/* Programs that launch training, each of which has its own names for the fields of a plan. */
enum pz_launcher {
  PZ_LAUNCH_MEGATRON,
  PZ_LAUNCH_BRIDGE,
  PZ_LAUNCH_TITAN,
  PZ_LAUNCH_DEEPSPEED,
  PZ_LAUNCHERS
};

struct pz_plan_field_info {
  const char *name;
  enum pz_plan_kind kind;
  size_t offset, bytes; /* position in struct pz_plan, and size there */
  double unset, least, most;
  const char *help;
  const char *const *names; /* words of a choice or a set; NULL after the last */
  const char *column;       /* column in tables of runs, or NULL if it has the field's name */
  const char *from;         /* origin of an unset value, or NULL for the framework's default */
  /* Argument of each launcher for this field, or NULL if it has none that is a plain number. */
  const char *in[PZ_LAUNCHERS];
  bool search; /* `phaze place` searches its values */
  bool rare;   /* matters only if it is above 0 */
};

/* Returns the description of a field. */
const struct pz_plan_field_info *pz_plan_field(enum pz_plan_field field);

/* Returns word i of a list that ends with NULL, or "-" if there is none. */
const char *pz_plan_word(const char *const *names, int i);

/* Returns the name of field i, or NULL after the last one (pz_name_at). */
const char *pz_plan_field_at(const void *unused, size_t i);

/* Returns the field with this name, or PZ_PLAN_FIELDS. */
enum pz_plan_field pz_plan_field_find(const char *name);

/* Returns whether the field is unset, as in pz_plan_default(). */
bool pz_plan_is_unset(const struct pz_plan *plan, enum pz_plan_field field);

/* Returns a number below, equal to or above 0 as the value of a field in one plan comes before, is
 * equal to or comes after its value in another. */
int pz_plan_field_compare(const struct pz_plan *a, const struct pz_plan *b,
                          enum pz_plan_field field);

/* Raises PZ_BAD_USE if a field is neither unset nor in its range. */
void pz_require_plan_ranges(struct pz_call *call, const struct pz_plan *plan);

/* Writes the names of a set, separated by commas, or "none".  Returns buf. */
char *pz_set_text(const char *const *names, int set, char *buf, size_t size);

/* Sets a field from text; "" unsets it.  A set is "none", "all", or names separated by commas or
 * spaces.  The value of a text field is not copied.  Raises `status` for a text that the field does
 * not accept: PZ_BAD_USE for an argument, PZ_BAD_INPUT for a file. */
void pz_read_plan_field(struct pz_call *call, enum pz_status status, struct pz_plan *plan,
                        enum pz_plan_field field, const char *text);

/* Like pz_read_plan_field(), but returns false and the error in *why, which may be NULL, if the
 * field does not accept the text.  The plan is then unchanged. */
bool pz_try_plan_field(struct pz_plan *plan, enum pz_plan_field field, const char *text,
                       struct pz_error *why);

/* Sets a field to a number without checking its range; a choice is set to the position of its
 * name.  Texts and lists are unset. */
void pz_plan_field_store(struct pz_plan *plan, enum pz_plan_field field, double value);

/* Copies a field from another plan. */
void pz_plan_field_copy(struct pz_plan *to, const struct pz_plan *from, enum pz_plan_field field);

/* Returns whether the field matters in a filled plan.  For example, fields about experts do not
 * matter in a plan of a dense model. */
bool pz_plan_field_is_relevant(const struct pz_plan *plan, enum pz_plan_field field);

/* Returns a new reference to a JSON object with the fields of a plan that matter
 * (pz_plan_field_is_relevant), or NULL if memory ran out. */
json_t *pz_plan_json(const struct pz_plan *plan);

/* Sets a field from JSON; null unsets it.  Raises PZ_BAD_INPUT for a value out of range. */
void pz_read_plan_json_field(struct pz_call *call, struct pz_plan *plan, enum pz_plan_field field,
                             const json_t *json);

#endif
