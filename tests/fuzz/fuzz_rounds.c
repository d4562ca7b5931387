/* The bytes of a round of a search: any are refused, or an outcome within the space that is written as it was read.  And
 * one that is said to be of a box closes as many chips as this has. */
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "search/state.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(bool ok) {
  if (!ok) abort();
}

static void check_box(const struct pz_space *s, const struct pz_box *b) {
  require(b->kind < pz_space_kinds(s));
  for (enum pz_axis a = 0; a < PZ_AXES; a++) require(b->lo[a] <= b->hi[a] && b->hi[a] < s->n[a]);
}

static void check(const struct pz_driver *d, const struct pz_outcome *x) {
  const struct pz_space *s = d->s->q.space;
  struct pz_box all = pz_box_all(s, 0);
  int64_t chips = 0;
  if (x->status != PZ_OK) return;
  require(x->value >= 0);
  for (uint32_t i = 0; i < x->boxes.n; i++) {
    const struct pz_closed_box *b = pz_vec_at(&x->boxes, struct pz_closed_box, i);
    check_box(s, &b->box);
    require(b->end < PZ_BOX_OPEN && b->bound >= 0 && b->value >= 0);
    chips += pz_box_chips(&b->box);
  }
  for (uint32_t i = 0; i < x->children.n; i++) {
    const struct pz_open_box *b = pz_vec_at(&x->children, struct pz_open_box, i);
    check_box(s, &b->box);
    require(b->effort != PZ_EFFORT_NONE && b->effort <= PZ_EFFORT_FULL && b->bound >= 0);
    chips += pz_box_chips(&b->box);
  }
  for (uint32_t i = 0; i < x->known.n; i++) {
    const struct pz_found_step *k = pz_vec_at(&x->known, struct pz_found_step, i);
    require(k->id < (uint64_t)pz_space_chips(s) && k->entry < d->s->q.n_entries);
    require(k->e.least_s <= k->e.step_s && k->e.least_s >= 0);
    for (uint32_t n = 0; n < k->e.plan.n_stages; n++) (void)k->e.plan.layers[n];
  }
  if (pz_outcome_is_of(x, &all, true)) require(chips == pz_box_chips(&all));
  if (pz_outcome_is_of(x, &all, false)) require(!x->boxes.n && !x->children.n);
}

/* Outcomes one after another, as a round has them. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  static struct pz_space two = {
      .name = "two",
      .n_nodes = 1,
      .node = {PZ_TECH_5NM},
      .n_arrays = 2,
      .array = {{16, 16}, {32, 32}},
      .n_hbm = 1,
      .n = {2, 1, 3, 1, 1, 1, 1, 1, 1},
      .value = {{1, 2}, {64}, {1, 2, 4}, {16}, {4}, {64}, {1000}, {1}, {10}}};
  static struct pz_driver d;
  struct pz_search s = {.q = {.space = &two, .n_entries = 2}};
  struct pz_bytes in = {(const char *)data, bytes};
  d.s = &s;
  while (in.left) {
    struct pz_outcome *x = &d.outcome[0];
    struct pz_buffer again = {0};
    const char *from = in.at;
    pz_outcome_begin(x);
    enum pz_status status = pz_outcome_unpack(&d, 0, &in);
    require(status == PZ_OK || status == PZ_BAD_INPUT);
    if (status == PZ_OK) {
      check(&d, x);
      pz_outcome_pack(&d, 0, &again);
      require(!again.failed && again.bytes == (size_t)(in.at - from));
      require(memcmp(again.text, from, again.bytes) == 0);
    }
    pz_free(again.text);
    pz_arena_release(&x->arena);
    if (status != PZ_OK) break;
  }
  return 0;
}
