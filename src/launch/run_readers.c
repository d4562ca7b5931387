/* Functions that the readers of runs share: finding the files that a script writes, and storing the
 * division of layers and the type of Adam's moments in a plan. */
#include "launch/run_readers.h"

#include <string.h>

#include "plan/plan.h"

/* Returns the first occurrence of a word in a text that does not end with a NUL, or NULL. */
const char *pz_find_text(const char *text, size_t bytes, const char *word) {
  size_t n = strlen(word);
  const char *end = text + bytes;
  while ((size_t)(end - text) >= n) {
    const char *at = memchr(text, *word, (size_t)(end - text) - n + 1);
    if (!at || memcmp(at, word, n) == 0) return at;
    text = at + 1;
  }
  return NULL;
}

/* Finds the delimiter of a here-document, which follows << in a line, without its quotes.  Returns
 * its length, or 0 if no here-document begins in the line. */
static size_t find_delimiter(const char *line, const char *end, const char **delimiter) {
  for (const char *at = line; at + 2 < end; at++) {
    bool begins_here_string = at[2] == '<'; /* <<< has no delimiter */
    if (at[0] != '<' || at[1] != '<' || begins_here_string) continue;
    at += 2;
    if (*at == '-') at++;
    while (at < end && (*at == '\'' || *at == '"' || *at == ' ')) at++;
    *delimiter = at;
    while (at < end && *at != '\'' && *at != '"' && *at != ' ' && *at != ';') at++;
    return (size_t)(at - *delimiter);
  }
  return 0;
}

/* Returns whether a word of the line has this ending, which a quote may follow. */
static bool has_word_ending(const char *line, const char *end, const char *ending) {
  size_t n = strlen(ending);
  for (const char *at = line; at + n < end; at++)
    if (memcmp(at, ending, n) == 0 && strchr("\"' ", at[n])) return true;
  return false;
}

/* Finds the first here-document of a script whose file name has this ending. */
bool pz_script_document(const char *text, size_t bytes, const char *ending,
                        struct pz_document *out) {
  const char *end = text + bytes;
  const char *delimiter = NULL; /* the word that ends the current document */
  const char *start = NULL;     /* the first character of the document that is searched for */
  size_t length = 0;            /* length of the delimiter, or 0 outside of documents */
  uint32_t line = 1, first_line = 0;
  for (const char *at = text; at < end; line++) {
    const char *line_end = memchr(at, '\n', (size_t)(end - at));
    if (!line_end) line_end = end;
    if (!length) {
      length = find_delimiter(at, line_end, &delimiter);
      bool is_wanted = length && has_word_ending(at, line_end, ending) && line_end < end;
      start = is_wanted ? line_end + 1 : NULL;
      first_line = line + 1;
    } else if ((size_t)(line_end - at) == length && memcmp(at, delimiter, length) == 0) {
      if (start) {
        *out = (struct pz_document){start, (size_t)(at - start), first_line};
        return true;
      }
      length = 0;
    }
    at = line_end + 1;
  }
  return false;
}

/* Sets the plan's chunks so that chunk i has layers[i] layers, or returns false if it cannot. */
bool pz_plan_divide_layers(struct pz_plan *plan, const int64_t *layers, uint32_t n) {
  int64_t total = 0;
  if (!n || n % plan->pp) return false;
  struct pz_plan even = *plan;
  even.vpp = n / plan->pp;
  even.first_layers = even.last_layers = 0;
  struct pz_plan uneven_ends = even;
  uneven_ends.first_layers = layers[0];
  uneven_ends.last_layers = layers[n - 1];
  bool is_even = true, has_uneven_ends = n > 1;
  for (uint32_t chunk = 0; chunk < n; chunk++) total += layers[chunk];
  for (uint32_t chunk = 0; chunk < n; chunk++) {
    if (pz_plan_chunk_layers(&even, total, chunk) != layers[chunk]) is_even = false;
    if (pz_plan_chunk_layers(&uneven_ends, total, chunk) != layers[chunk]) has_uneven_ends = false;
  }
  if (is_even)
    *plan = even;
  else if (has_uneven_ends)
    *plan = uneven_ends;
  return is_even || has_uneven_ends;
}

/* Replaces the bytes of Adam's moments that a run states, which are not 0, by 0 if they are the
 * default of the plan's framework: in a plan, 0 stands for this default. */
void pz_plan_settle_moments(struct pz_plan *plan, bool experts) {
  double stated_bytes = plan->moment_bytes;
  plan->moment_bytes = 0;
  double default_bytes = pz_plan_moment_bytes(plan, experts);
  if (stated_bytes != default_bytes) plan->moment_bytes = stated_bytes;
}
