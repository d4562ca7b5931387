/* Parsing: pz_options_read() finds the option that a word names (find_option) and stores its value
 * by its type (set_value); the error about an unknown name suggests the option that is probably
 * meant (meant_option).  --help and the man page are printed from the same table. */
#include "core/options.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"

/* Returns name i of the options that are not hidden (pz_name_at). */
static const char *visible_name(const void *ctx, size_t i) {
  const struct pz_option_table *table = ctx;
  size_t seen = 0;
  for (size_t k = 0; k < table->n; k++) {
    if (table->options[k].hidden) continue;
    if (seen == i) return table->options[k].name;
    seen++;
  }
  return NULL;
}

/* Writes a name as on the command line, with - for _, and returns buf. */
char *pz_option_name(const char *name, char *buf, size_t size) {
  pz_text_copy(buf, size, name);
  for (char *at = buf; *at; at++)
    if (*at == '_') *at = '-';
  return buf;
}

/* Returns the option with this name, or NULL.  Sets *is_off for "no-" and the name of a switch. */
static const struct pz_option *find_name(const struct pz_option_table *table, const char *name,
                                         size_t length, bool *is_off) {
  bool may_be_off = length > 3 && strncmp(name, "no-", 3) == 0;
  const struct pz_option *switched_off = NULL;
  *is_off = false;
  for (size_t i = 0; i < table->n; i++) {
    const struct pz_option *option = &table->options[i];
    char known[64];
    pz_option_name(option->name, known, sizeof known);
    size_t n_known = strlen(known);
    if (option->hidden) continue;
    if (n_known == length && strncmp(known, name, length) == 0) return option;
    bool is_switch = option->type == PZ_OPTION_SWITCH;
    if (may_be_off && is_switch && n_known == length - 3 && strncmp(known, name + 3, n_known) == 0)
      switched_off = option;
  }
  *is_off = switched_off;
  return switched_off;
}

/* Returns the option that a word of the command line names, or NULL.  *value is its value if
 * that is part of the word ("--tp=8"). */
static const struct pz_option *find_option(const struct pz_option_table *table, const char *word,
                                           const char **value, bool *is_off) {
  *value = NULL;
  *is_off = false;
  if (word[1] == '-') {
    size_t n = strcspn(word + 2, "=");
    if (word[2 + n] == '=') *value = word + 3 + n;
    return find_name(table, word + 2, n, is_off);
  }
  if (word[2]) return NULL; /* a short option and its value are separate words: -n 8 */
  for (size_t i = 0; i < table->n; i++)
    if (table->options[i].letter == word[1] && !table->options[i].hidden) return &table->options[i];
  return NULL;
}

/* Returns the option that is probably meant by a name that the command does not have: by the
 * names that other programs use, or by similar spelling.  `value` follows the name on the
 * command line and may be NULL. */
static const char *meant_option(const struct pz_option_table *table, const char *name,
                                const char *value) {
  static const char *const synonyms[][2] = {
      {"gpu", "devices"},      {"gpus", "devices"},         {"num-gpus", "devices"},
      {"n-gpus", "devices"},   {"ngpus", "devices"},        {"world-size", "devices"},
      {"gbs", "batch"},        {"global-batch", "batch"},   {"global-batch-size", "batch"},
      {"batch-size", "batch"}, {"micro-batch-size", "mbs"}, {"seq-len", "seq"},
      {"seq-length", "seq"},   {"tensor-parallel", "tp"},   {"pipeline-parallel", "pp"},
      {"data-parallel", "dp"}, {"network", "cluster"},      {"nodes", "devices"}};
  bool off;
  bool value_is_chip = value && isalpha((unsigned char)*value); /* "--gpu h100" */
  if (value_is_chip && strcmp(name, "gpu") == 0 && find_name(table, "chip", 4, &off)) return "chip";
  for (size_t i = 0; i < sizeof synonyms / sizeof *synonyms; i++) {
    const char *own = synonyms[i][1];
    if (strcmp(synonyms[i][0], name) == 0 && find_name(table, own, strlen(own), &off)) return own;
  }
  return pz_text_nearest(name, visible_name, table);
}

/* Ends the call with "--name: 'found'; accepted: ...". */
static _Noreturn void raise_value(struct pz_call *call, const struct pz_option *option,
                                  const char *found, const char *accepted) {
  char name[64];
  pz_raise(call, PZ_BAD_USE, "--%s: '%s'; accepted: %s",
           pz_option_name(option->name, name, sizeof name), found, accepted);
}

