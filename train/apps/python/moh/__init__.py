"""moh: training with Mixture-of-Head attention. docs/python.md is its page.

    model = moh.load("runs/llm/quickstart")
    print(model.generate("This program", max_tokens=50))
    moh.train("configs/llm/quickstart.yaml", callback=print)
"""

from ._moh import instruction_set, num_threads, set_log_level, set_num_threads
from ._moh import version as __version__
from ._program import program
from .errors import CommError, ConfigError, Error, InputError, NumericError, StorageError
from .models import DiffusionModel, ImageClassifier, LanguageModel, LayerRouting, Model, TranslationModel, load
from .training import Summary, train

set_log_level("")

__all__ = [
    "CommError", "ConfigError", "DiffusionModel", "Error", "ImageClassifier", "InputError", "LanguageModel", "LayerRouting",
    "Model", "NumericError", "StorageError", "Summary", "TranslationModel", "instruction_set", "load", "num_threads",
    "program", "set_log_level", "set_num_threads", "train",
]
