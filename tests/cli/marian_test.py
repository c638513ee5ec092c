"""Runs whose sentences become the tokens of a Marian tokenizer, a SentencePiece model for each language: training, what a checkpoint
carries, exports, refusals."""

import json
import shutil

import support

RUN = """\
task: translation
seed: 3
threads: 1
output: {dir: run}
data: {train: pairs.tsv, tokenizer: tok, validation_fraction: 0.1, batch_tokens: 96, max_length: 48}
model: {encoder_layers: 1, decoder_layers: 1, hidden: 16, intermediate: 24, heads: 4, max_positions: 64, sinusoids: marian, output_bias: true}
train: {steps: 8, batch_size: 1}
optim: {learning_rate: 0.003}
schedule: {warmup_steps: 2}
checkpoint: {every: 4}
"""
GOLDEN = json.loads((support.TOKENIZERS.parent / "golden_marian.json").read_text())
FILES = ("source.spm", "target.spm", "vocab.json", "tokenizer_config.json")


class Marian(support.MohTest):
    def setUp(self):
        super().setUp()
        self.write("run.yaml", RUN)
        self.write("pairs.tsv", "".join(f"the head of layer {i}\tKopf {i % 7} der Schicht {i}\n" for i in range(120)))
        self.write("test.en", "the head\nof a layer 3\n")
        self.make("joint")

    def make(self, name, **changes):
        """The folder `tok` with the files of a case; None takes a file away."""
        shutil.rmtree(self.folder / "tok", ignore_errors=True)
        (self.folder / "tok").mkdir()
        case = GOLDEN["of"][name]
        for side in ("source", "target"):
            shutil.copy(support.TOKENIZERS / f"{case[side]}.model", self.folder / f"tok/{side}.spm")
        for file, contents in {**case["files"], **changes}.items():
            self.write(f"tok/{file}", json.dumps(contents))

    def translations(self, checkpoint, *arguments):
        output = self.moh("translate", "--checkpoint", checkpoint, "--input", "test.en", "--json", *arguments)
        return [line for line in output.splitlines() if line.startswith("{")]

    def test_a_run_and_its_checkpoint(self):
        self.moh("train", "run.yaml")
        config = (self.newest() / "config.yaml").read_text()
        self.assert_says(config, "vocab_size: 861", f"tokenizer: {self.folder / 'tok'}")
        for file in FILES:
            self.assertEqual((self.newest() / file).read_bytes(), (self.folder / "tok" / file).read_bytes(), file)
        found, loss = self.translations("run"), self.moh("eval", "--checkpoint", "run")
        # A step folder is all that the commands need.
        shutil.move(self.newest(), self.folder / "step_00000008")
        shutil.rmtree(self.folder / "run")
        shutil.rmtree(self.folder / "tok")
        self.assertEqual(self.translations("step_00000008"), found)
        self.assertIn(loss.split("nll")[1].split()[0], self.moh("eval", "--checkpoint", "step_00000008"))

    def test_an_export(self):
        self.moh("train", "run.yaml", "data.decoder_start=860")
        self.moh("convert", "--from", "run", "--to", "exported", "--format", "hf")
        for file in FILES:
            self.assertEqual((self.folder / "exported" / file).read_bytes(), (self.folder / "tok" / file).read_bytes(), file)
        config = json.loads((self.folder / "exported/config.json").read_text())
        self.assertEqual([config[key] for key in ("eos_token_id", "decoder_start_token_id", "pad_token_id")], [0, 860, 860])
        self.assertEqual(self.translations("exported"), self.translations("run"))
        self.moh("train", "run.yaml", "init.from=exported", "data.tokenizer=exported", "output.dir=tuned", "train.steps=1")
        self.assert_says((self.newest("tuned") / "config.yaml").read_text(), "decoder_start: 860")
        self.moh("convert", "--from", "exported", "--to", "again", "--format", "moh")
        self.assertEqual(self.translations("again"), self.translations("run"))

    def test_a_resumed_run_finds_its_tokenizer_where_it_is(self):
        self.moh("train", "run.yaml", "output.dir=whole")
        self.moh("train", "run.yaml", "train.steps=4", "schedule.decay_steps=8")
        (self.folder / "tok").rename(self.folder / "elsewhere")
        self.moh("train", "run.yaml", "--resume", "data.tokenizer=elsewhere/vocab.json", "schedule.decay_steps=8")
        self.assert_same_state("whole", "run")

    def test_another_tokenizer_is_refused(self):
        self.moh("train", "run.yaml", "train.steps=4")
        vocabulary = GOLDEN["of"]["joint"]["files"]["vocab.json"]
        names = list(vocabulary)
        self.make("joint", **{"vocab.json": {**vocabulary, names[5]: 6, names[6]: 5}})
        self.assert_says(self.moh("train", "run.yaml", "--resume", "train.steps=4", code=support.INPUT_ERROR),
                         "resume: the data are not those that the checkpoint was trained on", "data.tokenizer: vocab.json, 861 tokens, hash ")
        output = self.moh("translate", "--checkpoint", "run", "--input", "test.en", "data.tokenizer=tok", code=support.CONFIG_ERROR)
        self.assert_says(output, "data.tokenizer: tok: expected the tokenizer that the model was trained with, hash ")

    def test_two_vocabularies_of_different_sizes(self):
        self.make("separate")
        vocabulary = json.loads((self.folder / "tok/target_vocab.json").read_text())
        self.write("tok/target_vocab.json", json.dumps({**vocabulary, "one more": 843}))
        output = self.moh("train", "run.yaml", code=support.CONFIG_ERROR)
        self.assert_says(output, "model.source_vocab_size: expected 0 or model.vocab_size (844) with model.shared_embeddings: all, found 843")
        self.moh("train", "run.yaml", "model.shared_embeddings=decoder")
        self.assert_says((self.newest() / "config.yaml").read_text(), "source_vocab_size: 843", "  vocab_size: 844")
        self.translations("run")
        for key, tokens in (("vocab_size", 844), ("source_vocab_size", 843)):
            output = self.moh("train", "run.yaml", "model.shared_embeddings=decoder", "model.vocab_size=844", "model.source_vocab_size=843",
                              f"model.{key}={tokens - 1}", "output.dir=refused", code=support.CONFIG_ERROR)
            self.assert_says(output, f"model.{key}: expected at least the {tokens} tokens of data.tokenizer tok, found {tokens - 1}")

    def test_tokens_without_rows_are_refused_in_texts(self):
        """Of the source language alone, as each has a table of its own."""
        self.make("separate")
        self.moh("train", "run.yaml", "model.shared_embeddings=decoder")
        self.moh("convert", "--from", "run", "--to", "exported", "--format", "hf")
        vocabulary = json.loads((self.folder / "exported/vocab.json").read_text())
        self.write("exported/vocab.json", json.dumps({**vocabulary, ">>new<<": 843}))
        self.assertEqual(self.translations("exported"), self.translations("run"))
        self.write("test.en", ">>deu<< the head\n>>new<< the head\n")
        output = self.moh("translate", "--checkpoint", "exported", "--input", "test.en", code=support.INPUT_ERROR)
        self.assert_says(output, "source language: 844 tokens, but the model's embedding has 843 rows", "model.source_vocab_size=844",
                         "test.en:2: tokenizer: text: expected ids below 843, the rows of the model's embedding, found 843 (>>new<<)")

    def test_missing_and_damaged_files(self):
        (self.folder / "tok/target.spm").unlink()
        self.assert_says(self.moh("train", "run.yaml", code=support.INPUT_ERROR), "target.spm: expected a readable file")
        self.make("joint", **{"vocab.json": {"</s>": 0, "<unk>": 0}})
        self.assert_says(self.moh("train", "run.yaml", code=support.INPUT_ERROR),
                         "vocab.json: '<unk>': expected an id that no other token has, found 0, that of '</s>'")


if __name__ == "__main__":
    support.main()
