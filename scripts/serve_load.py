#!/usr/bin/env python3
"""Puts load on a running `moh serve`, and prints what came of it.

  scripts/serve_load.py http://127.0.0.1:8000                      # 32 clients at once: requests and tokens/s, latencies
  scripts/serve_load.py http://127.0.0.1:8000 --clients 8 --stream
  scripts/serve_load.py http://127.0.0.1:8000 --bad 10000          # bad requests of 20 kinds: their statuses, and the memory
"""

import argparse
import collections
import concurrent.futures
import http.client
import json
import random
import re
import sys
import threading
import time
import urllib.parse

TIMEOUT_SECONDS = 600


def completion(**changes):
    """The body of a request for a completion; parameters that are None are left out."""
    body = {"prompt": "the head", "max_tokens": 4, **changes}
    return json.dumps({name: value for name, value in body.items() if value is not None})


JSON_TYPE = {"Content-Type": "application/json"}


def bad_requests(positions):
    """The kinds of bad requests: (name, method, path, body, headers, status that it has to get), for a model with so many
    positions."""
    post, path = "POST", "/v1/completions"
    return [
        ("no JSON", post, path, "{", JSON_TYPE, 400),
        ("JSON that is no object", post, path, "[1]", JSON_TYPE, 400),
        ("bytes that are no UTF-8", post, path, b'{"prompt": "\xff\xfe"}', JSON_TYPE, 400),
        ("deep nesting", post, path, '{"prompt": ' + "[" * 100000 + "]" * 100000 + "}", JSON_TYPE, 400),
        ("a key twice", post, path, '{"prompt": "a", "prompt": "b"}', JSON_TYPE, 400),
        ("no prompt", post, path, completion(prompt=None), JSON_TYPE, 400),
        ("an empty list", post, path, completion(prompt=[]), JSON_TYPE, 400),
        ("an empty prompt", post, path, completion(prompt=[[]]), JSON_TYPE, 400),
        ("a token beyond the vocabulary", post, path, completion(prompt=[1, 2 ** 31 - 1]), JSON_TYPE, 400),
        ("a negative token", post, path, completion(prompt=[-1]), JSON_TYPE, 400),
        ("prompts of two types", post, path, completion(prompt=["a", [1]]), JSON_TYPE, 400),
        ("a prompt beyond the positions", post, path, completion(prompt=[1] * (positions + 1)), JSON_TYPE, 400),
        ("tokens beyond the positions", post, path, completion(max_tokens=positions), JSON_TYPE, 400),
        ("a number out of range", post, path, completion(temperature=-1), JSON_TYPE, 400),
        ("a number that JSON cannot hold", post, path, '{"prompt": "a", "temperature": 1e999}', JSON_TYPE, 400),
        ("a suffix", post, path, completion(suffix="end"), JSON_TYPE, 400),
        ("an unknown parameter", post, path, completion(beams=4), JSON_TYPE, 400),
        ("another model", post, path, completion(model="another"), JSON_TYPE, 404),
        ("another type", post, path, completion(), {"Content-Type": "text/plain"}, 415),
        ("another method", "GET", path, None, {}, 405),
        ("another path", post, "/v1/nothing", completion(), JSON_TYPE, 404),
    ]


