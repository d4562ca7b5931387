/* Passes of layers as schedules: the exact search against the ILP and brute force, a checker that knows the question
 * alone, bounds, two halves of a microbatch. */
#include "unit/search_borders.h"
#include "unit/testing.h"

#include <math.h>
#include <stdio.h>

#include "chip/chip.h"
#include "plan/plan_fill.h"
#include "space/space.h"
#include "step/pass_schedule.h"
#include "step/step_model.h"
#include "step_borders.h"
#include "unit/plan_borders.h"
#include "unit/schedule_calls.h"
#include "workload/op.h"

static uint64_t seed = 5;

static uint32_t draw(uint32_t n) { return pz_random_below(&seed, n); }

static double draw_s(void) { return 1e-6 * (1 + draw(1000)); }

/* ---- small random passes --------------------------------------------------------------------- */

enum { OPS = 7 };

struct part {
  struct pz_ops ops;
  struct pz_op op[OPS];
  struct pz_op_run run[OPS];
  uint32_t pred[OPS][OPS];
  char name[OPS][8];
  bool which[OPS];
};

struct pass {
  struct pz_cost cost;
  struct pz_pass_power power;
  struct part again, pass;
  struct pz_pass_question q;
};

/* A chip of the space `modern` whose buffers hold tiles; without a limit, within some watts, or as if it were measured. */
static struct pz_chip draw_chip(void) {
  struct pz_space s;
  struct pz_point at = {0};
  struct pz_chip c;
  assert_int_equal(pz_space_load("modern", &s, NULL), PZ_OK);
  s.cold = draw(5) > 0;
  do {
    at.kind = draw(pz_space_kinds(&s));
    for (enum pz_axis a = 0; a < PZ_AXES; a++) at.at[a] = (uint8_t)draw((uint32_t)s.n[a]);
    pz_space_chip(&s, &at, &c);
  } while (c.tensor.local_bytes < pz_chip_least_local_bytes(&c));
  if (draw(2)) c.watts = pz_pass_power_of(&c).idle_watts + 20 + draw(400);
  return c;
}

static void draw_work(const struct pz_chip *c, struct pz_op_run *r) {
  struct pz_work *w = &r->work;
  bool product = r->kind != PZ_RUN_ELEMENTWISE;
  if (product) w->array_s = draw_s();
  if (!product || draw(2)) w->lane_s = draw_s();
  if (draw(3)) w->hbm_s = draw_s();
  if (draw(2)) w->glb_s = draw_s();
  if (draw(4) == 0) w->startup_s = draw_s() / 10;
  if (product) w->array_s = fmax(w->array_s, w->glb_s);
  if (r->kind == PZ_RUN_ATTENTION) w->lane_s = w->array_s;
  w->core_s = fmax(fmax(w->array_s, w->lane_s), w->glb_s);
  w->core_j = (20 + draw(300)) * w->core_s;
  w->outside_j = w->hbm_s * pz_chip_hbm_bytes_per_s(c) * pz_tech_at(c->tech)->hbm_j;
}

