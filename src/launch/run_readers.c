#include "launch/run_readers.h"

#include <string.h>

#include "plan/plan.h"

/* ---- files in scripts ----------------------------------------------------------------------- */

/* The word behind <<, without quotes; its length, 0: no here-document begins in the line. */
static size_t here_word(const char *line, const char *end, const char **word) {
  for (const char *at = line; at + 2 < end; at++) {
    if (at[0] != '<' || at[1] != '<' || at[2] == '<') continue;
    at += 2;
    if (*at == '-') at++;
    while (at < end && (*at == '\'' || *at == '"' || *at == ' ')) at++;
    *word = at;
    while (at < end && *at != '\'' && *at != '"' && *at != ' ' && *at != ';') at++;
    return (size_t)(at - *word);
  }
  return 0;
}

/* Does a word of the line end so, with or without a quote behind it? */
static bool has_ending(const char *line, const char *end, const char *ending) {
  size_t n = strlen(ending);
  for (const char *at = line; at + n < end; at++)
    if (memcmp(at, ending, n) == 0 && strchr("\"' ", at[n])) return true;
  return false;
}

bool pz_script_document(const char *text, size_t bytes, const char *ending,
                        struct pz_document *out) {
  const char *end = text + bytes, *word = NULL, *start = NULL;
  size_t length = 0;
  uint32_t line = 1, first = 0;
  for (const char *at = text, *next; at < end; at = next + 1, line++) {
    next = memchr(at, '\n', (size_t)(end - at));
    if (!next) next = end;
    if (length) {
      if ((size_t)(next - at) != length || memcmp(at, word, length) != 0) continue;
      length = 0;
      if (!start) continue;
      *out = (struct pz_document){start, (size_t)(at - start), first};
      return true;
    }
    length = here_word(at, next, &word);
    start = length && has_ending(at, next, ending) && next < end ? next + 1 : NULL;
    first = line + 1;
  }
  return false;
}

/* ---- plans ---------------------------------------------------------------------------------- */

bool pz_division_read(struct pz_plan *p, const int64_t *layers, uint32_t n) {
  struct pz_plan even = *p, ends;
  int64_t all = 0;
  bool is_even = true, is_ends = true;
  if (!n || n % p->pp) return false;
  even.vpp = n / p->pp;
  even.first_layers = even.last_layers = 0;
  ends = even;
  ends.first_layers = layers[0];
  ends.last_layers = layers[n - 1];
  for (uint32_t j = 0; j < n; j++) all += layers[j];
  for (uint32_t j = 0; j < n; j++) {
    is_even = is_even && pz_plan_blocks(&even, all, j) == layers[j];
    is_ends = is_ends && n > 1 && pz_plan_blocks(&ends, all, j) == layers[j];
  }
  if (is_even || is_ends) *p = is_even ? even : ends;
  return is_even || is_ends;
}

void pz_moments_settle(struct pz_plan *p, bool experts) {
  double given = p->moment_bytes > 0 ? p->moment_bytes : 4;
  p->moment_bytes = 0;
  if (pz_plan_moment_bytes(p, experts) != given) p->moment_bytes = given;
}
