"""Trained models: what moh.load() returns."""

import os
from typing import NamedTuple

from . import _moh
from .errors import ConfigError


class LayerRouting(NamedTuple):
    """How an attention layer routes B sequences of T tokens to its H heads, as `moh analyze --dump` has it."""

    gates: "numpy.ndarray"
    """[B, T, H] float32: the factors of the heads' outputs, 0 where a head is not selected."""
    selected: "numpy.ndarray"
    """[B, T, H] bool: whether the token uses the head. Shared heads are used by all."""


class Model:
    """A model of any family. A method that its family does not have raises ConfigError, which names a command."""

    instead = "`moh --help` lists the commands"

    def __init__(self, opened):
        self._model = opened

    @property
    def path(self):
        """The folder or file that was read: of a run, the folder of its newest checkpoint."""
        return self._model.path

    @property
    def task(self):
        """What the configuration calls `task`."""
        return self._model.task

    @property
    def config(self):
        """The whole configuration with which the model was loaded, as YAML."""
        return self._model.config

    @property
    def num_parameters(self):
        """The number of elements of all parameters."""
        return self._model.parameters

    def __repr__(self):
        return f"<moh.{type(self).__name__} of {self.path}: {self.num_parameters} parameters>"

    def _refuse(self, name):
        raise ConfigError(f"model.{name}: expected a model that has it, found task: {self.task}; {self.instead}")

    def logits(self, *_arguments, **_options):
        self._refuse("logits")

    def features(self, *_arguments, **_options):
        self._refuse("features")

    def routing(self, *_arguments, **_options):
        self._refuse("routing")

    def generate(self, *_arguments, **_options):
        self._refuse("generate")


def _routing(layers):
    return [None if layer is None else LayerRouting(*layer) for layer in layers]


class LanguageModel(Model):
    """A language model.

    `ids` are token ids: an array of int64 or int32 [T] or [B, T], whose memory is used as it is where it is contiguous, or a
    list of numbers, or of lists of as many.
    """

    instead = "`moh generate` and `moh eval` use language models"

    def logits(self, ids):
        """The logits of the token after each one, [B, T, V] float32."""
        return self._model.language_logits(ids)

    def features(self, ids, layer):
        """The input of an attention layer, after its norm, [B, T, D] float32."""
        return self._model.language_layer_input(ids, layer)

    def routing(self, ids):
        """A LayerRouting for each attention layer; None for a dense one."""
        return _routing(self._model.language_routing(ids))

    def generate(self, prompt, max_tokens=256, temperature=1.0, top_k=0, top_p=1.0, seed=0, stop=(), echo=True, on_text=None):
        """Continues a text, or ids, as `moh generate` does with the same options: the text that it prints.

        Ends after `max_tokens`, before a text of `stop` (one, or several), or where the model ends the document. With
        echo=False the prompt is not part of the result. `on_text(piece)` gets the new text while it is generated.
        """
        stop = [stop] if isinstance(stop, str) else list(stop)
        shown, text = self._model.generate(prompt, max_tokens, temperature, top_k, top_p, seed, stop, on_text)
        return shown + text if echo else text

    def tokenize(self, text):
        """The ids of a text, after those that every text of the model begins with."""
        return self._model.tokenize(text)

    def detokenize(self, ids):
        """The text of ids."""
        return self._model.detokenize(ids)


def _files(images):
    """The names of files as a list, or an array as it is."""
    if isinstance(images, (str, os.PathLike)):
        images = [images]
    if isinstance(images, (list, tuple)) and all(isinstance(each, (str, os.PathLike)) for each in images):
        return [os.fspath(each) for each in images]
    return images


class ImageClassifier(Model):
    """A classifier of images.

    `images` are an array [B, 3, H, W] of float32 with normalised colours, whose memory is used as it is where the channels of
    a pixel follow each other (PyTorch's channels_last), or the name of a JPEG or PNG file, or several in a list, which are seen
    as in an evaluation of the model.
    """

    instead = "`moh predict` and `moh eval` use image classifiers"

    def logits(self, images):
        """The logits of the classes, [B, classes] float32."""
        return self._model.image_logits(_files(images))

    def features(self, images, layer=None):
        """The input of the last layer, [B, D] float32, as `moh eval fid --features-from` has it.

        With `layer`, the input of that attention layer after its norm, [B, T, D].
        """
        if layer is None:
            return self._model.image_features(_files(images))
        return self._model.image_layer_input(_files(images), layer)

    def routing(self, images):
        """A LayerRouting for each attention layer; None for a dense one."""
        return _routing(self._model.image_routing(_files(images)))

    @property
    def class_names(self):
        """The names of the classes, in the order of the logits."""
        return self._model.class_names()


class TranslationModel(Model):
    """A model that translates."""

    instead = "`moh translate`, `moh eval` and `moh analyze` use translation models"

    def generate(self, lines, beams=5, length_penalty=1.0, max_length=0):
        """The translation of a line, or a list of those of several, as `moh translate` prints them."""
        given = [lines] if isinstance(lines, str) else list(lines)
        texts = self._model.translate(given, beams, length_penalty, max_length)
        return texts[0] if isinstance(lines, str) else texts


class DiffusionModel(Model):
    """A diffusion model."""

    instead = "`moh sample` draws images with it, `moh analyze` shows its heads"


_CLASSES = {
    "language_model": LanguageModel,
    "image_classification": ImageClassifier,
    "translation": TranslationModel,
    "diffusion": DiffusionModel,
}


def settings_of(settings):
    """Settings of a run as the program takes them: of a dict {"train.steps": 4}, or of texts "train.steps=4"."""
    if not hasattr(settings, "items"):
        return [settings] if isinstance(settings, str) else list(settings)
    from .training import value_text
    return [f"{key}={value_text(value)}" for key, value in settings.items()]


def load(path, device="cpu", settings=(), config=None):
    """Loads a trained model, of any path that --checkpoint of the program takes.

    That is the folder of a run (its newest checkpoint), RUN@STEP, a step's folder, a Hugging Face folder, or a file of weights,
    which `config`, a run's YAML or a config.json, may describe. `device` is "cpu", "cuda" or "cuda:N"; None: that of the
    training run. `settings` are any of the run: {"precision": "bfloat16"}.
    """
    given = settings_of(settings)
    if device is not None:
        given.append(f"device={device}")
    if device == "cpu":
        given.append("tf32=false")
    opened = _moh.OpenModel(os.fspath(path), given, "" if config is None else os.fspath(config))
    return _CLASSES.get(opened.task, Model)(opened)
