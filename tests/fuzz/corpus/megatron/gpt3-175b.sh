#!/bin/bash
# A GPT-3 of 175 billion parameters on 16 nodes.
export CUDA_DEVICE_MAX_CONNECTIONS=1
GPUS_PER_NODE=8
NUM_NODES=${NUM_NODES:-16}
WORLD_SIZE=$(($GPUS_PER_NODE*$NUM_NODES))
LAUNCH=(
    --nproc_per_node $GPUS_PER_NODE
    --nnodes $NUM_NODES
    --master_addr "$MASTER_ADDR"
    --master_port 6000
)
MODEL=(
    --num-layers 96
    --hidden-size 12288
    --num-attention-heads 96
    --seq-length 2048
    --max-position-embeddings 2048
)
TRAINING=(
    --micro-batch-size 1
    --global-batch-size 256   # samples
    --train-iters 500000
    --lr 6.0e-5
    --lr-decay-style cosine
    --clip-grad 1.0
    --bf16
    --recompute-granularity full --recompute-method uniform --recompute-num-layers 1
)
PARALLEL=(
    --tensor-model-parallel-size 8
    --pipeline-model-parallel-size 16
)
DATA="--data-path $1 --tokenizer-type GPT2BPETokenizer --vocab-file gpt2-vocab.json --merge-file gpt2-merges.txt"
torchrun ${LAUNCH[@]} pretrain_gpt.py "${MODEL[@]}" ${TRAINING[@]} \
    ${PARALLEL[@]} \
    $DATA --log-interval 100
