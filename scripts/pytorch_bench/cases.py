"""The cases: their sides (moh commands and PyTorch jobs), and the ratios computed from the records that these print."""

from dataclasses import asdict, dataclass, field

from model_settings import preset, routed

MASKS = ("causal", "full")


@dataclass(frozen=True)
class MohSide:
    """A `moh bench` command whose standard output is JSON lines."""

    arguments: tuple
    score: str  # the field whose sum over the lines is "the time of this side"; ceilings do not count


@dataclass(frozen=True)
class TorchSide:
    """A job of worker.py. `config` names the configuration, with overrides, whose resolved form the job needs."""

    job: dict
    score: str
    config: tuple = ()


@dataclass(frozen=True)
class Reading:
    """A number in a side's output: the sum of `field` over the lines whose fields include all of `where`."""

    side: str
    field: str
    where: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Figure:
    """The ratio of speeds: `other` / `ours`, both times."""

    what: str
    ours: Reading
    other: Reading


@dataclass(frozen=True)
class Comparison:
    """Sides that are measured alternately, in this order."""

    case: str
    name: str
    threads: int
    sides: dict
    figures: list
    memory: list = field(default_factory=list)  # (what, moh side, PyTorch side)


# The precision of a device unless another is named, and the options' names for them.
PRECISION_OF = {"cpu": "float32", "cuda": "bfloat16"}
DEVICES = tuple(PRECISION_OF)
DTYPES = {"float32": "f32", "bfloat16": "bf16"}


@dataclass(frozen=True)
class Terms:
    """Warm-ups and repeats of a process, its device, and the precision of both sides, None for that of the device."""

    warmups: int
    repeats: int
    device: str = "cpu"
    precision: str | None = None

    def __post_init__(self):
        object.__setattr__(self, "precision", self.precision or PRECISION_OF[self.device])

    @property
    def dtype(self):
        return DTYPES[self.precision]

    @property
    def moh_options(self):
        """Options of `moh bench attention` and `moh bench module`."""
        return ("--device", self.device, "--dtype", self.dtype)

    @property
    def moh_settings(self):
        """Overrides of a configuration."""
        return (*(() if self.device == "cpu" else (f"device={self.device}",)), f"precision={self.precision}")


LLAMA = "configs/bench/llama_384.yaml"
# One sequence of 2048 tokens: as many tokens per step as llama_384 has, an eighth as many sequences.
LONG = ("data.sequence_length=2048", "model.max_positions=2048", "train.batch_size=1")
# Four layers of LLM-S, with bytes as its vocabulary.
WIDE = ("model.layers=4", "model.hidden=768", "model.intermediate=2048", "model.heads=12")
STEP_PARTS = ("step", "forward", "backward", "optimizer")


def moh_step_side(config, threads, terms):
    return MohSide(("bench", "step", *config, *terms.moh_settings, f"threads={threads}", "--random-data", "--json",
                    "--warmup", str(terms.warmups), "--steps", str(terms.repeats)), "step_ms")


def torch_job(work, threads, terms, **job):
    return {"work": work, "threads": threads, "warmups": terms.warmups, "repeats": terms.repeats, "device": terms.device,
            "dtype": terms.dtype, **job}


def torch_step_side(config, threads, terms):
    return TorchSide(torch_job("step", threads, terms), "step_ms", (*config, *terms.moh_settings))


def step_comparison(case, name, config, threads, terms):
    sides = {"moh": moh_step_side(config, threads, terms), "PyTorch": torch_step_side(config, threads, terms)}
    figures = [Figure(part, Reading("moh", f"{part}_ms"), Reading("PyTorch", f"{part}_ms")) for part in STEP_PARTS]
    return Comparison(case, name, threads, sides, figures, [("step", "moh", "PyTorch")])


def llama_step(threads, terms, _masks):
    config = (LLAMA,)
    yield step_comparison("llama_step", "llama_384, T 256, batch 8", config, threads, terms)


def gpt2_step(threads, terms, _masks):
    for length, batch in ((64, 4), (512, 1)):
        config = ("configs/bench/gpt2_124m.yaml", f"data.sequence_length={length}", f"train.batch_size={batch}")
        yield step_comparison("gpt2_step", f"gpt2_124m, T {length}, batch {batch}", config, threads, terms)


