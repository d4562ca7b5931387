#include "place/plan_tuning.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chip/chip_json.h"
#include "core/num.h"
#include "core/vec.h"
#include "cost/constants.h"
#include "place/expected_error.h"
#include "place/prediction_json.h"
#include "place/step_model.h"

/* Most samples of a microbatch, and plans from which one with chunks is chosen. */
enum { MOST_MBS = 64, MOST_FOUND = 64 };

/* A change that brings less is none: below what the model can tell apart. */
static const double LEAST_GAIN = 1e-3;

struct job {
  const struct pz_run_plan *r;
  const struct pz_chip *chip;
  const struct pz_cluster *net;
  const struct pz_tuning_options *o;
  struct pz_arena *arena;
  struct pz_tuning *out;
  struct pz_vec found; /* struct pz_tuned_plan */
  int64_t heads, kv_heads, node, experts;
  struct pz_error *err;
};

static enum pz_status no_memory(const struct job *j) {
  return pz_fail(j->err, PZ_NO_MEMORY, "out of memory for the plan's changes");
}

/* ---- the difference as options -------------------------------------------------------------- */

static bool is_told(enum pz_run_field f, const struct pz_run_plan *b) {
  if (f == PZ_RUN_PIPELINE || f == PZ_RUN_SHARD) return false;
  if (f == PZ_RUN_FIRST_LAYERS || f == PZ_RUN_LAST_LAYERS) return false; /* no options of theirs */
  if (f == PZ_RUN_SP && b->plan.tp == 1) return false;
  if (f != PZ_RUN_EP && !pz_run_field_told(b, f)) return false;
  return f != PZ_RUN_RECOMPUTE_LAYERS || b->plan.recompute_layers;
}

/* "--tp 4 --dp 16": the fields of b that a has otherwise. */
static const char *options_text(const struct pz_run_plan *a, const struct pz_run_plan *b,
                                struct pz_arena *arena) {
  const char *text = "";
  for (int f = PZ_RUN_DEVICES; f < PZ_RUN_FIELDS && text; f++) {
    char was[PZ_MODULES_TEXT], now[PZ_MODULES_TEXT], name[32];
    pz_run_field_text(a, (enum pz_run_field)f, was, sizeof was);
    pz_run_field_text(b, (enum pz_run_field)f, now, sizeof now);
    if (strcmp(was, now) == 0 || !is_told((enum pz_run_field)f, b)) continue;
    snprintf(name, sizeof name, "%s", pz_run_field_name((enum pz_run_field)f));
    for (char *c = name; *c; c++)
      if (*c == '_') *c = '-';
    bool flag = f == PZ_RUN_SP;
    text = pz_arena_printf(arena, "%s%s--%s%s%s%s", text, *text ? " " : "",
                           flag && strcmp(now, "off") == 0 ? "no-" : "", name, flag ? "" : " ",
                           flag ? "" : now);
  }
  if (text && b->plan.first_layers)
    text = pz_arena_printf(arena,
                           "%s (layers of the first chunk %" PRId64 ", of the last %" PRId64 ")",
                           text, b->plan.first_layers, b->plan.last_layers);
  return text;
}

/* ---- one plan ------------------------------------------------------------------------------- */

static enum pz_status price(const struct job *j, const struct pz_run_plan *r,
                            struct pz_prediction *p, struct pz_prediction_detail *detail,
                            struct pz_error *err) {
  struct pz_training_plan plan = pz_run_training_plan(r);
  struct pz_training_model model = pz_run_training_model(r);
  enum pz_status status = pz_predict(&model, j->chip, j->net, &plan, p, detail, err);
  if (status == PZ_OK && !(isfinite(p->step_s) && isfinite(p->peak_bytes)))
    status = pz_fail(err, PZ_BAD_INPUT, "the prediction is not a finite number");
  return status;
}

static struct pz_expectation expectation(const struct job *j) {
  struct pz_run_kind kind = {.chip = j->chip->name,
                             .framework = j->r->plan.framework,
                             .one_node = !j->net || j->r->plan.devices <= j->net->level[0].devices,
                             .work =
                                 pz_work_name(j->out->own.p.active_params < j->out->own.p.params,
                                              j->r->plan.precision == PZ_PRECISION_FP8)};
  struct pz_expected_error e = pz_expected_error(&kind);
  return (struct pz_expectation){.runs = e.rows,
                                 .error = e.mean,
                                 .bias = e.bias,
                                 .of = pz_likeness_texts[e.like],
                                 .same_chip = e.like <= PZ_LIKE_CHIP};
}

