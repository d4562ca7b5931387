#include "core/options.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"

static const char *option_name(const void *ctx, size_t i) {
  const struct pz_option_table *t = ctx;
  return i < t->n ? t->options[i].name : NULL;
}

static const char *choice_name(const void *ctx, size_t i) { return ((const char *const *)ctx)[i]; }

static const struct pz_option *find_name(const struct pz_option_table *t, const char *name,
                                         size_t n) {
  for (size_t i = 0; i < t->n; i++)
    if (strlen(t->options[i].name) == n && strncmp(t->options[i].name, name, n) == 0)
      return &t->options[i];
  return NULL;
}

static const struct pz_option *find_letter(const struct pz_option_table *t, char letter) {
  for (size_t i = 0; i < t->n; i++)
    if (t->options[i].letter == letter && letter) return &t->options[i];
  return NULL;
}

static enum pz_status set_int(const struct pz_option *o, const char *text, int64_t *out,
                              struct pz_error *err) {
  char *end;
  errno = 0;
  long long v = strtoll(text, &end, 10);
  if (end == text || *end || errno || (double)v < o->min || (double)v > o->max)
    return pz_fail(err, PZ_BAD_USE, "--%s: '%s'; accepted: an integer from %.0f to %.0f", o->name,
                   text, o->min, o->max);
  *out = v;
  return PZ_OK;
}

static enum pz_status set_real(const struct pz_option *o, const char *text, double *out,
                               struct pz_error *err) {
  char *end;
  double v = strtod(text, &end);
  if (end == text || *end || !(v >= o->min && v <= o->max))
    return pz_fail(err, PZ_BAD_USE, "--%s: '%s'; accepted: a number from %g to %g", o->name, text,
                   o->min, o->max);
  *out = v;
  return PZ_OK;
}

static enum pz_status set_choice(const struct pz_option *o, const char *text, int *out,
                                 struct pz_error *err) {
  for (int i = 0; o->choices[i]; i++)
    if (strcmp(o->choices[i], text) == 0) {
      *out = i;
      return PZ_OK;
    }
  char list[256];
  return pz_fail(err, PZ_BAD_USE, "--%s: '%s'; accepted: %s", o->name, text,
                 pz_text_join(list, sizeof list, choice_name, o->choices));
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
  case PZ_OPTION_REAL: return set_real(o, text, at, err);
  case PZ_OPTION_CHOICE: return set_choice(o, text, at, err);
  case PZ_OPTION_TEXT: *(const char **)at = text; return PZ_OK;
  case PZ_OPTION_TEXTS: return add_text(o, text, at, err);
  }
  return pz_fail(err, PZ_INTERNAL, "--%s: unknown option type", o->name);
}

static enum pz_status unknown(const struct pz_option_table *t, const char *word,
                              struct pz_error *err) {
  char bare[80];
  snprintf(bare, sizeof bare, "%.*s", (int)strcspn(word, "="), word);
  const char *near = strncmp(bare, "--", 2) == 0 ? pz_text_nearest(bare + 2, option_name, t) : NULL;
  return pz_fail(err, PZ_BAD_USE, "unknown option '%s'%s%s%s (--help lists all)", bare,
                 near ? "; did you mean --" : "", near ? near : "", near ? "?" : "");
}

/* The option that `word` names, and its value where it is written in the same word. */
static const struct pz_option *recognise(const struct pz_option_table *t, const char *word,
                                         const char **value) {
  *value = NULL;
  if (word[1] != '-') return word[2] ? NULL : find_letter(t, word[1]);
  size_t n = strcspn(word + 2, "=");
  if (word[2 + n] == '=') *value = word + 3 + n;
  return find_name(t, word + 2, n);
}

/* "--kernels fused|eager" into buf. */
static void spell(const struct pz_option *o, char *buf, size_t size) {
  int n = snprintf(buf, size, "--%s", o->name);
  if (o->type == PZ_OPTION_CHOICE)
    for (int i = 0; o->choices[i] && n > 0 && (size_t)n < size; i++)
      n += snprintf(buf + n, size - (size_t)n, "%s%s", i ? "|" : " ", o->choices[i]);
  else if (o->type != PZ_OPTION_FLAG)
    snprintf(buf + n, size - (size_t)n, " %s", o->arg);
}

static enum pz_status no_value(const struct pz_option *o, struct pz_error *err) {
  char text[120];
  spell(o, text, sizeof text);
  return pz_fail(err, PZ_BAD_USE, "--%s needs a value: %s", o->name, text);
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
    const struct pz_option *o = recognise(table, word, &value);
    if (!o) return unknown(table, word, err);
    if (o->type == PZ_OPTION_FLAG && value)
      return pz_fail(err, PZ_BAD_USE, "--%s takes no value; found '%s'", o->name, value);
    if (o->type != PZ_OPTION_FLAG && !value && i + 1 == argc) return no_value(o, err);
    if (o->type != PZ_OPTION_FLAG && !value) value = argv[++i];
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
  case PZ_OPTION_CHOICE: return *(const int *)x == *(const int *)y;
  case PZ_OPTION_TEXTS: /* the first tells whether any was given */
  case PZ_OPTION_TEXT: return *(const char *const *)x == *(const char *const *)y;
  }
  return true;
}

/* " (default 1)" into buf, or nothing where there is none to show. */
static void spell_default(const struct pz_option *o, const void *settings, char *buf, size_t size) {
  buf[0] = '\0';
  if (!settings) return;
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
    char left[120], standard[40], text[512], letter[8] = "    ";
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
    char left[120], standard[40];
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
