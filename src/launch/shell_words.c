/* Reader of shell scripts as words, without running them.
 *
 * pz_shell_read() scans the text once.  scan_step() handles line ends, comments and operators
 * between words, and calls read_word() for a word.  draft_word() builds the word in scanner.word:
 * it removes quotes and expands variables (expand_dollar) and arithmetic (evaluate_sum).  The
 * finished word is then a keyword of the shell (read_keyword), an assignment (assign) or a word of
 * the result (append_word).
 *
 * Whether a command is run is computed in Kleene's three-valued logic: NO, MAYBE and YES, where
 * "and" is the minimum and "or" the maximum.  Words of commands that are not run are dropped, and
 * words of commands that may be run are marked as guesses.  The scanner has a stack of open `if`,
 * `case` and { with the truth of their current branch. */
#include "launch/shell_words.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DEPTH = 16, MOST_STORED_BYTES = 4 << 20, MOST_UNKNOWN = 60 };

/* A word under construction. */
struct draft {
  char text[PZ_SHELL_MOST_VALUE + 1];
  size_t n;
  bool quoted;         /* has quotes, so that it is a word even if it is empty */
  bool guessed;        /* contains a variable whose value is a guess */
  const char *unknown; /* a part whose value is unknown, or NULL */
};

/* Whether a command is run, or a condition holds: MAYBE if the text does not decide it. */
enum truth { NO, MAYBE, YES };

/* An `if`, `case` or { that is open, with its current branch. */
struct branch {
  char kind;              /* i for `if`, c for `case`, or { */
  enum truth earlier_run; /* whether an earlier branch of the statement was run */
  enum truth is_run;      /* whether the current branch is run */
  const char *subject;    /* the word that a `case` compares, or NULL if its value is unknown */
};

/* The state of reading a script. */
struct scanner {
  struct pz_call *call;
  const char *name, *text; /* name of the script in messages, and its text */
  size_t bytes, at;        /* length of the text, and index of the current character */
  uint32_t line;           /* line of the current character */

  /* the list of arguments that the current character is in: ARGS="--a 1" or ARGS=(--a 1) */
  char list_quote;          /* the quote that closes the list, or 0 */
  uint32_t list_quote_line; /* line of the opening quote */
  size_t list_quote_end;    /* index of the closing quote */
  uint32_t parentheses;     /* number of open parentheses of lists */

  bool next_is_first;    /* the next word begins a line, list or command */
  bool in_slurm_comment; /* inside a comment #SBATCH, which has options of Slurm */
  bool at_command;       /* the next word is the first of a command */
  bool at_pattern;       /* the next word is a pattern of a `case` */
  bool in_test;          /* inside [ ], [[ ]] or test */
  bool negated;          /* a ! precedes the command */
  char joined_by;        /* & or |: the next command follows && or || */
  enum truth joined;     /* value of the commands that && and || join so far */
  enum truth command;    /* whether the current command is run, given && and || but not branches */
  struct branch branches[MOST_DEPTH];
  int n_branches;

  size_t stored_bytes; /* bytes of all words and values so far */
  struct draft word;
  struct pz_shell_text out;
};

/* ---- errors and characters ------------------------------------------------------------------ */

/* Raises PZ_BAD_INPUT with the line of the script. */
static _Noreturn void fail_in_line(const struct scanner *scanner, uint32_t line,
                                   const char *problem, const char *accepted) {
  pz_raise_at(scanner->call, PZ_BAD_INPUT, scanner->name, (int)line, 0, "%s:%u: %s; accepted: %s",
              scanner->name, line, problem, accepted);
}

/* Raises PZ_LIMIT with the current line. */
static _Noreturn void fail_limit(const struct scanner *scanner, const char *problem, long most) {
  pz_raise(scanner->call, PZ_LIMIT, "%s:%u: %s; accepted: at most %ld", scanner->name,
           scanner->line, problem, most);
}

/* Returns the character `ahead` characters after the current one, or 0 after the end. */
static char peek(const struct scanner *scanner, size_t ahead) {
  size_t at = scanner->at + ahead;
  return at < scanner->bytes ? scanner->text[at] : '\0';
}

/* Returns whether a character may be in the name of a variable. */
static bool is_name_character(char c, bool first) {
  return c == '_' || isalpha((unsigned char)c) || (!first && isdigit((unsigned char)c));
}

/* Returns the length of the variable name at the beginning of a text, or 0 if there is none. */
static size_t name_length(const char *text, size_t n) {
  size_t length = 0;
  while (length < n && is_name_character(text[length], length == 0)) length++;
  return length;
}

/* The operators of Kleene's logic. */
static enum truth truth_not(enum truth a) { return (enum truth)(YES - a); }
static enum truth truth_and(enum truth a, enum truth b) { return a < b ? a : b; }
static enum truth truth_or(enum truth a, enum truth b) { return a > b ? a : b; }

/* Returns whether the current command is run, given all branches that contain it. */
static enum truth is_run(const struct scanner *scanner) {
  enum truth run = scanner->command;
  for (int i = 0; i < scanner->n_branches && i < MOST_DEPTH; i++)
    run = truth_and(run, scanner->branches[i].is_run);
  return run;
}

/* Appends text to the word that is being built. */
static void append_text(struct scanner *scanner, const char *text, size_t n) {
  struct draft *word = &scanner->word;
  if (word->n + n > PZ_SHELL_MOST_VALUE)
    fail_limit(scanner, "a word is too long (bytes)", PZ_SHELL_MOST_VALUE);
  memcpy(word->text + word->n, text, n);
  word->n += n;
  word->text[word->n] = '\0';
}

