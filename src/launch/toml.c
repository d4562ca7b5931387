#include "launch/toml.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "core/status.h"
#include "core/text.h"

struct toml_reader {
  const char *name, *at, *end;
  uint32_t line;
  struct pz_arena *arena;
  struct pz_error *err;
  struct pz_vec tables; /* struct pz_toml_entry without values */
  uint32_t own;         /* the first key of a table of which there may be several, [[table]] */
};

static enum pz_status toml_wrong(struct toml_reader *r, const char *what) {
  enum pz_status status = pz_fail(r->err, PZ_BAD_INPUT, "%s:%u: %s", r->name, r->line, what);
  pz_error_at(r->err, r->name, (int)r->line, 0);
  return status;
}

static enum pz_status toml_no_memory(struct toml_reader *r) {
  return pz_fail(r->err, PZ_NO_MEMORY, "%s: out of memory", r->name);
}

static int toml_peek(const struct toml_reader *r) {
  return r->at < r->end ? (unsigned char)*r->at : -1;
}

/* Spaces; with `lines` also line ends and comments. */
static void toml_skip(struct toml_reader *r, bool lines) {
  for (; r->at < r->end; r->at++) {
    if (*r->at == '#' && lines)
      while (r->at + 1 < r->end && r->at[1] != '\n') r->at++;
    else if (*r->at == '\n' && lines)
      r->line++;
    else if (*r->at != ' ' && *r->at != '\t' && *r->at != '\r')
      return;
  }
}

/* ---- values --------------------------------------------------------------------------------- */

/* A quoted text, with escapes of quotes, slashes and white space; of others the character itself. */
static enum pz_status toml_string(struct toml_reader *r, const char **out) {
  char quote = *r->at;
  bool many = r->end - r->at >= 3 && r->at[1] == quote && r->at[2] == quote;
  const char *start = r->at += many ? 3 : 1;
  uint32_t first = r->line;
  for (;; r->at++) {
    if (r->at >= r->end || (*r->at == '\n' && !many)) {
      r->line = first;
      return toml_wrong(r, "a quote is not closed; accepted: another behind the text");
    }
    if (*r->at == '\n') r->line++;
    if (*r->at == '\\' && quote == '"' && r->at + 1 < r->end)
      r->at++;
    else if (*r->at == quote &&
             (!many || (r->end - r->at >= 3 && r->at[1] == quote && r->at[2] == quote)))
      break;
  }
  size_t n = (size_t)(r->at - start), k = 0;
  char *text = pz_arena_alloc(r->arena, n + 1, 1);
  if (!text) return toml_no_memory(r);
  for (size_t i = 0; i < n; i++) {
    if (quote == '"' && start[i] == '\\' && i + 1 < n) {
      char c = start[++i];
      text[k++] = c == 'n' ? '\n' : c == 't' ? '\t' : c;
    } else {
      text[k++] = start[i];
    }
  }
  text[k] = '\0';
  r->at += many ? 3 : 1;
  *out = text;
  return PZ_OK;
}

static enum pz_status toml_value(struct toml_reader *r, int depth, struct pz_toml_value *out);

static enum pz_status toml_array(struct toml_reader *r, int depth, struct pz_toml_value *out) {
  struct pz_vec items;
  enum pz_status status = PZ_OK;
  if (depth >= PZ_TOML_MOST_NESTED)
    return pz_fail(r->err, PZ_LIMIT, "%s:%u: accepted: at most %d arrays in each other", r->name,
                   r->line, PZ_TOML_MOST_NESTED);
  pz_vec_init(&items, r->arena, sizeof(struct pz_toml_value));
  for (r->at++;;) {
    struct pz_toml_value one;
    toml_skip(r, true);
    if (toml_peek(r) == ']') break;
    status = toml_value(r, depth + 1, &one);
    if (status != PZ_OK) return status;
    if (!pz_vec_push(&items, &one)) return toml_no_memory(r);
    toml_skip(r, true);
    if (toml_peek(r) == ',')
      r->at++;
    else if (toml_peek(r) != ']')
      return toml_wrong(r, "an array is not closed; accepted: , or ] behind a value");
  }
  r->at++;
  *out =
      (struct pz_toml_value){.kind = PZ_TOML_ARRAY, .text = "", .items = items.items, .n = items.n};
  return PZ_OK;
}

/* A number, truth, date, inline table or variable: all of it up to what ends a value. */
static enum pz_status toml_word(struct toml_reader *r, struct pz_toml_value *out) {
  const char *start = r->at;
  int open = 0;
  for (; r->at < r->end && *r->at != '\n'; r->at++) {
    if (*r->at == '{') open++;
    if (*r->at == '}') open--;
    if (!open && strchr(",]#\r", *r->at)) break;
  }
  const char *last = r->at;
  while (last > start && isspace((unsigned char)last[-1])) last--;
  if (last == start) return toml_wrong(r, "a key without a value; accepted: key = value");
  char *text = pz_arena_printf(r->arena, "%.*s", (int)(last - start), start);
  if (!text) return toml_no_memory(r);
  *out = (struct pz_toml_value){.kind = PZ_TOML_WORD, .text = text};
  return PZ_OK;
}

