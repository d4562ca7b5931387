# Arguments that depend on variables, on the command line and on files.
MODEL_SIZE=${MODEL_SIZE:-1.3B}
TP=1
case $MODEL_SIZE in
  345M) LAYERS=24 HIDDEN=1024 HEADS=16 ;;
  1.3B) LAYERS=24 HIDDEN=2048 HEADS=16 ;;
  *) echo "unknown size $MODEL_SIZE"; exit 1 ;;
esac
while [[ $# -gt 0 ]]; do
  case $1 in
    --tp) TP=$2; shift 2 ;;
    *) break ;;
  esac
done
ARGS=(--num-layers $LAYERS --hidden-size $HIDDEN --num-attention-heads $HEADS --bf16
  --tensor-model-parallel-size $TP)
if ((TP > 1)); then
  ARGS+=(--sequence-parallel)
else
  ARGS+=(--use-distributed-optimizer)
fi
[ -f checkpoint ] && ARGS+=(--recompute-activations)
torchrun --nproc_per_node 8 pretrain_gpt.py "${ARGS[@]}" --seq-length 1024 --max-position-embeddings 1024 \
  --vocab-size 50257 --micro-batch-size 4 --global-batch-size 64 2>&1 | tee log