def small_heads_step(threads, terms, _masks):
    config = (LLAMA, "model.heads=24")
    yield step_comparison("small_heads_step", "llama_384 with 24 heads of 16, T 256, batch 8", config, threads, terms)


def llm_step(threads, terms, _masks):
    """The paper's LLM-S and its MoH forms, micro-batches of 8 sequences."""
    dense, *routed = ((f"configs/llm/{name}.yaml",) for name in ("llm_s", "moh_llm_s_75", "moh_llm_s_50"))
    yield turns_comparison("llm_step", "LLM-S, T 2048, batch 8",
                           [("dense", dense), *zip(("MoH-75", "MoH-50"), routed)], ("train.accumulate=1",), threads, terms)


def vision_step(threads, terms, _masks):
    """DeiT-S and TransNeXt-Tiny at 224 pixels, dense and MoH, batches of 8 images."""
    deit = ("configs/bench/deit_s.yaml",)
    transnext, three_quarters = (*deit, *preset("transnext_tiny")), (*deit, *preset("moh_vit_tiny_75"))
    # 75% of the heads are those of the paper's discussion. Half of the heads in each stage but the first, which has 3: there 2.
    half = (*transnext, *routed((1, 2, 2, 4), (1, 1, 4, 8)))
    for name, models in (("deit_s", [("dense", deit), ("MoH-50", (*deit, *routed(1, 2)))]),
                         ("transnext_tiny", [("dense", transnext), ("MoH-75", three_quarters), ("MoH-50", half)])):
        yield turns_comparison("vision_step", f"{name}, 224 pixels, batch 8", models, (), threads, terms)


# DiT-S/2 of the paper and its MoH forms, as presets of its recipe.
DIT, DIT_PRESETS = "configs/dit/paper.yaml", {"dense": "dit_s_2", "MoH-90": "moh_dit_s_2_90", "MoH-75": "moh_dit_s_2_75"}


def dit_settings(terms):
    """The recipe of the paper's diffusion models is for a GPU, with TF32, and has several micro-batches."""
    plain = terms.device == "cpu" or terms.precision == "float32"
    return ("train.accumulate=1", *(("device=cpu",) if terms.device == "cpu" else ()), *(("tf32=false",) if plain else ()))


def dit_step(threads, terms, _masks):
    """DiT-S/2 of the paper on latents of 32 x 32, dense and MoH, batches of 8; without the moving average of the weights."""
    yield turns_comparison("dit_step", "DiT-S/2, latents of 32 x 32, batch 8",
                           [(label, (DIT, *preset(name))) for label, name in DIT_PRESETS.items()],
                           ("train.batch_size=8", "ema.decay=0", *dit_settings(terms)), threads, terms)


def dit_sample(threads, terms, _masks):
    """A step of sampling of four pictures with guidance, the same models."""
    dense, *others = DIT_PRESETS.values()
    models = {**DIT_PRESETS, "dense": DIT}  # as `moh bench sample` calls them
    command = ("bench", "sample", DIT, *preset(dense), *(part for name in others for part in ("--beside", name)), "--batch-size", "4",
               "--cfg", "1.5", "--warmup", str(terms.warmups), "--repeats", str(terms.repeats), "--json",
               *dit_settings(terms), *terms.moh_settings, f"threads={threads}")
    sides, figures = {"moh": MohSide(command, "step_ms")}, []
    for label, name in DIT_PRESETS.items():
        sides[f"PyTorch {label}"] = TorchSide(torch_job("sample", threads, terms, batch=4, guidance=1.5), "step_ms",
                                              (DIT, *preset(name), *dit_settings(terms), *terms.moh_settings))
        figures.append(Figure(label, Reading("moh", "step_ms", {"model": models[label]}), Reading(f"PyTorch {label}", "step_ms")))
    for label in list(DIT_PRESETS)[1:]:
        figures.append(Figure(f"{label} beside dense", Reading("moh", "step_ms", {"model": models[label]}),
                              Reading("moh", "step_ms", {"model": models["dense"]})))
        figures.append(Figure(f"{label} beside dense, reference form", Reading(f"PyTorch {label}", "step_ms"),
                              Reading("PyTorch dense", "step_ms")))
    yield Comparison("dit_sample", "DiT-S/2, 4 latents of 32 x 32, guidance", threads, sides, figures)


