/* Changes of a plan in words (pz_run_plan_with): "tp 8, pp 2, recompute full", options of predict,
 * or the text of a plan that phaze printed.
 *
 * split_words() cuts the text at spaces, commas, "=" and parentheses.  From left to right,
 * read_next() reads the name of a field with its value, a phrase of the table below (the wordings
 * of pz_plan_text() and pz_plan_line()), or the value of a field that needs no name ("eager"). */
#include <stdlib.h>
#include <string.h>

#include "core/call.h"
#include "core/text.h"
#include "plan/framework_rules.h"
#include "plan/plan_fields.h"
#include "plan/plan_fill.h"

/* Phrases of a printed plan, each with the field that it sets. "#" matches any word, which is
 * the value of the field if the row has none.  Phrases with PZ_PLAN_FIELDS are skipped. */
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

/* Fields whose values may be given without the field's name. */
static const enum pz_plan_field self_named_fields[] = {PZ_PLAN_FRAMEWORK, PZ_PLAN_CP_FORM,
                                                       PZ_PLAN_EXECUTION, PZ_PLAN_FP8_RECIPE,
                                                       PZ_PLAN_RECOMPUTE_MODULES};

enum { MOST_WORDS = 256 };

/* The words of a text of changes, and the plan that results from those that have been read. */
struct plan_words {
  struct pz_call *call;
  struct {
    char *text;
    bool after_comma; /* a comma separates the word from the one before it */
    bool only_comma;  /* only a comma separates them */
  } word[MOST_WORDS];
  int n, next;             /* number of words, and the index of the next word to read */
  struct pz_run_plan *run; /* receives chip and cluster */
  struct pz_plan given;    /* receives the fields of the plan */
};

/* Splits a text into words->word, each a NUL-terminated part of a copy of the text.  "->" removes the
 * word before it, which is the old value in "tp 8 -> 4". */
static void split_words(struct plan_words *words, const char *text) {
  static const char separators[] = " \t\r\n=(),;";
  char *at = pz_copy_text(words->call, text);
  for (;;) {
    size_t gap = strspn(at, separators), n = strcspn(at + gap, separators);
    bool has_comma = strcspn(at, ",;") < gap;
    memset(at, 0, gap);
    at += gap;
    if (!n) return;
    if (words->n == MOST_WORDS)
      pz_raise(words->call, PZ_LIMIT, "more than %d words; accepted: at most %d", MOST_WORDS,
               MOST_WORDS);
    bool is_arrow = n == 2 && memcmp(at, "->", 2) == 0;
    words->word[words->n].text = at;
    words->word[words->n].after_comma = has_comma;
    words->word[words->n].only_comma = has_comma && gap == 1;
    if (!is_arrow)
      words->n++;
    else if (words->n > 0)
      words->n--;
    at += n;
  }
}

/* Reads and returns the next word as the value of a field or setting; messages call it `name`.
 * Raises PZ_BAD_USE if there is no next word, or a comma separates it from the word before. */
static const char *read_value(struct plan_words *words, const char *name) {
  if (words->next == words->n || words->word[words->next].after_comma)
    pz_raise(words->call, PZ_BAD_USE, "%s has no value; accepted: %s with a value", name, name);
  words->next++;
  return words->word[words->next - 1].text;
}

/* Returns the field that a word like "--tp" names, or PZ_PLAN_FIELDS if it names none. */
static enum pz_plan_field find_named_field(const char *word) {
  char name[40];
  pz_text_copy(name, sizeof name, word + strspn(word, "-"));
  for (char *c = name; *c; c++)
    if (*c == '-') *c = '_';
  return pz_plan_field_find(name);
}

/* Returns whether a word is in a list that ends with NULL. */
static bool is_among(const char *const *names, const char *word) {
  while (*names && !pz_text_same(*names, word)) names++;
  return *names != NULL;
}

