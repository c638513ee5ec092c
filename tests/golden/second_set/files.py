"""What other programs save: PyTorch's checkpoints with their manifest, and folders of Hugging Face's transformers."""

import hashlib
import json
import os

import torch

from case import DTYPES, Run, write_safetensors
import dit
import llama


def weights_of(case):
    return {name.removeprefix("param."): value.float() for name, value in case.tensors.items() if name.startswith("param.")}


class Refused:
    """Its pickle calls a function of the system."""

    def __reduce__(self):
        return os.system, ("true",)


def manifest_entry(content):
    """Tensors and other leaves by their paths."""
    entry = {"tensors": {}, "plain": {}}

    def visit(path, value):
        if isinstance(value, torch.Tensor):
            data = value.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
            entry["tensors"][path] = {
                "dtype": DTYPES[value.dtype], "shape": list(value.shape), "stride": list(value.stride()), "first": value.flatten()[0].item(),
                "storage_offset": value.storage_offset(), "sum": value.double().sum().item(), "sha256": hashlib.sha256(data).hexdigest()}
        elif isinstance(value, dict):
            for key, each in value.items():
                visit(f"{path}/{key}" if path else str(key), each)
        else:
            entry["plain"][path] = value
    visit("", content)
    return entry


def torch_checkpoints(folder, dit_case, transnext_case):
    folder.mkdir()
    model, manifest = weights_of(dit_case), {}
    average = {name: value * 0.9 for name, value in model.items()}
    contents = {"diffusion_run.pt": {"model": model, "ema": average, "epochs": 3},
                "vision_run.pth": {"model": weights_of(transnext_case), "max_accuracy": 12.5},
                "bare.pt": {"a.weight": torch.arange(6.0).view(2, 3).T, "b": torch.tensor([1, 2])}}
    for name, content in contents.items():
        torch.save(content, folder / name)
        manifest[name] = manifest_entry(content)
    torch.save({"weight": torch.ones(2), "more": Refused()}, folder / "hostile.pt")
    manifest["hostile.pt"] = {"refuse": True}
    (folder / "manifest.json").write_text(json.dumps(manifest))

    run, outputs = Run(dit_case, torch.float64), {}
    for which, weights in (("model", model), ("ema", average)):
        run.tensors |= {f"param.{name}": value.double() for name, value in weights.items()}
        outputs[f"out.{which}"] = dit.Model(dit_case.config).forward(run, run["in.x"], run["in.t"], run["in.y"])[0].float()
    inputs = {name: value.float() if value.dtype == torch.float64 else value for name, value in dit_case.tensors.items() if name in ("in.x", "in.t", "in.y")}
    write_safetensors(folder / "diffusion_run.expected.safetensors", {**inputs, **outputs},
                      {"config": json.dumps(dit_case.config), "min_gap": f"{run.min_gap:e}"})


def hf_folder(folder, case):
    """The weights of a language model in one file, and, rounded to bfloat16, in three with what they compute."""
    c, weights = case.config, weights_of(case)
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "attention_bias": False,
              "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 2, **{key: c[key] for key in c if key not in ("B", "N")}}
    folder.mkdir()
    write_safetensors(folder / "model.safetensors", weights, {"format": "pt"})
    (folder / "config.json").write_text(json.dumps({**config, "torch_dtype": "float32"}))

    sharded = folder / "in_three"
    sharded.mkdir()
    (sharded / "config.json").write_text(json.dumps({**config, "torch_dtype": "bfloat16"}))
    rounded, weight_map = {name: value.bfloat16() for name, value in weights.items()}, {}
    for number in range(3):
        file = f"model-{number + 1:05}-of-00003.safetensors"
        part = {name: value for i, (name, value) in enumerate(rounded.items()) if i % 3 == number}
        write_safetensors(sharded / file, part, {"format": "pt"})
        weight_map |= dict.fromkeys(part, file)
    (sharded / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    run = Run(case, torch.float64)
    run.tensors |= {f"param.{name}": value.double() for name, value in rounded.items()}
    logits = llama.Model(c).logits(run, run["in.input_ids"])
    loss = llama.next_token_loss(logits, run["in.labels"])
    write_safetensors(folder / "in_three_expected.safetensors",
                      {"in.input_ids": run["in.input_ids"], "in.labels": run["in.labels"], "out.logits": logits.float(), "out.ce_loss": loss.float()},
                      {"config": json.dumps(c), "min_gap": f"{run.min_gap:e}"})
