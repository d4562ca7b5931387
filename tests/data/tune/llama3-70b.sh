#!/bin/bash
#SBATCH --job-name=llama3-70b
#SBATCH --nodes=8
#SBATCH --gpus-per-node=8
#SBATCH --time=04:00:00
# Llama 3 of 70 billion parameters.
TP=8
PP=4
SEQ=8192
ARGS=" \
  --use-mcore-models --transformer-impl transformer_engine \
  --num-layers 80 --hidden-size 8192 --ffn-hidden-size 28672 \
  --num-attention-heads 64 --group-query-attention --num-query-groups 8 \
  --swiglu --normalization RMSNorm --disable-bias-linear \
  --position-embedding-type rope --rotary-base 500000 \
  --untie-embeddings-and-output-weights --attention-dropout 0 --hidden-dropout 0 \
  --seq-length ${SEQ} --max-position-embeddings ${SEQ} \
  --tokenizer-type HuggingFaceTokenizer --tokenizer-model meta-llama/Meta-Llama-3-70B \
  --tensor-model-parallel-size ${TP} --pipeline-model-parallel-size ${PP} --sequence-parallel \
  --num-layers-per-virtual-pipeline-stage 5 \
  --micro-batch-size 1 --global-batch-size 128 \
  --bf16 --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather \
  --cross-entropy-loss-fusion --no-masked-softmax-fusion \
  --train-samples 1000000 --lr 1.5e-4 --min-lr 1.5e-5 --weight-decay 0.1 \
"
srun --ntasks-per-node=1 bash -c "torchrun --nnodes=$SLURM_NNODES --nproc_per_node=8 --rdzv_endpoint=$HEAD:29500 pretrain_gpt.py $ARGS"
