"""The paper's tables of diffusion models."""

from .table import Row, Small, Table

LATENTS = "ImageNet-1K as latents of Stable Diffusion's autoencoder (docs/diffusion.md)"
SAMPLES = "50,000 samples of 256 pixels, 250 steps; FID of Inception's features"
# The evaluator is guided-diffusion's, which has Inception; from features that it makes, moh eval fid computes the same (docs/diffusion.md).
EVALUATION = (
    "moh sample --checkpoint RUN --autoencoder sd-vae-ft-ema --out RUN/samples -n 50000 --cfg 1 --batch-size 256 --npz",
    "python evaluator.py VIRTUAL_imagenet256_labeled.npz RUN/samples/samples.npz",
)
DENSE, NINETY, THREE_QUARTERS = (Small(f"configs/dit/cifar10_{name}.yaml") for name in ("dense", "moh_90", "moh_75"))
MISSING = ("sFID, inception score, precision and recall, which the same evaluator prints",)
SMALL_SCORE = "loss on held-out pictures (noise and variance), lower is better; not FID"


def full(name):
    return f"configs/dit/{name}.yaml"


def row(name, heads, fid, config, small, params_m=None, settings=(), base=""):
    paper = {"fid": fid} if params_m is None else {"fid": fid, "params_m": params_m}
    return Row(name, heads, paper, full(config), small, settings, base=base)


def of_size(size, *models):
    """Rows of a size, each with its share of heads, FID and parameters; the dense one is the first."""
    smalls = {100: ("", DENSE), 90: ("_90", NINETY), 75: ("_75", THREE_QUARTERS)}
    dense = f"DiT-{size}/2"
    return tuple(row(dense if heads == 100 else f"MoH-{dense} {heads}%", heads, fid,
                     f"{'' if heads == 100 else 'moh_'}dit_{size.lower()}_2{smalls[heads][0]}", smalls[heads][1], params_m, base=dense)
                 for heads, fid, params_m in models)


def models(title, source, setting, rows):
    return Table(title, source, "training", "fid", setting, tuple(rows), data="images", needs=LATENTS, evaluation=EVALUATION,
                 small_score=SMALL_SCORE, missing=MISSING)


SEVEN_MILLION, TWO_MILLION = ("train.steps=7000000",), ("train.steps=2000000",)
# Lists of heads are not published: each layer keeps as many heads as that of the full model.
NO_SHARED = ("model.moh.num_shared=[0,0,0,0,0,0,0,0,0,0,0,0]", "model.moh.top_k=[3,3,4,4,4,4,5,5,5,5,6,6]", "model.moh.two_stage=false")
NO_SHARED_SMALL = ("model.moh.num_shared=[0,0,0,0,0,0]", "model.moh.top_k=[4,4,4,4,5,6]", "model.moh.two_stage=false")
ONE_STAGE = ("model.moh.two_stage=false",)

TABLES = {
    "dit_small_to_large": models("Diffusion models", "table 2, first part", f"400,000 steps of 256; {SAMPLES}, no guidance", (
        *of_size("S", (100, 68.40, 33), (90, 67.25, 33), (75, 69.42, 33)),
        *of_size("B", (100, 43.47, 130), (90, 43.40, 131), (75, 43.61, 131)),
        *of_size("L", (100, 23.33, 458), (90, 23.17, 459), (75, 24.29, 459)),
    )),
    # With guidance 1.25 the first two have 3.22 and 2.94: the same trainings, `--cfg 1.25` in place of 1.
    "dit_xl": models("Diffusion models, XL", "table 2, second part", f"2 and 7 million steps of 256; {SAMPLES}, guidance 1.0", (
        row("DiT-XL/2, 7M steps", 100, 9.62, "dit_xl_2", DENSE, 675, SEVEN_MILLION),
        row("MoH-DiT-XL/2 90%, 7M steps", 90, 8.56, "moh_dit_xl_2_90", NINETY, 676, SEVEN_MILLION),
        row("MoH-DiT-XL/2 90%, 2M steps", 90, 10.67, "moh_dit_xl_2_90", NINETY, 676, TWO_MILLION),
        row("MoH-DiT-XL/2 75%, 2M steps", 75, 10.95, "moh_dit_xl_2_75", THREE_QUARTERS, 676, TWO_MILLION),
    )),
    "ablation_components_dit": models("Shared heads and two-stage routing, diffusion models", "table 5",
                                      f"MoH-DiT-S/2 75%, 400,000 steps of 256; {SAMPLES}, no guidance", (
        row("full", 75, 69.42, "moh_dit_s_2_75", THREE_QUARTERS),
        row("no shared heads", 75, 71.97, "moh_dit_s_2_75", Small(THREE_QUARTERS.config, NO_SHARED_SMALL), settings=NO_SHARED),
        row("shared heads, no two-stage routing", 75, 69.54, "moh_dit_s_2_75", Small(THREE_QUARTERS.config, ONE_STAGE),
            settings=ONE_STAGE),
    )),
}
