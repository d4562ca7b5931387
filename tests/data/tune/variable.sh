# A script whose variables come from outside.
torchrun --nnodes $NNODES --nproc_per_node 8 pretrain_gpt.py --num-layers $LAYERS --hidden-size 1024 \
  --num-attention-heads 16 --seq-length 1024 --max-position-embeddings 1024 --vocab-size 50257 \
  --micro-batch-size 4 --global-batch-size 64 --bf16
