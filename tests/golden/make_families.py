"""Makes tests/golden/data/families: small models of families of Hugging Face's transformers, with random weights, their logits, loss and
gradients, and what they generate. Needs the packages of scripts/pytorch_venv.sh:

    build/pytorch-venv/bin/python tests/golden/make_families.py
"""

import json
import pathlib

import torch
import transformers
from safetensors.torch import save_file

FOLDER = pathlib.Path(__file__).parent / "data/families"
SIZES = {"vocab_size": 19, "hidden_size": 16, "intermediate_size": 12, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": 32, "initializer_range": 0.3, "bos_token_id": None, "eos_token_id": 0}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8, "beta_fast": 2.0, "beta_slow": 0.25}
# name: the class, and what its configuration has besides the sizes.
FAMILIES = {
    "llama_biases_linear": ("Llama", {"attention_bias": True, "mlp_bias": True, "rope_scaling": {"rope_type": "linear", "factor": 4.0}}),
    "llama_yarn": ("Llama", {"head_dim": 8, "rope_scaling": YARN}),
    "llama_dynamic": ("Llama", {"head_dim": 8, "max_position_embeddings": 6, "rope_scaling": {"rope_type": "dynamic", "factor": 3.0}}),
    "mistral": ("Mistral", {"sliding_window": None}),
    "qwen2": ("Qwen2", {"tie_word_embeddings": True}),
    "qwen3": ("Qwen3", {"head_dim": 6, "rope_scaling": {**YARN, "attention_factor": 1.25, "truncate": False}}),
}


def make(name):
    kind, options = FAMILIES[name]
    torch.manual_seed(1)
    model = getattr(transformers, kind + "ForCausalLM")(getattr(transformers, kind + "Config")(**{**SIZES, **options}))
    for parameter_name, parameter in model.named_parameters():
        if parameter.dim() == 1:
            parameter.data.normal_(1.0 if parameter_name.endswith("norm.weight") else 0.0, 0.3)
    tokens = torch.randint(1, SIZES["vocab_size"], (2, 11))
    output = model(tokens, labels=tokens)
    output.loss.backward()
    with torch.no_grad():
        # Opened anew: with dynamic scaling a model remembers its longest sequence.
        again = type(model)(model.config).eval()
        again.load_state_dict(model.state_dict())
        generated = again.generate(tokens, attention_mask=torch.ones_like(tokens), max_new_tokens=6, min_new_tokens=6, do_sample=False,
                                   pad_token_id=0)
    tensors = {"in.input_ids": tokens, "out.logits": output.logits, "out.ce_loss": output.loss, "out.generated": generated[:, 11:]}
    for parameter_name, parameter in model.named_parameters():
        tensors["param." + parameter_name] = parameter.data
        tensors["grad.param." + parameter_name] = parameter.grad
    metadata = {"kind": "llama_family", "config": json.dumps(model.config.to_diff_dict()), "transformers": transformers.__version__,
                "torch": torch.__version__}
    save_file({key: tensor.detach().clone() for key, tensor in tensors.items()}, FOLDER / f"{name}.safetensors", metadata)


FOLDER.mkdir(exist_ok=True)
for family in FAMILIES:
    make(family)
