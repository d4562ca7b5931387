#!/usr/bin/env bash
# does not fit in memory: 306.2 GB needed, 81.5 of 85.9 GB usable
# llama3-405b with Megatron-LM: 8 nodes x 8 GPUs, batch 256 x 8192 tokens
# tp 8 sp, pp 4 x 4, dp 2, mbs 1, zero 0, recompute none
#
# Run it on every node with NODE_RANK and MASTER_ADDR set, or once under Slurm:
#   srun --nodes=8 --ntasks-per-node=1 --gpus-per-node=8 bash SCRIPT
set -euo pipefail

if [[ -n ${SLURM_JOB_NODELIST:-} ]]; then
  NODE_RANK=${NODE_RANK:-${SLURM_NODEID:?run this script with srun}}
  MASTER_ADDR=${MASTER_ADDR:-$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)}
fi
NODE_RANK=${NODE_RANK:?set it to the number of this node, from 0}
MASTER_ADDR=${MASTER_ADDR:?set it to the address of node 0}
MASTER_PORT=${MASTER_PORT:-29500}
MEGATRON_PATH=${MEGATRON_PATH:?set it to the folder of Megatron-LM}
CHECKPOINT_PATH=${CHECKPOINT_PATH:?set it to a folder for checkpoints}
export CUDA_DEVICE_MAX_CONNECTIONS=${CUDA_DEVICE_MAX_CONNECTIONS:-1}

MODEL_ARGS=(
  --num-layers 126
  --hidden-size 16384
  --ffn-hidden-size 53248
  --num-attention-heads 128
  --group-query-attention
  --num-query-groups 8
  --kv-channels 128
  --attention-backend auto
  --max-position-embeddings 131072
  --position-embedding-type rope
  --rotary-base 500000
  --normalization RMSNorm
  --norm-epsilon 1e-05
  --swiglu
  --disable-bias-linear
  --untie-embeddings-and-output-weights
  --attention-dropout 0
  --hidden-dropout 0
)

PARALLEL_ARGS=(
  --tensor-model-parallel-size 8
  --sequence-parallel
  --pipeline-model-parallel-size 4
  --num-virtual-stages-per-pipeline-rank 4
  --account-for-embedding-in-pipeline-split
  --account-for-loss-in-pipeline-split
  --context-parallel-size 1
  --no-overlap-p2p-communication
)

TRAINING_ARGS=(
  --micro-batch-size 1
  --global-batch-size 256
  --seq-length 8192
  --train-iters "${TRAIN_ITERS:-1000}"
  --lr "${LR:-1e-4}"
  --min-lr "${MIN_LR:-1e-5}"
  --lr-decay-style cosine
  --lr-warmup-fraction "${WARMUP_FRACTION:-0.01}"
  --weight-decay 0.1
  --adam-beta2 0.95
  --clip-grad 1.0
  --bf16
  --make-vocab-size-divisible-by 128
  --log-interval 1
  --eval-iters 0
  --save "$CHECKPOINT_PATH"
  --load "$CHECKPOINT_PATH"
  --save-interval 1000
)

if [[ ${MOCK_DATA:-0} == 1 ]]; then
  DATA_ARGS=(--mock-data --tokenizer-type NullTokenizer --vocab-size 128256)
else
  : "${DATA_PATH:?set it to the prefix of a .bin and .idx data set, or MOCK_DATA to 1}"
  : "${TOKENIZER:?set it to a Hugging Face tokenizer, or MOCK_DATA to 1}"
  DATA_ARGS=(--data-path "$DATA_PATH" --split '99,1,0'
    --tokenizer-type HuggingFaceTokenizer --tokenizer-model "$TOKENIZER" --vocab-size 128256)
fi

exec torchrun --nnodes 8 --nproc-per-node 8 --node-rank "$NODE_RANK" \
  --master-addr "$MASTER_ADDR" --master-port "$MASTER_PORT" \
  "$MEGATRON_PATH/pretrain_gpt.py" \
  "${MODEL_ARGS[@]}" "${PARALLEL_ARGS[@]}" "${TRAINING_ARGS[@]}" "${DATA_ARGS[@]}"
