/* Outcomes of boxes as bytes, which travel between ranks and are stored in run files.  pz_outcome_pack() and the read_
 * functions below have the same order of fields.  The bytes of a run file may be damaged.  Therefore the reader checks
 * every value, and pz_outcome_is_of() checks whether the outcome belongs to its box.
 *
 * pz_outcome_pack() may run inside an exchange of ranks and raises nothing: a failed buffer is noticed by its owner. */
#include <string.h>

#include "search/state.h"

void pz_outcome_begin(struct pz_outcome *x) {
  *x = (struct pz_outcome){.status = PZ_OK};
  pz_arena_init(&x->arena, NULL);
  pz_vec_init(&x->boxes, &x->arena, sizeof(struct pz_closed_box));
  pz_vec_init(&x->children, &x->arena, sizeof(struct pz_open_box));
  pz_vec_init(&x->known, &x->arena, sizeof(struct pz_found_step));
}

/* ---- writing -------------------------------------------------------------------------------- */

#define PACK(out, value) pz_buffer_append(out, (const char *)&(value), sizeof(value))

static void pack_box(struct pz_buffer *out, const struct pz_box *b) {
  PACK(out, b->kind);
  PACK(out, b->lo);
  PACK(out, b->hi);
}

static void pack_found_step(struct pz_buffer *out, const struct pz_found_step *k) {
  const struct pz_plan_record *plan = &k->e.plan;
  uint8_t effort = (uint8_t)k->e.effort, recompute = plan->recompute;
  PACK(out, k->id);
  PACK(out, k->entry);
  PACK(out, effort);
  PACK(out, k->e.step_s);
  PACK(out, k->e.least_s);
  PACK(out, k->e.dynamic_j);
  PACK(out, k->e.n_open);
  PACK(out, plan->variant);
  PACK(out, recompute);
  PACK(out, plan->d);
  PACK(out, plan->n_stages);
  pz_buffer_append(out, (const char *)plan->layers, plan->n_stages * sizeof *plan->layers);
}

void pz_outcome_pack(void *ctx, size_t i, struct pz_buffer *out) {
  const struct pz_outcome *x = &((const struct pz_driver *)ctx)->outcome[i];
  uint8_t status = (uint8_t)x->status, priced = x->priced;
  PACK(out, status);
  if (x->status != PZ_OK) {
    PACK(out, x->err.message);
    return;
  }
  PACK(out, priced);
  PACK(out, x->value);
  if (x->value > 0) pack_box(out, &x->candidate);
  PACK(out, x->boxes.n);
  for (uint32_t k = 0; k < x->boxes.n; k++) {
    const struct pz_closed_box *b = pz_vec_at(&x->boxes, struct pz_closed_box, k);
    uint8_t end = (uint8_t)b->end;
    pack_box(out, &b->box);
    PACK(out, end);
    PACK(out, b->bound);
    PACK(out, b->value);
  }
  PACK(out, x->children.n);
  for (uint32_t k = 0; k < x->children.n; k++) {
    const struct pz_open_box *b = pz_vec_at(&x->children, struct pz_open_box, k);
    uint8_t effort = (uint8_t)b->effort;
    pack_box(out, &b->box);
    PACK(out, effort);
    PACK(out, b->bound);
    PACK(out, b->value);
  }
  PACK(out, x->known.n);
  for (uint32_t k = 0; k < x->known.n; k++)
    pack_found_step(out, pz_vec_at(&x->known, struct pz_found_step, k));
}

/* ---- reading -------------------------------------------------------------------------------- */

static void require_valid(struct pz_call *call, bool valid) {
  if (!valid) pz_raise(call, PZ_BAD_INPUT, "the bytes are not those of an outcome");
}

static void read_bytes(struct pz_call *call, struct pz_bytes *in, void *out, size_t n) {
  require_valid(call, pz_bytes_take(in, out, n));
}

#define READ(call, in, value) read_bytes(call, in, &(value), sizeof(value))

static bool read_flag(struct pz_call *call, struct pz_bytes *in) {
  uint8_t flag;
  READ(call, in, flag);
  require_valid(call, flag <= 1);
  return flag;
}

/* Times, values and bounds are never negative. */
static double read_real(struct pz_call *call, struct pz_bytes *in) {
  double real;
  READ(call, in, real);
  require_valid(call, real >= 0);
  return real;
}

static enum pz_effort read_effort(struct pz_call *call, struct pz_bytes *in) {
  uint8_t effort;
  READ(call, in, effort);
  require_valid(call, effort == PZ_EFFORT_QUICK || effort == PZ_EFFORT_FULL);
  return (enum pz_effort)effort;
}

static struct pz_box read_box(struct pz_call *call, const struct pz_space *s, struct pz_bytes *in) {
  struct pz_box b;
  memset(&b, 0, sizeof b);
  READ(call, in, b.kind);
  READ(call, in, b.lo);
  READ(call, in, b.hi);
  require_valid(call, b.kind < pz_space_kinds(s));
  for (enum pz_axis a = 0; a < PZ_AXES; a++)
    require_valid(call, b.lo[a] <= b.hi[a] && b.hi[a] < s->n[a]);
  return b;
}