class Client:
    """A connection that is kept, as clients do."""

    def __init__(self, url):
        parts = urllib.parse.urlsplit(url)
        self.address = (parts.hostname, parts.port)
        self.connection = None

    def send(self, method, path, body=None, headers=None):
        """The open response; the connection is made anew where the server has closed it."""
        for attempt in (0, 1):
            if self.connection is None:
                self.connection = http.client.HTTPConnection(*self.address, timeout=TIMEOUT_SECONDS)
            try:
                self.connection.request(method, path, body, headers or {})
                return self.connection.getresponse()
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                self.close()
                if attempt == 1:
                    raise

    def request(self, method, path, body=None, headers=None):
        response = self.send(method, path, body, headers)
        data = response.read()
        if response.will_close:
            self.close()
        return response.status, data

    def close(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None


def get(url, path):
    client = Client(url)
    status, data = client.request("GET", path)
    client.close()
    if status != 200:
        raise RuntimeError(f"GET {path}: status {status}")
    return data


def samples_of(data):
    """The samples without labels in the answer to GET /metrics."""
    return {name: float(value) for name, value in re.findall(r"^(\w+) (\S+)$", data.decode(), re.MULTILINE)}


def metrics(url):
    return samples_of(get(url, "/metrics"))


def positions_of(url):
    return json.loads(get(url, "/v1/models"))["data"][0]["max_model_len"]


def send_bad(url, count, clients):
    """Sends `count` bad requests; returns the numbers of (kind, status), and what was wrong."""
    kinds = bad_requests(positions_of(url))
    statuses, wrong, lock = collections.Counter(), [], threading.Lock()

    def one(worker):
        client = Client(url)
        for i in range(worker, count, clients):
            name, method, path, body, headers, expected = kinds[i % len(kinds)]
            status, data = client.request(method, path, body, headers)
            with lock:
                statuses[name, status] += 1
                if status != expected or not json.loads(data)["error"]["message"]:
                    wrong.append((name, status, data[:200]))
        client.close()

    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        list(pool.map(one, range(clients)))
    return statuses, wrong


def report_bad(url, count, clients):
    send_bad(url, count // 10, clients)  # what is allocated once
    before = metrics(url)["process_resident_memory_bytes"]
    begin = time.monotonic()
    statuses, wrong = send_bad(url, count, clients)
    seconds = time.monotonic() - begin
    after = metrics(url)["process_resident_memory_bytes"]
    for (name, status), number in sorted(statuses.items()):
        print(f"{number:6}  {status}  {name}")
    print(f"{sum(statuses.values())} bad requests of {len({name for name, _ in statuses})} kinds in {seconds:.1f} s; "
          f"resident memory {before / 2**20:.1f} MiB before, {after / 2**20:.1f} MiB after")
    for what in wrong[:5]:
        print("WRONG:", *what)
    return 1 if wrong else 0


def one_request(client, prompt, arguments, seed):
    """Sends one request; returns its seconds, those until the first token, and the number of tokens."""
    body = {"prompt": prompt, "max_tokens": arguments.tokens, "temperature": 1, "seed": seed, "stream": arguments.stream}
    begin = time.monotonic()
    response = client.send("POST", "/v1/completions", json.dumps(body), JSON_TYPE)
    if response.status != 200:
        raise RuntimeError(f"status {response.status}: {response.read()[:200]}")
    if not arguments.stream:
        answer = json.loads(response.read())
        return time.monotonic() - begin, None, answer["usage"]["completion_tokens"]
    first, tokens = None, 0
    for line in response:
        if line.startswith(b"data: {"):
            first = first or time.monotonic() - begin
            tokens += 1
    return time.monotonic() - begin, first, tokens


def quantile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def report_load(url, arguments):
    draw = random.Random(1)
    words = "the head token mixture of and router keeps few gate loss that each needs".split()
    prompts = [" ".join(draw.choice(words) for _ in range(arguments.prompt_words)) for _ in range(arguments.requests)]

    def worker(number):
        client, results = Client(url), []
        for i in range(number, arguments.requests, arguments.clients):
            results.append(one_request(client, prompts[i], arguments, i))
        client.close()
        return results

    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(arguments.clients) as pool:
        results = [result for part in pool.map(worker, range(arguments.clients)) for result in part]
    seconds = time.monotonic() - begin
    latencies, tokens = [result[0] for result in results], sum(result[2] for result in results)
    print(f"{len(results)} of {arguments.requests} requests answered, {arguments.clients} clients, "
          f"up to {arguments.tokens} tokens each: {seconds:.1f} s, {len(results) / seconds:.1f} requests/s, "
          f"{tokens / seconds:.0f} tokens/s")
    print(f"latency: median {quantile(latencies, 0.5):.3f} s, p90 {quantile(latencies, 0.9):.3f} s, "
          f"p99 {quantile(latencies, 0.99):.3f} s")
    firsts = [result[1] for result in results if result[1] is not None]
    if firsts:
        print(f"first token: median {quantile(firsts, 0.5):.3f} s, p99 {quantile(firsts, 0.99):.3f} s")
    return 0 if len(results) == arguments.requests else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", help="of the server: http://127.0.0.1:8000")
    parser.add_argument("--clients", type=int, default=32, help="at once")
    parser.add_argument("--requests", type=int, default=320)
    parser.add_argument("--tokens", type=int, default=64, help="max_tokens of a request")
    parser.add_argument("--prompt-words", type=int, default=20)
    parser.add_argument("--stream", action="store_true", help="read the answers as streams; measures the first token, too")
    parser.add_argument("--bad", type=int, metavar="N", help="send N bad requests instead")
    arguments = parser.parse_args()
    if arguments.bad:
        sys.exit(report_bad(arguments.url, arguments.bad, arguments.clients))
    sys.exit(report_load(arguments.url, arguments))


if __name__ == "__main__":
    main()