static void draw_op(struct pass *x, struct part *p, uint32_t i) {
  static const struct {
    enum pz_op_class op_class;
    int kind;
    unsigned run;
  } kinds[] = {{PZ_CLASS_TENSOR, PZ_OP_MATMUL, PZ_RUN_GEMM},
               {PZ_CLASS_FUSED, PZ_OP_MATMUL, PZ_RUN_GEMM},
               {PZ_CLASS_VECTOR, PZ_OP_DISPATCH, PZ_RUN_GEMM},
               {PZ_CLASS_VECTOR, PZ_OP_ADD, PZ_RUN_ELEMENTWISE},
               {PZ_CLASS_FUSED, PZ_OP_ATTENTION, PZ_RUN_ATTENTION},
               {PZ_CLASS_COLLECTIVE, PZ_OP_ALL_GATHER, PZ_RUN_LINK},
               {PZ_CLASS_COLLECTIVE, PZ_OP_ALL_REDUCE, PZ_RUN_LINK},
               {PZ_CLASS_NONE, PZ_OP_ADD, PZ_RUN_NONE}};
  uint32_t k = draw(sizeof kinds / sizeof *kinds);
  struct pz_op_run *r = &p->run[i];
  struct pz_op *op = &p->op[i];
  snprintf(p->name[i], sizeof p->name[i], "op%u", i);
  *op = (struct pz_op){
      .name = p->name[i], .kind = kinds[k].kind, .op_class = kinds[k].op_class, .pred = p->pred[i]};
  for (uint32_t b = 0; b < i; b++)
    if (draw(3) == 0) p->pred[i][op->n_pred++] = b;
  *r = (struct pz_op_run){.calls = 1};
  r->kind = kinds[k].run;
  p->which[i] = draw(3) > 0;
  if (r->kind == PZ_RUN_NONE) return;
  if (r->kind == PZ_RUN_LINK) {
    r->s = draw_s();
    r->work.outside_j = 1e-3;
    r->streamed = draw(2);
    return;
  }
  if (draw(4) == 0) r->calls = 1 + draw(30) / 10.0;
  if (r->kind == PZ_RUN_GEMM && draw(4) == 0) r->cast_s = draw_s() / 4;
  if (r->kind == PZ_RUN_ATTENTION && draw(2)) r->merge_s = draw_s() / 4;
  draw_work(&x->cost.chip, r);
  r->s = r->calls * (r->work.startup_s + fmax(r->work.core_s, r->work.hbm_s)) + r->merge_s;
  pz_run_add_bytes(&x->power, &x->cost.chip, 0, r);
  if (x->power.room_watts > 0) pz_run_levels(&x->power, draw(2), r);
}

static void draw_part(struct pass *x, struct part *p, uint32_t n, struct pz_pass_part *out) {
  for (uint32_t i = 0; i < n; i++) draw_op(x, p, i);
  p->ops = (struct pz_ops){p->op, n};
  *out = (struct pz_pass_part){&p->ops, p->run, NULL, draw(2) ? draw_s() : 0, 1e-3};
}

static void draw_pass(struct pass *x) {
  struct pz_chip chip = draw_chip();
  int chains = draw(3) ? 1 : 2;
  bool again = draw(3) == 0;
  uint32_t most = chains == 2 || again ? 4 : OPS;
  *x = (struct pass){.power = pz_pass_power_of(&chip)};
  pz_cost_init(&x->cost, &chip, NULL);
  x->q = (struct pz_pass_question){.cost = &x->cost, .chains = chains};
  draw_part(x, &x->pass, (chains == 2 ? 2 : 3) + draw(most - 2), &x->q.pass);
  if (!again) return;
  draw_part(x, &x->again, 1 + draw(2), &x->q.again);
  x->q.again.which = x->again.which;
}

/* ---- the checker: what a schedule has to be, from the question -------------------------------- */

struct seen {
  const struct pass *x;
  const struct pz_problem *p;
  const struct pz_schedule *s;
  double slack;
  uint32_t n;   /* tasks that were looked for and found */
  double end_s; /* of all that were found of a part and chain */
};

/* The one task of this name, its length at least so long, its use of resources what its work asks for. */
static const struct pz_slot *find_task(struct seen *k, const char *what, const char *name,
                                       const struct pz_pass_part *part, int chain) {
  char text[40];
  uint32_t at = PZ_NONE;
  bool again = part == &k->x->q.again;
  snprintf(text, sizeof text, "%s%s%s%s", again ? "again " : "", what, name,
           k->x->q.chains == 1 ? ""
           : chain             ? " (2)"
                               : " (1)");
  for (uint32_t i = 0; i < k->p->n; i++) {
    if (k->p->tasks[i].op_class == PZ_CLASS_NONE || strcmp(k->p->tasks[i].name, text) != 0)
      continue;
    if (at != PZ_NONE) fail_msg("%s is there twice", text);
    at = i;
  }
  if (at == PZ_NONE) fail_msg("%s is missing", text);
  k->n++;
  k->end_s = fmax(k->end_s, k->s->slots[at].end);
  return &k->s->slots[at];
}

static const struct pz_mode *mode_of(const struct seen *k, const struct pz_slot *s) {
  return &k->p->tasks[s - k->s->slots].modes[s->mode];
}