/* Appends the text of an expansion whose value is unknown (at most MOST_UNKNOWN bytes), and marks
 * the word as unknown. */
static void append_unknown(struct scanner *scanner, const char *text, size_t n) {
  if (n > MOST_UNKNOWN) n = MOST_UNKNOWN;
  scanner->word.unknown = pz_format(scanner->call, "%.*s", (int)n, text);
  append_text(scanner, text, n);
}

/* ---- variables ------------------------------------------------------------------------------ */

/* Returns a variable by its name, or NULL. */
static struct pz_shell_variable *find_variable(const struct pz_shell_text *text, const char *name,
                                               size_t n) {
  for (uint32_t i = 0; i < text->variables.n; i++) {
    struct pz_shell_variable *variable = pz_vec_at(&text->variables, struct pz_shell_variable, i);
    if (strlen(variable->name) == n && memcmp(variable->name, name, n) == 0) return variable;
  }
  return NULL;
}

/* Assigns a value to a variable.  The value NULL stands for a list of arguments, whose words are
 * read separately.  `unknown` is a part of the value that is unknown, or NULL.  A preset variable
 * keeps its value, and so does a known one if the new value is unknown and only guessed. */
static void assign(struct scanner *scanner, const char *name, size_t n, const char *value,
                   const char *unknown) {
  struct pz_shell_variable *old = find_variable(&scanner->out, name, n);
  bool guessed = scanner->word.guessed || is_run(scanner) == MAYBE;
  bool loses_known_value = old && guessed && unknown && !old->unknown;
  if (loses_known_value || (old && old->preset)) return;
  if (!old && scanner->out.variables.n >= PZ_SHELL_MOST_VARIABLES)
    fail_limit(scanner, "too many variables", PZ_SHELL_MOST_VARIABLES);
  if (value) scanner->stored_bytes += strlen(value);
  if (scanner->stored_bytes > MOST_STORED_BYTES)
    fail_limit(scanner, "too long values (bytes)", MOST_STORED_BYTES);
  struct pz_shell_variable new = {.name = old ? old->name
                                              : pz_format(scanner->call, "%.*s", (int)n, name),
                                  .value = value ? pz_copy_text(scanner->call, value) : "",
                                  .line = scanner->line,
                                  .unknown = unknown,
                                  .list = !value,
                                  .guessed = guessed};
  if (!old) {
    pz_append(scanner->call, &scanner->out.variables, &new);
    return;
  }
  bool both_known = !old->unknown && !unknown && value && !old->list;
  if (both_known && strcmp(old->value, value) != 0) new.other_line = old->line;
  *old = new;
}

/* ---- arithmetic: $((A * B)) ----------------------------------------------------------------- */

/* An arithmetic expression under evaluation.  Once it has failed, its value is meaningless. */
struct arithmetic {
  const struct pz_shell_text *text;
  const char *at, *end;
  int depth;
  bool guessed; /* uses a variable that is a guess */
  bool failed;
};

static int64_t evaluate_sum(struct arithmetic *expression);

/* Returns whether the next character of the expression is `c`. */
static bool is_next(const struct arithmetic *expression, char c) {
  return expression->at < expression->end && *expression->at == c;
}

/* Skips the next character and returns it if it is one of `operators`; otherwise returns 0. */
static char next_operator(struct arithmetic *expression, const char *operators) {
  while (expression->at < expression->end && isspace((unsigned char)*expression->at))
    expression->at++;
  if (expression->at >= expression->end || !strchr(operators, *expression->at)) return '\0';
  expression->at++;
  return expression->at[-1];
}

/* Returns the value of at most 15 decimal digits; for another text the evaluation fails. */
static int64_t parse_digits(struct arithmetic *expression, const char *text, size_t n) {
  char digits[20] = {0};
  bool is_number = n && n <= 15;
  for (size_t i = 0; i < n && is_number; i++) is_number = isdigit((unsigned char)text[i]);
  if (!is_number) {
    expression->failed = true;
    return 0;
  }
  memcpy(digits, text, n);
  return strtoll(digits, NULL, 10);
}

/* Evaluates a number, a variable with or without $ and braces, or a sum in parentheses. */
static int64_t evaluate_factor(struct arithmetic *expression) {
  const char *end = expression->end;
  while (expression->at < end && isspace((unsigned char)*expression->at)) expression->at++;
  if (is_next(expression, '(') && expression->depth < MOST_DEPTH) {
    expression->at++;
    expression->depth++;
    int64_t value = evaluate_sum(expression);
    expression->depth--;
    if (!is_next(expression, ')')) expression->failed = true;
    if (expression->at < end) expression->at++;
    return value;
  }
  while (is_next(expression, '$') || is_next(expression, '{')) expression->at++;
  const char *name = expression->at;
  while (expression->at < end && is_name_character(*expression->at, false)) expression->at++;
  size_t n = (size_t)(expression->at - name);
  if (is_next(expression, '}')) expression->at++;
  if (!n || isdigit((unsigned char)*name)) return parse_digits(expression, name, n);
  const struct pz_shell_variable *variable = find_variable(expression->text, name, n);
  if (!variable || variable->unknown) {
    expression->failed = true;
    return 0;
  }
  expression->guessed = expression->guessed || variable->guessed;
  return parse_digits(expression, variable->value, strlen(variable->value));
}

