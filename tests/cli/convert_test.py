"""moh checkpoint info and moh convert: every way round gives the same weights, and what does not fit is refused."""

import datetime
import json
import pathlib
import shutil
import struct
import unittest

import support
from torch_save import Tensor, torch_save

TORCH_GOLDEN = pathlib.Path(__file__).parent.parent / "golden/data/torch_checkpoints"
GOLDEN = pathlib.Path(__file__).parent.parent / "golden/data/hf_llama_tiny/sharded"


def safetensors(tensors):
    """A file of (name, dtype, shape, bytes)."""
    header, data = {}, b""
    for name, dtype, shape, contents in tensors:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(contents)]}
        data += contents
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def elements(path):
    """Of a safetensors file of float32: name -> (shape, numbers)."""
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    found = {}
    for name, entry in json.loads(data[8:8 + size]).items():
        if name != "__metadata__":
            assert entry["dtype"] == "F32", entry
            begin, end = (8 + size + offset for offset in entry["data_offsets"])
            found[name] = (entry["shape"], list(struct.unpack(f"<{(end - begin) // 4}f", data[begin:end])))
    return found


def byte_vocabulary():
    """Of byte-level tokenizers since GPT-2, but for byte 0: what is not visible in Latin-1 becomes a character from U+0100 on."""
    visible = [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]
    hidden = [byte for byte in range(256) if byte not in visible]
    return {"\0": 0, **{chr(byte): byte for byte in visible}, **{chr(256 + i): byte for i, byte in enumerate(hidden) if byte != 0}}


def loss(output):
    return next(line.split()[1] for line in output.splitlines() if line.startswith("loss "))


class ConvertTest(support.MohTest):
    def convert(self, source, to, *options, code=support.DONE, **more):
        return self.moh("convert", "--from", source, "--to", to, *options, code=code, **more)

    def info(self, path, *options):
        return json.loads(self.moh("checkpoint", "info", path, "--json", "--hash", *options))

    def names(self):
        return {path.name for path in self.folder.iterdir()}