static enum pz_status predict_own(struct job *j) {
  struct pz_training_run *own = &j->out->own;
  struct pz_prediction_detail detail = {.arena = j->arena, .no_events = true};
  enum pz_status status = price(j, j->r, &own->p, &detail, j->err);
  if (status != PZ_OK) return status;
  own->plan = j->r->plan;
  own->plan.seq = (int64_t)(own->p.tokens / (double)own->plan.batch + 0.5);
  own->hbm_bytes = (double)pz_chip_hbm_bytes(j->chip);
  own->stages = detail.stages;
  own->expected = expectation(j);
  double usable = own->hbm_bytes * pz_constants_default.usable_part;
  bool runs = own->p.peak_bytes <= own->hbm_bytes;
  j->out->limit_bytes = runs ? pz_fmax(usable, own->p.peak_bytes) : usable;
  return PZ_OK;
}

/* Heads and layers of the model. */
static enum pz_status look_at_model(struct job *j) {
  struct pz_training_plan plan = pz_run_training_plan(j->r);
  struct pz_training_model model = pz_run_training_model(j->r);
  struct pz_step_model *m = NULL;
  enum pz_status status = pz_step_model_new(&model, j->chip, j->net, &plan, &m, j->err);
  if (status != PZ_OK) return status;
  j->out->layers = m->n_blocks;
  j->heads = m->w->heads ? m->w->heads : 1;
  j->kv_heads = m->w->kv_heads ? m->w->kv_heads : 1;
  j->experts = m->w->experts;
  j->node = m->cost.net.n_levels ? m->cost.net.level[0].devices : j->r->plan.devices;
  pz_step_model_free(m);
  return PZ_OK;
}

/* ---- single changes ------------------------------------------------------------------------- */

static bool is_megatron(const struct job *j) { return j->o->p2p_with_chunks; }

/* What follows from a changed degree: replicas, shards, the overlap of transfers. */
static void settle(const struct job *j, struct pz_run_plan *r) {
  struct pz_training_options *o = &r->plan;
  const struct pz_training_options *own = &j->r->plan;
  o->dp = o->devices / (o->tp * o->cp * o->pp);
  bool hybrid = own->shard < own->dp * own->cp && o->dp * o->cp == own->dp * own->cp;
  o->shard = hybrid ? own->shard : 0;
  if (o->tp == 1) o->sequence_parallel = 0;
  /* experts are divided as the other layers are unless a run says otherwise */
  if (is_megatron(j) && own->etp && !j->r->from[PZ_RUN_ETP]) o->etp = o->tp;
  o->pipeline = o->vpp > 1 ? PZ_PIPELINE_INTERLEAVED
                           : (j->r->plan.pipeline == PZ_PIPELINE_INTERLEAVED ? PZ_PIPELINE_1F1B
                                                                             : j->r->plan.pipeline);
  if (!is_megatron(j)) return;
  o->overlap &= ~PZ_OVERLAP_P2P;
  if (o->vpp > 1 && !j->o->p2p_off) o->overlap |= PZ_OVERLAP_P2P;
}

/* Price a changed plan and keep it where it fits and is worth it; one that cannot be is left out. */
static enum pz_status try_change(struct job *j, struct pz_run_plan r, const char *field) {
  struct pz_tuned_plan one = {.field = field};
  struct pz_error why = {0};
  enum pz_status status = pz_run_plan_fill(&r, &why);
  if (status == PZ_OK) status = price(j, &r, &one.p, NULL, &why);
  if (status == PZ_NO_MEMORY) return pz_fail(j->err, status, "%s", why.message);
  if (status != PZ_OK) return PZ_OK;
  j->out->n_tried++;
  const struct pz_training_run *own = &j->out->own;
  bool own_fits = own->p.peak_bytes <= own->hbm_bytes;
  bool faster = one.p.step_s < own->p.step_s * (1 - LEAST_GAIN);
  if (one.p.peak_bytes > j->out->limit_bytes || (own_fits && !faster)) return PZ_OK;
  one.run = r;
  one.options = options_text(j->r, &r, j->arena);
  return one.options && pz_vec_push(&j->found, &one) ? PZ_OK : no_memory(j);
}

