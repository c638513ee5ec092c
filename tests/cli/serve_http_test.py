"""moh serve and HTTP itself: what frames a request, and versions of the protocol (RFC 9112)."""

import json
import socket

import serve_support
import support

BODY = b'{"prompt":"a","max_tokens":1}'
GET = b"GET /health HTTP/1.1\r\nHost: a\r\n"
POST = b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
# What runs if the server takes the bytes behind a request for another one.
BEHIND = b"GET /v1/models/behind HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"


def post(headers, body=BODY):
    return POST + headers + b"\r\n\r\n" + body


def chunk(size):
    return CHUNKED + size + b"\r\n" + BODY + b"\r\n0\r\n\r\n"


REFUSED = (
    ("a plus before the length", post(b"Content-Length: +29"), 400),
    ("a letter behind it", post(b"Content-Length: 29a"), 400),
    ("a fraction", post(b"Content-Length: 29.0"), 400),
    ("two numbers", post(b"Content-Length: 29 29"), 400),
    ("a list of them", post(b"Content-Length: 29, 29"), 400),
    ("hexadecimal", post(b"Content-Length: 0x1d"), 400),
    ("a negative length", post(b"Content-Length: -1"), 400),
    ("an empty length", post(b"Content-Length:"), 400),
    ("a length beyond 64 bits", post(b"Content-Length: 18446744073709551645"), 400),
    ("two lengths", post(b"Content-Length: 29\r\nContent-Length: 29"), 400),
    ("a length and chunks", post(b"Content-Length: 5\r\nTransfer-Encoding: chunked", b"0\r\n\r\n"), 400),
    ("chunks and a length", post(b"Transfer-Encoding: chunked\r\nContent-Length: 5", b"0\r\n\r\n"), 400),
    ("a chunk of 0x1d", chunk(b"0x1d"), 400),
    ("a chunk of +1d", chunk(b"+1d"), 400),
    ("a chunk of  1d", chunk(b" 1d"), 400),
    ("a chunk without a size", chunk(b""), 400),
    ("chunks with a NUL", POST + b"Transfer-Encoding: chunked\0\r\n\r\n0\r\n\r\n", 400),
    ("gzip", post(b"Transfer-Encoding: gzip", b""), 501),
    ("gzip and chunks", post(b"Transfer-Encoding: gzip, chunked", b"0\r\n\r\n"), 501),
    ("chunks that are none", post(b"Transfer-Encoding: xchunked", b"0\r\n\r\n"), 501),
    ("no host", b"GET /health HTTP/1.1\r\n\r\n", 400),
    ("two hosts", GET + b"Host: b\r\n\r\n", 400),
    ("a space before the colon", GET + b"Content-Length : 0\r\n\r\n", 400),
    ("a line that goes on", GET + b"X: a\r\n b\r\n\r\n", 400),
    ("a control character", GET + b"X: a\x01b\r\n\r\n", 400),
    ("a NUL", GET + b"X: a\0b\r\n\r\n", 400),
    ("line feeds alone", b"GET /health HTTP/1.1\nHost: a\n\n", 400),
    ("a line without a colon", GET + b"X\r\n\r\n", 400),
    ("HTTP/2.0", b"GET /health HTTP/2.0\r\nHost: a\r\n\r\n", 400),
    ("TLS", b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400),
    ("a body beyond all limits", post(b"Content-Length: 999999999999", b""), 413),
)