def turns_comparison(case, name, models, settings, threads, terms):
    """Dense and MoH models alternate on both sides, so that the speed-up by MoH is measured as well, in moh and in PyTorch.
    `models`: (label, configuration and settings), the dense one first."""
    sides, pairs, memory = {}, [], []
    base = models[0][0]
    for label, config in models:
        sides[f"moh {label}"] = moh_step_side((*config, *settings), threads, terms)
        sides[f"PyTorch {label}"] = torch_step_side((*config, *settings), threads, terms)
        memory.append(("step", f"moh {label}", f"PyTorch {label}"))
        pairs.append((f"moh {label}", f"PyTorch {label}"))
    for side in ("moh", "PyTorch"):
        pairs += [(f"{side} {label}", f"{side} {base}") for label, _ in models[1:]]
    figures = [Figure("step", Reading(ours, "step_ms"), Reading(other, "step_ms")) for ours, other in pairs]
    return Comparison(case, name, threads, sides, figures, memory)


def moh_step(threads, terms, _masks):
    """Half of the heads per token: of 6 a shared one and 2 of the other 5; of 12 as in MoH-LLM-S at 50%, 3 shared and 3 of the other 9."""
    for name, width, heads in (("llama_384", (), routed(1, 2)), ("llama_768", WIDE, routed(3, 3))):
        dense = (LLAMA, *LONG, *width)
        yield turns_comparison("moh_step", f"{name}, T 2048, batch 1", [("dense", dense), ("MoH-50", (*dense, *heads))], (), threads,
                               terms)


PASSES = (("forward", "forward_ms"), ("forward + backward", "forward_backward_ms"))


def attention(threads, terms, masks):
    for length in (256, 1024, 2048, 4096, *(() if terms.device == "cpu" else (8192, 16384))):
        for mask in masks:
            shape = {"batch": 1, "tokens": length, "heads": 12, "head_dim": 64}
            command = ("bench", "attention", "--batch", "1", "--tokens", str(length), "--heads", "12", "--kv-heads",
                       "12", "--head-dim", "64", "--active", "1.0", f"--{mask}", "--repeats", str(terms.repeats),
                       "--threads", str(threads), *terms.moh_options, "--json")
            job = torch_job("attention", threads, terms, causal=mask == "causal", compile=False, **shape)
            sides = {"moh": MohSide(command, "forward_backward_ms"), "PyTorch": TorchSide(job, "forward_backward_ms")}
            ours = {"op": "attention"}  # without the row whose gradients add in any order
            figures = [Figure(what, Reading("moh", name, ours), Reading("PyTorch", name)) for what, name in PASSES]
            yield Comparison("attention", f"T {length}, {mask}, 12 heads of 64", threads, sides, figures)


def moh_module(threads, terms, masks):
    """Attention layers, router to output projection. PyTorch also runs its dense attention, for comparison with the
    reference form of MoH."""
    shares = (0.5, 0.75)
    for width, lengths in ((768, (256, 1024, 2048)), (2048, (512,))):
        for length in lengths:
            for mask in masks:
                heads = width // 64
                command = ("bench", "module", "--width", str(width), "--tokens", str(length), "--heads", str(heads),
                           "--head-dim", "64", "--active", ",".join(map(str, shares)),
                           *(("--causal",) if mask == "causal" else ()), "--repeats", str(terms.repeats),
                           "--threads", str(threads), *terms.moh_options, "--json")
                job = torch_job("module", threads, terms, batch=1, width=width, tokens=length, heads=heads,
                                head_dim=64, causal=mask == "causal", active=[1.0, *shares])
                sides = {"moh": MohSide(command, "forward_backward_ms"),
                         "PyTorch": TorchSide(job, "forward_backward_ms")}
                yield Comparison("moh_module", f"width {width}, T {length}, {mask}", threads, sides,
                                 module_figures(shares))