static enum pz_status try_tp(struct job *j) {
  const struct pz_training_options *own = &j->r->plan;
  enum pz_status status = PZ_OK;
  for (int64_t tp = 1; tp <= pz_min(j->node, own->devices) && status == PZ_OK; tp++) {
    struct pz_run_plan r = *j->r;
    if (tp == own->tp || j->heads % tp || j->kv_heads % tp ||
        own->devices % (tp * own->cp * own->pp))
      continue;
    r.plan.tp = tp;
    if (own->tp == 1) r.plan.sequence_parallel = 1;
    settle(j, &r);
    status = try_change(j, r, "tp");
  }
  return status;
}

static enum pz_status try_pp(struct job *j) {
  const struct pz_training_options *own = &j->r->plan;
  enum pz_status status = PZ_OK;
  for (int64_t pp = 1; pp <= j->out->layers && status == PZ_OK; pp++) {
    struct pz_run_plan r = *j->r;
    if (pp == own->pp || own->devices % (own->tp * own->cp * pp)) continue;
    r.plan.pp = pp;
    if (pp == 1) r.plan.vpp = 1;
    if (j->out->layers % (pp * r.plan.vpp)) continue;
    r.plan.first_layers = r.plan.last_layers = 0;
    settle(j, &r);
    status = try_change(j, r, "pp");
  }
  return status;
}

/* Parts of a sample's tokens: pairs of halves, so that the causal work is even. */
static enum pz_status try_cp(struct job *j) {
  const struct pz_training_options *own = &j->r->plan;
  enum pz_status status = PZ_OK;
  int64_t seq = j->out->own.plan.seq;
  for (int64_t cp = 1; cp <= own->devices && status == PZ_OK; cp *= 2) {
    struct pz_run_plan r = *j->r;
    if (cp == own->cp || own->devices % (own->tp * cp * own->pp) || (cp > 1 && seq % (2 * cp)))
      continue;
    r.plan.cp = cp;
    settle(j, &r);
    status = try_change(j, r, "cp");
  }
  return status;
}

static enum pz_status try_vpp(struct job *j) {
  const struct pz_training_options *own = &j->r->plan;
  enum pz_status status = PZ_OK;
  if (own->pp == 1) return PZ_OK;
  for (int64_t v = 1; v <= j->out->layers / own->pp && status == PZ_OK; v++) {
    struct pz_run_plan r = *j->r;
    if (v == own->vpp || j->out->layers % (own->pp * v)) continue;
    if (is_megatron(j) && v > 1 && own->pp == 2 && j->o->p2p_off) continue; /* refused by it */
    r.plan.vpp = v;
    r.plan.first_layers = r.plan.last_layers = 0;
    settle(j, &r);
    status = try_change(j, r, "vpp");
  }
  return status;
}

static enum pz_status try_mbs(struct job *j) {
  const struct pz_training_options *own = &j->r->plan;
  enum pz_status status = PZ_OK;
  int64_t replica = own->batch / own->dp;
  for (int64_t m = 1; m <= pz_min(replica, MOST_MBS) && status == PZ_OK; m++) {
    struct pz_run_plan r = *j->r;
    if (m == own->mbs || replica % m) continue;
    r.plan.mbs = m;
    status = try_change(j, r, "mbs");
  }
  return status;
}

/* Twice the devices, or half of them, for the experts. */
static enum pz_status try_ep(struct job *j) {
  const struct pz_training_options *own = &j->r->plan;
  enum pz_status status = PZ_OK;
  const int64_t degrees[] = {own->ep / 2, 2 * own->ep};
  for (int i = 0; i < 2 && status == PZ_OK; i++) {
    struct pz_run_plan r = *j->r;
    if (degrees[i] < 1 || !j->experts || j->experts % degrees[i]) continue;
    r.plan.ep = degrees[i];
    if (degrees[i] == 1) r.plan.overlap &= ~PZ_OVERLAP_EP;
    status = try_change(j, r, "ep");
  }
  return status;
}

/* Megatron recomputes no whole layers beside an overlapped all-to-all. */
static void recompute_as(const struct job *j, struct pz_training_options *o, int mode) {
  o->recompute = mode;
  o->recompute_layers = 0;
  o->recompute_modules = 0;
  if (is_megatron(j) && mode == PZ_RECOMPUTATION_FULL) o->overlap &= ~PZ_OVERLAP_EP;
}

