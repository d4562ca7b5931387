/* Launch scripts for all frameworks.
 *
 * pz_launch_text() checks the request, pz_launch_fill() derives the number of nodes, and
 * pz_launch_script() calls the framework's writer.  The functions pz_write_...() write parts of
 * a script that several writers share.  pz_launch_comments_read() reads the comments that
 * pz_write_script_head() writes.  plan/framework_rules.h decides what the frameworks can run. */
#include "launch/launch.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "chip/chip.h"
#include "core/num.h"
#include "core/text.h"

const char *const pz_launch_names[] = {"none", "megatron", "torchtitan", "nemo", "deepspeed", NULL};

/* The writer of each framework of pz_launch_names. */
static pz_script_writer *const writers[] = {NULL, pz_write_megatron_script,
                                            pz_write_torchtitan_script, pz_write_nemo_script,
                                            pz_write_deepspeed_script};

enum {
  DEFAULT_NODE_DEVICES = 8, /* if no cluster is given */
  /* 72 devices that form one NVLink domain are 18 nodes of 4 devices (NVIDIA GB200 NVL72 data
   * sheet) */
  RACK_DEVICES = 72,
  RACK_NODE_DEVICES = 4
};

/* Returns the job of a plan on nodes with equal numbers of devices.  All devices of a node are used
 * if they divide the plan's devices, otherwise the largest power of two, as in the placement: 64 of
 * 72, 4 of 6.  If any number may be used, it is the largest that divides the plan's devices. */
struct pz_launch pz_launch_fill(struct pz_call *call, const char *model, const struct pz_plan *plan,
                                const struct pz_cluster *cluster) {
  struct pz_launch launch = {.model = model, .plan = *plan};
  pz_load_model_shape(call, model, &launch.shape);
  int64_t devices = plan->devices, power_of_two = 1; /* the largest within a node */
  int64_t gpus_per_node = cluster ? pz_cluster_node(cluster) : DEFAULT_NODE_DEVICES;
  while (2 * power_of_two <= gpus_per_node) power_of_two *= 2;
  bool is_rack = gpus_per_node == RACK_DEVICES;
  if (is_rack) gpus_per_node = RACK_NODE_DEVICES;
  if (devices < gpus_per_node) gpus_per_node = devices;
  bool any_number_per_node = !cluster || is_rack;
  while (any_number_per_node && devices % gpus_per_node) gpus_per_node--;
  if (devices % gpus_per_node && devices % power_of_two == 0) gpus_per_node = power_of_two;
  if (devices % gpus_per_node)
    pz_raise(call, PZ_BAD_USE,
             "%" PRId64 " devices on nodes of %" PRId64 "; accepted: multiples of %" PRId64,
             devices, gpus_per_node, gpus_per_node);
  launch.gpus_per_node = gpus_per_node;
  launch.nodes = devices / gpus_per_node;
  return launch;
}

/* Writes a line with a field of the plan under its name for a launcher. */
void pz_write_plan_field(const struct pz_launch *launch, enum pz_plan_field field,
                         enum pz_launcher launcher, FILE *out) {
  char value[PZ_FIELD_TEXT_MOST];
  fprintf(out, launcher == PZ_LAUNCH_BRIDGE ? "model.%s = %s\n" : "  %s %s\n",
          pz_plan_field(field)->in[launcher],
          pz_plan_field_text(&launch->plan, field, value, sizeof value));
}

void pz_write_if(FILE *out, bool condition, const char *arguments) {
  if (condition) fprintf(out, "  %s\n", arguments);
}

/* ---- the script ----------------------------------------------------------------------------- */

/* The beginnings of the comments that pz_launch_comments_read() recognises. */
static const char script_head[] = "#!/usr/bin/env bash\n# ";
static const char not_set[] = "\n# Not set by this script:";
static const char unset_library[] = " attention_library=", unset_imbalance[] = " imbalance=";

/* Writes a comment with the plan fields that the prediction depends on but no argument sets: the
 * attention library, and the imbalance of tokens among experts. */
static void write_unset_fields(const struct pz_launch *launch, FILE *out) {
  const struct pz_plan *plan = &launch->plan;
  const struct pz_framework *framework = pz_plan_framework(plan);
  const char *library = plan->attention_library;
  /* Megatron-DeepSpeed has arguments for FlashAttention 1 and 2, Megatron Core for all libraries
   * but FlashAttention 3, and torchtitan has none, so that it uses its default. */
  bool is_unset_library = strcmp(library, "fa1") != 0 && strcmp(library, "fa2") != 0;
  if (framework->rules == PZ_RULES_CORE)
    is_unset_library = strcmp(library, "fa3") == 0;
  else if (framework->rules == PZ_RULES_TITAN)
    is_unset_library = strcmp(library, framework->plan.attention_library) != 0;
  bool names_library = plan->attention == PZ_ATTENTION_FLASH && is_unset_library;
  bool names_imbalance = launch->shape.experts && plan->imbalance > 1;
  if (!names_library && !names_imbalance) return;
  fputs(not_set + 1, out); /* without its line end */
  if (names_library) fprintf(out, "%s%s", unset_library, library);
  if (names_imbalance) fprintf(out, "%s%.17g", unset_imbalance, plan->imbalance);
  fputc('\n', out);
}

