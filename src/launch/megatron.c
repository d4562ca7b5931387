/* Megatron-LM: pretrain_gpt.py with its arguments. */
#include <inttypes.h>

#include "launch/megatron_core.h"

static void put(FILE *out, const char *flag, int64_t value) {
  fprintf(out, "  %s %" PRId64 "\n", flag, value);
}

static void put_plan(const struct pz_launch *l, enum pz_plan_field f, FILE *out) {
  pz_launch_number(l, f, PZ_LAUNCH_MEGATRON, "  ", " ", out);
}

static void put_if(FILE *out, bool on, const char *flags) {
  if (on) fprintf(out, "  %s\n", flags);
}

/* ---- the model ------------------------------------------------------------------------------ */

static void put_experts(const struct pz_launch *l, FILE *out) {
  const struct pz_model_shape *s = &l->shape;
  bool v3 = s->family == PZ_SHAPE_DEEPSEEK_V3;
  put(out, "--num-experts", s->experts);
  put(out, "--moe-router-topk", s->topk);
  put(out, "--moe-ffn-hidden-size", s->expert_ffn);
  if (s->shared_ffn) put(out, "--moe-shared-expert-intermediate-size", s->shared_ffn);
  fputs("  --moe-layer-freq '", out);
  pz_core_expert_layers(l, out);
  fputs("'\n  --moe-grouped-gemm\n  --moe-token-dispatcher-type alltoall\n", out);
  fprintf(out, "  --moe-router-load-balancing-type %s\n  --moe-aux-loss-coeff %s\n",
          v3 ? "seq_aux_loss" : "aux_loss", v3 ? "1e-4" : "1e-2");
  if (v3) fputs("  --moe-router-score-function sigmoid\n  --moe-router-enable-expert-bias\n", out);
  put_if(out, v3 || s->topk == 1, "--moe-router-pre-softmax");
  if (v3) fprintf(out, "  --moe-router-topk-scaling-factor %.10g\n", s->routed_scale);
  if (s->groups > 1) {
    put(out, "--moe-router-num-groups", s->groups);
    put(out, "--moe-router-group-topk", s->group_topk);
  }
}

static void put_latent(const struct pz_model_shape *s, FILE *out) {
  fputs("  --multi-latent-attention\n", out);
  if (s->q_rank) put(out, "--q-lora-rank", s->q_rank);
  put(out, "--kv-lora-rank", s->kv_rank);
  put(out, "--qk-head-dim", s->nope_dim);
  put(out, "--qk-pos-emb-head-dim", s->rope_dim);
  put(out, "--v-head-dim", s->v_dim);
  if (s->rope == PZ_ROPE_YARN)
    fprintf(out,
            "  --rope-type yarn\n  --rotary-scaling-factor %.10g\n  --mscale %.10g\n"
            "  --mscale-all-dim %.10g\n",
            s->rope_factor, s->rope_mscale, s->rope_mscale_all);
  else
    fputs("  --rope-type rope\n  --no-rope-fusion\n", out); /* fused with yarn alone */
}

static void put_attention(const struct pz_launch *l, FILE *out) {
  const struct pz_model_shape *s = &l->shape;
  put(out, "--num-attention-heads", s->heads);
  if (s->kv_rank) {
    put_latent(s, out);
  } else {
    if (s->kv_heads != s->heads) {
      fputs("  --group-query-attention\n", out);
      put(out, "--num-query-groups", s->kv_heads);
    }
    put(out, "--kv-channels", s->head_dim);
  }
  put_if(out, s->qk_norm, "--qk-layernorm");
  fprintf(out, "  --attention-backend %s\n", pz_core_attention(l));
}

static void put_positions(const struct pz_launch *l, FILE *out) {
  const struct pz_model_shape *s = &l->shape;
  int64_t most = s->positions > l->plan.seq ? s->positions : l->plan.seq;
  double factor = pz_shape_rope_factor(s, l->plan.seq);
  put(out, "--max-position-embeddings", most);
  if (s->rotary_base > 0) {
    fputs("  --position-embedding-type rope\n", out);
    put(out, "--rotary-base", (int64_t)s->rotary_base);
    if (factor > 0) fprintf(out, "  --use-rope-scaling\n  --rope-scaling-factor %.10g\n", factor);
  } else {
    fputs("  --position-embedding-type learned_absolute\n", out);
  }
}

