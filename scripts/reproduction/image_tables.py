"""The paper's tables of image classifiers."""

from .table import Row, Small, Table

IMAGENET = "ImageNet-1K as folders of pictures by class (docs/pictures.md): data.train=imagenet/train data.validation=imagenet/val"
EPOCH = 1281024  # pictures of an epoch of the recipe
DENSE, HALF = "configs/vit/cifar10_transnext_dense.yaml", "configs/vit/cifar10_moh_50.yaml"
THREE_QUARTERS = "configs/vit/cifar10_moh_75.yaml"
RECIPE_300, RECIPE_100 = "ImageNet-1K, 224 pixels, 300 epochs, best evaluation", "ImageNet-1K, 224 pixels, 100 epochs"
TOP1 = "top-1, %, after the last step"


def full(name):
    return f"configs/vit/{name}.yaml"


def ablation(name):
    return full(f"ablations/{name}")


def small(name):
    return Small(full(f"ablations/small/{name}"))


def split(shared, routed):
    """The small TransNeXt, whose layers have 4, 8 and 16 heads, with these heads shared and selected."""
    lists = [f"[{','.join(map(str, counts))}]" for counts in (shared, routed)]
    return Small(full("ablations/small/full"), (f"model.moh.num_shared={lists[0]}", f"model.moh.top_k={lists[1]}"))


def classifiers(title, source, setting, epochs, rows, **further):
    return Table(title, source, "training", "top1", setting, tuple(rows), data="images", needs=IMAGENET, items=epochs * EPOCH,
                 small_score=TOP1, **further)


def ablations(title, source, rows, **further):
    return classifiers(title, source, f"MoH-ViT-S, {RECIPE_100}", 100, rows, **further)


