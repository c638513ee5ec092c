"""Running commands that listen, `moh serve` above all, for the tests that talk to one."""

import http.client
import json
import os
import pathlib
import re
import signal
import sys
import threading
import time
import urllib.parse

import support

SOURCE = pathlib.Path(os.environ.get("MOH_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
sys.path.append(str(SOURCE / "scripts"))
import serve_load  # noqa: E402

JSON_TYPE = serve_load.JSON_TYPE

# A model whose texts can be longer than those that it is trained on.
POSITIONS = 512
MODEL = {"train.steps": 30, "optim.learning_rate": 0.01, "eval.every": 0, "checkpoint.every": 0,
         "model.max_positions": POSITIONS}


class HttpProcess:
    """A command that listens, on a port of its own choice; ended with the test at the latest."""

    def __init__(self, test, command, *options, **popen):
        self.process = support.start(test.folder, command, *options, "--port", 0, stdout=support.subprocess.PIPE, **popen)
        test.addCleanup(self.close)
        self.output = ""
        while not (found := re.search(r" at (http://\S+)", self.output)):
            line = self.process.stdout.readline()
            if not line:
                raise AssertionError(f"moh {command} ended:\n{self.output}")
            self.output += line.decode(errors="replace")
        self.url = found.group(1)
        self.address = (urllib.parse.urlsplit(self.url).hostname, urllib.parse.urlsplit(self.url).port)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.output += line.decode(errors="replace")

    def request(self, method, path, body=None, headers=None):
        """Status, headers and body of an answer on a connection of its own."""
        connection = http.client.HTTPConnection(*self.address, timeout=support.TIMEOUT_SECONDS)
        try:
            data = json.dumps(body) if isinstance(body, dict) else body
            connection.request(method, path, data, JSON_TYPE if headers is None and body is not None else headers or {})
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        finally:
            connection.close()

    def get(self, path):
        status, _, data = self.request("GET", path)
        assert status == 200, (path, status, data)
        return json.loads(data)

    def stop(self, number=signal.SIGTERM):
        """The exit code after a signal."""
        self.process.send_signal(number)
        code = self.process.wait(support.TIMEOUT_SECONDS)
        self.reader.join(support.TIMEOUT_SECONDS)
        return code

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if hasattr(self, "reader"):
            self.reader.join(support.TIMEOUT_SECONDS)
        self.process.stdout.close()


class Server(HttpProcess):
    """A running `moh serve`."""

    def __init__(self, test, *options, checkpoint="run", **popen):
        super().__init__(test, "serve", "--checkpoint", checkpoint, "--threads", 2, *options, **popen)

    def post(self, path, body, status=200):
        found, _, data = self.request("POST", path, body)
        assert found == status, (path, found, data)
        return json.loads(data)

    def complete(self, prompt, **parameters):
        return self.post("/v1/completions", {"prompt": prompt, **parameters})

    def events(self, prompt, path="/v1/completions", key="prompt", **parameters):
        """The data of a stream's events."""
        connection = http.client.HTTPConnection(*self.address, timeout=support.TIMEOUT_SECONDS)
        try:
            body = json.dumps({key: prompt, "stream": True, **parameters})
            connection.request("POST", path, body, JSON_TYPE)
            response = connection.getresponse()
            assert response.status == 200, response.read()
            assert response.headers["Content-Type"] == "text/event-stream"
            text = response.read().decode()
        finally:
            connection.close()
        events = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
        assert events[-1] == "[DONE]", text
        return [json.loads(event) for event in events[:-1]]

    def request_until_served(self, *arguments):
        """Like request(), for a server that may refuse a client while it holds all the connections it may, by status 503
        or by closing the connection: such a client comes again."""
        deadline = time.monotonic() + support.TIMEOUT_SECONDS
        while True:
            try:
                status, headers, data = self.request(*arguments)
            except (ConnectionResetError, BrokenPipeError, http.client.RemoteDisconnected) as refused:
                status, headers, data = 503, {}, refused
            if status != 503:
                return status, headers, data
            assert time.monotonic() < deadline, f"{arguments} is still refused: {data}"
            time.sleep(0.05)

    def metrics(self):
        """The samples of GET /metrics without labels."""
        status, _, data = self.request_until_served("GET", "/metrics")
        assert status == 200, (status, data)
        return serve_load.samples_of(data)

    def wait_for(self, name, value):
        """Waits until a metric has a value."""
        deadline = time.monotonic() + support.TIMEOUT_SECONDS
        while (found := self.metrics()[name]) != value:
            assert time.monotonic() < deadline, f"{name} stays {found}"
            time.sleep(0.01)
