/* The search for training plans: plans of the space, how many of them are simulated and excluded, and the best step, which
 * are the same on every machine; then of this one the plans a second and core that are priced in full, one after another
 * without pruning, bound of the step and memory of every stage, and how many times as many as of the first model.  On
 * stderr seconds of the search on one thread. */
#include <stdio.h>
#include <time.h>

#include "core/num.h"
#include "place/plan_question.h"
#include "unit/chip_borders.h"
#include "unit/plan_borders.h"
#include "unit/step_borders.h"

static const struct run {
  const char *model, *chip, *cluster;
  int64_t devices, batch, seq;
  enum pz_precision precision;
} runs[] = {
    {"llama3-8b", "h100", "dgx-h100", 64, 512, 8192, PZ_PRECISION_BF16},
    {"llama3-70b", "h100", "dgx-h100", 1024, 2048, 8192, PZ_PRECISION_BF16},
    {"gpt3-175b", "a100-80", "dgx-a100", 1024, 1536, 2048, PZ_PRECISION_BF16},
    {"llama3-405b", "h100", "dgx-h100", 16384, 2048, 8192, PZ_PRECISION_BF16},
    {"llama3-8b", "h100", "dgx-h100", 256, 32, 1 << 20, PZ_PRECISION_BF16},
    {"mixtral-8x7b", "h100", "dgx-h100", 64, 512, 4096, PZ_PRECISION_BF16},
    {"qwen3-235b-a22b", "h100", "dgx-h100", 256, 2048, 4096, PZ_PRECISION_BF16},
    {"deepseek-v3", "h800", "h800-8x50", 2048, 15360, 4096, PZ_PRECISION_FP8},
};

/* Of one thread: other work of the machine does not count. */
static double cpu_s(void) { return (double)clock() / CLOCKS_PER_SEC; }

struct pricing {
  struct pz_step_model *m;
  double hbm_bytes;
  uint64_t plans, fit;
  double least_s; /* so that nothing is left out by the compiler */
  double s;
};

