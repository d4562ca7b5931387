/* Outcomes of boxes as bytes, which travel between ranks and are stored in run files.
 * pz_outcome_pack() and pz_outcome_unpack() have the same order of fields.  The bytes of a run file
 * may be damaged.  Therefore the reader checks every value, and pz_outcome_is_of() checks whether
 * the outcome belongs to its box. */
#include <string.h>

#include "search/state.h"

void pz_outcome_init(struct pz_outcome *outcome) {
  *outcome = (struct pz_outcome){.value = 0};
  pz_arena_init(&outcome->arena);
  pz_vec_init(&outcome->boxes, &outcome->arena, sizeof(struct pz_closed_box));
  pz_vec_init(&outcome->children, &outcome->arena, sizeof(struct pz_open_box));
  pz_vec_init(&outcome->known, &outcome->arena, sizeof(struct pz_found_step));
}

/* ---- writing -------------------------------------------------------------------------------- */

#define PACK(call, out, value) pz_buffer_add(call, out, (const char *)&(value), sizeof(value))

/* Writes a box. */
static void pack_box(struct pz_call *call, struct pz_buffer *out, const struct pz_box *box) {
  PACK(call, out, box->kind);
  PACK(call, out, box->lo);
  PACK(call, out, box->hi);
}

/* Writes an evaluation with its plan. */
static void pack_found_step(struct pz_call *call, struct pz_buffer *out,
                            const struct pz_found_step *step) {
  const struct pz_evaluation *evaluation = &step->evaluation;
  const struct pz_plan_record *plan = &evaluation->plan;
  uint8_t effort = (uint8_t)evaluation->effort, recompute = plan->recompute;
  PACK(call, out, step->chip_id);
  PACK(call, out, step->entry);
  PACK(call, out, effort);
  PACK(call, out, evaluation->step_s);
  PACK(call, out, evaluation->least_s);
  PACK(call, out, evaluation->dynamic_j);
  PACK(call, out, evaluation->n_open);
  PACK(call, out, plan->variant);
  PACK(call, out, recompute);
  PACK(call, out, plan->replicas);
  PACK(call, out, plan->n_stages);
  pz_buffer_add(call, out, (const char *)plan->layers, plan->n_stages * sizeof *plan->layers);
}

/* Appends outcome i of a round as bytes: the best chip, and lists of closed boxes, open boxes and
 * evaluations, each after its length.  ctx is the struct pz_driver. */
void pz_outcome_pack(struct pz_call *call, void *ctx, size_t i, struct pz_buffer *out) {
  const struct pz_outcome *outcome = &((const struct pz_driver *)ctx)->outcomes[i];
  const uint8_t version = 0; /* of this format */
  uint8_t priced = outcome->priced;
  PACK(call, out, version);
  PACK(call, out, priced);
  PACK(call, out, outcome->value);
  if (outcome->value > 0) pack_box(call, out, &outcome->candidate);
  PACK(call, out, outcome->boxes.n);
  for (uint32_t k = 0; k < outcome->boxes.n; k++) {
    const struct pz_closed_box *closed = pz_vec_at(&outcome->boxes, struct pz_closed_box, k);
    uint8_t end = (uint8_t)closed->end;
    pack_box(call, out, &closed->box);
    PACK(call, out, end);
    PACK(call, out, closed->bound);
    PACK(call, out, closed->value);
  }
  PACK(call, out, outcome->children.n);
  for (uint32_t k = 0; k < outcome->children.n; k++) {
    const struct pz_open_box *open = pz_vec_at(&outcome->children, struct pz_open_box, k);
    uint8_t effort = (uint8_t)open->effort;
    pack_box(call, out, &open->box);
    PACK(call, out, effort);
    PACK(call, out, open->bound);
    PACK(call, out, open->value);
  }
  PACK(call, out, outcome->known.n);
  for (uint32_t k = 0; k < outcome->known.n; k++)
    pack_found_step(call, out, pz_vec_at(&outcome->known, struct pz_found_step, k));
}

/* ---- reading -------------------------------------------------------------------------------- */

/* Raises PZ_BAD_INPUT unless `valid`, the result of a check of the read bytes. */
static void require_valid(struct pz_call *call, bool valid) {
  if (!valid) pz_raise(call, PZ_BAD_INPUT, "the bytes are not those of an outcome");
}

#define READ(call, in, value) require_valid(call, pz_bytes_read(in, &(value), sizeof(value)))

/* Reads a flag, a byte that is 0 or 1. */
static bool read_flag(struct pz_call *call, struct pz_bytes *input) {
  uint8_t flag;
  READ(call, input, flag);
  require_valid(call, flag <= 1);
  return flag;
}

/* Reads a time, a value or a bound, none of which is ever negative. */
static double read_real(struct pz_call *call, struct pz_bytes *input) {
  double real;
  READ(call, input, real);
  require_valid(call, real >= 0);
  return real;
}

/* Reads the effort of an evaluation. */
static enum pz_effort read_effort(struct pz_call *call, struct pz_bytes *input) {
  uint8_t effort;
  READ(call, input, effort);
  require_valid(call, effort == PZ_EFFORT_QUICK || effort == PZ_EFFORT_FULL);
  return (enum pz_effort)effort;
}

