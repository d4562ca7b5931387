import os

import torch
import torch.nn.functional as F
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec
from megatron.core.transformer.enums import AttnBackend

from megatron.bridge.models.gpt_provider import GPTModelProvider
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

model = GPTModelProvider()
model.num_layers = 126
model.hidden_size = 16384
model.ffn_hidden_size = 53248
model.num_attention_heads = 128
model.num_query_groups = 8
model.kv_channels = 128
model.qk_layernorm = False
model.attention_backend = AttnBackend.auto
model.position_embedding_type = "rope"
model.rotary_base = 500000
model.normalization = "RMSNorm"
model.layernorm_epsilon = 1e-05
model.gated_linear_unit = True
model.activation_func = F.silu
model.add_bias_linear = False
model.add_qkv_bias = False
model.share_embeddings_and_output_weights = False
model.attention_dropout = 0
model.hidden_dropout = 0
model.cross_entropy_loss_fusion = True
model.cross_entropy_fusion_impl = "te"
model.seq_length = 8192
model.vocab_size = 128256
model.should_pad_vocab = True
model.make_vocab_size_divisible_by = 128

model.tensor_model_parallel_size = 8
model.sequence_parallel = True
model.pipeline_model_parallel_size = 4
model.pipeline_dtype = torch.bfloat16
model.virtual_pipeline_model_parallel_size = 4
model.account_for_embedding_in_pipeline_split = True
model.account_for_loss_in_pipeline_split = True
model.context_parallel_size = 1
model.tp_comm_overlap = True
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

train = TrainingConfig(
    train_iters=train_iters,
    global_batch_size=256,
    micro_batch_size=1,
)

mock = os.environ.get("MOCK_DATA") == "1"
dataset = GPTDatasetConfig(
    random_seed=1234,
    seq_length=8192,
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
    vocab_size=128256,
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
