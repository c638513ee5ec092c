"""Writes a second set of golden files, with other sizes, names and counts than those of tests/golden/data, into
FOLDER/golden: python make.py FOLDER. The numbers come from the formulas, programmed here in PyTorch in float64, and not from
the released code: tests/golden/second_set_test.py compares moh with them, and so shows that the golden tests take everything
from the files."""

import json
import pathlib
import sys

import torch

import dit
import files
import llama
import small
import transnext

DIT = {"input_size": 6, "patch_size": 2, "in_channels": 4, "hidden_size": 24, "num_classes": 5}
DITS = {
    "whole_dit": {**DIT, "depth": 2, "num_heads": [3, 4], "head_dim": 6, "mlp_ratio": 3.0, "shared_head": [2, 0], "routed_head": [1, 2],
                  "B": 3, "t": [999, 0, 41], "extras": True, "cfg_pairs": 1, "cfg_scale": 4.0, "train_t": [0, 999, 3],
                  "step_t": [0, 249, 30], "loop_steps": 3},
    "dit_of_shared_heads": {**DIT, "depth": 1, "num_heads": 3, "head_dim": 99, "mlp_ratio": 2.0, "shared_head": [3],
                            "routed_head": [0], "B": 2, "t": [1, 2]},
    "plain_dit": {**DIT, "input_size": 4, "in_channels": 3, "depth": 3, "num_heads": 4, "mlp_ratio": 1.0, "B": 1, "t": [77]}}
ATTENTION = [(60, 5, 2, 1, 12, 1, 9), (40, 4, 0, 3, 8, 3, 4), (24, 3, 3, 0, 8, 2, 1)]  # dim, H, S, K, d, B, N
LLAMA = {"hidden_size": 48, "intermediate_size": 40, "vocab_size": 31, "num_hidden_layers": 3, "num_attention_heads": 12,
         "num_key_value_heads": 4, "rope_theta": 10000.0, "max_position_embeddings": 32, "rms_norm_eps": 1e-6, "B": 3, "N": 7}
LLAMA_LAYER = {"hidden_size": 40, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 6, "rope_theta": 1e4,
               "max_position_embeddings": 32, "B": 3, "N": 6, "pad": 2, "first_position": 5}
AGGREGATED = {"aggregated": True, "sr_ratio": 3, "window_size": 3, "fixed_pool_size": None, "B": 2}
TRANSNEXT_LAYERS = [
    {**AGGREGATED, "dim": 24, "num_heads": 3, "shared_head": 1, "routed_head": 1, "res": [9, 6]},
    {**AGGREGATED, "dim": 32, "num_heads": 4, "shared_head": 2, "routed_head": 1, "res": [5, 7], "fixed_pool_size": 2, "pretrain_res": [20, 20]},
    {"aggregated": False, "dim": 24, "num_heads": 6, "shared_head": 0, "routed_head": 4, "res": [2, 6], "B": 3}]
TRANSNEXT = {"num_classes": 4, "embed_dims": [8, 12, 16, 24], "num_heads": [1 + 1, 3, 2, 3], "mlp_ratios": [3, 2, 4, 2],
             "depths": [1, 2, 1, 1], "sr_ratios": [8, 4, 2, 1], "shared_head": [0, 1, 2, 1], "routed_head": [1, 2, 0, 1], "B": 1}
TRANSNEXTS = {"larger_training": {**TRANSNEXT, "img_size": 64, "pretrain_size": 96},
              "shared_alone": {**TRANSNEXT, "img_size": 64, "pretrain_size": 128, "depths": [1, 1, 1, 1],
                               "shared_head": [2, 3, 2, 3], "routed_head": [0] * 4}}


def main(folder):
    torch.set_num_threads(1)
    golden = folder / "golden"
    golden.mkdir(parents=True)
    dits = {name: dit.model_case(config) for name, config in DITS.items()}
    language = llama.model_case(LLAMA)
    transnexts = {name: transnext.model_case(config) for name, config in TRANSNEXTS.items()}
    cases = {"average": small.ema_case(), "rates": small.lr_case(), "loss": small.losses_case(), "update": small.adamw_case(),
             "edges": dit.edges_case(), "process": dit.schedule_case(), **dits, "language": language, **transnexts,
             "language_layer": llama.attention_case(LLAMA_LAYER), "tables": transnext.relpos_case(),
             **{f"head_choice_{i}": dit.attention_case(*sizes) for i, sizes in enumerate(ATTENTION)},
             **{f"vision_layer_{i}": transnext.attention_case(config) for i, config in enumerate(TRANSNEXT_LAYERS)}}
    for name, case in cases.items():
        case.write(golden / f"{name}.safetensors")
    groups = transnext.weight_decay(transnexts["larger_training"])
    (golden / "transnext_weight_decay.json").write_text(json.dumps(groups))
    files.torch_checkpoints(golden / "torch_checkpoints", dits["whole_dit"], transnexts["larger_training"])
    files.hf_folder(golden / "hf_folder", language)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
