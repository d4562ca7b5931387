#include "onnx/plan.h"

#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/num.h"

enum {
  MOST_CANDIDATES = 48, /* periods that are tried */
  MOST_RUNS = 32,       /* repeated blocks of a model */
  MOST_STARTS = 16,     /* places where a run may begin that are tried */
  LEAST_PART = 12,      /* operators of a part between blocks ... */
  MOST_PART = 40,       /* ... beyond which it is cut */
};

/* ---- hashes --------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t h, const void *bytes, size_t n) {
  const unsigned char *b = bytes;
  for (size_t i = 0; i < n; i++) h = (h ^ b[i]) * UINT64_C(1099511628211);
  return h;
}

static uint64_t mix_int(uint64_t h, int64_t v) {
  h ^= (uint64_t)v;
  h *= UINT64_C(0x9E3779B97F4A7C15);
  return h ^ (h >> 29);
}

static uint64_t mix_attrs(uint64_t h, const struct pz_onnx_node *n) {
  uint64_t sum = 0; /* their order does not matter */
  for (size_t i = 0; i < n->n_attrs; i++) {
    const Onnx__AttributeProto *a = n->attrs[i];
    uint64_t one = mix(1, a->name ? a->name : "", a->name ? strlen(a->name) : 0);
    if (a->has_i) one = mix_int(one, a->i);
    if (a->has_f) one = mix(one, &a->f, sizeof a->f);
    if (a->has_s) one = mix(one, a->s.data, a->s.len);
    for (size_t k = 0; k < a->n_ints; k++) one = mix_int(one, a->ints[k]);
    sum += one;
  }
  return mix_int(h, (int64_t)sum);
}

static uint64_t mix_value(uint64_t h, const struct pz_onnx_value *v) {
  h = mix_int(h, v->role);
  h = mix_int(h, v->rank);
  for (int i = 0; i < v->rank; i++) h = mix_int(h, v->dim[i]);
  for (uint32_t i = 0; i < v->n_ints && i < 8; i++) h = mix_int(h, v->ints[i]);
  return h;
}

static uint64_t hash_of(const struct pz_onnx_plan *p, uint32_t at) {
  const struct pz_onnx_node *n = pz_onnx_at(p, at);
  uint64_t h = mix(UINT64_C(14695981039346656037), n->type, strlen(n->type));
  h = mix_int(h, n->fused);
  if (n->fused < 0) h = mix_attrs(h, n);
  for (uint32_t k = 0; k < n->n_in; k++) {
    const struct pz_onnx_value *v = pz_onnx_in(p->g, n, k);
    h = v ? mix_value(h, v) : mix_int(h, -7);
    /* the first use of a weight that others share owns it, the others do not */
    if (v && v->role == PZ_ONNX_PARAM) h = mix_int(h, pz_onnx_is_tied(p, n->in[k], at, 1));
  }
  for (uint32_t o = 0; o < n->n_out; o++)
    if (n->out[o] != PZ_NONE) h = mix_value(h, pz_onnx_value(p->g, n->out[o]));
  return h;
}

/* ---- runs ----------------------------------------------------------------------------------- */

struct run {
  uint32_t start, period, reps;
};

struct range {
  uint32_t from, to;
};

struct seen {
  uint64_t hash;
  uint32_t at;
};

static int by_hash(const void *a, const void *b) {
  const struct seen *x = a, *y = b;
  if (x->hash != y->hash) return x->hash < y->hash ? -1 : 1;
  return x->at < y->at ? -1 : x->at > y->at;
}

static int by_number(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? -1 : x > y;
}

struct tally {
  uint32_t period, times;
};

static int by_times(const void *a, const void *b) {
  const struct tally *x = a, *y = b;
  if (x->times != y->times) return x->times > y->times ? -1 : 1;
  return x->period < y->period ? -1 : x->period > y->period;
}

/* The hash of `window` operators from a place on. */
static uint64_t hash_from(const struct pz_onnx_plan *p, uint32_t at, uint32_t window,
                          uint32_t end) {
  uint64_t h = p->hash[at];
  for (uint32_t i = 1; i < window && at + i < end; i++) h = mix_int(h, (int64_t)p->hash[at + i]);
  return h;
}