/* Reads a box that lies within the space. */
static struct pz_box read_box(struct pz_call *call, const struct pz_space *space,
                              struct pz_bytes *input) {
  struct pz_box box;
  memset(&box, 0, sizeof box);
  READ(call, input, box.kind);
  READ(call, input, box.lo);
  READ(call, input, box.hi);
  require_valid(call, box.kind < pz_space_kinds(space));
  for (enum pz_axis axis = 0; axis < PZ_AXES; axis++)
    require_valid(call, box.lo[axis] <= box.hi[axis] && box.hi[axis] < space->n[axis]);
  return box;
}

/* Reads an evaluation into the outcome, and checks its values. */
static void read_found_step(struct pz_call *call, const struct pz_search_question *question,
                            struct pz_bytes *input, struct pz_outcome *outcome) {
  struct pz_call in_outcome = pz_call_in(call, &outcome->arena);
  struct pz_found_step step;
  struct pz_evaluation *evaluation = &step.evaluation;
  struct pz_plan_record *plan = &evaluation->plan;
  memset(&step, 0, sizeof step);
  READ(call, input, step.chip_id);
  READ(call, input, step.entry);
  evaluation->effort = read_effort(call, input);
  evaluation->step_s = read_real(call, input);
  evaluation->least_s = read_real(call, input);
  evaluation->dynamic_j = read_real(call, input);
  READ(call, input, evaluation->n_open);
  READ(call, input, plan->variant);
  plan->recompute = read_flag(call, input);
  READ(call, input, plan->replicas);
  READ(call, input, plan->n_stages);
  size_t bytes = plan->n_stages * sizeof *plan->layers;
  require_valid(call, bytes <= input->left); /* check the size before allocating memory */
  uint16_t *layers = pz_alloc(&in_outcome, plan->n_stages, sizeof *layers);
  require_valid(call, pz_bytes_read(input, layers, bytes));
  plan->layers = layers;
  require_valid(call, step.entry < question->n_entries &&
                          evaluation->least_s <= evaluation->step_s &&
                          step.chip_id < (uint64_t)pz_space_chips(question->space));
  pz_append(call, &outcome->known, &step);
}

/* Reads outcome i of the struct pz_driver `ctx`, and raises PZ_BAD_INPUT for invalid bytes. */
void pz_outcome_unpack(struct pz_call *call, void *ctx, size_t i, struct pz_bytes *input) {
  struct pz_driver *driver = ctx;
  struct pz_outcome *outcome = &driver->outcomes[i];
  const struct pz_search_question *question = &driver->search->question;
  uint8_t version;
  uint32_t n;
  READ(call, input, version);
  require_valid(call, version == 0);
  outcome->priced = read_flag(call, input);
  outcome->value = read_real(call, input);
  if (outcome->value > 0) {
    outcome->candidate = read_box(call, question->space, input);
    require_valid(call, pz_box_is_chip(&outcome->candidate));
  }
  READ(call, input, n);
  for (uint32_t k = 0; k < n; k++) {
    uint8_t end;
    struct pz_closed_box closed = {.box = read_box(call, question->space, input)};
    READ(call, input, end);
    closed.bound = read_real(call, input);
    closed.value = read_real(call, input);
    require_valid(call, end < PZ_BOX_OPEN);
    closed.end = (enum pz_box_end)end;
    pz_append(call, &outcome->boxes, &closed);
  }
  READ(call, input, n);
  for (uint32_t k = 0; k < n; k++) {
    struct pz_open_box open = {.box = read_box(call, question->space, input)};
    open.effort = read_effort(call, input);
    open.bound = read_real(call, input);
    open.value = read_real(call, input);
    pz_append(call, &outcome->children, &open);
  }
  READ(call, input, n);
  for (uint32_t k = 0; k < n; k++) read_found_step(call, question, input, outcome);
}

/* Returns whether all chips of the inner box are in the outer one. */
static bool is_within(const struct pz_box *inner, const struct pz_box *outer) {
  if (inner->kind != outer->kind) return false;
  for (enum pz_axis axis = 0; axis < PZ_AXES; axis++)
    if (inner->lo[axis] < outer->lo[axis] || inner->hi[axis] > outer->hi[axis]) return false;
  return true;
}

/* Returns whether an outcome can belong to a box: all boxes of the outcome are within it, and with
 * `covers_box` have as many chips together as the box, otherwise none. */
bool pz_outcome_is_of(const struct pz_outcome *outcome, const struct pz_box *box, bool covers_box) {
  int64_t chips = 0;
  if (outcome->value > 0 && !is_within(&outcome->candidate, box)) return false;
  for (uint32_t k = 0; k < outcome->boxes.n; k++) {
    const struct pz_box *closed = &pz_vec_at(&outcome->boxes, struct pz_closed_box, k)->box;
    if (!is_within(closed, box)) return false;
    chips += pz_box_chips(closed);
  }
  for (uint32_t k = 0; k < outcome->children.n; k++) {
    const struct pz_open_box *open = pz_vec_at(&outcome->children, struct pz_open_box, k);
    if (!is_within(&open->box, box)) return false;
    /* only single chips are evaluated with full effort */
    if (open->effort != PZ_EFFORT_QUICK && !pz_box_is_chip(&open->box)) return false;
    chips += pz_box_chips(&open->box);
  }
  return chips == (covers_box ? pz_box_chips(box) : 0);
}
