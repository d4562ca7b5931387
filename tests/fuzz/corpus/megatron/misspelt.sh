# An argument with one of its words in another order.
torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 24 --hidden-size 1024 --num-attention-heads 16 \
  --seq-length 1024 --max-position-embeddings 1024 --vocab-size 50257 --micro-batch-size 4 --bf16 \
  --tensor-modle-parallel-size 4
