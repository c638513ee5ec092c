"""Folders of Marian models as they are released, random weights with tokenizers that sentencepiece trained: moh translates them, evaluates
them, trains them further and writes them again with the tokens of transformers' MarianTokenizer."""

import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "language/hf"))
from with_transformers import FOLDER  # first: it may begin again under another Python
import python_packages

python_packages.require("sentencepiece")

import sentencepiece
import torch
from transformers import AutoTokenizer, MarianConfig, MarianMTModel, MarianTokenizer

MOH = os.environ.get("MOH_BINARY", "moh")
HERE = pathlib.Path(FOLDER.name)
TOLERANCE = 2e-4  # of a score and of a loss, in nats
CODES = [">>deu<<", ">>nld<<"]
NOUNS = {"file": "Datei", "folder": "Ordner", "head": "Kopf", "layer": "Schicht", "street": "Straße", "house": "Haus", "window": "Fenster"}
VERBS = {"opens": "öffnet", "finds": "findet", "reads": "liest", "writes": "schreibt", "removes": "löscht"}
SENTENCES = ["The file opens the window.", ">>deu<< The head finds a layer", ">>nld<<The house reads the street", "Straße, ☃☃ and <unk>", "a  b",
             ">>xyz<< writes", "</s> the folder removes the file !", "unheard-of words, 42 of them", "The layer writes the head, and the file reads it."]
SIZES = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
         "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "max_position_embeddings": 64, "init_std": 0.4, "activation_function": "swish",
         "scale_embedding": True}
FILES = ("source.spm", "target.spm", "vocab.json", "tokenizer_config.json", "generation_config.json")
RUN = """\
task: translation
seed: 3
threads: 1
output: {dir: tuned}
init: {from: %s}
data: {train: pairs.tsv, validation_fraction: 0, batch_tokens: 96, max_length: 48}
train: {steps: 3, batch_size: 1}
optim: {learning_rate: 0.01}
schedule: {warmup_steps: 0}
"""


def pairs():
    return [(f"The {noun} {verb} the {other}.", f"{NOUNS[noun]} {VERBS[verb]} {NOUNS[other]}.")
            for noun in NOUNS for verb in VERBS for other in NOUNS if noun < other]


