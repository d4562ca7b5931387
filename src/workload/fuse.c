#include "workload/passes.h"

#include <stdio.h>
#include <string.h>

#include "core/num.h"

enum { MOST_MEMBERS = 12, LONGEST_NAME = 120 };

struct group {
  uint32_t member[MOST_MEMBERS];
  uint32_t n;
};

struct fuse {
  struct pz_graph *g;
  enum pz_direction dir;
  enum pz_kernels kernels;
  uint32_t *uses;      /* by tensor: consumers in this direction */
  uint32_t *maker;     /* by tensor: operator of this direction that made it, or PZ_NONE */
  bool *kept;          /* by tensor: read by the other direction, or leaves the layer */
  struct group *group; /* by operator: valid at its last member */
};

static const struct pz_op *op_at(const struct fuse *f, uint32_t i) {
  return pz_graph_op(f->g, f->dir, i);
}

static void count_uses(const struct pz_graph *g, enum pz_direction dir, uint32_t *uses) {
  for (uint32_t i = 0; i < g->ops[dir].n; i++) {
    const struct pz_op *op = pz_graph_op(g, dir, i);
    for (uint32_t k = 0; k < op->n_in; k++) uses[op->in[k]]++;
  }
}

/* May the operator at the end of a group pass its result on inside a fused operator? */
static bool can_lead(const struct fuse *f, uint32_t i) {
  const struct pz_op *op = op_at(f, i);
  bool product = op->op_class == PZ_CLASS_TENSOR && f->kernels == PZ_KERNELS_FUSED;
  bool chain = op->op_class == PZ_CLASS_VECTOR && pz_op_info(op->kind)->elementwise;
  if (!(product || chain || op->kind == PZ_OP_SOFTMAX) || f->uses[op->out[0]] != 1 ||
      f->group[i].n >= MOST_MEMBERS)
    return false;
  for (uint32_t o = 1; o < op->n_out; o++)
    if (f->uses[op->out[o]]) return false;
  return true;
}

/* May operator i be computed by the kernel of m, of whose result it alone makes use? */
static bool can_follow(const struct fuse *f, uint32_t i, uint32_t m) {
  const struct pz_op *op = op_at(f, i), *maker = op_at(f, m);
  bool softmax = op->kind == PZ_OP_SOFTMAX || maker->kind == PZ_OP_SOFTMAX;
  bool scale = op->kind == PZ_OP_SCALE_MASK || maker->kind == PZ_OP_SCALE_MASK;
  if (softmax) return scale && f->kernels != PZ_KERNELS_FUSED;
  return f->kernels != PZ_KERNELS_MODULES && pz_op_info(op->kind)->elementwise;
}

/* The group that operator i should join: a matrix product's rather than a vector operator's. */
static uint32_t leader_of(const struct fuse *f, uint32_t i) {
  const struct pz_op *op = op_at(f, i);
  uint32_t best = PZ_NONE;
  if (op->op_class != PZ_CLASS_VECTOR) return PZ_NONE;
  int64_t elems = pz_graph_tensor(f->g, op->out[0])->elems;
  for (uint32_t k = 0; k < op->n_in; k++) {
    uint32_t m = f->maker[op->in[k]];
    if (m == PZ_NONE || op_at(f, m)->out[0] != op->in[k]) continue;
    if (pz_graph_tensor(f->g, op->in[k])->elems != elems || !can_lead(f, m) || !can_follow(f, i, m))
      continue;
    if (best == PZ_NONE || (op_at(f, f->group[m].member[0])->op_class == PZ_CLASS_TENSOR &&
                            op_at(f, f->group[best].member[0])->op_class != PZ_CLASS_TENSOR))
      best = m;
  }
  return best;
}

static void form_groups(struct fuse *f) {
  for (uint32_t i = 0; i < f->g->ops[f->dir].n; i++) {
    uint32_t leader = leader_of(f, i);
    if (leader != PZ_NONE) {
      f->group[i] = f->group[leader];
      f->group[leader].n = 0;
    }
    f->group[i].member[f->group[i].n++] = i;
  }
}

static bool inside(const struct fuse *f, const struct group *grp, uint32_t t) {
  uint32_t m = f->maker[t];
  for (uint32_t k = 0; k < grp->n && m != PZ_NONE; k++)
    if (grp->member[k] == m) return true;
  return false;
}

static bool append(struct pz_vec *v, uint32_t id) {
  for (uint32_t i = 0; i < v->n; i++)
    if (*pz_vec_at(v, uint32_t, i) == id) return true;
  return pz_vec_push(v, &id) != NULL;
}

