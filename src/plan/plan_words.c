/* A text is cut into words at spaces, commas, "=" and parentheses.  From left to right each word begins a field with its
 * value, a phrase of the table below (what pz_plan_text and pz_plan_line print beside names of fields), or is a value of
 * one of a few fields ("eager").  "tp 8 -> 4", as diff prints a change, is tp 4. */
#include "plan/plan_words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/held.h"
#include "core/status.h"
#include "core/text.h"
#include "plan/framework_rules.h"
#include "plan/plan_fill.h"

/* "#" stands for a word: the field's value, where the row has none.  PZ_PLAN_FIELDS: says nothing. */
static const struct phrase {
  const char *words;
  enum pz_plan_field field;
  const char *value;
} phrases[] = {
    {"with sp", PZ_PLAN_SP, "on"},
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
  int n;
  struct pz_plan *plan;
  uint64_t read; /* fields */
  struct pz_arena *arena;
  struct pz_error *err;
};

static enum pz_status words_no_memory(struct pz_error *err) {
  return pz_fail(err, PZ_NO_MEMORY, "out of memory for the changes of a plan");
}

static enum pz_status split_words(struct plan_words *w, const char *text) {
  static const char separators[] = " \t\r\n=(),;";
  char *at = pz_arena_strdup(w->arena, text);
  if (!at) return words_no_memory(w->err);
  for (;;) {
    size_t gap = strspn(at, separators);
    bool comma = strcspn(at, ",;") < gap;
    memset(at, 0, gap);
    at += gap;
    if (!*at) return PZ_OK;
    if (w->n == MOST_WORDS)
      return pz_fail(w->err, PZ_LIMIT, "'%.60s...'; accepted: at most %d words", text, MOST_WORDS);
    w->word[w->n].text = at;
    w->word[w->n].after_comma = comma;
    w->word[w->n++].tight = comma && gap == 1;
    at += strcspn(at, separators);
  }
}

/* ---- one field ------------------------------------------------------------------------------ */

static const char *field_at(const void *ctx, size_t i) {
  (void)ctx;
  while (i < PZ_PLAN_FIELDS && pz_plan_field((enum pz_plan_field)i)->kind >= PZ_PLAN_KIND_LIST) i++;
  return i < PZ_PLAN_FIELDS ? pz_plan_field((enum pz_plan_field)i)->name : NULL;
}

/* "recompute-layers" and "--tp" too; PZ_PLAN_FIELDS: none. */
static enum pz_plan_field field_named(const char *word) {
  char name[40];
  word += strspn(word, "-");
  pz_text_copy(name, sizeof name, word);
  for (char *c = name; *c; c++)
    if (*c == '-') *c = '_';
  return pz_plan_field_find(name);
}

static bool is_name(const char *const *names, const char *word) {
  int i = 0;
  while (names[i] && strcmp(names[i], word) != 0) i++;
  return names[i] != NULL;
}

/* Reads the value of a field; words of a set follow each other with commas. */
static enum pz_status set_field(struct plan_words *w, enum pz_plan_field f, const char *value,
                                int *at) {
  const struct pz_plan_field_info *x = pz_plan_field(f);
  char was[PZ_FIELD_TEXT_MOST];
  bool again = w->read >> f & 1, set = x->kind == PZ_PLAN_KIND_SET;
  if (again && !set)
    return pz_fail(w->err, PZ_BAD_USE, "%s is given twice, %s and '%.40s'; accepted: one value",
                   x->name, pz_plan_field_text(w->plan, f, was, sizeof was), value);
  if (again)
    value = pz_arena_printf(w->arena, "%s,%s", pz_plan_field_text(w->plan, f, was, sizeof was),
                            value);
  for (; value && set && *at < w->n && w->word[*at].after_comma; ++*at) {
    const char *next = w->word[*at].text;
    if (!is_name(x->names, next)) break;
    if (!w->word[*at].tight && field_named(next) != PZ_PLAN_FIELDS) break;
    value = pz_arena_printf(w->arena, "%s,%s", value, next);
  }
  size_t n = value ? strlen(value) : 0;
  if (n && value[n - 1] == '%' && x->kind == PZ_PLAN_KIND_REAL)
    value = pz_arena_printf(w->arena, "%.10g", strtod(value, NULL) / 100);
  if (!value) return words_no_memory(w->err);
  w->read |= UINT64_C(1) << f;
  return pz_plan_field_read(w->plan, f, value, w->err);
}

/* A field and its value; a switch alone is on. */
static enum pz_status read_field(struct plan_words *w, enum pz_plan_field f, int *at) {
  static const char *const states[] = {"on", "off", "true", "false", "1", "0", NULL};
  const struct pz_plan_field_info *x = pz_plan_field(f);
  bool state = x->kind == PZ_PLAN_KIND_SWITCH || x->kind == PZ_PLAN_KIND_FLAG;
  bool follows = ++*at < w->n && !w->word[*at].after_comma;
  if (state && (!follows || !is_name(states, w->word[*at].text)))
    return set_field(w, f, "on", at);
  if (!follows)
    return pz_fail(w->err, PZ_BAD_USE, "%s has no value; accepted: a value behind it, as '%s %s'",
                   x->name, x->name, x->names ? x->names[0] : "8");
  bool changed = *at + 2 < w->n && strcmp(w->word[*at + 1].text, "->") == 0;
  *at += changed ? 3 : 1;
  return set_field(w, f, w->word[*at - 1].text, at);
}