class FromARun(ConvertTest):
    def setUp(self):
        super().setUp()
        self.train()
        self.hash = self.info("run")["hash"]

    def test_all_ways_round(self):
        made = self.convert("run", "one.safetensors")
        self.assert_says(made, "read        run (moh checkpoint)", "differences: none",
                         "wrote       one.safetensors (1 tensor file)", "tensors     ")
        self.convert("run/checkpoints", "shards", "--format", "safetensors", "--shard-size", "10KB")
        self.assertGreater(len(list((self.folder / "shards").glob("model-*.safetensors"))), 2)
        self.convert("shards", "model", "--format", "moh", "--config", "tiny.yaml")
        self.convert("model", "back.safetensors")
        for path in ("one.safetensors", "shards", "shards/model.safetensors.index.json", "model", "back.safetensors"):
            self.assertEqual(self.info(path)["hash"], self.hash, path)
        model = (self.newest() / "model.safetensors").read_bytes()
        for path in ("one.safetensors", "model/model.safetensors", "back.safetensors"):
            self.assertTrue((self.folder / path).read_bytes() == model, path)

    def test_a_converted_checkpoint_is_as_good_as_the_run(self):
        self.convert("run", "model", "--format", "moh")
        expected = self.moh("eval", "--checkpoint", "run")
        self.assertEqual(loss(self.moh("eval", "--checkpoint", "model", "data=text.txt")),
                         loss(self.moh("eval", "--checkpoint", "run", "data=text.txt")))
        self.assertEqual(loss(self.moh("eval", "--checkpoint", "model")), loss(expected))
        arguments = ("--prompt", "the ", "--tokens", 12, "--threads", 1)
        texts = [self.moh("generate", "--checkpoint", path, *arguments).rpartition(" info: ")[0][:-8]
                 for path in ("model", "run")]  # without the line that says how fast it was, and its time
        self.assertTrue(texts[0].startswith("the "))
        self.assertEqual(*texts)

    def test_bfloat16_and_back(self):
        self.convert("run", "half", "--format", "moh", "--dtype", "bfloat16")
        self.assert_says((self.folder / "half/config.yaml").read_text(), "precision: bfloat16")
        self.assertEqual(list(self.info("half")["dtypes"]), ["BF16"])
        self.assertAlmostEqual(float(loss(self.moh("eval", "--checkpoint", "half"))),
                               float(loss(self.moh("eval", "--checkpoint", "run"))), delta=0.05)
        self.convert("half", "wide.safetensors", "--dtype", "float32")
        self.convert("wide.safetensors", "half.safetensors", "--dtype", "bfloat16")
        self.assertEqual(self.info("half.safetensors")["hash"], self.info("half")["hash"])

    def test_float32_routers_in_a_bfloat16_model(self):
        self.train({"precision": "bfloat16", "model.moh.router_precision": "float32", "output.dir": "mixed"})
        types = {tensor["name"]: tensor["dtype"] for tensor in self.info("mixed")["tensors"]}
        for name, dtype in types.items():
            self.assertEqual(dtype, "F32" if ".wg" in name else "BF16", name)
        expected = loss(self.moh("eval", "--checkpoint", "mixed"))
        self.convert("mixed", "copy.safetensors")
        self.convert("copy.safetensors", "model", "--format", "moh", "--config", self.newest("mixed") / "config.yaml")
        self.assertEqual(self.info("model")["hash"], self.info("mixed")["hash"])
        self.assertEqual(loss(self.moh("eval", "--checkpoint", "model")), expected)
        # Whatever becomes of the tensors, the configuration beside them says it.
        for dtype, says in (("bfloat16", "router_precision: same"), ("float32", "precision: float32")):
            self.convert("mixed", dtype, "--format", "moh", "--dtype", dtype)
            self.assert_says((self.folder / dtype / "config.yaml").read_text(), says)
            self.assertAlmostEqual(float(loss(self.moh("eval", "--checkpoint", dtype))), float(expected), delta=0.05)
        self.convert("mixed", "hf", "--format", "hf")
        self.assertEqual(self.info("hf")["hash"], self.info("mixed")["hash"])

    def test_a_model_of_bytes_brings_its_tokenizer(self):
        self.convert("run", "hf", "--format", "hf")
        self.convert("hf", "again", "--format", "moh")
        self.convert("again", "back", "--format", "hf")
        for folder in ("hf", "back"):
            tokenizer = json.loads((self.folder / folder / "tokenizer.json").read_text())
            self.assertEqual(tokenizer["model"]["vocab"], byte_vocabulary())
            (end,) = tokenizer["added_tokens"]
            self.assertEqual((end["id"], end["content"], end["special"]), (0, "\0", True))
            config = json.loads((self.folder / folder / "tokenizer_config.json").read_text())
            self.assertEqual((config["eos_token"], config["model_max_length"]), ("\0", 32))
            for name in ("config.json", "generation_config.json"):
                ids = json.loads((self.folder / folder / name).read_text())
                self.assertEqual((ids["bos_token_id"], ids["eos_token_id"], ids["pad_token_id"]), (None, 0, None))
            # A folder of others that lacks a tokenizer, and has 256 tokens.
            for name in ("tokenizer.json", "tokenizer_config.json"):
                (self.folder / "hf" / name).unlink(missing_ok=True)
        self.convert("hf", "third", "--format", "hf")
        self.assertEqual((self.folder / "third/tokenizer.json").read_bytes(), (self.folder / "back/tokenizer.json").read_bytes())

    def test_a_tokenizer_from_elsewhere_goes_along(self):
        self.train({"model.vocab_size": 300, "output.dir": "large"})
        self.convert("large", "hf", "--format", "hf")
        for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
            (self.folder / "hf" / name).unlink()
        path = self.folder / "hf/config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "bos_token_id": 7, "eos_token_id": [8, 9]}))
        warning = "warning: convert: no tokenizer lies beside hf/model.safetensors: copy that of the model's tokens"
        self.assert_says(self.convert("hf", "bare", "--format", "hf"), warning)
        self.assertFalse((self.folder / "bare/tokenizer.json").exists())
        self.convert("hf", "bare_moh", "--format", "moh")
        self.config({"model.vocab_size": 300}, "bytes.yaml")
        output = self.convert("hf", "x", "--format", "moh", "--config", "bytes.yaml", code=support.CONFIG_ERROR)
        self.assert_says(output, "data.tokenizer: expected other, found byte")
        self.convert("bare_moh", "bare_back", "--format", "hf")
        files = {name: f"the {name} of somebody" for name in (
            "tokenizer.json", "tokenizer.model", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja", "LICENSE")}
        files["generation_config.json"] = '{"eos_token_id": [8, 9], "bos_token_id": 7, "temperature": 0.6}'
        for name, contents in files.items():
            self.write(f"hf/{name}", contents)
        self.assertNotIn("warning", self.convert("hf", "copy", "--format", "hf"))
        self.convert("hf", "moh", "--format", "moh", "--dtype", "bfloat16")
        self.convert("moh", "moh2", "--format", "moh", "--dtype", "float32")
        self.assertNotIn("warning", self.convert("moh2", "back", "--format", "hf"))
        for folder in ("copy", "back"):
            for name, contents in files.items():
                self.assertEqual((self.folder / folder / name).read_text(), contents)
        for folder in ("bare", "bare_back", "copy", "back"):
            ids = json.loads((self.folder / folder / "config.json").read_text())
            self.assertEqual((ids["bos_token_id"], ids["eos_token_id"]), (7, [8, 9]), folder)
            ids = json.loads((self.folder / folder / "generation_config.json").read_text())
            self.assertEqual((ids["bos_token_id"], ids["eos_token_id"]), (7, [8, 9]), folder)

    def test_a_run_cannot_be_resumed_from_a_converted_model(self):
        self.convert("run", "other/checkpoints/step_00000003", "--format", "moh")
        output = self.train({"output.dir": "other"}, "--resume", code=support.INPUT_ERROR)
        self.assert_says(output, "step_00000003: expected a run's optimiser state and position in its data, found a "
                                 "model alone", "init.from")
        self.assertEqual(len(self.checkpoints("other")), 1)

    def test_a_checkpoint_in_types_that_moh_does_not_train_in(self):
        output = self.convert("run", "x", "--format", "moh", "--dtype", "float16", code=support.INPUT_ERROR)
        self.assert_says(output, "expected F32 or BF16, one for all, found F16; convert with --dtype float32")
        self.assertNotIn("x", self.names())
        self.assertFalse([name for name in self.names() if name.startswith(".")])

    def test_a_damaged_configuration_of_a_checkpoint(self):
        for name in ("config.yaml", "trainer.json"):
            path = self.newest() / name
            whole = path.read_bytes()
            path.write_bytes(whole.replace(b"1", b"2", 1))
            self.assertNotEqual(path.read_bytes(), whole)
            output = self.convert("run", "x.safetensors", code=support.INPUT_ERROR)
            self.assert_says(output, name, "expected checksum ", "damaged")
            path.write_bytes(whole)
        self.convert("run", "x.safetensors")

    def test_the_mean_of_checkpoints(self):
        self.train({"output.dir": "long", "checkpoint.every": 2, "checkpoint.keep_last": 3})  # steps 4, 6, 8
        folders = self.checkpoints("long")
        self.convert("long", "mean.safetensors", "--average", 3)
        self.convert("long", "mean", "--format", "moh", "--average", 3)
        self.assertEqual(self.info("mean.safetensors")["hash"], self.info("mean")["hash"])
        self.convert(folders[1], "earlier.safetensors", "--average", 2)
        self.convert("long", "chosen.safetensors", "--average", "8,4")
        singles = [elements(folder / "model.safetensors") for folder in folders]
        for name, of in (("mean.safetensors", singles), ("earlier.safetensors", singles[:2]), ("chosen.safetensors", singles[::2])):
            for tensor, (shape, numbers) in elements(self.folder / name).items():
                self.assertEqual(shape, of[0][tensor][0])
                for got, *parts in zip(numbers, *(one[tensor][1] for one in of), strict=True):
                    self.assertAlmostEqual(got, sum(parts) / len(parts), delta=1e-6 * max(map(abs, parts)))
        self.assertGreater(float(loss(self.moh("eval", "--checkpoint", "mean"))), 0)

        def refused(*arguments, code=support.INPUT_ERROR):
            return self.convert(arguments[0], "x.safetensors", "--average", *arguments[1:], code=code)

        self.assert_says(refused("long", 4), "expected 4 checkpoints up to step_00000008, found 3", "checkpoint.keep_last")
        self.assert_says(refused("mean.safetensors", 2, code=support.CONFIG_ERROR), "--average: expected a run, or a checkpoint")
        self.assert_says(refused("long", "4,5"), "long/checkpoints: expected a checkpoint of step 5, found steps 4, 6, 8", "checkpoint.keep")
        self.assert_says(refused("long", "4,4", code=support.CONFIG_ERROR), "--average: expected different steps")
        self.assert_says(refused("long", 0, code=support.CONFIG_ERROR), "--average")
        self.train({"output.dir": "wide", "model.intermediate": 24, "train.steps": 5, "checkpoint.every": 5})
        shutil.copytree(self.newest("wide"), folders[0].parent / "step_00000005")
        self.assert_says(refused("long", 3), "step_00000005", "model.intermediate: expected 48, as in ", "found 24")

    def test_names_of_another_model(self):
        self.convert("run", "one.safetensors")
        self.config({"model.layers": 3, "model.intermediate": 64, "model.moh.router": "query_norm"}, "other.yaml")
        for target in (("x.safetensors",), ("x", "--format", "moh", "--allow-differences")):
            output = self.convert("one.safetensors", *target, "--config", "other.yaml", code=support.INPUT_ERROR)
            self.assert_says(output, "one.safetensors: the tensors do not match the model that other.yaml describes",
                             "missing: model.layers.2.self_attn.q_proj.weight",
                             "unexpected: model.layers.{0-1}.self_attn.wg.weight (2)",
                             "model.layers.{0-1}.mlp.up_proj.weight (2): expected [64, 32], found [48, 32]")
        self.assertNotIn("x", self.names())
        output = self.convert("one.safetensors", "x.safetensors", "--config", "other.yaml", "--allow-differences")
        self.assert_says(output, "warning: convert: model.layers.2.input_layernorm.weight is missing",
                         "differences: 9 missing, ")
        self.assertEqual(self.info("x.safetensors")["hash"], self.hash)

    def test_a_configuration_that_is_not_the_models(self):
        self.convert("run", "hf", "--format", "hf")
        # Names and shapes of the tensors fit all of these.
        wrong = {"model.heads": 8, "model.rope_theta": 500000, "model.norm_eps": 1e-6, "model.moh.router": "query_norm",
                 "model.moh.num_shared": 0, "model.moh.top_k": 3}
        for key, value in wrong.items():
            found = f"{key}: expected "
            self.config({key: value}, "other.yaml")
            for source, beside in (("hf", "hf/config.json"), ("run", "config.yaml")):
                output = self.convert(source, "x", "--format", "moh", "--config", "other.yaml", code=support.CONFIG_ERROR)
                self.assert_says(output, "other.yaml: differs from the model that ", beside, found, "leave --config out")
        self.assertNotIn("x", self.names())
        output = self.convert("hf", "x.safetensors", "--config", "other.yaml", "--allow-differences")
        self.assert_says(output, "warning: convert: other.yaml: differs from the model that hf/config.json")
        # One that says the same in other words, or differs in what concerns training alone, is taken.
        self.config({"model.kv_heads": 4, "model.moh.top_k": [1, 1], "model.moh.shared_heads": [0], "model.dropout": 0.1,
                     "model.moh.balance_weight": 0.5}, "same.yaml")
        self.convert("hf", "x", "--format", "moh", "--config", "same.yaml")
        self.assert_says((self.folder / "x/config.yaml").read_text(), "dropout: 0.1")

    def test_what_weights_alone_do_not_show_is_said(self):
        self.convert("run", "one.safetensors")
        output = self.convert("one.safetensors", "x", "--format", "moh", "--config", "tiny.yaml")
        self.assert_says(output, "warning: convert: tiny.yaml lacks values that the tensors do not determine; assumed: "
                                 "model.norm_eps 1e-5, model.rope_theta 10000, model.rope_scaling.kind none, "
                                 "data.tokenizer byte\n")
        whole = self.newest() / "config.yaml"
        self.assertNotIn("warning", self.convert("one.safetensors", "y", "--format", "moh", "--config", whole))
        # A file that describes a model needs nothing else.
        model = support.to_yaml({"model": support.TINY["model"]})
        self.write("model.yaml", model + "\ndata: {sequence_length: 32}\n")
        self.convert("one.safetensors", "m", "--format", "moh", "--config", "model.yaml")
        self.assert_says(self.moh("eval", "--checkpoint", "m", code=support.INPUT_ERROR),
                         "the configuration of this model names no text; name one with data=PATH")
        self.write("headless.yaml", (self.folder / "tiny.yaml").read_text().replace("  heads: 4\n", ""))
        output = self.convert("one.safetensors", "z.safetensors", "--config", "headless.yaml", "--allow-differences")
        self.assert_says(output, "assumed: model.heads 8, ")

    def test_tensors_that_the_model_does_not_know(self):
        tensors = [("extra.weight", "F32", [1], b"\0" * 4),
                   ("model.layers.0.self_attn.rotary_emb.inv_freq", "F32", [2], b"\0" * 8)]
        data = (self.newest() / "model.safetensors").read_bytes()
        (size,) = struct.unpack("<Q", data[:8])
        for name, entry in json.loads(data[8:8 + size]).items():
            if name != "__metadata__":
                begin, end = entry["data_offsets"]
                tensors.append((name, entry["dtype"], entry["shape"], data[8 + size + begin:8 + size + end]))
        self.write("more.safetensors", safetensors(tensors))
        arguments = ("more.safetensors", "model", "--format", "moh", "--config", "tiny.yaml")
        output = self.convert(*arguments, code=support.INPUT_ERROR)
        self.assert_says(output, "1 unexpected", "unexpected: extra.weight",
                         "--allow-differences converts nevertheless, without unexpected tensors")
        output = self.convert(*arguments, "--allow-differences")
        self.assert_says(output, "extra.weight is left out", "inv_freq is left out")
        self.assertEqual(self.info("model")["hash"], self.hash)

    def test_what_is_there_stays_until_it_may_go(self):
        self.write("one.safetensors", "precious")
        output = self.convert("run", "one.safetensors", code=support.CONFIG_ERROR)
        self.assert_says(output, "--to one.safetensors: expected a path that does not exist, found a file; replace it "
                                 "with --overwrite")
        self.assertEqual((self.folder / "one.safetensors").read_text(), "precious")
        self.convert("run", "one.safetensors", "--overwrite")
        self.assertEqual(self.info("one.safetensors")["hash"], self.hash)
        for _ in range(2):
            self.convert("run", "model", "--format", "moh", "--overwrite")
        before = self.info("run")
        self.assert_says(self.convert("one.safetensors", "run", "--format", "moh", "--config", "tiny.yaml",
                                      "--overwrite", code=support.CONFIG_ERROR), "which --overwrite may replace")
        self.assert_says(self.convert("one.safetensors", self.newest(), "--format", "moh", "--config", "tiny.yaml",
                                      "--overwrite", code=support.CONFIG_ERROR), "without the state of a run")
        self.assertEqual(self.info("run"), before)

    def test_files_of_checkpoints_and_of_the_source_stay(self):
        step = self.newest()
        before = {path.name: path.read_bytes() for path in step.iterdir()}
        self.convert("run", "shards", "--format", "safetensors", "--shard-size", "10KB")
        self.convert("run", "hf", "--format", "hf")
        shard = sorted((self.folder / "shards").glob("model-*"))[1]
        for source, to, *options in (("run", step / "model.safetensors"), ("shards", step / "model.safetensors"),
                                     ("run", step / "new.safetensors"), ("run", step / "folder", "--format", "hf")):
            output = self.convert(source, to, "--overwrite", *options, code=support.CONFIG_ERROR)
            self.assert_says(output, "expected a path outside of checkpoints, found one in ")
        for source, to in (("shards", shard), ("hf", "hf/config.json"), ("hf", "hf/model.safetensors")):
            output = self.convert(source, to, "--format", "safetensors", "--overwrite", code=support.CONFIG_ERROR)
            self.assert_says(output, "expected a path apart from the source")
        self.assertEqual({path.name: path.read_bytes() for path in step.iterdir()}, before)
        for source in ("run", "shards", "hf"):
            self.assertEqual(self.info(source)["hash"], self.hash)

    def test_a_damaged_checkpoint_is_not_passed_on(self):
        path = self.newest() / "model.safetensors"
        data = bytearray(path.read_bytes())
        data[-5] ^= 4
        path.write_bytes(data)
        self.assert_says(self.convert("run", "x.safetensors", code=support.INPUT_ERROR), "expected checksum ",
                         "the checkpoint is damaged")
        self.assertNotIn("x.safetensors", self.names())

    @unittest.skipUnless(support.build_has_failpoints(), "this build has no failure points")
    def test_killed_anywhere_it_leaves_all_or_nothing(self):
        ways = {"file": ("x.safetensors",), "shards": ("x", "--format", "safetensors", "--shard-size", "20KB"),
                "moh": ("x", "--format", "moh")}
        for way, arguments in ways.items():
            for point in ("io:create", "io:write", "io:fsync", "io:rename", "io:fsync_dir"):
                for number in (1, 2, 4, 9):
                    with self.subTest(way=way, point=point, number=number):
                        result = self.command("convert", "--from", "run", "--to", *arguments,
                                              env={"MOH_FAIL": f"{point}_{number}"})
                        made = self.folder / arguments[0]
                        if made.exists():
                            self.assertEqual(self.info(arguments[0])["hash"], self.hash)
                        else:
                            self.assertEqual(result.returncode, -9, result.output)
                        # The next conversion clears away what is left, and comes to its end.
                        self.convert("run", *arguments, "--overwrite")
                        self.assertEqual(self.info(arguments[0])["hash"], self.hash)
                        self.assertFalse([name for name in self.names() if name.startswith(".")])
                        shutil.rmtree(made) if made.is_dir() else made.unlink()

    @unittest.skipUnless(support.build_has_failpoints(), "this build has no failure points")
    def test_killed_while_it_replaces_it_loses_nothing(self):
        self.convert("run", "half.safetensors", "--dtype", "bfloat16")
        half = self.info("half.safetensors")["hash"]
        for arguments in (("x.safetensors",), ("x", "--format", "moh")):
            for point in ("io:write_2", "io:fsync_1", "io:rename_1", "io:exchange_1", "io:fsync_dir_2", "io:unlink_1",
                          "io:unlink_2"):
                with self.subTest(arguments=arguments, point=point):
                    self.convert("run", *arguments, "--dtype", "bfloat16")
                    self.command("convert", "--from", "run", "--to", *arguments, "--overwrite",
                                 env={"MOH_FAIL": point})
                    self.assertIn(self.info(arguments[0])["hash"], (half, self.hash))
                    # The next conversion clears away what is left.
                    self.convert("run", *arguments, "--overwrite")
                    self.assertFalse([name for name in self.names() if name.startswith(".")])
                    made = self.folder / arguments[0]
                    shutil.rmtree(made) if made.is_dir() else made.unlink()

    @unittest.skipUnless(support.build_has_failpoints(), "this build has no failure points")
    def test_killed_between_two_renames_where_names_cannot_be_exchanged(self):
        self.convert("run", "x", "--format", "moh", "--dtype", "bfloat16")
        half = self.info("x")["hash"]
        self.command("convert", "--from", "run", "--to", "x", "--format", "moh", "--overwrite",
                     env={"MOH_FAIL": "io:exchange_1=EINVAL,io:rename_2"})
        self.assertNotIn("x", self.names())
        # The next conversion finds the model where it was, and may not replace it without being told to.
        output = self.convert("run", "x", "--format", "moh", code=support.CONFIG_ERROR)
        self.assert_says(output, "replace it with --overwrite")
        self.assertEqual(self.info("x")["hash"], half)
        self.convert("run", "x", "--format", "moh", "--overwrite")
        self.assertEqual(self.info("x")["hash"], self.hash)
        self.assertFalse([name for name in self.names() if name.startswith(".")])

    @unittest.skipUnless(support.build_has_failpoints(), "this build has no failure points")
    def test_a_full_disk(self):
        for arguments in (("x.safetensors",), ("x", "--format", "moh")):
            output = self.convert("run", *arguments, code=support.STORAGE_ERROR, env={"MOH_FAIL": "io:write_4=ENOSPC"})
            self.assert_says(output, "room for ", "make room on this disk")
            self.assertEqual(self.names() - {"text.txt", "tiny.yaml", "run"}, set())


class FromAFolder(ConvertTest):
    def test_a_sharded_hugging_face_folder(self):
        info = self.info(GOLDEN)
        self.assertEqual(info["format"], "safetensors in 2 shards")
        self.assertEqual((info["parameters"], info["bytes"], len(info["tensors"])), (37184, 74368, 21))
        self.assertEqual(info["dtypes"], {"BF16": {"tensors": 21, "parameters": 37184, "bytes": 74368}})
        self.convert(GOLDEN, "one.safetensors")
        self.convert("one.safetensors", "shards", "--format", "safetensors", "--shard-size", "41 KB")
        # The same split as in the original gives the same files.
        for name in ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"):
            self.assertTrue((self.folder / "shards" / name).exists())
        self.assertEqual(self.info("shards")["hash"], info["hash"])

    def test_info_folds_layers(self):
        text = self.moh("checkpoint", "info", GOLDEN)
        self.assert_says(text, "tensors     21\n", "parameters  37184\n", "size        72.6 KiB\n", "types       BF16\n")
        self.assertRegex(text, r"model\.layers\.\{0-1\}\.mlp\.up_proj\.weight +2 +BF16 +\[24, 64\]\n")
        self.assertNotIn("hash", text)
        text = self.moh("checkpoint", "info", GOLDEN, "--all")
        for layer in (0, 1):
            self.assertRegex(text, rf"model\.layers\.{layer}\.mlp\.up_proj\.weight +BF16 +\[24, 64\]\n")

    def test_index_that_leads_elsewhere(self):
        self.convert(GOLDEN, "one.safetensors")
        self.write("bad/model.safetensors.index.json", json.dumps({"weight_map": {"a": "../one.safetensors"}}))
        for command in (("checkpoint", "info", "bad"), ("convert", "--from", "bad", "--to", "x.safetensors")):
            self.assert_says(self.moh(*command, code=support.INPUT_ERROR),
                             "weight_map, a: expected the plain name of a file beside the index")

    def test_a_total_size_that_is_wrong(self):
        shutil.copytree(GOLDEN, self.folder / "shards")
        path = self.folder / "shards/model.safetensors.index.json"
        index = json.loads(path.read_text())
        path.chmod(0o644)
        path.write_text(json.dumps({**index, "metadata": {"total_size": 5}}))
        says = "metadata, total_size: expected 74368, the bytes of all tensors, found 5"
        self.assert_says(self.convert("shards", "x.safetensors", code=support.INPUT_ERROR), says, "--allow-differences")
        self.assert_says(self.convert("shards", "x.safetensors", "--allow-differences"), "warning: ", says)
        self.assertEqual(self.info("x.safetensors")["hash"], self.info(GOLDEN)["hash"])

    def test_what_needs_a_model(self):
        self.write("w.safetensors", safetensors([("a", "F32", [1], b"\0" * 4)]))
        for name in ("moh", "hf"):
            self.assert_says(self.convert("w.safetensors", "x", "--format", name, code=support.CONFIG_ERROR),
                             "expected a configuration next to the tensors, found none", "--config")

    def test_command_lines_that_are_wrong(self):
        self.write("w.safetensors", safetensors([("a", "F32", [1], b"\0" * 4)]))
        cases = {
            ("x",): "--format: expected hf, safetensors, moh or peft, found none",
            ("x", "--format", "safetensors", "--shard-size", "5 bananas"): "--shard-size: expected a size such as 5GB",
            ("x", "--format", "safetensors", "--shard-size", "0"): "--shard-size: expected a size",
            ("x", "--format", "moh", "--shard-size", "5GB"): "a checkpoint of moh has one file of weights",
            ("x.safetensors", "--format", "hf"): "expected the name of a folder, found that of a file",
            ("x.safetensors", "--part", "ema"): "part: expected none: only PyTorch files hold several models",
            ("x.safetensors", "--dtype", "int8"): "--dtype",
        }
        for arguments, expected in cases.items():
            with self.subTest(arguments=arguments):
                self.assert_says(self.convert("w.safetensors", *arguments, code=support.CONFIG_ERROR), expected)
        self.assert_says(self.convert("nothing", "x.safetensors", code=support.INPUT_ERROR),
                         "nothing: expected a model, found no such file or folder")
        self.assert_says(self.moh("checkpoint", "info", "text.txt", code=support.INPUT_ERROR),
                         "text.txt: expected a safetensors file, the index of a sharded one or a PyTorch file")
        self.assert_says(self.moh("checkpoint", "info", ".", code=support.INPUT_ERROR), "model.safetensors.index.json")


class FromPyTorch(ConvertTest):
    def setUp(self):
        super().setUp()
        self.write("many.pt", torch_save({
            "model": self.model(1), "ema": self.model(10), "epoch": 7,
            "optimizer": {"state": {0: {"exp_avg": Tensor([2], [0, 0])}}, "lr": 0.5, "betas": (0.9, 0.95)},
            "log": {f"step_{i:02}": i for i in range(20)}, "started": datetime.date(2024, 5, 1)}))

    @staticmethod
    def model(first):
        return {"a.weight": Tensor([2, 3], range(first, first + 6)), "b": Tensor([1], [-first])}

    def expected(self, first):
        return {"a.weight": ([2, 3], list(range(first, first + 6))), "b": ([1], [-first])}

    def test_info_of_a_golden_file_shows_what_else_it_holds(self):
        for name, format, part, values in (
                ("legacy_state_dict.pth", "PyTorch before 1.6", "state_dict", {"epoch": "3"}),
                ("plain_state_dict.pt", "PyTorch", ".", None)):
            with self.subTest(name):
                info = self.info(TORCH_GOLDEN / name)
                self.assertEqual((info["format"], info["metadata"]), (format, {"part": part}))
                self.assertEqual((info["parameters"], len(info["tensors"])), (3336, 7))
                self.assertEqual(info["contents"]["models"], {part: "7 tensors, 13344 bytes"})
                self.assertEqual(info["contents"].get("values"), values)
        text = self.moh("checkpoint", "info", TORCH_GOLDEN / "legacy_state_dict.pth")
        self.assert_says(text, "format      PyTorch before 1.6\n", "metadata    part: state_dict\n",
                         "\nmodels\n  state_dict  7 tensors, 13344 bytes\n\nvalues\n  epoch  3\n")

    def test_info_of_a_file_of_several_models(self):
        contents = self.info("many.pt")["contents"]
        self.assertEqual(contents["models"], {"model": "2 tensors, 28 bytes", "ema": "2 tensors, 28 bytes"})
        values = contents["values"]
        self.assertEqual((values["epoch"], values["optimizer/lr"], values["log/step_19"]), ("7", "0.5", "19"))
        self.assertEqual(values["optimizer/betas"], "[0.9, 0.95]")
        self.assertEqual(contents["other tensors"], {"optimizer": "1 tensor"})
        self.assertEqual(contents["opaque objects"], {"started": "datetime.date"})
        # Twelve rows of a section, all of them with --all.
        text = self.moh("checkpoint", "info", "many.pt")
        self.assert_says(text, "\nmodels\n  model  2 tensors, 28 bytes\n  ema    2 tensors, 28 bytes\n",
                         f"  ... and {len(values) - 12} more (--all)\n", "\nother tensors\n  optimizer  1 tensor\n",
                         "\nopaque objects\n  started  datetime.date\n")
        self.assertNotIn("step_19", text)
        text = self.moh("checkpoint", "info", "many.pt", "--all")
        self.assertRegex(text, r"\n  log/step_19 +19\n")
        self.assertNotIn("more (--all)", text)

    def test_info_of_safetensors_has_nothing_else(self):
        self.convert("many.pt", "one.safetensors")
        self.assertNotIn("contents", self.info("one.safetensors"))

    def test_a_part_is_converted(self):
        for part, first in (("ema", 10), ("model", 1)):
            name = f"{part}.safetensors"
            output = self.convert("many.pt", name, "--part", part)
            self.assert_says(output, f"read        many.pt (PyTorch, {part} of model, ema)", "tensors     2\n",
                             "parameters  7\n")
            self.assertNotIn("warning", output)
            self.assertEqual(elements(self.folder / name), self.expected(first))
            self.assertEqual(self.info(name)["hash"], self.info("many.pt", "--part", part)["hash"])
        self.assertNotEqual(self.info("ema.safetensors")["hash"], self.info("model.safetensors")["hash"])
        # Without a part the averaged weights are taken, the usual choice where they are there, which is said.
        self.assert_says(self.convert("many.pt", "usual.safetensors"),
                         "warning: convert: many.pt holds several models: PyTorch, ema of model, ema is taken; --part names "
                         "another")
        self.assertEqual(elements(self.folder / "usual.safetensors"), self.expected(10))

    def test_a_part_that_is_not_there(self):
        expected = "many.pt: part teacher: expected one of model, ema, found none or several of it"
        for command in (("checkpoint", "info", "many.pt"), ("convert", "--from", "many.pt", "--to", "x.safetensors")):
            self.assert_says(self.moh(*command, "--part", "teacher", code=support.INPUT_ERROR), expected)
        self.assertNotIn("x.safetensors", self.names())
        # An optimiser's tensors are no model.
        self.moh("checkpoint", "info", "many.pt", "--part", "optimizer", code=support.INPUT_ERROR)

    def test_models_without_a_usual_name_need_a_part(self):
        self.write("two.pt", torch_save({"student": self.model(1), "teacher": self.model(2)}))
        self.assert_says(self.convert("two.pt", "x.safetensors", code=support.INPUT_ERROR),
                         "student, teacher; say which part to take")
        self.convert("two.pt", "x.safetensors", "--part", "teacher")
        self.assertEqual(elements(self.folder / "x.safetensors"), self.expected(2))


if __name__ == "__main__":
    support.main()