/* Full recomputation of some layers of each chunk: of those that fit the fastest, which are the fewest. */
static enum pz_status try_some_layers(struct job *j) {
  const struct pz_training_options *own = &j->r->plan;
  enum pz_status status = PZ_OK;
  int64_t chunk = pz_ceil_div(j->out->layers, own->pp * own->vpp);
  uint32_t before = j->found.n;
  for (int64_t n = 1; n < chunk && status == PZ_OK && j->found.n == before; n++) {
    struct pz_run_plan r = *j->r;
    recompute_as(j, &r.plan, PZ_RECOMPUTATION_FULL);
    r.plan.recompute_layers = n;
    if (own->recompute != PZ_RECOMPUTATION_FULL || own->recompute_layers != n)
      status = try_change(j, r, "recompute_layers");
  }
  return status;
}

static enum pz_status try_recompute(struct job *j) {
  static const int modes[] = {PZ_RECOMPUTATION_NONE, PZ_RECOMPUTATION_SELECTIVE,
                              PZ_RECOMPUTATION_FULL};
  enum pz_status status = PZ_OK;
  for (size_t i = 0; i < sizeof modes / sizeof *modes && status == PZ_OK; i++) {
    struct pz_run_plan r = *j->r;
    if (r.plan.recompute == modes[i] && !r.plan.recompute_layers && !r.plan.recompute_modules)
      continue;
    recompute_as(j, &r.plan, modes[i]);
    status = try_change(j, r, "recompute");
  }
  return status == PZ_OK ? try_some_layers(j) : status;
}

static enum pz_status try_zero(struct job *j) {
  const struct pz_training_options *own = &j->r->plan;
  const struct pz_framework *f = pz_framework_find(own->framework);
  enum pz_status status = PZ_OK;
  for (int zero = 0; zero <= 3 && own->dp * own->cp > 1 && status == PZ_OK; zero++) {
    struct pz_run_plan r = *j->r;
    if (zero == own->zero || (zero > 1 && own->pp > 1 && !f->shards_stages)) continue;
    r.plan.zero = zero;
    r.plan.shard = 0;
    if (is_megatron(j) && !zero) r.plan.overlap &= ~PZ_OVERLAP_PARAM;
    status = try_change(j, r, "zero");
  }
  return status;
}

/* May the experts' all-to-all be overlapped?  Megatron's conditions: launch/megatron_core.c. */
static bool can_overlap_experts(const struct job *j, const struct pz_training_options *o) {
  if (o->ep <= 1) return false;
  return !is_megatron(j) || ((o->pp == 1 || o->vpp > 1) && o->recompute != PZ_RECOMPUTATION_FULL &&
                             !(o->recompute_modules & PZ_MODULE_EXPERTS));
}

/* Each overlap that is off turned on, where the framework can. */
static enum pz_status try_overlaps(struct job *j) {
  const struct pz_training_options *own = &j->r->plan;
  enum pz_status status = PZ_OK;
  for (int i = 0; pz_overlap_names[i] && status == PZ_OK; i++) {
    struct pz_run_plan r = *j->r;
    int bit = 1 << i;
    if (own->overlap & bit) continue;
    if (bit == PZ_OVERLAP_EP && !can_overlap_experts(j, own)) continue;
    if (bit == PZ_OVERLAP_TP && (own->tp == 1 || !own->sequence_parallel)) continue;
    if (bit == PZ_OVERLAP_P2P && (own->pp == 1 || (is_megatron(j) && own->vpp == 1))) continue;
    if (bit == PZ_OVERLAP_PARAM &&
        (!own->zero || (is_megatron(j) && !(own->overlap & PZ_OVERLAP_GRAD))))
      continue;
    if (own->dp * own->cp == 1 && bit & (PZ_OVERLAP_GRAD | PZ_OVERLAP_PARAM)) continue;
    r.plan.overlap |= bit;
    status = try_change(j, r, "overlap");
  }
  return status;
}

