/* Changes of a plan as people write them: "tp 8, pp 2, recompute full", options of predict, or the text of a plan that was
 * printed.  A text is cut into words at spaces, commas, "=" and parentheses.  From left to right each word begins a field
 * with its value, or a phrase of the table below (what pz_plan_text and pz_plan_line print beside names of fields), or is a
 * value of one of a few fields ("eager").  "tp 8 -> 4", as diff prints a change, is tp 4. */
#include <stdlib.h>
#include <string.h>

#include "core/held.h"
#include "core/status.h"
#include "core/text.h"
#include "plan/framework_rules.h"
#include "plan/plan_fields.h"
#include "plan/plan_fill.h"

/* "#" stands for a word: the field's value, where the row has none.  PZ_PLAN_FIELDS: says nothing. */
static const struct phrase {
  const char *words;
  enum pz_plan_field field;
  const char *value;
} phrases[] = {{"with sp", PZ_PLAN_SP, "on"},
               {"x etp #", PZ_PLAN_ETP, NULL},
               {"x # chunks", PZ_PLAN_VPP, NULL},
               {"x #", PZ_PLAN_VPP, NULL},
               {"in two halves", PZ_PLAN_HALVES, "on"},
               {"in halves", PZ_PLAN_HALVES, "on"},
               {"in #", PZ_PLAN_PIPELINE, NULL},
               {"over #", PZ_PLAN_SHARD, NULL},
               {"activations", PZ_PLAN_OFFLOAD, "activations"},
               {"# and", PZ_PLAN_FIRST_LAYERS, NULL},
               {"# layers at the ends", PZ_PLAN_LAST_LAYERS, NULL},
               {"the first # layers bf16", PZ_PLAN_BF16_FIRST_LAYERS, NULL},
               {"the last # layers bf16", PZ_PLAN_BF16_LAYERS, NULL},
               {"bf16 #", PZ_PLAN_BF16_MODULES, NULL},
               {"# GEMMs", PZ_PLAN_PRECISION, NULL},
               {"# dispatcher", PZ_PLAN_DISPATCHER, NULL},
               {"# attention", PZ_PLAN_ATTENTION, NULL},
               {"CUDA graphs #", PZ_PLAN_CUDA_GRAPHS, NULL},
               {"# layers a chunk", PZ_PLAN_RECOMPUTE_LAYERS, NULL},
               {"of # layers a chunk", PZ_PLAN_OFFLOAD_LAYERS, NULL},
               {"# of", PZ_PLAN_OFFLOAD_FRACTION, NULL},
               {"the optimizer", PZ_PLAN_OFFLOAD, "optimizer"},
               {"and", PZ_PLAN_FIELDS, NULL},
               {"on the host", PZ_PLAN_FIELDS, NULL}};

/* Fields whose values may stand alone. */
static const enum pz_plan_field bare[] = {PZ_PLAN_FRAMEWORK, PZ_PLAN_CP_FORM, PZ_PLAN_EXECUTION,
                                          PZ_PLAN_FP8_RECIPE, PZ_PLAN_RECOMPUTE_MODULES};

enum { MOST_WORDS = 256 };

struct plan_words {
  struct {
    char *text;
    bool after_comma, tight; /* tight: nothing else is between the words */
  } word[MOST_WORDS];
  int n, at;               /* at: the next one */
  struct pz_run_plan *run; /* its chip and cluster change */
  struct pz_plan given;
  struct pz_arena *arena;
  struct pz_error *err;
};

/* Of "tp 8 -> 4", the value that was is left out. */
static enum pz_status split_words(struct plan_words *w, const char *text) {
  static const char separators[] = " \t\r\n=(),;";
  char *at = pz_arena_strdup(w->arena, text);
  if (!at) return pz_fail(w->err, PZ_NO_MEMORY, "out of memory for the changes of a plan");
  for (;;) {
    size_t gap = strspn(at, separators), n = strcspn(at + gap, separators);
    bool comma = strcspn(at, ",;") < gap, arrow = n == 2 && memcmp(at + gap, "->", 2) == 0;
    memset(at, 0, gap);
    at += gap;
    if (!n) return PZ_OK;
    if (w->n == MOST_WORDS)
      return pz_fail(w->err, PZ_LIMIT, "more than %d words; accepted: at most %d", MOST_WORDS,
                     MOST_WORDS);
    w->word[w->n].text = at;
    w->word[w->n].after_comma = comma;
    w->word[w->n].tight = comma && gap == 1;
    w->n += arrow ? -(w->n > 0) : 1;
    at += n;
  }
}