static void check_from(const struct seen *k, const struct pz_slot *s, double ready,
                       double least_s) {
  const struct pz_mode *m = mode_of(k, s);
  if (!(s->start >= ready - k->slack && fabs(s->end - s->start - m->duration) <= k->slack &&
        m->duration >= least_s - k->slack))
    fail_msg("%s from %.12g to %.12g: it may begin at %.12g and takes %.12g, alone %.12g",
             k->p->tasks[s - k->s->slots].name, s->start, s->end, ready, m->duration, least_s);
}

/* An operator on cores holds what its work asks for in the time that it takes. */
static void check_work(const struct seen *k, const struct pz_slot *s, const struct pz_op *op,
                       const struct pz_op_run *r, bool reads) {
  const struct pz_chip *c = &k->x->cost.chip;
  const struct pz_mode *m = mode_of(k, s);
  bool tensor = op->op_class != PZ_CLASS_VECTOR || r->kind == PZ_RUN_GEMM;
  double all = (double)c->vector.cores;
  assert_int_equal(m->use[PZ_TENSOR_CORES], tensor ? c->tensor.cores : 0);
  assert_int_equal(m->use[PZ_LINK], reads);
  if (r->kind == PZ_RUN_ATTENTION) assert_int_equal(m->use[PZ_VECTOR_CORES], all);
  assert_true(r->calls * r->work.lane_s * all <=
              m->use[PZ_VECTOR_CORES] * m->duration * (1 + 1e-9));
  assert_true((r->calls * r->work.hbm_s + r->merge_s) * PZ_RATE_PARTS <=
              m->use[PZ_HBM_RATE] * m->duration * (1 + 1e-9));
  assert_true(r->calls * r->work.glb_s * PZ_RATE_PARTS <=
              m->use[PZ_GLB_RATE] * m->duration * (1 + 1e-9));
  if (k->x->power.room_watts > 0)
    assert_true(m->energy_j * PZ_RATE_PARTS <=
                m->use[PZ_POWER] * m->duration * k->x->power.room_watts * (1 + 1e-9));
}

/* The operator that reads what a collective gathers as it arrives: the first that reads it, if that is a GEMM and reads no
 * other so. */
static uint32_t reader_of(const struct pz_pass_part *p, uint32_t gather) {
  if (p->runs[gather].kind != PZ_RUN_LINK || !p->runs[gather].streamed) return PZ_NONE;
  if (p->which && !p->which[gather]) return PZ_NONE;
  for (uint32_t i = gather + 1; i < p->ops->n; i++)
    for (uint32_t k = 0; k < p->ops->op[i].n_pred; k++) {
      if (p->ops->op[i].pred[k] != gather || (p->which && !p->which[i])) continue;
      if (p->runs[i].kind != PZ_RUN_GEMM) return PZ_NONE;
      for (uint32_t b = 0; b < gather; b++)
        if (reader_of(p, b) == i) return PZ_NONE;
      return i;
    }
  return PZ_NONE;
}

