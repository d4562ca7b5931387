/* Finding layers: the operators in order are divided into blocks that repeat and the parts around
 * them.
 *
 * Operators are compared by a hash of their type, attributes, shapes and roles, never of names.  A
 * block is the shortest period of this sequence that repeats at least twice with the same wiring,
 * in the run that covers the most operators.  The operators on both sides of a run are searched
 * again (divide_range), so that an encoder and a decoder, or the stages of a
 * convolutional network, are each found.  Alternatively, the user states layers by the names of
 * their nodes (divide_by_names).  Finally, the segments get names, inputs and outputs
 * (finish_segments). */
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/num.h"
#include "onnx/layering.h"

enum {
  MOST_CANDIDATES = 48, /* most periods that are tried */
  MOST_RUNS = 32,       /* most repeated blocks of a model */
  MOST_STARTS = 16,     /* most places that are tried as the start of a run */
  LEAST_PART = 12,      /* fewest operators of a segment that is cut off */
  MOST_PART = 40,       /* a part with more operators is cut into segments */
};

/* The operators at places [from, to) of the order. */
struct range {
  uint32_t from, to;
};

/* ---- hashes --------------------------------------------------------------------------------- */

/* Returns a hash with bytes mixed into it (FNV-1a). */
static uint64_t mix_bytes(uint64_t hash, const void *bytes, size_t n) {
  const unsigned char *byte = bytes;
  for (size_t i = 0; i < n; i++) hash = (hash ^ byte[i]) * UINT64_C(1099511628211);
  return hash;
}

/* Returns a hash with a number mixed into it, by a multiplication with 2^64 / golden ratio. */
static uint64_t mix_int(uint64_t hash, int64_t number) {
  hash ^= (uint64_t)number;
  hash *= UINT64_C(0x9E3779B97F4A7C15);
  return hash ^ (hash >> 29);
}

/* Returns a hash with the role, shape and first known integers of a value mixed into it. */
static uint64_t mix_value(uint64_t hash, const struct pz_onnx_value *value) {
  hash = mix_int(hash, value->role);
  hash = mix_int(hash, value->rank);
  for (int i = 0; i < value->rank; i++) hash = mix_int(hash, value->dim[i]);
  for (uint32_t i = 0; i < value->n_ints && i < 8; i++) hash = mix_int(hash, value->ints[i]);
  return hash;
}

/* Returns a hash that is equal for operators of the same kind: type, attributes, and roles and
 * shapes of inputs and results.  Among operators that share a weight, the first one owns it, so its
 * hash differs. */
static uint64_t hash_operator(const struct pz_onnx_layering *layering, uint32_t place) {
  const struct pz_onnx_node *node = pz_onnx_node(layering->graph, layering->order[place]);
  uint64_t hash = mix_bytes(UINT64_C(14695981039346656037), node->type, strlen(node->type));
  uint64_t attributes_hash = 0; /* a sum, because the order of attributes does not matter */
  for (size_t i = 0; i < node->n_attrs; i++) {
    const Onnx__AttributeProto *attribute = node->attrs[i];
    const char *name = attribute->name ? attribute->name : "";
    uint64_t own_hash = mix_bytes(1, name, strlen(name));
    if (attribute->has_i) own_hash = mix_int(own_hash, attribute->i);
    if (attribute->has_f) own_hash = mix_bytes(own_hash, &attribute->f, sizeof attribute->f);
    if (attribute->has_s) own_hash = mix_bytes(own_hash, attribute->s.data, attribute->s.len);
    for (size_t k = 0; k < attribute->n_ints; k++) own_hash = mix_int(own_hash, attribute->ints[k]);
    attributes_hash += own_hash;
  }
  hash = mix_int(hash, node->fused);
  if (node->fused < 0) hash = mix_int(hash, (int64_t)attributes_hash);
  for (uint32_t k = 0; k < node->n_in; k++) {
    const struct pz_onnx_value *value = pz_onnx_input(node, k);
    hash = value ? mix_value(hash, value) : mix_int(hash, -7); /* any number marks its absence */
    if (value && value->role == PZ_ONNX_PARAM)
      hash = mix_int(hash, pz_onnx_is_tied(layering, node->in[k], place, 1));
  }
  for (uint32_t j = 0; j < node->n_out; j++)
    if (node->out[j] != PZ_NONE)
      hash = mix_value(hash, pz_onnx_value(layering->graph, node->out[j]));
  return hash;
}

