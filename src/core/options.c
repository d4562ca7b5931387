#include "core/options.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"

static const char *visible_name(const void *ctx, size_t i) {
  const struct pz_option_table *t = ctx;
  for (size_t k = 0; k < t->n; k++)
    if (!t->options[k].hidden && i-- == 0) return t->options[k].name;
  return NULL;
}

static const char *choice_name(const void *ctx, size_t i) { return ((const char *const *)ctx)[i]; }

static char *spelled(const char *name, char *buf, size_t size) {
  pz_text_copy(buf, size, name);
  for (char *c = buf; *c; c++)
    if (*c == '_') *c = '-';
  return buf;
}

char *pz_option_name(const struct pz_option *o, char *buf, size_t size) {
  return spelled(o->name, buf, size);
}

static bool is_named(const struct pz_option *o, const char *name, size_t n) {
  char own[64];
  pz_option_name(o, own, sizeof own);
  return !o->hidden && strlen(own) == n && strncmp(own, name, n) == 0;
}

/* *off: by its "no-". */
static const struct pz_option *find_name(const struct pz_option_table *t, const char *name,
                                         size_t n, bool *off) {
  *off = false;
  for (size_t i = 0; i < t->n; i++)
    if (is_named(&t->options[i], name, n)) return &t->options[i];
  *off = true;
  for (size_t i = 0; i < t->n && n > 3 && strncmp(name, "no-", 3) == 0; i++)
    if (t->options[i].type == PZ_OPTION_SWITCH && is_named(&t->options[i], name + 3, n - 3))
      return &t->options[i];
  return NULL;
}

static const struct pz_option *find_letter(const struct pz_option_table *t, char letter) {
  for (size_t i = 0; i < t->n; i++)
    if (t->options[i].letter == letter && letter && !t->options[i].hidden) return &t->options[i];
  return NULL;
}

static enum pz_status set_int(const struct pz_option *o, const char *text, int64_t *out,
                              struct pz_error *err) {
  char *end;
  errno = 0;
  long long v = strtoll(text, &end, 10);
  char name[64];
  if (end == text || *end || errno || (double)v < o->min || (double)v > o->max)
    return pz_fail(err, PZ_BAD_USE, "--%s: '%s'; accepted: an integer from %.0f to %.0f",
                   pz_option_name(o, name, sizeof name), text, o->min, o->max);
  *out = v;
  return PZ_OK;
}

static enum pz_status set_number(const struct pz_option *o, const char *text, int *out,
                                 struct pz_error *err) {
  int64_t v = 0;
  enum pz_status status = set_int(o, text, &v, err);
  if (status == PZ_OK) *out = (int)v;
  return status;
}

static enum pz_status set_real(const struct pz_option *o, const char *text, double *out,
                               struct pz_error *err) {
  char *end, name[64];
  double v = strtod(text, &end);
  if (end == text || *end || !(v >= o->min && v <= o->max))
    return pz_fail(err, PZ_BAD_USE, "--%s: '%s'; accepted: a number from %g to %g",
                   pz_option_name(o, name, sizeof name), text, o->min, o->max);
  *out = v;
  return PZ_OK;
}

static enum pz_status set_choice(const struct pz_option *o, const char *text, int *out,
                                 struct pz_error *err) {
  for (int i = 0; o->choices[i]; i++)
    if (pz_text_same(o->choices[i], text)) {
      *out = i;
      return PZ_OK;
    }
  char list[256], name[64];
  return pz_fail(err, PZ_BAD_USE, "--%s: '%s'; accepted: %s", pz_option_name(o, name, sizeof name),
                 text, pz_text_join(list, sizeof list, choice_name, o->choices));
}

static enum pz_status set_set(const struct pz_option *o, const char *text, int *out,
                              struct pz_error *err) {
  char list[256], name[64];
  int set = 0, all = 0;
  for (int i = 0; o->choices[i]; i++) all |= 1 << i;
  bool none = pz_text_same(text, "none");
  if (none || pz_text_same(text, "all")) return *out = none ? 0 : all, PZ_OK;
  for (const char *at = text;; at++) {
    size_t n = strcspn(at, ",");
    int i = 0;
    while (o->choices[i] && !pz_text_is(at, n, o->choices[i])) i++;
    if (!o->choices[i])
      return pz_fail(err, PZ_BAD_USE, "--%s: '%.*s'; accepted: none, all, or a list of %s",
                     pz_option_name(o, name, sizeof name), n < 40 ? (int)n : 40, at,
                     pz_text_join(list, sizeof list, choice_name, o->choices));
    set |= 1 << i;
    at += n;
    if (!*at) return *out = set, PZ_OK;
  }
}

