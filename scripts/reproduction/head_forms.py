"""The ways to use fewer heads that heads_at_equal_compute compares, as settings over one dense configuration of any size, a language model or
a ViT.

Each form keeps the width of a head. Counts are shares of the configuration's heads: where half of them are active, a sixth of all is shared.
"""

import subprocess
from dataclasses import dataclass

import resolved_config
import seeded_runs


@dataclass(frozen=True)
class Task:
    """What differs between kinds of models: where their heads are, and of what data they count `items` a step."""

    section: str  # of heads, head_dim and hidden
    data: str  # kind of --data
    item: str
    decodes: bool = False  # has a KV cache, and generates tokens

    @property
    def items(self):
        return f"{self.item}s"


LANGUAGE, IMAGES = Task("model", "text", "token", decodes=True), Task("model.vit", "images", "picture")


@dataclass(frozen=True)
class Base:
    """The dense model over which the forms are settings: its query heads, of this width."""

    heads: int
    head_dim: int
    task: Task = LANGUAGE


@dataclass(frozen=True)
class Form:
    """One row: `settings` of a Base. `kv_share` says how many query heads share a KV head; 1: none do."""

    name: str
    settings: callable
    kv_share: int = 1
    begins: float = 0  # if not 0, the training goes on from the dense form's checkpoint after this share of its steps
    start: tuple = ()  # settings of such a training, which no cost depends on
    of_images: bool = False  # also a row of image classifiers


def base_of(moh, config, settings):
    """Reads the heads of a configuration that has one number for all layers."""
    command = [str(moh), "config", str(config), *settings]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise seeded_runs.Refused(f"{' '.join(command)} ended with code {result.returncode}:\n{result.stderr.strip()}")
    resolved = resolved_config.read(result.stdout)
    if resolved["task"] == "language_model":
        task, model = LANGUAGE, resolved["model"]
    elif resolved["task"] == "image_classification" and resolved["model"]["architecture"] == "vit":
        task, model = IMAGES, resolved["model"]["vit"]
    else:
        kind = resolved["model"].get("architecture", resolved["task"])
        raise seeded_runs.Refused(f"{config}: expected a language model or a classifier with model.architecture: vit, found {kind}")
    return Base(int(model["heads"]), int(model["head_dim"]) or int(model["hidden"]) // int(model["heads"]), task)


def count(heads, share, of=1):
    """So many heads, a multiple of `of`."""
    return max(of, round(heads * share / of) * of)


def dense(share=1.0):
    return lambda base: (f"{base.task.section}.heads={count(base.heads, share)}", f"{base.task.section}.head_dim={base.head_dim}")


def switch_head(experts, top_k):
    """Fewer heads by the number of experts, so that values and outputs have the dense model's parameters."""
    return lambda base: (*dense(1 / experts)(base), f"model.switch_head.experts={experts}", f"model.switch_head.top_k={top_k}")


def moh(active, *further, shared=1 / 6, groups=False, router="learned"):
    """A router that keeps this share of the heads, of which `shared` of all are active for every token."""
    def settings(base):
        of = base.heads // KV_SHARE if groups else 1
        kept, always = count(base.heads, active, of), count(base.heads, shared, of) if shared else 0
        return (f"model.moh.router={router}", f"model.moh.num_shared={always}", f"model.moh.top_k={kept - always}",
                f"model.moh.balance_weight={BALANCE_WEIGHT}", *further)
    return settings


def moh_groups(active):
    """Whole KV groups as what is routed, none of them shared."""
    return lambda base: ("model.moh.router=learned", "model.moh.routing=groups", f"model.moh.top_k={count(base.heads // KV_SHARE, active)}",
                         f"model.moh.balance_weight={BALANCE_WEIGHT}")


KV_SHARE = 4
ROUTED_KEYS = ("model.moh.routed=queries_keys_values", "model.moh.positions=head")
# A tenth of the paper's: at the size of small models the full weight costs more than balanced loads are worth (docs/benchmarks/quality.md).
BALANCE_WEIGHT = 0.001

DENSE = Form("dense, all heads", lambda base: (), of_images=True)

FORMS = (
    DENSE,
    Form("dense, half of the heads", dense(0.5), of_images=True),
    Form("MoH, 75%", moh(0.75), of_images=True),
    Form("MoH, 50%", moh(0.5), of_images=True),
    Form("MoH, 50%, without a balance loss", moh(0.5, "model.moh.balance_weight=0"), of_images=True),
    Form("half of the heads, by importance, for all tokens",
         lambda base: ("model.moh.router=static", f"model.moh.num_shared={count(base.heads, 0.5)}"), begins=0.5,
         start=("model.moh.shared_heads=loss_increase",), of_images=True),
    Form("gated attention, a gate for each head", lambda base: ("model.attention_gate=head",), of_images=True),
    Form("gated attention, a gate for each element", lambda base: ("model.attention_gate=element",), of_images=True),
    Form("SwitchHead, a quarter of the heads, 2 of 4 experts", switch_head(experts=4, top_k=2)),
    Form("routed keys and values, 50%", moh(0.5, *ROUTED_KEYS, shared=0)),
    Form("routed keys and values, 50%, shared heads with a window of 128", moh(0.5, *ROUTED_KEYS, "model.moh.shared_window=128")),
    Form("dense, 4 query heads for each KV head", lambda base: (), KV_SHARE),
    Form("dense, half of the heads, 2 query heads for each KV head", dense(0.5), KV_SHARE),
    Form("MoH, 50%, 4 query heads for each KV head", moh(0.5), KV_SHARE),
    Form("whole KV groups, 50%", moh_groups(0.5), KV_SHARE),
    Form("within KV groups, 50%", moh(0.5, "model.moh.routing=within_groups", shared=0.25, groups=True), KV_SHARE),
    Form("within KV groups, 50%, with the outputs of GQE", moh(0.5, "model.moh.routing=gqe", shared=0.25, groups=True), KV_SHARE),
)


def settings_of(form, base):
    """The settings of a row. Each key comes once."""
    kv = (f"model.kv_heads={base.heads // form.kv_share}",) if form.kv_share > 1 else ()
    merged = dict(setting.split("=", 1) for setting in (*kv, *form.settings(base)))
    return tuple(f"{key}={value}" for key, value in merged.items())


def forms_for(base, names):
    """The rows of the model's task, or those that are named; the dense one first."""
    forms = [form for form in FORMS if base.task is LANGUAGE or form.of_images]
    known = [form.name for form in forms]
    unknown = [name for name in names or [] if name not in known]
    if unknown:
        raise seeded_runs.Refused(f"--rows: expected of {known}, found {unknown}")
    if base.heads % (2 * KV_SHARE) or base.heads % 6:
        raise seeded_runs.Refused(f"{base.task.section}.heads: expected a multiple of 24, of which halves, sixths and groups of {KV_SHARE} are "
                                  f"whole numbers, found {base.heads}")
    return [form for form in forms if not names or form.name in names or form is DENSE]
