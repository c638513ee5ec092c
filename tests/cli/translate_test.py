"""moh translate: text to text with a trained model, in the order of the lines."""

import gzip
import json
import subprocess

import support

RUN = """\
task: translation
seed: 3
threads: 1
output: {dir: run}
data: {train: pairs.tsv, validation_fraction: 0, batch_tokens: 96, max_length: 48}
model:
  vocab_size: 256
  encoder_layers: 1
  decoder_layers: 1
  hidden: 32
  intermediate: 48
  heads: 4
  max_positions: 64
  moh: {router: learned, num_shared: 1, top_k: 2}
train: {steps: 60, batch_size: 1}
optim: {learning_rate: 0.003, weight_decay: 0}
schedule: {kind: inverse_sqrt, warmup_steps: 20}
checkpoint: {keep_best: false}
"""
WORDS = {"one": "eins", "two": "zwei", "three": "drei", "four": "vier", "five": "fuenf", "red": "rot", "blue": "blau", "house": "Haus"}


def sentences():
    """(source, target) of one or two words, word by word."""
    return [(f"{a} {b}", f"{x} {y}") for a, x in WORDS.items() for b, y in WORDS.items()] + list(WORDS.items())


class Translate(support.MohTest):
    def setUp(self):
        super().setUp()
        self.write("run.yaml", RUN)
        self.pairs = sentences()
        self.write("pairs.tsv", "".join(f"{source}\t{target}\n" for source, target in self.pairs))
        self.moh("train", "run.yaml")
        self.write("test.en", "".join(f"{source}\n" for source, _ in self.pairs[:12]))

    def translate(self, *arguments, text="test.en", run="run", **options):
        return self.moh("translate", "--checkpoint", run, "--input", text, *arguments, **options)

    def lines(self, *arguments, **options):
        path = self.folder / "out.txt"
        self.translate("--output", path.name, "--overwrite", *arguments, **options)
        return path.read_text(encoding="utf-8").splitlines()

    def records(self, *arguments, **options):
        return [json.loads(line) for line in self.lines("--json", *arguments, **options)]

    def test_what_it_learned(self):
        self.moh("train", "run.yaml", "train.steps=400", "output.dir=longer")
        records = self.records("--beam", 4, run="longer")
        self.assertEqual([record["line"] for record in records], list(range(1, 13)))
        self.assertEqual([record["source"] for record in records], [source for source, _ in self.pairs[:12]])
        best = [record["translations"][0] for record in records]
        self.assertEqual(self.lines("--beam", 4, run="longer"), [each["text"] for each in best])
        for each in best:
            self.assertEqual(bytes(each["ids"]).decode(), each["text"])
            self.assertAlmostEqual(each["score"], each["log_probability"] / (len(each["ids"]) + 1), places=9)
        # The first letter of a word tells the word.
        first = [each["text"][:1] for each in best]
        self.assertGreater(sum(a == target[:1] for a, (_, target) in zip(first, self.pairs)), 3)

    def test_results_do_not_depend_on_batches_and_threads(self):
        expected = self.records()
        self.assertEqual(self.records("--threads", 2), expected)
        for tokens in (1, 50):
            for found, record in zip(self.records("--batch-tokens", tokens), expected, strict=True):
                self.assertEqual([each["ids"] for each in found["translations"]], [each["ids"] for each in record["translations"]])
                for each, other in zip(found["translations"], record["translations"]):
                    self.assertAlmostEqual(each["score"], other["score"], places=5)

    def test_lists_of_n_best(self):
        records = self.records("--beam", 3, "--n-best", 3, "--length-penalty", 0.6)
        listed = self.lines("--beam", 3, "--n-best", 3, "--length-penalty", 0.6)
        self.assertEqual(len(listed), 36)
        for i, record in enumerate(records):
            scores = [each["score"] for each in record["translations"]]
            self.assertEqual(scores, sorted(scores, reverse=True))
            for each, line in zip(record["translations"], listed[3 * i:3 * i + 3], strict=True):
                self.assertEqual(line, f"{i} ||| {each['text']} ||| {each['score']:.6f}")
                self.assertAlmostEqual(each["score"], each["log_probability"] / (len(each["ids"]) + 1) ** 0.6, places=9)

    def test_greedy_and_lengths(self):
        for record in self.records("--beam", 1, "--max-length", 5):
            self.assertLessEqual(len(record["translations"][0]["ids"]), 4)
        for record in self.records("--beam", 1):
            self.assertEqual(len(record["translations"]), 1)

    def test_where_text_comes_from(self):
        expected = self.lines()
        with gzip.open(self.folder / "test.en.gz", "wt", encoding="utf-8") as file:
            file.write((self.folder / "test.en").read_text())
        self.assertEqual(self.lines(text="test.en.gz"), expected)
        done = subprocess.run([support.MOH, "translate", "--checkpoint", "run"], cwd=self.folder, env=support.environment(), check=True,
                              input=(self.folder / "test.en").read_bytes(), capture_output=True, timeout=support.TIMEOUT_SECONDS)
        self.assertEqual(done.stdout.decode().splitlines(), expected)

    def test_held_out_pairs_and_their_references(self):
        expected = self.lines()
        self.write("held_out.tsv", "".join(f"{source}\t{target}\n" for source, target in self.pairs[:12]))
        output = "data=held_out.tsv", "--held-out", "--references", "references.txt", "--output", "translations.txt"
        self.moh("translate", "--checkpoint", "run", *output)
        self.assertEqual((self.folder / "translations.txt").read_text(encoding="utf-8").splitlines(), expected)
        self.assertEqual((self.folder / "references.txt").read_text(encoding="utf-8").splitlines(), [target for _, target in self.pairs[:12]])
        self.assert_says(self.moh("translate", "--checkpoint", "run", *output[:4], code=support.CONFIG_ERROR), "--references", "--overwrite")
        self.assert_says(self.moh("translate", "--checkpoint", "run", "--held-out", code=support.INPUT_ERROR), "held nothing out", "data=PATH")
        self.assert_says(self.moh("translate", "--checkpoint", "run", "--references", "r.txt", code=support.CONFIG_ERROR), "--held-out")
        self.assert_says(self.translate("--held-out", code=support.CONFIG_ERROR), "--input")
        self.assert_says(self.translate("data=held_out.tsv", code=support.CONFIG_ERROR), "data=held_out.tsv")

    def test_empty_lines_stay(self):
        expected = self.lines()
        self.write("gaps.en", "\n" + "\n \n".join(source for source, _ in self.pairs[:12]) + "\n")
        found = self.lines(text="gaps.en")
        self.assertEqual(found[1::2], expected)
        self.assertEqual(set(found[0::2]), {""})
        self.assertEqual(self.records(text="gaps.en")[0], {"line": 1, "source": "", "translations": []})

    def test_what_does_not_fit_is_refused(self):
        for arguments, code, message in (
            (("--beam", 0), support.CONFIG_ERROR, "--beam: expected 1 to 1024, found 0"),
            (("--beam", 2, "--n-best", 3), support.CONFIG_ERROR, "--n-best: expected 1 to 2, found 3"),
            (("--max-length", -1), support.CONFIG_ERROR, "--max-length: expected 0 to"),
            (("--batch-tokens", 0), support.CONFIG_ERROR, "--batch-tokens: expected 1 to"),
            (("--early-stopping", "maybe"), support.CONFIG_ERROR, "--early-stopping"),
            (("--length-penalty", "nan"), support.CONFIG_ERROR, "--length-penalty"),
        ):
            with self.subTest(arguments=arguments):
                self.assert_says(self.translate(*arguments, code=code), message)
        self.write("long.en", "one\n" + "long " * 20 + "\n")
        self.assert_says(self.translate(text="missing.en", code=support.INPUT_ERROR), "missing.en")
        self.assert_says(self.translate(text="long.en", code=support.INPUT_ERROR),
                         "long.en:2: expected at most 64 tokens with the end, found 100")
        self.write("out.txt", "kept")
        self.assert_says(self.translate("--output", "out.txt", code=support.CONFIG_ERROR), "--output", "--overwrite")
        self.assertEqual((self.folder / "out.txt").read_text(), "kept")

    def test_a_model_of_another_task(self):
        self.write("text.txt", support.text_of_words(3000))
        self.train({"output.dir": "language"})
        output = self.moh("translate", "--checkpoint", "language", "--input", "test.en", code=support.CONFIG_ERROR)
        self.assert_says(output, "translate: expected a model that translates, found task: language_model")


if __name__ == "__main__":
    support.main()
