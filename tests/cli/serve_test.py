"""moh serve: the answers of each endpoint."""

import concurrent.futures
import json
import math

import serve_support
import support

from serve_support import POSITIONS


class Serve(support.MohTest):
    def setUp(self):
        super().setUp()
        self.train(serve_support.MODEL)

    def serve(self, *options, **named):
        return serve_support.Server(self, *options, **named)

    def text_of(self, server, prompt, **parameters):
        return server.complete(prompt, **parameters)["choices"][0]["text"]

    # Completions.

    def test_a_prompt_in_each_form_gives_the_same_text(self):
        server = self.serve()
        ids = list(b"the head")
        wanted = {"max_tokens": 12, "seed": 7}
        answer = server.complete("the head", **wanted)
        self.assertEqual(answer["object"], "text_completion")
        self.assertEqual(answer["model"], "moh")
        self.assertEqual(answer["usage"], {"prompt_tokens": 8, "completion_tokens": 12, "total_tokens": 20})
        (choice,) = answer["choices"]
        self.assertEqual({name: choice[name] for name in ("index", "logprobs", "finish_reason")},
                         {"index": 0, "logprobs": None, "finish_reason": "length"})
        self.assertEqual(self.text_of(server, ids, **wanted), choice["text"])
        for prompts in (["the head", "a gate"], [ids, list(b"a gate")]):
            choices = server.complete(prompts, **wanted)["choices"]
            self.assertEqual([each["index"] for each in choices], [0, 1])
            self.assertEqual(choices[0]["text"], choice["text"])
            self.assertEqual(choices[1]["text"], self.text_of(server, "a gate", **wanted))

    def test_a_text_is_that_of_moh_generate(self):
        server = self.serve()
        for options in ({"temperature": 0}, {"temperature": 0.8, "top_k": 9, "top_p": 0.9}, {"temperature": 1}):
            flags = [text for name, value in options.items() for text in ("--" + name.replace("_", "-"), value)]
            printed = self.moh("generate", "--checkpoint", "run", "--prompt", "the head", "--tokens", 20, "--seed", 5,
                               "--threads", 1, *flags).rsplit("\n", 2)[0]
            served = self.text_of(server, "the head", max_tokens=20, seed=5, **options)
            # A terminal gets no control characters.
            shown = "".join("\ufffd" if ord(c) < 32 and c not in "\n\t" or 127 <= ord(c) < 160 else c for c in served)
            self.assertEqual("the head" + shown, printed)

    def test_several_texts_of_a_prompt_have_seeds_in_a_row(self):
        server = self.serve()
        choices = server.complete(["the head", "a gate"], n=3, seed=11, max_tokens=16)["choices"]
        self.assertEqual([each["index"] for each in choices], list(range(6)))
        self.assertEqual(len({each["text"] for each in choices}), 6)
        for i, each in enumerate(choices):
            prompt = ("the head", "a gate")[i // 3]
            self.assertEqual(each["text"], self.text_of(server, prompt, seed=11 + i % 3, max_tokens=16))

    def test_without_a_seed_texts_differ(self):
        server = self.serve()
        self.assertGreater(len({self.text_of(server, "the head", max_tokens=24) for _ in range(4)}), 1)

    def test_stop_texts_end_a_text_before_them(self):
        server = self.serve()
        whole = self.text_of(server, "the head", max_tokens=40, temperature=0)
        stop = whole[9:12]
        for given in (stop, ["never in it", stop]):
            (choice,) = server.complete("the head", max_tokens=40, temperature=0, stop=given)["choices"]
            self.assertEqual(choice["finish_reason"], "stop")
            self.assertEqual(choice["text"], whole[:whole.index(stop)])

    def test_echo_puts_the_prompt_first(self):
        server = self.serve()
        text = self.text_of(server, "the head", max_tokens=10, temperature=0)
        for prompt in ("the head", list(b"the head")):
            self.assertEqual(self.text_of(server, prompt, max_tokens=10, temperature=0, echo=True), "the head" + text)
            (choice,) = server.complete(prompt, max_tokens=0, echo=True)["choices"]
            self.assertEqual((choice["text"], choice["finish_reason"]), ("the head", "length"))

    def test_the_whole_of_the_positions_can_be_used(self):
        server = self.serve()
        prompt = [1 + i % 200 for i in range(POSITIONS - 1)]
        (choice,) = server.complete(prompt, max_tokens=1, echo=True, logprobs=1, temperature=0)["choices"]
        self.assertEqual(len(choice["logprobs"]["token_logprobs"]), POSITIONS)
        self.assertEqual(server.complete([1], max_tokens=POSITIONS - 1, temperature=0)["usage"]["total_tokens"], POSITIONS)

    # Log-probabilities.

    def scores(self, server, prompt, **parameters):
        (choice,) = server.complete(prompt, temperature=0, seed=1234, **parameters)["choices"]
        return choice["logprobs"]

    def test_logprobs_are_as_evaluation_harnesses_read_them(self):
        server = self.serve()
        prompt = list("the router keeps a few heads 東京".encode())
        found = self.scores(server, [prompt], max_tokens=1, logprobs=1, echo=True)
        for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
            self.assertEqual(len(found[name]), len(prompt) + 1, name)
        self.assertIsNone(found["token_logprobs"][0])
        self.assertIsNone(found["top_logprobs"][0])
        greedy = 0
        for token, logprob, top in list(zip(found["tokens"], found["token_logprobs"], found["top_logprobs"]))[1:]:
            self.assertTrue(math.isfinite(logprob) and logprob < 0)
            self.assertEqual(top[token], logprob)
            self.assertIn(len(top), (1, 2))
            self.assertGreaterEqual(max(top.values()), logprob)
            greedy += max(top.values()) == logprob
        self.assertEqual(found["token_logprobs"][-1], max(found["top_logprobs"][-1].values()))  # it was generated
        self.assertGreater(greedy, 0)
        self.assertEqual(found["text_offset"][:8], list(range(8)))
        self.assertEqual(found["tokens"][-7:-1], [f"bytes:\\x{byte:02x}" for byte in "東京".encode()])

    def test_logprobs_are_normalised_over_the_vocabulary(self):
        server = self.serve()
        top = self.scores(server, "the head", max_tokens=1, logprobs=20)["top_logprobs"][0]
        self.assertEqual(len(top), 20)
        self.assertEqual(list(top.values()), sorted(top.values(), reverse=True))
        everything = 0
        for token in range(256):
            logprobs = self.scores(server, [*b"the head", token], max_tokens=0, logprobs=0, echo=True)
            everything += math.exp(logprobs["token_logprobs"][-1])
            self.assertEqual(len(logprobs["token_logprobs"]), 9)
        self.assertAlmostEqual(everything, 1, places=6)

    def test_logprobs_are_those_of_moh_eval(self):
        server = self.serve()
        text = support.text_of_words(60, seed=9)[:32]
        self.write("held_out.txt", text)
        report = json.loads(self.moh("eval", "--checkpoint", "run", "data=held_out.txt", "--json").splitlines()[-1])
        scores = self.scores(server, text, max_tokens=1, logprobs=1, echo=True)["token_logprobs"][1:-1]
        self.assertEqual(len(scores), 31)
        self.assertAlmostEqual(-sum(scores) / 31, report["loss"], places=6)

    def test_a_text_of_several_pieces_has_the_scores_of_a_long_one(self):
        # Prompts are read in pieces of 512 tokens: with 1,200 positions, three.
        self.train({**serve_support.MODEL, "model.max_positions": 1200, "output.dir": "long"})
        server = self.serve(checkpoint="long")
        prompt = [ord(c) for c in support.text_of_words(400)[:1199]]
        scores = self.scores(server, prompt, max_tokens=1, logprobs=1, echo=True)["token_logprobs"]
        self.assertEqual(len(scores), 1200)
        for length in (1, 8, 511, 512, 513, 1024, 1030):
            last = self.scores(server, prompt[:length + 1], max_tokens=0, logprobs=0, echo=True)["token_logprobs"][-1]
            self.assertAlmostEqual(last, scores[length], places=5)

    def test_generated_tokens_have_the_scores_of_a_prompt_of_them(self):
        server = self.serve()
        generated = self.scores(server, "the head", max_tokens=12, logprobs=3)
        self.assertEqual(len(generated["tokens"]), 12)
        ids = [*b"the head", *(ord(token) for token in generated["tokens"])]
        again = self.scores(server, ids, max_tokens=0, logprobs=3, echo=True)
        for one, other in zip(generated["token_logprobs"], again["token_logprobs"][8:]):
            self.assertAlmostEqual(one, other, places=5)

    def test_offsets_count_the_characters_of_the_text(self):
        server = self.serve()
        (choice,) = server.complete([65, 133, 66, 0xE4, 0xBD, 0xA0, 67], max_tokens=0, echo=True, logprobs=1)["choices"]
        self.assertEqual(choice["text"], "A\ufffdB\u4f60C")
        self.assertEqual(choice["logprobs"]["text_offset"], [0, 1, 2, 3, 4, 4, 4])
        self.assertEqual(self.scores(server, "the head", max_tokens=2, logprobs=1)["text_offset"][0], 0)

    # Streams.

    def test_a_stream_says_what_the_whole_answer_says(self):
        server = self.serve()
        wanted = {"max_tokens": 24, "seed": 3, "n": 2, "logprobs": 2, "echo": True}
        whole = server.complete("the 東 head", **wanted)
        chunks = server.events("the 東 head", stream_options={"include_usage": True}, **wanted)
        self.assertEqual(chunks[-1]["usage"], whole["usage"])
        self.assertEqual(chunks[-1]["choices"], [])
        for choice in whole["choices"]:
            own = [chunk["choices"][0] for chunk in chunks[:-1] if chunk["choices"][0]["index"] == choice["index"]]
            self.assertGreater(len(own), 10)
            self.assertEqual("".join(each["text"] for each in own), choice["text"])
            self.assertEqual([each["finish_reason"] for each in own],
                             [None] * (len(own) - 1) + [choice["finish_reason"]])
            for name, values in choice["logprobs"].items():
                self.assertEqual([value for each in own for value in each["logprobs"][name]], values, name)

    def test_a_stream_holds_back_what_may_become_a_stop_text(self):
        server = self.serve()
        whole = self.text_of(server, "the head", max_tokens=40, temperature=0)
        stop = whole[12:16]
        texts = [chunk["choices"][0]["text"] for chunk in server.events("the head", max_tokens=40, temperature=0, stop=stop)]
        self.assertEqual("".join(texts), whole[:whole.index(stop)])

    # Many at once.

    def test_what_is_computed_beside_it_changes_no_bit_of_a_text(self):
        server = self.serve()
        words = support.WORDS
        bodies = [{"prompt": " ".join(words[:1 + i % 7]), "seed": i, "max_tokens": 8 + i, "logprobs": 2, "echo": i % 3 == 0,
                   "temperature": (0, 0.7, 1.0)[i % 3], "top_p": 0.95} for i in range(32)]
        alone = [server.complete(**body)["choices"] for body in bodies]
        with concurrent.futures.ThreadPoolExecutor(32) as pool:
            together = list(pool.map(lambda body: server.complete(**body)["choices"], bodies))
        self.assertEqual(together, alone)
        _, _, text = server.request("GET", "/metrics")
        self.assertIn('moh_requests_total{path="/v1/completions",status="200"} 64', text.decode())
        buckets = [line for line in text.decode().splitlines() if line.startswith("moh_batch_size_bucket")]
        many = int(buckets[-1].split()[-1]) - int(buckets[0].split()[-1])  # steps with more than one text
        self.assertGreater(many, 0)

    def test_prompts_that_begin_alike_are_computed_once(self):
        beginning = support.text_of_words(80)[:300]
        bodies = [{"prompt": beginning + end, "max_tokens": 1, "temperature": 0, "logprobs": 1, "echo": True}
                  for end in ("the head", "the tail", "a router", "")]
        answers, samples = [], []
        for size in ("1MiB", "40kB", "0"):
            server = self.serve("--prefix-cache", size)
            answers.append([server.complete(**body)["choices"] for body in bodies])
            samples.append(server.metrics())
            together = server.complete(**{**bodies[0], "prompt": [body["prompt"] for body in bodies]})["choices"]
            self.assertEqual([{**choice, "index": 0} for choice in together], [choice for (choice,) in answers[-1]])
        self.assertEqual(answers[0], answers[2])
        self.assertEqual(answers[1], answers[2])
        tokens = sum(len(body["prompt"]) for body in bodies)
        self.assertEqual([sample["moh_prompt_tokens_total"] + sample["moh_prefix_cache_hit_tokens_total"] for sample in samples], [tokens] * 3)
        self.assertGreater(samples[0]["moh_prefix_cache_hit_tokens_total"], 3 * 280)
        self.assertGreater(samples[0]["moh_prefix_cache_bytes"], 0)
        self.assertLess(samples[1]["moh_prefix_cache_bytes"], 40000)
        self.assertEqual(samples[2]["moh_prefix_cache_hit_tokens_total"] + samples[2]["moh_prefix_cache_bytes"], 0)

    # The rest.

    def test_tokenizer_endpoints(self):
        server = self.serve()
        info = server.get("/tokenizer_info")
        self.assertEqual((info["vocab_size"], info["bos_token"]), (256, None))
        for text in ("the head", "東京", "", info["eos_token"]):
            answer = server.post("/tokenize", {"prompt": text, "add_special_tokens": False})
            self.assertEqual(answer["tokens"], list(text.encode()))
            self.assertEqual((answer["count"], answer["max_model_len"]), (len(text.encode()), POSITIONS))
            self.assertEqual(server.post("/detokenize", {"tokens": answer["tokens"]}), {"prompt": text})
        self.assertEqual(len(server.post("/tokenize", {"prompt": info["eos_token"]})["tokens"]), 1)

    def test_models_health_and_metrics(self):
        server = self.serve("--name", "small")
        listed = server.get("/v1/models")
        self.assertEqual([each["id"] for each in listed["data"]], ["small"])
        self.assertEqual(server.get("/v1/models/small"), listed["data"][0])
        self.assertEqual(server.get("/health"), {"status": "ok"})
        self.assertEqual(server.complete("a", model="small", max_tokens=3)["model"], "small")
        server.post("/v1/completions", {"prompt": "a", "model": "moh"}, status=404)
        samples = server.metrics()
        self.assertEqual((samples["moh_prompt_tokens_total"], samples["moh_generated_tokens_total"]), (1, 3))
        self.assertEqual((samples["moh_queued_texts"], samples["moh_running_texts"]), (0, 0))
        self.assertEqual(samples["moh_first_token_seconds_count"], 1)
        self.assertGreater(samples["process_resident_memory_bytes"], 1 << 20)
        self.assertEqual(server.request("HEAD", "/health")[::2], (200, b""))

    def test_a_hugging_face_folder_is_served_as_its_run_is(self):
        self.moh("convert", "--from", "run", "--to", "hf", "--format", "hf")
        text = self.text_of(self.serve(), "the head", max_tokens=20, temperature=0)
        self.assertEqual(self.text_of(self.serve(checkpoint="hf"), "the head", max_tokens=20, temperature=0), text)

    def test_a_vocabulary_with_special_tokens(self):
        self.write("text.txt", support.text_of_words(3000))
        self.train({**serve_support.MODEL, "data.tokenizer": str(support.TOKENIZERS / "gpt2.json"), "output.dir": "bpe"})
        server = self.serve(checkpoint="bpe")
        info = server.get("/tokenizer_info")
        (end,) = server.post("/tokenize", {"prompt": info["eos_token"], "add_special_tokens": False})["tokens"]
        ids = server.post("/tokenize", {"prompt": "the head token"})["tokens"]
        self.assertLess(len(ids), len("the head token"))
        self.assertEqual(server.post("/detokenize", {"tokens": [*ids, end]})["prompt"],
                         "the head token" + info["eos_token"])
        found = self.scores(server, "the head token", max_tokens=1, logprobs=1, echo=True)
        self.assertEqual("".join(found["tokens"][:-1]), "the head token")
        self.assertEqual(found["text_offset"][1], len(found["tokens"][0]))
        server.post("/detokenize", {"tokens": [700]}, status=400)

    def test_what_cannot_be_served_is_refused(self):
        server = self.serve()
        output = self.moh("serve", "--checkpoint", "run", "--port", server.address[1], code=support.CONFIG_ERROR)
        self.assert_says(output, "--host and --port", "Address already in use")
        self.moh("serve", "--checkpoint", "nowhere", code=support.INPUT_ERROR)
        for options in (("--port", 70000), ("--max-batch", 0), ("--max-connections", 0), ("--max-body", 0),
                        ("--max-batch", 2 ** 60), ("--prefix-cache", "much"), ("--prefix-cache", -1), ("--cache-tokens", -1), ("--max-queue", 0),
                        *((option, value) for option in ("--request-timeout", "--drain") for value in ("nan", "inf", -1))):
            self.moh("serve", "--checkpoint", "run", *options, code=support.CONFIG_ERROR)


if __name__ == "__main__":
    support.main()