/* ---- candidate periods ---------------------------------------------------------------------- */

/* An operator, or a window of operators, by its hash. */
struct occurrence {
  uint64_t hash;
  uint32_t place;
};

/* Orders occurrences by hash, then by place (for qsort). */
static int compare_occurrences(const void *a, const void *b) {
  const struct occurrence *left = a, *right = b;
  if (left->hash != right->hash) return left->hash < right->hash ? -1 : 1;
  return (left->place > right->place) - (left->place < right->place);
}

/* Orders numbers ascending (for qsort). */
static int compare_numbers(const void *a, const void *b) {
  uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
  return (left > right) - (left < right);
}

/* A distance between successive equal sequences of operators, and how often it occurs. */
struct candidate {
  uint32_t period, times;
};

/* Orders candidates by descending frequency, then by period (for qsort). */
static int compare_candidates(const void *a, const void *b) {
  const struct candidate *left = a, *right = b;
  if (left->times != right->times) return left->times > right->times ? -1 : 1;
  return (left->period > right->period) - (left->period < right->period);
}

/* Lists candidates for the period of repeated blocks, the most frequent ones first, and returns
 * their number.  A candidate is the distance between two successive occurrences of the same
 * sequence of `window` operators.  Long sequences find the period of blocks that contain the same
 * operators often, and short ones find short blocks. */
static uint32_t list_candidates(struct pz_call *call, const struct pz_onnx_layering *layering,
                                struct range range, uint32_t window, struct candidate **list) {
  uint32_t n = range.to - range.from, n_distances = 0, n_candidates = 0;
  struct occurrence *occurrence = pz_alloc(call, n, sizeof *occurrence);
  uint32_t *distance = pz_alloc(call, n, sizeof *distance);
  struct candidate *candidate = pz_alloc(call, n, sizeof *candidate);
  for (uint32_t i = 0; i < n; i++) {
    uint32_t place = range.from + i;
    uint64_t hash = layering->hash[place];
    for (uint32_t k = 1; k < window && place + k < range.to; k++)
      hash = mix_int(hash, (int64_t)layering->hash[place + k]);
    occurrence[i] = (struct occurrence){hash, place};
  }
  qsort(occurrence, n, sizeof *occurrence, compare_occurrences);
  for (uint32_t i = 1; i < n; i++)
    if (occurrence[i].hash == occurrence[i - 1].hash)
      distance[n_distances++] = occurrence[i].place - occurrence[i - 1].place;
  qsort(distance, n_distances, sizeof *distance, compare_numbers);
  for (uint32_t i = 0; i < n_distances; i++) {
    bool is_new = n_candidates == 0 || candidate[n_candidates - 1].period != distance[i];
    if (is_new) candidate[n_candidates++] = (struct candidate){distance[i], 0};
    candidate[n_candidates - 1].times++;
  }
  qsort(candidate, n_candidates, sizeof *candidate, compare_candidates);
  *list = candidate;
  return n_candidates < MOST_CANDIDATES ? n_candidates : MOST_CANDIDATES;
}

/* ---- runs of equal blocks ------------------------------------------------------------------- */

/* `count` equal blocks of `period` operators each, from place `start` on. */
struct run {
  uint32_t start, period, count;
};

/* Returns the index of a value among the results of the node that produces it. */
static uint32_t result_index(const struct pz_onnx_layering *layering, uint32_t value) {
  const struct pz_onnx_node *node =
      pz_onnx_node(layering->graph, pz_onnx_value(layering->graph, value)->producer);
  for (uint32_t j = 0; j < node->n_out; j++)
    if (node->out[j] == value) return j;
  return PZ_NONE;
}

/* Returns whether the operators at `place` and one period later read corresponding values of their
 * instances of a block.  `start` begins the instance of the first operator, and is_first is
 * whether that instance is the first one of the run.
 *
 * A value from outside of the block is accepted if both operators read it, if both read hoisted
 * values with the same hash, or if the second operator reads it one instance later.  The first
 * instance may read anything in place of the values that the second one reads from the first. */
