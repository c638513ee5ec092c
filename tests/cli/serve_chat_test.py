"""Chats with a served model, and the key that a server may ask for."""

import json

import serve_support
import support

CHATS = {**serve_support.MODEL, "data.message_template": '"{role}: {content} ##\\n"'}
HELLO = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello"}]
PROMPT = "system: Be brief. ##\nuser: hello ##\nassistant: "
PATH = "/v1/chat/completions"
FREE = ("id", "created")  # of an answer


class ServeChat(support.MohTest):
    def setUp(self):
        super().setUp()
        self.train(CHATS)
        self.server = serve_support.Server(self)

    def chat(self, messages=None, status=200, **parameters):
        return self.server.post(PATH, {"messages": HELLO if messages is None else messages, **parameters}, status)

    def chunks(self, **parameters):
        return self.server.events(HELLO, path=PATH, key="messages", **parameters)

    def test_an_answer_is_the_text_after_the_rendered_messages(self):
        self.assertEqual(self.server.post("/tokenize", {"messages": HELLO})["tokens"], list(PROMPT.encode()))
        wanted = {"max_tokens": 12, "seed": 7, "temperature": 0.9}
        answer = self.chat(**wanted, n=2)
        (text, other) = (choice["text"] for choice in self.server.complete(PROMPT, **wanted, n=2, stop=" ##")["choices"])
        self.assertRegex(answer["id"], "^chatcmpl-[0-9a-f]{16}$")
        self.assertEqual({name: value for name, value in answer.items() if name not in FREE}, {
            "object": "chat.completion", "model": "moh",
            "choices": [{"index": i, "message": {"role": "assistant", "content": content}, "logprobs": None, "finish_reason": "length"}
                        for i, content in enumerate((text, other))],
            "usage": {"prompt_tokens": len(PROMPT), "completion_tokens": 24, "total_tokens": len(PROMPT) + 24}})

    def test_a_stream_has_the_same_text_in_chunks(self):
        wanted = {"max_completion_tokens": 20, "seed": 3, "n": 2}
        whole = self.chat(**wanted)
        chunks = self.chunks(**wanted, stream_options={"include_usage": True})
        self.assertEqual({chunk["object"] for chunk in chunks}, {"chat.completion.chunk"})
        self.assertEqual(len({chunk["id"] for chunk in chunks}), 1)
        last = chunks.pop()
        self.assertEqual((last["choices"], last["usage"]), ([], whole["usage"]))
        for index in range(2):
            parts = [choice for chunk in chunks for choice in chunk["choices"] if choice["index"] == index]
            self.assertEqual([part["delta"].get("role") for part in parts], ["assistant"] + [None] * (len(parts) - 1))
            self.assertEqual("".join(part["delta"].get("content", "") for part in parts), whole["choices"][index]["message"]["content"])
            self.assertEqual([part["finish_reason"] for part in parts], [None] * (len(parts) - 1) + ["length"])

    def test_logprobs_have_the_form_of_chats(self):
        wanted = {"max_tokens": 6, "temperature": 0}
        scores = self.server.complete(PROMPT, **wanted, logprobs=3)["choices"][0]["logprobs"]
        content = self.chat(**wanted, logprobs=True, top_logprobs=3)["choices"][0]["logprobs"]["content"]
        self.assertEqual([token["token"] for token in content], scores["tokens"])
        self.assertEqual([token["logprob"] for token in content], scores["token_logprobs"])
        self.assertEqual([len(token["top_logprobs"]) for token in content], [3] * 6)
        self.assertEqual(content[0]["top_logprobs"][0], {name: content[0][name] for name in ("token", "logprob", "bytes")})
        self.assertEqual(bytes(byte for token in content for byte in token["bytes"]).decode(errors="replace"),
                         self.chat(**wanted)["choices"][0]["message"]["content"])
        self.assertEqual(self.chat(**wanted, logprobs=True)["choices"][0]["logprobs"]["content"][0]["top_logprobs"], [])
        streamed = [token for chunk in self.chunks(**wanted, logprobs=True, top_logprobs=3) for choice in chunk["choices"]
                    for token in choice["logprobs"]["content"]]
        self.assertEqual(streamed, content)

    def test_stop_texts_and_the_rest_of_the_positions_bound_an_answer(self):
        text = self.chat(temperature=0, max_tokens=30)["choices"][0]["message"]["content"]
        (choice,) = self.chat(temperature=0, max_tokens=30, stop=[text[5:8]])["choices"]
        self.assertEqual((choice["message"]["content"], choice["finish_reason"]), (text[:text.index(text[5:8])], "stop"))
        usage = self.chat(seed=1)["usage"]
        self.assertLessEqual(usage["total_tokens"], serve_support.POSITIONS)

    def test_what_a_chat_cannot_be_is_refused(self):
        for parameters, name in (({"tools": [{"type": "function"}]}, "tools"), ({"messages": []}, "messages"),
                                 ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
                                 ({"messages": [{"role": "user", "content": "a" * 600}]}, "messages"),
                                 ({"messages": [{"role": "user", "content": "\0"}]}, "messages"), ({"model": "other"}, "model")):
            body = {"messages": HELLO, **parameters}
            error = self.server.post(PATH, body, 404 if name == "model" else 400)["error"]
            self.assertEqual(error["param"], name, error)

    def test_a_model_without_a_template_says_what_to_do(self):
        self.train({**serve_support.MODEL, "output.dir": "plain"})
        self.server = serve_support.Server(self, checkpoint="plain")
        self.assertIn("no chats: messages: expected a model with a chat template, found none", self.server.output)
        self.assertIn("set data.message_template", self.chat(status=400)["error"]["message"])
        self.server = serve_support.Server(self, 'data.message_template="{role}: {content} ##\\n"', checkpoint="plain")
        self.assertEqual(self.server.post("/tokenize", {"messages": HELLO})["count"], len(PROMPT))

    def test_the_template_beside_a_tokenizer_counts(self):
        self.write("tok/tokenizer.json", (serve_support.SOURCE / "tests/train/tokenizers/data/llama3.json").read_bytes())
        self.write("tok/chat_template.jinja", "{% for m in messages %}{{ m.role | upper }} {{ m.content }}<|eot_id|>{% endfor %}"
                                              "{% if add_generation_prompt %}A {% endif %}")
        self.train({**CHATS, "data.tokenizer": "tok/tokenizer.json", "output.dir": "templated"})
        self.server = serve_support.Server(self, checkpoint="templated")
        tokens = self.server.post("/tokenize", {"messages": HELLO + [{"role": "user", "content": "<|eot_id|>"}]})["tokens"]
        self.assertEqual(self.server.post("/detokenize", {"tokens": tokens})["prompt"],
                         "SYSTEM Be brief.<|eot_id|>USER hello<|eot_id|>USER <|eot_id|><|eot_id|>A ")
        end = self.server.post("/tokenize", {"prompt": "<|eot_id|>", "add_special_tokens": False})["tokens"]
        self.assertEqual((len(end), tokens.count(end[0])), (1, 3))
        self.assertEqual(self.chat(max_tokens=2)["object"], "chat.completion")


