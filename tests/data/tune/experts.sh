torchrun --nnodes 4 --nproc_per_node 8 pretrain_gpt.py \
  --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 --group-query-attention --num-query-groups 8 \
  --num-experts 8 --moe-router-topk 2 --moe-grouped-gemm --moe-token-dispatcher-type alltoall --moe-router-load-balancing-type aux_loss \
  --expert-model-parallel-size 8 --tensor-model-parallel-size 2 --sequence-parallel --expert-tensor-parallel-size 1 \
  --swiglu --normalization RMSNorm --position-embedding-type rope --disable-bias-linear --untie-embeddings-and-output-weights \
  --hidden-dropout 0 --attention-dropout 0 --seq-length 4096 --max-position-embeddings 32768 --vocab-size 32000 --bf16 \
  --micro-batch-size 1 --global-batch-size 256 --use-distributed-optimizer --recompute-granularity selective --recompute-modules moe_act layernorm