static bool has_same_wiring(const struct pz_onnx_layering *layering, uint32_t place,
                            uint32_t period, uint32_t start, bool is_first) {
  const struct pz_onnx_node *node = pz_onnx_node(layering->graph, layering->order[place]);
  const struct pz_onnx_node *later_node =
      pz_onnx_node(layering->graph, layering->order[place + period]);
  if (node->n_in != later_node->n_in) return false;
  for (uint32_t k = 0; k < node->n_in; k++) {
    const struct pz_onnx_value *value = pz_onnx_input(node, k);
    const struct pz_onnx_value *later = pz_onnx_input(later_node, k);
    if (!value && !later) continue;
    if (!value || !later || value->role != later->role) return false;
    if (value->role != PZ_ONNX_ACTIVATION) continue;
    uint32_t source_place = pz_onnx_produced_at(layering, value->root);
    uint32_t later_source_place = pz_onnx_produced_at(layering, later->root);
    if (source_place == PZ_NONE || later_source_place == PZ_NONE) return false;
    bool same_from_outside = value->root == later->root && source_place < start;
    bool both_hoisted = source_place < layering->n_hoisted &&
                        later_source_place < layering->n_hoisted &&
                        layering->hash[source_place] == layering->hash[later_source_place];
    if (same_from_outside || both_hoisted) continue;
    bool is_initial_carry = is_first && source_place < start;
    if (is_initial_carry) { /* the second operator must read a result of the first instance */
      if (later_source_place < start || later_source_place >= start + period) return false;
      continue;
    }
    if (later_source_place != source_place + period) return false;
    if (result_index(layering, value->root) != result_index(layering, later->root)) return false;
  }
  return true;
}

/* Returns how many consecutive instances of a block of `period` operators, from place `start` on
 * and at most `most`, read corresponding values (has_same_wiring).  It is at least 1. */
static uint32_t count_wired_alike(const struct pz_onnx_layering *layering, uint32_t start,
                                  uint32_t period, uint32_t most) {
  for (uint32_t count = 1; count < most; count++) {
    uint32_t instance = start + (count - 1) * period;
    for (uint32_t i = 0; i < period; i++)
      if (!has_same_wiring(layering, instance + i, period, instance, count == 1)) return count;
  }
  return most;
}

/* Returns whether n operators from place `start` on contain a product with a weight.  A repetition
 * without one is not worth a layer. */
static bool has_weights(const struct pz_onnx_layering *layering, uint32_t start, uint32_t n) {
  for (uint32_t place = start; place < start + n; place++) {
    const struct pz_onnx_node *node = pz_onnx_node(layering->graph, layering->order[place]);
    if (!(node->fused == PZ_OP_MATMUL || (node->fused < 0 && node->op->kind == PZ_OP_MATMUL)))
      continue;
    for (uint32_t k = 0; k < node->n_in; k++) {
      const struct pz_onnx_value *value = pz_onnx_input(node, k);
      if (value && value->role == PZ_ONNX_PARAM) return true;
    }
  }
  return false;
}

/* Chooses where the first instance of a block begins if operators [start, start + length) equal
 * those one period later.  Only places that the fewest values cross are tried, the last one first;
 * the one with the most instances wins. */
static struct run choose_start(const struct pz_onnx_layering *layering, uint32_t start,
                               uint32_t length, uint32_t period) {
  struct run best = {start, period, 0};
  uint32_t end = start + length + period; /* [start, end) has the period */
  uint32_t most = length / period + 1;    /* whole instances in [start, end) */
  uint32_t last = end - most * period;    /* last start from which so many instances fit */
  uint32_t fewest = layering->crossing[start], tries = 0;
  for (uint32_t place = start; place <= last; place++)
    if (layering->crossing[place] < fewest) fewest = layering->crossing[place];
  for (uint32_t i = 0; i <= last - start && tries < MOST_STARTS && best.count < most; i++) {
    uint32_t place = last - i;
    if (layering->crossing[place] != fewest) continue;
    uint32_t count = count_wired_alike(layering, place, period, most);
    if (count >= 2 && count > best.count) best = (struct run){place, period, count};
    tries++;
  }
  return best;
}

/* Replaces *best by the best run in the range whose blocks have `period` operators, if that run
 * covers more operators than *best, or equally many with a shorter period.
 *
 * Every operator of a run, except in its last block, has the hash of the operator one period later.
 * If this holds for `length` operators from `start` on, a run in them has at most
 * length / period + 1 blocks, so that the two blocks of the shortest run need length >= period. */
