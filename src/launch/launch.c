#include "launch/launch.h"

#include <inttypes.h>

#include "core/alloc.h"
#include "core/buffer.h"
#include "core/num.h"
#include "core/text.h"
#include "place/training_options.h"

const char *const pz_launch_names[] = {"none", "megatron", "torchtitan", "nemo", "deepspeed", NULL};

static const struct pz_launch_framework *const frameworks[] = {
    NULL, &pz_launch_megatron, &pz_launch_torchtitan, &pz_launch_nemo, &pz_launch_deepspeed};

/* Devices of a node where no cluster says so. */
enum { NODE_DEVICES = 8 };

/* Trays of a rack: its domain of 72 devices is 18 nodes of 4 (NVIDIA GB200 NVL72 data sheet). */
enum { RACK_DEVICES = 72, TRAY_DEVICES = 4 };

/* ---- nodes and layers ----------------------------------------------------------------------- */

static enum pz_status fill_nodes(const struct pz_cluster *net, struct pz_launch *l,
                                 struct pz_error *err) {
  int64_t n = l->plan.devices, node = net ? net->level[0].devices : NODE_DEVICES;
  if (node == RACK_DEVICES) node = TRAY_DEVICES;
  if (!net && n > node)
    return pz_fail(err, PZ_BAD_USE,
                   "%" PRId64 " devices without a cluster; accepted: at most %" PRId64
                   ", or a cluster that says how many a node has",
                   n, node);
  if (n > node && n % node)
    return pz_fail(err, PZ_BAD_USE,
                   "%" PRId64 " devices on nodes of %" PRId64 "; accepted: multiples of %" PRId64,
                   n, node, node);
  l->gpus = n < node ? n : node;
  l->nodes = n / l->gpus;
  return PZ_OK;
}

/* Frameworks recompute as many layers in every chunk (of those that it has): a plan with numbers for
 * each stage that comes to the same becomes one with a number for all. */
static enum pz_status same_recompute(const char *framework, struct pz_launch *l,
                                     struct pz_error *err) {
  struct pz_training_options *p = &l->plan;
  struct pz_training_plan plan = pz_training_plan_of(p), alike = plan;
  int64_t most = 0;
  if (!p->stage_recompute) return PZ_OK;
  for (int64_t k = 0; k < p->pp; k++) most = pz_max(most, p->stage_recompute[k]);
  struct pz_pipeline_shape shape = pz_plan_shape(&plan);
  alike.stage_recompute = NULL;
  alike.recompute_layers = most;
  if (!most) alike.recompute = PZ_RECOMPUTATION_NONE;
  for (int64_t j = 0; j < p->pp * p->vpp; j++) {
    int64_t blocks = pz_launch_chunk(l, j), k = pz_pipeline_stage_of(&shape, (uint32_t)j);
    if (pz_plan_again(&plan, k, blocks) != pz_plan_again(&alike, k, blocks))
      return pz_fail(err, PZ_BAD_USE,
                     "%s recomputes as many layers in every stage, this plan %" PRId64
                     " of a chunk in one and %" PRId64
                     " in another; accepted: the same number in all",
                     framework, most, p->stage_recompute[k]);
  }
  p->stage_recompute = NULL;
  p->recompute = (int)alike.recompute;
  p->recompute_layers = most;
  return PZ_OK;
}

/* What the plan asks of experts and modules that the model has not. */
static enum pz_status check_model(const struct pz_launch *l, struct pz_error *err) {
  static const unsigned of_experts = PZ_MODULE_ACTIVATION | PZ_MODULE_EXPERTS | PZ_MODULE_SHARED;
  const struct pz_launch_shape *s = &l->shape;
  int64_t ep = l->plan.ep, etp = pz_options_etp(&l->plan);
  unsigned modules = pz_options_modules(&l->plan);
  if (ep > 1 && (!s->experts || s->experts % ep))
    return pz_fail(err, PZ_BAD_USE, "ep %" PRId64 " with %" PRId64 " experts; accepted: %s", ep,
                   s->experts, s->experts ? "divisors of that" : "1");
  if (s->experts && s->expert_ffn % etp)
    return pz_fail(err, PZ_BAD_USE,
                   "etp %" PRId64 " with experts of width %" PRId64 "; accepted: divisors of that",
                   etp, s->expert_ffn);
  if (l->plan.mtp && !s->predict_layers)
    return pz_fail(err, PZ_BAD_USE,
                   "%s has no layers of multi-token prediction; accepted: a plan without mtp",
                   l->model);
  if ((modules & of_experts && !s->experts) || (modules & PZ_MODULE_SHARED && !s->shared_ffn) ||
      (modules & PZ_MODULE_UP && !s->kv_rank))
    return pz_fail(err, PZ_BAD_USE,
                   "recompute_modules that %s does not have; accepted: layernorm, mlp, core_attn, "
                   "with experts moe and moe_act, with shared ones shared_experts, with latent "
                   "attention mla_up_proj",
                   l->model);
  return PZ_OK;
}

