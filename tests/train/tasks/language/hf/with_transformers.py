"""What the tests that compare with Hugging Face's transformers share: its import ends a test as skipped where the packages are missing.

torch, tokenizers, safetensors and transformers are those of the virtual environment MOH_PYTORCH_VENV (build/pytorch-venv) or, failing
that, of this Python.
"""

import importlib.util
import os
import pathlib
import sys
import tempfile

SOURCE = pathlib.Path(os.environ.get("MOH_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[5]))
VENV = os.path.abspath(os.environ.get("MOH_PYTORCH_VENV", SOURCE / "build/pytorch-venv")) + "/bin/python"

if os.path.exists(VENV) and sys.executable != VENV:
    os.execv(VENV, [VENV, "-B", *sys.argv])
MISSING = [name for name in ("torch", "safetensors", "tokenizers", "transformers") if importlib.util.find_spec(name) is None]
if MISSING:
    print(f"moh test skipped: no {', '.join(MISSING)} for Python; scripts/pytorch_venv.sh gets them", file=sys.stderr)
    sys.exit(77)

FOLDER = tempfile.TemporaryDirectory()
# Nothing is looked for on the network, and the models' code is kept nowhere else.
os.environ.update(HF_HUB_OFFLINE="1", HF_HOME=FOLDER.name + "/hf_home")

import torch  # noqa: E402
import transformers  # noqa: E402

torch.set_num_threads(1)
transformers.logging.set_verbosity_error()