static void try_period(const struct pz_onnx_layering *layering, struct range range, uint32_t period,
                       struct run *best) {
  const uint64_t *hash = layering->hash;
  uint32_t start = range.from;
  while (start + period < range.to) {
    uint32_t length = 0;
    while (start + length + period < range.to &&
           hash[start + length] == hash[start + length + period])
      length++;
    uint64_t best_cover = (uint64_t)best->count * best->period;
    uint64_t least_cover = period < best->period ? best_cover : best_cover + 1;
    bool may_be_better =
        length >= period && (uint64_t)(length / period + 1) * period >= least_cover;
    if (may_be_better && has_weights(layering, start, period)) {
      struct run found = choose_start(layering, start, length, period);
      if (found.count >= 2 && (uint64_t)found.count * period >= least_cover) *best = found;
    }
    start += length + 1; /* operator start + length differs from the one a period later */
  }
}

/* ---- dividing into segments ----------------------------------------------------------------- */

/* Appends a segment of n operators from place `first` on, which repeats `count` times. */
static void add_segment(struct pz_call *call, struct pz_onnx_layering *layering, uint32_t first,
                        uint32_t n, int64_t count) {
  struct pz_onnx_segment segment = {.first = first, .n = n, .count = count};
  pz_append(call, &layering->segments, &segment);
}

/* Returns whether the operator at a place reads an activation that an operator before place `limit`
 * produces. */
static bool reads_before(const struct pz_onnx_layering *layering, uint32_t place, uint32_t limit) {
  const struct pz_onnx_node *node = pz_onnx_node(layering->graph, layering->order[place]);
  for (uint32_t k = 0; k < node->n_in; k++) {
    const struct pz_onnx_value *value = pz_onnx_input(node, k);
    if (value && value->role == PZ_ONNX_ACTIVATION &&
        pz_onnx_produced_at(layering, value->root) < limit)
      return true;
  }
  return false;
}

/* Adds segments for operators without repetition, branch by branch.  Long branches are cut where
 * the fewest values cross. */
static void add_part(struct pz_call *call, struct pz_onnx_layering *layering, struct range range) {
  while (range.from < range.to) {
    /* The branch ends before an operator that reads no activation, such as the embedding of a
     * decoder.  Until the branch has read a result of an earlier segment, such operators belong to
     * it. */
    uint32_t branch_end = range.from;
    for (bool reads_earlier = false; branch_end < range.to; branch_end++) {
      if (reads_earlier && !reads_before(layering, branch_end, branch_end)) break;
      reads_earlier = reads_earlier || reads_before(layering, branch_end, range.from);
    }
    while (branch_end - range.from > MOST_PART) {
      /* The last place that the fewest values cross; more than LEAST_PART / 2 operators remain. */
      uint32_t cut = range.from + LEAST_PART;
      for (uint32_t place = cut; place <= range.from + MOST_PART - LEAST_PART / 2; place++)
        if (layering->crossing[place] <= layering->crossing[cut]) cut = place;
      add_segment(call, layering, range.from, cut - range.from, 1);
      range.from = cut;
    }
    if (branch_end > range.from)
      add_segment(call, layering, range.from, branch_end - range.from, 1);
    range.from = branch_end;
  }
}

/* Divides a range of operators into segments: the run of equal blocks that covers the most
 * operators, and both sides of it recursively.  *runs_left limits the runs of a model. */
static void divide_range(struct pz_call *call, struct pz_onnx_layering *layering,
                         struct range range, int *runs_left) {
  static const uint32_t windows[] = {1, 16}; /* operators per compared sequence (list_candidates) */
  struct run run = {0};
  /* the shortest run has two blocks of two operators */
  bool may_repeat = range.to - range.from >= 4 && *runs_left > 0;
  for (int k = 0; k < 2 && may_repeat; k++) {
    struct pz_call work = pz_scratch(call);
    struct candidate *candidate;
    uint32_t n = list_candidates(&work, layering, range, windows[k], &candidate);
    for (uint32_t i = 0; i < n; i++)
      if (candidate[i].period > 1) try_period(layering, range, candidate[i].period, &run);
    pz_scratch_end(&work);
  }
  if (run.count < 2) {
    add_part(call, layering, range);
    return;
  }
  --*runs_left;
  divide_range(call, layering, (struct range){range.from, run.start}, runs_left);
  add_segment(call, layering, run.start, run.period, run.count);
  divide_range(call, layering, (struct range){run.start + run.count * run.period, range.to},
               runs_left);
}

