"""The paper's tables of diffusion models."""

from model_settings import preset, routed

from .table import Row, Small, Table

LATENTS = "ImageNet-1K as latents of Stable Diffusion's autoencoder (docs/diffusion.md)"
SAMPLES = "50,000 samples of 256 pixels, 250 steps; FID of Inception's features"


def evaluation(checkpoint="RUN", guidance=1, samples="samples"):
    """The scores are those of guided-diffusion's evaluator, with its graph and its reference batch (docs/evaluation.md)."""
    return (f"moh sample --checkpoint {checkpoint} --autoencoder sd-vae-ft-ema --out RUN/{samples} -n 50000 --cfg {guidance:g} "
            "--batch-size 256 --npz",
            f"moh eval fid --features classify_image_graph_def.pb VIRTUAL_imagenet256_labeled.npz RUN/{samples}/samples.npz")


PAPER = "configs/dit/paper.yaml"
DENSE, NINETY, THREE_QUARTERS = (Small(f"configs/dit/cifar10_{name}.yaml") for name in ("dense", "moh_90", "moh_75"))
FURTHER = ("sfid", "is", "precision", "recall")
SMALL_SCORE = "loss on held-out pictures (noise and variance), lower is better; not FID"


def row(name, heads, scores, settings, small, params_m=None, base="", **further):
    """`scores` are FID and those of FURTHER, as far as they are published; None for one that is not."""
    numbers = zip(("fid", *FURTHER), scores if isinstance(scores, tuple) else (scores,))
    paper = {name: number for name, number in numbers if number is not None}
    if params_m is not None:
        paper["params_m"] = params_m
    return Row(name, heads, paper, PAPER, small, settings, base=base, **further)


def of_size(size, *models):
    """Rows of a size, each with its share of heads, scores and parameters; the dense one is the first."""
    smalls = {100: ("", DENSE), 90: ("_90", NINETY), 75: ("_75", THREE_QUARTERS)}
    dense = f"DiT-{size}/2"
    return tuple(row(dense if heads == 100 else f"MoH-{dense} {heads}%", heads, scores,
                     preset(f"{'' if heads == 100 else 'moh_'}dit_{size.lower()}_2{smalls[heads][0]}"), smalls[heads][1], params_m, base=dense)
                 for heads, scores, params_m in models)


def of_xl(training, steps, scores, guidance=1.0):
    """A row of the largest models: a training has several, after other numbers of steps (400,000, or the end) and with guidance."""
    end = "" if guidance == 1 else f", guidance {guidance:g}"
    at_end = steps == training.millions * 10**6
    length = f"{steps // 10**6}M" if steps >= 10**6 else f"{steps // 1000}K"
    samples = "samples" + ("" if at_end else f"_{length}") + ("" if guidance == 1 else f"_cfg_{guidance:g}")
    checkpoint = "RUN" if at_end else f"RUN/checkpoints/step_{steps:08}"
    base = "400K" if steps < 10**6 else "7M"  # of the dense model, which has no published number after 2 million
    return row(f"{training.name}, {length} steps{end}", training.heads, scores, training.settings, training.small, training.params_m,
               base=f"DiT-XL/2, {base} steps{end}", evaluation=() if (at_end, guidance) == (True, 1) else evaluation(checkpoint, guidance, samples),
               guidance=guidance)


def models(title, source, setting, rows):
    return Table(title, source, "training", "fid", setting, tuple(rows), data="images", needs=LATENTS, evaluation=evaluation(),
                 small_score=SMALL_SCORE, further=FURTHER)


class Training:
    """A training of the largest model. As the learning rate is constant, what is reported after fewer steps is a checkpoint of it, which
    stays."""

    def __init__(self, name, heads, preset_name, millions, milestones, small, params_m):
        self.name, self.heads, self.millions, self.small, self.params_m = name, heads, millions, small, params_m
        self.settings = (*preset(preset_name), f"train.steps={millions}000000", f"checkpoint.keep={list(milestones)}".replace(" ", ""))


