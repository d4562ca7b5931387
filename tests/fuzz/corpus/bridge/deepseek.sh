#!/usr/bin/env bash
# does not fit in memory: 195.9 GB needed, 81.5 of 85.9 GB usable
# deepseek-v3 with NeMo's Megatron Bridge: 32 nodes x 8 GPUs, batch 2048 x 4096 tokens
# tp 1, ep 32, pp 8 x 4, dp 32, mbs 1, zero 1, recompute none
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
CHECKPOINT_PATH=${CHECKPOINT_PATH:?set it to a folder for checkpoints}
if [[ ${MOCK_DATA:-0} != 1 ]]; then
  : "${DATA_PATH:?set it to the prefix of a .bin and .idx data set, or MOCK_DATA to 1}"
  : "${TOKENIZER:?set it to a Hugging Face tokenizer, or MOCK_DATA to 1}"
fi
RUN_PATH=${RUN_PATH:-$(mktemp -d)}
export CHECKPOINT_PATH DATA_PATH TOKENIZER MOCK_DATA
export CUDA_DEVICE_MAX_CONNECTIONS=${CUDA_DEVICE_MAX_CONNECTIONS:-1}

cat > "$RUN_PATH/train.py" <<'EOF'
import os

import torch
import torch.nn.functional as F
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec
from megatron.core.transformer.enums import AttnBackend

from megatron.bridge.models.gpt_provider import GPTModelProvider
from megatron.bridge.models.mla_provider import MLAModelProvider
from megatron.bridge.recipes.utils.optimizer_utils import (
    distributed_fused_adam_with_cosine_annealing,
)
from megatron.bridge.training.config import (
    CheckpointConfig,
    ConfigContainer,
    DistributedDataParallelConfig,
    GPTDatasetConfig,
    LoggerConfig,
    RNGConfig,
    TokenizerConfig,
    TrainingConfig,
    ValidationConfig,
)
from megatron.bridge.training.gpt_step import forward_step
from megatron.bridge.training.mixed_precision import get_mixed_precision_config
from megatron.bridge.training.pretrain import pretrain

model = MLAModelProvider()
model.transformer_layer_spec = lambda config, vp_stage=None: get_gpt_decoder_block_spec(
    config, use_transformer_engine=True, vp_stage=vp_stage)
model.num_layers = 61
model.hidden_size = 7168
model.ffn_hidden_size = 18432
model.num_attention_heads = 128
model.q_lora_rank = 1536
model.kv_lora_rank = 512
model.qk_head_dim = 128
model.qk_pos_emb_head_dim = 64
model.v_head_dim = 128
model.rope_type = "yarn"
model.rotary_scaling_factor = 40
model.original_max_position_embeddings = 4096
model.mscale = 1
model.mscale_all_dim = 1
model.apply_rope_fusion = False
model.qk_layernorm = True
model.attention_backend = AttnBackend.auto
model.position_embedding_type = "rope"
model.rotary_base = 10000
model.normalization = "RMSNorm"
model.layernorm_epsilon = 1e-06
model.gated_linear_unit = True
model.activation_func = F.silu
model.add_bias_linear = False
model.add_qkv_bias = False
model.share_embeddings_and_output_weights = False
model.attention_dropout = 0
model.hidden_dropout = 0
model.num_moe_experts = 256
model.moe_router_topk = 8
model.moe_ffn_hidden_size = 2048
model.moe_shared_expert_intermediate_size = 2048
model.moe_layer_freq = ([0]*3+[1]*58)
model.moe_grouped_gemm = True
model.moe_token_dispatcher_type = "flex"
model.moe_flex_dispatcher_backend = "hybridep"
model.moe_router_load_balancing_type = "seq_aux_loss"
model.moe_aux_loss_coeff = 0.0001
model.moe_router_dtype = "fp32"
model.moe_router_pre_softmax = True
model.moe_router_score_function = "sigmoid"
model.moe_router_enable_expert_bias = True
model.moe_router_topk_scaling_factor = 2.5
model.moe_router_num_groups = 8
model.moe_router_group_topk = 4
model.mtp_num_layers = 1
model.cross_entropy_loss_fusion = True
model.cross_entropy_fusion_impl = "te"
model.seq_length = 4096
model.vocab_size = 129280
model.should_pad_vocab = True
model.make_vocab_size_divisible_by = 128

