"""What the tests of task: translation share: a small run, and sentences that are translated word by word."""

import support

RUN = """\
task: translation
seed: 3
threads: 1
output: {dir: run}
data: {train: pairs.tsv, validation_fraction: 0.2, batch_tokens: 96, max_length: 48, max_ratio: 4}
model:
  vocab_size: 256
  encoder_layers: 1
  decoder_layers: 1
  hidden: 32
  intermediate: 48
  heads: 4
  max_positions: 64
  dropout: 0.1
  attention_dropout: 0.1
  activation_dropout: 0.1
  moh: {router: learned, num_shared: 1, top_k: 2}
train: {steps: 40, batch_size: 1, accumulate: 2}
optim: {learning_rate: 0.003, betas: [0.9, 0.98], eps: 1.0e-4, weight_decay: 0}
schedule: {kind: inverse_sqrt, warmup_steps: 10}
log: {every: 1}
eval: {every: 20}
checkpoint: {every: 10, keep_last: 99, keep_best: false}
"""
WORDS = {"one": "eins", "two": "zwei", "three": "drei", "four": "vier", "five": "fuenf", "red": "rot", "blue": "blau", "house": "Haus"}


def sentences():
    """(source, target) of two to five words, word by word, none twice."""
    names = list(WORDS)
    chosen = sorted({tuple(names[(i * (3 + j) + i // 7 + j * (i // 50)) % len(names)] for j in range(2 + i % 4)) for i in range(400)})
    return [(" ".join(words), " ".join(WORDS[word] for word in words)) for words in chosen]


class TranslationTest(support.MohTest):
    def setUp(self):
        super().setUp()
        self.write("run.yaml", RUN)
        self.pairs = sentences()
        self.write_pairs("pairs.tsv", self.pairs)

    def write_pairs(self, name, pairs):
        self.write(name, "".join(f"{source}\t{target}\n" for source, target in pairs))