/* Returns whether the magnitude of a result is below 2^53, up to which a double holds every integer
 * exactly.  Otherwise it marks the expression as failed. */
static bool is_exact(struct arithmetic *expression, double value) {
  static const double limit = (double)((int64_t)1 << 53);
  if (!(value < limit && value > -limit)) expression->failed = true;
  return !expression->failed;
}

/* Evaluates factors joined by *, / and %. */
static int64_t evaluate_product(struct arithmetic *expression) {
  int64_t value = evaluate_factor(expression);
  for (;;) {
    char sign = next_operator(expression, "*/%");
    if (!sign) return value;
    int64_t factor = evaluate_factor(expression);
    if (sign != '*' && factor == 0) expression->failed = true;
    if (expression->failed) return 0;
    if (sign == '*')
      value = is_exact(expression, (double)value * (double)factor) ? value * factor : 0;
    else
      value = sign == '/' ? value / factor : value % factor;
  }
}

/* Evaluates products joined by + and -. */
static int64_t evaluate_sum(struct arithmetic *expression) {
  int64_t value = evaluate_product(expression);
  for (;;) {
    char sign = next_operator(expression, "+-");
    if (!sign) return value;
    int64_t term = evaluate_product(expression);
    int64_t sum = sign == '+' ? value + term : value - term;
    value = is_exact(expression, (double)value + (double)term) ? sum : 0;
  }
}

/* ---- expansions: what begins with a dollar -------------------------------------------------- */

static const char *expand_dollar(struct scanner *scanner, const char *dollar, const char *end,
                                 int depth);

/* Returns the character after the bracket that closes the one at `at`, or NULL if none does. */
static const char *skip_brackets(const char *at, const char *end, char open, char close) {
  int depth = 0;
  for (; at < end; at++) {
    if (*at == open) depth++;
    if (*at == close) depth--;
    if (*at == close && depth == 0) return at + 1;
  }
  return NULL;
}

/* Appends the value of a variable to the word. */
static void append_variable(struct scanner *scanner, const struct pz_shell_variable *variable) {
  struct draft *word = &scanner->word;
  if (variable->unknown) word->unknown = variable->unknown;
  word->guessed = word->guessed || variable->guessed;
  if (!variable->list) append_text(scanner, variable->value, strlen(variable->value));
}

/* Appends to the word the value of ${...}.  The text between the braces, from `from` to `end`, is
 * NAME, NAME[@], NAME:-word or NAME:=word. */
static void expand_braces(struct scanner *scanner, const char *from, const char *end, int depth) {
  const char *at = from;
  while (at < end && is_name_character(*at, false)) at++;
  struct pz_shell_variable *variable = find_variable(&scanner->out, from, (size_t)(at - from));
  bool is_all = end - at == 3 && (memcmp(at, "[@]", 3) == 0 || memcmp(at, "[*]", 3) == 0);
  const char *sign = at < end && *at == ':' ? at + 1 : at;
  bool has_default = sign < end && (*sign == '-' || *sign == '=');
  if (variable && !variable->unknown && (at == end || is_all || has_default)) {
    append_variable(scanner, variable);
    return;
  }
  if (!has_default || at == from) {
    append_unknown(scanner, from - 2, (size_t)(end - from) + 3); /* with the dollar and braces */
    return;
  }
  at = sign + 1; /* the default, which may contain expansions */
  while (at < end) {
    if (*at == '$') {
      at = expand_dollar(scanner, at, end, depth + 1);
    } else {
      if (*at != '"' && *at != '\'') append_text(scanner, at, 1);
      at++;
    }
  }
}

/* Appends to the word the expansion that begins at a dollar: $NAME, ${...}, $((...)) or the unknown
 * $(...).  Returns the place after it.  `depth` is the number of expansions around it. */
static const char *expand_dollar(struct scanner *scanner, const char *dollar, const char *end,
                                 int depth) {
  const char *next = dollar + 1;
  if (depth > MOST_DEPTH)
    fail_in_line(scanner, scanner->line, "variables are nested too deep", "at most 16");
  if (next < end && *next == '{') {
    const char *after = skip_brackets(next, end, '{', '}');
    if (!after) fail_in_line(scanner, scanner->line, "'${' is not closed", "'}' behind it");
    expand_braces(scanner, next + 1, after - 1, depth);
    return after;
  }
  if (next < end && *next == '(') {
    const char *after = skip_brackets(next, end, '(', ')');
    if (!after) fail_in_line(scanner, scanner->line, "'$(' is not closed", "')' behind it");
    bool is_arithmetic = after - dollar > 5 && dollar[2] == '(' && after[-2] == ')';
    if (is_arithmetic) { /* $((...)), which is longer than $(()) */
      struct arithmetic expression = {.text = &scanner->out, .at = dollar + 3, .end = after - 2};
      char text[32];
      int64_t value = evaluate_sum(&expression);
      snprintf(text, sizeof text, "%lld", (long long)value);
      scanner->word.guessed = scanner->word.guessed || expression.guessed;
      if (!expression.failed && expression.at == expression.end) {
        append_text(scanner, text, strlen(text));
        return after;
      }
    }
    append_unknown(scanner, dollar, (size_t)(after - dollar)); /* the output of a command */
    return after;
  }
  size_t n = name_length(next, (size_t)(end - next));
  if (n) {
    struct pz_shell_variable *variable = find_variable(&scanner->out, next, n);
    if (variable)
      append_variable(scanner, variable);
    else
      append_unknown(scanner, dollar, n + 1);
    return next + n;
  }
  bool is_special = next < end && (isdigit((unsigned char)*next) || strchr("@*#?$!-", *next));
  if (is_special)
    append_unknown(scanner, dollar, 2);
  else
    append_text(scanner, "$", 1);
  return is_special ? next + 1 : next;
}

