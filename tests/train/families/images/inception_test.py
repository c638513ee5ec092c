"""Inception's features, with random weights in the layouts of the published files, beside the networks of pytorch-fid and torch-fidelity."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
from unittest import mock

sys.path += [str(pathlib.Path(__file__).resolve().parents[3] / folder) for folder in ("support", "cli")]
import python_packages  # noqa: E402

python_packages.require("torch", "safetensors", "pytorch_fid", "torch_fidelity")

import inception_files  # noqa: E402
import numpy  # noqa: E402
import pytorch_fid.inception  # noqa: E402
import safetensors.torch  # noqa: E402
import torch  # noqa: E402
from torch_fidelity.feature_extractor_inceptionv3 import FeatureExtractorInceptionV3  # noqa: E402
from torch_fidelity.interpolate_compat_tensorflow import interpolate_bilinear_2d_like_tensorflow1x  # noqa: E402

import support  # noqa: E402

torch.set_num_threads(1)
LAYERS = os.environ["MOH_INCEPTION_LAYERS"]
TOLERANCE = 1e-5  # of the largest number of a layer


def random_weights():
    """A state dict of the published files: the scale of numbers stays that of the picture from layer to layer."""
    torch.manual_seed(0)
    with mock.patch.object(FeatureExtractorInceptionV3, "load_state_dict"), \
            mock.patch("torch_fidelity.feature_extractor_inceptionv3.load_state_dict_from_url"):
        state = FeatureExtractorInceptionV3("inception", ["2048"]).state_dict()
    for name, values in state.items():
        if name.endswith("conv.weight"):
            values.normal_(0, (2 / values[0].numel()) ** 0.5)
        elif name.endswith(("running_var", "bn.weight")):
            values.uniform_(0.7, 1.4)
        elif name.endswith(("running_mean", "bn.bias", "fc.bias")):
            values.normal_(0, 0.2)
        elif name == "fc.weight":
            values.normal_(0, 0.02)
    return state


def hooked(model, names, run):
    """The outputs of the modules of these names, in channels-last layout, as run() has them computed."""
    seen = {}
    modules = dict(model.named_modules())
    handles = [modules[name].register_forward_hook(lambda _m, _i, y, name=name: seen.__setitem__(name, y.permute(0, 2, 3, 1)))
               for name in names]
    with torch.no_grad():
        result = run()
    for handle in handles:
        handle.remove()
    return seen, result


class Inception(support.MohTest):
    @classmethod
    def setUpClass(cls):
        cls.state = random_weights()
        draw = numpy.random.default_rng(1)
        # Smooth pictures with edges, of a size that resizing stretches unequally.
        cls.pictures = (draw.integers(0, 256, (2, 5, 7, 3)).repeat(9, 1).repeat(8, 2) // 2 + draw.integers(0, 128, (2, 45, 56, 3))).astype("uint8")

        cls.files = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        torch.save(cls.state, cls.files / "inception.pth")
        numpy.savez(cls.files / "pictures.npz", arr_0=cls.pictures)
        cls.x = torch.from_numpy(cls.pictures).permute(0, 3, 1, 2)

    def layers(self, weights, resize="adm"):
        subprocess.run([LAYERS, weights, self.files / "pictures.npz", resize, self.folder / "layers.safetensors"], check=True)
        return safetensors.torch.load_file(self.folder / "layers.safetensors")

    def torch_fidelity(self, *features):
        return FeatureExtractorInceptionV3("inception", list(features), feature_extractor_weights_path=self.files / "inception.pth")

    def assert_layers(self, found, expected):
        for name, values in expected.items():
            self.assertEqual(found[name].shape, values.shape, name)
            error = (found[name] - values).abs().max() / values.abs().max()
            self.assertLess(error, TOLERANCE, name)

    def test_layers_are_those_of_torch_fidelity(self):
        model = self.torch_fidelity("2048", "logits_unbiased")
        blocks = [name for name, _ in model.named_children() if name not in ("AvgPool", "fc")]
        self.assertEqual(len(blocks), 18)
        seen, (features, logits) = hooked(model, [*blocks, "Mixed_6d.branch1x1"], lambda: model(self.x))
        resized = (interpolate_bilinear_2d_like_tensorflow1x(self.x.float(), size=(299, 299), align_corners=False) - 128) / 128
        expected = {"input": resized.permute(0, 2, 3, 1), "spatial": seen.pop("Mixed_6d.branch1x1")[..., :7].reshape(2, -1), **seen,
                    "features": features, "logits": logits}
        self.assert_layers(self.layers(self.files / "inception.pth"), expected)
        graph = self.write("graph.pb", inception_files.graph_of(self.state))
        self.assert_layers(self.layers(graph), expected)

    def test_layers_are_those_of_pytorch_fid(self):
        pytorch_fid.inception.load_state_dict_from_url = lambda *_a, **_k: self.state
        model = pytorch_fid.inception.InceptionV3([0, 1, 2, 3]).eval()
        with torch.no_grad():
            outputs = [output.permute(0, 2, 3, 1) for output in model(self.x.float() / 255)]
        expected = dict(zip(("MaxPool_1", "MaxPool_2", "Mixed_6e", "features"), outputs))
        expected["features"] = expected["features"].reshape(2, -1)
        self.assert_layers(self.layers(self.files / "inception.pth", "pytorch-fid"), expected)

    def test_gamma_counts_where_the_graph_says_so(self):
        graph = self.write("graph.pb", inception_files.graph_of(self.state, scales=False))
        torch.save({name: torch.ones_like(values) if name.endswith("bn.weight") else values for name, values in self.state.items()},
                   self.folder / "without.pth")
        found, expected = (self.layers(weights) for weights in (graph, self.folder / "without.pth"))
        self.assert_layers(found, expected)

    def test_scores_of_a_reference_batch_with_statistics(self):
        model, sets = self.torch_fidelity("2048"), []
        for name, pictures in (("reference", self.pictures), ("samples", 255 - self.pictures[:, ::-1])):
            pictures = numpy.concatenate([pictures, pictures[:, :, ::-1]])
            with torch.no_grad():
                features = model(torch.from_numpy(pictures).permute(0, 3, 1, 2))[0].double().numpy()
            sets.append((features.mean(0), features - features.mean(0)))
            statistics = {"mu": features.mean(0), "sigma": numpy.cov(features, rowvar=False)} if name == "reference" else {}
            numpy.savez(self.folder / f"{name}.npz", arr_0=pictures, **statistics)
        found = json.loads(self.moh("eval", "fid", "--features", self.files / "inception.pth", "--batch-size", "3", "--json", "reference.npz",
                                    "samples.npz").splitlines()[-1])
        self.assertEqual({"fid", "sfid", "inception_score", "precision", "recall"} - set(found), set())
        (mean, x), (other, y) = sets
        # The trace of the root of a product of covariances, of few pictures, is the sum of the singular values of the centred features' product.
        expected = ((mean - other) ** 2).sum() + ((x**2).sum() + (y**2).sum() - 2 * numpy.linalg.svd(x @ y.T, compute_uv=False).sum()) / 3
        self.assertAlmostEqual(found["fid"] / expected, 1, places=5)

    def test_what_is_no_inception_is_named(self):
        broken = {"code": support.INPUT_ERROR}
        fid = ("eval", "fid", "--features", "broken", self.files / "pictures.npz", self.files / "pictures.npz")
        graph = inception_files.graph_of(self.state)
        self.write("broken", graph[:-1000])
        self.assert_says(self.moh(*fid, **broken), "broken", "a field within its message")
        self.write("broken", inception_files.constant("conv/conv2d_params", [1], floats=[1.0]))
        self.assert_says(self.moh(*fid, **broken), "Inception's conv/batchnorm", "classify_image_graph_def.pb")
        torch.save({"fc.weight": torch.zeros(3)}, self.folder / "broken")
        self.assert_says(self.moh(*fid, **broken), "Inception's Conv2d_1a_3x3.conv.weight: expected a tensor [32, 3, 3, 3], found none")


if __name__ == "__main__":
    python_packages.main()