/* Inputs from outside; results that leave the group or are kept, the last member's first. */
static bool collect(const struct fuse *f, const struct group *grp, struct pz_op *fused) {
  struct pz_vec in, out;
  pz_vec_init(&in, f->g->arena, sizeof(uint32_t));
  pz_vec_init(&out, f->g->arena, sizeof(uint32_t));
  uint32_t last = grp->member[grp->n - 1];
  bool ok = append(&out, op_at(f, last)->out[0]);
  for (uint32_t k = 0; k < grp->n; k++) {
    const struct pz_op *op = op_at(f, grp->member[k]);
    for (uint32_t i = 0; i < op->n_in; i++)
      if (!inside(f, grp, op->in[i])) ok = ok && append(&in, op->in[i]);
    for (uint32_t o = 0; o < op->n_out; o++) {
      bool leaves = grp->member[k] == last && f->uses[op->out[o]] > 0;
      if (leaves || f->kept[op->out[o]]) ok = ok && append(&out, op->out[o]);
    }
  }
  fused->in = in.items;
  fused->n_in = in.n;
  fused->out = out.items;
  fused->n_out = out.n;
  return ok;
}

static bool describe(const struct fuse *f, const struct group *grp, struct pz_op *fused) {
  char name[LONGEST_NAME];
  struct pz_tail *tail = pz_arena_alloc(f->g->arena, grp->n - 1, sizeof *tail);
  int used = snprintf(name, sizeof name, "%s", fused->name);
  if (!tail) return false;
  for (uint32_t k = 1; k < grp->n; k++) {
    const struct pz_op *op = op_at(f, grp->member[k]);
    tail[k - 1] = (struct pz_tail){op->kind, op->direction,
                                   pz_graph_tensor(f->g, op->out[0])->elems, op->replicated};
    if (!pz_add(&fused->flop, op->flop)) return false;
    if (used > 0 && (size_t)used < sizeof name)
      used += snprintf(name + used, sizeof name - (size_t)used, "+%s", op->name);
  }
  fused->name = pz_arena_strdup(f->g->arena, name);
  fused->tail = tail;
  fused->n_tail = grp->n - 1;
  return fused->name != NULL;
}

static enum pz_status rewrite(struct fuse *f) {
  struct pz_vec ops;
  pz_vec_init(&ops, f->g->arena, sizeof(struct pz_op));
  for (uint32_t i = 0; i < f->g->ops[f->dir].n; i++) {
    const struct group *grp = &f->group[i];
    if (grp->n == 0) continue;
    struct pz_op fused = *op_at(f, grp->member[0]);
    if (grp->n > 1) {
      if (!collect(f, grp, &fused) || !describe(f, grp, &fused)) return PZ_NO_MEMORY;
      if (fused.op_class == PZ_CLASS_TENSOR) fused.op_class = PZ_CLASS_FUSED;
    }
    if (!pz_vec_push(&ops, &fused)) return PZ_NO_MEMORY;
  }
  f->g->ops[f->dir] = ops;
  return PZ_OK;
}

static enum pz_status fuse_direction(struct pz_graph *g, enum pz_direction dir,
                                     enum pz_kernels kernels, const bool *kept) {
  uint32_t n_t = g->tensors.n, n_op = g->ops[dir].n;
  struct fuse f = {.g = g, .dir = dir, .kernels = kernels};
  f.uses = pz_arena_alloc(g->arena, n_t, sizeof *f.uses);
  f.maker = pz_arena_alloc(g->arena, n_t, sizeof *f.maker);
  f.kept = pz_arena_alloc(g->arena, n_t, sizeof *f.kept);
  f.group = pz_arena_alloc(g->arena, n_op, sizeof *f.group);
  if (!f.uses || !f.maker || !f.kept || !f.group) return PZ_NO_MEMORY;
  memcpy(f.kept, kept, n_t * sizeof *kept);
  for (uint32_t t = 0; t < n_t; t++) f.maker[t] = PZ_NONE;
  for (uint32_t i = 0; i < n_op; i++)
    for (uint32_t o = 0; o < op_at(&f, i)->n_out; o++) f.maker[op_at(&f, i)->out[o]] = i;
  count_uses(g, dir, f.uses);
  if (dir == PZ_FORWARD) {
    f.uses[g->output] += 1;
    for (uint32_t i = 0; i < g->n_also_out; i++) f.uses[g->also_out[i]] += 1;
  }
  form_groups(&f);
  return rewrite(&f);
}

/* What each direction must write although nothing in it reads it: forward, what backward reads;
 * backward, gradients of parameters and of the layer's input, which nothing consumes. */
enum pz_status pz_fuse(struct pz_graph *g, enum pz_kernels kernels) {
  uint32_t n = g->tensors.n;
  uint32_t *uses = pz_arena_alloc(g->arena, n, sizeof *uses);
  bool *kept = pz_arena_alloc(g->arena, n, sizeof *kept);
  if (!uses || !kept) return PZ_NO_MEMORY;
  count_uses(g, PZ_BACKWARD, uses);
  for (uint32_t t = 0; t < n; t++) kept[t] = uses[t] > 0 || pz_graph_leaves(g, t);
  enum pz_status status = fuse_direction(g, PZ_FORWARD, kernels, kept);
  if (status != PZ_OK) return status;
  for (uint32_t t = 0; t < n; t++)
    kept[t] = uses[t] == 0 && pz_graph_tensor(g, t)->role == PZ_ROLE_GRAD;
  return fuse_direction(g, PZ_BACKWARD, kernels, kept);
}