/* ---- the text ------------------------------------------------------------------------------- */

/* Words of the phrase, if it begins at `at`; else 0.  *value: the word at "#". */
static int phrase_length(const struct plan_words *w, int at, const char *phrase,
                         const char **value) {
  int n = 0;
  while (*phrase) {
    size_t length = strcspn(phrase, " ");
    if (at + n == w->n || (n && w->word[at + n].after_comma)) return 0;
    if (*phrase == '#')
      *value = w->word[at + n].text;
    else if (!pz_text_is(phrase, length, w->word[at + n].text))
      return 0;
    phrase += length + (phrase[length] == ' ');
    n++;
  }
  return n;
}

static enum pz_status read_next(struct plan_words *w, int *at) {
  char *word = w->word[*at].text;
  size_t n = strlen(word);
  enum pz_plan_field f = field_named(word);
  if (f != PZ_PLAN_FIELDS) return read_field(w, f, at);
  for (size_t i = 0; i < sizeof phrases / sizeof *phrases; i++) {
    const char *value = phrases[i].value;
    int length = phrase_length(w, *at, phrases[i].words, &value);
    *at += length;
    if (length)
      return phrases[i].field == PZ_PLAN_FIELDS ? PZ_OK
                                                : set_field(w, phrases[i].field, value, at);
  }
  ++*at;
  if (word[n - 1] == ':') word[n - 1] = '\0'; /* "megatron: tp 8" */
  for (size_t i = 0; i < sizeof bare / sizeof *bare; i++)
    if (is_name(pz_plan_field(bare[i])->names, word)) return set_field(w, bare[i], word, at);
  if (strncmp(word, "lora:", 5) == 0) return set_field(w, PZ_PLAN_PEFT, word, at);
  char meant[120];
  return pz_fail(w->err, PZ_BAD_USE,
                 "'%.40s' is no field of a plan%s; accepted: fields and values, as 'tp 8, pp 2, "
                 "recompute full'",
                 word, pz_text_meant(meant, sizeof meant, word, field_at, NULL));
}

enum pz_status pz_plan_words_read(struct pz_plan *p, const char *text, struct pz_arena *arena,
                                  struct pz_error *err) {
  struct plan_words w = {.plan = p, .arena = arena, .err = err};
  size_t bytes = strlen(text);
  if (bytes > PZ_PLAN_WORDS_MOST_BYTES)
    return pz_fail(err, PZ_LIMIT, "'%.60s...': %zu bytes; accepted: at most %d", text, bytes,
                   PZ_PLAN_WORDS_MOST_BYTES);
  enum pz_status status = split_words(&w, text);
  if (status == PZ_OK && !w.n)
    status = pz_fail(err, PZ_BAD_USE, "no change; accepted: fields and values, as 'tp 8, pp 2'");
  for (int at = 0; at < w.n && status == PZ_OK;) status = read_next(&w, &at);
  return status;
}

/* ---- a run with changes --------------------------------------------------------------------- */

/* What the run leaves to follow from its degrees, and a change keeps: its devices and its batch. */
static void keep_question(struct pz_plan *p) {
  struct pz_plan filled = *p;
  if (pz_plan_fill(&filled, NULL, NULL) != PZ_OK) return;
  p->devices = filled.devices;
  p->batch = filled.batch;
}

enum pz_status pz_run_plan_with(const struct pz_run_plan *r, const char *changes,
                                struct pz_run_plan **out, struct pz_error *err) {
  struct pz_plan given = pz_plan_default(), filled;
  struct pz_error why = {0};
  struct pz_arena *arena;
  void *made = NULL;
  enum pz_status status = pz_need_each(err, {r, "run"}, {changes, "changes"}, {out, "out"});
  if (status == PZ_OK) status = pz_held_new(sizeof **out, "the run", &made, &arena, err);
  if (status != PZ_OK) return status;
  struct pz_run_plan *own = made;
  *own = pz_run_plan_default();
  status = pz_sized_take(own, sizeof *own, r, "pz_run_plan_default", err);
  if (status == PZ_OK) status = pz_plan_words_read(&given, changes, arena, &why);
  if (why.status != PZ_OK) status = pz_fail(err, status, "'%.60s': %s", changes, why.message);
  if (status != PZ_OK) return pz_held_give(status, made, out);
  keep_question(&own->plan);
  pz_run_plan_change(own, &given);
  filled = own->plan;
  bool follows = given.overlap < 0 && own->plan.overlap >= 0;
  if (follows && pz_plan_fill(&filled, NULL, NULL) == PZ_OK)
    own->plan.overlap = pz_framework_overlap(&filled, NULL);
  return pz_held_give(status, made, out);
}
