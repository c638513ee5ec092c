"""Prompts and responses: JSON Lines of which responses alone are learned, as they are and as token files."""

import json
import random

import support


def records(count, seed):
    draw = random.Random(seed)
    lines = []
    for _ in range(count):
        words = [draw.choice(support.WORDS) for _ in range(6)]
        lines.append(json.dumps({"prompt": " ".join(words[:4]) + "?", "response": " " + " ".join(words[4:])}))
    return "\n".join(lines) + "\n"


class Instruct(support.MohTest):
    def setUp(self):
        super().setUp()
        self.write("chat.jsonl", records(60, seed=1))

    def tokenize(self, *inputs, output="chat.tokens", code=support.DONE):
        return self.moh("data", "tokenize", "--input", *inputs, "--output", output, code=code)

    def test_training_from_tokens_is_training_from_the_records(self):
        self.assert_says(self.tokenize("chat.jsonl"), "documents   60", "(not trained on)")
        self.assert_says(self.moh("data", "info", "chat.tokens", "--verify"), "prompt tokens: ", "verified")
        self.train({"output.dir": "from_text", "data.train": "chat.jsonl"})
        self.train({"output.dir": "from_tokens", "data.train": "chat.tokens"})
        self.assert_same_state("from_text", "from_tokens")
        self.assert_same_history("from_text", "from_tokens")
        # Learned as a whole, they have another loss.
        whole = [{"text": record["prompt"] + record["response"]}
                 for record in map(json.loads, (self.folder / "chat.jsonl").read_text().splitlines())]
        self.write("whole.jsonl", "\n".join(map(json.dumps, whole)))
        self.train({"output.dir": "whole", "data.train": "whole.jsonl"})
        self.assertNotEqual(support.losses(self.folder / "whole"), support.losses(self.folder / "from_text"))
        self.assert_says(self.moh("eval", "--checkpoint", "from_text"), " targets")

    def test_accumulation_changes_rounding_alone(self):
        # Rows have different numbers of targets: means are over those of the step, not of each micro-batch.
        settings = {"model.moh.balance_weight": 0, "eval.every": 0, "data.train": "chat.jsonl"}
        self.train({**settings, "train.batch_size": 4, "train.accumulate": 1}, "output.dir=one")
        self.train({**settings, "train.batch_size": 1, "train.accumulate": 4}, "output.dir=four")
        for one, four in zip(support.losses(self.folder / "one"), support.losses(self.folder / "four"), strict=True):
            self.assertAlmostEqual(one, four, delta=1e-4)

    def test_a_killed_mixture_with_prompts_goes_on_as_it_would_have(self):
        mixture = "data.train=[{name: chat, path: chat.jsonl, weight: 3}, {name: text, path: text.txt, weight: 1}]"
        settings = {"train.steps": 120, "checkpoint.every": 60, "eval.every": 20, "data.document_mask": "true"}
        config = self.config(settings)
        self.moh("train", config, mixture, "output.dir=whole")
        run = support.Running(self, "train", config, mixture)
        run.read_until("step 63/")
        self.assertTrue(run.kill(), f"the run had ended before it was killed:\n{run.output}")
        self.moh("train", config, mixture, "--resume")
        self.assert_same_state("whole", "run")
        self.assert_same_history("whole", "run")
        last = [record for record in support.metrics(self.folder / "run") if record["kind"] == "eval"][-1]
        self.assertTrue({"loss/chat", "loss/text"} <= last.keys())
        output = self.moh("train", config, mixture, "--resume", "train.steps=130", "data.prompt_template='Q: {prompt}'",
                          code=support.CONFIG_ERROR)
        self.assert_says(output, 'data.prompt_template: "{prompt}" -> "Q: {prompt}"')

    def test_templates_and_chats(self):
        self.write("alpaca.jsonl", json.dumps({"instruction": "Add", "input": "1 2", "output": "3"}) + "\n")
        self.tokenize("alpaca.jsonl", "--prompt-template", "{instruction}: {input} =", "--response-template", " {output}",
                      output="a.tokens")
        self.write("plain.jsonl", json.dumps({"prompt": "Add: 1 2 =", "response": " 3"}) + "\n")
        self.tokenize("plain.jsonl", output="b.tokens")
        self.assertEqual((self.folder / "a.tokens").read_bytes(), (self.folder / "b.tokens").read_bytes())
        chat = {"messages": [{"role": "user", "content": "Add: 1 2 ="}, {"role": "assistant", "content": " 3"}]}
        self.write("chats.jsonl", json.dumps(chat) + "\n")
        self.tokenize("chats.jsonl", "--message-template", "{content}", output="c.tokens")
        self.assertEqual((self.folder / "c.tokens").read_bytes(), (self.folder / "b.tokens").read_bytes())

    def test_what_is_refused(self):
        self.write("half.jsonl", '{"prompt": "a", "response": "b"}\n{"prompt": "a"}\n')
        said = "half.jsonl:2: expected a text at the key 'response', found no such key"
        self.assert_says(self.tokenize("half.jsonl", code=support.INPUT_ERROR), said)
        self.assert_says(self.train({"data.train": "half.jsonl"}, code=support.INPUT_ERROR), said)
        self.write("other.jsonl", '{"question": "a", "answer": "b"}\n')
        self.assert_says(self.train({"data.train": "other.jsonl"}, code=support.INPUT_ERROR),
                         "other.jsonl:1: expected a text at the key 'text', or texts at the keys 'prompt' and 'response', "
                         "found the keys 'answer', 'question'")
        self.assert_says(self.train({"data.train": "chat.jsonl"}, "data.prompt_template='{'", code=support.CONFIG_ERROR),
                         "data.prompt_template: expected text in which {key} stands for a record's text")
        self.assert_says(self.tokenize("chat.jsonl", "--response-template", "x", code=support.CONFIG_ERROR),
                         "data.response_template: expected text in which {key}", "x, without {")


if __name__ == "__main__":
    support.main()