/* ---- dividing by names ---------------------------------------------------------------------- */

enum {
  LONGEST_REGEX = 256,    /* most bytes of a regular expression */
  LONGEST_MATCHED = 1024, /* most bytes of a name that are matched */
  MOST_REPEATED = 256,    /* largest product of the upper limits of all intervals {least,most} */
};

/* Returns the part of a regular expression that could occupy the C library for a long time, or
 * NULL. The library tries every way to satisfy a back-reference, and compiles a copy for every
 * repetition in an interval. */
static const char *find_costly_part(const char *regex) {
  long repeated = 1;
  bool in_brackets = false;
  if (strlen(regex) > LONGEST_REGEX) return "longer than 256 bytes";
  for (const char *character = regex; *character; character++) {
    if (*character == '[') in_brackets = true;
    if (*character == ']') in_brackets = false;
    if (in_brackets) continue; /* in brackets, a backslash has no special meaning */
    if (*character == '\\' && character[1]) {
      character++;
      if (*character >= '1' && *character <= '9') return "a back-reference";
    } else if (*character == '{') {
      char *end;
      long least = strtol(character + 1, &end, 10), most = least;
      if (*end == ',') most = strtol(end + 1, &end, 10);
      if (most < least) most = least;
      if (most <= 1) continue;
      if (most <= MOST_REPEATED) repeated *= most;
      if (most > MOST_REPEATED || repeated > MOST_REPEATED)
        return "intervals with a product above 256";
    }
  }
  return NULL;
}

/* Frees a compiled expression when its call ends (a callback of pz_defer). */
static void free_regex(void *expression) { regfree(expression); }

/* Makes a segment of each sequence of operators with the same key (by place).  A sequence that
 * equals the segment before it, in its operators and in the values that they read, becomes another
 * repetition of that segment. */
static void divide_by_keys(struct pz_call *call, struct pz_onnx_layering *layering,
                           const uint64_t *key) {
  uint32_t from = 0;
  for (uint32_t place = 1; place <= layering->n; place++) {
    if (place < layering->n && key[place] == key[from]) continue;
    uint32_t n = place - from;
    struct pz_onnx_segment *last =
        layering->segments.n
            ? pz_vec_at(&layering->segments, struct pz_onnx_segment, layering->segments.n - 1)
            : NULL;
    /* The last repetition of the segment before ends at `from`.  Equal hashes mean equal operators,
     * but operators may still read other values than their counterparts. */
    bool repeats =
        last && last->n == n &&
        memcmp(&layering->hash[from - n], &layering->hash[from], n * sizeof *layering->hash) == 0;
    if (repeats) {
      uint32_t count = (uint32_t)last->count + 1;
      repeats = count_wired_alike(layering, last->first, n, count) == count;
    }
    if (repeats)
      last->count++;
    else
      add_segment(call, layering, from, n, 1);
    from = place;
  }
}

/* Divides the operators into segments by that part of their node names that a regular expression
 * matches. */
static void divide_by_names(struct pz_call *call, struct pz_onnx_layering *layering,
                            const char *regex) {
  const char *costly = find_costly_part(regex);
  if (costly)
    pz_raise(call, PZ_BAD_USE,
             "--layers '%.100s': %s; accepted: a POSIX extended regular expression of at most "
             "256 bytes, without back-references, intervals with a product of at most 256",
             regex, costly);
  regex_t *expression = pz_alloc(call, 1, sizeof *expression);
  int code = regcomp(expression, regex, REG_EXTENDED);
  if (code != 0) {
    char why[128];
    regerror(code, expression, why, sizeof why);
    pz_raise(call, PZ_BAD_USE,
             "--layers '%.100s': %s; accepted: a POSIX extended regular expression", regex, why);
  }
  pz_defer(call, free_regex, expression);
  uint64_t *key = pz_alloc(call, layering->n, sizeof *key);
  uint32_t n_keyed = 0; /* end of the last layer: one more than the last place that matches */
  for (uint32_t place = 0; place < layering->n; place++) {
    /* The key is a hash of the text that the first group matches, or else the expression. */
    const char *name = pz_onnx_node_name(pz_onnx_node(layering->graph, layering->order[place]));
    regmatch_t match[2] = {{.rm_eo = (regoff_t)strnlen(name, LONGEST_MATCHED)}};
    if (regexec(expression, name, 2, match, REG_STARTEND) != 0) continue;
    const regmatch_t *text = match[1].rm_so >= 0 ? &match[1] : &match[0];
    key[place] = mix_bytes(1, name + text->rm_so, (size_t)(text->rm_eo - text->rm_so)) | 1;
    n_keyed = place + 1;
  }
  pz_close(call, expression);
  if (!n_keyed)
    pz_raise(call, PZ_BAD_USE, "--layers '%.100s' matches no node of %s", regex,
             layering->graph->file);
  /* An operator inside of a layer that does not match belongs to the layer before. */
  for (uint32_t place = 1; place < n_keyed; place++)
    if (!key[place]) key[place] = key[place - 1];
  divide_by_keys(call, layering, key);
}