enum pz_status pz_launch_fill(const char *model, const struct pz_training_options *plan,
                              const struct pz_cluster *net, struct pz_launch *out,
                              struct pz_error *err) {
  struct pz_launch l = {.model = model, .plan = *plan};
  enum pz_status status = pz_launch_shape_load(model, &l.shape, err);
  if (status == PZ_OK) status = fill_nodes(net, &l, err);
  if (status == PZ_OK) *out = l;
  return status;
}

int64_t pz_launch_rounds(const struct pz_launch *l) {
  return l->plan.batch / (l->plan.mbs * l->plan.dp);
}

int64_t pz_launch_replicas(const struct pz_launch *l) { return l->plan.dp * l->plan.cp; }

int64_t pz_launch_chunk(const struct pz_launch *l, int64_t j) {
  struct pz_training_plan p = pz_training_plan_of(&l->plan);
  return pz_plan_blocks(&p, l->shape.layers, j);
}

bool pz_launch_even(const struct pz_launch *l) {
  for (int64_t j = 1; j < l->plan.pp * l->plan.vpp; j++)
    if (pz_launch_chunk(l, j) != pz_launch_chunk(l, 0)) return false;
  return true;
}

double pz_launch_drop(const struct pz_launch *l, double of_model) {
  return pz_framework_find(l->plan.framework)->dropout ? of_model : 0;
}

/* ---- the script ----------------------------------------------------------------------------- */

/* Names of models may come from outside: nothing of them may end a comment. */
static void put_plain(const char *s, FILE *out) {
  for (; *s; s++) fputc((unsigned char)*s < ' ' || *s == 127 ? '?' : *s, out);
}

void pz_launch_head(const struct pz_launch *l, const char *framework, FILE *out) {
  const struct pz_training_options *p = &l->plan;
  fprintf(out, "#!/usr/bin/env bash\n# ");
  put_plain(l->model, out);
  fprintf(out,
          " with %s: %" PRId64 " node%s x %" PRId64 " GPU%s, tp %" PRId64 ", pp %" PRId64
          ", vpp %" PRId64 ", cp %" PRId64 ", dp %" PRId64 ", mbs %" PRId64 ", batch %" PRId64
          ", seq %" PRId64,
          framework, l->nodes, pz_text_s((double)l->nodes), l->gpus, pz_text_s((double)l->gpus),
          p->tp, p->pp, p->vpp, p->cp, p->dp, p->mbs, p->batch, p->seq);
  if (l->shape.experts) fprintf(out, ", ep %" PRId64 ", etp %" PRId64, p->ep, pz_options_etp(p));
  fprintf(out,
          "\n#\n"
          "# Run it on every node with NODE_RANK and MASTER_ADDR set, or once under Slurm:\n"
          "#   srun --nodes=%" PRId64 " --ntasks-per-node=1 --gpus-per-node=%" PRId64
          " bash SCRIPT\n"
          "set -euo pipefail\n\n",
          l->nodes, l->gpus);
  if (l->nodes > 1)
    fputs("if [[ -n ${SLURM_JOB_NODELIST:-} ]]; then\n"
          "  NODE_RANK=${NODE_RANK:-${SLURM_NODEID:?run this script with srun}}\n"
          "  MASTER_ADDR=${MASTER_ADDR:-$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head "
          "-n 1)}\n"
          "fi\n"
          "NODE_RANK=${NODE_RANK:?set it to the number of this node, from 0}\n"
          "MASTER_ADDR=${MASTER_ADDR:?set it to the address of node 0}\n",
          out);
  else
    fputs("NODE_RANK=0\nMASTER_ADDR=${MASTER_ADDR:-127.0.0.1}\n", out);
  fputs("MASTER_PORT=${MASTER_PORT:-29500}\n", out);
}

void pz_launch_need(FILE *out, const char *name, const char *text) {
  fprintf(out, "%s=${%s:?set it to %s}\n", name, name, text);
}

void pz_launch_torchrun(const struct pz_launch *l, FILE *out) {
  fprintf(out,
          "exec torchrun --nnodes %" PRId64 " --nproc-per-node %" PRId64
          " --node-rank \"$NODE_RANK\" \\\n"
          "  --master-addr \"$MASTER_ADDR\" --master-port \"$MASTER_PORT\" \\\n",
          l->nodes, l->gpus);
}

enum pz_status pz_launch_script(int i, const struct pz_launch *l, char **text,
                                struct pz_error *err) {
  struct pz_buffer b = {0};
  struct pz_launch own = *l;
  struct pz_training_plan plan = pz_training_plan_of(&l->plan);
  enum pz_status status = pz_training_check(&plan, err);
  if (status == PZ_OK) status = pz_training_check_layers(&plan, l->shape.layers, err);
  if (status == PZ_OK) status = check_model(l, err);
  if (status == PZ_OK) status = same_recompute(pz_launch_names[i], &own, err);
  if (status == PZ_OK) status = frameworks[i]->check(&own, err);
  if (status != PZ_OK) return status;
  FILE *out = pz_buffer_stream(&b);
  if (out) frameworks[i]->print(&own, out);
  if (!out || !pz_buffer_close(out)) {
    pz_free(b.text);
    return pz_fail(err, PZ_NO_MEMORY, "out of memory for the launch script");
  }
  *text = b.text;
  return PZ_OK;
}
