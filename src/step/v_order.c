#include "step/v_order.h"

#include "core/num.h"

enum { NEAR = false, FAR = true };

struct list {
  struct pz_v_pass *pass;
  uint32_t n, microbatches;
  uint32_t forwards[2], backwards[2]; /* put or left out, by chunk */
  uint32_t waiting;                   /* no pass before it has gradients of weights to be found */
};

/* Passes of microbatches that there are not are left out. */
static void put_pass(struct list *l, enum pz_v_pass_kind kind, bool far, uint32_t microbatch) {
  if (microbatch < l->microbatches)
    l->pass[l->n++] =
        (struct pz_v_pass){.microbatch = microbatch, .kind = (uint8_t)kind, .far = far};
}

/* The chunk's next forward or backward, or the gradients of inputs of that. */
static void put(struct list *l, enum pz_v_pass_kind kind, bool far) {
  put_pass(l, kind, far, kind == PZ_V_FORWARD ? l->forwards[far]++ : l->backwards[far]++);
}

/* ---- ZB-V ----------------------------------------------------------------------------------- */

static void put_parts(struct list *l, bool far) {
  put(l, PZ_V_INPUTS, far);
  put_pass(l, PZ_V_WEIGHTS, far, l->backwards[far] - 1);
}

static void zb_v_forwards_first(struct list *l, uint32_t stage, uint32_t later) {
  for (uint32_t i = 0; i < 2 * later - 1; i++) put(l, PZ_V_FORWARD, NEAR);
  for (uint32_t i = 0; i < stage; i++) {
    put(l, PZ_V_FORWARD, FAR);
    put(l, PZ_V_FORWARD, NEAR);
  }
}

/* Gradients of weights that were left for the end. */
static void zb_v_weights_last(struct list *l, uint32_t stage, uint32_t all) {
  for (uint32_t i = all - stage; i < all; i++) put_pass(l, PZ_V_WEIGHTS, FAR, i);
  for (uint32_t i = all - stage; i < all; i++) put_pass(l, PZ_V_WEIGHTS, NEAR, i);
}

static void zb_v(struct list *l, uint32_t stages, uint32_t stage) {
  uint32_t later = stages - stage; /* and itself */
  uint32_t all = (uint32_t)pz_max(l->microbatches, 2 * (int64_t)stages - 1);
  zb_v_forwards_first(l, stage, later);
  for (uint32_t i = 0; i < later; i++) {
    put(l, PZ_V_FORWARD, FAR);
    put_parts(l, FAR);
  }
  while (l->forwards[FAR] < all) {
    if (l->forwards[NEAR] < all) put(l, PZ_V_FORWARD, NEAR);
    put_parts(l, NEAR);
    put(l, PZ_V_FORWARD, FAR);
    put_parts(l, FAR);
  }
  uint32_t weights = l->backwards[NEAR];
  for (uint32_t i = 0; i < stage; i++) {
    put(l, PZ_V_INPUTS, NEAR);
    put(l, PZ_V_INPUTS, FAR);
  }
  for (uint32_t i = 0; i < later; i++) {
    put(l, PZ_V_INPUTS, NEAR);
    put_pass(l, PZ_V_WEIGHTS, NEAR, weights++);
  }
  zb_v_weights_last(l, stage, all);
}

/* ---- DualPipe ------------------------------------------------------------------------------- */

/* A forward of one chunk beside a backward of the other one. */
static void put_pair(struct list *l, bool forward_far) {
  put(l, PZ_V_FORWARD, forward_far);
  l->pass[l->n - 1].with_next = true;
  put(l, PZ_V_BACKWARD, !forward_far);
}

/* Gradients of weights that wait longest. */
static void put_weights(struct list *l) {
  while (l->pass[l->waiting].kind != PZ_V_INPUTS) l->waiting++;
  const struct pz_v_pass *inputs = &l->pass[l->waiting++];
  put_pass(l, PZ_V_WEIGHTS, inputs->far, inputs->microbatch);
}

/* Backward passes when no forward is left; the second half of them leaves gradients of weights for the time in which
 * the stage would wait. */
static void put_last_backwards(struct list *l, uint32_t stage) {
  uint32_t n = 2 * (stage + 1);
  for (uint32_t i = 0; i < n; i++)
    put(l, i < stage + 1 ? PZ_V_BACKWARD : PZ_V_INPUTS, i % 2 ? NEAR : FAR);
}

static void dualpipe(struct list *l, uint32_t stages, uint32_t stage) {
  uint32_t later = stages - stage - 1, pairs = l->microbatches - 2 * stages + stage + 1;
  for (uint32_t i = 0; i < 2 * later; i++) put(l, PZ_V_FORWARD, NEAR);
  for (uint32_t i = 0; i < stage + 1; i++) {
    put(l, PZ_V_FORWARD, NEAR);
    put(l, PZ_V_FORWARD, FAR);
  }
  for (uint32_t i = 0; i < later; i++) {
    put(l, PZ_V_INPUTS, FAR);
    put_weights(l);
    put(l, PZ_V_FORWARD, FAR);
  }
  for (uint32_t i = 0; i < pairs; i++) {
    put_pair(l, NEAR);
    /* at the turn one after the other, so that the forward is passed on sooner */
    if (i == 0 && !later) l->pass[l->n - 2].with_next = false;
    put_pair(l, FAR);
  }
  for (uint32_t i = 0; i < later; i++) {
    put(l, PZ_V_BACKWARD, FAR);
    put_pair(l, FAR);
  }
  put_last_backwards(l, stage);
  for (uint32_t i = 0; i < later; i++) {
    put_weights(l);
    put(l, PZ_V_INPUTS, NEAR);
  }
  for (uint32_t i = 0; i < stage + 1; i++) put_weights(l);
}

uint32_t pz_v_order(enum pz_pipeline_order order, uint32_t stages, uint32_t stage,
                    uint32_t microbatches, struct pz_v_pass *out) {
  struct list l = {.pass = out, .microbatches = microbatches};
  if (order == PZ_PIPELINE_ZB_V)
    zb_v(&l, stages, stage);
  else
    dualpipe(&l, stages, stage);
  return l.n;
}
