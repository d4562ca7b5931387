/* Sections: misspelt words, lists, texts that are safe to print, readable numbers. */
#include "core/text.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LONGEST_WORD = 64 };

/* Returns the Levenshtein distance without regard to case, or LONGEST_WORD if a word is longer. */
static size_t edit_distance(const char *a, const char *b) {
  size_t n_a = strlen(a), n_b = strlen(b), row[LONGEST_WORD + 1];
  if (n_a > LONGEST_WORD || n_b > LONGEST_WORD) return LONGEST_WORD;
  for (size_t j = 0; j <= n_b; j++) row[j] = j;
  for (size_t i = 1; i <= n_a; i++) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= n_b; j++) {
      bool differ = tolower((unsigned char)a[i - 1]) != tolower((unsigned char)b[j - 1]);
      size_t least = diagonal + differ;
      if (row[j] + 1 < least) least = row[j] + 1;
      if (row[j - 1] + 1 < least) least = row[j - 1] + 1;
      diagonal = row[j];
      row[j] = least;
    }
  }
  return row[n_b];
}

/* Returns the name nearest to the word: at most a third of its letters and one more differ. */
const char *pz_text_nearest(const char *word, pz_name_at *name, const void *ctx) {
  const char *best = NULL;
  size_t limit = strlen(word) / 3 + 1, best_distance = limit + 1;
  for (size_t i = 0; name(ctx, i); i++) {
    size_t distance = edit_distance(word, name(ctx, i));
    if (distance < best_distance) {
      best_distance = distance;
      best = name(ctx, i);
    }
  }
  return best;
}

/* Returns whether `word` is the name without one of its parts, as "tensor-parallel" is
 * "tensor-model-parallel" without "model". */
static bool lacks_one_part(const char *word, const char *name) {
  static const char marks[] = "-_.";
  size_t n_word = strlen(word), n_name = strlen(name);
  if (!strpbrk(word, marks)) return false;
  for (size_t at = 0; at < n_name;) {
    size_t length = strcspn(name + at, marks), next = at + length + 1;
    /* A part is removed with the mark behind it; the last part, with the mark before it. */
    bool is_last = next > n_name && at > 0;
    size_t cut = is_last ? at - 1 : at;
    if (n_word + length + 1 == n_name && memcmp(word, name, cut) == 0 &&
        strcmp(word + cut, name + cut + length + 1) == 0)
      return true;
    at = next;
  }
  return false;
}

/* Returns the name that the word is certainly meant for, or NULL. */
const char *pz_text_misspelt(const char *word, pz_name_at *name, const void *ctx) {
  const char *best = NULL;
  size_t limit = strlen(word) < 10 ? 1 : strlen(word) / 5, best_distance = limit + 1;
  for (size_t i = 0; name(ctx, i); i++) {
    size_t n = strlen(word), n_name = strlen(name(ctx, i));
    size_t distance = n > n_name ? n - n_name : n_name - n;
    if (lacks_one_part(word, name(ctx, i)))
      distance = 0;
    else if (distance <= limit) /* the difference in length is a lower bound of the distance */
      distance = edit_distance(word, name(ctx, i));
    if (distance < best_distance) {
      best_distance = distance;
      best = name(ctx, i);
    }
  }
  return best;
}

/* Returns whether `text` begins with `start`, without regard to case. */
static bool begins_with(const char *text, const char *start) {
  while (*start && tolower((unsigned char)*text) == tolower((unsigned char)*start)) {
    text++;
    start++;
  }
  return !*start;
}

bool pz_text_is(const char *text, size_t n, const char *word) {
  return strlen(word) == n && begins_with(text, word);
}

bool pz_text_same(const char *a, const char *b) { return pz_text_is(a, strlen(a), b); }

const char *pz_name_in_list(const void *names, size_t i) { return ((const char *const *)names)[i]; }

/* How a name can resemble the word, best first: the name begins with it, contains it, is spelled
 * like it, or is a beginning of it. */
enum resemblance { BEGINS, CONTAINS, NEAR, IS_BEGINNING, RESEMBLANCES };

/* The names of a list that resemble a word in one way, `how`. */
struct resembling {
  enum resemblance how;
  const char *word;
  const char *best; /* the only name that resembles the word in this way; NULL if several may */
  pz_name_at *name;
  const void *ctx;
};

