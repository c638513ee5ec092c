"""The models and measurements of scripts/bench_pytorch.py in PyTorch, against the formulas and against moh."""

import array
import dataclasses
import json
import math
import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
import zlib

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import python_packages  # noqa: E402

python_packages.require("torch")
SOURCE = python_packages.SOURCE
WORKER = SOURCE / "scripts" / "pytorch_bench" / "worker.py"
MOH = os.environ.get("MOH_BINARY", "moh")

import torch  # noqa: E402
from forked_scripts import ForkedScripts  # noqa: E402

sys.path[:0] = [str(SOURCE / "scripts"), str(SOURCE / "scripts" / "pytorch_bench")]
from pytorch_bench import cases, isa, measure  # noqa: E402


def resolved(*overrides):
    runner = measure.Runner(MOH, sys.executable, timeout=60)
    tiny = ("model.layers=2", "model.hidden=32", "model.intermediate=48", "model.heads=4", "data.sequence_length=16")
    return runner.resolved(("configs/bench/llama_384.yaml", *tiny, *overrides))


MOH_OVERRIDES = ("model.moh.router=learned", "model.moh.num_shared=2", "model.moh.top_k=1")


class ModelTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def router(self, shared, routed, heads=6):
        from models import HeadRouter
        from routing import Routing

        torch.manual_seed(2)
        return HeadRouter(8, heads, Routing(shared, routed)), torch.randn(2, 5, 8)

    def test_gates_are_those_of_the_released_code(self):
        for shared, routed in ((1, 2), (3, 2), (2, 4)):
            router, x = self.router(shared, routed)
            gates, balance = router(x)
            chosen, probabilities = [], []
            for token, gate in zip(x.reshape(-1, 8), gates.reshape(-1, 6)):
                p = torch.softmax(router.wg.weight @ token, 0)
                top = sorted(range(6 - shared), key=lambda i: -p[i])[:routed]
                kinds = 2 * torch.softmax(router.wg_0.weight @ token, 0)
                s = shared * torch.softmax(router.wg_1.weight @ token, 0) if shared > 1 else torch.ones(1)
                expected = torch.cat([kinds[0] * s, torch.zeros(6 - shared)])
                for i in top:
                    expected[shared + i] = kinds[1] * routed * p[i] / p[top].sum()
                torch.testing.assert_close(gate, expected)
                torch.testing.assert_close(gate.sum(), kinds[0] * shared + kinds[1] * routed)
                chosen.append([float(i in top) for i in range(6 - shared)])
                probabilities.append(p)
            load, mean = torch.tensor(chosen).mean(0), torch.stack(probabilities).mean(0)
            torch.testing.assert_close(balance, (6 - shared) * (load * mean).sum())

    def test_attention_with_zero_routers_and_all_heads_kept_is_plain_attention(self):
        from models import Attention
        from routing import Routing

        torch.manual_seed(3)
        plain = Attention(16, 4, 4, causal=True, bias=True)
        routed = Attention(16, 4, 4, causal=True, bias=True, routing=Routing(2, 2))
        routed.load_state_dict(plain.state_dict(), strict=False)
        for weight in routed.router.parameters():
            torch.nn.init.zeros_(weight)
        x = torch.randn(2, 7, 16)
        y, balance = routed(x)
        torch.testing.assert_close(y, plain(x)[0])
        self.assertAlmostEqual(balance.item(), 2.0, places=5)  # K

    def test_other_models_are_refused(self):
        from models import Llama

        for overrides in (("model.kv_heads=2",), ("model.rope_scaling.kind=linear", "model.rope_scaling.factor=2"),
                          ("model.moh.shared_heads=[0, 2]", *MOH_OVERRIDES)):
            with self.assertRaisesRegex(ValueError, overrides[0].split("=")[0]):
                Llama(resolved(*overrides)["model"])

    def test_the_model_computes_the_loss_of_moh(self):
        each_layer = ("model.moh.router=learned", "model.moh.num_shared=[2, 0]", "model.moh.top_k=[1, 3]")
        one_kind = ("model.moh.router=learned", "model.moh.num_shared=[4, 1]", "model.moh.top_k=[0, 2]",
                    "model.moh.two_stage=false")
        for moh_overrides in ((), MOH_OVERRIDES, each_layer, one_kind, ("model.tied_embeddings=true",)):
            with self.subTest(moh_overrides):
                self.compare_losses(moh_overrides)

    def compare_losses(self, overrides):
        from models import Llama

        config = resolved(*overrides)
        text = b"Of many heads a token keeps a few."
        (self.folder / "text").write_bytes(text * 4)
        (self.folder / "held_out").write_bytes(text[:17])
        out = self.folder / f"run{len(list(self.folder.iterdir()))}"
        settings = ["model.layers=2", "model.hidden=32", "model.intermediate=48", "model.heads=4",
                    "data.sequence_length=16", f"data.train={self.folder / 'text'}",
                    f"data.validation={self.folder / 'held_out'}", "train.steps=2", "train.batch_size=2",
                    f"output.dir={out}", "threads=1", "sample.tokens=0", "optim.learning_rate=0.01",
                    "schedule.warmup_steps=0", *overrides]
        done = subprocess.run([MOH, "train", "configs/bench/llama_384.yaml", *settings], capture_output=True, text=True,
                              cwd=SOURCE, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        metrics = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        expected = [record["loss"] for record in metrics if record["kind"] == "eval"][-1]
        model = Llama({**config["model"], "moh": {**config["model"]["moh"], "balance_weight": 0.0}})
        load_moh_weights(model, next(out.glob("checkpoints/*/model.safetensors")))
        ids = torch.tensor(list(text[:17]))[None]
        self.assertAlmostEqual(model(ids[:, :-1], ids[:, 1:]).item(), expected, places=5)


TINY_IMAGES = ("data.train=unread", "model.preset=none", "model.classes=3", "model.image_size=32", "data.image_size=32",
               "data.eval_resize=32", "model.vit.hidden=24", "model.vit.heads=4", "model.vit.layers=2", "model.vit.patch_size=8",
               "model.transnext.dims=[16, 24]", "model.transnext.heads=[4, 6]", "model.transnext.depths=[1, 2]",
               "model.transnext.mlp_ratios=[2, 2]", "model.transnext.pool_ratios=[4, 1]", "train.batch_size=6")
ROUTED_IMAGES = {"vit": ("model.moh.router=learned", "model.moh.num_shared=1", "model.moh.top_k=2"),
                 "transnext": ("model.moh.router=learned", "model.moh.num_shared=[2, 1]", "model.moh.top_k=[1, 2]")}


def resolved_images(*overrides):
    runner = measure.Runner(MOH, sys.executable, timeout=60)
    return runner.resolved(("configs/bench/deit_s.yaml", *TINY_IMAGES, *overrides))


def name_in_pytorch(name):
    """Routers are children of `router` there."""
    return re.sub(r"(wg(_[01])?\.weight)$", r"router.\1", name)


def write_png(path, pixels):
    """pixels: uint8 [height, width, 3]."""
    def chunk(kind, data):
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    height, width, _ = pixels.shape
    rows = b"".join(b"\0" + bytes(row.flatten().tolist()) for row in pixels)
    header = width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes([8, 2, 0, 0, 0])
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


class ImageModelTest(unittest.TestCase):
    """Pictures as large as the model's images, so that a view of one is its pixels, normalised."""

    MEAN, STD = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        torch.manual_seed(4)
        images, labels = [], []
        for label in range(3):
            (self.folder / "pictures" / f"class{label}").mkdir(parents=True)
            for i in range(2):
                pixels = torch.randint(256, (32, 32, 3), dtype=torch.uint8)
                write_png(self.folder / "pictures" / f"class{label}" / f"{i}.png", pixels)
                images.append(((pixels / 255 - self.MEAN) / self.STD).permute(2, 0, 1))
                labels.append(label)
        self.images, self.targets = torch.stack(images), torch.eye(3)[labels]

    def trained(self, name, settings):
        """The checkpoint of two steps of moh, and the loss on the pictures that moh finds for it."""
        out = self.folder / name
        data = f"data.train={self.folder / 'pictures'}", f"data.validation={self.folder / 'pictures'}"
        done = subprocess.run([MOH, "train", "configs/bench/deit_s.yaml", *TINY_IMAGES, *settings, *data, "train.steps=2",
                               f"output.dir={out}", "threads=1", "optim.learning_rate=0.01", "schedule.warmup_steps=0"],
                              capture_output=True, text=True, cwd=SOURCE, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        metrics = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        loss = [record["loss"] for record in metrics if record["kind"] == "eval"][-1]
        return next(out.glob("checkpoints/*/model.safetensors")), loss

    def compare_losses(self, architecture, routed):
        from vision import Classifier

        settings = (f"model.architecture={architecture}", *(ROUTED_IMAGES[architecture] if routed else ()))
        checkpoint, expected = self.trained(f"{architecture}{routed}", settings)
        model = Classifier(resolved_images(*settings)["model"])
        model.net.load_state_dict({name_in_pytorch(name): value for name, value in read_safetensors(checkpoint).items()})
        model.balance_weight = 0.0
        with torch.no_grad():
            self.assertAlmostEqual(model.eval()(self.images, self.targets).item(), expected, places=5)

    def test_the_model_computes_the_loss_of_moh(self):
        for architecture in ("vit", "transnext"):
            for routed in (False, True):
                with self.subTest(architecture=architecture, routed=routed):
                    self.compare_losses(architecture, routed)

    def test_other_models_are_refused(self):
        from vision import Classifier

        with self.assertRaisesRegex(ValueError, "transnext.experts"):
            Classifier(resolved_images("model.architecture=transnext", "model.transnext.experts=2")["model"])


class DiffusionModelTest(unittest.TestCase):
    """Against what the released code computes (tests/golden/data)."""

    def model_of(self, config):
        routed = "shared_head" in config
        moh = {"router": "learned" if routed else "none", "num_shared": config.get("shared_head", 0), "two_stage": True,
               "top_k": config.get("routed_head", 0), "shared_heads": "first", "gate_scaling": "code",
               "balance_loss": "code", "balance_weight": 0.0}
        return {"image_size": config["input_size"], "patch_size": config["patch_size"], "channels": config["in_channels"],
                "classes": config["num_classes"], "layers": config["depth"], "hidden": config["hidden_size"],
                "heads": config["num_heads"], "head_dim": config.get("head_dim", 0), "mlp_ratio": int(config["mlp_ratio"]),
                "learn_variance": True, "recompute": "none", "moh": moh}

    def golden(self, name):
        path = SOURCE / "tests" / "golden" / "data" / f"{name}.safetensors"
        tensors = read_safetensors(path)
        header = path.read_bytes()
        size = int.from_bytes(header[:8], "little")
        config = json.loads(json.loads(header[8:8 + size])["__metadata__"]["config"])
        return tensors, self.model_of(config)

    def load(self, net, tensors):
        state = {name_in_pytorch(key.removeprefix("param.")): value for key, value in tensors.items() if key.startswith("param.")}
        net.load_state_dict(state)
        return net

    def test_predictions_are_those_of_the_released_code(self):
        from diffusion import Dit

        for name in ("dit_model", "dit_model_dense", "dit_model_xl"):
            with self.subTest(name), torch.no_grad():
                tensors, model = self.golden(name)
                prediction, _ = self.load(Dit(model), tensors)(*(tensors[f"in.{key}"] for key in "xty"))
                torch.testing.assert_close(prediction, tensors["out.eval"], rtol=1e-5, atol=2e-5)

    def test_a_step_of_sampling_is_that_of_the_released_code(self):
        from diffusion import reverse_step, schedule

        tensors, _ = self.golden("dit_model")
        steps, numbers = tensors["out.step.mapped_t"], schedule()[2]
        x, output = tensors["in.step.x"], tensors["out.step.model_output"]
        full = steps == 0  # of these the respaced process has the numbers of the whole one
        self.assertTrue(full.any())
        with unittest.mock.patch("torch.randn_like", torch.zeros_like):
            mean = reverse_step(x[full], torch.cat([output[full], output[full]]), numbers[steps[full]], 1.5)
        torch.testing.assert_close(mean, tensors["out.p_sample.noclip.mean"][full], rtol=1e-5, atol=1e-5)

    def test_losses_are_those_of_the_released_code(self):
        from diffusion import sample_losses, schedule

        tensors, _ = self.golden("dit_model")
        start, noise, steps = (tensors[f"in.train.{key}"] for key in ("x_start", "noise", "t"))
        signal, amount, numbers = (table[steps].float() for table in schedule())
        x = signal[:, None, None, None] * start + amount[:, None, None, None] * noise
        torch.testing.assert_close(x, tensors["out.train_terms.x_t"])
        losses = sample_losses(tensors["out.train_terms.model_output"], x, start, noise, numbers)
        torch.testing.assert_close(losses, tensors["out.train_terms.loss"], rtol=1e-5, atol=1e-6)


TENSOR_TYPES = {"F32": ("f", torch.float32), "I64": ("q", torch.int64)}


def read_safetensors(path):
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    tensors = {}
    for name, entry in json.loads(data[8:8 + size]).items():
        if name == "__metadata__":
            continue
        letter, dtype = TENSOR_TYPES[entry["dtype"]]
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        tensors[name] = torch.tensor(array.array(letter, data[begin:end]), dtype=dtype).reshape(entry["shape"])
    return tensors


def load_moh_weights(model, path):
    """Puts a checkpoint of moh into the PyTorch model, whose projections are fused."""
    weights = read_safetensors(path)
    fused = {"attention.qkv": ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
             "attention.proj": ["self_attn.o_proj"], "mlp.gate_up": ["mlp.gate_proj", "mlp.up_proj"],
             "mlp.down": ["mlp.down_proj"], "attention_norm": ["input_layernorm"],
             "mlp_norm": ["post_attention_layernorm"],
             **{f"attention.router.{name}": [f"self_attn.{name}"] for name in ("wg", "wg_0", "wg_1")}}
    state = {"embedding.weight": weights["model.embed_tokens.weight"], "norm.weight": weights["model.norm.weight"]}
    state["head.weight"] = weights.get("lm_head.weight", weights["model.embed_tokens.weight"])
    for i in range(len(model.layers)):
        for name, parts in fused.items():
            found = [weights[key] for key in (f"model.layers.{i}.{part}.weight" for part in parts) if key in weights]
            if found:
                state[f"layers.{i}.{name}.weight"] = torch.cat(found)
    model.load_state_dict(state)


class OptimizerTest(unittest.TestCase):
    OPTIM = {"learning_rate": 0.1, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1, "clip_grad_norm": 1.0}

    def train(self, dtype, **changes):
        from models import Optimizer, place

        torch.manual_seed(5)
        module = place(torch.nn.Linear(8, 4), "cpu", dtype)
        module.frozen = torch.nn.Parameter(torch.ones(3, dtype=dtype), requires_grad=False)
        with torch.no_grad():
            for weight in module.parameters():
                weight.copy_(weight.bfloat16())  # the same beginning for both
        optimizer = Optimizer(module, {**self.OPTIM, **changes})
        for step in range(5):
            optimizer.zero_grad()
            for i, weight in enumerate((module.weight, module.bias)):
                torch.manual_seed(100 * step + i)
                weight.grad = torch.randn(weight.shape).bfloat16().to(dtype)
            optimizer.step()
        return module, optimizer

    def test_bfloat16_weights_follow_float32_masters(self):
        plain, _ = self.train(torch.float32)
        mixed, optimizer = self.train(torch.bfloat16)
        self.assertEqual(len(optimizer.masters), 2)
        for name, master in zip(("weight", "bias"), optimizer.masters):
            expected, found = (getattr(module, name).detach() for module in (plain, mixed))
            torch.testing.assert_close(master, expected)
            torch.testing.assert_close(found, expected.bfloat16(), rtol=0, atol=0)

    def test_weights_that_are_not_trained_stay(self):
        for dtype in (torch.float32, torch.bfloat16):
            module, _ = self.train(dtype)
            torch.testing.assert_close(module.frozen.detach(), torch.ones(3, dtype=dtype), rtol=0, atol=0)

    def test_a_limit_of_0_clips_nothing(self):
        for dtype in (torch.float32, torch.bfloat16):
            (free, _), (wide, _) = self.train(dtype, clip_grad_norm=0), self.train(dtype, clip_grad_norm=1e9)
            torch.testing.assert_close(free.weight, wide.weight, rtol=0, atol=0)


# Modules that the worker imports, and those that PyTorch's optimisers import when they are used.
WORKER_IMPORTS = "import torch._dynamo, diffusion, models, routing, vision"


class WorkerTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # torch.compile would try, for as long as all the rest takes, whether the compiler knows what the processor has. Its settings are
        # read when it is imported, which TORCHINDUCTOR_CPP_MARCH (from 2.15 on) would not survive: that needs processes of their own.
        with unittest.mock.patch.dict(os.environ, {"TORCHINDUCTOR_VEC_ISA_OK": "1"}):
            cls.forked = cls.enterClassContext(ForkedScripts(WORKER_IMPORTS, [WORKER.parent]))

    def job(self, settings):
        return json.dumps({"threads": 1, "warmups": 1, "repeats": 2, "device": "cpu", "dtype": "f32", **settings})

    def work(self, job, **variables):
        """The exit code, and what is printed, with these variables of the environment."""
        done = self.forked.run(WORKER, self.job(job), env={**os.environ, **variables})
        return done.returncode, measure.json_objects(done.stdout)

    def work_alone(self, job):
        """In a process of its own, as bench_pytorch.py starts it: for what the import of PyTorch decides."""
        done = subprocess.run([sys.executable, "-B", WORKER, self.job(job)], capture_output=True, text=True, check=False)
        return done.returncode, measure.json_objects(done.stdout)

    def test_step(self):
        for overrides in ((), MOH_OVERRIDES):
            work = self.work if overrides else self.work_alone
            code, (record,) = work({"work": "step", "compile": False, "config": resolved(*overrides)})
            self.assertEqual(code, 0, record)
            self.assertAlmostEqual(record["step_ms"], record["forward_ms"] + record["backward_ms"]
                                   + record["optimizer_ms"], delta=0.5 * record["step_ms"])
            self.assertAlmostEqual(record["first_loss"], math.log(256), delta=0.3)
            self.assertLess(record["import_rss_bytes"], record["peak_rss_bytes"])
            per_layer = 4 * 32 * 32 + 3 * 32 * 48 + 2 * 32 + (6 * 32 if overrides else 0)
            self.assertEqual(record["parameters"], 2 * per_layer + 2 * 256 * 32 + 32)

    def test_step_with_images(self):
        for settings, extra in ((("model.architecture=vit",), 0),
                                (("model.architecture=vit", *ROUTED_IMAGES["vit"]), 2 * 5 * 24)):  # wg and wg_0
            code, (record,) = self.work({"work": "step", "compile": False, "config": resolved_images(*settings)})
            self.assertEqual(code, 0, record)
            self.assertAlmostEqual(record["first_loss"], math.log(3), delta=0.3)
            per_layer = 12 * 24 * 24 + 13 * 24
            patches, positions, head = (3 * 8 * 8 + 1) * 24, (16 + 1) * 24, 3 * 24 + 3
            self.assertEqual(record["parameters"], 2 * per_layer + extra + patches + positions + 3 * 24 + head)

    def test_steps_with_diffusion(self):
        tiny = ("model.preset=none", "model.image_size=8", "model.hidden=24", "model.heads=4", "model.layers=2",
                "train.batch_size=2", "model.moh.router=learned", "model.moh.num_shared=1", "model.moh.top_k=2")
        runner = measure.Runner(MOH, sys.executable, timeout=60)
        for precision in ("float32", "bfloat16"):
            config = runner.resolved(("configs/dit/paper.yaml", *tiny, f"precision={precision}"))
            code, (record,) = self.work({"work": "step", "compile": False, "config": config})
            self.assertEqual(code, 0, record)
            self.assertGreater(record["first_loss"], 0.5)
            self.assertNotEqual(record["last_loss"], record["first_loss"])  # it learns
            code, (record,) = self.work({"work": "sample", "compile": False, "config": config, "batch": 2, "guidance": 1.5})
            self.assertEqual(code, 0, record)
            self.assertGreater(record["step_ms"], 0)

    def test_step_in_bfloat16(self):
        for overrides in ((), MOH_OVERRIDES):
            code, (record,) = self.work({"work": "step", "compile": False,
                                         "config": resolved("precision=bfloat16", *overrides)})
            self.assertEqual(code, 0, record)
            self.assertAlmostEqual(record["first_loss"], math.log(256), delta=0.3)

    def test_step_with_images_in_bfloat16(self):
        for architecture, heads in ROUTED_IMAGES.items():
            for routed in ((), heads):
                config = resolved_images(f"model.architecture={architecture}", "precision=bfloat16", *routed)
                with self.subTest(architecture, routed=routed):
                    code, (record,) = self.work({"work": "step", "compile": False, "config": config})
                    self.assertEqual(code, 0, record)
                    self.assertAlmostEqual(record["first_loss"], math.log(3), delta=0.3)

    @unittest.skipIf(torch.cuda.is_available(), "there is a GPU")
    def test_without_a_gpu(self):
        for work in ("versions", "attention"):
            code, (record,) = self.work({"work": work, "device": "cuda", "batch": 1, "heads": 1, "tokens": 4, "head_dim": 8})
            self.assertEqual(code, 1)
            self.assertIn("Error: ", record["error"])

    def test_attention_and_module(self):
        shape = {"batch": 1, "tokens": 32, "heads": 8, "head_dim": 16, "causal": True, "compile": False}
        code, (record,) = self.work({"work": "attention", **shape})
        self.assertEqual((code, record["kernel"]), (0, "FLASH_ATTENTION"))
        self.assertGreater(record["forward_backward_ms"], record["forward_ms"])
        for dtype in ("f32", "bf16"):
            code, records = self.work({"work": "module", "width": 32, "active": [1.0, 0.5], **shape, "dtype": dtype})
            self.assertEqual((code, [record["active"] for record in records]), (0, [1.0, 0.5]))

    def test_convolutions(self):
        convolution = cases.Convolution("a layer", 2, 9, 4, 6, stride=2, groups=2)
        code, records = self.work({"work": "convolutions", "compile": False,
                                   "convolutions": [{**dataclasses.asdict(convolution), "shape": convolution.shape}]})
        self.assertEqual((code, [record["pass"] for record in records]), (0, ["forward", "backward"]), records)
        for record in records:
            self.assertEqual((record["model"], record["shape"]), ("a layer", "[2, 9, 9, 4] * [6, 2, 3, 3], stride 2"))
            self.assertIn(record["layout"], ("torch.contiguous_format", "torch.channels_last"))
            self.assertGreater(record["ms"], 0)

    @unittest.skipUnless(platform.machine() in ("x86_64", "AMD64"), "another processor")
    def test_every_part_says_its_instruction_set(self):
        version = subprocess.run([MOH, "--version"], capture_output=True, text=True, check=True).stdout.strip()
        for name in {"baseline", isa.of_moh(version)}:
            with self.subTest(name):
                self.check_instruction_sets(name)

    def check_instruction_sets(self, name):
        with tempfile.TemporaryDirectory() as folder:
            code, (record,) = self.work({"work": "versions", "compile": True}, **isa.variables(name, folder))
        self.assertEqual(code, 0, record)
        said = record["isa"]
        self.assertLessEqual({"PyTorch", "oneDNN", "torch.compile"}, set(said))
        from torch._inductor import config

        if not hasattr(config.cpp, "march"):  # before 2.15
            del said["its compiler"]
        isa.check(name, {"moh": name, **said})

    def test_says_why_it_cannot(self):
        code, (record,) = self.work({"work": "step", "compile": False, "config": {}})
        self.assertEqual((code, record), (1, {"error": "KeyError: 'task'"}))


if __name__ == "__main__":
    python_packages.main()
