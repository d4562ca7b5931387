#include "launch/shell_words.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DEPTH = 16, MOST_BYTES = 4 << 20 };

/* A word under construction. */
struct draft {
  char text[PZ_SHELL_MOST_VALUE + 1];
  size_t n;
  bool quoted; /* an empty word counts */
  bool guessed;
  const char *unknown;
};

enum truth { NO, MAYBE, YES };

/* An `if`, `case` or { that is open. */
struct branch {
  char kind;            /* its first letter */
  enum truth past, now; /* was a branch before this one taken; is this one? */
  const char *subject;  /* of a case; NULL: it is unknown */
};

struct scanner {
  const char *name, *text;
  size_t bytes, at;
  uint32_t line;
  char open;       /* a quote around arguments */
  uint32_t opened; /* its line */
  size_t open_end; /* where it is closed */
  uint32_t depth;  /* of lists in brackets */
  bool begins, batch;
  bool command, patterns, tests; /* a command begins; patterns of a case; inside a test */
  bool negated;                  /* by a ! before the command */
  char joint;                    /* & or | where the command stands behind && or || */
  enum truth list, run;          /* the value of the commands joined so; does the command run? */
  struct branch branches[MOST_DEPTH];
  int n_branches;
  size_t kept_bytes; /* of all words and values */
  struct draft word;
  struct pz_arena *arena;
  struct pz_shell_text *out;
  struct pz_error *err;
};

/* ---- errors and small things ---------------------------------------------------------------- */

static enum pz_status no_memory(struct scanner *s) {
  return pz_fail(s->err, PZ_NO_MEMORY, "%s: out of memory", s->name);
}

static enum pz_status bad(struct scanner *s, uint32_t line, const char *what,
                          const char *accepted) {
  enum pz_status status =
      pz_fail(s->err, PZ_BAD_INPUT, "%s:%u: %s; accepted: %s", s->name, line, what, accepted);
  pz_error_at(s->err, s->name, (int)line, 0);
  return status;
}

static enum pz_status too_much(struct scanner *s, const char *what, long most) {
  return pz_fail(s->err, PZ_LIMIT, "%s:%u: %s; accepted: at most %ld", s->name, s->line, what,
                 most);
}

static char peek(const struct scanner *s, size_t ahead) {
  return s->at + ahead < s->bytes ? s->text[s->at + ahead] : '\0';
}

static bool is_name(char c, bool first) {
  return c == '_' || isalpha((unsigned char)c) || (!first && isdigit((unsigned char)c));
}

static enum truth not_of(enum truth a) { return (enum truth)(YES - a); }
static enum truth both(enum truth a, enum truth b) { return a < b ? a : b; }
static enum truth either(enum truth a, enum truth b) { return a > b ? a : b; }

/* Is what stands here run? */
static enum truth is_run(const struct scanner *s) {
  enum truth run = s->run;
  for (int i = 0; i < s->n_branches && i < MOST_DEPTH; i++) run = both(run, s->branches[i].now);
  return run;
}

static enum pz_status put(struct scanner *s, struct draft *d, const char *text, size_t n) {
  if (d->n + n > PZ_SHELL_MOST_VALUE)
    return too_much(s, "a word is too long (bytes)", PZ_SHELL_MOST_VALUE);
  memcpy(d->text + d->n, text, n);
  d->n += n;
  d->text[d->n] = '\0';
  return PZ_OK;
}

/* What has no value stands in the word as it was written. */
static enum pz_status put_unknown(struct scanner *s, struct draft *d, const char *from, size_t n) {
  char *copy = pz_arena_printf(s->arena, "%.*s", n < 60 ? (int)n : 60, from);
  if (!copy) return no_memory(s);
  d->unknown = copy;
  return put(s, d, from, n < 60 ? n : 60);
}

/* ---- variables ------------------------------------------------------------------------------ */

static struct pz_shell_variable *find(const struct pz_shell_text *t, const char *name, size_t n) {
  for (uint32_t i = 0; i < t->variables.n; i++) {
    struct pz_shell_variable *v = pz_vec_at(&t->variables, struct pz_shell_variable, i);
    if (strlen(v->name) == n && memcmp(v->name, name, n) == 0) return v;
  }
  return NULL;
}

static bool same_value(const struct pz_shell_variable *a, const char *value) {
  return a->list || (a->value && value && strcmp(a->value, value) == 0);
}