class ServeHttp(support.MohTest):
    def setUp(self):
        super().setUp()
        self.train(serve_support.MODEL)
        self.server = serve_support.Server(self)

    def answer(self, data):
        """All that the server says to bytes until it closes the connection."""
        with socket.create_connection(self.server.address, timeout=support.TIMEOUT_SECONDS) as connection:
            connection.sendall(data)
            answer = b""
            while piece := connection.recv(65536):
                answer += piece
        return answer

    def test_what_another_reader_takes_otherwise_is_refused_and_nothing_behind_it_runs(self):
        for name, data, status in REFUSED:
            with self.subTest(name):
                answer = self.answer(data + BEHIND)
                head, _, body = answer.partition(b"\r\n\r\n")
                self.assertTrue(head.startswith(b"HTTP/1.1 %d " % status), answer[:300])
                self.assertIn(b"\r\nConnection: close", head)
                self.assertTrue(json.loads(body)["error"]["message"])  # and nothing after it
        self.assertNotIn("behind", self.server.output)
        self.assertEqual(self.server.complete("a", max_tokens=2)["usage"]["completion_tokens"], 2)

    def test_requests_on_one_connection_are_answered_one_by_one(self):
        requests = post(b"Content-Length: 29") + chunk(b"1D;a=b") + GET + b"\r\n" + BEHIND
        answer = self.answer(requests)
        self.assertEqual(answer.count(b"HTTP/1.1 200 "), 3)
        self.assertEqual(answer.count(b"HTTP/1.1 404 "), 1)
        self.assertEqual(answer.count(b'"text_completion"'), 2)

    def test_a_client_of_http_1_0_gets_no_chunks(self):
        body = b'{"prompt":"a","max_tokens":4,"stream":true,"temperature":0}'
        head, _, text = self.answer(b"POST /v1/completions HTTP/1.0\r\nContent-Type: application/json\r\n"
                                    b"Content-Length: %d\r\n\r\n" % len(body) + body).partition(b"\r\n\r\n")
        self.assertTrue(head.startswith(b"HTTP/1.1 200 "), head)
        self.assertNotIn(b"transfer-encoding", head.lower())
        self.assertIn(b"\r\nConnection: close", head)
        events = text.decode().split("\n\n")
        self.assertEqual(events[-2:], ["data: [DONE]", ""])
        for event in events[:-2]:
            self.assertEqual(json.loads(event.removeprefix("data: "))["object"], "text_completion")
        self.assertTrue(self.answer(b"GET /health HTTP/1.0\r\n\r\n").endswith(b'{"status":"ok"}'))
        kept = b"GET /health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
        self.assertEqual(self.answer(kept + b"GET /health HTTP/1.0\r\n\r\n").count(b"HTTP/1.1 200 "), 2)

    def test_an_address_may_be_absolute(self):
        body = b"Content-Length: 29\r\nConnection: close\r\n\r\n" + BODY
        for target in (b"http://a/v1/completions", b"HTTP://a:80/v1/completions?x=1", b"/v1/completions?x=1",
                       b"/v1/%63ompletions"):
            answer = self.answer(POST.replace(b"/v1/completions", target) + body)
            self.assertTrue(answer.startswith(b"HTTP/1.1 200 "), (target, answer))
        for target in (b"ftp://a/health", b"http:///health", b"health"):
            answer = self.answer(GET.replace(b"/health", target) + b"\r\n")
            self.assertTrue(answer.startswith(b"HTTP/1.1 400 "), (target, answer))

    def test_a_client_may_ask_before_it_sends_a_body(self):
        with socket.create_connection(self.server.address, timeout=support.TIMEOUT_SECONDS) as connection:
            connection.sendall(post(b"Expect: 100-continue\r\nContent-Length: 29", b""))
            self.assertEqual(connection.recv(100), b"HTTP/1.1 100 Continue\r\n\r\n")
            connection.sendall(BODY)
            self.assertTrue(connection.recv(100).startswith(b"HTTP/1.1 200 "))
        refused = self.answer(post(b"Expect: 100-continue\r\nContent-Length: 999999999999", b""))
        self.assertTrue(refused.startswith(b"HTTP/1.1 413 "), refused)

    def test_a_client_may_close_its_side(self):
        with socket.create_connection(self.server.address, timeout=support.TIMEOUT_SECONDS) as connection:
            connection.sendall(GET + b"\r\n")
            connection.shutdown(socket.SHUT_WR)
            answer = b""
            while piece := connection.recv(65536):
                answer += piece
        self.assertTrue(answer.startswith(b"HTTP/1.1 200 "), answer)

    def test_what_is_no_json_is_said_with_its_place(self):
        _, _, data = self.server.request("POST", "/v1/completions", b'{"prompt": "a",\n "n": nul}', serve_support.JSON_TYPE)
        message = json.loads(data)["error"]["message"]
        self.assertIn("body: not JSON: line 2, column ", message)
        self.assertNotIn("json.exception", message)

    def test_more_texts_than_a_batch_holds_are_generated(self):
        self.server.close()
        self.server = serve_support.Server(self, "--max-batch", 4)
        choices = self.server.complete("the head", n=33, seed=3, max_tokens=6)["choices"]
        self.assertEqual([choice["index"] for choice in choices], list(range(33)))
        for i in (0, 3, 4, 32):
            self.assertEqual(choices[i]["text"], self.server.complete("the head", seed=3 + i, max_tokens=6)["choices"][0]["text"])

    def test_each_request_has_a_line_in_the_log(self):
        self.server.complete("the head", max_tokens=5)
        self.server.request("GET", "/no/such\x1bpath".replace("\x1b", "%1b"))
        self.assertEqual(self.server.stop(), support.DONE)
        self.assertRegex(self.server.output, r"POST /v1/completions: 200, 8 \+ 5 tokens, \d+\.\d{3} s\n")
        self.assertRegex(self.server.output, r"GET /no/such\\x1bpath: 404, \d+\.\d{3} s\n")


if __name__ == "__main__":
    support.main()