static enum pz_status add_text(const struct pz_option *o, const char *text, const char **list,
                               struct pz_error *err) {
  for (int i = 0; i < (int)o->max; i++)
    if (!list[i]) {
      list[i] = text;
      return PZ_OK;
    }
  return pz_fail(err, PZ_BAD_USE, "--%s: given too many times; accepted: at most %.0f", o->name,
                 o->max);
}

static enum pz_status set_value(const struct pz_option *o, const char *text, void *settings,
                                struct pz_error *err) {
  void *at = (char *)settings + o->offset;
  switch (o->type) {
  case PZ_OPTION_FLAG: *(bool *)at = true; return PZ_OK;
  case PZ_OPTION_INT: return set_int(o, text, at, err);
  case PZ_OPTION_NUMBER: return set_number(o, text, at, err);
  case PZ_OPTION_SET: return set_set(o, text, at, err);
  case PZ_OPTION_SWITCH: *(int *)at = text == NULL; return PZ_OK;
  case PZ_OPTION_REAL: return set_real(o, text, at, err);
  case PZ_OPTION_CHOICE: return set_choice(o, text, at, err);
  case PZ_OPTION_TEXT: *(const char **)at = text; return PZ_OK;
  case PZ_OPTION_TEXTS: return add_text(o, text, at, err);
  }
  return pz_fail(err, PZ_INTERNAL, "--%s: unknown option type", o->name);
}

/* What other programs call it: the option that is meant, where the command has it.  `value`: what follows, or NULL. */
static const char *meant_option(const struct pz_option_table *t, const char *word,
                                const char *value) {
  static const char *const other[][2] = {
      {"gpu", "devices"},      {"gpus", "devices"},         {"num-gpus", "devices"},
      {"n-gpus", "devices"},   {"ngpus", "devices"},        {"world-size", "devices"},
      {"gbs", "batch"},        {"global-batch", "batch"},   {"global-batch-size", "batch"},
      {"batch-size", "batch"}, {"micro-batch-size", "mbs"}, {"seq-len", "seq"},
      {"seq-length", "seq"},   {"tensor-parallel", "tp"},   {"pipeline-parallel", "pp"},
      {"data-parallel", "dp"}, {"network", "cluster"},      {"nodes", "devices"}};
  bool off, chip = value && isalpha((unsigned char)*value); /* "--gpu h100" */
  if (chip && strcmp(word, "gpu") == 0 && find_name(t, "chip", 4, &off)) return "chip";
  for (size_t i = 0; i < sizeof other / sizeof *other; i++)
    if (strcmp(other[i][0], word) == 0 && find_name(t, other[i][1], strlen(other[i][1]), &off))
      return other[i][1];
  return pz_text_nearest(word, visible_name, t);
}

/* `value`: written in the same word, or else `next`, the word behind it. */
static enum pz_status unknown(const struct pz_option_table *t, const char *word, const char *value,
                              const char *next, struct pz_error *err) {
  char bare[80], meant[64];
  snprintf(bare, sizeof bare, "%.*s", (int)strcspn(word, "="), word);
  const char *near =
      strncmp(bare, "--", 2) == 0 ? meant_option(t, bare + 2, value ? value : next) : NULL;
  return pz_fail(err, PZ_BAD_USE, "unknown option '%s'%s%s%s (--help lists all)", bare,
                 near ? "; did you mean --" : "", near ? spelled(near, meant, sizeof meant) : "",
                 near ? "?" : "");
}

/* The option that `word` names, and its value where it is written in the same word. */
static const struct pz_option *recognise(const struct pz_option_table *t, const char *word,
                                         const char **value, bool *off) {
  *value = NULL;
  *off = false;
  if (word[1] != '-') return word[2] ? NULL : find_letter(t, word[1]);
  size_t n = strcspn(word + 2, "=");
  if (word[2 + n] == '=') *value = word + 3 + n;
  return find_name(t, word + 2, n, off);
}

/* Options without a value. */
static bool is_bare(const struct pz_option *o) {
  return o->type == PZ_OPTION_FLAG || o->type == PZ_OPTION_SWITCH;
}