/* Every operator once, after all that it reads; the end of all. */
static double check_part(struct seen *k, const struct pz_pass_part *p, int chain, double begin) {
  double done[OPS] = {0},
         arrives[OPS] = {0}; /* its result, whole; for who reads it as it arrives */
  k->end_s = begin;
  for (uint32_t i = 0; i < p->ops->n; i++) {
    const struct pz_op *op = &p->ops->op[i];
    const struct pz_op_run *r = &p->runs[i];
    double ready = begin;
    bool reads = false;
    if (p->which && !p->which[i]) continue;
    for (uint32_t b = 0; b < op->n_pred; b++) {
      uint32_t from = op->pred[b];
      bool arriving = reader_of(p, from) == i;
      reads |= arriving;
      if (!p->which || p->which[from]) ready = fmax(ready, arriving ? arrives[from] : done[from]);
    }
    done[i] = ready;
    if (r->kind == PZ_RUN_LINK) {
      uint32_t reader = reader_of(p, i);
      double s = r->s - (reader == PZ_NONE ? 0 : p->runs[reader].s);
      if (s > 0) {
        const struct pz_slot *slot = find_task(k, "", op->name, p, chain);
        check_from(k, slot, ready, s);
        const struct pz_mode *m = mode_of(k, slot);
        double watts_s = m->use[PZ_POWER] > 0 ? m->energy_j * PZ_RATE_PARTS /
                                                    (m->use[PZ_POWER] * k->x->power.room_watts)
                                              : 0;
        assert_int_equal(m->use[PZ_LINK], 1);
        assert_true(m->duration <= fmax(s, watts_s) + k->slack);
        assert_true(fabs(m->energy_j - r->work.outside_j * s / r->s) <= 1e-9 * m->energy_j);
        done[i] = slot->end;
      }
      arrives[i] = done[i];
      if (reader != PZ_NONE) {
        done[i] = find_task(k, "", p->ops->op[reader].name, p, chain)->end;
        k->n--; /* it counts when its turn comes */
      }
      continue;
    }
    if (r->kind == PZ_RUN_NONE) continue;
    if (r->cast_s > 0) {
      const struct pz_slot *cast = find_task(k, "cast ", op->name, p, chain);
      check_from(k, cast, ready, r->cast_s);
      ready = cast->end;
    }
    const struct pz_slot *run = find_task(k, "", op->name, p, chain);
    check_from(k, run, ready, r->s);
    check_work(k, run, op, r, reads);
    if (op->kind == PZ_OP_ATTENTION && p->ring_s > 0) {
      const struct pz_slot *ring = find_task(k, "ring ", op->name, p, chain);
      check_from(k, ring, done[i], p->ring_s);
      assert_int_equal(mode_of(k, ring)->use[PZ_LINK], 1);
      done[i] = ring->end;
    }
    done[i] = fmax(done[i], run->end);
  }
  return k->end_s;
}

/* At no start of a task more of anything is held than there is. */
static void check_capacities(const struct seen *k) {
  const struct pz_chip *c = &k->x->cost.chip;
  const double most[PZ_RESOURCES] = {
      (double)c->tensor.cores, (double)c->vector.cores, 1,
      PZ_RATE_PARTS,           PZ_RATE_PARTS,           PZ_RATE_PARTS};
  for (uint32_t i = 0; i < k->p->n; i++) {
    double at = k->s->slots[i].start + k->slack, used[PZ_RESOURCES] = {0}, watts = 0;
    for (uint32_t b = 0; b < k->p->n; b++) {
      const struct pz_slot *s = &k->s->slots[b];
      const struct pz_mode *m = mode_of(k, s);
      if (!(s->start <= at && at < s->end - k->slack)) continue;
      for (int r = 0; r < PZ_RESOURCES; r++) used[r] += m->use[r];
      if (m->duration > 0) watts += m->energy_j / m->duration;
    }
    for (int r = 0; r < PZ_RESOURCES; r++) assert_true(used[r] <= most[r]);
    if (k->x->power.room_watts > 0) assert_true(watts <= k->x->power.room_watts * (1 + 1e-6));
  }
}

static void check_schedule(const struct pass *x, const struct pz_problem *p,
                           const struct pz_schedule *s) {
  struct seen k = {.x = x, .p = p, .s = s, .slack = 1e-9 * s->makespan};
  uint32_t n = 0;
  double last = 0;
  for (int chain = 0; chain < x->q.chains; chain++) {
    double begin = x->q.again.ops ? check_part(&k, &x->q.again, chain, 0) : 0;
    last = fmax(last, check_part(&k, &x->q.pass, chain, begin));
  }
  for (uint32_t i = 0; i < p->n; i++) n += p->tasks[i].op_class != PZ_CLASS_NONE;
  assert_int_equal(n, k.n);
  assert_true(fabs(last - s->makespan) <= k.slack);
  check_capacities(&k);
}

/* ---- brute force ----------------------------------------------------------------------------- */

/* Active schedules: every task in turn, in every order that precedence allows and in every mode, as early as it fits. */
enum { MOST_TASKS = 64, MOST_NODES = 100000 };

struct brute {
  const struct pz_problem *p;
  struct pz_slot slots[MOST_TASKS];
  bool placed[MOST_TASKS];
  uint32_t n_placed;
  double tail[MOST_TASKS]; /* the least time from a task's end to that of all */
  double best;
  int64_t nodes;
};