/* Returns the integer in a text; raises an error if it is out of the option's range. */
static int64_t parse_int(struct pz_call *call, const struct pz_option *option, const char *text) {
  char *end;
  errno = 0;
  long long value = strtoll(text, &end, 10);
  bool is_integer = end != text && !*end && !errno;
  if (!is_integer || (double)value < option->min || (double)value > option->max)
    raise_value(call, option, text,
                pz_format(call, "an integer from %.0f to %.0f", option->min, option->max));
  return value;
}

/* Returns a set with bit i for each choice i in a list with commas, or in "none" or "all". */
static int parse_set(struct pz_call *call, const struct pz_option *option, const char *text) {
  int set = 0, all = 0;
  char names[256];
  for (int i = 0; option->choices[i]; i++) all |= 1 << i;
  if (pz_text_same(text, "none")) return 0;
  if (pz_text_same(text, "all")) return all;
  for (const char *word = text;; word++) {
    size_t n = strcspn(word, ",");
    int i = 0;
    while (option->choices[i] && !pz_text_is(word, n, option->choices[i])) i++;
    if (!option->choices[i])
      raise_value(call, option, pz_format(call, "%.*s", n < 40 ? (int)n : 40, word),
                  pz_format(call, "none, all, or a list of %s",
                            pz_text_join(names, sizeof names, pz_name_in_list, option->choices)));
    set |= 1 << i;
    word += n;
    if (!*word) return set;
  }
}

/* Stores a text as the value of an option in the settings; it is NULL for a switch that is on. */
static void set_value(struct pz_call *call, const struct pz_option *option, const char *text,
                      void *settings) {
  void *member = (char *)settings + option->offset;
  switch (option->type) {
  case PZ_OPTION_FLAG: *(bool *)member = true; break;
  case PZ_OPTION_INT: *(int64_t *)member = parse_int(call, option, text); break;
  case PZ_OPTION_NUMBER: *(int *)member = (int)parse_int(call, option, text); break;
  case PZ_OPTION_SET: *(int *)member = parse_set(call, option, text); break;
  case PZ_OPTION_SWITCH: *(int *)member = text == NULL; break;
  case PZ_OPTION_REAL: {
    char *end;
    double value = strtod(text, &end);
    bool in_range = value >= option->min && value <= option->max;
    if (end == text || *end || !in_range)
      raise_value(call, option, text,
                  pz_format(call, "a number from %g to %g", option->min, option->max));
    *(double *)member = value;
    break;
  }
  case PZ_OPTION_CHOICE: {
    char names[256];
    int i = 0;
    while (option->choices[i] && !pz_text_same(option->choices[i], text)) i++;
    if (!option->choices[i])
      raise_value(call, option, text,
                  pz_text_join(names, sizeof names, pz_name_in_list, option->choices));
    *(int *)member = i;
    break;
  }
  case PZ_OPTION_TEXT: *(const char **)member = text; break;
  case PZ_OPTION_TEXTS: {
    const char **list = member;
    int n = 0, most = (int)option->max;
    while (n < most && list[n]) n++;
    if (n == most)
      pz_raise(call, PZ_BAD_USE, "--%s: given too many times; accepted: at most %.0f", option->name,
               option->max);
    list[n] = text;
    break;
  }
  }
}

/* Writes the option as --help shows it: "--kernels fused|eager". */
static void print_usage(const struct pz_option *option, char *buf, size_t size) {
  char name[64];
  int n = snprintf(buf, size, "--%s", pz_option_name(option->name, name, sizeof name));
  if (option->type == PZ_OPTION_SWITCH) n += snprintf(buf + n, size - (size_t)n, ", --no-%s", name);
  if (option->type == PZ_OPTION_FLAG || option->type == PZ_OPTION_SWITCH) return;
  if (option->type == PZ_OPTION_CHOICE && !option->arg) {
    for (int i = 0; option->choices[i] && n > 0 && (size_t)n < size; i++)
      n += snprintf(buf + n, size - (size_t)n, "%s%s", i ? "|" : " ", option->choices[i]);
    return;
  }
  const char *argument = option->type == PZ_OPTION_SET ? "LIST" : "N";
  snprintf(buf + n, size - (size_t)n, " %s", option->arg ? option->arg : argument);
}

/* Parses the options in argv[1..] into `settings`, moves the other words to the front of argv[1..],
 * and returns their number. */