/* Distances between equal neighbours, the most frequent first.  Long windows find the period of
 * blocks in which the same operators come often, short ones that of short blocks. */
static uint32_t periods(const struct pz_onnx_plan *p, struct range r, uint32_t window,
                        struct tally **out) {
  uint32_t n = r.to - r.from, m = 0, kinds = 0;
  struct seen *seen = pz_arena_alloc(p->arena, n, sizeof *seen);
  uint32_t *gap = pz_arena_alloc(p->arena, n, sizeof *gap);
  struct tally *t = pz_arena_alloc(p->arena, n, sizeof *t);
  if (!seen || !gap || !t) return PZ_NONE;
  for (uint32_t i = 0; i < n; i++)
    seen[i] = (struct seen){hash_from(p, r.from + i, window, r.to), r.from + i};
  qsort(seen, n, sizeof *seen, by_hash);
  for (uint32_t i = 1; i < n; i++)
    if (seen[i].hash == seen[i - 1].hash) gap[m++] = seen[i].at - seen[i - 1].at;
  qsort(gap, m, sizeof *gap, by_number);
  for (uint32_t i = 0; i < m; i++) {
    if (!kinds || t[kinds - 1].period != gap[i]) t[kinds++] = (struct tally){gap[i], 0};
    t[kinds - 1].times++;
  }
  qsort(t, kinds, sizeof *t, by_times);
  *out = t;
  return kinds < MOST_CANDIDATES ? kinds : MOST_CANDIDATES;
}

static uint32_t slot_of(const struct pz_onnx_plan *p, uint32_t value) {
  const struct pz_onnx_node *n = pz_onnx_node(p->g, pz_onnx_value(p->g, value)->maker);
  for (uint32_t o = 0; o < n->n_out; o++)
    if (n->out[o] == value) return o;
  return PZ_NONE;
}

/* Do the operators at a and b = a + period read the same things of their instances?  `start` begins
 * a's instance; what comes from outside is the same value for both, or comes one instance later. */
static bool same_wiring(const struct pz_onnx_plan *p, uint32_t a, uint32_t period, uint32_t start,
                        bool first) {
  const struct pz_onnx_node *x = pz_onnx_at(p, a), *y = pz_onnx_at(p, a + period);
  if (x->n_in != y->n_in) return false;
  for (uint32_t k = 0; k < x->n_in; k++) {
    const struct pz_onnx_value *u = pz_onnx_in(p->g, x, k), *v = pz_onnx_in(p->g, y, k);
    if (!u || !v || u->role != v->role || u->role != PZ_ONNX_ACT) {
      if (!u != !v || (u && u->role != v->role)) return false;
      continue;
    }
    uint32_t mu = pz_onnx_made_at(p, u->root), mv = pz_onnx_made_at(p, v->root);
    if (mu == PZ_NONE || mv == PZ_NONE) return false;
    if (u->root == v->root && mu < start) continue;
    if (mu < p->n_hoisted && mv < p->n_hoisted && p->hash[mu] == p->hash[mv])
      continue; /* one each */
    bool inside = mu >= start;
    if (inside || !first ? mv != mu + period : mv < start || mv >= start + period) return false;
    if ((inside || !first) && slot_of(p, u->root) != slot_of(p, v->root)) return false;
  }
  return true;
}

/* How many instances from `start` on are wired alike. */
static uint32_t wired(const struct pz_onnx_plan *p, uint32_t start, uint32_t period,
                      uint32_t reps) {
  for (uint32_t k = 1; k < reps; k++)
    for (uint32_t j = 0; j < period; j++)
      if (!same_wiring(p, start + (k - 1) * period + j, period, start + (k - 1) * period, k == 1))
        return k;
  return reps;
}

/* Is there anything in it worth a layer: a product with a weight? */
static bool has_weights(const struct pz_onnx_plan *p, uint32_t start, uint32_t period) {
  for (uint32_t i = start; i < start + period; i++) {
    const struct pz_onnx_node *n = pz_onnx_at(p, i);
    for (uint32_t k = 0; k < n->n_in && pz_onnx_is_product(n); k++)
      if (pz_onnx_in(p->g, n, k) && pz_onnx_in(p->g, n, k)->role == PZ_ONNX_PARAM) return true;
  }
  return false;
}