static bool fits_from(const struct brute *b, const struct pz_mode *m, double start) {
  double end = start + m->duration;
  for (uint32_t i = 0; i <= b->p->n; i++) { /* when it starts, and when another does meanwhile */
    int64_t used[PZ_RESOURCES] = {0};
    double at = i < b->p->n ? b->slots[i].start : start;
    if ((i < b->p->n && !b->placed[i]) || at < start || at >= end) continue;
    for (uint32_t k = 0; k < b->p->n; k++) {
      const struct pz_slot *s = &b->slots[k];
      for (int r = 0; r < PZ_RESOURCES && b->placed[k] && s->start <= at && at < s->end; r++)
        used[r] += b->p->tasks[k].modes[s->mode].use[r];
    }
    for (int r = 0; r < PZ_RESOURCES; r++)
      if (used[r] + m->use[r] > b->p->capacity[r]) return false;
  }
  return true;
}

static double earliest(const struct brute *b, const struct pz_mode *m, double ready) {
  double best = HUGE_VAL;
  if (fits_from(b, m, ready)) return ready;
  for (uint32_t i = 0; i < b->p->n; i++)
    if (b->placed[i] && b->slots[i].end > ready && b->slots[i].end < best &&
        fits_from(b, m, b->slots[i].end))
      best = b->slots[i].end;
  return best;
}

static void brute_from(struct brute *b, double last) {
  if (++b->nodes > MOST_NODES) return;
  if (b->n_placed == b->p->n) {
    b->best = last;
    return;
  }
  for (uint32_t i = 0; i < b->p->n; i++) {
    const struct pz_task *t = &b->p->tasks[i];
    double ready = 0;
    bool can = !b->placed[i];
    for (uint32_t k = 0; k < t->n_pred && can; k++) {
      can = b->placed[t->pred[k]];
      ready = fmax(ready, b->slots[t->pred[k]].end);
    }
    if (!can) continue;
    for (uint32_t m = 0; m < t->n_modes; m++) {
      if (ready + t->modes[m].duration + b->tail[i] >= b->best) continue;
      double start = earliest(b, &t->modes[m], ready), end = start + t->modes[m].duration;
      if (end + b->tail[i] >= b->best) continue;
      b->slots[i] = (struct pz_slot){start, end, m};
      b->placed[i] = true;
      b->n_placed++;
      brute_from(b, fmax(last, end));
      b->n_placed--;
      b->placed[i] = false;
    }
    if (t->n_modes == 1 && !(t->modes[0].duration > 0))
      return; /* a milestone: nothing is better before it */
  }
}