/* Sets a field to a value.  If the field is a set, also reads the words that follow after commas, as in
 * "overlap grad, param", as long as they are words of the set and do not begin the next field.  A
 * percentage sets a field whose most value is 1 to a fraction. */
static void set_field(struct plan_words *words, enum pz_plan_field field, const char *value) {
  const struct pz_plan_field_info *info = pz_plan_field(field);
  char before[PZ_FIELD_TEXT_MOST];
  bool is_repeated = !pz_plan_is_unset(&words->given, field);
  bool is_set = info->kind == PZ_PLAN_KIND_SET;
  pz_plan_field_text(&words->given, field, before, sizeof before);
  if (is_repeated && !is_set)
    pz_raise(words->call, PZ_BAD_USE, "%s is given twice, %s and '%.40s'; accepted: one value",
             info->name, before, value);
  if (is_repeated) value = pz_format(words->call, "%s,%s", before, value);
  for (; is_set && words->next < words->n && words->word[words->next].after_comma; words->next++) {
    const char *more = words->word[words->next].text;
    bool begins_field =
        !words->word[words->next].only_comma && find_named_field(more) != PZ_PLAN_FIELDS;
    if (begins_field || !is_among(info->names, more)) break;
    value = pz_format(words->call, "%s,%s", value, more);
  }
  if (info->kind == PZ_PLAN_KIND_REAL && strchr(value, '%')) {
    double percent = strtod(value, NULL);
    value = pz_format(words->call, "%.10g", info->most > 1 ? percent : percent / 100);
  }
  pz_read_plan_field(words->call, PZ_BAD_USE, &words->given, field, value);
}

/* Returns the number of words of a phrase if the next words match it, otherwise 0.  Sets *value to
 * the word at "#". */
static int phrase_length(const struct plan_words *words, const char *phrase, const char **value) {
  int n = 0;
  for (; *phrase; n++) {
    size_t length = strcspn(phrase, " ");
    int i = words->next + n;
    if (i == words->n || (n && words->word[i].after_comma)) return 0;
    if (*phrase == '#')
      *value = words->word[i].text;
    else if (!pz_text_is(phrase, length, words->word[i].text))
      return 0;
    phrase += length;
    phrase += strspn(phrase, " ");
  }
  return n;
}

/* Reads the next item of the text and advances past it.  An item is, in this order of preference, a
 * phrase ("in two halves"), a field with its value ("tp 8"), a field that is switched off ("no-sp"),
 * chip or cluster with a name, or a value that needs no field ("eager"). */
static void read_next(struct plan_words *words) {
  static const char *const states[] = {"on", "off", "true", "false", "1", "0", NULL};
  char *word = words->word[words->next].text, *name = word + strspn(word, "-"), suggestion[120];
  enum pz_plan_field field = find_named_field(word);
  for (size_t i = 0; field == PZ_PLAN_FIELDS && i < sizeof phrases / sizeof *phrases; i++) {
    const char *value = phrases[i].value;
    int length = phrase_length(words, phrases[i].words, &value);
    if (!length) continue;
    words->next += length;
    if (phrases[i].field != PZ_PLAN_FIELDS) set_field(words, phrases[i].field, value);
    return;
  }
  words->next++;
  if (field != PZ_PLAN_FIELDS) { /* its value is the next word; a switch without a value is on */
    const struct pz_plan_field_info *info = pz_plan_field(field);
    bool is_switch = info->kind == PZ_PLAN_KIND_SWITCH || info->kind == PZ_PLAN_KIND_FLAG;
    bool has_value = words->next < words->n && !words->word[words->next].after_comma;
    bool has_state = has_value && is_among(states, words->word[words->next].text);
    set_field(words, field, is_switch && !has_state ? "on" : read_value(words, info->name));
    return;
  }
  enum pz_plan_field switched_off =
      strncmp(name, "no-", 3) == 0 ? find_named_field(name + 3) : PZ_PLAN_FIELDS;
  if (switched_off != PZ_PLAN_FIELDS) {
    set_field(words, switched_off, "off");
    return;
  }
  if (strcmp(name, "chip") == 0) {
    words->run->chip = read_value(words, name);
    return;
  }
  if (strcmp(name, "cluster") == 0) {
    words->run->cluster = read_value(words, name);
    return;
  }
  /* A value without its field; a printed plan begins with one and a colon, as in "megatron: tp 8". */
  size_t n = strlen(word);
  if (word[n - 1] == ':') word[n - 1] = '\0';
  for (size_t i = 0; i < sizeof self_named_fields / sizeof *self_named_fields; i++) {
    if (!is_among(pz_plan_field(self_named_fields[i])->names, word)) continue;
    set_field(words, self_named_fields[i], word);
    return;
  }
  if (strncmp(word, "lora:", 5) != 0)
    pz_raise(words->call, PZ_BAD_USE,
             "'%.40s' is no field of a plan%s; accepted: fields and values, as 'tp 8, pp 2, "
             "recompute full'",
             word, pz_text_meant(suggestion, sizeof suggestion, name, pz_plan_field_at, NULL));
  set_field(words, PZ_PLAN_PEFT, word);
}