/* Of the places where the first instance may begin, the last one that the fewest values cross. */
static struct run best_start(const struct pz_onnx_plan *p, uint32_t start, uint32_t length,
                             uint32_t period) {
  struct run best = {start, period, 0};
  uint32_t end = start + length + period, most = length / period + 1, last = end - most * period;
  uint32_t least = p->crossing[start], tries = 0;
  for (uint32_t s = start; s <= last; s++)
    if (p->crossing[s] < least) least = p->crossing[s];
  for (uint32_t s = last + 1; s-- > start && tries < MOST_STARTS && best.reps < most;) {
    if (p->crossing[s] != least) continue;
    uint32_t reps = wired(p, s, period, most);
    if (reps >= 2 && reps > best.reps) best = (struct run){s, period, reps};
    tries++;
  }
  return best;
}

static bool better(const struct run *a, const struct run *b) {
  uint64_t x = (uint64_t)a->reps * a->period, y = (uint64_t)b->reps * b->period;
  return x != y ? x > y : a->period < b->period;
}

/* The best run of one period in a range. */
static void try_period(const struct pz_onnx_plan *p, struct range r, uint32_t period,
                       struct run *best) {
  uint32_t i = r.from;
  while (i + period < r.to) {
    uint32_t n = 0;
    while (i + n + period < r.to && p->hash[i + n] == p->hash[i + n + period]) n++;
    struct run most = {i, period, n / period + 1};
    if (n >= period && better(&most, best) && has_weights(p, i, period)) {
      struct run found = best_start(p, i, n, period);
      if (found.reps >= 2 && better(&found, best)) *best = found;
    }
    i += n + 1;
  }
}

static enum pz_status find_run(const struct pz_onnx_plan *p, struct range r, struct run *best) {
  static const uint32_t windows[] = {1, 16};
  *best = (struct run){0};
  for (int k = 0; k < 2; k++) {
    struct tally *t = NULL;
    uint32_t n = periods(p, r, windows[k], &t);
    if (n == PZ_NONE) return pz_onnx_no_memory(p->g);
    for (uint32_t i = 0; i < n; i++)
      if (t[i].period > 1) try_period(p, r, t[i].period, best);
  }
  return PZ_OK;
}

/* ---- segments ------------------------------------------------------------------------------- */

static enum pz_status add_segment(struct pz_onnx_plan *p, uint32_t first, uint32_t n,
                                  int64_t count) {
  struct pz_onnx_segment s = {.first = first, .n = n, .count = count};
  return pz_vec_push(&p->segments, &s) ? PZ_OK : pz_onnx_no_memory(p->g);
}

/* Does the operator read a result of another one, made before `limit`? */
static bool reads_before(const struct pz_onnx_plan *p, uint32_t at, uint32_t limit) {
  const struct pz_onnx_node *n = pz_onnx_at(p, at);
  for (uint32_t k = 0; k < n->n_in; k++) {
    const struct pz_onnx_value *v = pz_onnx_in(p->g, n, k);
    if (v && v->role == PZ_ONNX_ACT && pz_onnx_made_at(p, v->root) < limit) return true;
  }
  return false;
}

/* Where, in a part that goes on from a layer before, another branch of the model begins: with an
 * operator that reads no result at all, like the embedding of a decoder.  r.to: nowhere. */
static uint32_t branch_in(const struct pz_onnx_plan *p, struct range r) {
  bool goes_on = false;
  for (uint32_t at = r.from; at < r.to; at++) {
    if (goes_on && !reads_before(p, at, at)) return at;
    goes_on = goes_on || reads_before(p, at, r.from);
  }
  return r.to;
}

/* A piece of a part; a long one is cut where the fewest values cross. */
static enum pz_status add_piece(struct pz_onnx_plan *p, struct range r) {
  enum pz_status status = PZ_OK;
  while (r.to - r.from > MOST_PART && status == PZ_OK) {
    uint32_t best = r.from + LEAST_PART;
    for (uint32_t at = best; at <= r.from + MOST_PART - LEAST_PART / 2; at++)
      if (p->crossing[at] <= p->crossing[best]) best = at;
    status = add_segment(p, r.from, best - r.from, 1);
    r.from = best;
  }
  return status == PZ_OK && r.to > r.from ? add_segment(p, r.from, r.to - r.from, 1) : status;
}

