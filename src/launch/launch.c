#include "launch/launch.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "chip/chip.h"
#include "core/alloc.h"
#include "core/num.h"
#include "core/status.h"
#include "core/text.h"

const char *const pz_launch_names[] = {"none", "megatron", "torchtitan", "nemo", "deepspeed", NULL};

static pz_launch_writer *const writers[] = {NULL, pz_launch_megatron, pz_launch_torchtitan,
                                            pz_launch_nemo, pz_launch_deepspeed};

/* Devices of a node where no cluster says so. */
enum { NODE_DEVICES = 8 };

/* Trays of a rack: its domain of 72 devices is 18 nodes of 4 (NVIDIA GB200 NVL72 data sheet). */
enum { RACK_DEVICES = 72, TRAY_DEVICES = 4 };

/* ---- nodes and layers ----------------------------------------------------------------------- */

/* Whole nodes, or the largest power of two of each node's devices, as place takes them (64 of 72, 4 of 6). */
static enum pz_status fill_nodes(const struct pz_cluster *net, struct pz_launch *l,
                                 struct pz_error *err) {
  int64_t n = l->plan.devices, node = net ? pz_cluster_node(net) : NODE_DEVICES, part = 1;
  while (2 * part <= node) part *= 2;
  bool trays = node == RACK_DEVICES;
  if (trays) node = TRAY_DEVICES;
  if (n < node) node = n;
  while ((!net || trays) && n % node) node--; /* as many of each */
  if (n % node && n % part == 0) node = part;
  if (n % node)
    return pz_fail(err, PZ_BAD_USE,
                   "%" PRId64 " devices on nodes of %" PRId64 "; accepted: multiples of %" PRId64,
                   n, node, node);
  l->gpus = node;
  l->nodes = n / node;
  return PZ_OK;
}

enum pz_status pz_launch_fill(const char *model, const struct pz_plan *plan,
                              const struct pz_cluster *net, struct pz_launch *out,
                              struct pz_error *err) {
  struct pz_launch l = {.model = model, .plan = *plan};
  enum pz_status status = pz_model_shape_load(model, &l.shape, err);
  if (status == PZ_OK) status = fill_nodes(net, &l, err);
  if (status == PZ_OK) *out = l;
  return status;
}

double pz_launch_drop(const struct pz_launch *l, double of_model) {
  return pz_plan_framework(&l->plan)->dropout ? of_model : 0;
}

void pz_launch_number(const struct pz_launch *l, enum pz_plan_field f, enum pz_launcher whose,
                      const char *before, const char *between, FILE *out) {
  char value[PZ_FIELD_TEXT_MOST];
  fprintf(out, "%s%s%s%s\n", before, pz_plan_field(f)->in[whose], between,
          pz_plan_field_text(&l->plan, f, value, sizeof value));
}

void pz_launch_words(FILE *out, bool on, const char *words) {
  if (on) fprintf(out, "  %s\n", words);
}

/* ---- the script ----------------------------------------------------------------------------- */

static const char script_head[] = "#!/usr/bin/env bash\n# ";
static const char not_set[] = "\n# Not set by this script:";

/* Fields that the prediction depends on and no argument has: which FlashAttention or SDPA backend is installed and
 * chosen, and how unevenly tokens fall to experts. */
static void put_unset(const struct pz_launch *l, FILE *out) {
  const struct pz_plan *p = &l->plan;
  const char *library = p->attention_library;
  bool flash = p->attention == PZ_ATTENTION_FLASH;
  bool older = strcmp(library, "fa1") == 0 || strcmp(library, "fa2") == 0;
  const struct pz_framework *f = pz_plan_framework(p);
  bool named =
      flash && (f->rules == PZ_RULES_CORE    ? strcmp(library, "fa3") == 0
                : f->rules == PZ_RULES_TITAN ? strcmp(library, f->plan.attention_library) != 0
                                             : !older);
  bool uneven = l->shape.experts && p->imbalance > 1;
  if (!named && !uneven) return;
  fputs(not_set + 1, out);
  if (named) fprintf(out, " attention_library=%s", library);
  if (uneven) fprintf(out, " imbalance=%.17g", p->imbalance);
  fputc('\n', out);
}