/* value NULL: a list of arguments. */
static enum pz_status assign(struct scanner *s, const char *name, size_t n, const char *value,
                             const char *unknown) {
  struct pz_shell_variable *v = find(s->out, name, n);
  bool guessed = s->word.guessed || is_run(s) == MAYBE;
  if (v && (v->preset || (guessed && unknown && !v->unknown))) return PZ_OK;
  if (!v && s->out->variables.n >= PZ_SHELL_MOST_VARIABLES)
    return too_much(s, "too many variables", PZ_SHELL_MOST_VARIABLES);
  s->kept_bytes += value ? strlen(value) : 0;
  if (s->kept_bytes > MOST_BYTES) return too_much(s, "too long values (bytes)", MOST_BYTES);
  struct pz_shell_variable one = {
      .line = s->line, .unknown = unknown, .list = !value, .guessed = guessed};
  one.name = v ? v->name : pz_arena_printf(s->arena, "%.*s", (int)n, name);
  one.value = value ? pz_arena_strdup(s->arena, value) : "";
  if (!one.name || !one.value) return no_memory(s);
  if (v && !v->unknown && !unknown && !one.list && !same_value(v, value)) one.other_line = v->line;
  if (v)
    *v = one;
  else if (!pz_vec_push(&s->out->variables, &one))
    return no_memory(s);
  return PZ_OK;
}

static enum pz_status take_presets(struct scanner *s, const char *const *presets) {
  for (; presets && *presets; presets++) {
    size_t n = 0;
    while (is_name((*presets)[n], n == 0)) n++;
    if (!n || (*presets)[n] != '=')
      return pz_fail(s->err, PZ_BAD_USE, "variable '%.60s'; accepted: NAME=VALUE", *presets);
    if (strlen(*presets) > PZ_SHELL_MOST_VALUE)
      return too_much(s, "a variable is too long (bytes)", PZ_SHELL_MOST_VALUE);
    enum pz_status status = assign(s, *presets, n, *presets + n + 1, NULL);
    if (status != PZ_OK) return status;
    struct pz_shell_variable *made = find(s->out, *presets, n);
    if (made) made->preset = true;
  }
  return PZ_OK;
}

/* ---- $((A * B)) ----------------------------------------------------------------------------- */

struct sum {
  const struct pz_shell_text *t;
  const char *at, *end;
  int depth;
  bool guessed, failed;
};

static int64_t sum_of(struct sum *x);

static void skip_blanks(struct sum *x) {
  while (x->at < x->end && isspace((unsigned char)*x->at)) x->at++;
}

static int64_t number_of(struct sum *x, const char *text, const char *end) {
  char digits[20] = {0};
  size_t n = (size_t)(end - text);
  if (!n || n > 15) return x->failed = true, 0;
  for (size_t i = 0; i < n; i++)
    if (!isdigit((unsigned char)text[i])) return x->failed = true, 0;
  memcpy(digits, text, n);
  return strtoll(digits, NULL, 10);
}

/* A number, a variable with or without $ and braces, or a sum in brackets. */
static int64_t factor_of(struct sum *x) {
  skip_blanks(x);
  if (x->at < x->end && *x->at == '(' && x->depth < MOST_DEPTH) {
    x->at++;
    x->depth++;
    int64_t v = sum_of(x);
    x->depth--;
    if (x->at >= x->end || *x->at++ != ')') x->failed = true;
    return v;
  }
  while (x->at < x->end && (*x->at == '$' || *x->at == '{')) x->at++;
  const char *from = x->at;
  while (x->at < x->end && is_name(*x->at, false)) x->at++;
  size_t n = (size_t)(x->at - from);
  if (x->at < x->end && *x->at == '}') x->at++;
  if (!n || isdigit((unsigned char)*from)) return number_of(x, from, from + n);
  const struct pz_shell_variable *v = find(x->t, from, n);
  if (!v || v->unknown) return x->failed = true, 0;
  x->guessed = x->guessed || v->guessed;
  return number_of(x, v->value, v->value + strlen(v->value));
}

static const int64_t MOST_NUMBER = (int64_t)1 << 53;

static int64_t within(struct sum *x, double v, int64_t exact) {
  if (!(v < (double)MOST_NUMBER && v > -(double)MOST_NUMBER)) x->failed = true;
  return x->failed ? 0 : exact;
}

