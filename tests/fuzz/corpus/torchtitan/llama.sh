#!/usr/bin/env bash
# llama3-8b with torchtitan 0.2.2: 8 nodes x 8 GPUs, batch 512 x 8192 tokens
# tp 4 sp, pp 2, dp 8, mbs 1, zero 3, recompute alternate
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
TORCHTITAN_PATH=${TORCHTITAN_PATH:?set it to the folder of torchtitan at its tag v0.2.2}
DATA_PATH=${DATA_PATH:?set it to the folder of the data set DATASET (c4 by default)}
TOKENIZER=${TOKENIZER:?set it to a folder with a Hugging Face tokenizer}
CHECKPOINT_PATH=${CHECKPOINT_PATH:?set it to a folder for checkpoints and logs}
if [[ ! -e $TORCHTITAN_PATH/torchtitan/config/job_config.py ]]; then
  echo "$TORCHTITAN_PATH is not torchtitan 0.2, the last that reads TOML" >&2
  exit 1
fi
RUN_PATH=${RUN_PATH:-$(mktemp -d)}

cat > "$RUN_PATH/phaze_model.py" <<'EOF'
from torchtitan.models.llama3 import get_train_spec
from torchtitan.models.llama3.model.args import RoPEScalingArgs, TransformerModelArgs
from torchtitan.protocols.train_spec import register_train_spec

spec = get_train_spec()
spec.model_args = {"plan": TransformerModelArgs(
    dim=4096,
    n_layers=32,
    n_heads=32,
    vocab_size=128256,
    max_seq_len=8192,
    norm_eps=1e-05,
    rope_theta=500000,
    n_kv_heads=8,
    multiple_of=14336,
    rope_scaling_args=RoPEScalingArgs(scaling_factor=1),
)}
register_train_spec("phaze", spec)
EOF

cat > "$RUN_PATH/plan.toml" <<EOF
[job]
dump_folder = "$CHECKPOINT_PATH"

[model]
name = "phaze"
flavor = "plan"
hf_assets_path = "$TOKENIZER"

[experimental]
custom_import = "phaze_model"

[optimizer]
name = "AdamW"
lr = ${LR:-1e-4}

[lr_scheduler]
warmup_steps = ${WARMUP_STEPS:-100}

[training]
local_batch_size = 64
global_batch_size = 512
seq_len = 8192
steps = ${TRAIN_STEPS:-1000}
max_norm = 1.0
dataset = "${DATASET:-c4}"
dataset_path = "$DATA_PATH"
mixed_precision_param = "bfloat16"
mixed_precision_reduce = "float32"

[parallelism]
data_parallel_replicate_degree = 1
data_parallel_shard_degree = 8
fsdp_reshard_after_forward = "always"
tensor_parallel_degree = 4
enable_async_tensor_parallel = false
pipeline_parallel_degree = 2
context_parallel_degree = 1
expert_parallel_degree = 1
pipeline_parallel_schedule = "1F1B"
pipeline_parallel_microbatch_size = 1
module_fqns_per_model_part = [
  ["tok_embeddings", "layers.0", "layers.1", "layers.2", "layers.3", "layers.4", "layers.5", "layers.6", "layers.7", "layers.8", "layers.9", "layers.10", "layers.11", "layers.12", "layers.13", "layers.14", "layers.15"],
  ["layers.16", "layers.17", "layers.18", "layers.19", "layers.20", "layers.21", "layers.22", "layers.23", "layers.24", "layers.25", "layers.26", "layers.27", "layers.28", "layers.29", "layers.30", "layers.31", "norm", "output"],
]

[activation_checkpoint]
mode = "selective"
selective_ac_option = "op"

[compile]
enable = true
components = ["model", "loss"]

[checkpoint]
enable = true
folder = "checkpoint"
interval = 1000

[metrics]
log_freq = 1
EOF

export PYTHONPATH=$RUN_PATH:$TORCHTITAN_PATH${PYTHONPATH:+:$PYTHONPATH}
export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
exec torchrun --nnodes 8 --nproc-per-node 8 --node-rank "$NODE_RANK" \
  --master-addr "$MASTER_ADDR" --master-port "$MASTER_PORT" \
  -m torchtitan.train --job.config_file "$RUN_PATH/plan.toml"