/* Expands the dollar at the current place of the text, and moves past it. */
static void expand_here(struct scanner *scanner) {
  const char *from = scanner->text + scanner->at;
  const char *behind = expand_dollar(scanner, from, scanner->text + scanner->bytes, 0);
  for (const char *c = from; c < behind; c++) scanner->line += *c == '\n';
  scanner->at = (size_t)(behind - scanner->text);
}

/* ---- words ---------------------------------------------------------------------------------- */

/* Returns the index of the quote that closes the one at the current place, or the text's end. */
static size_t closing_quote(const struct scanner *scanner) {
  char quote = scanner->text[scanner->at];
  for (size_t i = scanner->at + 1; i < scanner->bytes; i++) {
    if (scanner->text[i] == '\\' && quote == '"')
      i++;
    else if (scanner->text[i] == quote)
      return i;
  }
  return scanner->bytes;
}

/* Returns whether the quotes from the current place to `end` enclose several words with an argument
 * --name among them.  One argument is enough if the quoted text is assigned to a variable. */
static bool quotes_arguments(const struct scanner *scanner, size_t end, bool is_assigned) {
  const char *text = scanner->text;
  bool has_enough_words = is_assigned, has_argument = false;
  for (size_t i = scanner->at + 1; i < end; i++) {
    bool begins_word = i == scanner->at + 1 || isspace((unsigned char)text[i - 1]);
    if (isspace((unsigned char)text[i])) has_enough_words = true;
    if (begins_word && i + 2 < end && text[i] == '-' && text[i + 1] == '-' &&
        isalpha((unsigned char)text[i + 2]))
      has_argument = true;
  }
  return has_enough_words && has_argument;
}

/* Returns the length of the name if the word begins with NAME= or NAME+=, otherwise 0. */
static size_t assigned_name(const struct draft *word) {
  size_t n = name_length(word->text, word->n);
  size_t equals = n + (word->text[n] == '+');
  return n && equals < word->n && word->text[equals] == '=' ? n : 0;
}

/* Returns whether the word is NAME= or NAME+= without a value. */
static bool ends_with_equals(const struct draft *word) {
  size_t n = assigned_name(word);
  return n && word->text[word->n - 1] == '=' && word->n <= n + 2;
}

/* Reads the quoted text at the current place: appends it to the word and returns false, or returns
 * true if it is a list of arguments, whose words are then read one by one.  A quote inside such a
 * list that none before the list's end closes is an apostrophe. */
static bool read_quote(struct scanner *scanner) {
  const struct draft *word = &scanner->word;
  char quote = peek(scanner, 0);
  size_t end = closing_quote(scanner);
  bool is_apostrophe = scanner->list_quote && end >= scanner->list_quote_end;
  if (is_apostrophe) {
    scanner->at++;
    append_text(scanner, &quote, 1);
    return false;
  }
  if (end == scanner->bytes)
    fail_in_line(scanner, scanner->line, "a quote is not closed", "another behind it");
  bool may_begin_list = !scanner->in_test && !scanner->list_quote &&
                        (!word->n || ends_with_equals(word)) &&
                        quotes_arguments(scanner, end, word->n > 0);
  scanner->at++;
  if (may_begin_list) {
    scanner->list_quote = quote;
    scanner->list_quote_line = scanner->line;
    scanner->list_quote_end = end;
    return true;
  }
  scanner->word.quoted = true; /* the quoted text is a part of the word */
  while (scanner->at < end) {
    char c = scanner->text[scanner->at], next = peek(scanner, 1);
    if (quote == '"' && c == '$') {
      expand_here(scanner);
      continue;
    }
    if (quote == '"' && c == '\\' && next && strchr("\"\\$`\n", next)) {
      scanner->at++;
      c = next;
    }
    scanner->line += c == '\n';
    append_text(scanner, &c, 1);
    scanner->at++;
  }
  if (scanner->at <= end) scanner->at = end + 1; /* unless an expansion has passed the quote */
  return false;
}

/* Returns whether a blank, an operator or a closing quote ends the word at the current place. */
static bool is_at_word_end(const struct scanner *scanner) {
  char c = peek(scanner, 0);
  return scanner->at >= scanner->bytes || isspace((unsigned char)c) ||
         (c && strchr(";|&<>()", c)) || (scanner->list_quote && c == scanner->list_quote);
}

/* Builds the next word in scanner.word.  Returns true if a quoted list of arguments begins in it:
 * then the word ends after the opening quote, and the words of the list follow. */