/* ---- names, inputs and outputs of segments -------------------------------------------------- */

/* A place in the order, and the activations that are alive there: those that are produced before
 * it and read at it or later. */
struct sweep {
  const struct pz_onnx_layering *layering;
  struct pz_vec live_values; /* indices of values, in the order in which they are produced */
  uint32_t place;
  /* By value: number of the last visited segment that reads it, from 1, or 0 if there is none. */
  uint32_t *last_reader;
};

/* Advances a sweep to a place: adds the values that are produced before it, and drops those that
 * are not read at it or later. */
static void sweep_to(struct pz_call *call, struct sweep *sweep, uint32_t to) {
  const struct pz_onnx_layering *layering = sweep->layering;
  for (; sweep->place < to; sweep->place++) {
    const struct pz_onnx_node *node = pz_onnx_node(layering->graph, layering->order[sweep->place]);
    for (uint32_t j = 0; j < node->n_out; j++) {
      const struct pz_onnx_value *value = pz_onnx_result(node, j);
      if (!value || value->root != node->out[j] || value->role != PZ_ONNX_ACTIVATION) continue;
      if (layering->last_use[value->root] != PZ_NONE)
        pz_append(call, &sweep->live_values, &value->root);
    }
  }
  uint32_t n = 0;
  for (uint32_t i = 0; i < sweep->live_values.n; i++) {
    uint32_t value = *pz_vec_at(&sweep->live_values, uint32_t, i);
    if (layering->last_use[value] >= to) *pz_vec_at(&sweep->live_values, uint32_t, n++) = value;
  }
  sweep->live_values.n = n;
}

/* Lists the live values that segment `id` reads or that are produced at produced_from or later,
 * the latest first.  The bytes of the other live values are added to *passing unless it is NULL. */
static const uint32_t *list_alive(struct pz_call *call, const struct sweep *sweep, uint32_t id,
                                  uint32_t produced_from, uint32_t *count, int64_t *passing) {
  uint32_t *ids = pz_alloc(call, sweep->live_values.n, sizeof *ids);
  *count = 0;
  for (uint32_t remaining = sweep->live_values.n; remaining > 0; remaining--) {
    uint32_t value = *pz_vec_at(&sweep->live_values, uint32_t, remaining - 1);
    int64_t bytes = 0;
    bool listed = sweep->last_reader[value] == id ||
                  pz_onnx_produced_at(sweep->layering, value) >= produced_from;
    if (listed)
      ids[(*count)++] = value;
    else if (passing &&
             pz_onnx_count_elements(pz_onnx_value(sweep->layering->graph, value), &bytes) &&
             pz_mul(&bytes, PZ_B16))
      pz_add(passing, bytes);
  }
  return ids;
}

/* Sets the inputs and outputs of a segment, and the segments that produce its inputs.  All live
 * results are inputs of the last segment of the model, because it computes the loss. */
