#include "place/training.h"

#include "core/num.h"

int64_t pz_plan_blocks(const struct pz_training_plan *p, int64_t blocks, int64_t chunk) {
  int64_t n = p->pp * p->vpp, j = chunk;
  if (p->first_layers || p->last_layers) {
    if (j == 0) return p->first_layers;
    if (j == n - 1) return p->last_layers;
    int64_t rest = blocks - p->first_layers - p->last_layers;
    return rest / (n - 2) + (j - 1 < rest % (n - 2));
  }
  if (blocks % n && (blocks + 2) % n == 0) return (blocks + 2) / n - (j == 0) - (j == n - 1);
  return blocks / n + (j < blocks % n);
}

int64_t pz_plan_start(const struct pz_training_plan *p, int64_t blocks, int64_t chunk) {
  int64_t n = p->pp * p->vpp, j = chunk;
  if (p->first_layers || p->last_layers) {
    if (j == 0) return 0;
    if (j == n - 1) return blocks - p->last_layers;
    int64_t rest = blocks - p->first_layers - p->last_layers;
    return p->first_layers + (j - 1) * (rest / (n - 2)) + pz_min(j - 1, rest % (n - 2));
  }
  if (blocks % n && (blocks + 2) % n == 0) return j * ((blocks + 2) / n) - (j > 0);
  return j * (blocks / n) + pz_min(j, blocks % n);
}

int64_t pz_plan_again(const struct pz_training_plan *p, int64_t stage, int64_t blocks) {
  int64_t n = p->stage_recompute    ? p->stage_recompute[stage]
              : p->recompute_layers ? p->recompute_layers
                                    : blocks;
  switch (p->recompute) {
  case PZ_RECOMPUTATION_NONE: return 0;
  case PZ_RECOMPUTATION_HALF: return (blocks + 1) / 2;
  case PZ_RECOMPUTATION_FULL: return pz_min(n, blocks);
  default: return blocks;
  }
}

static enum pz_status check_division(const struct pz_training_plan *p, struct pz_error *err) {
  if (!p->first_layers && !p->last_layers) return PZ_OK;
  if (p->first_layers < 1 || p->last_layers < 1)
    return pz_fail(err, PZ_BAD_USE,
                   "%lld layers in the first chunk and %lld in the last; accepted: 1 and more",
                   (long long)p->first_layers, (long long)p->last_layers);
  if (p->pp * p->vpp < 2)
    return pz_fail(err, PZ_BAD_USE,
                   "layers of the first and the last chunk with one chunk; accepted: pp above 1");
  return PZ_OK;
}

enum pz_status pz_training_check(const struct pz_training_plan *p, struct pz_error *err) {
  const struct {
    const char *name;
    int64_t v;
  } list[] = {{"tp", p->tp},         {"pp", p->pp},   {"vpp", p->vpp},    {"dp", p->dp},
              {"cp", pz_plan_cp(p)}, {"mbs", p->mbs}, {"batch", p->batch}};
  for (size_t i = 0; i < sizeof list / sizeof *list; i++)
    if (list[i].v < 1 || list[i].v > 1 << 24)
      return pz_fail(err, PZ_BAD_USE, "%s %lld; accepted: 1 to 2^24", list[i].name,
                     (long long)list[i].v);
  int64_t group = p->tp * pz_plan_replicas(p), grid = pz_plan_ep(p) * pz_plan_etp(p);
  if (p->ep < 0 || p->etp < 0 || p->ep > 1 << 24 || p->etp > 1 << 24 || group % grid)
    return pz_fail(
        err, PZ_BAD_USE,
        "experts over ep %lld x etp %lld with %lld devices a stage (tp x cp x dp); accepted: "
        "products that divide these",
        (long long)pz_plan_ep(p), (long long)pz_plan_etp(p), (long long)group);
  if (p->imbalance != 0 && !(p->imbalance >= 1 && p->imbalance <= 1e6))
    return pz_fail(err, PZ_BAD_USE, "imbalance %g; accepted: 1 and more", p->imbalance);
  if (p->zero < 0 || p->zero > 3)
    return pz_fail(err, PZ_BAD_USE, "zero %d; accepted: 0 to 3", p->zero);
  if (p->recompute_layers < 0)
    return pz_fail(err, PZ_BAD_USE, "%lld layers to recompute; accepted: 0 or more",
                   (long long)p->recompute_layers);
  if (p->vpp > PZ_PLAN_MOST_CHUNKS)
    return pz_fail(err, PZ_BAD_USE, "vpp %lld; accepted: at most %d", (long long)p->vpp,
                   PZ_PLAN_MOST_CHUNKS);
  if (p->vpp > 1 && p->pp == 1)
    return pz_fail(err, PZ_BAD_USE, "vpp %lld with one stage; accepted: 1, or pp above 1",
                   (long long)p->vpp);
  if (p->batch < p->mbs * p->dp)
    return pz_fail(err, PZ_BAD_USE,
                   "a batch of %lld is less than one microbatch of %lld on each of %lld replicas",
                   (long long)p->batch, (long long)p->mbs, (long long)p->dp);
  return check_division(p, err);
}

enum pz_status pz_training_check_layers(const struct pz_training_plan *p, int64_t blocks,
                                        struct pz_error *err) {
  int64_t chunks = p->pp * p->vpp, ends = p->first_layers + p->last_layers;
  if (ends && (chunks == 2 ? ends != blocks : blocks - ends < chunks - 2))
    return pz_fail(err, PZ_BAD_USE,
                   "%lld layers, %lld of them in the first and %lld in the last of %lld chunks; "
                   "accepted: one for "
                   "every chunk between, none where there is none",
                   (long long)blocks, (long long)p->first_layers, (long long)p->last_layers,
                   (long long)chunks);
  if (blocks >= chunks || blocks + 2 == chunks) return PZ_OK;
  return pz_fail(err, PZ_BAD_USE,
                 "%lld layers in %lld chunks (pp %lld x vpp %lld); accepted: pp x vpp at most %lld",
                 (long long)blocks, (long long)chunks, (long long)p->pp, (long long)p->vpp,
                 (long long)blocks);
}

struct pz_pipeline_shape pz_plan_shape(const struct pz_training_plan *p) {
  bool chunks = p->vpp > 1 && !pz_is_v_pipeline(p->order);
  return (struct pz_pipeline_shape){.order = chunks ? PZ_PIPELINE_INTERLEAVED : p->order,
                                    .stages = (uint32_t)p->pp,
                                    .chunks = (uint32_t)p->vpp,
                                    .microbatches = (uint32_t)pz_plan_rounds(p)};
}

int64_t pz_plan_rounds(const struct pz_training_plan *p) {
  int64_t rounds = pz_ceil_div(p->batch, p->mbs * p->dp);
  return p->vpp > 1 && !pz_is_v_pipeline(p->order) ? pz_ceil_div(rounds, p->pp) * p->pp : rounds;
}