/* A part without repetition, branch by branch. */
static enum pz_status add_part(struct pz_onnx_plan *p, struct range r) {
  enum pz_status status = PZ_OK;
  while (r.from < r.to && status == PZ_OK) {
    uint32_t branch = branch_in(p, r);
    status = add_piece(p, (struct range){r.from, branch});
    r.from = branch;
  }
  return status;
}

static enum pz_status divide(struct pz_onnx_plan *p, struct range r, int *runs_left) {
  struct run run = {0};
  enum pz_status status = PZ_OK;
  if (r.to - r.from >= 4 && *runs_left > 0) status = find_run(p, r, &run);
  if (status != PZ_OK || run.reps < 2) return status == PZ_OK ? add_part(p, r) : status;
  --*runs_left;
  uint32_t end = run.start + run.reps * run.period;
  status = divide(p, (struct range){r.from, run.start}, runs_left);
  if (status == PZ_OK) status = add_segment(p, run.start, run.period, run.reps);
  return status == PZ_OK ? divide(p, (struct range){end, r.to}, runs_left) : status;
}

/* ---- by names ------------------------------------------------------------------------------- */

enum { LONGEST_REGEX = 256, LONGEST_MATCHED = 1024, MOST_REPEATED = 256 };

/* What in the expression could take the C library more than a moment, or NULL: it tries every way to
 * satisfy a back-reference, and compiles a copy for every repetition in an interval. */
static const char *costly(const char *regex) {
  long repeated = 1;
  bool class = false;
  if (strlen(regex) > LONGEST_REGEX) return "longer than 256 bytes";
  for (const char *c = regex; *c; c++) {
    if (*c == '[') class = true;
    if (*c == ']') class = false;
    if (class) continue; /* a backslash in it is one */
    if (*c == '\\' && c[1]) {
      if (*++c >= '1' && *c <= '9') return "a back-reference";
    } else if (*c == '{') {
      char *end;
      long least = strtol(c + 1, &end, 10), most = *end == ',' ? strtol(end + 1, &end, 10) : least;
      if (most < least) most = least;
      if (most > 1 && (most > MOST_REPEATED || (repeated *= most) > MOST_REPEATED))
        return "intervals with a product above 256";
    }
  }
  return NULL;
}

/* The text that a node's name has in the expression's first group, as a hash; 0: no match. */
static uint64_t key_of(const regex_t *re, const char *name) {
  regmatch_t m[2] = {{.rm_eo = (regoff_t)strnlen(name, LONGEST_MATCHED)}};
  if (regexec(re, name, 2, m, REG_STARTEND) != 0) return 0;
  int g = m[1].rm_so >= 0 ? 1 : 0;
  return mix(1, name + m[g].rm_so, (size_t)(m[g].rm_eo - m[g].rm_so)) | 1;
}

static enum pz_status segments_by_key(struct pz_onnx_plan *p, const uint64_t *key) {
  uint32_t from = 0;
  enum pz_status status = PZ_OK;
  for (uint32_t at = 1; at <= p->n && status == PZ_OK; at++) {
    if (at < p->n && key[at] == key[from]) continue;
    uint32_t n = at - from;
    struct pz_onnx_segment *last =
        p->segments.n ? pz_vec_at(&p->segments, struct pz_onnx_segment, p->segments.n - 1) : NULL;
    uint32_t reps = last && last->n == n ? (uint32_t)last->count + 1 : 0;
    bool same = reps && memcmp(&p->hash[from - n], &p->hash[from], n * sizeof *p->hash) == 0 &&
                wired(p, last->first, n, reps) == reps;
    if (same)
      last->count++;
    else
      status = add_segment(p, from, n, 1);
    from = at;
  }
  return status;
}