class ServeKey(support.MohTest):
    def setUp(self):
        super().setUp()
        self.train(CHATS)

    def status(self, server, path, authorization=None, body=None):
        headers = {**({} if authorization is None else {"Authorization": authorization}), "Content-Type": "application/json"}
        status, found, data = server.request("GET" if body is None else "POST", path, body, headers)
        if status == 401:
            self.assertEqual(found["WWW-Authenticate"], "Bearer")
            self.assertEqual(json.loads(data)["error"], {
                "message": "expected the header 'Authorization: Bearer KEY' with the server's API key",
                "type": "invalid_request_error", "param": None, "code": "invalid_api_key"})
        return status

    def check(self, server):
        for path, body in (("/v1/models", None), ("/metrics", None), ("/no/such/path", None), (PATH, {"messages": HELLO, "max_tokens": 1}),
                           ("/v1/completions", {"prompt": "a", "max_tokens": 1}), ("/tokenize", {"prompt": "a"})):
            for wrong in (None, "", "Bearer ", "Bearer kez", "Bearer key2", "Basic key", "key"):
                self.assertEqual(self.status(server, path, wrong, body), 401, (path, wrong))
            self.assertEqual(self.status(server, path, "Bearer key", body), 404 if "such" in path else 200, path)
        self.assertEqual(self.status(server, "/health"), 200)
        self.assertNotIn("Bearer", server.output)

    def test_a_key_is_asked_for(self):
        self.check(serve_support.Server(self, "--api-key", "key"))
        self.check(serve_support.Server(self, env={"MOH_API_KEY": "key"}))
        self.assert_says(self.moh("serve", "--checkpoint", "run", "--api-key", "a b", code=support.CONFIG_ERROR), "--api-key: expected printable ASCII")


if __name__ == "__main__":
    support.main()