static void connect_segment(struct pz_call *call, struct sweep *sweep,
                            struct pz_onnx_segment *segment, uint32_t id) {
  const struct pz_onnx_layering *layering = sweep->layering;
  /* The smallest place from which on live values are listed even if this segment does not read
   * them: none for inputs and its own results for outputs, but all live values if it is the
   * last. */
  bool is_last = id == layering->segments.n;
  uint32_t in_from = is_last ? 0 : PZ_NONE, out_from = is_last ? 0 : segment->first;
  sweep_to(call, sweep, segment->first);
  for (uint32_t place = segment->first; place < segment->first + segment->n; place++) {
    const struct pz_onnx_node *node = pz_onnx_node(layering->graph, layering->order[place]);
    for (uint32_t k = 0; k < node->n_in; k++) {
      const struct pz_onnx_value *value = pz_onnx_input(node, k);
      if (value) sweep->last_reader[value->root] = id;
    }
  }
  segment->in = list_alive(call, sweep, id, in_from, &segment->n_in, &segment->passing_bytes);
  sweep_to(call, sweep, segment->first + segment->n);
  segment->out = list_alive(call, sweep, id, out_from, &segment->n_out, NULL);
  /* Inputs are listed from the latest to the earliest, so their producers, visited in reverse, are
   * in ascending order, and equal ones are neighbours. */
  uint32_t *from = pz_alloc(call, segment->n_in, sizeof *from);
  for (uint32_t remaining = segment->n_in; remaining > 0; remaining--) {
    uint32_t source_place = pz_onnx_produced_at(layering, segment->in[remaining - 1]);
    uint32_t source = 0, end = layering->segments.n; /* the producing segment is in [source, end) */
    while (end - source > 1) {
      uint32_t middle = source + (end - source) / 2;
      if (pz_vec_at(&layering->segments, struct pz_onnx_segment, middle)->first <= source_place)
        source = middle;
      else
        end = middle;
    }
    if (segment->n_from == 0 || from[segment->n_from - 1] != source)
      from[segment->n_from++] = source;
  }
  segment->from = from;
}

/* Gives all segments their names, inputs and outputs. */
static void finish_segments(struct pz_call *call, struct pz_onnx_layering *layering) {
  uint32_t n = layering->segments.n, n_blocks = 0, block = 0, part = 0;
  struct sweep sweep = {.layering = layering};
  pz_vec_init(&sweep.live_values, call->arena, sizeof(uint32_t));
  sweep.last_reader = pz_alloc(call, layering->graph->values.n, sizeof *sweep.last_reader);
  for (uint32_t i = 0; i < n; i++)
    n_blocks += pz_vec_at(&layering->segments, struct pz_onnx_segment, i)->count > 1;
  for (uint32_t i = 0; i < n; i++) {
    struct pz_onnx_segment *segment = pz_vec_at(&layering->segments, struct pz_onnx_segment, i);
    if (segment->count > 1 && n_blocks == 1)
      segment->name = "block";
    else if (segment->count > 1)
      segment->name = pz_format(call, "block-%u", ++block);
    else if (i == 0)
      segment->name = n == 1 ? "model" : "first";
    else if (i + 1 == n)
      segment->name = "last";
    else
      segment->name = pz_format(call, "part-%u", ++part);
    connect_segment(call, &sweep, segment, i + 1);
  }
}

/* Orders the operators, and divides them into segments by repetition or by names of nodes. */
void pz_onnx_layering_make(struct pz_call *call, struct pz_onnx_layering *layering,
                           const struct pz_onnx_graph *graph, const char *regex) {
  *layering = (struct pz_onnx_layering){.graph = graph};
  pz_vec_init(&layering->segments, call->arena, sizeof(struct pz_onnx_segment));
  pz_onnx_order_make(call, layering);
  if (layering->result == PZ_NONE || !layering->n)
    pz_raise(call, PZ_BAD_INPUT,
             "%s: no output depends on a parameter; accepted: a model with trained weights "
             "(initializers) and a floating-point output of known shape",
             graph->file);
  layering->hash = pz_alloc(call, layering->n, sizeof *layering->hash);
  for (uint32_t place = 0; place < layering->n; place++)
    layering->hash[place] = hash_operator(layering, place);
  int runs_left = MOST_RUNS;
  if (regex)
    divide_by_names(call, layering, regex);
  else
    divide_range(call, layering, (struct range){0, layering->n}, &runs_left);
  /* If a block ends the model, the loss gets a layer of its own. */
  if (pz_vec_at(&layering->segments, struct pz_onnx_segment, layering->segments.n - 1)->count > 1)
    add_segment(call, layering, layering->n, 0, 1);
  finish_segments(call, layering);
}