/* Writes a script's first comments, which describe it, and the variables of its nodes. */
void pz_write_script_head(const struct pz_launch *launch, const char *framework, FILE *out) {
  const struct pz_plan *plan = &launch->plan;
  char text[PZ_PLAN_TEXT_MOST], model[400];
  pz_text_plain(pz_text_copy(model, sizeof model, launch->model)); /* cannot end the comment */
  fprintf(out,
          "%s%s with %s: %" PRId64 " node%s x %" PRId64 " GPU%s, batch %" PRId64 " x %" PRId64
          " tokens\n# %s\n",
          script_head, model, framework, launch->nodes, pz_text_s((double)launch->nodes),
          launch->gpus_per_node, pz_text_s((double)launch->gpus_per_node), plan->batch, plan->seq,
          pz_plan_text(plan, text, sizeof text));
  write_unset_fields(launch, out);
  if (pz_shape_exceeds_positions(&launch->shape, plan->seq))
    fprintf(out,
            "# The model has %" PRId64 " rotary positions: they are stretched as Llama 3.1's are, "
            "by a factor of %.10g.\n",
            launch->shape.positions, pz_shape_rope_factor(&launch->shape, plan->seq));
  fprintf(out,
          "#\n"
          "# Run it on every node with NODE_RANK and MASTER_ADDR set, or once under Slurm:\n"
          "#   srun --nodes=%" PRId64 " --ntasks-per-node=1 --gpus-per-node=%" PRId64
          " bash SCRIPT\n"
          "set -euo pipefail\n\n",
          launch->nodes, launch->gpus_per_node);
  if (launch->nodes > 1)
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

void pz_write_required_variable(FILE *out, const char *name, const char *meaning) {
  fprintf(out, "%s=${%s:?set it to %s}\n", name, name, meaning);
}

/* Writes Megatron's arguments of steps, learning rate and optimizer. */
void pz_write_schedule_arguments(const struct pz_launch *launch, FILE *out) {
  fputs("  --train-iters \"${TRAIN_ITERS:-1000}\"\n"
        "  --lr \"${LR:-1e-4}\"\n  --min-lr \"${MIN_LR:-1e-5}\"\n  --lr-decay-style cosine\n"
        "  --lr-warmup-fraction \"${WARMUP_FRACTION:-0.01}\"\n"
        "  --weight-decay 0.1\n  --adam-beta2 0.95\n  --clip-grad 1.0\n",
        out);
  pz_write_if(out, true, launch->plan.precision == PZ_PRECISION_FP16 ? "--fp16" : "--bf16");
}

/* Writes Megatron's arguments of logs and checkpoints, and the end of the list. */
void pz_write_saving_arguments(FILE *out) {
  fputs("  --log-interval 1\n  --eval-iters 0\n"
        "  --save \"$CHECKPOINT_PATH\"\n  --load \"$CHECKPOINT_PATH\"\n  --save-interval 1000\n"
        ")\n\n",
        out);
}

/* Writes the torchrun command up to the program that it runs. */
void pz_write_torchrun(const struct pz_launch *launch, FILE *out) {
  fprintf(out,
          "exec torchrun --nnodes %" PRId64 " --nproc-per-node %" PRId64
          " --node-rank \"$NODE_RANK\" \\\n"
          "  --master-addr \"$MASTER_ADDR\" --master-port \"$MASTER_PORT\" \\\n",
          launch->nodes, launch->gpus_per_node);
}

/* Returns the script for pz_launch_names[i], after checks that the framework can run the plan. */
struct pz_buffer *pz_launch_script(struct pz_call *call, int i, const struct pz_launch *launch) {
  struct pz_launch job = *launch;
  struct pz_error *err = pz_call_error(call);
  job.plan.framework = pz_framework_find(pz_launch_names[i]);
  (void)pz_plan_unify_recompute(&job.plan, launch->shape.layers);
  pz_require_plan(call, &job.plan);
  pz_require_chunks(call, &job.plan, launch->shape.layers);
  bool runs = pz_framework_trains(job.plan.framework, &launch->shape, err) &&
              pz_framework_can_run(&job.plan, &launch->shape, err);
  if (!runs) pz_must(call, PZ_BAD_USE);
  job.plan.framework = launch->plan.framework;
  job.plan.overlap = pz_plan_effective_overlap(&job.plan);
  struct pz_buffer *script = pz_buffer_new(call);
  FILE *out = pz_buffer_open(call, script);
  writers[i](&job, out);
  pz_buffer_flush(call, out);
  return script;
}

/* ---- comments that are read back ------------------------------------------------------------ */

/* Returns whether two model shapes agree in everything that a script's arguments state and that the
 * time of a step depends on.  The feed-forward width is compared unless all layers have experts,
 * dropout if the framework uses it, and prediction layers if the plan runs them. */
static bool is_same_shape(const struct pz_model_shape *a, const struct pz_model_shape *b,
                          const struct pz_plan *plan) {
  const struct pz_recurrence *ssm_a = &a->recurrence, *ssm_b = &b->recurrence;
  bool all_layers_have_experts = a->experts && !a->dense_layers;
  bool same_heads = a->kv_heads == b->kv_heads && a->head_dim == b->head_dim;
  if (a->kv_rank) /* latent attention */
    same_heads = a->q_rank == b->q_rank && a->nope_dim == b->nope_dim &&
                 a->rope_dim == b->rope_dim && a->v_dim == b->v_dim;
  bool same_experts = a->experts == b->experts && a->topk == b->topk &&
                      a->expert_ffn == b->expert_ffn && a->shared_ffn == b->shared_ffn &&
                      a->dense_layers == b->dense_layers && a->latent == b->latent;
  bool same_recurrence = ssm_a->heads == ssm_b->heads && ssm_a->head_dim == ssm_b->head_dim &&
                         ssm_a->state == ssm_b->state && ssm_a->groups == ssm_b->groups &&
                         ssm_a->conv_tokens == ssm_b->conv_tokens &&
                         strcmp(a->pattern, b->pattern) == 0;
  bool same_flags = a->tied == b->tied && a->qkv_bias == b->qkv_bias && a->bias == b->bias &&
                    a->qk_norm == b->qk_norm && a->out_gate == b->out_gate &&
                    a->gated == b->gated && a->squared == b->squared;
  bool same_dropout = a->drop_attention == b->drop_attention && a->drop_hidden == b->drop_hidden;
  return a->family == b->family && a->layers == b->layers && a->hidden == b->hidden &&
         a->heads == b->heads && a->vocab == b->vocab && a->kv_rank == b->kv_rank && same_heads &&
         (all_layers_have_experts || a->ffn == b->ffn) && same_experts && same_recurrence &&
         same_flags && (!plan->mtp || a->predict_layers == b->predict_layers) &&
         (same_dropout || !pz_plan_framework(plan)->dropout);
}

/* Reads the attention library and imbalance from the comment that write_unset_fields() writes,
 * unless the script's arguments state them.  `head` is the text of the script's first comments. */
static void read_unset_fields(struct pz_call *call, const char *head, struct pz_run_plan *run) {
  struct pz_plan *plan = &run->plan;
  const char *comment = strstr(head, not_set);
  if (!comment) return;
  const char *library = strstr(comment, unset_library);
  const char *imbalance = strstr(comment, unset_imbalance);
  /* the arguments for FlashAttention 2 do not exclude version 3 */
  const char *stated = plan->attention_library;
  bool may_differ =
      plan->attention != PZ_ATTENTION_STANDARD && (!stated || strcmp(stated, "fa2") == 0);
  if (library && may_differ) {
    library += sizeof unset_library - 1;
    plan->attention_library = pz_format(call, "%.*s", (int)strcspn(library, " \n"), library);
    run->from[PZ_PLAN_ATTENTION_LIBRARY] = "a comment";
  }
  if (imbalance && plan->imbalance == 0) {
    plan->imbalance = strtod(imbalance + sizeof unset_imbalance - 1, NULL);
    run->from[PZ_PLAN_IMBALANCE] = "a comment";
  }
}

/* Arguments of match_model(). */
struct model_match {
  const char *preset;            /* name of a built-in model */
  const struct pz_run_plan *run; /* a run with a configuration of its model */
  bool is_same;                  /* result: whether both models have the same shape */
};

/* Sets match.is_same if the built-in model has the shape of the run's configuration. */
static void match_model(struct pz_call *call, void *ctx) {
  struct model_match *match = ctx;
  struct pz_model_shape preset_shape, run_shape;
  const char *config = match->run->config;
  pz_load_model_shape(call, match->preset, &preset_shape);
  pz_parse_model_shape(call, match->preset, config, strlen(config), &run_shape);
  match->is_same = is_same_shape(&preset_shape, &run_shape, &match->run->plan);
}

/* Completes a run by the comments at the head of its script, if pz_write_script_head() wrote them:
 * the plan fields that no argument sets, and the built-in model if its shape is the run's. */
void pz_launch_comments_read(struct pz_call *call, const char *text, size_t bytes,
                             struct pz_run_plan *run) {
  char head[1024];
  size_t n = bytes < sizeof head ? bytes : sizeof head - 1, start = sizeof script_head - 1;
  memcpy(head, text, n);
  head[n] = '\0';
  char *end = strstr(head, "\n#\n"); /* an empty comment follows those that are read */
  if (strncmp(head, script_head, start) != 0 || !end) return;
  *end = '\0';
  read_unset_fields(call, head, run);
  char *name = head + start, *with = strstr(name, " with "); /* "MODEL with FRAMEWORK" */
  if (!with || !run->config) return;
  *with = '\0';
  /* the name may follow a line which says that the plan does not fit in memory */
  char *line = strrchr(name, '\n');
  if (line) name = line + sizeof "\n# " - 1;
  const char *preset = pz_preset_named(name);
  if (!preset) return;
  /* any other error means that the models differ: scripts are written for loadable shapes only */
  struct pz_error err = {0};
  struct model_match match = {.preset = preset, .run = run};
  if (pz_border(match_model, &match, &err) != PZ_OK) pz_raise_if_memory(call, &err);
  if (match.is_same) {
    run->model = preset;
    run->config = NULL;
  }
}

/* ---- public functions ----------------------------------------------------------------------- */

/* Returns the i-th framework that scripts are written for, or NULL (pz_name_at). */
static const char *launch_name(const void *ctx, size_t i) {
  (void)ctx;
  return pz_launch_names[i + 1];
}

/* Arguments of pz_launch_check() and pz_launch_text(). */
struct launch_request {
  const char *model;
  const struct pz_chip *chip;
  const struct pz_cluster *cluster;
  const struct pz_plan *plan;
  int framework;
  int name_index; /* set by check_launch(): the framework's position in pz_launch_names */
  char **text;
};

/* Checks that the framework has a writer, the chip is a GPU and the model's shape is loadable. */
static void check_launch(struct pz_call *call, void *ctx) {
  struct launch_request *request = ctx;
  struct pz_model_shape shape;
  char names[80];
  int i = 1; /* pz_launch_names[0] is "none" */
  while (pz_launch_names[i] && pz_framework_find(pz_launch_names[i]) != request->framework) i++;
  request->name_index = i;
  pz_require(call, request->model, "model");
  pz_require(call, request->chip, "chip");
  if (!pz_launch_names[i])
    pz_raise(call, PZ_BAD_USE, "no script is written for this framework; accepted: %s",
             pz_text_join(names, sizeof names, launch_name, NULL));
  if (request->chip->execution != PZ_CHIP_STREAM)
    pz_raise(call, PZ_NO_ANSWER, "no script: %s runs on GPUs, %s is none", pz_launch_names[i],
             request->chip->name);
  pz_load_model_shape(call, request->model, &shape);
}

/* Returns PZ_OK if a script can be written for this model, chip and framework. */
enum pz_status pz_launch_check(const char *model, const struct pz_chip *chip, int framework,
                               struct pz_error *err) {
  struct launch_request request = {.model = model, .chip = chip, .framework = framework};
  return pz_border(check_launch, &request, err);
}

/* Checks a request, derives the nodes from the plan and the cluster, and writes the script. */
static void write_launch(struct pz_call *call, void *ctx) {
  struct launch_request *request = ctx;
  struct pz_plan plan = pz_plan_default();
  pz_require_options(call, &plan, sizeof plan, request->plan, "pz_plan_default");
  pz_require(call, request->text, "text");
  request->framework = plan.framework;
  check_launch(call, request);
  pz_require_plan_ranges(call, &plan);
  pz_require_stage_recompute(call, &plan);
  struct pz_launch launch = pz_launch_fill(call, request->model, &plan, request->cluster);
  launch.blackwell = pz_chip_has_nvfp4(request->chip);
  struct pz_buffer *script = pz_launch_script(call, request->name_index, &launch);
  *request->text = pz_buffer_take(call, script);
}

/* Stores the launch script of a plan on a cluster in *text. */
enum pz_status pz_launch_text(const char *model, const struct pz_chip *chip,
                              const struct pz_cluster *net, const struct pz_plan *plan, char **text,
                              struct pz_error *err) {
  struct launch_request request = {
      .model = model, .chip = chip, .cluster = net, .plan = plan, .text = text};
  return pz_border(write_launch, &request, err);
}