static enum pz_status by_names(struct pz_onnx_plan *p, const char *regex) {
  regex_t re;
  char why[128];
  const char *most = costly(regex);
  if (most)
    return pz_fail(
        p->g->err, PZ_BAD_USE,
        "--layers '%.100s': %s; accepted: a POSIX extended regular expression of at most "
        "256 bytes, without back-references, intervals with a product of at most 256",
        regex, most);
  int code = regcomp(&re, regex, REG_EXTENDED);
  if (code != 0) {
    regerror(code, &re, why, sizeof why);
    return pz_fail(p->g->err, PZ_BAD_USE,
                   "--layers '%.100s': %s; accepted: a POSIX extended regular expression", regex,
                   why);
  }
  uint64_t *key = pz_arena_alloc(p->arena, p->n, sizeof *key), before = 0;
  bool any = false;
  for (uint32_t at = 0; key && at < p->n; at++) {
    key[at] = key_of(&re, pz_onnx_node_name(p->g, pz_onnx_at(p, at)));
    any = any || key[at];
  }
  regfree(&re);
  if (!key) return pz_onnx_no_memory(p->g);
  if (!any)
    return pz_fail(p->g->err, PZ_BAD_USE, "--layers '%.100s' matches no node of %s", regex,
                   p->g->file);
  uint32_t last = p->n;
  while (last > 0 && !key[last - 1]) last--;
  /* what does not match inside a layer belongs to the one before */
  for (uint32_t at = 0; at < last; before = key[at++])
    if (!key[at]) key[at] = before;
  return segments_by_key(p, key);
}

/* ---- names and ends ------------------------------------------------------------------------- */

/* Goes over the places once and knows which values are alive. */
struct sweep {
  const struct pz_onnx_plan *p;
  struct pz_vec alive; /* values, in the order they were made */
  uint32_t at;
  uint32_t *reader; /* by value: the last segment, counted from 1, that reads it */
  enum pz_status status;
};

static void made_here(struct sweep *w, const struct pz_onnx_node *n) {
  for (uint32_t o = 0; o < n->n_out; o++) {
    uint32_t v = n->out[o];
    if (v == PZ_NONE || pz_onnx_value(w->p->g, v)->root != v) continue;
    if (pz_onnx_value(w->p->g, v)->role != PZ_ONNX_ACT || w->p->last_use[v] == PZ_NONE) continue;
    if (!pz_vec_push(&w->alive, &v)) w->status = pz_onnx_no_memory(w->p->g);
  }
}

/* Go on to a place; what nothing reads from there on is forgotten. */
static void sweep_to(struct sweep *w, uint32_t to) {
  uint32_t n = 0;
  for (; w->at < to && w->status == PZ_OK; w->at++) made_here(w, pz_onnx_at(w->p, w->at));
  for (uint32_t i = 0; i < w->alive.n; i++) {
    uint32_t v = *pz_vec_at(&w->alive, uint32_t, i);
    if (w->p->last_use[v] >= to) *pz_vec_at(&w->alive, uint32_t, n++) = v;
  }
  w->alive.n = n;
}

static void note_readers(struct sweep *w, const struct pz_onnx_segment *s, uint32_t id) {
  for (uint32_t at = s->first; at < s->first + s->n; at++) {
    const struct pz_onnx_node *n = pz_onnx_at(w->p, at);
    for (uint32_t k = 0; k < n->n_in; k++)
      if (n->in[k] != PZ_NONE) w->reader[pz_onnx_value(w->p->g, n->in[k])->root] = id;
  }
}

/* Of the values alive those that the segment reads or made from `made` on, the latest first; the
 * bytes of the others are added to *passing. */
static const uint32_t *pick(struct sweep *w, uint32_t id, uint32_t made, uint32_t *count,
                            int64_t *passing) {
  uint32_t *ids = pz_arena_alloc(w->p->arena, w->alive.n, sizeof *ids), n = 0;
  if (!ids) w->status = pz_onnx_no_memory(w->p->g);
  for (uint32_t i = w->alive.n; ids && i-- > 0;) {
    uint32_t v = *pz_vec_at(&w->alive, uint32_t, i);
    int64_t elems = 0;
    if (w->reader[v] == id || pz_onnx_made_at(w->p, v) >= made)
      ids[n++] = v;
    else if (pz_onnx_elems(pz_onnx_value(w->p->g, v), &elems) && pz_mul(&elems, 2) && passing)
      pz_add(passing, elems);
  }
  *count = n;
  return ids;
}

