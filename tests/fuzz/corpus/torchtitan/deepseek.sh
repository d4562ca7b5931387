#!/usr/bin/env bash
# does not fit in memory: 243.5 GB needed, 81.5 of 85.9 GB usable
# deepseek-v3 with torchtitan 0.2.2: 32 nodes x 8 GPUs, batch 1024 x 4096 tokens
# tp 1, ep 32, pp 8 x 2 in dualpipe-v, dp 32, mbs 1, zero 2, recompute none
#
# Run it on every node with NODE_RANK and MASTER_ADDR set, or once under Slurm:
#   srun --nodes=32 --ntasks-per-node=1 --gpus-per-node=8 bash SCRIPT
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
from torchtitan.models.deepseek_v3 import get_train_spec
from torchtitan.models.deepseek_v3.model.args import DeepSeekV3ModelArgs
from torchtitan.models.moe import MoEArgs
from torchtitan.protocols.train_spec import register_train_spec

spec = get_train_spec()
spec.model_args = {"plan": DeepSeekV3ModelArgs(
    dim=7168,
    n_layers=61,
    n_heads=128,
    vocab_size=129280,
    max_seq_len=163840,
    norm_eps=1e-06,
    rope_theta=10000,
    inter_dim=18432,
    n_dense_layers=3,
    moe_inter_dim=2048,
    moe_args=MoEArgs(
        num_experts=256,
        num_shared_experts=1,
        top_k=8,
        score_func="sigmoid",
        route_norm=True,
        route_scale=2.5,
        score_before_experts=False,
        num_expert_groups=8,
        num_limited_groups=4,
    ),
    q_lora_rank=1536,
    kv_lora_rank=512,
    qk_nope_head_dim=128,
    qk_rope_head_dim=64,
    v_head_dim=128,
    original_seq_len=4096,
    rope_factor=40,
    beta_fast=32,
    beta_slow=1,
    mscale=1,
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
local_batch_size = 32
global_batch_size = 1024
seq_len = 4096
steps = ${TRAIN_STEPS:-1000}
max_norm = 1.0
dataset = "${DATASET:-c4}"
dataset_path = "$DATA_PATH"
mixed_precision_param = "bfloat16"
mixed_precision_reduce = "float32"

[parallelism]
data_parallel_replicate_degree = 1
data_parallel_shard_degree = 32
fsdp_reshard_after_forward = "never"
tensor_parallel_degree = 1
enable_async_tensor_parallel = false
pipeline_parallel_degree = 8
context_parallel_degree = 1
expert_parallel_degree = 32
expert_tensor_parallel_degree = 1
pipeline_parallel_expert_parallel_overlap = false
pipeline_parallel_schedule = "DualPipeV"
pipeline_parallel_microbatch_size = 1
module_fqns_per_model_part = [
  ["tok_embeddings", "layers.0", "layers.1", "layers.2", "layers.3"],
  ["layers.4", "layers.5", "layers.6", "layers.7"],
  ["layers.8", "layers.9", "layers.10", "layers.11"],
  ["layers.12", "layers.13", "layers.14", "layers.15"],
  ["layers.16", "layers.17", "layers.18", "layers.19"],
  ["layers.20", "layers.21", "layers.22", "layers.23"],
  ["layers.24", "layers.25", "layers.26", "layers.27"],
  ["layers.28", "layers.29", "layers.30", "layers.31"],
  ["layers.32", "layers.33", "layers.34", "layers.35"],
  ["layers.36", "layers.37", "layers.38", "layers.39"],
  ["layers.40", "layers.41", "layers.42", "layers.43"],
  ["layers.44", "layers.45", "layers.46", "layers.47"],
  ["layers.48", "layers.49", "layers.50", "layers.51"],
  ["layers.52", "layers.53", "layers.54"],
  ["layers.55", "layers.56", "layers.57"],
  ["layers.58", "layers.59", "layers.60", "norm", "output"],
]

[activation_checkpoint]
mode = "none"

[compile]
enable = false
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
exec torchrun --nnodes 32 --nproc-per-node 8 --node-rank "$NODE_RANK" \
  --master-addr "$MASTER_ADDR" --master-port "$MASTER_PORT" \
  -m torchtitan.train --job.config_file "$RUN_PATH/plan.toml"