static bool draft_word(struct scanner *scanner) {
  struct draft *word = &scanner->word;
  word->n = 0;
  word->text[0] = '\0';
  word->quoted = word->guessed = false;
  word->unknown = NULL;
  while (!is_at_word_end(scanner)) {
    char c = peek(scanner, 0);
    bool escapes = c == '\\' && scanner->at + 1 < scanner->bytes;
    if (c == '\'' || c == '"') {
      if (read_quote(scanner)) return true;
    } else if (c == '$') {
      expand_here(scanner);
    } else if (c == '`') { /* a command, whose output is unknown */
      size_t from = scanner->at, end = closing_quote(scanner);
      if (end == scanner->bytes)
        fail_in_line(scanner, scanner->line, "'`' is not closed", "another behind it");
      for (size_t i = from; i < end; i++) scanner->line += scanner->text[i] == '\n';
      scanner->at = end + 1;
      append_unknown(scanner, scanner->text + from, end + 1 - from);
    } else if (escapes && peek(scanner, 1) == '\n') { /* the line continues */
      scanner->line++;
      scanner->at += 2;
    } else {
      if (escapes) scanner->at++;
      c = peek(scanner, 0);
      scanner->at++;
      append_text(scanner, &c, 1);
    }
  }
  return false;
}

/* Appends the drafted word to the result, unless it is empty or the file descriptor of a
 * redirection, such as the 2 of 2>file: digits of the text itself right before < or >. */
static void append_word(struct scanner *scanner, uint32_t line) {
  const struct draft *word = &scanner->word;
  char next = peek(scanner, 0);
  bool redirects = next && strchr("<>", next);
  bool is_descriptor = redirects && scanner->at >= word->n &&
                       strspn(word->text, "0123456789") == word->n &&
                       memcmp(scanner->text + scanner->at - word->n, word->text, word->n) == 0;
  if ((!word->n && !word->quoted) || is_descriptor) return;
  scanner->stored_bytes += word->n;
  if (scanner->out.words.n >= PZ_SHELL_MOST_WORDS || scanner->stored_bytes > MOST_STORED_BYTES)
    fail_limit(scanner, "too many words", PZ_SHELL_MOST_WORDS);
  struct pz_shell_word new = {.text = pz_copy_text(scanner->call, word->text),
                              .unknown = word->unknown,
                              .line = line,
                              .is_first = scanner->next_is_first,
                              .is_slurm = scanner->in_slurm_comment,
                              .guessed = is_run(scanner) == MAYBE};
  scanner->next_is_first = false;
  pz_append(scanner->call, &scanner->out.words, &new);
}

/* Returns the length of a backslash with the line end after it, or 0 if there is none at the
 * current place.  Blanks between the two are accepted. */
static size_t continuation_length(const struct scanner *scanner) {
  size_t n = 1;
  if (peek(scanner, 0) != '\\') return 0;
  while (peek(scanner, n) == ' ' || peek(scanner, n) == '\t' || peek(scanner, n) == '\r') n++;
  return peek(scanner, n) == '\n' ? n + 1 : 0;
}

/* Moves to the next character that is not a blank or the continuation of a line. */
static void skip_blanks_and_continuations(struct scanner *scanner) {
  for (;;) {
    size_t n = continuation_length(scanner);
    if (!n && peek(scanner, 0) != ' ' && peek(scanner, 0) != '\t') return;
    scanner->line += n > 0;
    scanner->at += n ? n : 1;
  }
}

/* ---- tests ---------------------------------------------------------------------------------- */

/* A term of a test: A op B, -z A or A. */
struct term {
  const char *word[3]; /* the first words of the term */
  int n;               /* number of words; 4 stands for more than 3 */
  bool negated;        /* a ! precedes the term */
  bool unknown;        /* a word has an unknown or guessed value */
};

/* Returns whether a word is one of two others. */
static bool is_either(const char *word, const char *a, const char *b) {
  return strcmp(word, a) == 0 || strcmp(word, b) == 0;
}

/* Compares two numbers by an operator of a test (-lt) or of arithmetic (<). */
static enum truth compare_numbers(const char *sign, int64_t a, int64_t b) {
  const struct {
    const char *word, *sign;
    bool holds;
  } operators[] = {{"-lt", "<", a < b},   {"-le", "<=", a <= b}, {"-eq", "==", a == b},
                   {"-ne", "!=", a != b}, {"-ge", ">=", a >= b}, {"-gt", ">", a > b}};
  for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
    if (is_either(sign, operators[i].word, operators[i].sign)) return operators[i].holds ? YES : NO;
  return MAYBE;
}

/* Returns whether a text matches a shell pattern: MAYBE for wildcards other than one star. */
static enum truth matches_pattern(const char *text, const char *pattern) {
  if (is_either(pattern, "*", text)) return YES;
  return strpbrk(pattern, "*?[") ? MAYBE : NO;
}

/* Returns the value of a term of a test, or MAYBE if the text does not decide it. */
static enum truth term_value(const struct term *term) {
  const char *first = term->word[0], *second = term->word[1], *third = term->word[2];
  if (term->unknown || term->n < 1 || term->n > 3) return MAYBE;
  if (term->n == 1) return *first ? YES : NO;
  if (term->n == 2) {
    if (strcmp(first, "-z") == 0) return *second ? NO : YES;
    if (strcmp(first, "-n") == 0) return *second ? YES : NO;
    return MAYBE;
  }
  if (is_either(second, "=", "==")) return matches_pattern(first, third);
  if (strcmp(second, "!=") == 0) return truth_not(matches_pattern(first, third));
  struct arithmetic numbers = {.failed = false};
  int64_t a = parse_digits(&numbers, first, strlen(first));
  int64_t b = parse_digits(&numbers, third, strlen(third));
  return !numbers.failed && *second == '-' ? compare_numbers(second, a, b) : MAYBE;
}