/* Returns name i of those that resemble the word (pz_name_at). */
static const char *resembling_name(const void *ctx, size_t i) {
  enum { LEAST_LETTERS = 2 }; /* too many names contain a single letter */
  const struct resembling *list = ctx;
  size_t seen = 0;
  for (size_t k = 0; list->name(list->ctx, k); k++) {
    const char *name = list->name(list->ctx, k), *at = name;
    bool may_contain = list->how != BEGINS && strlen(list->word) >= LEAST_LETTERS;
    while (may_contain && *at && !begins_with(at, list->word)) at++;
    bool matches = (may_contain || list->how == BEGINS) && *at && begins_with(at, list->word);
    if (list->best) matches = name == list->best;
    if (!matches) continue;
    if (seen == i) return name;
    seen++;
  }
  return NULL;
}

/* Writes " (did you mean a, b?)" with the names that resemble the word best, or "". */
char *pz_text_meant(char *buf, size_t size, const char *word, pz_name_at *name, const void *ctx) {
  struct resembling list = {.word = word, .name = name, .ctx = ctx};
  const char *longest_beginning = NULL; /* the longest name with which the word begins */
  char names[200];
  buf[0] = '\0';
  for (size_t k = 0; name(ctx, k); k++) {
    const char *best = longest_beginning;
    bool is_longer = !best || strlen(name(ctx, k)) > strlen(best);
    if (begins_with(word, name(ctx, k)) && is_longer) longest_beginning = name(ctx, k);
  }
  for (list.how = BEGINS; *word && list.how < RESEMBLANCES; list.how++) {
    if (list.how == NEAR) list.best = pz_text_nearest(word, name, ctx);
    if (list.how == IS_BEGINNING) list.best = longest_beginning;
    if (list.how >= NEAR && !list.best) continue;
    if (!resembling_name(&list, 0)) continue;
    snprintf(buf, size, " (did you mean %s?)",
             pz_text_join(names, sizeof names, resembling_name, &list));
    break;
  }
  return buf;
}

/* Writes the names of a list as "a, b, c", cut with "..." to fit. */
char *pz_text_join(char *buf, size_t size, pz_name_at *name, const void *ctx) {
  size_t used = 0;
  buf[0] = '\0';
  for (size_t i = 0; name(ctx, i); i++) {
    int n = snprintf(buf + used, size - used, "%s%s", i ? ", " : "", name(ctx, i));
    if (n < 0 || (size_t)n >= size - used) {
      if (size > 4) memcpy(buf + size - 4, "...", 4);
      break;
    }
    used += (size_t)n;
  }
  return buf;
}

/* Copies as much of a text as fits, cut between UTF-8 characters. */
char *pz_text_copy(char *buf, size_t size, const char *text) {
  size_t n = strlen(text);
  if (!size) return buf;
  if (n >= size) {
    n = size - 1;
    while (n > 0 && ((unsigned char)text[n] & 0xC0) == 0x80) n--;
  }
  memcpy(buf, text, n);
  buf[n] = '\0';
  return buf;
}

