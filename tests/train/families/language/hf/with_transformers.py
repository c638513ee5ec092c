"""What the tests that compare with Hugging Face's transformers share: its import ends a test as skipped where the packages are missing."""

import os
import pathlib
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parents[4] / "support"))
import python_packages  # noqa: E402

python_packages.require("torch", "safetensors", "tokenizers", "transformers")
SOURCE = python_packages.SOURCE
main = python_packages.main

FOLDER = tempfile.TemporaryDirectory()
# Nothing is looked for on the network, and the models' code is kept nowhere else.
os.environ.update(HF_HUB_OFFLINE="1", HF_HOME=FOLDER.name + "/hf_home")

import torch  # noqa: E402
import transformers  # noqa: E402

torch.set_num_threads(1)
transformers.logging.set_verbosity_error()
