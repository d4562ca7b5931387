#include "core/choices.h"

#include <errno.h>
#include <stdlib.h>

/* Put v in its place; false when there is no room. */
static bool insert(struct pz_choices *c, int64_t v) {
  int at = c->n;
  while (at > 0 && c->v[at - 1] > v) at--;
  if (at > 0 && c->v[at - 1] == v) return true;
  if (c->n == PZ_CHOICES_MOST) return false;
  for (int i = c->n; i > at; i--) c->v[i] = c->v[i - 1];
  c->v[at] = v;
  c->n++;
  return true;
}

struct pz_choices pz_choices_powers(int64_t most) {
  struct pz_choices c = {.n = 0};
  for (int64_t v = 1; v <= most && c.n < PZ_CHOICES_MOST; v *= 2) c.v[c.n++] = v;
  return c;
}

enum pz_status pz_choices_check(const char *what, const struct pz_choices *c, int least,
                                struct pz_error *err) {
  enum { MOST = 1 << 20 };
  bool good = c->n >= least && c->n <= PZ_CHOICES_MOST;
  for (int i = 0; good && i < c->n; i++) good = c->v[i] > (i ? c->v[i - 1] : 0) && c->v[i] <= MOST;
  return good ? PZ_OK
              : pz_fail(err, PZ_BAD_USE, "%s: accepted: %d to %d numbers from 1 to %d, ascending",
                        what, least, PZ_CHOICES_MOST, MOST);
}

enum pz_status pz_choices_parse(const char *text, const char *name, int64_t most,
                                struct pz_choices *out, struct pz_error *err) {
  struct pz_choices c = {.n = 0};
  for (const char *at = text;;) {
    char *end;
    errno = 0;
    long long v = strtoll(at, &end, 10);
    if (end == at || errno || v < 1 || v > most || (*end && *end != ',') || !insert(&c, v))
      return pz_fail(err, PZ_BAD_USE,
                     "--%s '%s'; accepted: up to %d comma-separated integers from 1 to %lld", name,
                     text, PZ_CHOICES_MOST, (long long)most);
    if (!*end) break;
    at = end + 1;
  }
  *out = c;
  return PZ_OK;
}