int pz_options_read(struct pz_call *call, const struct pz_option_table *table, void *settings,
                    int argc, char **argv) {
  bool options_ended = false;
  int n_args = 0;
  for (int i = 1; i < argc; i++) {
    char *word = argv[i], *next = i + 1 < argc ? argv[i + 1] : NULL;
    bool is_option = !options_ended && word[0] == '-' && word[1];
    if (!is_option) {
      argv[1 + n_args] = word;
      n_args++;
      continue;
    }
    if (strcmp(word, "--") == 0) {
      options_ended = true;
      continue;
    }
    const char *value;
    bool is_off;
    const struct pz_option *option = find_option(table, word, &value, &is_off);
    if (!option) {
      char name[80], dashed[64];
      snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
      bool is_long = strncmp(name, "--", 2) == 0;
      const char *meant = is_long ? meant_option(table, name + 2, value ? value : next) : NULL;
      pz_raise(call, PZ_BAD_USE, "unknown option '%s'%s%s%s (--help lists all)", name,
               meant ? "; did you mean --" : "",
               meant ? pz_option_name(meant, dashed, sizeof dashed) : "", meant ? "?" : "");
    }
    if (option->type != PZ_OPTION_FLAG && option->type != PZ_OPTION_SWITCH) {
      if (!value) {
        value = next;
        i++;
      }
      char usage[240], name[64];
      print_usage(option, usage, sizeof usage);
      if (!value || !*value)
        pz_raise(call, PZ_BAD_USE, "--%s needs a value: %s",
                 pz_option_name(option->name, name, sizeof name), usage);
    } else if (value) {
      pz_raise(call, PZ_BAD_USE, "%.*s takes no value; found '%s'", (int)strcspn(word, "="), word,
               value);
    }
    set_value(call, option, is_off ? "off" : value, settings);
  }
  return n_args;
}

/* ---- help ----------------------------------------------------------------------------------- */

/* Returns whether an option has the same value in the settings a and b of a command. */
bool pz_option_same(const struct pz_option *option, const void *a, const void *b) {
  const void *x = (const char *)a + option->offset, *y = (const char *)b + option->offset;
  switch (option->type) {
  case PZ_OPTION_FLAG: return *(const bool *)x == *(const bool *)y;
  case PZ_OPTION_INT: return *(const int64_t *)x == *(const int64_t *)y;
  case PZ_OPTION_REAL: return *(const double *)x == *(const double *)y;
  case PZ_OPTION_NUMBER:
  case PZ_OPTION_SET:
  case PZ_OPTION_SWITCH:
  case PZ_OPTION_CHOICE: return *(const int *)x == *(const int *)y;
  case PZ_OPTION_TEXTS: /* compares the first text, which is NULL if none was given */
  case PZ_OPTION_TEXT: return *(const char *const *)x == *(const char *const *)y;
  }
  return true;
}

/* Writes " (default 1)", or " (default: TEXT)", into buf, or "" if there is no default to show. */
static void print_default(const struct pz_option *option, const void *settings, char *buf,
                          size_t size) {
  buf[0] = '\0';
  if (option->default_text) snprintf(buf, size, " (default: %s)", option->default_text);
  if (!settings || option->default_text) return;
  const void *value = (const char *)settings + option->offset;
  if (option->type == PZ_OPTION_INT && *(const int64_t *)value >= 1)
    snprintf(buf, size, " (default %" PRId64 ")", *(const int64_t *)value);
  if (option->type == PZ_OPTION_CHOICE && *(const int *)value >= 0)
    snprintf(buf, size, " (default %s)", option->choices[*(const int *)value]);
}

/* --help has the options in a column of HELP_LEFT characters; their texts wrap at HELP_WIDTH. */
enum { HELP_LEFT = 23, HELP_INDENT = 2 + 4 + HELP_LEFT + 1, HELP_WIDTH = 80 };

/* Prints a text in the second column of --help. */
static void print_wrapped(const char *text, FILE *out) {
  int column = HELP_INDENT;
  while (*text) {
    int n = (int)strcspn(text, " ");
    if (column > HELP_INDENT && column + 1 + n > HELP_WIDTH) {
      fprintf(out, "\n%*s", HELP_INDENT, "");
      column = HELP_INDENT;
    } else if (column > HELP_INDENT) {
      fputc(' ', out);
      column++;
    }
    fprintf(out, "%.*s", n, text);
    column += n;
    text += n;
    text += strspn(text, " ");
  }
  fputc('\n', out);
}