static void read_found_step(struct pz_call *call, const struct pz_search_question *q,
                            struct pz_bytes *in, struct pz_outcome *x) {
  struct pz_call in_outcome = pz_call_in(call, &x->arena);
  struct pz_found_step k;
  struct pz_plan_record *plan = &k.e.plan;
  memset(&k, 0, sizeof k);
  READ(call, in, k.id);
  READ(call, in, k.entry);
  k.e.effort = read_effort(call, in);
  k.e.step_s = read_real(call, in);
  k.e.least_s = read_real(call, in);
  k.e.dynamic_j = read_real(call, in);
  READ(call, in, k.e.n_open);
  READ(call, in, plan->variant);
  plan->recompute = read_flag(call, in);
  READ(call, in, plan->d);
  READ(call, in, plan->n_stages);
  size_t bytes = plan->n_stages * sizeof *plan->layers;
  require_valid(call, bytes <= in->left); /* before memory is allocated for them */
  uint16_t *layers = pz_alloc(&in_outcome, plan->n_stages, sizeof *layers);
  read_bytes(call, in, layers, bytes);
  plan->layers = layers;
  require_valid(call, k.entry < q->n_entries && k.e.least_s <= k.e.step_s &&
                          k.id < (uint64_t)pz_space_chips(q->space));
  pz_append(call, &x->known, &k);
}

struct unpacking {
  struct pz_driver *d;
  struct pz_outcome *x;
  struct pz_bytes *in;
};

static void read_outcome(struct pz_call *call, void *ctx) {
  const struct unpacking *u = ctx;
  const struct pz_search_question *q = &u->d->s->q;
  struct pz_outcome *x = u->x;
  struct pz_bytes *in = u->in;
  uint8_t status;
  uint32_t n;
  READ(call, in, status);
  require_valid(call, status <= PZ_STOPPED);
  x->status = (enum pz_status)status;
  if (x->status != PZ_OK) {
    READ(call, in, x->err.message);
    return;
  }
  x->priced = read_flag(call, in);
  x->value = read_real(call, in);
  if (x->value > 0) {
    x->candidate = read_box(call, q->space, in);
    require_valid(call, pz_box_is_chip(&x->candidate));
  }
  READ(call, in, n);
  for (uint32_t i = 0; i < n; i++) {
    uint8_t end;
    struct pz_closed_box b = {.box = read_box(call, q->space, in)};
    READ(call, in, end);
    b.bound = read_real(call, in);
    b.value = read_real(call, in);
    require_valid(call, end < PZ_BOX_OPEN);
    b.end = (enum pz_box_end)end;
    pz_append(call, &x->boxes, &b);
  }
  READ(call, in, n);
  for (uint32_t i = 0; i < n; i++) {
    struct pz_open_box b = {.box = read_box(call, q->space, in)};
    b.effort = read_effort(call, in);
    b.bound = read_real(call, in);
    b.value = read_real(call, in);
    pz_append(call, &x->children, &b);
  }
  READ(call, in, n);
  for (uint32_t i = 0; i < n; i++) read_found_step(call, q, in, x);
}

/* Called inside an exchange of ranks, so that it has a border of its own. */
enum pz_status pz_outcome_unpack(void *ctx, size_t i, struct pz_bytes *in) {
  struct pz_driver *d = ctx;
  struct unpacking u = {d, &d->outcome[i], in};
  return pz_border(read_outcome, &u, NULL);
}

/* ---- checking ------------------------------------------------------------------------------- */

static bool is_within(const struct pz_box *b, const struct pz_box *outer) {
  if (b->kind != outer->kind) return false;
  for (enum pz_axis a = 0; a < PZ_AXES; a++)
    if (b->lo[a] < outer->lo[a] || b->hi[a] > outer->hi[a]) return false;
  return true;
}

bool pz_outcome_is_of(const struct pz_outcome *x, const struct pz_box *box, bool whole) {
  int64_t chips = 0;
  if (x->status != PZ_OK) return false;
  if (x->value > 0 && !is_within(&x->candidate, box)) return false;
  for (uint32_t k = 0; k < x->boxes.n; k++) {
    const struct pz_box *b = &pz_vec_at(&x->boxes, struct pz_closed_box, k)->box;
    if (!is_within(b, box)) return false;
    chips += pz_box_chips(b);
  }
  for (uint32_t k = 0; k < x->children.n; k++) {
    const struct pz_open_box *b = pz_vec_at(&x->children, struct pz_open_box, k);
    if (!is_within(&b->box, box)) return false;
    if (b->effort != PZ_EFFORT_QUICK && !pz_box_is_chip(&b->box)) return false;
    chips += pz_box_chips(&b->box);
  }
  return chips == (whole ? pz_box_chips(box) : 0);
}
