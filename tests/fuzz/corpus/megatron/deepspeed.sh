#!/usr/bin/env bash
# gpt2-xl with Megatron-DeepSpeed: 2 nodes x 8 GPUs, batch 64 x 1024 tokens
# tp 1, pp 1, dp 16, mbs 1, zero 3, recompute none
#
# Run it on every node with NODE_RANK and MASTER_ADDR set, or once under Slurm:
#   srun --nodes=2 --ntasks-per-node=1 --gpus-per-node=8 bash SCRIPT
set -euo pipefail

if [[ -n ${SLURM_JOB_NODELIST:-} ]]; then
  NODE_RANK=${NODE_RANK:-${SLURM_NODEID:?run this script with srun}}
  MASTER_ADDR=${MASTER_ADDR:-$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)}
fi
NODE_RANK=${NODE_RANK:?set it to the number of this node, from 0}
MASTER_ADDR=${MASTER_ADDR:?set it to the address of node 0}
MASTER_PORT=${MASTER_PORT:-29500}
MEGATRON_DEEPSPEED_PATH=${MEGATRON_DEEPSPEED_PATH:?set it to the folder of Megatron-DeepSpeed}
DATA_PATH=${DATA_PATH:?set it to the prefix of a .bin and .idx data set}
TOKENIZER=${TOKENIZER:?set it to a Hugging Face tokenizer}
CHECKPOINT_PATH=${CHECKPOINT_PATH:?set it to a folder for checkpoints}
RUN_PATH=${RUN_PATH:-$(mktemp -d)}
export CUDA_DEVICE_MAX_CONNECTIONS=${CUDA_DEVICE_MAX_CONNECTIONS:-1}

cat > "$RUN_PATH/deepspeed.json" <<'EOF'
{
  "train_batch_size": 64,
  "train_micro_batch_size_per_gpu": 1,
  "gradient_accumulation_steps": 4,
  "steps_per_print": 10,
  "gradient_clipping": 1.0,
  "communication_data_type": "bf16",
  "data_types": {"grad_accum_dtype": "fp32"},
  "bf16": {"enabled": true},
  "zero_optimization": {
    "stage": 3,
    "overlap_comm": false,
    "stage3_prefetch_bucket_size": 0
  }
}
EOF

MODEL_ARGS=(
  --num-layers 48
  --hidden-size 1600
  --ffn-hidden-size 6400
  --num-attention-heads 25
  --num-key-value-heads 25
  --kv-channels 64
  --max-position-embeddings 1024
  --normalization layernorm
  --layernorm-epsilon 1e-05
  --attention-dropout 0.1
  --hidden-dropout 0.1
  --no-query-key-layer-scaling
  --use-flash-attn-v2
)

PARALLEL_ARGS=(
  --tensor-model-parallel-size 1
  --pipeline-model-parallel-size 1
  --no-pipeline-parallel
  --zero-stage 3
  --deepspeed
  --deepspeed_config "$RUN_PATH/deepspeed.json"
  --distributed-backend nccl
)

TRAINING_ARGS=(
  --micro-batch-size 1
  --global-batch-size 64
  --seq-length 1024
  --train-iters "${TRAIN_ITERS:-1000}"
  --lr "${LR:-1e-4}"
  --min-lr "${MIN_LR:-1e-5}"
  --lr-decay-style cosine
  --lr-warmup-fraction "${WARMUP_FRACTION:-0.01}"
  --weight-decay 0.1
  --adam-beta2 0.95
  --clip-grad 1.0
  --bf16
  --data-path "$DATA_PATH"
  --split '99,1,0'
  --tokenizer-type HFTokenizer
  --tokenizer-model "$TOKENIZER"
  --vocab-size 50257
  --make-vocab-size-divisible-by 128
  --log-interval 1
  --eval-iters 0
  --save "$CHECKPOINT_PATH"
  --load "$CHECKPOINT_PATH"
  --save-interval 1000
)

exec torchrun --nnodes 2 --nproc-per-node 8 --node-rank "$NODE_RANK" \
  --master-addr "$MASTER_ADDR" --master-port "$MASTER_PORT" \
  "$MEGATRON_DEEPSPEED_PATH/pretrain_gpt.py" \
  "${MODEL_ARGS[@]}" "${PARALLEL_ARGS[@]}" "${TRAINING_ARGS[@]}"