static int64_t product_of(struct sum *x) {
  int64_t v = factor_of(x);
  for (skip_blanks(x); x->at < x->end && strchr("*/%", *x->at); skip_blanks(x)) {
    char op = *x->at++;
    int64_t w = factor_of(x);
    if (op != '*' && w == 0) x->failed = true;
    if (x->failed) return 0;
    double product = (double)v * (double)w;
    if (op == '*')
      v = within(x, product, product < 9e15 && product > -9e15 ? v * w : 0);
    else
      v = op == '/' ? v / w : v % w;
  }
  return v;
}

static int64_t sum_of(struct sum *x) {
  int64_t v = product_of(x);
  for (skip_blanks(x); x->at < x->end && strchr("+-", *x->at); skip_blanks(x)) {
    char op = *x->at++;
    int64_t w = product_of(x);
    v = within(x, (double)v + (double)w, op == '+' ? v + w : v - w);
  }
  return v;
}

/* ---- what a dollar stands for --------------------------------------------------------------- */

static enum pz_status expand(struct scanner *s, const char **at, const char *end, struct draft *d,
                             int depth);

/* The place behind the bracket that closes the one at `at`; NULL: none does. */
static const char *closing(const char *at, const char *end, char open, char close) {
  for (int depth = 0; at < end; at++) {
    if (*at == open) depth++;
    if (*at == close && --depth == 0) return at + 1;
  }
  return NULL;
}

static enum pz_status put_variable(struct scanner *s, const struct pz_shell_variable *v,
                                   struct draft *d) {
  if (v->unknown) d->unknown = v->unknown;
  d->guessed = d->guessed || v->guessed;
  return v->list ? PZ_OK : put(s, d, v->value, strlen(v->value));
}

/* The word of ${NAME:-word}. */
static enum pz_status put_default(struct scanner *s, const char *at, const char *end,
                                  struct draft *d, int depth) {
  enum pz_status status = PZ_OK;
  while (at < end && status == PZ_OK) {
    if (*at == '$') {
      status = expand(s, &at, end, d, depth + 1);
    } else {
      if (*at != '"' && *at != '\'') status = put(s, d, at, 1);
      at++;
    }
  }
  return status;
}

/* Between the braces of ${...}. */
static enum pz_status put_braced(struct scanner *s, const char *from, const char *end,
                                 struct draft *d, int depth) {
  const char *at = from;
  while (at < end && (is_name(*at, false))) at++;
  struct pz_shell_variable *v = find(s->out, from, (size_t)(at - from));
  bool all = end - at == 3 && (memcmp(at, "[@]", 3) == 0 || memcmp(at, "[*]", 3) == 0);
  const char *word = at + (at < end && *at == ':');
  bool absent = word < end && (*word == '-' || *word == '=');
  if (v && !v->unknown && (at == end || all || absent)) return put_variable(s, v, d);
  if (absent && at > from) return put_default(s, word + 1, end, d, depth);
  return put_unknown(s, d, from - 2, (size_t)(end - from) + 3);
}

/* $((...)) and $(...) */
static enum pz_status put_bracketed(struct scanner *s, const char *from, const char *end,
                                    struct draft *d) {
  size_t n = (size_t)(end - from);
  if (n >= 6 && from[2] == '(' && end[-2] == ')') {
    struct sum x = {.t = s->out, .at = from + 3, .end = end - 2};
    char text[32];
    int64_t v = sum_of(&x);
    snprintf(text, sizeof text, "%lld", (long long)v);
    d->guessed = d->guessed || x.guessed;
    if (!x.failed && x.at == x.end) return put(s, d, text, strlen(text));
  }
  return put_unknown(s, d, from, n);
}

/* *at is a dollar; moved behind what it stands before. */
static enum pz_status expand(struct scanner *s, const char **at, const char *end, struct draft *d,
                             int depth) {
  const char *from = *at, *next = from + 1, *behind;
  if (depth > MOST_DEPTH) return bad(s, s->line, "variables are nested too deep", "at most 16");
  if (next < end && (*next == '{' || *next == '(')) {
    bool brace = *next == '{';
    behind = closing(next, end, *next, brace ? '}' : ')');
    if (!behind)
      return bad(s, s->line, brace ? "'${' is not closed" : "'$(' is not closed",
                 brace ? "'}' behind it" : "')' behind it");
    *at = behind;
    return brace ? put_braced(s, next + 1, behind - 1, d, depth)
                 : put_bracketed(s, from, behind, d);
  }
  if (next < end && is_name(*next, true)) {
    while (next < end && is_name(*next, false)) next++;
    struct pz_shell_variable *v = find(s->out, from + 1, (size_t)(next - from - 1));
    *at = next;
    return v ? put_variable(s, v, d) : put_unknown(s, d, from, (size_t)(next - from));
  }
  bool special = next < end && (isdigit((unsigned char)*next) || strchr("@*#?$!-", *next));
  *at = next + special;
  return special ? put_unknown(s, d, from, 2) : put(s, d, "$", 1);
}

