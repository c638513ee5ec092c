# SPDX-License-Identifier: Apache-2.0
"""The models of modeling_moh_vit.py for Hugging Face's transformers.

Written by moh beside the weights of a model that it exports; AutoModelForImageClassification loads it with
`trust_remote_code=True`. Tensors keep the names of the weights' file, and the interface of timm's models stays, too.
"""

from dataclasses import dataclass
from typing import Optional

import torch
from torch import nn
from torch.nn import functional as F
from transformers import PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import ImageClassifierOutput

from .moh_attention import Routing  # which transformers copies, as it does what this file names, and no more
from .modeling_moh_vit import TransNext, Vit


class MohVitConfig(PretrainedConfig):
    """`model` is the section `model` of a run of moh (its reference of keys explains it), `pretrained_cfg` how evaluations see images, as in timm."""

    model_type = "moh_vit"

    def __init__(self, model=None, pretrained_cfg=None, **kwargs):
        self.model, self.pretrained_cfg = model or {}, pretrained_cfg or {}
        super().__init__(**kwargs)


@dataclass
class MohImageClassifierOutput(ImageClassifierOutput):
    """With `output_gates` what routing did: see Routing in moh_attention.py."""

    gates: Optional[tuple] = None
    head_loads: Optional[tuple] = None
    balance_loss: Optional[torch.Tensor] = None
    expert_balance_loss: Optional[torch.Tensor] = None


class ForTransformers(PreTrainedModel):
    config_class = MohVitConfig
    main_input_name = "pixel_values"
    _supports_sdpa = True

    def __init__(self, config):
        super().__init__(config)
        self.build(config.model, config.pretrained_cfg)
        moh = config.model["moh"]
        names = {name.rpartition(".")[2] for name, _ in self.named_parameters()} & {"e_score_correction_bias"}
        if moh["router_precision"] == "float32":
            names |= {name.rpartition(".")[2] for name, _ in self.named_modules()} & {"wg", "wg_0", "wg_1"}
        self._keep_in_fp32_modules_strict = sorted(names)
        self.post_init()

    def _init_weights(self, module):
        if isinstance(module, (nn.Linear, nn.Conv2d)):
            nn.init.trunc_normal_(module.weight, std=0.02)
            if module.bias is not None:
                nn.init.zeros_(module.bias)

    def reset_classifier(self, num_classes, global_pool=None):
        super().reset_classifier(num_classes, global_pool)
        self.config.num_labels = num_classes

    def forward(self, pixel_values, labels=None, output_gates=False, return_dict=None):
        """Images [B, C, height, width] to logits [B, classes]. With `labels` [B] the loss is their mean cross-entropy; in training
        the layers' load-balance loss joins it, times its weight."""
        logits, routing = self.logits_and_routing(pixel_values)
        loss = None if labels is None else self.loss_of(logits, labels, routing)
        output = MohImageClassifierOutput(loss=loss, logits=logits, **(vars(routing) if output_gates else {}))
        return output if return_dict is None or return_dict else output.to_tuple()

    def loss_of(self, logits, labels, routing: Routing):
        loss = F.cross_entropy(logits.float(), labels)
        if self.training and routing.balance_loss is not None:
            loss = loss + self.config.model["moh"]["balance_weight"] * routing.balance_loss
        return loss


class MohVitForImageClassification(ForTransformers, Vit):
    pass


class MohTransNextForImageClassification(ForTransformers, TransNext):
    pass
