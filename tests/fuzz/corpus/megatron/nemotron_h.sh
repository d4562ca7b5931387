#!/usr/bin/env bash
# does not fit in memory: 215.6 GB needed, 186.7 of 193.3 GB usable
# nemotron-3-super with Megatron-LM: 8 nodes x 8 GPUs, batch 512 x 8192 tokens
# tp 1, ep 16, pp 4, dp 16, mbs 1, zero 0, recompute none
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
  --num-layers 88
  --hidden-size 4096
  --ffn-hidden-size 2688
  --num-attention-heads 32
  --group-query-attention
  --num-query-groups 2
  --kv-channels 128
  --attention-backend auto
  --max-position-embeddings 262144
  --position-embedding-type none
  --normalization RMSNorm
  --norm-epsilon 1e-05
  --squared-relu
  --spec megatron.core.models.hybrid.hybrid_layer_specs hybrid_stack_spec
  --hybrid-layer-pattern 'MEMEMEM*EMEMEMEM*EMEME|MEM*EMEMEMEMEM*EMEMEME|MEM*EMEMEMEMEM*EMEMEME|MEM*EMEMEMEM*EMEMEMEME/*E'
  --mamba-num-heads 128
  --mamba-head-dim 64
  --mamba-state-dim 128
  --mamba-num-groups 8
  --disable-bias-linear
  --untie-embeddings-and-output-weights
  --attention-dropout 0
  --hidden-dropout 0
  --num-experts 512
  --moe-router-topk 22
  --moe-ffn-hidden-size 2688
  --moe-latent-size 1024
  --moe-shared-expert-intermediate-size 5376
  --moe-layer-freq 1
  --use-fused-weighted-squared-relu
  --moe-grouped-gemm
  --moe-token-dispatcher-type alltoall
  --moe-router-load-balancing-type seq_aux_loss
  --moe-aux-loss-coeff 0.0001
  --moe-router-dtype fp32
  --moe-router-score-function sigmoid
  --moe-router-enable-expert-bias
  --moe-router-topk-scaling-factor 5
  --mtp-num-layers 1
)

PARALLEL_ARGS=(
  --tensor-model-parallel-size 1
  --pipeline-model-parallel-size 4
  --context-parallel-size 1
  --expert-model-parallel-size 16
  --expert-tensor-parallel-size 1
)

TRAINING_ARGS=(
  --micro-batch-size 1
  --global-batch-size 512
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
  DATA_ARGS=(--mock-data --tokenizer-type NullTokenizer --vocab-size 131072)
else
  : "${DATA_PATH:?set it to the prefix of a .bin and .idx data set, or MOCK_DATA to 1}"
  : "${TOKENIZER:?set it to a Hugging Face tokenizer, or MOCK_DATA to 1}"
  DATA_ARGS=(--data-path "$DATA_PATH" --split '99,1,0'
    --tokenizer-type HuggingFaceTokenizer --tokenizer-model "$TOKENIZER" --vocab-size 131072)
fi

exec torchrun --nnodes 8 --nproc-per-node 8 --node-rank "$NODE_RANK" \
  --master-addr "$MASTER_ADDR" --master-port "$MASTER_PORT" \
  "$MEGATRON_PATH/pretrain_hybrid.py" \
  "${MODEL_ARGS[@]}" "${PARALLEL_ARGS[@]}" "${TRAINING_ARGS[@]}" "${DATA_ARGS[@]}"