static enum pz_status expand_here(struct scanner *s, struct draft *d) {
  const char *at = s->text + s->at, *from = at;
  enum pz_status status = expand(s, &at, s->text + s->bytes, d, 0);
  for (; from < at; from++) s->line += *from == '\n';
  s->at = (size_t)(at - s->text);
  return status;
}

/* ---- words ---------------------------------------------------------------------------------- */

/* The quote that closes the one here; s->bytes: none does. */
static size_t closing_quote(const struct scanner *s) {
  char quote = s->text[s->at];
  for (size_t i = s->at + 1; i < s->bytes; i++) {
    if (s->text[i] == '\\' && quote == '"')
      i++;
    else if (s->text[i] == quote)
      return i;
  }
  return s->bytes;
}

/* Are there several words between quotes, with arguments among them?  One argument is a list where it is `assigned`. */
static bool quotes_arguments(const struct scanner *s, size_t end, bool assigned) {
  bool blank = assigned, argument = false;
  for (size_t i = s->at + 1; i < end; i++) {
    bool first = i == s->at + 1 || isspace((unsigned char)s->text[i - 1]);
    blank = blank || isspace((unsigned char)s->text[i]);
    argument = argument || (first && i + 2 < end && s->text[i] == '-' && s->text[i + 1] == '-' &&
                            isalpha((unsigned char)s->text[i + 2]));
  }
  return blank && argument;
}

/* The name of NAME= or NAME+= at the end of what was read so far; 0: it is none. */
static size_t assigned_name(const struct draft *d) {
  size_t n = 0;
  while (n < d->n && is_name(d->text[n], n == 0)) n++;
  size_t behind = n + (d->text[n] == '+');
  return n && behind < d->n && d->text[behind] == '=' ? n : 0;
}

static bool ends_with_equals(const struct draft *d) {
  size_t n = assigned_name(d);
  return n && d->text[d->n - 1] == '=' && d->n <= n + 2;
}

static enum pz_status quoted(struct scanner *s, size_t end) {
  struct draft *d = &s->word;
  char quote = s->text[s->at];
  enum pz_status status = PZ_OK;
  d->quoted = true;
  s->at++;
  while (s->at < end && status == PZ_OK) {
    char c = s->text[s->at], next = peek(s, 1);
    if (quote == '"' && c == '$') {
      status = expand_here(s, d);
      continue;
    }
    if (quote == '"' && c == '\\' && next && strchr("\"\\$`\n", next)) {
      s->at++;
      c = next;
    }
    s->line += c == '\n';
    status = put(s, d, &c, 1);
    s->at++;
  }
  if (s->at < end + 1) s->at = end + 1;
  return status;
}

/* A command between back quotes: its output is not known. */
static enum pz_status back_quoted(struct scanner *s) {
  size_t end = closing_quote(s), from = s->at;
  if (end == s->bytes) return bad(s, s->line, "'`' is not closed", "another behind it");
  for (size_t i = from; i < end; i++) s->line += s->text[i] == '\n';
  s->at = end + 1;
  return put_unknown(s, &s->word, s->text + from, end + 1 - from);
}

/* Is the word over here? */
static bool at_end(const struct scanner *s) {
  char c = peek(s, 0);
  return s->at >= s->bytes || isspace((unsigned char)c) || (c && strchr(";|&<>()", c)) ||
         (s->open && c == s->open);
}