static void put_model(const struct pz_launch *l, FILE *out) {
  const struct pz_model_shape *s = &l->shape;
  fputs("MODEL_ARGS=(\n", out);
  put(out, "--num-layers", s->layers);
  put(out, "--hidden-size", s->hidden);
  put(out, "--ffn-hidden-size", s->ffn);
  put_attention(l, out);
  put_positions(l, out);
  fprintf(out, "  --normalization %s\n  --norm-epsilon %.10g\n", s->gated ? "RMSNorm" : "LayerNorm",
          s->norm_eps);
  put_if(out, s->gated, "--swiglu");
  put_if(out, !s->bias, "--disable-bias-linear");
  put_if(out, !s->bias && s->qkv_bias, "--add-qkv-bias");
  put_if(out, !s->tied, "--untie-embeddings-and-output-weights");
  fprintf(out, "  --attention-dropout %.10g\n  --hidden-dropout %.10g\n",
          pz_launch_drop(l, s->drop_attention), pz_launch_drop(l, s->drop_hidden));
  if (s->experts) put_experts(l, out);
  if (pz_core_predict_layers(l)) put(out, "--mtp-num-layers", pz_core_predict_layers(l));
  fputs(")\n\n", out);
}

/* ---- the plan ------------------------------------------------------------------------------- */

static void put_division(const struct pz_launch *l, FILE *out) {
  enum pz_core_division d = pz_core_division(l);
  if (d == PZ_CORE_LAYOUT) {
    fputs("  --pipeline-model-parallel-layout '", out);
    pz_core_layout(l, out);
    fputs("'\n", out);
    return;
  }
  if (d == PZ_CORE_ENDS) {
    put_plan(l, PZ_PLAN_FIRST_LAYERS, out);
    put_plan(l, PZ_PLAN_LAST_LAYERS, out);
  }
  if (d == PZ_CORE_LAYERS)
    fputs("  --account-for-embedding-in-pipeline-split\n  --account-for-loss-in-pipeline-split\n",
          out);
  if (l->plan.vpp > 1) put_plan(l, PZ_PLAN_VPP, out);
}

static void put_sharding(const struct pz_launch *l, FILE *out) {
  const struct pz_plan *p = &l->plan;
  const char *fsdp = pz_core_sharding(l);
  put_if(out, p->zero > 0, "--use-distributed-optimizer");
  if (fsdp)
    fprintf(out,
            "  --use-megatron-fsdp\n  --data-parallel-sharding-strategy %s\n"
            "  --no-gradient-accumulation-fusion\n  --init-model-with-meta-device\n"
            "  --ckpt-format fsdp_dtensor\n",
            fsdp);
  if (p->zero && p->shard < pz_plan_replicas(p))
    put(out, "--num-distributed-optimizer-instances", pz_plan_replicas(p) / p->shard);
}

static void put_parallel(const struct pz_launch *l, FILE *out) {
  const struct pz_plan *p = &l->plan;
  fputs("PARALLEL_ARGS=(\n", out);
  put_plan(l, PZ_PLAN_TP, out);
  put_if(out, p->sp, "--sequence-parallel");
  put_plan(l, PZ_PLAN_PP, out);
  put_division(l, out);
  put_plan(l, PZ_PLAN_CP, out);
  if (p->cp > 1)
    fprintf(out, "  --cp-comm-type %s\n", p->cp_form == PZ_CONTEXT_ALL_TO_ALL ? "a2a" : "p2p");
  if (l->shape.experts) {
    put_plan(l, PZ_PLAN_EP, out);
    put_plan(l, PZ_PLAN_ETP, out);
  }
  put_sharding(l, out);
  put_if(out, pz_plan_overlaps(&l->plan, PZ_OVERLAP_GRAD), "--overlap-grad-reduce");
  put_if(out, pz_plan_overlaps(&l->plan, PZ_OVERLAP_PARAM), "--overlap-param-gather");
  put_if(out, pz_plan_overlaps(&l->plan, PZ_OVERLAP_TP), "--tp-comm-overlap");
  put_if(out, pz_plan_overlaps(&l->plan, PZ_OVERLAP_EP), "--overlap-moe-expert-parallel-comm");
  put_if(out, p->vpp > 1 && !pz_plan_overlaps(&l->plan, PZ_OVERLAP_P2P),
         "--no-overlap-p2p-communication");
  fputs(")\n\n", out);
}

