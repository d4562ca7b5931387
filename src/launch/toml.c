/* Reader of TOML by recursive descent.
 *
 * pz_toml_read() reads line by line: [table], or key = value, whose value read_value() reads as a
 * string, an array or a word.  A key is stored with the name of its table before it.  Source:
 * toml.io, version 1.0. */
#include "launch/toml.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "core/text.h"

/* The state of reading a text. */
struct toml_reader {
  struct pz_call *call;
  const char *name; /* name of the file, for messages */
  const char *at, *end;
  uint32_t line;
  struct pz_vec tables;  /* struct pz_toml_entry without a value: the headers [table] so far */
  struct pz_vec entries; /* struct pz_toml_entry */
  uint32_t first_entry;  /* the first entry of the current element of an array of tables */
};

/* Raises PZ_BAD_INPUT with the file and a line. */
static _Noreturn void toml_fail(struct toml_reader *reader, uint32_t line, const char *problem) {
  pz_raise_at(reader->call, PZ_BAD_INPUT, reader->name, (int)line, 0, "%s:%u: %s", reader->name,
              line, problem);
}

/* Returns the next character, or -1 at the end of the text. */
static int next_char(const struct toml_reader *reader) {
  return reader->at < reader->end ? (unsigned char)*reader->at : -1;
}

/* Skips spaces, tabs and carriage returns. */
static void skip_blanks(struct toml_reader *reader) {
  while (reader->at < reader->end &&
         (*reader->at == ' ' || *reader->at == '\t' || *reader->at == '\r'))
    reader->at++;
}

/* Skips blanks, line ends and comments. */
static void skip_blanks_and_lines(struct toml_reader *reader) {
  for (;;) {
    skip_blanks(reader);
    int c = next_char(reader);
    if (c == '#') {
      while (reader->at < reader->end && *reader->at != '\n') reader->at++;
    } else if (c == '\n') {
      reader->line++;
      reader->at++;
    } else {
      return;
    }
  }
}

/* Returns whether three quotes of this kind follow, which delimit a string of several lines. */
static bool is_triple_quote(const struct toml_reader *reader, char quote) {
  return reader->end - reader->at >= 3 && reader->at[0] == quote && reader->at[1] == quote &&
         reader->at[2] == quote;
}

/* Reads a quoted string, in which a backslash before n, t or another character is an escape. */
static char *read_string(struct toml_reader *reader) {
  char quote = *reader->at;
  bool multiline = is_triple_quote(reader, quote);
  reader->at += multiline ? 3 : 1;
  const char *start = reader->at;
  uint32_t first_line = reader->line;
  for (;; reader->at++) {
    if (reader->at >= reader->end || (*reader->at == '\n' && !multiline))
      toml_fail(reader, first_line, "a quote is not closed; accepted: another behind the text");
    if (*reader->at == '\n') reader->line++;
    bool is_escape = *reader->at == '\\' && quote == '"' && reader->at + 1 < reader->end;
    if (is_escape)
      reader->at++;
    else if (multiline ? is_triple_quote(reader, quote) : *reader->at == quote)
      break;
  }
  size_t n = (size_t)(reader->at - start), length = 0;
  char *text = pz_alloc(reader->call, n + 1, 1);
  for (size_t i = 0; i < n; i++) {
    char c = start[i];
    if (quote == '"' && c == '\\' && i + 1 < n) {
      i++;
      c = start[i] == 'n' ? '\n' : start[i];
      if (start[i] == 't') c = '\t';
    }
    text[length] = c;
    length++;
  }
  reader->at += multiline ? 3 : 1;
  return text;
}

/* Reads a number, truth value, date, inline table or variable up to a comma, ] or line end. */
static struct pz_toml_value read_bare_word(struct toml_reader *reader) {
  const char *start = reader->at;
  int open_braces = 0;
  for (; reader->at < reader->end && *reader->at != '\n'; reader->at++) {
    if (*reader->at == '{') open_braces++;
    if (*reader->at == '}') open_braces--;
    if (!open_braces && strchr(",]#\r", *reader->at)) break;
  }
  const char *last = reader->at;
  while (last > start && isspace((unsigned char)last[-1])) last--;
  if (last == start)
    toml_fail(reader, reader->line, "a key without a value; accepted: key = value");
  const char *text = pz_format(reader->call, "%.*s", (int)(last - start), start);
  return (struct pz_toml_value){.kind = PZ_TOML_WORD, .text = text};
}

static struct pz_toml_value read_value(struct toml_reader *reader, int depth);

/* Reads an array, which may be nested and extend over several lines. */
static struct pz_toml_value read_array(struct toml_reader *reader, int depth) {
  struct pz_vec items;
  if (depth >= PZ_TOML_MOST_NESTED)
    pz_raise(reader->call, PZ_LIMIT, "%s:%u: accepted: at most %d arrays in each other",
             reader->name, reader->line, PZ_TOML_MOST_NESTED);
  pz_vec_init(&items, reader->call->arena, sizeof(struct pz_toml_value));
  reader->at++;
  for (;;) {
    skip_blanks_and_lines(reader);
    if (next_char(reader) == ']') break;
    struct pz_toml_value item = read_value(reader, depth + 1);
    pz_append(reader->call, &items, &item);
    skip_blanks_and_lines(reader);
    if (next_char(reader) == ',')
      reader->at++;
    else if (next_char(reader) != ']')
      toml_fail(reader, reader->line, "an array is not closed; accepted: , or ] behind a value");
  }
  reader->at++;
  return (struct pz_toml_value){
      .kind = PZ_TOML_ARRAY, .text = "", .items = items.items, .n = items.n};
}

