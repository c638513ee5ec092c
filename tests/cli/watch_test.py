"""moh watch: what it serves of runs, and what it draws in a terminal."""

import json
import os
import pathlib
import pty
import re
import signal
import socket
import struct
import fcntl
import termios
import time
import unittest
import urllib.parse

import serve_support
import support
import watch_support


class Watch(support.MohTest):
    def watch(self, *arguments):
        return serve_support.HttpProcess(self, "watch", *arguments)

    def curves(self, server, runs, names=("train/loss",), **more):
        """The answer once all of the runs has been read."""
        query = urllib.parse.urlencode({"runs": ",".join(map(str, runs)), "names": ",".join(names), **more})
        end = time.monotonic() + support.TIMEOUT_SECONDS
        while True:
            answer = server.get(f"/api/curves?{query}")
            if "curves" not in answer or all(run["loaded"] == 1 for run in answer["runs"].values()):
                return answer
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)

    def test_a_run_while_it_trains_and_after_it_was_resumed(self):
        config = self.config({"train.steps": 8, "eval.every": 4})
        self.moh("train", config, "train.stop_after_seconds=1000")
        server = self.watch("run")
        records = [json.loads(line) for line in (self.folder / "run/metrics.jsonl").read_text().splitlines()]
        trained = [record for record in records if record["kind"] == "train"]
        answer = self.curves(server, [0], ("train/loss", "eval/loss", "train/no_such"))
        (curve,) = answer["curves"]["train/loss"]
        self.assertEqual(curve["runs"], [0])
        self.assertEqual(curve["steps"], [record["step"] for record in trained])
        for found, record in zip(curve["values"], trained):
            self.assertAlmostEqual(found, record["loss"], places=5)
        self.assertEqual(answer["curves"]["eval/loss"][0]["steps"], [4, 8])
        self.assertEqual(answer["curves"]["train/no_such"], [])
        self.assertEqual(set(self.curves(server, [0], seen=answer["revision"])), {"revision", "last_step"})  # nothing is new

        heads = server.get("/api/heads?run=0")
        self.assertEqual((heads["steps"], heads["heads"]), (curve["steps"], [3, 3]))
        frame = server.get("/api/heads?run=0&step=5")
        for found, layer in zip(frame["layers"], trained[4]["head_load"]):
            for share, load in zip(found, layer, strict=True):
                self.assertAlmostEqual(share, load, places=4)

        # Resumed from step 4: records behind it are removed, and other ones come.
        metrics = self.folder / "run/metrics.jsonl"
        before = [line for line in metrics.read_text().splitlines(keepends=True) if json.loads(line)["step"] <= 4]
        metrics.write_text("".join(before) + '{"kind":"train","step":5,"loss":77,"unix_time":1}\n{"kind":"train","st')
        end = time.monotonic() + support.TIMEOUT_SECONDS
        while self.curves(server, [0])["curves"]["train/loss"][0]["steps"][-1] != 5:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)
        (curve,) = self.curves(server, [0])["curves"]["train/loss"]
        self.assertEqual((curve["steps"], curve["values"][-1]), ([1, 2, 3, 4, 5], 77))
        self.assertEqual(server.stop(), support.DONE)

    def test_two_hundred_runs(self):
        for i in range(200):
            watch_support.make_run(self.folder / f"runs/{i:03}", 20, seed=i % 5 + 1, settings=f"model: {{width: {i // 5}}}\n")
        server = self.watch()
        begin = time.monotonic()
        status, headers, page = server.request("GET", "/")
        first = time.monotonic() - begin
        self.assertEqual(status, 200)
        self.assertIn(b"<title>moh watch</title>", page)
        self.assertNotRegex(page.decode(), r"(src|href)=\"(https?:)?//")
        self.assertIn("default-src 'none'", headers["Content-Security-Policy"])
        begin = time.monotonic()
        runs = server.get("/api/runs")["runs"]
        listed = time.monotonic() - begin
        print(f"first page in {1000 * first:.1f} ms, list of 200 runs in {1000 * listed:.1f} ms")
        self.assertLess(first + listed, 2)
        self.assertEqual([run["name"] for run in runs], [f"runs/{i:03}" for i in range(200)])
        self.assertEqual((runs[7]["seed"], runs[7]["differs"]), ("3", "model.width=1"))
        self.assertEqual(len({run["group"] for run in runs}), 40)

        (band,) = self.curves(server, range(5), bands=1, columns=200)["curves"]["train/loss"]
        self.assertEqual(band["runs"], [0, 1, 2, 3, 4])
        losses = [self.curves(server, [i])["curves"]["train/loss"][0]["values"][-1] for i in range(5)]
        mean = sum(losses) / 5
        self.assertAlmostEqual(band["mean"][-1], mean, places=4)
        deviation = (sum((loss - mean) ** 2 for loss in losses) / 4) ** 0.5
        self.assertAlmostEqual(band["high"][-1] - mean, deviation, places=4)
        self.assertEqual(len(self.curves(server, range(200), bands=1)["curves"]["train/loss"]), 40)

        watch_support.make_run(self.folder / "runs/new", 5)
        end = time.monotonic() + support.TIMEOUT_SECONDS
        while len(server.get("/api/runs")["runs"]) < 201:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.1)
        self.assertEqual(server.get("/api/runs")["runs"][200]["name"], "runs/new")

    def test_a_long_run_is_thinned_and_takes_bounded_memory(self):
        watch_support.make_run(self.folder / "run", 30000)
        server = self.watch("run")
        answer = self.curves(server, [0], columns=100)
        (curve,) = answer["curves"]["train/loss"]
        self.assertLessEqual(len(curve["steps"]), 200)
        self.assertEqual(curve["steps"], sorted(curve["steps"]))
        (few,) = self.curves(server, [0], columns=100, **{"from": 20000, "to": 20010})["curves"]["train/loss"]
        self.assertEqual(few["steps"], list(range(19999, 20012)))
        self.assertLessEqual(len(server.get("/api/heads?run=0")["steps"]), 1024)
        status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
        peak = int(re.search(r"VmHWM:\s+(\d+) kB", status)[1])
        print(f"peak memory after 30000 records: {peak / 1024:.0f} MiB")
        if not os.environ.get("MOH_SANITIZED"):
            self.assertLess(peak, 200 * 1024)

    def test_files_of_a_run_and_none_besides(self):
        watch_support.make_run(self.folder / "run", 3)
        self.write("run/sample.txt", "To be <b>\n")
        self.write("run/trace.json", '{"traceEvents":[]}')
        self.write("secret", "secret\n")
        picture = self.folder / "run/samples/step_00000002.png"
        picture.parent.mkdir()
        picture.write_bytes(support.png(1, 1, b"\0abc"))
        picture.with_name("step_00000003.png").symlink_to("../../secret")
        server = self.watch("run")
        self.assertEqual([(file["kind"], file["name"]) for file in server.get("/api/files?run=0")["files"]],
                         [("text", "sample.txt"), ("image", "samples/step_00000002.png"), ("trace", "trace.json")])
        status, headers, body = server.request("GET", "/files/0/sample.txt")
        self.assertEqual((status, headers["Content-Type"], headers["X-Content-Type-Options"], body),
                         (200, "text/plain; charset=utf-8", "nosniff", b"To be <b>\n"))
        self.assertEqual(server.request("GET", "/files/0/samples/step_00000002.png")[2], picture.read_bytes())
        for path in ("/files/0/samples/step_00000003.png", "/files/0/../secret", "/files/0/samples/..%2f..%2f..%2fsecret", "/files/0/%2e%2e/secret",
                     "/files/0//etc/passwd", "/files/0/config.yaml", "/files/0/metrics.jsonl", "/files/0/", "/files/0", "/files/1/sample.txt",
                     "/files/0/samples/step_1.png%00", "/no/such"):
            self.assertEqual(server.request("GET", path)[0], 404, path)
        for path in ("/files/x/sample.txt", "/api/heads", "/api/heads?run=zero", "/api/curves?runs=0&from=a", "/api/curves?runs=" + ",0" * 201):
            self.assertEqual(server.request("GET", path)[0], 400, path)
        self.assertEqual(server.request("POST", "/api/runs", "x", {})[0], 405)
        self.assertEqual(server.request("GET", "/api/runs", headers={"Host": "evil.example"})[0], 403)

    def test_damaged_runs_are_listed(self):
        self.write("runs/bad/metrics.jsonl", '{"kind":"train","step":3,\n[[[\n\x00\n{"kind":"train","step":4,"loss":2.5}\n')
        self.write("runs/bad/config.yaml", "seed: [\n")
        (self.folder / "runs/begun").mkdir()
        (self.folder / "runs/begun/.lock").touch()
        os.mkfifo(self.folder / "runs/begun/metrics.jsonl")
        server = self.watch()
        self.assertEqual(self.curves(server, [0, 1])["curves"]["train/loss"], [{"runs": [0], "steps": [4], "values": [2.5]}])
        self.assertEqual(len(server.get("/api/runs")["runs"]), 2)

    def test_errors(self):
        self.assert_says(self.moh("watch", code=support.INPUT_ERROR), "runs: expected the folder of a run, or one with runs in it")
        watch_support.make_run(self.folder / "run", 3)
        with socket.create_server(("127.0.0.1", 0)) as taken:
            self.assert_says(self.moh("watch", "run", "--port", taken.getsockname()[1], code=support.CONFIG_ERROR), "watch: --host and --port: expected")
        self.assert_says(self.moh("watch", "run", "--port", 70000, code=support.CONFIG_ERROR), "watch: --port: expected 0 to 65535, found 70000")

    def test_one_frame_where_there_is_no_terminal(self):
        watch_support.make_run(self.folder / "run", 200)
        frame = self.moh("watch", "run", "--terminal")
        self.assertNotIn("\033", frame)
        self.assertRegex(frame, r"^training loss\n +\d\.\d{3} ┤[\u2800-\u28ff ]+\n")
        self.assertRegex(frame, r"\nrun  finished  step 200 of 200, 100%  ")
        self.assertIn("step 1 ", frame)

    def test_a_terminal_is_redrawn_in_its_size_until_ctrl_c(self):
        watch_support.make_run(self.folder / "run", 50)
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 15, 60, 0, 0))
        process = support.start(self.folder, "watch", "run", "--terminal", stdout=theirs, env={"TERM": "xterm", "LANG": "C.UTF-8"})
        os.close(theirs)
        output = b""
        try:
            while output.count(b"\033[H") < 2:
                output += os.read(ours, 65536)
            process.send_signal(signal.SIGINT)
            while b"\033[?1049l" not in output:
                output += os.read(ours, 65536)
            self.assertEqual(process.wait(support.TIMEOUT_SECONDS), support.DONE)
        finally:
            process.kill()
            process.wait()
            os.close(ours)
        screen = output.decode().split("\033[H")[1].split("\033[J")[0]
        lines = [re.sub(r"\033\[[0-9;]*[mK]", "", line) for line in screen.split("\r\n")]
        self.assertLessEqual(len(lines), 15)
        self.assertLessEqual(max(map(len, lines)), 60)


if __name__ == "__main__":
    unittest.main()
