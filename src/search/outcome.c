/* Outcomes of boxes as bytes: between ranks, and in run files. */
#include <string.h>

#include "search/state.h"

/* ---- writing -------------------------------------------------------------------------------- */

#define PUT(out, value) pz_buffer_append(out, (const char *)&(value), sizeof(value))

static void put_box(struct pz_buffer *out, const struct pz_box *b) {
  PUT(out, b->kind);
  PUT(out, b->lo);
  PUT(out, b->hi);
}

static void put_known(struct pz_buffer *out, const struct pz_known *k) {
  const struct pz_plan_record *plan = &k->e.plan;
  uint8_t effort = (uint8_t)k->e.effort, recompute = plan->recompute;
  PUT(out, k->id);
  PUT(out, k->entry);
  PUT(out, effort);
  PUT(out, k->e.step_s);
  PUT(out, k->e.least_s);
  PUT(out, k->e.dynamic_j);
  PUT(out, k->e.n_open);
  PUT(out, plan->variant);
  PUT(out, recompute);
  PUT(out, plan->d);
  PUT(out, plan->n_stages);
  pz_buffer_append(out, (const char *)plan->layers, plan->n_stages * sizeof *plan->layers);
}

void pz_outcome_pack(void *ctx, size_t i, struct pz_buffer *out) {
  const struct pz_outcome *x = &((const struct pz_driver *)ctx)->outcome[i];
  uint8_t status = (uint8_t)x->status, priced = x->priced;
  PUT(out, status);
  if (x->status != PZ_OK) {
    PUT(out, x->err.message);
    return;
  }
  PUT(out, priced);
  PUT(out, x->value);
  if (x->value > 0) put_box(out, &x->candidate);
  PUT(out, x->boxes.n);
  for (uint32_t k = 0; k < x->boxes.n; k++) {
    const struct pz_closed_box *b = pz_vec_at(&x->boxes, struct pz_closed_box, k);
    uint8_t end = (uint8_t)b->end;
    put_box(out, &b->box);
    PUT(out, end);
    PUT(out, b->bound);
    PUT(out, b->value);
  }
  PUT(out, x->children.n);
  for (uint32_t k = 0; k < x->children.n; k++) {
    const struct pz_open_box *b = pz_vec_at(&x->children, struct pz_open_box, k);
    uint8_t effort = (uint8_t)b->effort;
    put_box(out, &b->box);
    PUT(out, effort);
    PUT(out, b->bound);
    PUT(out, b->value);
  }
  PUT(out, x->known.n);
  for (uint32_t k = 0; k < x->known.n; k++)
    put_known(out, pz_vec_at(&x->known, struct pz_known, k));
}

/* ---- reading -------------------------------------------------------------------------------- */

#define GET(in, value) pz_bytes_take(in, &(value), sizeof(value))

/* A box of the space. */
static bool get_box(const struct pz_driver *d, struct pz_bytes *in, struct pz_box *b) {
  const struct pz_space *s = d->s->q.space;
  memset(b, 0, sizeof *b);
  if (!GET(in, b->kind) || !GET(in, b->lo) || !GET(in, b->hi)) return false;
  bool good = b->kind < pz_space_kinds(s);
  for (enum pz_axis a = 0; a < PZ_AXES; a++)
    good = good && b->lo[a] <= b->hi[a] && b->hi[a] < s->n[a];
  return good;
}

static bool get_effort(struct pz_bytes *in, enum pz_effort *out) {
  uint8_t effort = 0;
  bool good = GET(in, effort) && effort >= PZ_EFFORT_QUICK && effort <= PZ_EFFORT_FULL;
  *out = (enum pz_effort)effort;
  return good;
}

static bool get_known(const struct pz_driver *d, struct pz_bytes *in, struct pz_arena *arena,
                      struct pz_known *k) {
  struct pz_plan_record *plan = &k->e.plan;
  uint8_t recompute = 0;
  memset(k, 0, sizeof *k);
  bool good = GET(in, k->id) && GET(in, k->entry) && get_effort(in, &k->e.effort) &&
              GET(in, k->e.step_s) && GET(in, k->e.least_s) && GET(in, k->e.dynamic_j) &&
              GET(in, k->e.n_open) && GET(in, plan->variant) && GET(in, recompute) &&
              GET(in, plan->d) && GET(in, plan->n_stages);
  size_t bytes = good ? plan->n_stages * sizeof *plan->layers : 0;
  if (!good || bytes > in->left || k->entry >= d->s->q.n_entries ||
      k->id >= (uint64_t)pz_space_chips(d->s->q.space))
    return false;
  uint16_t *layers = pz_arena_alloc(arena, plan->n_stages, sizeof *layers);
  plan->layers = layers;
  plan->recompute = recompute;
  return layers && pz_bytes_take(in, layers, bytes);
}

static bool get_boxes(const struct pz_driver *d, struct pz_bytes *in, struct pz_outcome *x) {
  uint32_t n = 0;
  bool good = GET(in, n);
  for (; n && good; n--) {
    struct pz_closed_box b = {.value = 0};
    uint8_t end = PZ_BOX_ENDS;
    good = get_box(d, in, &b.box) && GET(in, end) && end < PZ_BOX_OPEN && GET(in, b.bound) &&
           GET(in, b.value);
    b.end = (enum pz_box_end)end;
    good = good && pz_vec_push(&x->boxes, &b);
  }
  return good;
}

static bool get_children(const struct pz_driver *d, struct pz_bytes *in, struct pz_outcome *x) {
  uint32_t n = 0;
  bool good = GET(in, n);
  for (; n && good; n--) {
    struct pz_open_box b = {.value = 0};
    good = get_box(d, in, &b.box) && get_effort(in, &b.effort) && GET(in, b.bound) &&
           GET(in, b.value) && pz_vec_push(&x->children, &b);
  }
  return good;
}

enum pz_status pz_outcome_unpack(void *ctx, size_t i, struct pz_bytes *in) {
  struct pz_driver *d = ctx;
  struct pz_outcome *x = &d->outcome[i];
  uint8_t status = 0, priced = 0;
  uint32_t n = 0;
  if (!GET(in, status) || status > PZ_STOPPED) return PZ_BAD_INPUT;
  x->status = (enum pz_status)status;
  if (x->status != PZ_OK) return GET(in, x->err.message) ? PZ_OK : PZ_BAD_INPUT;
  bool good = GET(in, priced) && GET(in, x->value);
  x->priced = priced;
  if (good && x->value > 0) good = get_box(d, in, &x->candidate) && pz_box_is_chip(&x->candidate);
  good = good && get_boxes(d, in, x) && get_children(d, in, x) && GET(in, n);
  for (; n && good; n--) {
    struct pz_known k;
    good = get_known(d, in, &x->arena, &k) && pz_vec_push(&x->known, &k);
  }
  return good ? PZ_OK : PZ_BAD_INPUT;
}