/* The segment that holds a place. */
static uint32_t segment_at(const struct pz_onnx_plan *p, uint32_t place) {
  uint32_t from = 0, to = p->segments.n;
  while (to - from > 1) {
    uint32_t middle = from + (to - from) / 2;
    if (pz_vec_at(&p->segments, struct pz_onnx_segment, middle)->first <= place)
      from = middle;
    else
      to = middle;
  }
  return from;
}

/* The segments that make what a segment reads. */
static enum pz_status find_sources(const struct pz_onnx_plan *p, struct pz_onnx_segment *s) {
  uint32_t *from = pz_arena_alloc(p->arena, s->n_in, sizeof *from), n = 0;
  if (!from) return pz_onnx_no_memory(p->g);
  for (uint32_t i = s->n_in; i-- > 0;) {
    uint32_t source = segment_at(p, pz_onnx_made_at(p, s->in[i]));
    if (n == 0 || from[n - 1] != source) from[n++] = source;
  }
  s->from = from;
  s->n_from = n;
  return PZ_OK;
}

static enum pz_status find_ends(struct sweep *w, struct pz_onnx_segment *s, uint32_t id) {
  sweep_to(w, s->first);
  note_readers(w, s, id);
  /* the last one takes all results to the loss */
  bool last = id == w->p->segments.n;
  s->in = pick(w, id, last ? 0 : PZ_NONE, &s->n_in, &s->passing_bytes);
  sweep_to(w, s->first + s->n);
  s->out = pick(w, id, last ? 0 : s->first, &s->n_out, NULL);
  return w->status == PZ_OK ? find_sources(w->p, s) : w->status;
}

static enum pz_status finish(struct pz_onnx_plan *p) {
  uint32_t n = p->segments.n, blocks = 0, parts = 0, n_blocks = 0;
  struct sweep w = {.p = p};
  pz_vec_init(&w.alive, p->arena, sizeof(uint32_t));
  w.reader = pz_arena_alloc(p->arena, p->g->values.n, sizeof *w.reader);
  if (!w.reader) return pz_onnx_no_memory(p->g);
  for (uint32_t i = 0; i < n; i++)
    n_blocks += pz_vec_at(&p->segments, struct pz_onnx_segment, i)->count > 1;
  for (uint32_t i = 0; i < n; i++) {
    struct pz_onnx_segment *s = pz_vec_at(&p->segments, struct pz_onnx_segment, i);
    if (s->count > 1 && n_blocks == 1)
      s->name = "block";
    else if (s->count > 1)
      s->name = pz_arena_printf(p->arena, "block-%u", ++blocks);
    else if (i == 0)
      s->name = n == 1 ? "model" : "first";
    else if (i + 1 == n)
      s->name = "last";
    else
      s->name = pz_arena_printf(p->arena, "part-%u", ++parts);
    if (!s->name) return pz_onnx_no_memory(p->g);
    enum pz_status status = find_ends(&w, s, i + 1);
    if (status != PZ_OK) return status;
  }
  return PZ_OK;
}

enum pz_status pz_onnx_plan_make(struct pz_onnx_plan *p, const struct pz_onnx_graph *g,
                                 struct pz_arena *arena, const char *regex) {
  *p = (struct pz_onnx_plan){.g = g, .arena = arena};
  pz_vec_init(&p->segments, arena, sizeof(struct pz_onnx_segment));
  enum pz_status status = pz_onnx_order_make(p);
  if (status != PZ_OK) return status;
  if (p->result == PZ_NONE || !p->n)
    return pz_fail(g->err, PZ_BAD_INPUT,
                   "%s: no output depends on a parameter; accepted: a model with trained weights "
                   "(initializers) and a floating-point output of known shape",
                   g->file);
  p->hash = pz_arena_alloc(arena, p->n, sizeof *p->hash);
  if (!p->hash) return pz_onnx_no_memory(p->g);
  for (uint32_t at = 0; at < p->n; at++) p->hash[at] = hash_of(p, at);
  int runs_left = MOST_RUNS;
  status = regex ? by_names(p, regex) : divide(p, (struct range){0, p->n}, &runs_left);
  /* a block that ends the model: the loss gets a layer of its own */
  if (status == PZ_OK &&
      pz_vec_at(&p->segments, struct pz_onnx_segment, p->segments.n - 1)->count > 1)
    status = add_segment(p, p->n, 0, 1);
  return status == PZ_OK ? finish(p) : status;
}