/* "--kernels fused|eager" into buf. */
static void spell(const struct pz_option *o, char *buf, size_t size) {
  char name[64];
  int n = snprintf(buf, size, "--%s", pz_option_name(o, name, sizeof name));
  if (o->type == PZ_OPTION_SWITCH) n += snprintf(buf + n, size - (size_t)n, ", --no-%s", name);
  if (o->type == PZ_OPTION_CHOICE && !o->arg)
    for (int i = 0; o->choices[i] && n > 0 && (size_t)n < size; i++)
      n += snprintf(buf + n, size - (size_t)n, "%s%s", i ? "|" : " ", o->choices[i]);
  else if (!is_bare(o))
    snprintf(buf + n, size - (size_t)n, " %s",
             o->arg                     ? o->arg
             : o->type == PZ_OPTION_SET ? "LIST"
                                        : "N");
}

static enum pz_status no_value(const struct pz_option *o, struct pz_error *err) {
  char text[240], name[64];
  spell(o, text, sizeof text);
  return pz_fail(err, PZ_BAD_USE, "--%s needs a value: %s", pz_option_name(o, name, sizeof name),
                 text);
}

enum pz_status pz_options_parse(const struct pz_option_table *table, void *settings, int argc,
                                char **argv, int *n_args, struct pz_error *err) {
  bool only_args = false;
  *n_args = 0;
  for (int i = 1; i < argc; i++) {
    char *word = argv[i];
    if (only_args || word[0] != '-' || !word[1]) {
      argv[1 + (*n_args)++] = word;
      continue;
    }
    if (strcmp(word, "--") == 0) {
      only_args = true;
      continue;
    }
    const char *value;
    bool off;
    const struct pz_option *o = recognise(table, word, &value, &off);
    if (!o) return unknown(table, word, value, i + 1 < argc ? argv[i + 1] : NULL, err);
    if (is_bare(o) && value)
      return pz_fail(err, PZ_BAD_USE, "%.*s takes no value; found '%s'", (int)strcspn(word, "="),
                     word, value);
    if (!is_bare(o) && !value && i + 1 == argc) return no_value(o, err);
    if (!is_bare(o) && !value) value = argv[++i];
    if (!is_bare(o) && !*value) return no_value(o, err);
    if (off) value = "off";
    enum pz_status status = set_value(o, value, settings, err);
    if (status != PZ_OK) return status;
  }
  return PZ_OK;
}

bool pz_option_same(const struct pz_option *o, const void *a, const void *b) {
  const void *x = (const char *)a + o->offset, *y = (const char *)b + o->offset;
  switch (o->type) {
  case PZ_OPTION_FLAG: return *(const bool *)x == *(const bool *)y;
  case PZ_OPTION_INT: return *(const int64_t *)x == *(const int64_t *)y;
  case PZ_OPTION_REAL: return *(const double *)x == *(const double *)y;
  case PZ_OPTION_NUMBER:
  case PZ_OPTION_SET:
  case PZ_OPTION_SWITCH:
  case PZ_OPTION_CHOICE: return *(const int *)x == *(const int *)y;
  case PZ_OPTION_TEXTS: /* the first tells whether any was given */
  case PZ_OPTION_TEXT: return *(const char *const *)x == *(const char *const *)y;
  }
  return true;
}

/* " (default 1)" into buf, or nothing where there is none to show. */
static void spell_default(const struct pz_option *o, const void *settings, char *buf, size_t size) {
  buf[0] = '\0';
  if (o->standard) snprintf(buf, size, " (default: %s)", o->standard);
  if (!settings || o->standard) return;
  const void *at = (const char *)settings + o->offset;
  if (o->type == PZ_OPTION_INT && *(const int64_t *)at >= 1)
    snprintf(buf, size, " (default %" PRId64 ")", *(const int64_t *)at);
  if (o->type == PZ_OPTION_CHOICE && *(const int *)at >= 0)
    snprintf(buf, size, " (default %s)", o->choices[*(const int *)at]);
}

/* --help: options in a column of HELP_LEFT characters, texts behind it wrapped at HELP_WIDTH. */
enum { HELP_LEFT = 23, HELP_INDENT = 2 + 4 + HELP_LEFT + 1, HELP_WIDTH = 80 };

