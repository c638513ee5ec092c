"""The paper's tables of diffusion models."""

from model_settings import preset, routed

from .table import Row, Small, Table

LATENTS = "ImageNet-1K as latents of Stable Diffusion's autoencoder (docs/diffusion.md)"
SAMPLES = "50,000 samples of 256 pixels, 250 steps; FID of Inception's features"


def evaluation(checkpoint="RUN", guidance=1, samples="samples"):
    """The evaluator is guided-diffusion's, which has Inception; from features that it makes, moh eval fid computes the same scores
    (docs/diffusion.md)."""
    return (f"moh sample --checkpoint {checkpoint} --autoencoder sd-vae-ft-ema --out RUN/{samples} -n 50000 --cfg {guidance:g} "
            "--batch-size 256 --npz",
            f"python evaluator.py VIRTUAL_imagenet256_labeled.npz RUN/{samples}/samples.npz")


PAPER = "configs/dit/paper.yaml"
DENSE, NINETY, THREE_QUARTERS = (Small(f"configs/dit/cifar10_{name}.yaml") for name in ("dense", "moh_90", "moh_75"))
FURTHER = ("sfid", "is", "precision", "recall")
SMALL_SCORE = "loss on held-out pictures (noise and variance), lower is better; not FID"


def row(name, heads, scores, settings, small, params_m=None, base="", **further):
    """`scores` are FID and those of FURTHER, as far as the paper has them."""
    paper = dict(zip(("fid", *FURTHER), scores if isinstance(scores, tuple) else (scores,)))
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


def of_xl(name, heads, scores, settings, small, params_m, guidance=1.0, checkpoint="RUN", samples="samples"):
    """A row of the largest models: one training has several, at other steps or with guidance."""
    own = () if (guidance, checkpoint) == (1.0, "RUN") else evaluation(checkpoint, guidance, samples)
    base = "DiT-XL/2, 7M steps" + (f", guidance {guidance:g}" if guidance != 1 else "")
    return row(name + (f", guidance {guidance:g}" if guidance != 1 else ""), heads, scores, settings, small, params_m, base=base,
               evaluation=own, guidance=guidance)


def models(title, source, setting, rows):
    return Table(title, source, "training", "fid", setting, tuple(rows), data="images", needs=LATENTS, evaluation=evaluation(),
                 small_score=SMALL_SCORE, further=FURTHER)


STEPS_2M, STEPS_7M = (f"train.steps={millions}000000" for millions in (2, 7))
XL, XL_THREE_QUARTERS = (*preset("dit_xl_2"), STEPS_7M), (*preset("moh_dit_xl_2_75"), STEPS_2M)
# The paper reports this model after 2 and after 7 million steps; as the learning rate is constant, the first row is checkpoints/step_02000000 of
# this run, which stays.
XL_NINETY = (*preset("moh_dit_xl_2_90"), STEPS_7M, "checkpoint.keep=[2000000]")

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
    "dit_xl": models("Diffusion models, XL", "table 2, second part", f"2 and 7 million steps of 256; {SAMPLES}, guidance 1.0 and 1.25", (
        of_xl("DiT-XL/2, 7M steps", 100, (9.62, 6.85, 121.50, 0.67, 0.67), XL, DENSE, 675),
        of_xl("MoH-DiT-XL/2 90%, 7M steps", 90, (8.56, 6.61, 129.54, 0.68, 0.67), XL_NINETY, NINETY, 676),
        of_xl("MoH-DiT-XL/2 90%, 2M steps", 90, (10.67, 6.15, 107.80, 0.67, 0.65), XL_NINETY, NINETY, 676,
              checkpoint="RUN/checkpoints/step_02000000", samples="samples_2M"),
        of_xl("MoH-DiT-XL/2 75%, 2M steps", 75, (10.95, 6.19, 106.69, 0.67, 0.66), XL_THREE_QUARTERS, THREE_QUARTERS, 676),
        of_xl("DiT-XL/2, 7M steps", 100, (3.22, 5.28, 201.77, 0.76, 0.62), XL, DENSE, 675, guidance=1.25,
              samples="samples_cfg_1.25"),
        of_xl("MoH-DiT-XL/2 90%, 7M steps", 90, (2.94, 5.17, 207.25, 0.77, 0.63), XL_NINETY, NINETY, 676, guidance=1.25,
              samples="samples_cfg_1.25"),
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