void pz_launch_head(const struct pz_launch *l, const char *framework, FILE *out) {
  const struct pz_plan *p = &l->plan;
  char text[PZ_PLAN_TEXT_MOST], model[400];
  pz_text_plain(pz_text_copy(model, sizeof model, l->model)); /* nothing of it ends the comment */
  fprintf(out,
          "%s%s with %s: %" PRId64 " node%s x %" PRId64 " GPU%s, batch %" PRId64 " x %" PRId64
          " tokens\n# %s\n",
          script_head, model, framework, l->nodes, pz_text_s((double)l->nodes), l->gpus,
          pz_text_s((double)l->gpus), p->batch, p->seq, pz_plan_text(p, text, sizeof text));
  put_unset(l, out);
  if (pz_shape_outgrown(&l->shape, p->seq))
    fprintf(out,
            "# The model has %" PRId64 " rotary positions: they are stretched as Llama 3.1's are, "
            "by a factor of %.10g.\n",
            l->shape.positions, pz_shape_rope_factor(&l->shape, p->seq));
  fprintf(out,
          "#\n"
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

void pz_launch_schedule(const struct pz_launch *l, FILE *out) {
  fputs("  --train-iters \"${TRAIN_ITERS:-1000}\"\n"
        "  --lr \"${LR:-1e-4}\"\n  --min-lr \"${MIN_LR:-1e-5}\"\n  --lr-decay-style cosine\n"
        "  --lr-warmup-fraction \"${WARMUP_FRACTION:-0.01}\"\n"
        "  --weight-decay 0.1\n  --adam-beta2 0.95\n  --clip-grad 1.0\n",
        out);
  pz_launch_words(out, true, l->plan.precision == PZ_PRECISION_FP16 ? "--fp16" : "--bf16");
}

void pz_launch_saving(FILE *out) {
  fputs("  --log-interval 1\n  --eval-iters 0\n"
        "  --save \"$CHECKPOINT_PATH\"\n  --load \"$CHECKPOINT_PATH\"\n  --save-interval 1000\n"
        ")\n\n",
        out);
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
  own.plan.framework = pz_framework_find(pz_launch_names[i]);
  (void)pz_plan_recompute_alike(&own.plan, l->shape.layers);
  enum pz_status status = pz_plan_check(&own.plan, err);
  if (status == PZ_OK) status = pz_plan_check_layers(&own.plan, l->shape.layers, err);
  if (status == PZ_OK && !(pz_framework_trains(own.plan.framework, &l->shape, err) &&
                           pz_framework_can(&own.plan, &l->shape, err)))
    status = PZ_BAD_USE;
  if (status != PZ_OK) return status;
  own.plan.framework = l->plan.framework;
  own.plan.overlap = pz_plan_overlap(&own.plan);
  FILE *out = pz_buffer_stream(&b);
  if (out) writers[i](&own, out);
  if (!out || !pz_buffer_close(out)) {
    pz_free(b.text);
    return pz_fail(err, PZ_NO_MEMORY, "out of memory for the launch script");
  }
  *text = b.text;
  return PZ_OK;
}

/* ---- read back ------------------------------------------------------------------------------ */

/* Are they the same as far as the words of a script say and a step depends on it?  Feed-forward layers of a model whose
 * layers all have experts are no part of it, nor are layers that predict where none of them runs. */
static bool is_same_shape(const struct pz_model_shape *a, const struct pz_model_shape *b,
                          const struct pz_plan *p) {
  const struct pz_recurrence *x = &a->recurrence, *y = &b->recurrence;
  bool drops = pz_plan_framework(p)->dropout;
  return a->family == b->family && a->layers == b->layers && a->hidden == b->hidden &&
         a->heads == b->heads && a->vocab == b->vocab && a->kv_rank == b->kv_rank &&
         (a->kv_rank ? a->q_rank == b->q_rank && a->nope_dim == b->nope_dim &&
                           a->rope_dim == b->rope_dim && a->v_dim == b->v_dim
                     : a->kv_heads == b->kv_heads && a->head_dim == b->head_dim) &&
         ((a->experts && !a->dense_layers) || a->ffn == b->ffn) && a->experts == b->experts &&
         a->topk == b->topk && a->expert_ffn == b->expert_ffn && a->shared_ffn == b->shared_ffn &&
         a->dense_layers == b->dense_layers && a->latent == b->latent &&
         (!p->mtp || a->predict_layers == b->predict_layers) && x->heads == y->heads &&
         x->head_dim == y->head_dim && x->state == y->state && x->groups == y->groups &&
         x->conv == y->conv && strcmp(a->pattern, b->pattern) == 0 && a->tied == b->tied &&
         a->qkv_bias == b->qkv_bias && a->bias == b->bias && a->qk_norm == b->qk_norm &&
         a->out_gate == b->out_gate && a->gated == b->gated && a->squared == b->squared &&
         (!drops || (a->drop_attention == b->drop_attention && a->drop_hidden == b->drop_hidden));
}

enum pz_status pz_launch_comments_read(const char *text, size_t bytes, struct pz_arena *arena,
                                       struct pz_run_plan *run, struct pz_error *err) {
  static const char library[] = " attention_library=", imbalance[] = " imbalance=";
  char head[1024];
  struct pz_model_shape own, read;
  struct pz_plan *p = &run->plan;
  size_t n = bytes < sizeof head ? bytes : sizeof head - 1, start = sizeof script_head - 1;
  memcpy(head, text, n);
  head[n] = '\0';
  char *end = strstr(head, "\n#\n"), *name = head + start;
  if (strncmp(head, script_head, start) != 0 || !end) return PZ_OK;
  *end = '\0';
  const char *unset = strstr(head, not_set);
  const char *kernels = unset ? strstr(unset, library) : NULL;
  const char *uneven = unset ? strstr(unset, imbalance) : NULL;
  /* the words of flash attention are those of FlashAttention 2 and 3, or name none */
  bool open = p->attention != PZ_ATTENTION_STANDARD &&
              (!p->attention_library || strcmp(p->attention_library, "fa2") == 0);
  if (kernels && open) {
    kernels += sizeof library - 1;
    p->attention_library = pz_arena_printf(arena, "%.*s", (int)strcspn(kernels, " \n"), kernels);
    if (!p->attention_library) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the script");
    run->from[PZ_PLAN_ATTENTION_LIBRARY] = "a comment";
  }
  if (uneven && p->imbalance == 0) {
    p->imbalance = strtod(uneven + sizeof imbalance - 1, NULL);
    run->from[PZ_PLAN_IMBALANCE] = "a comment";
  }
  char *with = strstr(name, " with ");
  if (with) *with = '\0';
  char *before =
      with ? strrchr(name, '\n') : NULL; /* a line that the plan does not fit in memory */
  if (before) name = before + sizeof "\n# " - 1;
  const char *preset = with && run->config ? pz_preset_named(name) : NULL;
  if (!preset) return PZ_OK;
  enum pz_status status = pz_model_shape_load(preset, &own, err);
  if (status == PZ_OK)
    status = pz_model_shape_parse(preset, run->config, strlen(run->config), &read, err);
  if (status == PZ_OK && is_same_shape(&own, &read, p)) {
    run->model = preset;
    run->config = NULL;
  }
  return status == PZ_NO_MEMORY ? status : PZ_OK; /* of other models no script is known */
}

/* ---- for programs --------------------------------------------------------------------------- */

/* Position of a framework among the names; 0: no scripts are written for it. */
static int launch_find(int framework) {
  for (int i = 1; pz_launch_names[i]; i++)
    if (pz_framework_find(pz_launch_names[i]) == framework) return i;
  return 0;
}

static const char *launch_name(const void *ctx, size_t i) {
  (void)ctx;
  return pz_launch_names[i + 1];
}

enum pz_status pz_launch_check(const char *model, const struct pz_chip *chip, int framework,
                               struct pz_error *err) {
  struct pz_model_shape shape;
  char names[80];
  int i = launch_find(framework);
  enum pz_status status = pz_need_each(err, {model, "model"}, {chip, "chip"});
  if (status != PZ_OK) return status;
  if (!i)
    return pz_fail(err, PZ_BAD_USE, "no script is written for this framework; accepted: %s",
                   pz_text_join(names, sizeof names, launch_name, NULL));
  if (chip->execution != PZ_CHIP_STREAM)
    return pz_fail(err, PZ_NO_ANSWER, "no script: %s runs on GPUs, %s is none", pz_launch_names[i],
                   chip->name);
  return pz_model_shape_load(model, &shape, err);
}

enum pz_status pz_launch_text(const char *model, const struct pz_chip *chip,
                              const struct pz_cluster *net, const struct pz_plan *plan, char **text,
                              struct pz_error *err) {
  struct pz_launch l;
  struct pz_plan p = pz_plan_default();
  enum pz_status status = pz_sized_take(&p, sizeof p, plan, "pz_plan_default", err);
  if (status == PZ_OK) status = pz_need(text, "text", err);
  if (status == PZ_OK) status = pz_launch_check(model, chip, p.framework, err);
  if (status == PZ_OK) status = pz_plan_check_ranges(&p, err);
  if (status == PZ_OK) status = pz_plan_check_stages(&p, err);
  if (status == PZ_OK) status = pz_launch_fill(model, &p, net, &l, err);
  if (status == PZ_OK) l.blackwell = pz_chip_has_nvfp4(chip);
  return status == PZ_OK ? pz_launch_script(launch_find(p.framework), &l, text, err) : status;
}