model.tensor_model_parallel_size = 1
model.sequence_parallel = False
model.pipeline_model_parallel_size = 8
model.pipeline_dtype = torch.bfloat16
model.virtual_pipeline_model_parallel_size = 4
model.pipeline_model_parallel_layout = "Et*2|t*2|t*2|t*2|t*2|t*2|t*2|t*2|t*2|t*2|t*2|t*2|t*2|t*2|t*2|t*2|t*2|t*2|t*2|t*2|t*2|t*2|t*2|t*2|t*2|t*2|t*2|t*2|t*2|t|t|tmL"
model.context_parallel_size = 1
model.expert_model_parallel_size = 32
model.expert_tensor_parallel_size = 1
model.overlap_moe_expert_parallel_comm = False
model.tp_comm_overlap = False
model.overlap_p2p_comm = True
model.batch_p2p_comm = False

ddp = DistributedDataParallelConfig(
    use_distributed_optimizer=True,
    overlap_grad_reduce=True,
    overlap_param_gather=True,
    grad_reduce_in_fp32=True,
    num_distributed_optimizer_instances=1,
)

precision = get_mixed_precision_config("bf16_mixed")
precision.grad_reduce_in_fp32 = True

train_iters = int(os.environ.get("TRAIN_ITERS", "1000"))
optimizer, scheduler = distributed_fused_adam_with_cosine_annealing(
    lr_warmup_iters=train_iters // 100, lr_decay_iters=None,
    max_lr=float(os.environ.get("LR", "1e-4")), min_lr=1e-5,
)
optimizer.use_distributed_optimizer = True
optimizer.use_precision_aware_optimizer = True
optimizer.exp_avg_dtype = torch.bfloat16
optimizer.exp_avg_sq_dtype = torch.bfloat16

train = TrainingConfig(
    train_iters=train_iters,
    global_batch_size=2048,
    micro_batch_size=1,
)

mock = os.environ.get("MOCK_DATA") == "1"
dataset = GPTDatasetConfig(
    random_seed=1234,
    seq_length=4096,
    blend=None,
    blend_per_split=None,
    data_path=None if mock else os.environ["DATA_PATH"],
    split="99,1,0",
    dataloader_type="single",
    reset_position_ids=False,
    reset_attention_mask=False,
    eod_mask_loss=False,
)
tokenizer = TokenizerConfig(
    tokenizer_type="NullTokenizer" if mock else "HuggingFaceTokenizer",
    tokenizer_model=None if mock else os.environ["TOKENIZER"],
    vocab_size=129280,
)

pretrain(ConfigContainer(
    model=model,
    train=train,
    validation=ValidationConfig(eval_interval=1000, eval_iters=0),
    optimizer=optimizer,
    scheduler=scheduler,
    ddp=ddp,
    dataset=dataset,
    logger=LoggerConfig(log_interval=1),
    tokenizer=tokenizer,
    checkpoint=CheckpointConfig(
        save=os.environ["CHECKPOINT_PATH"],
        load=os.environ["CHECKPOINT_PATH"],
        save_interval=1000,
        ckpt_format="torch_dist",
    ),
    mixed_precision=precision,
    rng=RNGConfig(te_rng_tracker=False),
), forward_step)
EOF

exec torchrun --nnodes 32 --nproc-per-node 8 --node-rank "$NODE_RANK" \
  --master-addr "$MASTER_ADDR" --master-port "$MASTER_PORT" \
  "$RUN_PATH/train.py"