static void put_training(const struct pz_launch *l, FILE *out) {
  const struct pz_plan *p = &l->plan;
  fputs("TRAINING_ARGS=(\n", out);
  put_plan(l, PZ_PLAN_MBS, out);
  put_plan(l, PZ_PLAN_BATCH, out);
  put_plan(l, PZ_PLAN_SEQ, out);
  fputs("  --train-iters \"${TRAIN_ITERS:-1000}\"\n"
        "  --lr \"${LR:-1e-4}\"\n  --min-lr \"${MIN_LR:-1e-5}\"\n  --lr-decay-style cosine\n"
        "  --lr-warmup-fraction \"${WARMUP_FRACTION:-0.01}\"\n"
        "  --weight-decay 0.1\n  --adam-beta2 0.95\n  --clip-grad 1.0\n  --bf16\n",
        out);
  put_if(out, p->precision == PZ_PRECISION_FP8, "--fp8-format hybrid\n  --fp8-recipe tensorwise");
  put_if(out, p->grad_bytes == 2, "--grad-reduce-in-bf16");
  if (p->recompute == PZ_RECOMPUTATION_SELECTIVE) {
    fputs("  --recompute-granularity selective\n  --recompute-modules ", out);
    pz_core_modules(l, "", " ", out);
    fputc('\n', out);
  }
  if (p->recompute == PZ_RECOMPUTATION_FULL) {
    fprintf(out, "  --recompute-granularity full\n  --recompute-method %s\n",
            p->recompute_layers ? "block" : "uniform");
    put(out, "--recompute-num-layers", p->recompute_layers ? p->recompute_layers : 1);
  }
  put_if(out, p->execution == PZ_EXECUTION_GRAPH, "--cuda-graph-impl local");
  fputs("  --log-interval 1\n  --eval-iters 0\n"
        "  --save \"$CHECKPOINT_PATH\"\n  --load \"$CHECKPOINT_PATH\"\n  --save-interval 1000\n"
        ")\n\n",
        out);
}

static void put_data(const struct pz_launch *l, FILE *out) {
  fprintf(
      out,
      "if [[ ${MOCK_DATA:-0} == 1 ]]; then\n"
      "  DATA_ARGS=(--mock-data --tokenizer-type NullTokenizer --vocab-size %" PRId64 ")\n"
      "else\n"
      "  : \"${DATA_PATH:?set it to the prefix of a .bin and .idx data set, or MOCK_DATA to 1}\"\n"
      "  : \"${TOKENIZER:?set it to a Hugging Face tokenizer, or MOCK_DATA to 1}\"\n"
      "  DATA_ARGS=(--data-path \"$DATA_PATH\" --split '99,1,0'\n"
      "    --tokenizer-type HuggingFaceTokenizer --tokenizer-model \"$TOKENIZER\" --vocab-size "
      "%" PRId64 ")\n"
      "fi\n\n",
      l->shape.vocab, l->shape.vocab);
}

void pz_launch_megatron(const struct pz_launch *l, FILE *out) {
  pz_launch_head(l, "Megatron-LM", out);
  pz_launch_need(out, "MEGATRON_PATH", "the folder of Megatron-LM");
  pz_launch_need(out, "CHECKPOINT_PATH", "a folder for checkpoints");
  pz_core_environment(l, out);
  put_model(l, out);
  put_parallel(l, out);
  put_training(l, out);
  put_data(l, out);
  pz_launch_torchrun(l, out);
  fputs("  \"$MEGATRON_PATH/pretrain_gpt.py\" \\\n"
        "  \"${MODEL_ARGS[@]}\" \"${PARALLEL_ARGS[@]}\" \"${TRAINING_ARGS[@]}\" "
        "\"${DATA_ARGS[@]}\"\n",
        out);
}