/* One step of a word; *list: it turned out to assign a list, which begins here. */
static enum pz_status word_step(struct scanner *s, bool *list) {
  struct draft *d = &s->word;
  char c = peek(s, 0);
  if (c == '\'' || c == '"') {
    size_t end = closing_quote(s);
    if (s->open && end >= s->open_end) return s->at++, put(s, d, &c, 1); /* an apostrophe */
    if (end == s->bytes) return bad(s, s->line, "a quote is not closed", "another behind it");
    if (!s->tests && !s->open && quotes_arguments(s, end, d->n > 0) &&
        (!d->n || ends_with_equals(d))) {
      s->open = c;
      s->opened = s->line;
      s->open_end = end;
      s->at++;
      *list = true;
      return PZ_OK;
    }
    return quoted(s, end);
  }
  if (c == '$') return expand_here(s, d);
  if (c == '`') return back_quoted(s);
  if (c == '\\' && s->at + 1 < s->bytes) {
    s->at++;
    c = peek(s, 0);
    s->line += c == '\n';
    if (c == '\n') return s->at++, PZ_OK;
  }
  s->at++;
  return put(s, d, &c, 1);
}

static enum pz_status keep_word(struct scanner *s, uint32_t line) {
  struct draft *d = &s->word;
  bool redirected = peek(s, 0) && strchr("<>", peek(s, 0)) && s->at >= d->n &&
                    strspn(d->text, "0123456789") == d->n &&
                    memcmp(s->text + s->at - d->n, d->text, d->n) == 0; /* the 2 of 2>file */
  if ((!d->n && !d->quoted) || redirected) return PZ_OK;
  s->kept_bytes += d->n;
  if (s->out->words.n >= PZ_SHELL_MOST_WORDS || s->kept_bytes > MOST_BYTES)
    return too_much(s, "too many words", PZ_SHELL_MOST_WORDS);
  struct pz_shell_word w = {.text = pz_arena_strdup(s->arena, d->text),
                            .unknown = d->unknown,
                            .line = line,
                            .begins = s->begins,
                            .batch = s->batch,
                            .guessed = is_run(s) == MAYBE};
  s->begins = false;
  return w.text && pz_vec_push(&s->out->words, &w) ? PZ_OK : no_memory(s);
}

static enum pz_status keep(struct scanner *s, bool list, uint32_t line) {
  struct draft *d = &s->word;
  size_t name = assigned_name(d);
  if (list) s->begins = true;
  if (is_run(s) == NO) return PZ_OK;
  if (!name) return list ? PZ_OK : keep_word(s, line);
  size_t behind = name + (d->text[name] == '+') + 1;
  return assign(s, d->text, name, list ? NULL : d->text + behind, d->unknown);
}

/* A backslash before the end of a line, blanks between them forgiven; 0: it is none. */
static size_t continuation(const struct scanner *s) {
  size_t n = 1;
  if (peek(s, 0) != '\\') return 0;
  while (peek(s, n) == ' ' || peek(s, n) == '\t' || peek(s, n) == '\r') n++;
  return peek(s, n) == '\n' ? n + 1 : 0;
}

/* Skips blanks and continued lines. */
static void skip_gap(struct scanner *s) {
  for (;;) {
    size_t n = continuation(s);
    if (!n && peek(s, 0) != ' ' && peek(s, 0) != '\t') return;
    s->line += n > 0;
    s->at += n ? n : 1;
  }
}

/* A word without what it means; *list: as in word_step. */
static enum pz_status draft_word(struct scanner *s, bool *list) {
  enum pz_status status = PZ_OK;
  s->word.n = 0;
  s->word.text[0] = '\0';
  s->word.quoted = s->word.guessed = false;
  s->word.unknown = NULL;
  while (!at_end(s) && !*list && status == PZ_OK) status = word_step(s, list);
  return status;
}

/* ---- conditions ----------------------------------------------------------------------------- */

/* A op B, -z A or A, in a test. */
struct term {
  const char *word[3];
  int n;
  bool negated, unknown;
};

static bool is_either(const char *word, const char *a, const char *b) {
  return strcmp(word, a) == 0 || strcmp(word, b) == 0;
}

/* A op B of numbers. */
static enum truth compare(const char *op, int64_t a, int64_t b) {
  static const char *const ops[][2] = {{"-lt", "<"},  {"-eq", "=="}, {"-gt", ">"},
                                       {"-ge", ">="}, {"-ne", "!="}, {"-le", "<="}};
  int order = a < b ? 0 : a == b ? 1 : 2;
  for (int i = 0; i < 6; i++) /* the last three are the first, negated */
    if (is_either(op, ops[i][0], ops[i][1])) return (order == i % 3) == (i < 3) ? YES : NO;
  return MAYBE;
}

