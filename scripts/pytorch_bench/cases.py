"""The cases: their sides (moh commands and PyTorch jobs), and the ratios computed from the records that these print."""

from dataclasses import asdict, dataclass, field

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


DEVICES = ("cpu", "cuda")


@dataclass(frozen=True)
class Terms:
    """Warm-ups and repeats of a process, and its device: the CPU with float32, or a GPU with bfloat16."""

    warmups: int
    repeats: int
    device: str = "cpu"

    @property
    def dtype(self):
        return "f32" if self.device == "cpu" else "bf16"

    @property
    def moh_options(self):
        """Options of `moh bench attention` and `moh bench module`."""
        return ("--device", self.device, "--dtype", self.dtype)

    @property
    def moh_settings(self):
        """Overrides of a configuration."""
        return ("precision=float32",) if self.device == "cpu" else (f"device={self.device}", "precision=bfloat16")


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
    config = ("configs/bench/llama_384.yaml",)
    yield step_comparison("llama_step", "llama_384, T 256, batch 8", config, threads, terms)


def gpt2_step(threads, terms, _masks):
    for length, batch in ((64, 4), (512, 1)):
        config = ("configs/bench/gpt2_124m.yaml", f"data.sequence_length={length}", f"train.batch_size={batch}")
        yield step_comparison("gpt2_step", f"gpt2_124m, T {length}, batch {batch}", config, threads, terms)


def small_heads_step(threads, terms, _masks):
    config = ("configs/bench/llama_384_small_heads.yaml",)
    yield step_comparison("small_heads_step", "llama_384 with 24 heads of 16, T 256, batch 8", config, threads, terms)


def llm_step(threads, terms, _masks):
    """The paper's LLM-S and its MoH forms, micro-batches of 8 sequences."""
    dense, *routed = (f"configs/llm/{name}.yaml" for name in ("llm_s", "moh_llm_s_75", "moh_llm_s_50"))
    yield turns_comparison("llm_step", "LLM-S, T 2048, batch 8",
                           [("dense", dense), *zip(("MoH-75", "MoH-50"), routed)], ("train.accumulate=1",), threads, terms)


def vision_step(threads, terms, _masks):
    """DeiT-S and TransNeXt-Tiny at 224 pixels, dense and MoH, batches of 8 images."""
    for name, forms in (("deit_s", ("MoH-50",)), ("transnext_tiny", ("MoH-75", "MoH-50"))):
        routed = [f"configs/bench/{name}_{form.lower().replace('-', '_')}.yaml" for form in forms]
        yield turns_comparison("vision_step", f"{name}, 224 pixels, batch 8",
                               [("dense", f"configs/bench/{name}.yaml"), *zip(forms, routed)], (), threads, terms)


def dit_settings(terms):
    """The recipe of the paper's diffusion models is for a GPU, with TF32, and has several micro-batches."""
    return ("train.accumulate=1", *(("device=cpu", "tf32=false") if terms.device == "cpu" else ()))


def dit_step(threads, terms, _masks):
    """DiT-S/2 of the paper on latents of 32 x 32, dense and MoH, batches of 8; without the moving average of the weights."""
    yield turns_comparison("dit_step", "DiT-S/2, latents of 32 x 32, batch 8",
                           [("dense", "configs/dit/dit_s_2.yaml"),
                            *((f"MoH-{share}", f"configs/dit/moh_dit_s_2_{share}.yaml") for share in (90, 75))],
                           ("train.batch_size=8", "ema.decay=0", *dit_settings(terms)), threads, terms)


def dit_sample(threads, terms, _masks):
    """A step of sampling of four pictures with guidance, the same models."""
    forms = {"dense": "dit_s_2", "MoH-90": "moh_dit_s_2_90", "MoH-75": "moh_dit_s_2_75"}
    files = {label: f"configs/dit/{name}.yaml" for label, name in forms.items()}
    first, *others = files.values()
    command = ("bench", "sample", first, *(part for file in others for part in ("--beside", file)), "--batch-size", "4",
               "--cfg", "1.5", "--warmup", str(terms.warmups), "--repeats", str(terms.repeats), "--json",
               *dit_settings(terms), *terms.moh_settings, f"threads={threads}")
    sides, figures = {"moh": MohSide(command, "step_ms")}, []
    for label, file in files.items():
        sides[f"PyTorch {label}"] = TorchSide(torch_job("sample", threads, terms, batch=4, guidance=1.5), "step_ms",
                                              (file, *dit_settings(terms), *terms.moh_settings))
        figures.append(Figure(label, Reading("moh", "step_ms", {"model": file}), Reading(f"PyTorch {label}", "step_ms")))
    for label in list(files)[1:]:
        figures.append(Figure(f"{label} beside dense", Reading("moh", "step_ms", {"model": files[label]}),
                              Reading("moh", "step_ms", {"model": first})))
        figures.append(Figure(f"{label} beside dense, reference form", Reading(f"PyTorch {label}", "step_ms"),
                              Reading("PyTorch dense", "step_ms")))
    yield Comparison("dit_sample", "DiT-S/2, 4 latents of 32 x 32, guidance", threads, sides, figures)


def turns_comparison(case, name, models, settings, threads, terms):
    """Dense and MoH models alternate on both sides, so that the speed-up by MoH is measured as well, in moh and in PyTorch.
    `models`: (label, configuration), the dense one first."""
    sides, pairs, memory = {}, [], []
    base = models[0][0]
    for label, config in models:
        sides[f"moh {label}"] = moh_step_side((config, *settings), threads, terms)
        sides[f"PyTorch {label}"] = torch_step_side((config, *settings), threads, terms)
        memory.append(("step", f"moh {label}", f"PyTorch {label}"))
        pairs.append((f"moh {label}", f"PyTorch {label}"))
    for side in ("moh", "PyTorch"):
        pairs += [(f"{side} {label}", f"{side} {base}") for label, _ in models[1:]]
    figures = [Figure("step", Reading(ours, "step_ms"), Reading(other, "step_ms")) for ours, other in pairs]
    return Comparison(case, name, threads, sides, figures, memory)


def moh_step(threads, terms, _masks):
    for model in ("llama_384", "llama_768"):
        dense, routed = (f"configs/bench/{model}_long{form}.yaml" for form in ("", "_moh_50"))
        yield turns_comparison("moh_step", f"{model}, T 2048, batch 1", [("dense", dense), ("MoH-50", routed)], (), threads,
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
            figures = [Figure(what, Reading("moh", name), Reading("PyTorch", name)) for what, name in PASSES]
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
    """A convolution with bias of square images, as `moh bench ops` lists them (train/bench/op_cases.cpp). One of 3 channels
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