static void put_wrapped(const char *text, FILE *out) {
  int column = HELP_INDENT;
  while (*text) {
    int n = (int)strcspn(text, " ");
    if (column > HELP_INDENT && column + 1 + n > HELP_WIDTH)
      fprintf(out, "\n%*s", column = HELP_INDENT, "");
    else if (column > HELP_INDENT)
      fputc(' ', out), column++;
    fprintf(out, "%.*s", n, text);
    column += n;
    text += n;
    text += strspn(text, " ");
  }
  fputc('\n', out);
}

void pz_options_help(const struct pz_option_table *table, const void *settings, FILE *out) {
  for (size_t i = 0; i < table->n; i++) {
    const struct pz_option *o = &table->options[i];
    char left[240], standard[120], text[640], letter[8] = "    ";
    if (o->hidden) continue;
    spell(o, left, sizeof left);
    spell_default(o, settings, standard, sizeof standard);
    if (o->letter) snprintf(letter, sizeof letter, "-%c, ", o->letter);
    if (strlen(left) > HELP_LEFT)
      fprintf(out, "  %s%s\n%*s", letter, left, HELP_INDENT, "");
    else
      fprintf(out, "  %s%-*s ", letter, HELP_LEFT, left);
    snprintf(text, sizeof text, "%s%s", o->help, standard);
    put_wrapped(text, out);
  }
}

/* A leading dot would be a request, a backslash an escape. */
static void roff(const char *s, FILE *out) {
  if (*s == '.' || *s == '\'') fputs("\\&", out);
  for (; *s; s++) {
    if (*s == '\\' || *s == '-') fputc('\\', out);
    fputc(*s, out);
  }
}

void pz_options_man(const struct pz_option_table *table, const void *settings, FILE *out) {
  for (size_t i = 0; i < table->n; i++) {
    const struct pz_option *o = &table->options[i];
    char left[240], standard[120];
    if (o->hidden) continue;
    spell(o, left, sizeof left);
    spell_default(o, settings, standard, sizeof standard);
    fprintf(out, ".TP\n");
    if (o->letter) fprintf(out, "\\fB\\-%c\\fR, ", o->letter);
    fprintf(out, "\\fB");
    roff(left, out);
    fprintf(out, "\\fR\n");
    roff(o->help, out);
    fprintf(out, "%s.\n", standard);
  }
}

/* ---- lists of numbers ----------------------------------------------------------------------- */

/* Put v in its place; false when there is no room. */
static bool insert(struct pz_choices *c, int64_t v) {
  int at = c->n;
  while (at > 0 && c->v[at - 1] > v) at--;
  if (at > 0 && c->v[at - 1] == v) return true;
  if (c->n == PZ_CHOICES_MOST) return false;
  for (int i = c->n; i > at; i--) c->v[i] = c->v[i - 1];
  c->v[at] = v;
  c->n++;
  return true;
}

struct pz_choices pz_choices_powers(int64_t most) {
  struct pz_choices c = {.n = 0};
  for (int64_t v = 1; v <= most && c.n < PZ_CHOICES_MOST; v *= 2) c.v[c.n++] = v;
  return c;
}

enum pz_status pz_choices_check(const char *what, const struct pz_choices *c, int least,
                                struct pz_error *err) {
  enum { MOST = 1 << 20 };
  bool good = c->n >= least && c->n <= PZ_CHOICES_MOST;
  for (int i = 0; good && i < c->n; i++) good = c->v[i] > (i ? c->v[i - 1] : 0) && c->v[i] <= MOST;
  return good ? PZ_OK
              : pz_fail(err, PZ_BAD_USE, "%s: accepted: %d to %d numbers from 1 to %d, ascending",
                        what, least, PZ_CHOICES_MOST, MOST);
}

enum pz_status pz_choices_parse(const char *text, const char *name, int64_t most,
                                struct pz_choices *out, struct pz_error *err) {
  struct pz_choices c = {.n = 0};
  for (const char *at = text;;) {
    char *end;
    errno = 0;
    long long v = strtoll(at, &end, 10);
    if (end == at || errno || v < 1 || v > most || (*end && *end != ',') || !insert(&c, v))
      return pz_fail(err, PZ_BAD_USE,
                     "--%s '%s'; accepted: up to %d comma-separated integers from 1 to %lld", name,
                     text, PZ_CHOICES_MOST, (long long)most);
    if (!*end) break;
    at = end + 1;
  }
  *out = c;
  return PZ_OK;
}