static enum pz_status try_switches(struct job *j) {
  enum pz_status status = PZ_OK;
  struct pz_run_plan sp = *j->r, flash = *j->r;
  sp.plan.sequence_parallel = !sp.plan.sequence_parallel;
  if (!sp.plan.sequence_parallel) sp.plan.overlap &= ~PZ_OVERLAP_TP;
  bool fixed = is_megatron(j) && j->experts; /* always with it */
  if (sp.plan.tp > 1 && !fixed) status = try_change(j, sp, "sp");
  flash.plan.attention = PZ_ATTENTION_FLASH;
  if (status == PZ_OK && j->r->plan.attention != PZ_ATTENTION_FLASH)
    status = try_change(j, flash, "attention");
  return status;
}

static int by_time(const void *a, const void *b) {
  const struct pz_tuned_plan *x = a, *y = b;
  if (x->p.step_s != y->p.step_s) return x->p.step_s < y->p.step_s ? -1 : 1;
  if (x->p.peak_bytes != y->p.peak_bytes) return x->p.peak_bytes < y->p.peak_bytes ? -1 : 1;
  return strcmp(x->options, y->options);
}

static enum pz_status try_singles(struct job *j) {
  static enum pz_status (*const fields[])(struct job *) = {
      try_tp,  try_cp,        try_pp,   try_vpp,      try_ep,
      try_mbs, try_recompute, try_zero, try_overlaps, try_switches};
  enum pz_status status = PZ_OK;
  for (size_t i = 0; i < sizeof fields / sizeof *fields && status == PZ_OK; i++)
    status = fields[i](j);
  if (status != PZ_OK) return status;
  if (j->found.n) qsort(j->found.items, j->found.n, sizeof(struct pz_tuned_plan), by_time);
  j->out->changes = j->found.items;
  j->out->n_changes = j->found.n;
  return PZ_OK;
}

/* ---- the best plan -------------------------------------------------------------------------- */

static struct pz_run_plan run_of(const struct job *j, const struct pz_training_plan *p) {
  struct pz_run_plan r = *j->r;
  struct pz_training_options *o = &r.plan;
  o->tp = p->tp;
  o->pp = p->pp;
  o->vpp = p->vpp;
  o->dp = p->dp;
  o->cp = pz_plan_cp(p);
  o->devices = pz_plan_devices(p);
  o->mbs = p->mbs;
  o->sequence_parallel = p->sequence_parallel && p->tp > 1;
  o->zero = p->zero;
  o->shard = pz_plan_replicas(p);
  o->recompute = (int)p->recompute;
  o->recompute_layers = p->recompute_layers;
  o->overlap = (int)p->overlap;
  o->pipeline = p->vpp > 1 ? PZ_PIPELINE_INTERLEAVED : PZ_PIPELINE_1F1B;
  o->first_layers = p->first_layers;
  o->last_layers = p->last_layers;
  o->stage_recompute = NULL;
  o->ep = pz_plan_ep(p);
  o->etp = o->etp ? pz_plan_etp(p) : p->etp;
  if (o->recompute != PZ_RECOMPUTATION_SELECTIVE) o->recompute_modules = 0;
  /* arguments that such a plan has no use for */
  if (!o->zero || o->shard == 1) o->overlap &= ~PZ_OVERLAP_PARAM;
  if (o->shard == 1) o->overlap &= ~PZ_OVERLAP_GRAD;
  if (o->tp == 1) o->overlap &= ~PZ_OVERLAP_TP;
  if (is_megatron(j) ? o->vpp == 1 : o->pp == 1) o->overlap &= ~PZ_OVERLAP_P2P;
  if (!can_overlap_experts(j, o)) o->overlap &= ~PZ_OVERLAP_EP;
  return r;
}

static enum pz_status ask(const struct job *j, int overlap, uint32_t top,
                          struct pz_found_plans *found) {
  struct pz_plan_question q = pz_plan_question_default();
  q.model = pz_run_training_model(j->r);
  q.chip = j->chip;
  q.net = j->net;
  q.devices = j->r->plan.devices;
  q.batch = j->r->plan.batch;
  q.common = pz_run_training_plan(j->r);
  q.common.shard = 0;
  q.common.ep = q.common.etp = 0;
  q.common.stage_recompute = NULL;
  q.common.order = PZ_PIPELINE_1F1B;
  q.common.overlap = (unsigned)overlap;
  /* it asks for sequence parallelism */
  if (is_megatron(j) && (overlap & PZ_OVERLAP_TP || j->experts)) q.sp = 1;
  q.uniform = true;
  q.top = top;
  q.threads = j->o->threads;
  return pz_plan_search(&q, j->arena, found, j->err);
}

