/* Text helpers: the nearest known word to a misspelt one, joined lists, readable numbers. */
#ifndef PZ_CORE_TEXT_H
#define PZ_CORE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Names are given by an iterator: name(i) for i = 0, 1, ...; NULL ends. */
typedef const char *pz_name_at(const void *ctx, size_t i);

/* The name nearest to `word` by edit distance, or NULL if none is near enough to be meant. */
const char *pz_text_nearest(const char *word, pz_name_at *name, const void *ctx);

/* The name that `word` is certainly meant for: at most a fifth of its letters differ, or it lacks one
 * of the name's words.  NULL: it may be a word of its own. */
const char *pz_text_misspelt(const char *word, pz_name_at *name, const void *ctx);

/* Are they the same, whatever the case of letters? */
bool pz_text_same(const char *a, const char *b);
/* The same of the first n characters of `text`, a word of a list. */
bool pz_text_is(const char *text, size_t n, const char *word);

/* " (did you mean a100-40, a100-80?)" into buf: the names that begin with `word`, or else have it
 * in them, whatever the case of letters; or else the nearest; or else the longest that `word`
 * begins with; "" if there is none.  Returns buf. */
char *pz_text_meant(char *buf, size_t size, const char *word, pz_name_at *name, const void *ctx);

/* "a, b, c" into buf; cut with "..." when too long.  Returns buf. */
char *pz_text_join(char *buf, size_t size, pz_name_at *name, const void *ctx);

/* As much of s as fits, cut between UTF-8 characters.  Returns buf. */
char *pz_text_copy(char *buf, size_t size, const char *s);

/* Control characters (C0, delete, C1), marks of the direction of writing and bytes that are no UTF-8
 * as '?': names from outside must not steer the terminal.  Every error, log line, progress note and
 * table cell goes through it; what is printed otherwise has to.  Returns s, which may be NULL. */
char *pz_text_plain(char *s);
bool pz_text_is_plain(const char *s);

/* Bytes before the first that is no UTF-8 (RFC 3629: shortest forms, no surrogates); `bytes` if all
 * is. */
size_t pz_text_utf8(const char *s, size_t bytes);

/* Columns on a terminal: characters of UTF-8, each taken for one. */
int pz_text_columns(const char *s);

/* "s" for all counts but one: "%d layer%s". */
static inline const char *pz_text_s(double count) { return count == 1 ? "" : "s"; }

/* 1,557,611,200 into buf.  Returns buf. */
char *pz_text_count(char *buf, size_t size, int64_t value);

/* "19.6 GB", "3.25 TFLOP", "812 B": three digits and a decimal SI prefix.  Returns buf. */
char *pz_text_si(char *buf, size_t size, double value, const char *unit);

/* 31278, 748.9, 0.0312: four digits or all of a larger number, never an exponent above 1e-4.
 * Returns buf. */
char *pz_text_number(char *buf, size_t size, double value);

/* "48 s", "2 min 05 s", "3 h 20 min". Returns buf. */
char *pz_text_duration(char *buf, size_t size, double seconds);

#endif
