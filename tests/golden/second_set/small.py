"""Moving average, learning rate, losses, AdamW with clipping (formula 4.7)."""

import math

import torch
from torch.nn import functional as F

from case import Case, normal


def ema_case():
    g, config = torch.Generator().manual_seed(5), {"shape": [3, 7], "steps": 4, "decays": [0.5, 0.99, 0.123]}
    tensors = {"in.ema0": normal(g, 3, 7), **{f"in.param{i}": normal(g, 3, 7) for i in range(4)}}

    def body(run):
        for decay in config["decays"]:
            average = run["in.ema0"]
            for step in range(config["steps"]):
                average = decay * average + (1 - decay) * run[f"in.param{step}"]
                run.record(f"out.decay{decay}.step{step}", average)
    return Case("ema", config, tensors, body)


def lr_case():
    config = {"schedules": {"long": {"lr": 0.002, "min_lr": 1e-4, "warmup_epochs": 4, "warmup_lr": 1e-5, "epochs": 21, "cooldown_epochs": 3},
                            "one": {"lr": 0.01, "min_lr": 0.0, "warmup_epochs": 0, "warmup_lr": 0.0, "epochs": 1, "cooldown_epochs": 1}}}

    def rate(s, t):
        if t < s["warmup_epochs"]:
            return s["warmup_lr"] + t * (s["lr"] - s["warmup_lr"]) / s["warmup_epochs"]
        if t < s["epochs"]:
            return s["min_lr"] + 0.5 * (s["lr"] - s["min_lr"]) * (1 + math.cos(math.pi * t / s["epochs"]))
        return s["min_lr"]

    def body(run):
        for name, s in config["schedules"].items():
            epochs = range(s["epochs"] + s["cooldown_epochs"])
            run.record(f"out.{name}.lr_of_t", torch.tensor([rate(s, t) for t in epochs], dtype=torch.float64))
            run.record(f"out.{name}.lr_used_in_epoch", torch.tensor([rate(s, max(t - 1, 0)) for t in epochs], dtype=torch.float64))
    return Case("lr_schedule", config, {}, body, float64=("out.",))


def losses_case():
    g, config = torch.Generator().manual_seed(6), {"B": 5, "V": 13, "lam": 0.8, "smoothing": 0.25}
    tensors = {"in.logits": normal(g, 5, 13, scale=2), "in.labels": torch.randint(13, (5,), generator=g)}

    def body(run):
        logits, labels = run.differentiable("in.logits"), run["in.labels"]
        s, lam, classes = config["smoothing"], config["lam"], config["V"]

        def targets(y):
            return torch.full((len(y), classes), s / classes, dtype=run.dtype).scatter(1, y[:, None], 1 - s + s / classes)

        mixed = lam * targets(labels) + (1 - lam) * targets(labels.flip(0))
        losses = {"ce": F.cross_entropy(logits, labels), "label_smoothing": -(targets(labels) * logits.log_softmax(-1)).sum(-1).mean(),
                  "soft_target": -(mixed * logits.log_softmax(-1)).sum(-1).mean()}
        run.record("out.mixup_target", mixed)
        for name, loss in losses.items():
            run.record(f"out.{name}", loss)
            run.record(f"grad.{name}.logits", torch.autograd.grad(loss, logits, retain_graph=True)[0])
    return Case("losses", config, tensors, body)


def adamw_case():
    g = torch.Generator().manual_seed(7)
    config = {"shapes": {"left": [5, 3], "scale": [6], "kernel": [2, 2, 3]}, "no_decay": ["scale"],
              "runs": {"clipped": {"lr": [0.01, 0.02, 0.01], "betas": [0.8, 0.9], "eps": 1e-7, "weight_decay": 0.2, "clip": 0.7},
                       "free": {"lr": [1e-3] * 4, "betas": [0.9, 0.99], "eps": 1e-8, "weight_decay": 0.0, "clip": None}}}
    tensors = {f"param.{name}": normal(g, *shape) for name, shape in config["shapes"].items()}
    for name, settings in config["runs"].items():
        for step in range(len(settings["lr"])):
            tensors |= {f"in.{name}.step{step}.grad.{key}": normal(g, *shape) for key, shape in config["shapes"].items()}

    def body(run):
        for name, s in config["runs"].items():
            values = {key: run.param(key).detach().clone() for key in config["shapes"]}
            m, v = ({key: torch.zeros_like(value) for key, value in values.items()} for _ in range(2))
            (b1, b2), at = s["betas"], ""
            for step, lr in enumerate(s["lr"]):
                at = f"{name}.step{step}"
                grads = {key: run[f"in.{at}.grad.{key}"] for key in values}
                if s["clip"] is not None:
                    total = torch.cat([each.flatten() for each in grads.values()]).norm()
                    grads = {key: each * min(1.0, s["clip"] / (total.item() + 1e-6)) for key, each in grads.items()}
                    run.record(f"out.{at}.total_norm", total)
                    for key, each in grads.items():
                        run.record(f"out.{at}.clipped_grad.{key}", each)
                for key, grad in grads.items():
                    decay = 0 if key in config["no_decay"] else s["weight_decay"]
                    m[key], v[key] = b1 * m[key] + (1 - b1) * grad, b2 * v[key] + (1 - b2) * grad**2
                    root = v[key].sqrt() / math.sqrt(1 - b2 ** (step + 1)) + s["eps"]
                    values[key] = values[key] * (1 - lr * decay) - lr / (1 - b1 ** (step + 1)) * m[key] / root
                    run.record(f"out.{at}.param.{key}", values[key])
            for key in values:
                run.record(f"out.{name}.final.exp_avg.{key}", m[key])
                run.record(f"out.{name}.final.exp_avg_sq.{key}", v[key])
    return Case("optim_adamw", config, tensors, body)