/* The first of a list that may overlap transfers: with chunks alone; n: none. */
static uint32_t first_with_chunks(const struct pz_found_plans *f) {
  uint32_t i = 0;
  while (i < f->n && f->list[i].plan.vpp == 1) i++;
  return i;
}

/* The best plan with these overlaps.  Where transfers overlap with chunks alone two searches decide. */
static enum pz_status find_best(struct job *j, int overlap, bool *has, struct pz_tuned_plan *out,
                                struct pz_plan_certificate *c) {
  struct pz_found_plans plain = {.n = 0}, chunks = {.n = 0};
  const struct pz_found_plan *best = NULL;
  bool split = is_megatron(j);
  int with_chunks = PZ_OVERLAP_P2P | PZ_OVERLAP_EP;
  enum pz_status status = ask(j, split ? overlap & ~with_chunks : overlap, 1, &plain);
  if (status == PZ_OK && split && overlap & PZ_OVERLAP_P2P)
    status = ask(j, overlap, MOST_FOUND, &chunks);
  if (status != PZ_OK) return status;
  if (plain.has_least) j->out->least_bytes = plain.least.p.peak_bytes;
  uint32_t at = first_with_chunks(&chunks);
  if (plain.n) best = &plain.list[0];
  if (at < chunks.n && (!best || chunks.list[at].p.step_s < best->p.step_s))
    best = &chunks.list[at];
  *c = plain.certificate;
  c->plans += chunks.certificate.plans;
  c->solved += chunks.certificate.solved;
  c->by_bound += chunks.certificate.by_bound;
  c->by_memory += chunks.certificate.by_memory;
  *has = best != NULL;
  if (!best) return PZ_OK;
  out->run = run_of(j, &best->plan);
  out->p = best->p;
  if (out->run.plan.ep > 1 &&
      (best->plan.overlap ^ (unsigned)out->run.plan.overlap) & PZ_OVERLAP_EP)
    status = price(j, &out->run, &out->p, NULL, j->err);
  if (status != PZ_OK) return status;
  out->options = options_text(j->r, &out->run, j->arena);
  return out->options ? PZ_OK : no_memory(j);
}

static enum pz_status find_plans(struct job *j) {
  struct pz_tuning *t = j->out;
  struct pz_plan_certificate unused;
  int own = j->r->plan.overlap, all = PZ_OVERLAP_ALL;
  if (is_megatron(j)) own = j->o->p2p_off ? own & ~PZ_OVERLAP_P2P : own | PZ_OVERLAP_P2P;
  enum pz_status status = find_best(j, own, &t->has_best, &t->best, &t->certificate);
  if (status == PZ_OK && own != all)
    status = find_best(j, all, &t->has_overlapped, &t->overlapped, &unused);
  return status;
}

/* A question without any plan (devices that fill no nodes ...) leaves the single changes. */
static enum pz_status find_plans_or_why(struct job *j) {
  struct pz_error why = {0}, *err = j->err;
  j->err = &why;
  enum pz_status status = find_plans(j);
  j->err = err;
  if (status == PZ_OK) return PZ_OK;
  if (status != PZ_BAD_USE) return pz_fail(err, status, "%s", why.message);
  j->out->has_best = j->out->has_overlapped = false;
  j->out->why = pz_arena_strdup(j->arena, why.message);
  return j->out->why ? PZ_OK : no_memory(j);
}

enum pz_status pz_plan_tune(const struct pz_run_plan *r, const struct pz_chip *chip,
                            const struct pz_cluster *net, const struct pz_tuning_options *o,
                            struct pz_arena *arena, struct pz_tuning *out, struct pz_error *err) {
  struct pz_tuning t = {.has_best = false};
  struct job j = {.r = r, .chip = chip, .net = net, .o = o, .arena = arena, .out = &t, .err = err};
  pz_vec_init(&j.found, arena, sizeof(struct pz_tuned_plan));
  enum pz_status status = predict_own(&j);
  if (status == PZ_OK) status = look_at_model(&j);
  if (status == PZ_OK) status = find_plans_or_why(&j);
  if (status == PZ_OK) status = try_singles(&j);
  if (status == PZ_OK) *out = t;
  return status;
}