def module_figures(shares):
    figures = []
    for share in shares:
        where = {"active": share}
        for what, name in PASSES:
            label = f"{share:.0%} of the heads, {what}"
            figures.append(Figure(label, Reading("moh", name, where), Reading("PyTorch", name, where)))
            figures.append(Figure(f"{label}, reference form to dense", Reading("PyTorch", name, where),
                                  Reading("PyTorch", name, {"active": 1.0})))
    return figures


@dataclass(frozen=True)
class Convolution:
    """A convolution with bias of square images, as `moh bench ops` lists them (train/apps/bench/op_cases.cpp). One of 3 channels
    reads the model's images, which need no gradient."""

    model: str
    batch: int
    side: int
    channels: int
    outputs: int
    kernel: int = 3
    stride: int = 1
    padding: int = 1
    groups: int = 1

    @property
    def shape(self):
        """Images and weight, by which moh's lines are known to be of the same convolution."""
        images = [self.batch, self.side, self.side, self.channels]
        weight = [self.outputs, self.channels // self.groups, self.kernel, self.kernel]
        return f"{images} * {weight}" + (f", stride {self.stride}" if self.stride != 1 else "")


def transnext(layer, side, channels, outputs, **sizes):
    return Convolution(f"TransNeXt-T {layer}", 8, side, channels, outputs, **sizes)


def depthwise(stage, side, channels):
    return transnext(f"depthwise {stage}", side, channels, channels, groups=channels)


def autoencoder(layer, side, channels, outputs, **sizes):
    return Convolution(f"VAE {layer}", 1, side, channels, outputs, **sizes)


CONVOLUTIONS = {
    "TransNeXt-T": (transnext("patches 1", 224, 3, 72, kernel=7, stride=4, padding=3),
                    transnext("patches 2", 56, 72, 144, stride=2), transnext("patches 3", 28, 144, 288, stride=2),
                    transnext("patches 4", 14, 288, 576, stride=2), depthwise(1, 56, 384), depthwise(2, 28, 768),
                    depthwise(3, 14, 768), depthwise(4, 7, 1536)),
    "VAE": (autoencoder("in", 256, 3, 128), autoencoder("block 1", 256, 128, 128), autoencoder("block 2", 128, 256, 256),
            autoencoder("block 3", 64, 512, 512), autoencoder("block 4", 32, 512, 512),
            autoencoder("downsample 1", 256, 128, 128, stride=2), autoencoder("downsample 2", 128, 256, 256, stride=2),
            autoencoder("downsample 3", 64, 512, 512, stride=2), autoencoder("out", 256, 128, 3)),
}


def conv(threads, terms, _masks):
    """Convolutions of TransNeXt-Tiny and of Stable Diffusion's autoencoder, forward and both gradients."""
    for model, convolutions in CONVOLUTIONS.items():
        command = ("bench", "ops", "--only", model, "--megabytes", "64", "--repeats", str(terms.repeats), "--seconds", "60",
                   "--threads", str(threads), *terms.moh_options, "--json")
        job = torch_job("convolutions", threads, terms, compile=False,
                        convolutions=[{**asdict(each), "shape": each.shape} for each in convolutions])
        sides = {"moh": MohSide(command, "ms"), "PyTorch": TorchSide(job, "ms")}
        figures = [figure for each in convolutions for figure in convolution_figures(each)]
        yield Comparison("conv", model, threads, sides, figures)


def convolution_figures(convolution):
    _, layer = convolution.model.split(" ", 1)
    same = {"model": convolution.model, "shape": convolution.shape}
    for what, where in (("forward", {**same, "pass": "forward"}), ("forward + backward", same)):
        yield Figure(f"{layer}, {what}", Reading("moh", "ms", where), Reading("PyTorch", "ms", where))


CASES = {"llama_step": llama_step, "small_heads_step": small_heads_step, "gpt2_step": gpt2_step, "moh_step": moh_step,
         "vision_step": vision_step, "dit_step": dit_step, "dit_sample": dit_sample, "attention": attention, "moh_module": moh_module, "conv": conv, "llm_step": llm_step}
# The default of --cases: on a CPU a step of LLM-S takes minutes.
USUAL = {"cpu": [case for case in CASES if case != "llm_step"], "cuda": list(CASES)}