/* Does a text have what a pattern matches?  Of patterns, * alone and texts without signs are decided. */
static enum truth is_like(const char *text, const char *pattern) {
  if (is_either(pattern, "*", text)) return YES;
  return strpbrk(pattern, "*?[") ? MAYBE : NO;
}

static enum truth term_value(const struct term *t) {
  const char *first = t->word[0], *op = t->word[1], *last = t->word[2];
  struct sum x = {.failed = false};
  if (t->unknown || t->n < 1 || t->n > 3) return MAYBE;
  if (t->n == 1) return *first ? YES : NO;
  if (t->n == 2 && strcmp(first, "-z") == 0) return *op ? NO : YES;
  if (t->n == 2) return strcmp(first, "-n") != 0 ? MAYBE : *op ? YES : NO;
  if (is_either(op, "=", "==")) return is_like(first, last);
  if (strcmp(op, "!=") == 0) return not_of(is_like(first, last));
  int64_t a = number_of(&x, first, first + strlen(first));
  int64_t b = number_of(&x, last, last + strlen(last));
  return !x.failed && *op == '-' ? compare(op, a, b) : MAYBE;
}

/* The value of a test up to its end, `close` or (NULL) that of the command: terms joined by and, and these by or.  What is in
 * brackets is not decided. */
static enum pz_status read_test(struct scanner *s, const char *close, enum truth *out) {
  struct term t = {.n = 0};
  enum truth any = NO, all = YES;
  bool ended = false, closed = false, list = false, brackets = false;
  enum pz_status status = PZ_OK;
  s->tests = true;
  while (!ended && !closed && status == PZ_OK) {
    skip_gap(s);
    char c = peek(s, 0);
    const char *word = s->word.text;
    bool sign = close && c && strchr("|&<>()", c);
    ended = !sign && at_end(s);
    status = draft_word(s, &list); /* of no letters at a sign */
    for (int i = 0; i < 2 && sign && peek(s, 0) == c && (!i || strchr("|&", c)); s->at++, i++)
      status = put(s, &s->word, &c, 1);
    closed = close && !s->word.quoted && strcmp(word, close) == 0;
    bool or = is_either(word, "||", "-o");
    if (ended || closed || or || is_either(word, "&&", "-a")) {
      all = both(all, t.negated ? not_of(term_value(&t)) : term_value(&t));
      if (or) any = either(any, all);
      if (or) all = YES;
      t = (struct term){.n = 0};
    } else if (!t.n && strcmp(word, "!") == 0) {
      t.negated = !t.negated;
    } else {
      brackets = brackets || is_either(word, "(", ")");
      t.unknown = t.unknown || s->word.unknown || s->word.guessed;
      const char *copy = pz_arena_strdup(s->arena, word);
      if (!copy) status = no_memory(s);
      if (t.n < 3) t.word[t.n] = copy;
      t.n += t.n < 4;
    }
  }
  s->tests = false;
  *out = brackets || (close && ended) ? MAYBE : either(any, all);
  return status;
}

/* ((A > B)) from here on; false: it is none. */
static bool read_sums(struct scanner *s, enum truth *out) {
  const char *from = s->text + s->at, *end = closing(from, s->text + s->bytes, '(', ')');
  char op[3] = "";
  if (!end || end - from < 5 || end[-2] != ')') return false;
  struct sum x = {.t = s->out, .at = from + 2, .end = end - 2};
  for (; from < end; from++) s->line += *from == '\n';
  s->at = (size_t)(end - s->text);
  int64_t a = sum_of(&x);
  for (size_t n = 0; x.at < x.end && strchr("<>=!", *x.at) && n < 2;) op[n++] = *x.at++;
  int64_t b = *op ? sum_of(&x) : 0;
  *out = x.failed || x.guessed || x.at < x.end ? MAYBE : compare(op, a, b);
  return true;
}

/* The command that begins here has this value. */
static void begin_command(struct scanner *s, enum truth value) {
  s->run = s->joint == '&' ? s->list : s->joint == '|' ? not_of(s->list) : YES;
  if (s->negated) value = not_of(value);
  if (s->joint == '&') value = both(s->list, value);
  if (s->joint == '|') value = either(s->list, value);
  s->list = value;
  s->command = s->negated = false;
}

static void end_command(struct scanner *s, char joint) {
  s->command = true;
  s->joint = joint;
  if (!joint) s->run = YES;
}