/* Returns the bytes of the UTF-8 character at the beginning of n bytes, or 0 if it is not valid. */
static size_t character_bytes(const unsigned char *text, size_t n) {
  static const struct {
    unsigned char first, last, least, most; /* ranges of the first and of the second byte */
    size_t bytes;
  } forms[] = {
      {0x00, 0x7f, 0, 0, 1},       {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
      {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
      {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4}};
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    if (text[0] < forms[i].first || text[0] > forms[i].last) continue;
    if (forms[i].bytes > n) return 0;
    if (forms[i].bytes > 1 && (text[1] < forms[i].least || text[1] > forms[i].most)) return 0;
    for (size_t k = 2; k < forms[i].bytes; k++)
      if (text[k] < 0x80 || text[k] > 0xbf) return 0;
    return forms[i].bytes;
  }
  return 0;
}

/* Returns the bytes of the character at the beginning of n bytes, at least 1.  Sets *unsafe if
 * it could control a terminal: control characters, marks that change the direction of writing
 * (U+061C, U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069), line separators (U+2028, U+2029)
 * and bytes that are not UTF-8. */
static size_t next_character(const char *text, size_t n, bool *unsafe) {
  const unsigned char *byte = (const unsigned char *)text;
  size_t bytes = character_bytes(byte, n);
  *unsafe = !bytes || byte[0] < ' ' || byte[0] == 0x7f ||
            (bytes == 2 && byte[0] == 0xC2 && byte[1] < 0xA0);
  if (bytes == 2 && byte[0] == 0xD8) *unsafe = byte[1] == 0x9C;
  if (bytes == 3 && byte[0] == 0xE2 && byte[1] == 0x80)
    *unsafe = byte[2] == 0x8E || byte[2] == 0x8F || (byte[2] >= 0xA8 && byte[2] <= 0xAE);
  if (bytes == 3 && byte[0] == 0xE2 && byte[1] == 0x81)
    *unsafe = byte[2] >= 0xA6 && byte[2] <= 0xA9;
  return bytes ? bytes : 1;
}

/* Returns whether a text has no characters that could control a terminal. */
bool pz_text_is_plain(const char *text) {
  bool unsafe = false;
  for (size_t left = strlen(text); left && !unsafe;) {
    size_t n = next_character(text, left, &unsafe);
    text += n;
    left -= n;
  }
  return !unsafe;
}

/* Replaces characters that could control a terminal by '?'. */
char *pz_text_plain(char *text) {
  char *to = text;
  const char *at = text;
  for (size_t left = text ? strlen(text) : 0; left;) {
    bool unsafe;
    size_t n = next_character(at, left, &unsafe);
    memmove(to, unsafe ? "?" : at, unsafe ? 1 : n);
    to += unsafe ? 1 : n;
    at += n;
    left -= n;
  }
  if (to) *to = '\0';
  return text;
}

size_t pz_text_utf8(const char *text, size_t bytes) {
  for (size_t at = 0; at < bytes;) {
    size_t n = character_bytes((const unsigned char *)text + at, bytes - at);
    if (!n) return at;
    at += n;
  }
  return bytes;
}

int pz_text_columns(const char *text) {
  int n = 0;
  for (; *text; text++) n += ((unsigned char)*text & 0xC0) != 0x80;
  return n;
}

/* Writes a number with commas between groups of three digits. */
char *pz_text_count(char *buf, size_t size, int64_t value) {
  char digits[24];
  int n = snprintf(digits, sizeof digits, "%" PRId64, value);
  size_t used = 0;
  for (int i = 0; i < n && used + 2 < size; i++) {
    int left = n - 1 - i;
    buf[used] = digits[i];
    used++;
    if (left && left % 3 == 0 && digits[i] != '-') {
      buf[used] = ',';
      used++;
    }
  }
  buf[used] = '\0';
  return buf;
}

/* Writes a value with three digits and a decimal SI prefix, such as "19.6 GB". */
char *pz_text_si(char *buf, size_t size, double value, const char *unit) {
  static const char *const prefix[] = {"", "k", "M", "G", "T", "P", "E"};
  size_t power = 0; /* the power of 1000 in the prefix */
  int decimals = 0;
  while (fabs(value) >= 999.5 && power + 1 < sizeof prefix / sizeof *prefix) {
    value /= 1000;
    power++;
  }
  if (power > 0 && fabs(value) < 99.95) decimals = fabs(value) < 9.995 ? 2 : 1;
  snprintf(buf, size, "%.*f %s%s", decimals, value, prefix[power], unit);
  return buf;
}

/* Writes a number with four digits, or with all digits if it is larger. */
char *pz_text_number(char *buf, size_t size, double value) {
  snprintf(buf, size, value >= 1000 ? "%.0f" : "%.4g", value);
  return buf;
}

char *pz_text_duration(char *buf, size_t size, double seconds) {
  if (!(seconds >= 0 && seconds < 1e9))
    snprintf(buf, size, "?");
  else if (seconds < 60)
    snprintf(buf, size, "%.0f s", seconds);
  else if (seconds < 3600)
    snprintf(buf, size, "%d min %02d s", (int)seconds / 60, (int)seconds % 60);
  else
    snprintf(buf, size, "%d h %02d min", (int)(seconds / 3600), (int)(seconds / 60) % 60);
  return buf;
}