/* The next word, if it belongs to what is read; else NULL. */
static const char *next_word(const struct plan_words *w) {
  return w->at < w->n && !w->word[w->at].after_comma ? w->word[w->at].text : NULL;
}

/* The value behind the name of a field, or of the chip or the cluster. */
static enum pz_status take_value(struct plan_words *w, const char *name, const char **value) {
  *value = next_word(w);
  if (*value) return w->at++, PZ_OK;
  return pz_fail(w->err, PZ_BAD_USE, "%s has no value; accepted: %s with a value", name, name);
}

/* ---- one field ------------------------------------------------------------------------------ */

static const char *field_at(const void *ctx, size_t i) {
  (void)ctx;
  return pz_plan_field_name((enum pz_plan_field)i);
}

/* "recompute-layers" and "--tp" too; PZ_PLAN_FIELDS: none. */
static enum pz_plan_field field_named(const char *word) {
  char name[40];
  pz_text_copy(name, sizeof name, word + strspn(word, "-"));
  for (char *c = name; *c; c++)
    if (*c == '-') *c = '_';
  return pz_plan_field_find(name);
}

static bool is_name(const char *const *names, const char *word) {
  while (*names && !pz_text_same(*names, word)) names++;
  return *names != NULL;
}

/* Reads the value of a field; words of a set follow each other with commas. */
static enum pz_status set_field(struct plan_words *w, enum pz_plan_field f, const char *value) {
  const struct pz_plan_field_info *x = pz_plan_field(f);
  char was[PZ_FIELD_TEXT_MOST];
  bool again = !pz_plan_is_unset(&w->given, f), set = x->kind == PZ_PLAN_KIND_SET;
  pz_plan_field_text(&w->given, f, was, sizeof was);
  if (again && !set)
    return pz_fail(w->err, PZ_BAD_USE, "%s is given twice, %s and '%.40s'; accepted: one value",
                   x->name, was, value);
  if (again) value = pz_arena_printf(w->arena, "%s,%s", was, value);
  for (; value && set && w->at < w->n && w->word[w->at].after_comma; w->at++) {
    const char *more = w->word[w->at].text;
    bool field = !w->word[w->at].tight && field_named(more) != PZ_PLAN_FIELDS;
    if (field || !is_name(x->names, more)) break;
    value = pz_arena_printf(w->arena, "%s,%s", value, more);
  }
  if (value && x->kind == PZ_PLAN_KIND_REAL && strchr(value, '%'))
    value = pz_arena_printf(w->arena, "%.10g", strtod(value, NULL) / (x->most > 1 ? 1 : 100));
  return value ? pz_plan_field_read(&w->given, f, value, w->err)
               : pz_fail(w->err, PZ_NO_MEMORY, "out of memory for the changes of a plan");
}

/* A switch alone is on. */
static enum pz_status read_field(struct plan_words *w, enum pz_plan_field f) {
  static const char *const states[] = {"on", "off", "true", "false", "1", "0", NULL};
  const struct pz_plan_field_info *x = pz_plan_field(f);
  bool state = x->kind == PZ_PLAN_KIND_SWITCH || x->kind == PZ_PLAN_KIND_FLAG;
  const char *value = next_word(w);
  if (state && (!value || !is_name(states, value))) return set_field(w, f, "on");
  return take_value(w, x->name, &value) == PZ_OK ? set_field(w, f, value) : PZ_BAD_USE;
}

/* ---- the text ------------------------------------------------------------------------------- */