/* Reads a test and returns its value: alternatives joined by || or -o, each of which consists of
 * terms joined by && or -a.  `close` is the word that ends the test, ] or ]], or NULL if the test
 * ends with the command.  A test with parentheses is MAYBE. */
static enum truth read_test(struct scanner *scanner, const char *close) {
  struct term term = {.n = 0};
  enum truth any = NO, all = YES; /* an earlier alternative; all terms of the current one so far */
  bool ended = false, closed = false, has_parentheses = false;
  const struct draft *draft = &scanner->word;
  const char *word = draft->text;
  scanner->in_test = true;
  while (!ended && !closed) {
    skip_blanks_and_continuations(scanner);
    char c = peek(scanner, 0);
    bool is_sign = close && c && strchr("|&<>()", c); /* a word of its own inside of brackets */
    ended = !is_sign && is_at_word_end(scanner);
    (void)draft_word(scanner); /* an empty word if a sign follows */
    if (is_sign) {
      bool is_double = strchr("|&", c) && peek(scanner, 1) == c;
      append_text(scanner, scanner->text + scanner->at, is_double ? 2 : 1);
      scanner->at += is_double ? 2 : 1;
    }
    closed = close && !draft->quoted && strcmp(word, close) == 0;
    bool is_or = is_either(word, "||", "-o");
    if (ended || closed || is_or || is_either(word, "&&", "-a")) { /* a term is complete */
      enum truth value = term_value(&term);
      all = truth_and(all, term.negated ? truth_not(value) : value);
      if (is_or) {
        any = truth_or(any, all);
        all = YES;
      }
      term = (struct term){.n = 0};
    } else if (!term.n && strcmp(word, "!") == 0) {
      term.negated = !term.negated;
    } else {
      has_parentheses = has_parentheses || is_either(word, "(", ")");
      term.unknown = term.unknown || draft->unknown || draft->guessed;
      if (term.n < 3) term.word[term.n] = pz_copy_text(scanner->call, word);
      if (term.n < 4) term.n++;
    }
  }
  scanner->in_test = false;
  bool is_unclosed = close && ended;
  return has_parentheses || is_unclosed ? MAYBE : truth_or(any, all);
}

/* Reads a command ((A > B)) and stores whether it holds.  Returns false if it is not one. */
static bool read_arithmetic_command(struct scanner *scanner, enum truth *value) {
  const char *from = scanner->text + scanner->at;
  const char *end = skip_brackets(from, scanner->text + scanner->bytes, '(', ')');
  char sign[3] = "";
  if (!end || end - from < 5 || end[-2] != ')') return false;
  for (const char *c = from; c < end; c++) scanner->line += *c == '\n';
  scanner->at = (size_t)(end - scanner->text);
  struct arithmetic expression = {.text = &scanner->out, .at = from + 2, .end = end - 2};
  int64_t a = evaluate_sum(&expression);
  for (size_t n = 0; n < 2 && expression.at < expression.end; n++) {
    if (!strchr("<>=!", *expression.at)) break;
    sign[n] = *expression.at;
    expression.at++;
  }
  int64_t b = *sign ? evaluate_sum(&expression) : 0;
  bool decided = !expression.failed && !expression.guessed && expression.at >= expression.end;
  *value = decided ? compare_numbers(sign, a, b) : MAYBE;
  return true;
}

/* ---- commands and branches ------------------------------------------------------------------ */

/* Notes that a command begins: sets whether it is run (command) and whether the commands that &&
 * and || join up to it succeed (joined).  `value` is whether the command itself succeeds.  After &&
 * it is run only if the commands before it succeeded, and after || only if they failed. */
static void begin_command(struct scanner *scanner, enum truth value) {
  enum truth joined = scanner->joined;
  if (scanner->negated) value = truth_not(value);
  scanner->command = YES;
  if (scanner->joined_by == '&') {
    scanner->command = joined;
    value = truth_and(joined, value);
  } else if (scanner->joined_by == '|') {
    scanner->command = truth_not(joined);
    value = truth_or(joined, value);
  }
  scanner->joined = value;
  scanner->at_command = scanner->negated = false;
}

/* Notes the end of a command.  `joined_by` is & if && follows, | if || follows, and otherwise 0. */
static void end_command(struct scanner *scanner, char joined_by) {
  scanner->at_command = true;
  scanner->joined_by = joined_by;
  if (!joined_by) scanner->command = YES;
}

/* Returns the innermost open branch, or NULL if there is none or it is too deep to be tracked. */
static struct branch *innermost_branch(struct scanner *scanner) {
  int n = scanner->n_branches;
  return n && n <= MOST_DEPTH ? &scanner->branches[n - 1] : NULL;
}

/* Pushes a branch onto the stack, with its kind, whether its commands are run (runs), and the word
 * that a `case` compares (subject).  Branches that are nested too deep are only counted. */
static void open_branch(struct scanner *scanner, char kind, enum truth runs, const char *subject) {
  struct branch new = {.kind = kind, .is_run = runs, .subject = subject};
  if (scanner->n_branches < MOST_DEPTH) scanner->branches[scanner->n_branches] = new;
  scanner->n_branches++;
}

/* Begins the next branch of a statement, if that is tracked: the branch is run if its condition
 * holds and no earlier one was run. */
static void begin_branch(struct branch *branch, enum truth condition) {
  if (!branch) return;
  branch->is_run = truth_and(condition, truth_not(branch->earlier_run));
  branch->earlier_run = truth_or(branch->earlier_run, condition);
}