XL = Training("DiT-XL/2", 100, "dit_xl_2", 7, (400000,), DENSE, 675)
XL_NINETY = Training("MoH-DiT-XL/2 90%", 90, "moh_dit_xl_2_90", 7, (400000, 2000000), NINETY, 676)
XL_THREE_QUARTERS = Training("MoH-DiT-XL/2 75%", 75, "moh_dit_xl_2_75", 2, (400000,), THREE_QUARTERS, 676)

FULL, ONE_STAGE = preset("moh_dit_s_2_75"), ("model.moh.two_stage=false",)
# Lists of heads are not published (proposed): each layer keeps as many heads as that of the full model.
NO_SHARED = (*FULL, *routed((0,) * 12, (3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 6, 6)), *ONE_STAGE)
NO_SHARED_SMALL = (*routed((0,) * 6, (4, 4, 4, 4, 5, 6)), *ONE_STAGE)

TABLES = {
    "dit_small_to_large": models("Diffusion models", "table 2, first part", f"400,000 steps of 256; {SAMPLES}, no guidance", (
        *of_size("S", (100, 68.40, 33), (90, (67.25, 12.15, 20.52, 0.37, 0.58), 33), (75, (69.42, 12.85, 19.96, 0.36, 0.55), 33)),
        *of_size("B", (100, 43.47, 130), (90, (43.40, 8.40, 33.51, 0.49, 0.63), 131), (75, (43.61, 8.48, 33.43, 0.49, 0.62), 131)),
        *of_size("L", (100, 23.33, 458), (90, (23.17, 6.16, 58.92, 0.61, 0.63), 459), (75, (24.29, 6.38, 57.75, 0.60, 0.63), 459)),
    )),
    # FID after 400,000 steps, and with guidance 1.5, is of DiT's release alone.
    "dit_xl": models("Diffusion models, XL", "table 2, second part", f"0.4, 2 and 7 million steps of 256; {SAMPLES}, guidance 1.0, 1.25 and 1.5", (
        of_xl(XL, 7000000, (9.62, 6.85, 121.50, 0.67, 0.67)),
        of_xl(XL_NINETY, 7000000, (8.56, 6.61, 129.54, 0.68, 0.67)),
        of_xl(XL_NINETY, 2000000, (10.67, 6.15, 107.80, 0.67, 0.65)),
        of_xl(XL_THREE_QUARTERS, 2000000, (10.95, 6.19, 106.69, 0.67, 0.66)),
        of_xl(XL, 7000000, (3.22, 5.28, 201.77, 0.76, 0.62), guidance=1.25),
        of_xl(XL_NINETY, 7000000, (2.94, 5.17, 207.25, 0.77, 0.63), guidance=1.25),
        of_xl(XL, 7000000, (2.27, None, 278.24), guidance=1.5),
        of_xl(XL_NINETY, 7000000, (), guidance=1.5),
        of_xl(XL, 400000, 19.5),
        of_xl(XL_NINETY, 400000, ()),
        of_xl(XL_THREE_QUARTERS, 400000, ()),
    )),
    "ablation_components_dit": models("Shared heads and two-stage routing, diffusion models", "table 5",
                                      f"MoH-DiT-S/2 75%, 400,000 steps of 256; {SAMPLES}, no guidance", (
        row("full", 75, (69.42, 12.85, 19.96, 0.36, 0.55), FULL, THREE_QUARTERS),
        row("no shared heads", 75, (71.97, 13.58, 19.06, 0.35, 0.55), NO_SHARED,
            Small(THREE_QUARTERS.config, NO_SHARED_SMALL)),
        row("shared heads, no two-stage routing", 75, (69.54, 12.80, 19.67, 0.36, 0.55), (*FULL, *ONE_STAGE),
            Small(THREE_QUARTERS.config, ONE_STAGE)),
    )),
}
