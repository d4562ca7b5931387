/* The fields of a plan one by one, by the table of plan_fields.def: as text and from text, as JSON and from JSON, and which of
 * them are set. */
#ifndef PZ_PLAN_PLAN_FIELDS_H
#define PZ_PLAN_PLAN_FIELDS_H

#include "core/call.h"
#include "core/json.h"

enum pz_plan_kind {
  PZ_PLAN_KIND_COUNT,  /* int64_t */
  PZ_PLAN_KIND_NUMBER, /* int */
  PZ_PLAN_KIND_CHOICE, /* int: the index in names */
  PZ_PLAN_KIND_SET,    /* int: a bit for each of names */
  PZ_PLAN_KIND_SWITCH, /* int: 0, 1 */
  PZ_PLAN_KIND_FLAG,   /* bool */
  PZ_PLAN_KIND_REAL,   /* double */
  PZ_PLAN_KIND_TEXT,   /* const char * */
  PZ_PLAN_KIND_LIST, /* const int64_t *, a number for each stage; this kind and the next have no text */
  PZ_PLAN_KIND_LENGTH /* int64_t: the length of the list */
};

/* Launchers of training, by the names that they have for a plan's fields. */
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
  size_t offset;
  double unset, least, most;
  const char *help;
  const char *const *names; /* of a choice or a set; ends with NULL */
  const char *column;       /* name in tables of runs; NULL: the field's name */
  const char *from;         /* what an unset value follows from; NULL: the framework */
  const char
      *in[PZ_LAUNCHERS]; /* the launcher's argument; NULL: it has none that is a plain number */
  bool search;           /* place searches its values */
  bool rare;             /* is only reported if it is above 0 */
};

const struct pz_plan_field_info *pz_plan_field(enum pz_plan_field field);

/* Returns word i of a list that ends with NULL, or "-" if there is none. */
const char *pz_plan_word(const char *const *names, int i);

/* Returns the field with this name, or PZ_PLAN_FIELDS. */
enum pz_plan_field pz_plan_field_find(const char *name);

/* Does the field have the value of pz_plan_default()? */
bool pz_plan_is_unset(const struct pz_plan *plan, enum pz_plan_field field);

/* Raises PZ_BAD_USE if a field is neither unset nor in its range. */
void pz_require_plan_ranges(struct pz_call *call, const struct pz_plan *plan);

/* Writes the words of a set with commas, or "none".  Returns buf. */
char *pz_set_text(const char *const *names, int set, char *buf, size_t size);

/* Reads a field from text; "" unsets it.  A set is a list of words with commas or spaces between them, "none" or "all".  A text is not
 * copied.  Raises PZ_BAD_USE. */
void pz_read_plan_field(struct pz_call *call, struct pz_plan *plan, enum pz_plan_field field,
                        const char *text);

/* Like pz_read_plan_field(), but returns false and the error in *why, which may be NULL, if the field does not accept
 * the text.  The plan is then unchanged. */
bool pz_try_plan_field(struct pz_plan *plan, enum pz_plan_field field, const char *text,
                       struct pz_error *why);

/* Stores a number in a field without checking its range: of a choice the position.  Texts and lists are unset. */
void pz_plan_field_store(struct pz_plan *plan, enum pz_plan_field field, double v);

/* Copies a field from another plan. */
void pz_plan_field_copy(struct pz_plan *to, const struct pz_plan *from, enum pz_plan_field field);

/* Does a filled plan say something by this field?  Fields about experts, modules and saved activations often do not. */
bool pz_plan_field_is_relevant(const struct pz_plan *plan, enum pz_plan_field field);

/* Returns a plan as an object with the fields of pz_plan_field_is_relevant(); null stands for an unset one.  A new reference; NULL: out of
 * memory. */
json_t *pz_plan_json(const struct pz_plan *plan);

/* Reads a field from JSON; null unsets it.  Raises PZ_BAD_INPUT. */
void pz_read_plan_json_field(struct pz_call *call, struct pz_plan *plan, enum pz_plan_field field,
                             const json_t *json);

#endif