/* Reads "WORD in" after `case` and opens the statement. */
static void read_case(struct scanner *scanner) {
  const struct draft *word = &scanner->word;
  skip_blanks_and_continuations(scanner);
  if (draft_word(scanner)) return;
  bool known = !word->unknown && !word->guessed;
  const char *subject = known ? pz_copy_text(scanner->call, word->text) : NULL;
  skip_blanks_and_continuations(scanner);
  bool is_in = peek(scanner, 0) == 'i' && peek(scanner, 1) == 'n' &&
               isspace((unsigned char)peek(scanner, 2));
  if (!is_in) return;
  scanner->at += 2;
  open_branch(scanner, 'c', NO, subject);
  scanner->at_pattern = true;
}

/* Reads the patterns A|B) that begin a branch of a `case`, or the `esac` that ends it. */
static void read_patterns(struct scanner *scanner) {
  struct branch *branch = innermost_branch(scanner);
  const struct draft *word = &scanner->word;
  enum truth any = NO;
  bool is_esac = false, more = true;
  scanner->in_test = true;
  begin_branch(branch, NO); /* ends the previous branch */
  while (more) {
    while (peek(scanner, 0) == ' ' || peek(scanner, 0) == '(') scanner->at++;
    (void)draft_word(scanner);
    is_esac = !word->quoted && strcmp(word->text, "esac") == 0;
    bool known = branch && branch->subject && !word->unknown && !word->guessed;
    enum truth matches = known ? matches_pattern(branch->subject, word->text) : MAYBE;
    if (strcmp(word->text, "*") == 0) matches = YES;
    any = truth_or(any, matches);
    skip_blanks_and_continuations(scanner);
    char separator = is_esac ? '\0' : peek(scanner, 0);
    more = separator == '|';
    if (separator == '|' || separator == ')') scanner->at++;
  }
  scanner->at_pattern = scanner->in_test = false;
  if (is_esac) {
    scanner->n_branches--;
  } else {
    begin_branch(branch, any);
    end_command(scanner, 0);
  }
}

/* Reads the drafted word as a keyword of the shell, together with what belongs to it, such as the
 * patterns of a `case`.  Returns false if the word is the name of a command or an assignment. */
static bool read_keyword(struct scanner *scanner) {
  struct branch *branch = innermost_branch(scanner);
  bool in_if = branch && branch->kind == 'i';
  bool in_case = branch && branch->kind == 'c', in_group = branch && branch->kind == '{';
  const char *text = scanner->word.quoted ? "" : scanner->word.text;
  /* keywords that begin a command with a value of its own */
  const char *close = strcmp(text, "[") == 0 ? "]" : "]]";
  if (strcmp(text, "!") == 0) {
    scanner->negated = !scanner->negated;
    return true;
  }
  if (is_either(text, "[", "[[") || strcmp(text, "test") == 0) {
    begin_command(scanner, read_test(scanner, *text == '[' ? close : NULL));
    return true;
  }
  if (is_either(text, "true", ":") || strcmp(text, "false") == 0) {
    begin_command(scanner, *text == 'f' ? NO : YES);
    return true;
  }
  /* keywords after which a command follows */
  if (strcmp(text, "if") == 0) {
    open_branch(scanner, 'i', YES, NULL);
  } else if (strcmp(text, "then") == 0) {
    if (in_if) begin_branch(branch, scanner->joined);
  } else if (strcmp(text, "elif") == 0) {
    if (in_if) begin_branch(branch, NO);
    if (in_if) branch->is_run = YES; /* the commands of its condition are run */
  } else if (strcmp(text, "else") == 0) {
    if (in_if) begin_branch(branch, YES);
  } else if (strcmp(text, "case") == 0) {
    read_case(scanner);
  } else if (strcmp(text, "{") == 0) {
    begin_command(scanner, MAYBE);
    open_branch(scanner, '{', scanner->command, NULL);
  } else if (strcmp(text, "fi") == 0 || is_either(text, "esac", "}")) {
    bool closes =
        (*text == 'f' && in_if) || (*text == 'e' && in_case) || (*text == '}' && in_group);
    if (closes) scanner->n_branches--;
  } else if (strcmp(text, "do") != 0) {
    begin_command(scanner, assigned_name(&scanner->word) ? YES : MAYBE);
    return false;
  }
  end_command(scanner, 0);
  return true;
}

/* Reads the next word, with quotes removed and variables expanded (draft_word), and interprets it
 * as a keyword, an assignment, the beginning of a list of arguments such as ARGS="--a 1" or
 * ARGS=(--a 1), or a word of the result.  The words of a list are read by later calls. */
static void read_word(struct scanner *scanner) {
  uint32_t line = scanner->line;
  const struct draft *word = &scanner->word;
  bool in_list = scanner->list_quote || scanner->parentheses; /* a quote or '(' is still open */
  bool begins_command = scanner->at_command && !in_list && !scanner->in_slurm_comment;
  bool begins_list = draft_word(scanner); /* whether it ends after the opening quote of a list */
  if (!begins_list && peek(scanner, 0) == '(' && ends_with_equals(word)) {
    scanner->at++;
    scanner->parentheses++;
    begins_list = true;
  }
  if (begins_command && read_keyword(scanner)) return;
  if (begins_list) scanner->next_is_first = true;
  bool is_never_run = is_run(scanner) == NO; /* such as a branch whose condition is false */
  if (is_never_run) return;
  size_t name = assigned_name(word);
  if (name) {
    const char *value = word->text + name + (word->text[name] == '+') + 1; /* after = or += */
    assign(scanner, word->text, name, begins_list ? NULL : value, word->unknown);
  } else if (!begins_list) {
    append_word(scanner, line);
  }
}