/* Words of the phrase, if it is the next; else 0.  *value: the word at "#". */
static int phrase_length(const struct plan_words *w, const char *phrase, const char **value) {
  int n = 0;
  for (size_t length; *phrase; n++, phrase += length + (phrase[length] == ' ')) {
    length = strcspn(phrase, " ");
    if (w->at + n == w->n || (n && w->word[w->at + n].after_comma)) return 0;
    char *word = w->word[w->at + n].text;
    if (*phrase == '#')
      *value = word;
    else if (!pz_text_is(phrase, length, word))
      return 0;
  }
  return n;
}

static enum pz_status read_next(struct plan_words *w) {
  char *word = w->word[w->at].text, *name = word + strspn(word, "-"), meant[120];
  enum pz_plan_field f = field_named(word), off = PZ_PLAN_FIELDS;
  if (strncmp(name, "no-", 3) == 0) off = field_named(name + 3);
  for (size_t i = 0; f == PZ_PLAN_FIELDS && i < sizeof phrases / sizeof *phrases; i++) {
    const char *value = phrases[i].value;
    int length = phrase_length(w, phrases[i].words, &value);
    if (!length) continue;
    w->at += length;
    return phrases[i].field == PZ_PLAN_FIELDS ? PZ_OK : set_field(w, phrases[i].field, value);
  }
  w->at++;
  if (f != PZ_PLAN_FIELDS) return read_field(w, f);
  if (off != PZ_PLAN_FIELDS) return set_field(w, off, "off");
  if (strcmp(name, "chip") == 0) return take_value(w, name, &w->run->chip);
  if (strcmp(name, "cluster") == 0) return take_value(w, name, &w->run->cluster);
  if (word[strlen(word) - 1] == ':') word[strlen(word) - 1] = '\0'; /* "megatron: tp 8" */
  for (size_t i = 0; i < sizeof bare / sizeof *bare; i++)
    if (is_name(pz_plan_field(bare[i])->names, word)) return set_field(w, bare[i], word);
  if (strncmp(word, "lora:", 5) == 0) return set_field(w, PZ_PLAN_PEFT, word);
  return pz_fail(w->err, PZ_BAD_USE,
                 "'%.40s' is no field of a plan%s; accepted: fields and values, as 'tp 8, pp 2, "
                 "recompute full'",
                 word, pz_text_meant(meant, sizeof meant, name, field_at, NULL));
}

/* Devices and batch stay where they only follow from degrees; an overlap is as the framework has it for the new ones. */
static void change_run(struct pz_run_plan *r, const struct pz_plan *given) {
  struct pz_plan filled = r->plan;
  bool stay = (filled.devices || filled.dp) && !given->dp;
  if (stay && pz_plan_fill(&filled, NULL, NULL) == PZ_OK) {
    r->plan.devices = filled.devices;
    r->plan.batch = filled.batch;
  }
  pz_run_plan_change(r, given);
  filled = r->plan;
  bool follows = given->overlap < 0 && filled.overlap >= 0;
  if (follows && pz_plan_fill(&filled, NULL, NULL) == PZ_OK)
    r->plan.overlap = pz_framework_overlap(&filled, NULL);
}

enum pz_status pz_run_plan_with(const struct pz_run_plan *r, const char *changes,
                                struct pz_run_plan **out, struct pz_error *err) {
  struct pz_arena *arena;
  struct pz_error why = {0};
  void *made = NULL;
  enum pz_status status = pz_need_each(err, {r, "run"}, {changes, "changes"}, {out, "out"});
  if (status == PZ_OK) status = pz_held_new(sizeof **out, "the run", &made, &arena, err);
  if (status != PZ_OK) return status;
  struct pz_run_plan *own = made;
  struct plan_words w = {.run = own, .given = pz_plan_default(), .arena = arena, .err = &why};
  *own = pz_run_plan_default();
  status = pz_sized_take(own, sizeof *own, r, "pz_run_plan_default", &why);
  if (status == PZ_OK) status = split_words(&w, changes);
  while (status == PZ_OK && w.at < w.n) status = read_next(&w);
  if (status == PZ_OK)
    change_run(own, &w.given);
  else
    status = pz_fail(err, status, "'%.60s': %s", changes, why.message);
  return pz_held_give(status, made, out);
}
