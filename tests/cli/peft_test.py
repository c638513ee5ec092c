"""Adapters in PEFT's layout (moh convert --format peft) and merged ones (--format hf), opened by PyTorch: the same logits. With the package
peft, also as it reads them; without, its formula is applied by hand."""

import importlib.util
import json
import os
import pathlib
import re
import sys
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import python_packages  # noqa: E402

python_packages.require("torch", "safetensors", "transformers")
os.environ.update(HF_HUB_OFFLINE="1")

import support  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from safetensors.torch import load_file  # noqa: E402
from support import DENSE  # noqa: E402

torch.set_num_threads(1)
transformers.logging.set_verbosity_error()

JOB = {key: value for key, value in support.TINY.items() if key != "model"}
PROGRAM = re.compile(r"```python\n(.*?)```", re.DOTALL)
BASE = "Meta-Llama-3-8B"  # as the page calls it
PREFIX = "base_model.model."
# Found: 2.6e-7 of the largest logit.
TOLERANCE = 1e-5


def hooked(module, down, up, scale):
    """PEFT's linear map: what the module returns, and scale * up(down(x))."""
    module.register_forward_hook(lambda _, inputs, y: y + scale * (inputs[0] @ down.T) @ up.T)


class Peft(support.MohTest):
    def setUp(self):
        super().setUp()
        os.environ["HF_HOME"] = str(self.folder / "hf_home")
        self.enterContext(torch.no_grad())
        self.moh("train", self.config({**DENSE, "train.steps": 12, "output.dir": "dense"}, "dense.yaml"))
        self.moh("convert", "--from", "dense", "--to", BASE, "--format", "hf")
        job = {**JOB, "init": {"from": BASE}, "optim": {"learning_rate": 0.02},
               "model": {"moh": {"router": "learned", "num_shared": 2, "top_k": 1}, "lora": {"rank": 4, "alpha": 6, "full": "norms"}}}
        self.write("job.yaml", support.to_yaml(job) + "\n")
        self.moh("train", "job.yaml")
        for form, folder in (("peft", "adapters"), ("hf", "merged")):
            self.moh("convert", "--from", "run", "--to", folder, "--format", form)
        self.tokens = torch.arange(60).reshape(2, 30) % 251
        merged = transformers.AutoModelForCausalLM.from_pretrained(self.folder / "merged", trust_remote_code=True).eval()
        self.expected, self.merged = merged(self.tokens).logits, merged.state_dict()

    def base(self):
        """The base model of the adapters, made by the code that lies beside them."""
        config = transformers.AutoConfig.from_pretrained(self.folder / "adapters", trust_remote_code=True)
        model = transformers.AutoModelForCausalLM.from_config(config, trust_remote_code=True).eval()
        missing = model.load_state_dict(load_file(self.folder / BASE / "model.safetensors"), strict=False).missing_keys
        self.assertTrue(missing)
        self.assertTrue(all(".wg" in name for name in missing))
        return model

    def assert_expected(self, logits):
        error = (logits - self.expected).abs().max() / self.expected.abs().max()
        self.assertLess(error.item(), TOLERANCE)

    def test_the_formula(self):
        model, tensors = self.base(), load_file(self.folder / "adapters/adapter_model.safetensors")
        config = json.loads((self.folder / "adapters/adapter_config.json").read_text())
        before = model(self.tokens).logits
        adapted = 0
        for name, module in model.named_modules():
            kind = name.rpartition(".")[2]
            if kind in config["target_modules"]:
                down, up = (tensors.pop(f"{PREFIX}{name}.lora_{part}.weight") for part in "AB")
                self.assertEqual(down.shape[0], config["r"])
                hooked(module, down, up, config["lora_alpha"] / config["r"])
                adapted += 1
            elif any(name.endswith(end) for end in config["modules_to_save"]):
                for parameter, value in module.named_parameters():
                    value.copy_(tensors.pop(f"{PREFIX}{name}.{parameter}"))
        self.assertEqual((adapted, list(tensors)), (14, []))
        self.assertGreater((before - self.expected).abs().max().item(), 100 * TOLERANCE)
        self.assert_expected(model(self.tokens).logits)

    @unittest.skipUnless(importlib.util.find_spec("peft"), "no peft for Python")
    def test_peft_reads_them_by_the_program_of_the_page(self):
        text = (python_packages.SOURCE / "docs/continue_tuning.md").read_text()
        (program,) = PROGRAM.findall(text)
        before, names = os.getcwd(), {}
        os.chdir(self.folder)
        try:
            exec(compile(program, "docs/continue_tuning.md", "exec"), names)
        finally:
            os.chdir(before)
        model = names["model"].eval()
        self.assert_expected(model(self.tokens).logits)
        merged = model.merge_and_unload().state_dict()
        self.assertEqual(merged.keys(), self.merged.keys())
        for name, value in merged.items():
            torch.testing.assert_close(value, self.merged[name], rtol=1e-5, atol=1e-6, msg=name)


if __name__ == "__main__":
    python_packages.main()