/* ---- between words -------------------------------------------------------------------------- */

/* Reads an operator ; | & < > ( ) or a doubled one, which may end the current command. */
static void read_operator(struct scanner *scanner) {
  char c = peek(scanner, 0), next = peek(scanner, 1);
  char before = scanner->at ? scanner->text[scanner->at - 1] : '\0';
  bool outside_lists = !scanner->parentheses && !scanner->list_quote;
  bool doubled = outside_lists && next == c && !strchr("()", c);
  bool redirects = c == '&' && (next == '>' || before == '<' || before == '>');
  bool ends_command = c == ';' || (c == '&' && !redirects) || (c == '|' && doubled);
  if (c == ')' && scanner->parentheses) scanner->parentheses--;
  scanner->next_is_first = true;
  scanner->at += doubled ? 2 : 1;
  if (outside_lists && ends_command) end_command(scanner, doubled && c != ';' ? c : 0);
  const struct branch *branch = innermost_branch(scanner);
  if (c == ';' && doubled && branch && branch->kind == 'c') scanner->at_pattern = true;
}

/* Reads what begins at the current place: a word, a blank, a line end, a comment or an operator. */
static void scan_step(struct scanner *scanner) {
  char c = scanner->text[scanner->at];
  size_t continuation = continuation_length(scanner);
  bool outside_lists = !scanner->parentheses && !scanner->list_quote;
  enum truth value;
  if (continuation) {
    scanner->line++;
    scanner->at += continuation;
  } else if (scanner->at_pattern && !isspace((unsigned char)c) && c != '#') {
    read_patterns(scanner);
  } else if (c == '\n') {
    scanner->line++;
    scanner->at++;
    scanner->in_slurm_comment = false;
    if (outside_lists) {
      end_command(scanner, 0);
      scanner->next_is_first = true;
    }
  } else if (isspace((unsigned char)c)) {
    scanner->at++;
  } else if (c == '#') { /* words of a comment for Slurm are read, other comments are skipped */
    static const char slurm[] = "#SBATCH";
    size_t n = sizeof slurm - 1;
    if (scanner->bytes - scanner->at > n && memcmp(scanner->text + scanner->at, slurm, n) == 0) {
      scanner->in_slurm_comment = scanner->next_is_first = true;
      scanner->at += n;
      return;
    }
    while (scanner->at < scanner->bytes && scanner->text[scanner->at] != '\n') scanner->at++;
  } else if (scanner->list_quote && c == scanner->list_quote) {
    scanner->list_quote = '\0';
    scanner->next_is_first = true;
    scanner->at++;
  } else if (c == '(' && outside_lists && scanner->at_command && peek(scanner, 1) == '(' &&
             read_arithmetic_command(scanner, &value)) {
    begin_command(scanner, value);
  } else if (strchr(";|&<>()", c)) {
    read_operator(scanner);
  } else {
    read_word(scanner);
  }
}

/* Reads a script as words; `presets` are variables NAME=VALUE that the script does not change. */
struct pz_shell_text pz_shell_read(struct pz_call *call, const char *name, const char *text,
                                   size_t bytes, const char *const *presets) {
  struct scanner *scanner = pz_alloc(call, 1, sizeof *scanner);
  *scanner = (struct scanner){.call = call,
                              .name = name,
                              .text = text,
                              .bytes = bytes,
                              .line = 1,
                              .next_is_first = true,
                              .at_command = true,
                              .command = YES};
  pz_vec_init(&scanner->out.words, call->arena, sizeof(struct pz_shell_word));
  pz_vec_init(&scanner->out.variables, call->arena, sizeof(struct pz_shell_variable));
  if (bytes > PZ_SHELL_MOST_BYTES)
    pz_raise(call, PZ_LIMIT, "%s: %zu bytes; accepted: at most %d", name, bytes,
             PZ_SHELL_MOST_BYTES);
  /* The text before a zero byte is read first, so that the error names its line. */
  const char *zero = bytes ? memchr(text, '\0', bytes) : NULL;
  if (zero) scanner->bytes = (size_t)(zero - text);
  /* assign the user's variables, which assignments in the text do not change */
  for (; presets && *presets; presets++) {
    const char *preset = *presets;
    size_t length = strlen(preset), n = name_length(preset, length);
    if (!n || preset[n] != '=')
      pz_raise(call, PZ_BAD_USE, "variable '%.60s'; accepted: NAME=VALUE", preset);
    if (length > PZ_SHELL_MOST_VALUE)
      fail_limit(scanner, "a variable is too long (bytes)", PZ_SHELL_MOST_VALUE);
    assign(scanner, preset, n, preset + n + 1, NULL);
    struct pz_shell_variable *variable = find_variable(&scanner->out, preset, n);
    if (variable) variable->preset = true;
  }
  while (scanner->at < scanner->bytes) scan_step(scanner);
  if (zero) fail_in_line(scanner, scanner->line, "a zero byte", "text");
  if (scanner->list_quote)
    fail_in_line(scanner, scanner->list_quote_line, "a quote is not closed", "another behind it");
  if (scanner->parentheses)
    fail_in_line(scanner, scanner->line, "a list '(' is not closed", "')' behind it");
  return scanner->out;
}
