"""Runs one rank of a distributed training job alone on this GPU and prints what it used.

This program takes the place of torchrun: its arguments are torchrun's, and the program that torchrun would start (torchtitan's
module or a script of Megatron-LM) runs unchanged in this process, as rank REHEARSE_RANK of the whole job.  PyTorch's fake
process group completes every collective at once, so weights, kernels and allocator are real and only the network is missing.
The patches below do what a network would have done: they fill the outputs of collectives, because unwritten zeros make GEMMs
10% faster, and they give received activations and token counts plausible values.

Prints one line, "RESULT " and values separated by commas, in the order of COLUMNS.  Running out of memory is a result.
"""

import dataclasses
import fcntl
import importlib.machinery
import importlib.util
import os
import runpy
import statistics
import sys
import time
import types

COLUMNS = "plan,framework,version,torch,device,rank,stage,status,step_s,peak_bytes,reserved_bytes,static_bytes,device_bytes,microbatches,left_out,message"
WARM_UP_STEPS = 2  # as long as the allocator and the libraries still grow

left_out = []  # what this machine lacks and the rehearsal therefore leaves out
result = {"status": "failed", "microbatches": 0, "framework": "", "version": ""}


# ---- the command line of torchrun ------------------------------------------------------------


# Options of torchrun without a value.
FLAGS = {"-m", "--module", "--standalone", "--no-python", "--run-path", "--virtual-local-rank"}


def split_torchrun(argv):
    """Returns the number of ranks, whether the program is a module, the program that torchrun would start, and its arguments."""
    options, i = {}, 0
    while i < len(argv) and argv[i].startswith("-"):
        name, _, value = argv[i].partition("=")
        name = name.replace("_", "-")
        if name not in FLAGS and "=" not in argv[i]:
            i += 1
            value = argv[i] if i < len(argv) else ""
        options[name] = value
        i += 1
    if i >= len(argv):
        sys.exit("torchrun was started without a program")
    # the plan's number of devices, which its rank belongs to; torchrun's may be words: "auto", or what a cluster would say
    world = int(os.environ.get("REHEARSE_DEVICES") or 0)
    world = world or int(options.get("--nnodes", "1").split(":")[-1]) * int(options.get("--nproc-per-node", "1"))
    return world, "-m" in options or "--module" in options, argv[i], argv[i + 1 :]


# ---- a network that does nothing -------------------------------------------------------------