TABLES = {
    "vit_imagenet": classifiers("Image classifiers", "table 1", RECIPE_300, 300, (
        Row("TransNeXt-S", 100, {"top1": 84.7, "params_m": 50}, full("transnext_s"), Small(DENSE)),
        Row("MoH-ViT-S 80%", 80, {"top1": 84.7, "params_m": 50}, full("moh_vit_s_80"), split((4, 2, 5), (0, 4, 7))),
        Row("MoH-ViT-S 75%", 75, {"top1": 84.6, "params_m": 50}, full("moh_vit_s_75"), Small(THREE_QUARTERS)),
        Row("TransNeXt-B", 100, {"top1": 84.8, "params_m": 90}, full("transnext_b"), Small(DENSE), base="TransNeXt-B"),
        Row("MoH-ViT-B 75%", 75, {"top1": 84.9, "params_m": 90}, full("moh_vit_b_75"), Small(THREE_QUARTERS), base="TransNeXt-B"),
        Row("MoH-ViT-B 50%", 50, {"top1": 84.7, "params_m": 90}, full("moh_vit_b_50"), Small(HALF), base="TransNeXt-B"),
        Row("DeiT-S", 100, {"top1": 79.8, "params_m": 22}, full("deit_s"), Small(full("cifar10_vit_dense")), base="DeiT-S"),
        Row("DeiT-B", 100, {"top1": 81.8, "params_m": 86}, full("deit_b"), Small(full("cifar10_vit_dense")), base="DeiT-B"),
    ), missing=("rows of other models, which the paper takes from their publications",)),
    "ablation_components": ablations("Shared heads and two-stage routing, image classifiers", "table 5", (
        Row("full", 75, {"top1": 78.6}, ablation("full"), small("full")),
        Row("no shared heads", 75, {"top1": 75.6}, ablation("no_shared"), small("no_shared")),
        Row("shared heads, no two-stage routing", 75, {"top1": 78.3}, ablation("one_stage"), small("one_stage")),
    )),
    "ablation_shared_ratio": ablations("Share of shared heads among the active ones", "table 6", (
        Row("40.5% shared", 75, {"top1": 78.6}, ablation("shared_40_5"), split((4, 2, 3), (0, 4, 8))),
        Row("13.9% shared", 75, {"top1": 78.6}, ablation("shared_13_9"), small("shared_19")),
        Row("27.6% shared", 75, {"top1": 78.5}, ablation("shared_27_6"), split((4, 2, 0), (0, 4, 11))),
        Row("31.3% shared", 75, {"top1": 78.4}, ablation("shared_31_3"), split((4, 2, 1), (0, 4, 10))),
        Row("35.9% shared", 75, {"top1": 78.4}, ablation("shared_35_9"), split((4, 2, 2), (0, 4, 9))),
        Row("37.5% shared", 75, {"top1": 78.5}, ablation("shared_37_5"), split((4, 2, 2), (0, 4, 9))),
        Row("46.8% shared", 75, {"top1": 78.4}, ablation("shared_46_8"), small("full")),
        Row("60.4% shared", 75, {"top1": 78.6}, ablation("shared_60_4"), small("shared_57")),
        Row("74.0% shared", 75, {"top1": 78.4}, ablation("shared_74_0"), small("shared_76")),
    )),
    "ablation_activated_ratio": ablations("Share of active heads", "appendix, table H", (
        Row("75% active", 75, {"top1": 78.58}, ablation("active_75"), small("active_75")),
        Row("50% active", 50, {"top1": 78.32}, ablation("active_50"), split((4, 2, 4), (0, 1, 3))),
        Row("55% active", 55, {"top1": 78.38}, ablation("active_55"), small("active_57")),
        Row("60% active", 60, {"top1": 78.44}, ablation("active_60"), split((4, 2, 4), (0, 2, 5))),
        Row("65% active", 65, {"top1": 78.50}, ablation("active_65"), split((4, 2, 4), (0, 3, 5))),
        Row("70% active", 70, {"top1": 78.42}, ablation("active_70"), split((4, 2, 4), (0, 3, 7))),
        Row("80% active", 80, {"top1": 78.78}, ablation("active_80"), split((4, 2, 4), (0, 4, 8))),
    )),
    "review_moa": ablations("MoH beside MoA", "review", (
        Row("MoH", 75, {"top1": 78.6}, ablation("full"), small("full")),
        Row("MoA", 75, {"top1": 75.4}, ablation("moa"), small("moa")),
    ), missing=("translation, WMT14 En-De (BLEU 29.0 for MoH, 28.3 for MoA): moh has no models with encoder and decoder, and the "
                "settings are not published",)),
    "review_sparse": ablations("MoH beside sparse attention and an attention of experts", "review", (
        Row("MoH", 75, {"top1": 78.6}, ablation("full"), small("full")),
        Row("sparse attention", None, {"top1": 78.4}, ablation("sparse"), small("sparse"), note="kind and density are not published"),
        Row("attention of experts: no shared heads", 75, {"top1": 75.6}, ablation("no_shared"), small("no_shared")),
    )),
    "review_learnable_masks": classifiers("Which heads are shared, learned", "review", RECIPE_300, 300, (
        Row("dense", 100, {"top1": 84.8}, full("transnext_b"), Small(DENSE)),
        Row("chosen by hand 75%", 75, {"top1": 84.9}, full("moh_vit_b_75"), Small(THREE_QUARTERS)),
        Row("chosen by hand 50%", 50, {"top1": 84.7}, full("moh_vit_b_50"), Small(HALF)),
        Row("learned 50%", 50, {"top1": 85.0}, ablation("learned_25"), small("learned_25"), note="masks are not published"),
    )),
    "review_k_ratio": classifiers("K as a share of the routed heads, shared heads learned", "review", RECIPE_300, 300, (
        Row("K 1/4", None, {"top1": 85.0}, ablation("learned_25"), small("learned_25")),
        Row("K 1/8", None, {"top1": 84.8}, ablation("learned_125"), small("learned_125")),
        Row("K 1/2", None, {"top1": 84.9}, ablation("learned_5"), small("learned_5")),
    )),
    "review_moe_ffn": classifiers("MoH beside feed-forward experts", "review", f"model of 28M parameters, {RECIPE_100}", 100, (
        Row("dense", 100, {"top1": 77.0, "params_m": 28}, ablation("tiny_dense"), small("dense")),
        Row("MoH", 75, {"top1": 77.2, "params_m": 28}, ablation("tiny_moh"), small("full")),
        Row("two feed-forward experts", 100, {"top1": 78.1, "params_m": 45}, ablation("tiny_moe"), small("moe")),
        Row("MoH and two feed-forward experts", 75, {"top1": 78.1, "params_m": 45}, ablation("tiny_moh_moe"), small("moh_moe")),
    )),
    "reference_dense_vit": Table(
        "Sizes of the dense models", "release of TransNeXt", "size", "gmacs", "224 pixels", (
            Row("TransNeXt-Tiny", 100, {"params_m": 28.2, "gmacs": 5.7, "top1": 84.0}, ablation("tiny_dense")),
            Row("TransNeXt-S", 100, {"params_m": 49.7, "gmacs": 10.3, "top1": 84.7}, full("transnext_s")),
            Row("TransNeXt-B", 100, {"params_m": 89.7, "gmacs": 18.4, "top1": 84.8}, full("transnext_b")),
        ), needs=IMAGENET + "; and the released weights, for top-1: init.from=FILE.pth of a run, then moh eval",
        missing=("top-1: the released weights and ImageNet-1K",)),
}