/* Nothing is shorter than what was found, and brute force finds that too; false: too many orders. */
static bool brute_force_agrees(const struct pz_problem *p, double found) {
  struct brute b = {.p = p, .best = found * (1 + 1e-6)};
  assert_true(p->n <= MOST_TASKS);
  for (uint32_t i = p->n; i-- > 0;)
    for (uint32_t k = 0; k < p->tasks[i].n_succ; k++) {
      const struct pz_task *t = &p->tasks[p->tasks[i].succ[k]];
      double s = HUGE_VAL;
      for (uint32_t m = 0; m < t->n_modes; m++) s = fmin(s, t->modes[m].duration);
      b.tail[i] = fmax(b.tail[i], s + b.tail[p->tasks[i].succ[k]]);
    }
  brute_from(&b, 0);
  if (b.nodes > MOST_NODES) return false;
  if (fabs(b.best - found) > 1e-9 * found)
    fail_msg("exact search %.12g, brute force %.12g", found, b.best);
  return true;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static struct pz_schedule solve(const struct pz_problem *p, enum pz_solver solver,
                                struct pz_arena *arena) {
  struct pz_solve_options o = {.solver = solver};
  struct pz_schedule s;
  struct pz_error err = {0};
  if (pz_schedule_solve(p, &o, arena, &s, &err) != PZ_OK) fail_msg("%s", err.message);
  assert_int_equal(s.outcome, PZ_OUTCOME_OPTIMAL);
  return s;
}

static void exact_is_ilp_is_brute_force(void **state) {
  enum { ILP_TASKS = 5 }; /* with more it takes seconds where there are many modes */
  int forced = 0, by_ilp = 0, n = pz_test_part(200);
  (void)state;
  for (int round = 0; round < n; round++) {
    struct pass x;
    struct pz_arena arena;
    struct pz_problem p;
    struct pz_error err = {0};
    double bound = 0;
    pz_arena_init(&arena);
    draw_pass(&x);
    if (try_pass_problem(&x.q, &arena, &p, &err) != PZ_OK) fail_msg("%s", err.message);
    struct pz_schedule exact = solve(&p, PZ_SOLVER_EXACT, &arena);
    check_schedule(&x, &p, &exact);
    assert_int_equal(try_pass_bound_s(&x.q, &bound, &err), PZ_OK);
    if (!(bound <= exact.makespan * (1 + 1e-9) &&
          exact.makespan <= pz_problem_serial(&p) * (1 + 1e-9)))
      fail_msg("round %d: bound %.12g, %.12g, one after another %.12g", round, bound,
               exact.makespan, pz_problem_serial(&p));
    forced += brute_force_agrees(&p, exact.makespan);
    if (p.n <= ILP_TASKS) {
      double ilp = solve(&p, PZ_SOLVER_ILP, &arena).makespan;
      if (fabs(exact.makespan - ilp) > 1e-9 * ilp)
        fail_msg("round %d: exact search %.12g, ILP %.12g", round, exact.makespan, ilp);
      by_ilp++;
    }
    pz_cost_release(&x.cost);
    pz_arena_release(&arena);
  }
  assert_true(forced > n / 2 && by_ilp > n / 4);
}

/* ---- answers by hand --------------------------------------------------------------------------- */

/* GEMMs and collectives in turn, each GEMM behind the collective before it. */
struct turns {
  const char *about;
  double s[4]; /* GEMM, collective, GEMM, collective; 0: none */
  bool gathers;
  double one, two; /* chains */
};

static double solve_turns(const struct turns *t, int chains, double *bound) {
  struct pass x = {.cost = {.chip = {.cold = false}}};
  struct pz_pass_schedule s;
  struct pz_error err = {0};
  uint32_t n = 0;
  x.cost.chip.tensor.cores = x.cost.chip.vector.cores = 4;
  for (uint32_t i = 0; i < 4; i++) {
    if (!(t->s[i] > 0)) continue;
    bool link = i % 2;
    x.pass.op[n] = (struct pz_op){.name = "op",
                                  .op_class = link ? PZ_CLASS_COLLECTIVE : PZ_CLASS_TENSOR,
                                  .kind = link ? PZ_OP_ALL_GATHER : PZ_OP_MATMUL,
                                  .pred = x.pass.pred[n],
                                  .n_pred = n > 0};
    if (n) x.pass.pred[n][0] = n - 1;
    x.pass.run[n] = (struct pz_op_run){.calls = 1, .s = t->s[i], .streamed = t->gathers};
    x.pass.run[n].kind = link ? PZ_RUN_LINK : PZ_RUN_GEMM;
    x.pass.run[n].work.array_s = x.pass.run[n].work.core_s = link ? 0 : t->s[i];
    n++;
  }
  x.pass.ops = (struct pz_ops){x.pass.op, n};
  x.q = (struct pz_pass_question){
      .cost = &x.cost, .pass = {.ops = &x.pass.ops, .runs = x.pass.run}, .chains = chains};
  assert_int_equal(try_pass_bound_s(&x.q, bound, &err), PZ_OK);
  assert_int_equal(try_pass_solve(&x.q, 100000, &s, &err), PZ_OK);
  assert_true(s.bound_s == s.s);
  return s.s;
}

static void halves_are_shorter_than_one_after_another(void **state) {
  (void)state;
  static const struct turns cases[] = {
      {"one's collectives beside the other's GEMMs: links are busy from 1 on",
       {1, 1, 1, 1},
       false,
       4,
       5},
      {"GEMMs are busy all the time, then the last collective", {2, 1, 2, 1}, false, 6, 9},
      {"links are busy from the first GEMM on", {1, 3, 1, 3}, false, 8, 13},
      {"a collective that is read as it arrives: 1 before its GEMM, 2 beside it",
       {0, 3, 2, 0},
       true,
       3,
       6},
      {"the same if the GEMM waits for it", {0, 3, 2, 0}, false, 5, 8},
      {"GEMMs alone: two halves take twice as long", {1, 0, 1, 0}, false, 2, 4}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (int chains = 1; chains <= 2; chains++) {
      double want = chains == 1 ? cases[i].one : cases[i].two, bound,
             s = solve_turns(&cases[i], chains, &bound);
      if (!(fabs(s - want) < 1e-9 && bound <= want))
        fail_msg("%s, %d chains: %g, bound %g; by hand %g", cases[i].about, chains, s, bound, want);
    }
}

/* ---- layers of models -------------------------------------------------------------------------- */

static double layer_s(const struct pz_model_steps *s, uint32_t n_kinds, bool again) {
  double sum =
      s->before.forward_s + s->before.backward_s + s->after.forward_s + s->after.backward_s;
  for (uint32_t k = 0; k < n_kinds; k++) {
    const struct pz_layer_step *l = again ? &s->again[k] : &s->block[k];
    sum += l->forward_s + l->backward_s;
  }
  return sum;
}

static double timed_s(const struct pz_job *job, const struct pz_plan *plan, enum pz_timing timing) {
  struct pz_step_model *m = NULL;
  struct pz_error err = {0};
  if (try_step_model_new(job, plan, &m, &err) != PZ_OK ||
      try_step_model_time(m, plan, 2, timing, &err) != PZ_OK)
    fail_msg("%s: %s", job->model, err.message);
  double s = layer_s(m->steps, m->kinds.n, plan->recompute != PZ_RECOMPUTATION_NONE);
  pz_step_model_free(m);
  return s;
}

static void layers_are_between_bound_and_serial(void **state) {
  static const struct {
    const char *model;
    int64_t tp, cp, ep;
  } cases[] = {{"llama3-8b", 4, 1, 1},    {"llama3-8b", 2, 2, 1}, {"mixtral-8x7b", 2, 1, 4},
               {"mixtral-8x7b", 1, 1, 8}, {"gpt2", 1, 1, 1},      {"gpt2", 2, 1, 1}};
  int shorter = 0, n = 0;
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (int chips = 0; chips < pz_test_part(6); chips++) {
      struct pz_chip chip = draw_chip();
      struct pz_cluster net = pz_cluster_flat(8, chip.link_bytes_per_s, chip.link_latency_s);
      struct pz_job job = {.model = cases[i].model, .chip = &chip, .net = &net};
      for (int k = 0; k < 6; k++) {
        struct pz_plan plan = pz_plan_default();
        struct pz_error err = {0};
        plan.framework = pz_framework_find("compiled");
        plan.tp = cases[i].tp;
        plan.cp = cases[i].cp;
        plan.ep = cases[i].ep;
        plan.seq = 1024;
        plan.mbs = 2;
        plan.devices = 8;
        plan.batch = 64;
        plan.halves = k % 2;
        plan.recompute = k / 2 == 0   ? PZ_RECOMPUTATION_NONE
                         : k / 2 == 1 ? PZ_RECOMPUTATION_FULL
                                      : PZ_RECOMPUTATION_SELECTIVE;
        if (try_fill_plan(&plan, &chip, &err) != PZ_OK) fail_msg("%s", err.message);
        assert_int_equal(plan.execution, PZ_EXECUTION_SCHEDULED);
        double bound = timed_s(&job, &plan, PZ_TIMING_BOUND),
               solved = timed_s(&job, &plan, PZ_TIMING_SOLVED);
        plan.execution = PZ_EXECUTION_SERIAL;
        double serial = timed_s(&job, &plan, PZ_TIMING_SOLVED);
        if (!(bound > 0 && bound <= solved * (1 + 1e-9) && solved <= serial * (1 + 1e-9)))
          fail_msg("%s on %s, %g W, case %d: bound %.9g, %.9g, one after another %.9g",
                   cases[i].model, chip.name, chip.watts, k, bound, solved, serial);
        shorter += solved < 0.99 * serial;
        n++;
      }
    }
  assert_true(shorter > n / 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(exact_is_ilp_is_brute_force),
      cmocka_unit_test(halves_are_shorter_than_one_after_another),
      cmocka_unit_test(layers_are_between_bound_and_serial),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