def patch_network(torch, rank, world):
    import torch.distributed as dist
    import torch.distributed.distributed_c10d as c10d
    from torch.testing._internal.distributed.fake_pg import FakeStore

    init, new_group = dist.init_process_group, dist.new_group

    def fake_init(*args, **keywords):
        wait_for_gpu()
        init("fake", store=FakeStore(), rank=rank, world_size=world)

    def fake_group(ranks=None, timeout=None, backend=None, pg_options=None, **keywords):
        keywords.pop("device_id", None)
        return new_group(ranks, backend="fake", **keywords)

    def is_part(part, whole):
        """Whether a buffer holds already what it would receive: Megatron's buffers of parameters and gradients.  Those of FSDP
        are made for each layer anew."""
        return holds_all["buffers"] and part.untyped_storage().data_ptr() == whole.untyped_storage().data_ptr()

    def gather(output_tensor, input_tensor, group=None, async_op=False):
        if is_part(input_tensor, output_tensor):
            return Done() if async_op else None
        source = input_tensor.clone().view(1, -1)
        output_tensor.view(-1, input_tensor.numel()).copy_(source.expand(output_tensor.numel() // input_tensor.numel(), -1))
        return Done() if async_op else None

    def gather_list(tensor_list, tensor, group=None, async_op=False):
        for t in tensor_list:
            t.copy_(tensor)
        return Done() if async_op else None

    def scatter(output, input, op=None, group=None, async_op=False, **keywords):
        if not is_part(output, input):
            output.view(-1).copy_(input.view(-1)[: output.numel()])
        return Done() if async_op else None

    def exchange(output, input, output_split_sizes=None, input_split_sizes=None, group=None, async_op=False):
        fill_from(output, input)
        return Done() if async_op else None

    def receive(tensor, *args, **keywords):
        fill(tensor)
        return Done()

    def send(tensor, *args, **keywords):
        return Done()

    def receive_objects(object_list, *args, **keywords):
        object_list[0] = (torch.empty(stage_input["shape"], dtype=stage_input["dtype"], device="meta"),)

    for module in (dist, c10d):
        module.init_process_group, module.new_group = fake_init, fake_group
        module.all_gather_into_tensor, module._all_gather_base = gather, gather
        module.all_gather = gather_list
        module.reduce_scatter_tensor, module._reduce_scatter_base = scatter, scatter
        module.all_to_all_single = exchange
        module.irecv, module.isend, module.recv, module.send = receive, send, receive, send
        module.recv_object_list = receive_objects
        module.send_object_list = lambda *args, **keywords: None
        module.batch_isend_irecv = lambda ops: [op.op(op.tensor) for op in ops]
        module.barrier = lambda *args, **keywords: None
    patch_functional(torch)


def wait_for_gpu():
    """Several ranks may load their libraries at once, but only the one that holds the lock uses the GPU, till it ends."""
    path = os.environ.get("REHEARSE_LOCK")
    if path:
        wait_for_gpu.file = open(path, "w")
        fcntl.flock(wait_for_gpu.file, fcntl.LOCK_EX)


class Done:
    """A collective that is complete."""

    def wait(self, *args):
        return True

    def is_completed(self):
        return True

    def block_current_stream(self):
        pass


def fill(tensor):
    """Gives received activations values of the usual size."""
    if tensor.is_floating_point():
        tensor.detach().normal_()
    else:
        tensor.zero_()


def fill_from(output, source):
    """Copies as much of the source as the output takes, and repeats it where the output is longer."""
    flat, out = source.detach().reshape(-1), output.detach().view(-1)
    for start in range(0, out.numel(), max(1, flat.numel())):
        n = min(flat.numel(), out.numel() - start)
        out[start : start + n].copy_(flat[:n])


def patch_functional(torch):
    """Collectives of tensors distributed by DTensor: outputs are filled from what this rank has."""

    def exchange(tensor, output_split_sizes, input_split_sizes, group_name):
        rows = sum(output_split_sizes) if len(output_split_sizes) else tensor.shape[0]
        output = tensor.new_empty((rows, *tensor.shape[1:]))
        fill_from(output, tensor)
        return output

    def gather_out(tensor, group_size, group_name, out):
        out.view(group_size, -1).copy_(tensor.reshape(1, -1).expand(group_size, -1))
        return out

    def gather(tensor, group_size, group_name):
        output = tensor.new_empty((group_size * tensor.shape[0], *tensor.shape[1:]))
        return gather_out(tensor, group_size, group_name, output)

    def scatter(tensor, reduce_op, group_size, group_name):
        return tensor[: tensor.shape[0] // group_size].clone()

    library = torch.library.Library("_c10d_functional", "IMPL")
    library.impl("all_to_all_single", exchange, "CUDA")
    library.impl("all_gather_into_tensor", gather, "CUDA")
    library.impl("all_gather_into_tensor_out", gather_out, "CUDA")
    library.impl("reduce_scatter_tensor", scatter, "CUDA")
    patch_functional.library = library  # its kernels last as long as it


holds_all = {"buffers": False}  # do the framework's buffers hold all parameters, whatever is gathered?
stage_input = {"shape": None, "dtype": None}  # what a stage of PyTorch's pipelines would learn from the one before


# ---- a step, measured ------------------------------------------------------------------------


class Meter:
    def __init__(self, torch):
        self.torch, self.times, self.start, self.models = torch, [], None, []
        self.steps = int(os.environ.get("REHEARSE_STEPS", "5"))
        self.cap_s = float(os.environ.get("REHEARSE_SECONDS", "150")) * 0.8

    def step(self, run, *args, **keywords):
        cuda = self.torch.cuda
        self.start = self.start or time.time()
        if len(self.times) == WARM_UP_STEPS:
            cuda.reset_peak_memory_stats()
        cuda.synchronize()
        start = time.time()
        value = run(*args, **keywords)
        cuda.synchronize()
        self.times.append(time.time() - start)
        late = time.time() - self.start > self.cap_s and len(self.times) > WARM_UP_STEPS
        if len(self.times) >= self.steps or late:
            self.report()
            finish()
        return value

    def report(self):
        cuda = self.torch.cuda
        times = self.times[WARM_UP_STEPS:] or self.times
        result.update(
            status="ok", step_s=f"{statistics.median(times):.6g}", peak_bytes=cuda.max_memory_allocated(),
            reserved_bytes=cuda.max_memory_reserved(), static_bytes=cuda.memory_allocated(),
            message=f"{len(times)} steps from {min(times):.4g} to {max(times):.4g} s{self.doubt()}",
        )

    def doubt(self):
        """GEMMs of NaN take less power, so that they run faster than those of a real training step."""
        tensors = (getattr(p, "_local_tensor", p).detach() for m in self.models for p in m.parameters())
        try:
            finite = all(bool(self.torch.isfinite(t).all()) for t in tensors)
        except Exception:  # of a framework whose parameters are something else: nothing is known
            finite = True
        return "" if finite else "; weights are not finite: steps are faster than in training"


def print_result():
    import torch

    free, total = torch.cuda.mem_get_info() if torch.cuda.is_available() else (0, 0)
    result.update(
        plan=os.environ.get("REHEARSE_PLAN", ""), torch=torch.__version__, rank=os.environ.get("REHEARSE_RANK", "0"),
        device=torch.cuda.get_device_name() if torch.cuda.is_available() else "none",
        stage=os.environ.get("REHEARSE_STAGE", "0"), device_bytes=total, left_out=";".join(dict.fromkeys(left_out)),
    )
    cells = (" ".join(str(result.get(name, "")).replace(",", ";").replace('"', "'").split()) for name in COLUMNS.split(","))
    print("\nRESULT " + ",".join(cell[:300] for cell in cells), flush=True)


def finish():
    """Ends the process at once: frameworks would save a checkpoint first."""
    print_result()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def is_out_of_memory(error):
    """Compilers and libraries wrap the allocator's error, or fail with their own."""
    while error is not None:
        if type(error).__name__ == "OutOfMemoryError" or "out of memory" in str(error) or "ALLOC_FAILED" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def stub(name, **members):
    """Stands in for a package that this machine lacks and the rehearsal does not need."""
    if importlib.util.find_spec(name.split(".")[0]) and name.split(".")[0] not in left_out:
        return
    module = types.ModuleType(name)
    module.__dict__.update(members)
    module.__path__ = []
    module.__spec__ = importlib.machinery.ModuleSpec(name, None)
    sys.modules[name] = module
    left_out.append(name.split(".")[0])


# ---- torchtitan ------------------------------------------------------------------------------


class RandomText:
    """Batches of random tokens in the form of torchtitan's data loaders."""

    def __init__(self, torch, batch, length, vocabulary):
        self.torch, self.batch, self.length, self.vocabulary = torch, batch, length, vocabulary

    def __iter__(self):
        while True:
            x = self.torch.randint(0, self.vocabulary, (self.batch, self.length + 1))
            yield {"input": x[:, :-1].contiguous()}, x[:, 1:].contiguous()


def stub_titan(torch):
    class Rules:
        def primitive_rule(self, rule):
            return rule

    registry = types.SimpleNamespace(ConstructorRegistry=Rules, PrimitiveTypeInfo=object, PrimitiveConstructorSpec=object)
    stub("tyro", cli=lambda cls, args=None, default=None, registry=None: default, constructors=registry)
    stub("torchdata")
    stub("torchdata.stateful_dataloader", StatefulDataLoader=torch.utils.data.DataLoader)
    stub("datasets", Dataset=object, load_dataset=None)
    stub("datasets.distributed", split_dataset_by_node=None)
    stub("tokenizers", AddedToken=object, Tokenizer=object)


def run_titan(torch, meter, args):
    stub_titan(torch)
    import torchtitan
    import torchtitan.protocols.train_spec as specs
    import torchtitan.train as train
    from torchtitan.config import ConfigManager

    result.update(framework="torchtitan", version=torchtitan.__version__)
    sys.argv = ["torchtitan.train", *args]
    parse, get_spec, train_step = ConfigManager.parse_args, specs.get_train_spec, train.Trainer.train_step

    def configure(self, *arguments, **keywords):
        config = parse(self, *arguments, **keywords)
        config.checkpoint.enable = False
        config.metrics.enable_tensorboard = config.metrics.enable_wandb = False
        config.training.steps = 1000
        degree, training = config.parallelism, config.training
        data = max(1, degree.data_parallel_replicate_degree) * max(1, degree.data_parallel_shard_degree)
        local = training.local_batch_size
        accumulated = max(1, training.global_batch_size // (local * data)) if training.global_batch_size > 0 else 1
        stages = degree.pipeline_parallel_degree > 1
        result["microbatches"] = accumulated * (local // degree.pipeline_parallel_microbatch_size if stages else 1)
        return config

    def model_spec(name):
        spec, config = get_spec(name), model_spec.config
        arguments = spec.model_args[config.model.flavor]
        training, degree = config.training, config.parallelism
        spec.build_tokenizer_fn = None
        spec.build_dataloader_fn = lambda **keywords: RandomText(
            torch, training.local_batch_size, training.seq_len, arguments.vocab_size
        )
        divided = degree.context_parallel_degree * degree.tensor_parallel_degree
        stage_input["shape"] = (degree.pipeline_parallel_microbatch_size, training.seq_len // divided, arguments.dim)
        stage_input["dtype"] = torch.bfloat16
        return spec

    def keep_config(self, *arguments, **keywords):
        model_spec.config = configure(self, *arguments, **keywords)
        return model_spec.config

    def measured_step(self, *arguments, **keywords):
        self.metrics_processor.should_log = lambda step: False
        meter.models = self.model_parts
        return meter.step(train_step, self, *arguments, **keywords)

    ConfigManager.parse_args = keep_config
    train.train_spec_module.get_train_spec = model_spec
    train.Trainer.train_step = measured_step
    train.main(train.Trainer)


# ---- Megatron-LM -----------------------------------------------------------------------------

# Arguments without use in a rehearsal: data, checkpoints and logs.
NO_DATA = {
    "--save", "--load", "--save-interval", "--use-checkpoint-args", "--data-path", "--data-args-path", "--split",
    "--per-split-data-args-path", "--data-cache-path", "--train-data-path", "--valid-data-path", "--test-data-path",
    "--tokenizer-model", "--tokenizer-type", "--tensorboard-dir", "--wandb-project", "--wandb-exp-name", "--wandb-save-dir",
}  # fmt: skip
# Arguments that need Transformer Engine.
NEED_ENGINE = {
    "--attention-backend", "--transformer-impl", "--moe-grouped-gemm", "--cross-entropy-fusion-impl", "--tp-comm-overlap",
    "--use-precision-aware-optimizer", "--exp-avg-dtype", "--exp-avg-sq-dtype", "--main-params-dtype", "--cp-comm-type",
    "--moe-permute-fusion", "--moe-router-fusion", "--use-fused-weighted-squared-relu", "--enable-cuda-graph",
    "--moe-enable-deepep", "--cuda-graph-impl", "--cuda-graph-scope", "--sequence-parallel", "--cross-entropy-loss-fusion",
}  # fmt: skip
LOCAL = [
    "--transformer-impl", "local", "--no-persist-layer-norm", "--no-gradient-accumulation-fusion", "--no-rope-fusion",
    "--no-masked-softmax-fusion",
]  # fmt: skip


def has(args, name):
    return any(arg.partition("=")[0] == name for arg in args)


def without(args, names, removed=None):
    """Returns the arguments without the named ones and their values.  Values do not begin with two hyphens, and Megatron-LM has
    no arguments without a name."""
    kept, leaves_out = [], False
    for arg in args:
        name = arg.partition("=")[0]
        if arg.startswith("--"):
            leaves_out = name in names
            if leaves_out and removed is not None:
                removed.append(name.lstrip("-").replace("-", "_"))
        if not leaves_out:
            kept.append(arg)
    return kept


def patch_local_layers(torch):
    """What Transformer Engine does for sequence parallelism, attention and Adam, by PyTorch's own kernels."""
    import megatron.core.optimizer as optimizer
    import megatron.core.transformer.moe.moe_utils as moe_utils
    import megatron.core.transformer.dot_product_attention as attention
    import megatron.core.transformer.torch_norm as torch_norm

    class FusedAdam(torch.optim.AdamW):
        def __init__(self, *args, **keywords):
            super().__init__(*args, fused=True, **keywords)

    if optimizer.Adam.__module__.startswith("torch"):
        optimizer.Adam = FusedAdam

    def flash(self, query, key, value, attention_mask=None, *args, **keywords):
        q, k, v = (x.permute(1, 2, 0, 3) for x in (query, key, value))
        causal = "causal" in str(self.attn_mask_type)
        dropout = self.attention_dropout.p if self.training else 0.0
        scale = getattr(self, "softmax_scale", None)
        out = torch.nn.functional.scaled_dot_product_attention(
            q, k, v, is_causal=causal, dropout_p=dropout, scale=scale, enable_gqa=q.shape[1] != k.shape[1]
        )
        return out.permute(2, 0, 1, 3).reshape(query.shape[0], query.shape[1], -1)

    attention.DotProductAttention.forward = flash
    moe_utils.te_general_gemm = getattr(moe_utils, "te_general_gemm", None)
    new = torch_norm.WrappedTorchNorm.__new__

    def norm(cls, config, *args, **keywords):
        members = {f.name: getattr(config, f.name) for f in dataclasses.fields(config)}
        plain = types.SimpleNamespace(**{**members, "sequence_parallel": False})
        module = new(cls, plain, *args, **keywords)
        for parameter in module.parameters():
            parameter.sequence_parallel = config.sequence_parallel
        return module

    torch_norm.WrappedTorchNorm.__new__ = norm


def megatron_batches(torch, args):
    """Random tokens in the form of Megatron-LM's GPT data sets."""
    batch, length = args.micro_batch_size, args.seq_length
    while True:
        x = torch.randint(0, args.vocab_size or args.padded_vocab_size, (batch, length + 1))
        yield {
            "tokens": x[:, :-1].contiguous(), "labels": x[:, 1:].contiguous(), "loss_mask": torch.ones(batch, length),
            "position_ids": torch.arange(length).repeat(batch, 1),
        }  # fmt: skip


def run_megatron(torch, meter, script, args):
    sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
    sys.modules.setdefault("megatron.core.datasets.helpers_cpp", types.ModuleType("megatron.core.datasets.helpers_cpp"))
    args = without(args, NO_DATA) + ["--no-load-optim", "--no-load-rng", "--no-check-for-nan-in-loss-and-grad", "--rerun-mode", "disabled"]
    if "--mock-data" not in args:
        args.append("--mock-data")
    if not has(args, "--vocab-size") and os.environ.get("REHEARSE_VOCAB"):
        args += ["--vocab-size", str(int(os.environ["REHEARSE_VOCAB"]) - 1)]  # the tokenizer adds one
    if has(args, "--vocab-size"):
        args += ["--tokenizer-type", "NullTokenizer"]
    holds_all["buffers"] = "--use-megatron-fsdp" not in args
    sequence_parallel = "--sequence-parallel" in args
    if not importlib.util.find_spec("transformer_engine"):
        left_out.append("transformer_engine")
        fused = "--cross-entropy-loss-fusion" in args
        args = without(args, NEED_ENGINE, left_out) + LOCAL
        for name in ("attention_backend", "transformer_impl", "sequence_parallel", "cross_entropy_loss_fusion", "cross_entropy_fusion_impl"):
            while name in left_out:
                left_out.remove(name)
        if sequence_parallel:
            args.append("--sequence-parallel")
        if fused:
            args += ["--cross-entropy-loss-fusion", "--cross-entropy-fusion-impl", "native"]
    import megatron.core
    import megatron.training.initialize as initialize
    import megatron.training.training as training
    from megatron.core.num_microbatches_calculator import get_num_microbatches
    from megatron.core.rerun_state_machine import RerunDataIterator
    from megatron.training import get_args

    result.update(framework="megatron", version=getattr(megatron.core, "__version__", ""))
    if "transformer_engine" in left_out:
        patch_local_layers(torch)
    initialize._compile_dependencies = lambda *arguments: None
    train_step = training.train_step

    def iterators(provider):
        a = get_args()
        a.do_train, a.do_valid, a.do_test = True, False, False
        return RerunDataIterator(megatron_batches(torch, a)), None, None

    def measured_step(*arguments, **keywords):
        result["microbatches"] = get_num_microbatches()
        meter.models = keywords.get("model") or arguments[2]
        return meter.step(train_step, *arguments, **keywords)

    training.build_train_valid_test_data_iterators = iterators
    training.train_step = measured_step
    sys.argv = [script, *args]
    runpy.run_path(script, run_name="__main__")


# ---- one rank --------------------------------------------------------------------------------


def main():
    world, is_module, program, args = split_torchrun(sys.argv[1:])
    rank = int(os.environ.get("REHEARSE_RANK", "0"))
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), LOCAL_RANK="0", NGPU=str(world), LOCAL_WORLD_SIZE="1")
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29500")
    import torch

    for path in os.environ.get("PYTHONPATH", "").split(os.pathsep):
        if path and path not in sys.path:
            sys.path.append(path)
    patch_network(torch, rank, world)
    meter = Meter(torch)
    try:
        if is_module and program.startswith("torchtitan"):
            run_titan(torch, meter, args)
        elif program.endswith(".py"):
            run_megatron(torch, meter, program, args)
        else:
            sys.exit(f"{program} is neither torchtitan nor a script of Megatron-LM")
        sys.exit("the program ended")
    except BaseException as error:  # a failed rank is a row of the table
        import traceback

        if isinstance(error, SystemExit) and len(meter.times) > WARM_UP_STEPS:  # fewer steps than were asked for
            meter.report()
            finish()
        traceback.print_exc()
        oom = is_out_of_memory(error)
        result.update(status="oom" if oom else "failed", message=f"{type(error).__name__}: {error}")
        if oom:
            result.update(peak_bytes=torch.cuda.max_memory_allocated(), reserved_bytes=torch.cuda.max_memory_reserved())
    finish()


if __name__ == "__main__":
    main()