/* The innermost; NULL: none is open, or so many that they do not count. */
static struct branch *top_branch(struct scanner *s) {
  return s->n_branches && s->n_branches <= MOST_DEPTH ? &s->branches[s->n_branches - 1] : NULL;
}

/* The next branch is taken if `value` and none before it was. */
static void next_branch(struct branch *b, enum truth value) {
  if (!b) return;
  b->now = both(value, not_of(b->past));
  b->past = either(b->past, value);
}

static void open_branch(struct scanner *s, char kind, enum truth now, const char *subject) {
  if (s->n_branches < MOST_DEPTH)
    s->branches[s->n_branches] = (struct branch){.kind = kind, .now = now, .subject = subject};
  s->n_branches++;
}

/* "case WORD in". */
static enum pz_status read_case(struct scanner *s) {
  bool list = false;
  skip_gap(s);
  enum pz_status status = draft_word(s, &list);
  if (status != PZ_OK || list) return status;
  bool known = !s->word.unknown && !s->word.guessed;
  const char *subject = known ? pz_arena_strdup(s->arena, s->word.text) : NULL;
  if (known && !subject) return no_memory(s);
  skip_gap(s);
  if (peek(s, 0) != 'i' || peek(s, 1) != 'n' || !isspace((unsigned char)peek(s, 2))) return PZ_OK;
  s->at += 2;
  open_branch(s, 'c', NO, subject);
  s->patterns = true;
  return PZ_OK;
}

/* A|B) of a case, or its end. */
static enum pz_status read_pattern(struct scanner *s) {
  struct branch *b = top_branch(s);
  bool list = false, end = false;
  enum truth any = NO;
  enum pz_status status = PZ_OK;
  s->tests = true;
  next_branch(b, NO);
  for (char c = '|'; c == '|' && !end && status == PZ_OK; s->at += c == '|' || c == ')') {
    while (peek(s, 0) == ' ' || peek(s, 0) == '(') s->at++;
    status = draft_word(s, &list);
    end = !s->word.quoted && strcmp(s->word.text, "esac") == 0;
    bool known = b && b->subject && !s->word.unknown && !s->word.guessed;
    bool all = strcmp(s->word.text, "*") == 0;
    any = either(any, all ? YES : known ? is_like(b->subject, s->word.text) : MAYBE);
    skip_gap(s);
    c = end ? '\0' : peek(s, 0);
  }
  s->patterns = s->tests = false;
  if (end)
    s->n_branches--;
  else
    next_branch(b, any);
  if (!end) end_command(s, 0);
  return status;
}

/* The word where a command begins, if it is a shell's own; else *known is false. */
static enum pz_status read_keyword(struct scanner *s, bool *known) {
  static const char *const words[] = {"if", "then", "elif", "else",  "fi", "esac",
                                      "}",  "case", "do",   "{",     "!",  "[",
                                      "[[", "test", "true", "false", ":"};
  enum { IF, THEN, ELIF, ELSE, FI, ESAC, END, CASE, DO, BRACE, NOT, SINGLE, DOUBLE, TEST, TRUE };
  struct branch *b = top_branch(s);
  int w = 0, n = sizeof words / sizeof *words;
  enum truth value = MAYBE;
  enum pz_status status = PZ_OK;
  while (w < n && strcmp(words[w], s->word.text) != 0) w++;
  *known = w < n && !s->word.quoted;
  if (!*known) {
    begin_command(s, assigned_name(&s->word) ? YES : MAYBE);
  } else if (w == NOT) {
    s->negated = !s->negated;
  } else if (w >= SINGLE) {
    if (w <= TEST) status = read_test(s, w == SINGLE ? "]" : w == DOUBLE ? "]]" : NULL, &value);
    begin_command(s, w <= TEST ? value : strcmp(words[w], "false") == 0 ? NO : YES);
  } else if (w == BRACE) {
    begin_command(s, MAYBE);
    open_branch(s, '{', s->run, NULL);
  } else if (w == CASE) {
    status = read_case(s);
  } else if (w == IF) {
    open_branch(s, 'i', YES, NULL);
  } else if (b && w != DO && b->kind == (w == ESAC ? 'c' : w == END ? '{' : 'i')) {
    next_branch(b, w == THEN ? s->list : w == ELSE ? YES : NO);
    if (w == ELIF) b->now = YES;
    if (w >= FI) s->n_branches--;
  }
  if (*known && w < NOT) end_command(s, 0);
  return status;
}