static enum pz_status toml_value(struct toml_reader *r, int depth, struct pz_toml_value *out) {
  int c = toml_peek(r);
  if (c == '[') return toml_array(r, depth, out);
  if (c != '"' && c != '\'') return toml_word(r, out);
  *out = (struct pz_toml_value){.kind = PZ_TOML_STRING};
  return toml_string(r, &out->text);
}

/* ---- keys ----------------------------------------------------------------------------------- */

/* a.b."c" up to what follows it. */
static enum pz_status toml_name(struct toml_reader *r, const char *table, const char **out) {
  char text[PZ_TOML_MOST_NAME + 1];
  size_t n = 0;
  for (const char *c = table; c && *c && n < sizeof text; c++) text[n++] = *c;
  for (;;) {
    const char *part = NULL;
    toml_skip(r, false);
    const char *start = r->at;
    if (toml_peek(r) == '"' || toml_peek(r) == '\'') {
      enum pz_status status = toml_string(r, &part);
      if (status != PZ_OK) return status;
    } else {
      while (r->at < r->end && (isalnum((unsigned char)*r->at) || *r->at == '_' || *r->at == '-'))
        r->at++;
      if (r->at == start) return toml_wrong(r, "accepted: [table], or key = value");
    }
    size_t length = part ? strlen(part) : (size_t)(r->at - start);
    if (n + length + 2 > sizeof text)
      return pz_fail(r->err, PZ_LIMIT, "%s:%u: a key of more than %d bytes", r->name, r->line,
                     PZ_TOML_MOST_NAME);
    if (n) text[n++] = '.';
    memcpy(text + n, part ? part : start, length);
    n += length;
    toml_skip(r, false);
    if (toml_peek(r) != '.') break;
    r->at++;
  }
  text[n] = '\0';
  *out = pz_arena_strdup(r->arena, pz_text_plain(text));
  return *out ? PZ_OK : toml_no_memory(r);
}

/* Adds a table or key, which TOML allows once. */
static enum pz_status toml_add(struct toml_reader *r, struct pz_vec *all, uint32_t first,
                               const struct pz_toml_entry *e) {
  char what[PZ_TOML_MOST_NAME + 80];
  for (uint32_t i = first; i < all->n; i++) {
    const struct pz_toml_entry *old = pz_vec_at(all, struct pz_toml_entry, i);
    if (strcmp(old->name, e->name) != 0) continue;
    r->line = e->line;
    snprintf(what, sizeof what, "%s stands in line %u already; accepted: once", e->name, old->line);
    return toml_wrong(r, what);
  }
  if (all->n >= PZ_TOML_MOST_KEYS)
    return pz_fail(r->err, PZ_LIMIT, "%s:%u: accepted: at most %d keys", r->name, r->line,
                   PZ_TOML_MOST_KEYS);
  return pz_vec_push(all, e) ? PZ_OK : toml_no_memory(r);
}

/* [table] or [[table]]. */
static enum pz_status toml_table(struct toml_reader *r, const char **table, uint32_t keys) {
  int brackets = r->at + 1 < r->end && r->at[1] == '[' ? 2 : 1;
  bool several = brackets > 1;
  r->at += brackets;
  enum pz_status status = toml_name(r, NULL, table);
  r->own = several ? keys : 0;
  if (status == PZ_OK && !several)
    status = toml_add(r, &r->tables, 0, &(struct pz_toml_entry){.name = *table, .line = r->line});
  for (; brackets > 0 && status == PZ_OK; brackets--, r->at++)
    if (toml_peek(r) != ']') status = toml_wrong(r, "a table is not closed; accepted: [table]");
  return status;
}

static enum pz_status toml_entry(struct toml_reader *r, const char *table, struct pz_vec *out) {
  struct pz_toml_entry e = {.line = r->line};
  enum pz_status status = toml_name(r, table, &e.name);
  if (status != PZ_OK) return status;
  if (toml_peek(r) != '=') return toml_wrong(r, "accepted: [table], or key = value");
  r->at++;
  toml_skip(r, false);
  status = toml_value(r, 0, &e.value);
  if (status != PZ_OK) return status;
  return toml_add(r, out, r->own, &e);
}

enum pz_status pz_toml_read(const char *name, const char *text, size_t bytes, uint32_t line,
                            struct pz_arena *arena, struct pz_vec *out, struct pz_error *err) {
  struct toml_reader r = {name, text, text + bytes, line, arena, err, .own = 0};
  const char *table = NULL;
  enum pz_status status = PZ_OK;
  pz_vec_init(out, arena, sizeof(struct pz_toml_entry));
  pz_vec_init(&r.tables, arena, sizeof(struct pz_toml_entry));
  if (bytes > PZ_TOML_MOST_BYTES)
    return pz_fail(err, PZ_LIMIT, "%s: %zu bytes; accepted: at most %d", name, bytes,
                   PZ_TOML_MOST_BYTES);
  if (memchr(text, '\0', bytes)) return toml_wrong(&r, "a zero byte; accepted: text");
  for (toml_skip(&r, true); r.at < r.end && status == PZ_OK; toml_skip(&r, true)) {
    status = *r.at == '[' ? toml_table(&r, &table, out->n) : toml_entry(&r, table, out);
    toml_skip(&r, false);
    if (status == PZ_OK && r.at < r.end && *r.at != '\n' && *r.at != '#')
      status = toml_wrong(&r, "accepted: the end of the line behind a value");
  }
  return status;
}
