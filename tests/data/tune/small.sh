torchrun --nproc_per_node 2 pretrain_gpt.py --num-layers 2 --hidden-size 256 --num-attention-heads 2 \
  --seq-length 64 --vocab-size 1000 --micro-batch-size 1 --global-batch-size 4 --bf16 --new-argument