/* Prints the options for --help, with the defaults of `settings` unless it is NULL. */
void pz_options_help(const struct pz_option_table *table, const void *settings, FILE *out) {
  for (size_t i = 0; i < table->n; i++) {
    const struct pz_option *option = &table->options[i];
    char left[240], default_text[120], text[640], letter[8] = "    ";
    if (option->hidden) continue;
    print_usage(option, left, sizeof left);
    print_default(option, settings, default_text, sizeof default_text);
    if (option->letter) snprintf(letter, sizeof letter, "-%c, ", option->letter);
    if (strlen(left) > HELP_LEFT)
      fprintf(out, "  %s%s\n%*s", letter, left, HELP_INDENT, "");
    else
      fprintf(out, "  %s%-*s ", letter, HELP_LEFT, left);
    snprintf(text, sizeof text, "%s%s", option->help, default_text);
    print_wrapped(text, out);
  }
}

/* Prints a text for roff, in which a leading dot is a request and a backslash an escape. */
static void print_roff(const char *text, FILE *out) {
  if (*text == '.' || *text == '\'') fputs("\\&", out);
  for (; *text; text++) {
    if (*text == '\\' || *text == '-') fputc('\\', out);
    fputc(*text, out);
  }
}

/* Prints the options as entries of a man page, with the defaults of `settings` unless NULL. */
void pz_options_man(const struct pz_option_table *table, const void *settings, FILE *out) {
  for (size_t i = 0; i < table->n; i++) {
    const struct pz_option *option = &table->options[i];
    char left[240], default_text[120];
    if (option->hidden) continue;
    print_usage(option, left, sizeof left);
    print_default(option, settings, default_text, sizeof default_text);
    fprintf(out, ".TP\n");
    if (option->letter) fprintf(out, "\\fB\\-%c\\fR, ", option->letter);
    fprintf(out, "\\fB");
    print_roff(left, out);
    fprintf(out, "\\fR\n");
    print_roff(option->help, out);
    fprintf(out, "%s.\n", default_text);
  }
}

/* Returns the powers of two from 1 to `most`. */
struct pz_choices pz_choices_powers(int64_t most) {
  struct pz_choices choices = {.n = 0};
  for (int64_t power = 1; power <= most && choices.n < PZ_CHOICES_MOST; power *= 2) {
    choices.v[choices.n] = power;
    choices.n++;
  }
  return choices;
}

/* Raises an error unless the list has at least `least` ascending numbers from 1 to 2^20. */
void pz_choices_require(struct pz_call *call, const char *name, const struct pz_choices *choices,
                        int least) {
  enum { MOST = 1 << 20 };
  bool is_accepted = choices->n >= least && choices->n <= PZ_CHOICES_MOST;
  for (int i = 0; is_accepted && i < choices->n; i++) {
    int64_t before = i ? choices->v[i - 1] : 0;
    is_accepted = choices->v[i] > before && choices->v[i] <= MOST;
  }
  if (!is_accepted)
    pz_raise(call, PZ_BAD_USE, "%s: accepted: %d to %d numbers from 1 to %d, ascending", name,
             least, PZ_CHOICES_MOST, MOST);
}

/* Returns the comma-separated numbers from 1 to `most` in a text, sorted and without duplicates. */
struct pz_choices pz_choices_read(struct pz_call *call, const char *text, const char *name,
                                  int64_t most) {
  struct pz_choices choices = {.n = 0};
  for (const char *at = text;; at++) {
    char *end;
    errno = 0;
    long long number = strtoll(at, &end, 10);
    bool accepted = end != at && !errno && number >= 1 && number <= most;
    int place = choices.n; /* where the number belongs in the ascending list */
    while (place > 0 && choices.v[place - 1] > number) place--;
    bool is_listed = place > 0 && choices.v[place - 1] == number;
    bool has_room = is_listed || choices.n < PZ_CHOICES_MOST;
    if (!accepted || (*end && *end != ',') || !has_room)
      pz_raise(call, PZ_BAD_USE,
               "--%s '%s'; accepted: up to %d comma-separated integers from 1 to %lld", name, text,
               PZ_CHOICES_MOST, (long long)most);
    if (!is_listed) {
      for (int i = choices.n; i > place; i--) choices.v[i] = choices.v[i - 1];
      choices.v[place] = number;
      choices.n++;
    }
    if (!*end) return choices;
    at = end;
  }
}