def pieces_of(sentences, size):
    """A model as Marian's: unigram, with sentencepiece's normalisation."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(sentences), model_writer=model, model_type="unigram", vocab_size=size,
                                             hard_vocab_limit=False, num_threads=1, minloglevel=2)
    return model.getvalue()


def vocabulary(*models):
    pieces = set()
    for model in models:
        known = sentencepiece.SentencePieceProcessor(model_proto=model)
        pieces |= {known.id_to_piece(i) for i in range(known.get_piece_size()) if not known.is_control(i) and not known.is_unknown(i)}
    tokens = ["</s>", "<unk>", *CODES, *sorted(pieces), "<pad>"]
    return {token: i for i, token in enumerate(tokens)}


def make(name, separate=False, **settings):
    """The folder of a model, as those on the hub are."""
    folder = HERE / name
    folder.mkdir()
    source, target = (pieces_of([pair[side] for pair in pairs()], size) for side, size in ((0, 90), (1, 110)))
    (folder / "source.spm").write_bytes(source)
    (folder / "target.spm").write_bytes(target)
    vocabularies = [vocabulary(source), vocabulary(target)] if separate else [vocabulary(source, target)]
    # MarianTokenizer takes the id of padding in vocab.json for that of both.
    size = max(map(len, vocabularies))
    for each, file in zip(vocabularies, ("vocab.json", "target_vocab.json")):
        pad = each.pop("<pad>")
        each.update({f"filler{i}": i for i in range(pad, size - 1)} | {"<pad>": size - 1})
        (folder / file).write_text(json.dumps(each), encoding="utf-8")
    config = {"source_lang": "en", "target_lang": "de", **settings}
    if separate:
        config["separate_vocabs"] = True
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    torch.manual_seed(4)
    model = MarianMTModel(MarianConfig(
        **SIZES, vocab_size=size, pad_token_id=size - 1, decoder_start_token_id=size - 1, eos_token_id=0, forced_eos_token_id=0,
        share_encoder_decoder_embeddings=not separate, decoder_vocab_size=size))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.3 * torch.randn_like(parameter))
        model.final_logits_bias.normal_(0, 0.3)
        model.final_logits_bias[0, 0] = 2
    model.generation_config.bad_words_ids = [[size - 1]]
    model.save_pretrained(folder)
    if not separate:  # as the first ones were saved, before PyTorch 1.6
        (folder / "model.safetensors").unlink()
        state = {name: tensor.half() for name, tensor in model.state_dict().items()}
        assert "model.encoder.embed_positions.weight" in state
        torch.save(state, folder / "pytorch_model.bin", _use_new_zipfile_serialization=False)


def opened(name):
    """The tokenizer and the model in transformers, with sinusoids that are not rounded to the half precision of the file."""
    model = MarianMTModel.from_pretrained(HERE / name).float()
    exact = MarianMTModel(model.config)
    for stack, of_exact in ((model.model.encoder, exact.model.encoder), (model.model.decoder, exact.model.decoder)):
        stack.embed_positions.load_state_dict(of_exact.embed_positions.state_dict())
    return MarianTokenizer.from_pretrained(HERE / name), model.eval()


def run(*arguments, code=0):
    done = subprocess.run([MOH, *map(str, arguments)], cwd=HERE, capture_output=True, text=True, timeout=120)
    if done.returncode != code:
        raise AssertionError(f"{arguments}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout if code == 0 else done.stdout + done.stderr


def translated(name, beams, *settings):
    """For each sentence the (tokens, text, score) of its translations."""
    (HERE / "sentences.txt").write_text("\n".join(SENTENCES) + "\n", encoding="utf-8")
    output = run("translate", "--checkpoint", name, "--input", "sentences.txt", "--json", "--beam", beams, "--n-best", beams, "--max-length", 24,
                 *settings)
    return [[(each["ids"], each["text"], each["score"]) for each in json.loads(line)["translations"]] for line in output.splitlines()]


def expected(name, beams):
    tokenizer, model = opened(name)
    batch = tokenizer([" ".join(sentence.split()) for sentence in SENTENCES], return_tensors="pt", padding=True)
    found = model.generate(**batch, num_beams=beams, num_return_sequences=beams, max_length=25, do_sample=False, return_dict_in_generate=True,
                           output_scores=True)
    rows, pad = found.sequences[:, 1:].tolist(), model.config.pad_token_id
    tokens = [row[:row.index(0)] if 0 in row else [token for token in row if token != pad] for row in rows]
    texts = [" ".join(text.split()) for text in tokenizer.batch_decode(found.sequences, skip_special_tokens=True)]
    scores = found.sequences_scores.tolist() if beams > 1 else [None] * len(rows)
    return [list(zip(tokens[i:i + beams], texts[i:i + beams], scores[i:i + beams])) for i in range(0, len(tokens), beams)]


def loss(name):
    """Of all pairs, per target token in nats."""
    tokenizer, model = opened(name)
    total, count = 0.0, 0
    with torch.no_grad():
        for source, target in pairs():
            batch = tokenizer(source, text_target=target, return_tensors="pt")
            total += model(**batch).loss.item() * batch["labels"].numel()
            count += batch["labels"].numel()
    return total / count


def setUpModule():
    (HERE / "pairs.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in pairs()), encoding="utf-8")
    make("common")
    make("separate", separate=True, clean_up_tokenization_spaces=True)


def tearDownModule():
    FOLDER.cleanup()


class MarianFolders(unittest.TestCase):
    def check_translations(self, found, wanted):
        for sentence, of_moh, of_transformers in zip(SENTENCES, found, wanted, strict=True):
            self.assertEqual([each[:2] for each in of_moh], [each[:2] for each in of_transformers], sentence)
            for (*_, ours), (*_, theirs) in zip(of_moh, of_transformers):
                if theirs is not None:
                    self.assertAlmostEqual(ours, theirs, delta=TOLERANCE, msg=sentence)
        self.assertGreater(len({text for row in found for _, text, _ in row}), 3)  # a model of one answer would agree with all

    def check_tokenizer(self, name, original):
        ours, theirs = AutoTokenizer.from_pretrained(HERE / name), MarianTokenizer.from_pretrained(HERE / original)
        self.assertIsInstance(ours, MarianTokenizer)
        for sentence in SENTENCES:
            self.assertEqual(ours(sentence)["input_ids"], theirs(sentence)["input_ids"])
            self.assertEqual(ours(text_target=sentence)["input_ids"], theirs(text_target=sentence)["input_ids"])

    def test_translations_are_those_of_transformers(self):
        for name in ("common", "separate"):
            for beams in (1, 4):
                with self.subTest(model=name, beams=beams):
                    self.check_translations(translated(name, beams), expected(name, beams))

    def test_losses_are_those_of_transformers(self):
        for name in ("common", "separate"):
            with self.subTest(name):
                output = run("eval", "--checkpoint", name, "data=pairs.tsv")
                self.assertAlmostEqual(float(output.split("nll")[1].split()[0]), loss(name), delta=TOLERANCE)

    def test_a_model_comes_back_from_a_checkpoint(self):
        for name in ("common", "separate"):
            with self.subTest(name):
                shutil.copytree(HERE / name, HERE / f"{name}_lent")
                run("convert", "--from", f"{name}_lent", "--to", f"{name}_moh", "--format", "moh", "--dtype", "float32")
                shutil.rmtree(HERE / f"{name}_lent")
                self.assertEqual(translated(f"{name}_moh", 2), translated(name, 2))
                run("convert", "--from", f"{name}_moh", "--to", f"{name}_again", "--format", "hf")
                for file in FILES:
                    self.assertEqual((HERE / f"{name}_again" / file).read_bytes(), (HERE / name / file).read_bytes(), file)
                self.check_tokenizer(f"{name}_again", name)
                self.check_translations(translated(name, 4), expected(f"{name}_again", 4))

    def test_a_model_that_is_trained_further_keeps_its_tokens(self):
        for name in ("common", "separate"):
            with self.subTest(name):
                (HERE / "run.yaml").write_text(RUN % name)
                run("train", "run.yaml", f"output.dir=tuned_{name}")
                run("convert", "--from", f"tuned_{name}", "--to", f"tuned_{name}_hf", "--format", "hf")
                self.check_tokenizer(f"tuned_{name}_hf", name)
                found = translated(f"tuned_{name}", 4)
                self.check_translations(found, expected(f"tuned_{name}_hf", 4))
                self.assertNotEqual(found, translated(name, 4))

    def test_what_transformers_saves_is_the_same_tokenizer(self):
        shutil.copytree(HERE / "common", HERE / "saved")
        MarianTokenizer.from_pretrained(HERE / "common").save_pretrained(HERE / "saved")
        self.assertIn("added_tokens_decoder", json.loads((HERE / "saved/tokenizer_config.json").read_text()))
        self.assertEqual(translated("saved", 2), translated("common", 2))
        (HERE / "run.yaml").write_text(RUN % "common")
        run("train", "run.yaml", "output.dir=tuned_saved", "data.tokenizer=saved")  # else refused, as init.from has another


if __name__ == "__main__":
    python_packages.main()
