"""moh serve under abuse, overload and signals (fault D-40 of docs/benchmarks/reliability.md)."""

import concurrent.futures
import http.client
import json
import resource
import signal
import socket
import time

import serve_support
import support

from serve_support import JSON_TYPE, POSITIONS, serve_load


class ServeLimits(support.MohTest):
    def setUp(self):
        super().setUp()
        self.train(serve_support.MODEL)

    def serve(self, *options, **named):
        return serve_support.Server(self, *options, **named)

    def assert_serves(self, server):
        self.assertEqual(server.complete("the head", max_tokens=3)["usage"]["completion_tokens"], 3)

    def raw(self, server, data, timeout=support.TIMEOUT_SECONDS):
        """What the server answers to bytes, until it closes the connection."""
        with socket.create_connection(server.address, timeout=timeout) as connection:
            try:
                connection.sendall(data)
            except (BrokenPipeError, ConnectionResetError):
                pass  # the answer may have come before everything was sent
            answer = b""
            while piece := connection.recv(65536):
                answer += piece
        return answer

    def assert_refused(self, answer, status):
        head, _, body = answer.partition(b"\r\n\r\n")
        self.assertTrue(head.startswith(b"HTTP/1.1 %d " % status), answer[:300])
        self.assertTrue(json.loads(body)["error"]["message"], answer)

    # Requests that are wrong.

    def test_each_kind_of_bad_request_is_refused_with_its_reason(self):
        server = self.serve()
        kinds = serve_load.bad_requests(POSITIONS)
        self.assertGreaterEqual(len(kinds), 20)
        for name, method, path, body, headers, expected in kinds:
            with self.subTest(name):
                status, _, data = server.request(method, path, body, headers)
                self.assertEqual(status, expected, data)
                error = json.loads(data)["error"]
                self.assertEqual(error["type"], "invalid_request_error")
                self.assertGreater(len(error["message"]), 10)
        self.assert_serves(server)

    def test_a_refusal_names_parameter_expectation_and_what_was_found(self):
        server = self.serve()
        for parameters, param, message in (
            ({"temperature": -1}, "temperature", "temperature: expected 0 or more, found -1.000000"),
            ({"top_p": 0}, "top_p", "top_p: expected above 0, up to 1, found 0.000000"),
            ({"top_k": -2}, "top_k", "top_k: expected an integer from -1 to 1073741824, found -2"),
            ({"n": 0}, "n", "n: expected an integer from 1 to 128, found 0"),
            ({"n": 129}, "n", "n: expected an integer from 1 to 128, found 129"),
            ({"logprobs": 21}, "logprobs", "logprobs: expected an integer from 0 to 20, found 21"),
            ({"logprobs": True}, "logprobs", "found true"),
            ({"logprobs": 20, "n": 100, "max_tokens": POSITIONS - 1}, "logprobs", "found 1073100"),
            ({"max_tokens": 1.5}, "max_tokens", "found 1.5"),
            ({"max_tokens": 2 ** 70}, "max_tokens", "max_tokens: expected an integer"),
            ({"max_tokens": 0}, "max_tokens", "max_tokens: expected 1 or more without echo, found 0"),
            ({"max_tokens": POSITIONS}, "max_tokens", f"expected at most {POSITIONS - 1} after a prompt of 1 tokens"),
            ({"seed": "7"}, "seed", 'found "7"'),
            ({"stop": ""}, "stop", 'found ""'),
            ({"stop": ["a"] * 257}, "stop", "stop: expected at most 256 texts, found a list of 257"),
            ({"echo": 1}, "echo", "echo: expected true or false, found 1"),
            ({"best_of": 3}, "best_of", "best_of: expected n (1), found 3"),
            ({"presence_penalty": 0.5}, "presence_penalty", "this server has no penalties"),
            ({"logit_bias": {"5": 1}}, "logit_bias", "found an object"),
            ({"stream_options": {"include_usage": True}}, "stream_options", "expected none without stream"),
            ({"stream": True, "stream_options": {"other": True}}, "stream_options", "include_usage"),
            ({"prompt": "a\0b"}, "prompt", "no NUL byte"),
            ({"prompt": [256]}, "prompt", "prompt: expected token ids from 0 to 255, found 256"),
            ({"prompt": [[1], [True]]}, "prompt", "found true"),
            ({"prompt": [1] * (POSITIONS + 1)}, "prompt", f"expected 1 to {POSITIONS} tokens, found {POSITIONS + 1}"),
            ({"prompt": ["a"] * 513}, "prompt", "at most 512 texts (prompts times n), found 513"),
        ):
            with self.subTest(parameters):
                error = server.post("/v1/completions", {"prompt": [1], **parameters}, status=400)["error"]
                self.assertEqual(error["param"], param)
                self.assertIn(message, error["message"])
        # null is as if it were not there, and what asks for nothing is accepted.
        server.post("/v1/completions", {"prompt": "a", "max_tokens": None, "suffix": None, "stop": None, "logprobs": None,
                                        "user": "me", "logit_bias": {}, "presence_penalty": 0, "frequency_penalty": 0.0,
                                        "best_of": 1, "top_k": -1, "seed": -5})

    def test_many_bad_requests_leave_memory_as_it_was(self):
        server = self.serve()
        serve_load.send_bad(server.url, 420, clients=8)
        before = server.metrics()["process_resident_memory_bytes"]
        statuses, wrong = serve_load.send_bad(server.url, 1050, clients=8)
        self.assertEqual(wrong, [])
        self.assertEqual(sum(statuses.values()), 1050)
        grown = server.metrics()["process_resident_memory_bytes"] - before
        self.assertLess(grown, 8 << 20)
        self.assert_serves(server)

    def test_tokenizer_requests_are_checked(self):
        server = self.serve()
        for path, body in (("/tokenize", {}), ("/tokenize", {"prompt": ["a"]}), ("/tokenize", {"prompt": "a\0"}),
                           ("/tokenize", {"prompt": "a", "add_special_tokens": 1}), ("/detokenize", {"tokens": "a"}),
                           ("/detokenize", {"tokens": [256]}), ("/detokenize", {"tokens": [-1]}),
                           ("/detokenize", {"tokens": [1], "more": 1})):
            self.assertTrue(server.post(path, body, status=400)["error"]["message"])
        self.assertEqual(server.request("GET", "/tokenize")[0], 405)
        status, headers, _ = server.request("POST", "/health", {})
        self.assertEqual((status, headers["Allow"]), (405, "GET, HEAD"))

    # Bytes that are wrong.

    def test_what_is_no_http_is_refused(self):
        server = self.serve()
        for data, status in ((b"nonsense\r\n\r\n", 400), (b"GET /health\r\n\r\n", 400),
                             (b"BREW /health HTTP/1.1\r\n\r\n", 400), (b"TRACE /health HTTP/1.1\r\n\r\n", 400),
                             (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", 414)):
            # The connection ends, as nobody knows where the next request would begin.
            self.assert_refused(self.raw(server, data), status)
        for endless in (b"a" * 200000, b"GET /health HTTP/1.1\r\n" + b"Header: value\r\n" * 20000):
            answer = self.raw(server, endless)
            self.assertRegex(answer.split(b"\r\n")[0], rb"^HTTP/1.1 4(31|00|14) ")
        self.assert_serves(server)

    def test_long_headers_and_paths_take_no_stack(self):
        small = (1 << 20, resource.getrlimit(resource.RLIMIT_STACK)[1])
        server = self.serve(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_STACK, small))
        ranges = {"Range": "bytes=" + ",".join(["1-2"] * 2000)}
        self.assertEqual(server.request("GET", "/health", None, ranges)[::2], (200, b'{"status":"ok"}'))
        self.assertEqual(server.request("GET", "/" + "a" * 8000)[0], 404)
        self.assert_serves(server)

    def test_a_body_beyond_the_limit_is_refused(self):
        server = self.serve("--max-body", 1)
        post = b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
        body = b"[" + b" " * (3 << 20)
        self.assert_refused(self.raw(server, post + b"Content-Length: %d\r\n\r\n" % len(body) + body), 413)
        chunk = b"%x\r\n" % (1 << 16) + b" " * (1 << 16) + b"\r\n"
        self.assert_refused(self.raw(server, post + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 40), 413)
        self.assert_refused(self.raw(server, post + b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}"), 415)
        # A gigabyte is not waited for: the connection ends after four times the limit.
        with socket.create_connection(server.address, timeout=support.TIMEOUT_SECONDS) as connection:
            connection.sendall(post + b"Content-Length: 1000000000\r\n\r\n")
            with self.assertRaises((BrokenPipeError, ConnectionResetError)):
                for _ in range(1000):
                    connection.sendall(b" " * 1000000)
        whole = json.dumps({"prompt": "a", "max_tokens": 1, "user": "u" * ((1 << 20) - 100)}).encode()
        self.assertLessEqual(len(whole), 1 << 20)
        self.assertEqual(server.request("POST", "/v1/completions", whole, JSON_TYPE)[0], 200)

    def test_a_body_in_chunks_is_read(self):
        server = self.serve()
        body = b'{"prompt": "a", "max_tokens": 2}'
        chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:5], body[5:])) + b"0\r\n\r\n"
        answer = self.raw(server, b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
                                  b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n" + chunks)
        self.assertTrue(answer.startswith(b"HTTP/1.1 200 "), answer)

    # Clients that are slow, many, or gone.

    def test_slow_clients_are_sent_away(self):
        server = self.serve("--request-timeout", 0.5)
        post = b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
        for data in (b"GET /hea", b"GET /health HTTP/1.1\r\nHost:", post):
            begin = time.monotonic()
            self.assert_refused(self.raw(server, data), 408)
            self.assertGreater(time.monotonic() - begin, 0.4)
        # A byte now and then does not buy more time.
        with socket.create_connection(server.address, timeout=support.TIMEOUT_SECONDS) as connection:
            begin = time.monotonic()
            try:
                for byte in post * 4:
                    connection.sendall(bytes([byte]))
                    time.sleep(0.05)
            except (BrokenPipeError, ConnectionResetError):
                pass
            self.assertLess(time.monotonic() - begin, 10)
        self.assert_serves(server)

    def test_connections_beyond_the_limit_are_refused_and_those_within_served(self):
        server = self.serve("--max-connections", 3)
        idle = [socket.create_connection(server.address) for _ in range(3)]
        self.addCleanup(lambda: [connection.close() for connection in idle])
        deadline = time.monotonic() + support.TIMEOUT_SECONDS
        answer = b""
        while b" 503 " not in answer and time.monotonic() < deadline:  # until the three are counted
            answer = self.raw(server, b"GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        self.assert_refused(answer, 503)
        self.assertIn(b"Retry-After: 1\r\n", answer)
        for connection in idle:
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            self.assertTrue(connection.recv(64).startswith(b"HTTP/1.1 200 "))
            connection.close()
        while server.request("GET", "/health")[0] != 200:  # until they are gone
            self.assertLess(time.monotonic(), deadline)
        self.assert_serves(server)

    def test_a_hundred_clients_at_once_are_served(self):
        server = self.serve()
        with concurrent.futures.ThreadPoolExecutor(100) as pool:
            texts = list(pool.map(lambda i: server.complete("the head", seed=i % 5, max_tokens=6)["choices"][0]["text"],
                                  range(200)))
        self.assertEqual(len(set(texts)), len(set(texts[:5])))
        self.assertEqual(texts[5:], texts[:-5])

    def test_a_full_queue_refuses_with_a_time_to_come_again(self):
        server = self.serve("--max-queue", 2, "--max-batch", 1)
        waiting = []
        with concurrent.futures.ThreadPoolExecutor(40) as pool:
            for i in range(40):
                body = {"prompt": "the head", "max_tokens": 300, "temperature": 0}
                waiting.append(pool.submit(server.request, "POST", "/v1/completions", body))
            answers = [each.result() for each in waiting]
        statuses = [status for status, _, _ in answers]
        self.assertEqual(set(statuses), {200, 503})
        for status, headers, data in answers:
            if status == 503:
                self.assertEqual(headers["Retry-After"], "1")
                self.assertIn("the queue is full: 2 texts wait, at most 2 may", json.loads(data)["error"]["message"])
            else:
                self.assertEqual(json.loads(data)["usage"]["completion_tokens"], 300)
        self.assert_serves(server)

    def test_nobody_computes_for_a_client_that_is_gone(self):
        server = self.serve()
        for stream in (False, True):
            connection = http.client.HTTPConnection(*server.address)
            body = json.dumps({"prompt": "the", "n": 32, "max_tokens": 500, "temperature": 0, "stream": stream})
            connection.request("POST", "/v1/completions", body, JSON_TYPE)
            server.wait_for("moh_running_texts", 32)
            before = server.metrics()["moh_generated_tokens_total"]
            connection.close()
            server.wait_for("moh_running_texts", 0)
            generated = server.metrics()["moh_generated_tokens_total"] - before
            self.assertLess(generated, 32 * 490)
        self.assert_serves(server)

    def test_caches_are_bounded(self):
        server = self.serve("--cache-tokens", 100)
        error = server.post("/v1/completions", {"prompt": "a", "max_tokens": 200}, status=400)["error"]
        self.assertIn("caches of 100 tokens", error["message"])
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda i: server.complete("a", max_tokens=60, temperature=0), range(8)))
        self.assertEqual({answer["usage"]["completion_tokens"] for answer in answers}, {60})
        _, _, text = server.request("GET", "/metrics")
        self.assertIn('moh_batch_size_bucket{le="1"} 472\n', text.decode())  # one after the other

    # Signals.

    def test_sigterm_lets_requests_end(self):
        server = self.serve()
        connection = http.client.HTTPConnection(*server.address)
        self.addCleanup(connection.close)
        body = {"prompt": "the", "max_tokens": 500, "n": 8, "stream": True, "temperature": 0}
        connection.request("POST", "/v1/completions", json.dumps(body), JSON_TYPE)
        response = connection.getresponse()
        first = response.readline()
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            whole = pool.submit(server.complete, "a gate", max_tokens=POSITIONS - 10, temperature=0)
            server.wait_for("moh_running_texts", 9)
            server.process.send_signal(signal.SIGTERM)
            while "finishing the requests" not in server.output:
                time.sleep(0.01)
            status, headers, data = server.request("POST", "/v1/completions", {"prompt": "a"})
            self.assertEqual((status, headers["Connection"]), (503, "close"))
            self.assertIn("the server is stopping", json.loads(data)["error"]["message"])
            rest = response.read()
            self.assertTrue((first + rest).endswith(b"data: [DONE]\n\n"))
            self.assertEqual((first + rest).count(b'"finish_reason":"length"'), 8)
            self.assertEqual(whole.result()["usage"]["completion_tokens"], POSITIONS - 10)
        self.assertEqual(server.process.wait(support.TIMEOUT_SECONDS), support.DONE)
        server.reader.join()
        self.assert_says(server.output, "received SIGTERM", "all requests are answered")

    def test_requests_that_do_not_end_in_time_are_told(self):
        server = self.serve("--drain", 0)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(server.request, "POST", "/v1/completions",
                                  {"prompt": "the", "max_tokens": POSITIONS - 10, "n": 32, "temperature": 0})
            server.wait_for("moh_running_texts", 32)
            self.assertEqual(server.stop(), support.DONE)
            status, _, data = waiting.result()
        self.assertEqual(status, 503)
        self.assertIn("the server is stopping", json.loads(data)["error"]["message"])
        self.assert_says(server.output, "still running after --drain")

    def test_an_idle_server_stops_at_once(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            server = self.serve()
            kept = serve_load.Client(server.url)  # a connection that is kept does not hold the server
            kept.request("GET", "/health")
            begin = time.monotonic()
            self.assertEqual(server.stop(number), support.DONE)
            self.assertLess(time.monotonic() - begin, 10)
            kept.close()


if __name__ == "__main__":
    support.main()
