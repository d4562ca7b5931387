/* Texts: suggestions for misspelt words, joined lists, texts safe to print, readable numbers. */
#ifndef PZ_CORE_TEXT_H
#define PZ_CORE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A list of names: name(ctx, 0), name(ctx, 1), ... until NULL. */
typedef const char *pz_name_at(const void *ctx, size_t i);

/* Returns name i of an array of texts that ends with NULL (pz_name_at). */
const char *pz_name_in_list(const void *names, size_t i);

/* Returns the name with the smallest edit distance from `word`, or NULL if none is near enough. */
const char *pz_text_nearest(const char *word, pz_name_at *name, const void *ctx);

/* Returns the name that `word` is certainly meant for: at most a fifth of the letters differ, or
 * `word` lacks one of the parts of the name.  NULL if `word` may be a different word. */
const char *pz_text_misspelt(const char *word, pz_name_at *name, const void *ctx);

/* Returns whether two texts are equal except for the case of letters. */
bool pz_text_same(const char *a, const char *b);

/* Like pz_text_same(), for the first n characters of `text`. */
bool pz_text_is(const char *text, size_t n, const char *word);

/* Writes " (did you mean a100-40, a100-80?)" into buf and returns buf.  The names are those that
 * begin with `word`, or else those that contain it, or else the nearest one, or else the longest
 * one with which `word` begins.  If there is none, buf is "". */
char *pz_text_meant(char *buf, size_t size, const char *word, pz_name_at *name, const void *ctx);

/* Writes "a, b, c" into buf, cut with "..." if it is too long, and returns buf. */
char *pz_text_join(char *buf, size_t size, pz_name_at *name, const void *ctx);

/* Copies as much of a text as fits, cut between UTF-8 characters, and returns buf. */
char *pz_text_copy(char *buf, size_t size, const char *text);

/* Replaces control characters, marks of the direction of writing and bytes that are not UTF-8 by
 * '?', because names from outside must not control the terminal.  Errors, progress notes and
 * table cells pass through it; other code that prints such names calls it.  `text` may be NULL. */
char *pz_text_plain(char *text);

/* Returns whether pz_text_plain() would change nothing. */
bool pz_text_is_plain(const char *text);

/* Returns the number of bytes before the first one that is not UTF-8 (RFC 3629), or `bytes`. */
size_t pz_text_utf8(const char *text, size_t bytes);

/* Returns the columns of a text on a terminal, one for each UTF-8 character. */
int pz_text_columns(const char *text);

/* Returns the plural ending for "%d layer%s": "" if count is 1, "s" otherwise. */
static inline const char *pz_text_s(double count) { return count == 1 ? "" : "s"; }

/* Writes a number as 1,557,611,200 into buf and returns buf. */
char *pz_text_count(char *buf, size_t size, int64_t value);

/* Writes "19.6 GB" or "812 B", three digits and a decimal SI prefix, into buf and returns buf. */
char *pz_text_si(char *buf, size_t size, double value, const char *unit);

/* Writes 31278, 748.9 or 0.0312 into buf and returns buf: four digits, or all digits of a larger
 * number, without an exponent unless it is below 1e-4. */
char *pz_text_number(char *buf, size_t size, double value);

/* Writes "48 s", "2 min 05 s" or "3 h 20 min" into buf and returns buf. */
char *pz_text_duration(char *buf, size_t size, double seconds);

#endif