static enum pz_status price(struct pricing *x, const struct pz_plan *p, struct pz_error *err) {
  double bound, most = 0;
  enum pz_status status = try_step_bound(x->m, p, &bound, err);
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
static enum pz_status price_stages(struct pricing *x, struct pz_plan *p, struct pz_error *err) {
  enum pz_status status = PZ_OK;
  int64_t rounds = p->batch / (p->mbs * p->dp), blocks = x->m->n_blocks;
  for (p->vpp = 1; p->vpp <= (p->pp > 1 ? blocks / p->pp : 1); p->vpp++) {
    if (p->vpp > 1 && (rounds % p->pp || blocks % (p->pp * p->vpp))) continue;
    for (p->zero = 0; p->zero <= (p->dp == 1 ? 0 : p->pp == 1 ? 3 : 1); p->zero++)
      for (int r = PZ_RECOMPUTATION_NONE; r <= PZ_RECOMPUTATION_FULL && status == PZ_OK; r++) {
        p->recompute = r;
        status = price(x, p, err);
      }
  }
  return status;
}

static enum pz_status price_shape(const struct run *r, struct pz_plan p, struct pricing *x,
                                  struct pz_error *err) {
  enum pz_status status = PZ_OK;
  double start = cpu_s();
  for (p.pp = 1; p.pp <= x->m->n_blocks && status == PZ_OK; p.pp++)
    for (p.dp = 1; pz_plan_devices(&p) <= r->devices && status == PZ_OK; p.dp++)
      if (r->batch % (p.mbs * p.dp) == 0 && p.tp * p.cp * p.dp % (p.ep * pz_plan_etp(&p)) == 0)
        status = price_stages(x, &p, err);
  x->s += cpu_s() - start;
  return status;
}

/* Experts over 1, 8 or 64 devices.  The time of the shape's model is not counted. */
static enum pz_status price_experts(const struct run *r, const struct pz_plan_question *q,
                                    struct pz_plan p, struct pricing *x, struct pz_error *err) {
  enum pz_status status = PZ_OK;
  int64_t experts = 1;
  for (p.ep = 1; p.ep <= pz_min(experts, 64) && status == PZ_OK; p.ep *= 8) {
    p.pp = p.vpp = p.dp = 1;
    p.sp = p.tp > 1;
    status = try_step_model_new(&q->job, &p, &x->m, err);
    if (status == PZ_BAD_USE) return PZ_OK; /* heads that tp does not divide */
    if (status != PZ_OK) return status;
    experts = x->m->workload->experts;
    status = price_shape(r, p, x, err);
    pz_step_model_free(x->m);
  }
  return status;
}

/* Shapes that the search has with degrees of two. */
static enum pz_status price_all(const struct run *r, const struct pz_plan_question *q,
                                struct pricing *x, struct pz_error *err) {
  enum pz_status status = PZ_OK;
  struct pz_plan p = q->plan;
  int64_t most_tp = r->seq > 1 << 17 ? 2 : 8;
  p.pipeline = PZ_PIPELINE_1F1B;
  for (p.tp = 1; p.tp <= most_tp; p.tp *= 2)
    for (p.cp = 1; p.cp <= 4; p.cp *= 4)
      for (p.mbs = 1; p.mbs <= 4 && status == PZ_OK; p.mbs *= 2)
        status = price_experts(r, q, p, x, err);
  return status;
}

static enum pz_status measure(const struct run *r, double *first, struct pz_error *err) {
  struct pz_plan_question q;
  struct pz_plan plan = pz_plan_default();
  struct pz_chip chip;
  struct pz_cluster net;
  struct pz_found_plans found;
  struct pz_arena arena;
  pz_arena_init(&arena);
  enum pz_status status = pz_test_chip_read(r->chip, &chip, err);
  if (status == PZ_OK) status = pz_cluster_load(r->cluster, &net, err);
  if (status == PZ_OK) status = pz_cluster_reach(&net, r->devices, "devices", err);
  struct pz_job job = {.model = r->model, .chip = &chip, .net = &net};
  plan.framework = pz_framework_find("megatron");
  plan.devices = r->devices;
  plan.batch = r->batch;
  plan.seq = r->seq;
  plan.precision = (int)r->precision;
  if (status == PZ_OK) status = try_make_question(&job, &plan, 0, &q, err);
  q.threads = 1;
  double start = cpu_s();
  if (status == PZ_OK) status = try_find_plans(&q, &arena, &found, err);
  double search_s = cpu_s() - start;
  struct pricing x = {.hbm_bytes = (double)pz_chip_hbm_bytes(&chip), .least_s = 1e30};
  if (status == PZ_OK) status = price_all(r, &q, &x, err);
  if (status == PZ_OK) {
    const struct pz_plan_certificate *c = &found.certificate;
    const struct pz_plan *p = &found.list[0].plan;
    double speed = (double)x.plans / x.s;
    if (!(*first > 0)) *first = speed;
    printf("%s,%s,%lld,%lld,%lld,%llu,%llu,%llu,%llu,%lld,%lld,%lld,%lld,%lld,%lld,%lld,%d,%.4f,"
           "%.3f,%.0f,%.2f\n",
           r->model, r->chip, (long long)r->devices, (long long)r->batch, (long long)r->seq,
           (unsigned long long)c->plans, (unsigned long long)c->solved,
           (unsigned long long)c->by_bound, (unsigned long long)c->by_memory, (long long)p->tp,
           (long long)p->cp, (long long)p->ep, (long long)p->pp, (long long)p->vpp,
           (long long)p->dp, (long long)p->mbs, p->zero, found.list[0].p.step_s,
           found.list[0].p.mfu, speed, speed / *first);
    fprintf(stderr, "%-12s search %.2f s; %llu plans priced, %llu fit\n", r->model, search_s,
            (unsigned long long)x.plans, (unsigned long long)x.fit);
  }
  pz_arena_release(&arena);
  return status;
}

int main(void) {
  struct pz_error err = {0};
  double first = 0;
  printf(
      "model,chip,devices,batch,seq,plans,simulated,excluded_by_bound,excluded_by_memory,tp,cp,ep,"
      "pp,vpp,dp,mbs,zero,step_s,mfu,priced_per_s,relative\n");
  for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
    if (measure(&runs[i], &first, &err) != PZ_OK) return fprintf(stderr, "%s\n", err.message), 1;
  return 0;
}