/* Arguments of pz_run_plan_with(), and the changed run.  The text is read within a border, so that
 * its errors can be raised again with a quotation of the text. */
struct change_request {
  const struct pz_run_plan *run;
  const char *changes;
  struct pz_run_plan **out;
  struct pz_run_plan *changed;
  struct pz_arena *arena; /* memory of the changed run */
};

/* Makes the changed run: reads the words of the text into a plan with only the changed fields, and
 * applies it to a copy of the run (a callback of pz_border). */
static void read_changes(struct pz_call *call, void *ctx) {
  const struct change_request *request = ctx;
  struct pz_call results = pz_call_in(call, request->arena);
  struct pz_run_plan *run = request->changed;
  struct plan_words *words = pz_alloc(call, 1, sizeof *words);
  words->call = &results;
  words->run = run;
  words->given = pz_plan_default();
  *run = pz_run_plan_default();
  pz_require_options(call, run, sizeof *run, request->run, "pz_run_plan_default");
  split_words(words, request->changes);
  while (words->next < words->n) read_next(words);
  /* Devices and batch that followed from the degrees stay the same.  An overlap that followed
   * from the framework is determined again for the changed plan. */
  const struct pz_plan *given = &words->given;
  struct pz_plan filled = run->plan;
  bool keeps_devices = (filled.devices || filled.dp) && !given->dp;
  if (keeps_devices && pz_try_fill_plan(&filled, NULL, NULL)) {
    run->plan.devices = filled.devices;
    run->plan.batch = filled.batch;
  }
  pz_run_plan_change(run, given);
  filled = run->plan;
  bool overlap_follows = given->overlap < 0 && filled.overlap >= 0;
  if (overlap_follows && pz_try_fill_plan(&filled, NULL, NULL))
    run->plan.overlap = pz_framework_overlap(&filled, NULL);
}

/* Checks the arguments of pz_run_plan_with() and makes the changed run. */
static void make_changed_run(struct pz_call *call, void *ctx) {
  struct change_request *request = ctx;
  pz_require(call, request->run, "run");
  pz_require(call, request->changes, "changes");
  pz_require(call, request->out, "out");
  struct pz_call in_run;
  request->changed = pz_object_new(call, sizeof *request->changed, &in_run);
  request->arena = in_run.arena;
  struct pz_error err = {0};
  enum pz_status status = pz_border(read_changes, request, &err);
  if (status != PZ_OK) pz_raise(call, status, "'%.60s': %s", request->changes, err.message);
  *request->out = pz_object_keep(call, request->changed);
}

enum pz_status pz_run_plan_with(const struct pz_run_plan *run, const char *changes,
                                struct pz_run_plan **out, struct pz_error *err) {
  struct change_request args = {.run = run, .changes = changes, .out = out};
  return pz_border(make_changed_run, &args, err);
}
