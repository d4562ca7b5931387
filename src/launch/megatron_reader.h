/* The arguments of a run, which the files of the reader of Megatron-LM's arguments
 * (megatron_args.h) share. megatron_args.c fills them from the words of a script.  Then
 * megatron_plan.c, deepspeed_config.c and megatron_model.c turn them into the run's plan and
 * model. */
#ifndef PZ_LAUNCH_MEGATRON_READER_H
#define PZ_LAUNCH_MEGATRON_READER_H

#include "core/vec.h"
#include "launch/shell_words.h"
#include "plan/plan_file.h"

/* Numbers that identify arguments: PZ_PLAN_... for fields of the plan, otherwise ARG_.... */
enum {
  ARG_BEFORE = PZ_PLAN_FIELDS - 1, /* so that the first ARG_... follows the last PZ_PLAN_... */
#define ARGUMENT(id, kind, name) ARG_##id,
#define ALSO(value, kind, name)
#define SBATCH(id, kind, name) ARG_##id,
#include "launch/megatron_arguments.def"
#undef ARGUMENT
#undef ALSO
#undef SBATCH
  ARGS
};

/* The value that was given for an argument. */
struct pz_given_argument {
  bool is_given, is_flag;
  const char *name;    /* its spelling in the table of arguments */
  const char *text;    /* NULL for a flag */
  const char *unknown; /* a variable in the text whose value is unknown, or NULL */
  uint32_t line;
  int64_t count; /* value of a COUNT or AMOUNT */
  double real;   /* value of a REAL */
};

/* The state of reading a run from its arguments. */
struct pz_megatron_reader {
  struct pz_call *call;
  const char *name; /* name of the script, for messages */
  const char *text; /* the script */
  size_t bytes;
  const struct pz_run_plan_options *options;
  struct pz_shell_text words;
  struct pz_given_argument given[ARGS];
  struct pz_vec ignored, notes; /* const char * */
  uint32_t n_compared;          /* unknown names that were compared with known ones */
  const char *layer_letters; /* --hybrid-layer-pattern without bars, or NULL if no Mamba layers */
  const char *prediction_letters; /* letters of a layer of multi-token prediction, or "" */
  struct pz_run_plan *run;
};

/* ---- arguments that were given (megatron_args.c) -------------------------------------------- */

/* Returns whether the argument was given. */
bool pz_given(const struct pz_megatron_reader *reader, int argument);

/* Returns the number that was given, or `absent` if the argument was not given. */
int64_t pz_given_count(const struct pz_megatron_reader *reader, int argument, int64_t absent);

/* Returns whether the argument was given with this text. */
bool pz_given_is(const struct pz_megatron_reader *reader, int argument, const char *text);

/* Raises PZ_BAD_INPUT for the value of an argument; `accepted` is the rule. */
_Noreturn void pz_reject_given(struct pz_megatron_reader *reader, int argument,
                               const char *accepted);

/* Raises PZ_BAD_INPUT if an argument was not given; `name` names it. */
void pz_need_given(struct pz_megatron_reader *reader, int argument, const char *name);

/* Raises PZ_BAD_INPUT if an argument was given with another word than those of the text `accepted`,
 * for example "auto, flash or local; others are not covered". */
void pz_need_given_word(struct pz_megatron_reader *reader, int argument, const char *accepted);

/* Reads the text of an argument as an integer from 1 to 2^26. */
int64_t pz_read_given_count(struct pz_megatron_reader *reader, int argument);

/* Raises PZ_BAD_INPUT if an argument was given that is covered only for other kinds of models. */
void pz_refuse_uncovered(struct pz_megatron_reader *reader, int argument);

/* Notes that a field of the plan comes from `argument`, or from `other` if only that was given. */
void pz_set_origin(struct pz_megatron_reader *reader, int field, int argument, int other);

/* Appends a note about the run for people. */
void pz_megatron_add_note(struct pz_megatron_reader *reader, const char *note);

/* Lists a name as ignored. */
void pz_add_ignored(struct pz_megatron_reader *reader, const char *name);

/* Returns whether a name matches a list of patterns, which is NULL or ends with NULL.  Dashes and
 * underscores are the same, and a star at the end of a pattern stands for any rest. */
bool pz_name_is_among(const char *const *patterns, const char *name);

/* ---- from arguments to the run -------------------------------------------------------------- */

/* Reads the plan (megatron_plan.c). */
void pz_read_megatron_plan(struct pz_megatron_reader *reader);

/* Reads the configuration of DeepSpeed that the script writes (deepspeed_config.c). */
void pz_read_deepspeed_config(struct pz_megatron_reader *reader);

/* Reads the model as a config.json (megatron_model.c). */
void pz_read_megatron_model(struct pz_megatron_reader *reader);

/* Reads the letters of --hybrid-layer-pattern, which also give the number of layers. */
void pz_read_layer_letters(struct pz_megatron_reader *reader);

/* Returns whether the model has experts. */
static inline bool pz_has_experts(const struct pz_megatron_reader *reader) {
  return pz_given_count(reader, ARG_EXPERTS, 0) > 0;
}

#endif