static enum pz_status read_word(struct scanner *s) {
  uint32_t line = s->line;
  bool list = false, known = false, command = s->command && !s->open && !s->depth && !s->batch;
  enum pz_status status = draft_word(s, &list);
  if (status == PZ_OK && !list && peek(s, 0) == '(' && ends_with_equals(&s->word)) {
    s->at++;
    s->depth++;
    list = true;
  }
  if (status == PZ_OK && command) status = read_keyword(s, &known);
  return status == PZ_OK && !known ? keep(s, list, line) : status;
}

/* ---- between words -------------------------------------------------------------------------- */

static void skip_comment(struct scanner *s) {
  if (s->bytes - s->at > 7 && memcmp(s->text + s->at, "#SBATCH", 7) == 0) {
    s->batch = s->begins = true;
    s->at += 7;
    return;
  }
  while (s->at < s->bytes && s->text[s->at] != '\n') s->at++;
}

static enum pz_status step(struct scanner *s) {
  char c = s->text[s->at];
  size_t n = continuation(s);
  bool top = !s->depth && !s->open;
  enum truth value;
  if (s->patterns && !isspace((unsigned char)c) && c != '#' && !n) return read_pattern(s);
  if (n || c == '\n') {
    s->line++;
    if (!n && top) end_command(s, 0);
    s->begins = s->begins || (!n && !s->depth && !s->open);
    s->batch = s->batch && n;
    s->at += n ? n : 1;
  } else if (isspace((unsigned char)c)) {
    s->at++;
  } else if (c == '#') {
    skip_comment(s);
  } else if (s->open && c == s->open) {
    s->open = '\0';
    s->begins = true;
    s->at++;
  } else if (c == '(' && top && s->command && peek(s, 1) == '(' && read_sums(s, &value)) {
    begin_command(s, value);
  } else if (strchr(";|&<>()", c)) {
    bool twice = top && peek(s, 1) == c && !strchr("()", c);
    bool redirects = c == '&' && (peek(s, 1) == '>' || (s->at && strchr("<>", s->text[s->at - 1])));
    if (c == ')' && s->depth) s->depth--;
    s->begins = true;
    s->at += 1 + twice;
    if (top && (c == ';' || (c == '&' && !redirects) || (c == '|' && twice)))
      end_command(s, twice && c != ';' ? c : 0);
    struct branch *b = c == ';' && twice ? top_branch(s) : NULL;
    if (b && b->kind == 'c') s->patterns = true;
  } else {
    return read_word(s);
  }
  return PZ_OK;
}

enum pz_status pz_shell_read(const char *name, const char *text, size_t bytes,
                             const char *const *presets, struct pz_arena *arena,
                             struct pz_shell_text *out, struct pz_error *err) {
  struct scanner *s = pz_arena_alloc(arena, 1, sizeof *s);
  if (!s) return pz_fail(err, PZ_NO_MEMORY, "%s: out of memory", name);
  *s = (struct scanner){.name = name,
                        .text = text,
                        .bytes = bytes,
                        .line = 1,
                        .begins = true,
                        .command = true,
                        .run = YES,
                        .arena = arena,
                        .out = out,
                        .err = err};
  pz_vec_init(&out->words, arena, sizeof(struct pz_shell_word));
  pz_vec_init(&out->variables, arena, sizeof(struct pz_shell_variable));
  if (bytes > PZ_SHELL_MOST_BYTES)
    return pz_fail(err, PZ_LIMIT, "%s: %zu bytes; accepted: at most %d", name, bytes,
                   PZ_SHELL_MOST_BYTES);
  const char *zero = bytes ? memchr(text, '\0', bytes) : NULL;
  if (zero) s->bytes = (size_t)(zero - text); /* read up to there, for the line */
  enum pz_status status = take_presets(s, presets);
  while (s->at < s->bytes && status == PZ_OK) status = step(s);
  if (status == PZ_OK && zero) status = bad(s, s->line, "a zero byte", "text");
  if (status == PZ_OK && s->open)
    status = bad(s, s->opened, "a quote is not closed", "another behind it");
  if (status == PZ_OK && s->depth)
    status = bad(s, s->line, "a list '(' is not closed", "')' behind it");
  return status;
}
