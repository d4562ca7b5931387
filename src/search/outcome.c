/* Outcomes of boxes as bytes: between ranks, and in run files. */
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

#define PUT(out, value) pz_buffer_append(out, (const char *)&(value), sizeof(value))

static void put_box(struct pz_buffer *out, const struct pz_box *b) {
  PUT(out, b->kind);
  PUT(out, b->lo);
  PUT(out, b->hi);
}

static void put_known(struct pz_buffer *out, const struct pz_found_step *k) {
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
    put_known(out, pz_vec_at(&x->known, struct pz_found_step, k));
}

/* ---- reading -------------------------------------------------------------------------------- */

/* PZ_BAD_INPUT where bytes are missing, or are not what pz_outcome_pack writes. */
#define GET(in, value) (pz_bytes_take(in, &(value), sizeof(value)) ? PZ_OK : PZ_BAD_INPUT)
#define NEED(call)                                                                                 \
  do {                                                                                             \
    enum pz_status need_status = (call);                                                           \
    if (need_status != PZ_OK) return need_status;                                                  \
  } while (0)

static enum pz_status is(bool good) { return good ? PZ_OK : PZ_BAD_INPUT; }

static enum pz_status push(struct pz_vec *v, const void *item) {
  return pz_vec_push(v, item) ? PZ_OK : PZ_NO_MEMORY;
}

static enum pz_status get_flag(struct pz_bytes *in, bool *out) {
  uint8_t flag = 0;
  NEED(GET(in, flag));
  *out = flag;
  return is(flag <= 1);
}

/* Times, values and bounds. */
static enum pz_status get_real(struct pz_bytes *in, double *out) {
  NEED(GET(in, *out));
  return is(*out >= 0);
}

/* A box of the space. */
static enum pz_status get_box(const struct pz_driver *d, struct pz_bytes *in, struct pz_box *b) {
  const struct pz_space *s = d->s->q.space;
  memset(b, 0, sizeof *b);
  NEED(GET(in, b->kind));
  NEED(GET(in, b->lo));
  NEED(GET(in, b->hi));
  bool good = b->kind < pz_space_kinds(s);
  for (enum pz_axis a = 0; a < PZ_AXES; a++)
    good = good && b->lo[a] <= b->hi[a] && b->hi[a] < s->n[a];
  return is(good);
}

static enum pz_status get_effort(struct pz_bytes *in, enum pz_effort *out) {
  uint8_t effort = 0;
  NEED(GET(in, effort));
  *out = (enum pz_effort)effort;
  return is(effort == PZ_EFFORT_QUICK || effort == PZ_EFFORT_FULL);
}

static enum pz_status get_layers(struct pz_bytes *in, struct pz_arena *arena,
                                 struct pz_plan_record *plan) {
  NEED(GET(in, plan->n_stages));
  size_t bytes = plan->n_stages * sizeof *plan->layers;
  NEED(is(bytes <= in->left));
  uint16_t *layers = pz_arena_alloc(arena, plan->n_stages, sizeof *layers);
  if (!layers) return PZ_NO_MEMORY;
  plan->layers = layers;
  return is(pz_bytes_take(in, layers, bytes));
}

static enum pz_status get_known(const struct pz_driver *d, struct pz_bytes *in,
                                struct pz_arena *arena, struct pz_found_step *k) {
  struct pz_plan_record *plan = &k->e.plan;
  memset(k, 0, sizeof *k);
  NEED(GET(in, k->id));
  NEED(GET(in, k->entry));
  NEED(get_effort(in, &k->e.effort));
  NEED(get_real(in, &k->e.step_s));
  NEED(get_real(in, &k->e.least_s));
  NEED(get_real(in, &k->e.dynamic_j));
  NEED(GET(in, k->e.n_open));
  NEED(GET(in, plan->variant));
  NEED(get_flag(in, &plan->recompute));
  NEED(GET(in, plan->d));
  NEED(get_layers(in, arena, plan));
  return is(k->entry < d->s->q.n_entries && k->e.least_s <= k->e.step_s &&
            k->id < (uint64_t)pz_space_chips(d->s->q.space));
}

static enum pz_status get_closed(const struct pz_driver *d, struct pz_bytes *in,
                                 struct pz_outcome *x) {
  struct pz_closed_box b = {.value = 0};
  uint8_t end = PZ_BOX_ENDS;
  NEED(get_box(d, in, &b.box));
  NEED(GET(in, end));
  NEED(get_real(in, &b.bound));
  NEED(get_real(in, &b.value));
  NEED(is(end < PZ_BOX_OPEN));
  b.end = (enum pz_box_end)end;
  return push(&x->boxes, &b);
}

static enum pz_status get_child(const struct pz_driver *d, struct pz_bytes *in,
                                struct pz_outcome *x) {
  struct pz_open_box b = {.value = 0};
  NEED(get_box(d, in, &b.box));
  NEED(get_effort(in, &b.effort));
  NEED(get_real(in, &b.bound));
  NEED(get_real(in, &b.value));
  return push(&x->children, &b);
}

static enum pz_status get_outcome(const struct pz_driver *d, struct pz_bytes *in,
                                  struct pz_outcome *x) {
  uint32_t n = 0;
  NEED(get_flag(in, &x->priced));
  NEED(get_real(in, &x->value));
  if (x->value > 0) NEED(get_box(d, in, &x->candidate));
  NEED(is(!(x->value > 0) || pz_box_is_chip(&x->candidate)));
  NEED(GET(in, n));
  for (; n; n--) NEED(get_closed(d, in, x));
  NEED(GET(in, n));
  for (; n; n--) NEED(get_child(d, in, x));
  NEED(GET(in, n));
  for (; n; n--) {
    struct pz_found_step k;
    NEED(get_known(d, in, &x->arena, &k));
    NEED(push(&x->known, &k));
  }
  return PZ_OK;
}

enum pz_status pz_outcome_unpack(void *ctx, size_t i, struct pz_bytes *in) {
  struct pz_driver *d = ctx;
  struct pz_outcome *x = &d->outcome[i];
  uint8_t status = 0;
  NEED(GET(in, status));
  NEED(is(status <= PZ_STOPPED));
  x->status = (enum pz_status)status;
  return x->status == PZ_OK ? get_outcome(d, in, x) : GET(in, x->err.message);
}

/* ---- checking ------------------------------------------------------------------------------- */

static bool inside(const struct pz_box *b, const struct pz_box *all) {
  bool in = b->kind == all->kind;
  for (enum pz_axis a = 0; a < PZ_AXES; a++)
    in = in && b->lo[a] >= all->lo[a] && b->hi[a] <= all->hi[a];
  return in;
}

bool pz_outcome_is_of(const struct pz_outcome *x, const struct pz_box *box, bool whole) {
  int64_t chips = 0;
  bool in = x->status == PZ_OK && (!(x->value > 0) || inside(&x->candidate, box));
  for (uint32_t k = 0; k < x->boxes.n && in; k++) {
    const struct pz_box *b = &pz_vec_at(&x->boxes, struct pz_closed_box, k)->box;
    in = inside(b, box);
    chips += pz_box_chips(b);
  }
  for (uint32_t k = 0; k < x->children.n && in; k++) {
    const struct pz_open_box *b = pz_vec_at(&x->children, struct pz_open_box, k);
    in = inside(&b->box, box) && (b->effort == PZ_EFFORT_QUICK || pz_box_is_chip(&b->box));
    chips += pz_box_chips(&b->box);
  }
  return in && chips == (whole ? pz_box_chips(box) : 0);
}
