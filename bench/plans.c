/* The search for training plans: plans of the space, how many of them are simulated and excluded, and the best step, which
 * are the same on every machine.  On stderr seconds of the search on one thread, and plans a second that are priced in
 * full, one after another without pruning: bound of the step and memory of every stage. */
#include <stdio.h>

#include "core/num.h"
#include "core/progress.h"
#include "place/plan_search.h"

static const struct run {
  const char *model, *chip, *cluster;
  int64_t devices, batch, seq;
} runs[] = {
    {"llama3-8b", "h100", "dgx-h100", 64, 512, 8192},
    {"llama3-70b", "h100", "dgx-h100", 1024, 2048, 8192},
    {"gpt3-175b", "a100-80", "dgx-a100", 1024, 1536, 2048},
    {"llama3-405b", "h100", "dgx-h100", 16384, 2048, 8192},
};

struct pricing {
  struct pz_step_model *m;
  double hbm_bytes;
  uint64_t plans, fit;
  double least_s; /* so that nothing is left out by the compiler */
  double s;
};

static struct pz_training_plan common_plan(void) {
  const struct pz_framework *f = pz_framework_find("megatron");
  return (struct pz_training_plan){.framework = f,
                                   .overlap = PZ_OVERLAP_GRAD | PZ_OVERLAP_PARAM | PZ_OVERLAP_P2P,
                                   .execution = f->plan.execution,
                                   .grad_bytes = f->plan.grad_bytes,
                                   .order = PZ_PIPELINE_1F1B};
}

static enum pz_status price(struct pricing *x, const struct pz_training_plan *p,
                            struct pz_error *err) {
  double bound, most = 0;
  enum pz_status status = pz_step_bound(x->m, p, &bound, err);
  if (status != PZ_OK) return status;
  for (int64_t k = 0; k < p->pp; k++) {
    struct pz_training_memory one = pz_step_memory(x->m, p, k);
    most = pz_fmax(most, pz_training_memory_sum(&one));
  }
  x->plans++;
  x->fit += most <= x->hbm_bytes;
  x->least_s = pz_fmin(x->least_s, bound);
  return PZ_OK;
}

/* All even divisions of one number of stages and replicas. */
static enum pz_status price_stages(struct pricing *x, struct pz_training_plan *p,
                                   struct pz_error *err) {
  enum pz_status status = PZ_OK;
  int64_t rounds = p->batch / (p->mbs * p->dp), blocks = x->m->n_blocks;
  for (p->vpp = 1; p->vpp <= (p->pp > 1 ? blocks / p->pp : 1); p->vpp++) {
    if (p->vpp > 1 && (rounds % p->pp || blocks % (p->pp * p->vpp))) continue;
    for (p->zero = 0; p->zero <= (p->dp == 1 ? 0 : p->pp == 1 ? 3 : 1); p->zero++)
      for (int r = PZ_RECOMPUTATION_NONE; r <= PZ_RECOMPUTATION_FULL && status == PZ_OK; r++) {
        p->recompute = (enum pz_recomputation)r;
        status = price(x, p, err);
      }
  }
  return status;
}

static enum pz_status price_shape(const struct run *r, struct pz_training_plan p, struct pricing *x,
                                  struct pz_error *err) {
  enum pz_status status = PZ_OK;
  double start = pz_clock_s();
  for (p.pp = 1; p.pp <= x->m->n_blocks && status == PZ_OK; p.pp++)
    for (p.dp = 1; p.tp * p.pp * p.dp <= r->devices && status == PZ_OK; p.dp++)
      if (r->batch % (p.mbs * p.dp) == 0) status = price_stages(x, &p, err);
  x->s += pz_clock_s() - start;
  return status;
}

/* Every shape that the search has with the degrees of two: the time of its model is not counted. */
static enum pz_status price_all(const struct run *r, const struct pz_plan_question *q,
                                struct pricing *x, struct pz_error *err) {
  enum pz_status status = PZ_OK;
  struct pz_training_plan p = q->common;
  p.batch = r->batch;
  for (p.tp = 1; p.tp <= 8; p.tp *= 2)
    for (p.mbs = 1; p.mbs <= 4 && status == PZ_OK; p.mbs *= 2) {
      p.pp = p.vpp = p.dp = 1;
      p.sequence_parallel = p.tp > 1;
      status = pz_step_model_new(&q->model, q->chip, q->net, &p, &x->m, err);
      if (status != PZ_OK) return status;
      status = price_shape(r, p, x, err);
      pz_step_model_free(x->m);
    }
  return status;
}

static enum pz_status measure(const struct run *r, struct pz_error *err) {
  struct pz_plan_question q = pz_plan_question_default();
  struct pz_chip chip;
  struct pz_cluster net;
  struct pz_found_plans found;
  struct pz_arena arena;
  pz_arena_init(&arena, NULL);
  enum pz_status status = pz_chip_load(r->chip, &chip, err);
  if (status == PZ_OK) status = pz_cluster_load(r->cluster, &net, err);
  if (status == PZ_OK) status = pz_cluster_reach(&net, r->devices, "devices", err);
  q.model =
      (struct pz_training_model){.name = r->model, .seq = r->seq, .attention = PZ_ATTENTION_FLASH};
  q.chip = &chip;
  q.net = &net;
  q.devices = r->devices;
  q.batch = r->batch;
  q.common = common_plan();
  q.threads = 1;
  double start = pz_clock_s();
  if (status == PZ_OK) status = pz_plan_search(&q, &arena, &found, err);
  double search_s = pz_clock_s() - start;
  struct pricing x = {.hbm_bytes = (double)pz_chip_hbm_bytes(&chip), .least_s = 1e30};
  if (status == PZ_OK) status = price_all(r, &q, &x, err);
  if (status == PZ_OK) {
    const struct pz_plan_certificate *c = &found.certificate;
    const struct pz_training_plan *p = &found.list[0].plan;
    printf("%s,%s,%lld,%lld,%llu,%llu,%llu,%llu,%lld,%lld,%lld,%lld,%lld,%lld,%d,%.4f,%.3f\n",
           r->model, r->chip, (long long)r->devices, (long long)r->batch,
           (unsigned long long)c->plans, (unsigned long long)c->solved,
           (unsigned long long)c->by_bound, (unsigned long long)c->by_memory, (long long)p->tp,
           (long long)p->cp, (long long)p->pp, (long long)p->vpp, (long long)p->dp,
           (long long)p->mbs, p->zero, found.list[0].p.step_s, found.list[0].p.mfu);
    fprintf(stderr, "%-12s search %.2f s; %llu plans priced, %llu fit, %.0f a second\n", r->model,
            search_s, (unsigned long long)x.plans, (unsigned long long)x.fit,
            (double)x.plans / x.s);
  }
  pz_arena_release(&arena);
  return status;
}

int main(void) {
  struct pz_error err = {0};
  printf(
      "model,chip,devices,batch,plans,simulated,excluded_by_bound,excluded_by_memory,tp,cp,pp,vpp,"
      "dp,mbs,zero,step_s,mfu\n");
  for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
    if (measure(&runs[i], &err) != PZ_OK) return fprintf(stderr, "%s\n", err.message), 1;
  return 0;
}