/* Reads an array, a string or a bare word.  `depth` is the number of arrays around it. */
static struct pz_toml_value read_value(struct toml_reader *reader, int depth) {
  int c = next_char(reader);
  if (c == '[') return read_array(reader, depth);
  if (c != '"' && c != '\'') return read_bare_word(reader);
  return (struct pz_toml_value){.kind = PZ_TOML_STRING, .text = read_string(reader)};
}

/* Reads a key such as a.b."c" and returns it after the name of its table, which may be NULL.
 * Control characters are replaced, because names appear in messages. */
static const char *read_key(struct toml_reader *reader, const char *table) {
  char text[PZ_TOML_MOST_NAME + 1];
  size_t n = 0;
  for (const char *c = table; c && *c && n < sizeof text; c++) text[n++] = *c;
  for (;;) {
    skip_blanks(reader);
    const char *part = reader->at;
    size_t length;
    int c = next_char(reader);
    if (c == '"' || c == '\'') {
      part = read_string(reader);
      length = strlen(part);
    } else {
      while (reader->at < reader->end &&
             (isalnum((unsigned char)*reader->at) || *reader->at == '_' || *reader->at == '-'))
        reader->at++;
      length = (size_t)(reader->at - part);
      if (!length) toml_fail(reader, reader->line, "accepted: [table], or key = value");
    }
    if (n + length + 2 > sizeof text) /* with a dot and the final zero byte */
      pz_raise(reader->call, PZ_LIMIT, "%s:%u: a key of more than %d bytes", reader->name,
               reader->line, PZ_TOML_MOST_NAME);
    if (n) text[n++] = '.';
    memcpy(text + n, part, length);
    n += length;
    skip_blanks(reader);
    if (next_char(reader) != '.') break;
    reader->at++;
  }
  text[n] = '\0';
  return pz_copy_text(reader->call, pz_text_plain(text));
}

/* Appends a table or key to a list.  Raises an error if an item of the list from `first` on has the
 * same name, because TOML allows it only once. */
static void append_once(struct toml_reader *reader, struct pz_vec *list, uint32_t first,
                        const struct pz_toml_entry *entry) {
  for (uint32_t i = first; i < list->n; i++) {
    const struct pz_toml_entry *older = pz_vec_at(list, struct pz_toml_entry, i);
    if (strcmp(older->name, entry->name) != 0) continue;
    char problem[PZ_TOML_MOST_NAME + 80];
    snprintf(problem, sizeof problem, "%s stands in line %u already; accepted: once", entry->name,
             older->line);
    toml_fail(reader, entry->line, problem);
  }
  if (list->n >= PZ_TOML_MOST_KEYS)
    pz_raise(reader->call, PZ_LIMIT, "%s:%u: accepted: at most %d keys", reader->name, reader->line,
             PZ_TOML_MOST_KEYS);
  pz_append(reader->call, list, entry);
}

/* Returns the keys of a text as a vector of struct pz_toml_entry. */
struct pz_vec pz_toml_read(struct pz_call *call, const char *name, const char *text, size_t bytes,
                           uint32_t first_line) {
  struct toml_reader reader = {
      .call = call, .name = name, .at = text, .end = text + bytes, .line = first_line};
  const char *table = NULL;
  pz_vec_init(&reader.entries, call->arena, sizeof(struct pz_toml_entry));
  pz_vec_init(&reader.tables, call->arena, sizeof(struct pz_toml_entry));
  if (bytes > PZ_TOML_MOST_BYTES)
    pz_raise(call, PZ_LIMIT, "%s: %zu bytes; accepted: at most %d", name, bytes,
             PZ_TOML_MOST_BYTES);
  if (memchr(text, '\0', bytes)) toml_fail(&reader, first_line, "a zero byte; accepted: text");
  for (skip_blanks_and_lines(&reader); reader.at < reader.end; skip_blanks_and_lines(&reader)) {
    struct pz_toml_entry entry = {.line = reader.line};
    if (*reader.at == '[') { /* [table], or [[table]], which begins another element of an array */
      bool is_element = reader.at + 1 < reader.end && reader.at[1] == '[';
      int brackets = is_element ? 2 : 1;
      reader.at += brackets;
      table = entry.name = read_key(&reader, NULL);
      reader.first_entry = is_element ? reader.entries.n : 0;
      if (!is_element) append_once(&reader, &reader.tables, 0, &entry);
      for (; brackets > 0; brackets--) {
        if (next_char(&reader) != ']')
          toml_fail(&reader, reader.line, "a table is not closed; accepted: [table]");
        reader.at++;
      }
    } else { /* key = value */
      entry.name = read_key(&reader, table);
      if (next_char(&reader) != '=')
        toml_fail(&reader, reader.line, "accepted: [table], or key = value");
      reader.at++;
      skip_blanks(&reader);
      entry.value = read_value(&reader, 0);
      append_once(&reader, &reader.entries, reader.first_entry, &entry);
    }
    skip_blanks(&reader);
    bool is_line_end = reader.at >= reader.end || *reader.at == '\n' || *reader.at == '#';
    if (!is_line_end)
      toml_fail(&reader, reader.line, "accepted: the end of the line behind a value");
  }
  return reader.entries;
}
