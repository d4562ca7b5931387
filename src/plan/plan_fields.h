/* The fields of a plan one by one, by the table of plan_fields.def: as text and from text, as JSON and from JSON, and
 * which of them differ. */
#ifndef PZ_PLAN_PLAN_FIELDS_H
#define PZ_PLAN_PLAN_FIELDS_H

#include "core/arena.h"
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
  PZ_PLAN_KIND_LIST,   /* const int64_t *: by stage; this and what follows is not told one by one */
  PZ_PLAN_KIND_LENGTH  /* int64_t: numbers of the list */
};

/* Frameworks that are launched, by the names of their arguments. */
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
  const char *const *names;     /* of a choice or a set, NULL behind the last */
  const char *column;           /* of a table of runs; NULL: its name */
  const char *from;             /* where an unset value comes from; NULL: the framework */
  const char *in[PZ_LAUNCHERS]; /* its argument there; NULL: no plain number */
  bool search;                  /* place searches it */
  bool rare;                    /* says something only above 0 */
};

const struct pz_plan_field_info *pz_plan_field(enum pz_plan_field f);

/* A word of a list that ends with NULL; "-" where a program's number has none. */
const char *pz_plan_word(const char *const *names, int i);

/* PZ_PLAN_FIELDS: there is none of this name. */
enum pz_plan_field pz_plan_field_find(const char *name);

/* Is it as in pz_plan_default()? */
bool pz_plan_is_unset(const struct pz_plan *p, enum pz_plan_field f);

/* PZ_BAD_USE: a field is neither unset nor in its range. */
PZ_NODISCARD enum pz_status pz_plan_check_ranges(const struct pz_plan *p, struct pz_error *err);

/* Words of a set with commas; "none" for none.  Returns buf. */
char *pz_set_text(const char *const *names, int set, char *buf, size_t size);

/* Read it from a text, "" unsets it; sets with commas or spaces between words, or "none", "all".  PZ_BAD_USE: the
 * message says what was found and what is accepted.  A text is kept as it is. */
PZ_NODISCARD enum pz_status pz_plan_field_read(struct pz_plan *p, enum pz_plan_field f,
                                               const char *text, struct pz_error *err);

/* Set it to a number, whatever its range: a choice by its position; of texts and lists: unset. */
void pz_plan_field_store(struct pz_plan *p, enum pz_plan_field f, double v);

/* Set it as another plan has it. */
void pz_plan_field_copy(struct pz_plan *to, const struct pz_plan *from, enum pz_plan_field f);

/* Has a filled plan something to say by it?  Of experts, modules and saved results most have not. */
bool pz_plan_field_told(const struct pz_plan *p, enum pz_plan_field f);

/* A plan as an object with the names of its fields, of all that pz_plan_field_told; null for what is unset.  New
 * reference; NULL: no memory. */
json_t *pz_plan_json(const struct pz_plan *p);

/* Read a field from JSON; null unsets it.  The arena holds texts.  PZ_BAD_INPUT. */
PZ_NODISCARD enum pz_status pz_plan_field_from_json(struct pz_plan *p, enum pz_plan_field f,
                                                    const json_t *j, struct pz_arena *arena,
                                                    struct pz_error *err);

#endif
