"""Processes with the variables that torchrun sets find each other by TCP, and make the steps of one process."""

import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time
import unittest

import ranks
import support
from ports import free_port

COMM_ERROR = 6
SOURCE = pathlib.Path(os.environ.get("MOH_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
# PyTorch's own torchrun, where there is one.
PYTORCH = pathlib.Path(os.environ.get("MOH_PYTORCH_VENV", SOURCE / "build/pytorch-venv")).absolute() / "bin"
CONFIG = {"train.batch_size": 2, "train.accumulate": 4, "optim.eps": 1e-4, "checkpoint.every": 0}


class Cable:
    """Passes on what comes at its port to another, until it is cut."""

    def __init__(self, test, port):
        self.to, self.whole, self.ends = port, True, []
        self.listener = socket.create_server(("localhost", 0))
        test.addCleanup(self.close)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        try:
            near = self.listener.accept()[0]
        except OSError:  # closed before anybody came
            return
        far = Torchrun.connected(self.to)
        self.ends = [near, far]
        for one, other in ((near, far), (far, near)):
            threading.Thread(target=self.carry, args=(one, other), daemon=True).start()

    def carry(self, one, other):
        try:
            while (data := one.recv(65536)) and self.whole:
                other.sendall(data)
        except OSError:  # an end was reset
            pass

    def cut(self, reset):
        """From now on nothing arrives; with `reset`, both ends are told so."""
        self.whole = False
        if not reset:
            return
        for end in self.ends:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            end.shutdown(socket.SHUT_RD)  # wakes its reader
            end.close()

    def close(self):
        for end in (self.listener, *self.ends):
            end.close()


class Torchrun(ranks.RanksTest):
    def run_all(self, size, *arguments, code=support.DONE, late=None, env=None):
        port, started = free_port(), []
        for rank in sorted(range(size), key=lambda rank: rank == late):
            if rank == late:
                time.sleep(1)
            started.append(self.start(rank, size, port, *arguments, env=env))
        for process in started:
            self.assertEqual(process.wait(support.TIMEOUT_SECONDS), code, self.output(0) + self.output(1))

    def test_three_processes_make_the_steps_of_one(self):
        config = self.config({**support.DENSE, **CONFIG, "train.batch_size": 3})
        self.moh("train", config, "output.dir=one")
        self.run_all(3, "train", config, "output.dir=three", late=0)
        self.assert_says(self.output(0), "comm: TCP, 3 processes on 1 host", "step 8/8")
        self.assertNotIn("step 8/8", self.output(1))
        for one, three in zip(*(support.losses(self.folder / run) for run in ("one", "three"))):
            self.assertLess(abs(one - three), 1e-5 * one)

    def test_the_store_of_torchrun_has_its_port(self):
        port, config = free_port(), self.config({**CONFIG, "train.steps": 2, "schedule.warmup_steps": 1})
        with socket.socket(socket.AF_INET6) as store:
            store.bind(("", port))
            store.listen()
            started = [self.start(rank, 2, port, "train", config, env={"TORCHELASTIC_USE_AGENT_STORE": "True"})
                       for rank in range(2)]
            for process in started:
                self.assertEqual(process.wait(support.TIMEOUT_SECONDS), support.DONE, self.output(0))

    def test_strangers_hold_up_nobody(self):
        port, config = free_port(), self.config({**CONFIG, "train.steps": 2, "schedule.warmup_steps": 1})
        first = self.start(0, 2, port, "train", config)
        # A greeting is the beginning of the protocol's name, a rank, the number of processes, a port and nothing.
        greetings = [struct.pack("<Qiiii", 0x31504354484F4D, rank, size, 1, 0) for rank, size in ((7, 2), (-1, 2), (0, 2), (9, 3))]
        for words in (b"GET / HTTP/1.1\r\nHost: somebody\r\n\r\n", *greetings, *[b""] * 60):
            stranger = self.connected(port)
            self.addCleanup(stranger.close)
            stranger.sendall(words)
        second = self.start(1, 2, port, "train", config)
        for process in (first, second):
            self.assertEqual(process.wait(support.TIMEOUT_SECONDS), support.DONE, self.output(0))

    @staticmethod
    def connected(port):
        deadline = time.monotonic() + support.TIMEOUT_SECONDS
        while True:
            try:
                return socket.create_connection(("localhost", port))
            except ConnectionRefusedError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    @unittest.skipIf(subprocess.run(["unshare", "-rn", "true"], stderr=subprocess.DEVNULL).returncode != 0,
                     "no namespace of its own for a network")
    def test_who_comes_first_is_not_connected_to_itself(self):
        # Of four ports for connections that go out, one is soon that of process 0, where nobody listens yet.
        config = self.config({**CONFIG, "train.steps": 2, "schedule.warmup_steps": 1})
        script = """ip link set lo up && echo 40000 40003 > /proc/sys/net/ipv4/ip_local_port_range || exit 77
            RANK=1 "$@" & sleep 2; RANK=0 "$@" || { kill $!; exit 1; }; wait $!"""
        env = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "40000"}
        result = subprocess.run(["unshare", "-rn", "sh", "-c", script, "sh", support.MOH, "train", config],
                                cwd=self.folder, env=support.environment(env), stdin=subprocess.DEVNULL, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=support.TIMEOUT_SECONDS)
        if result.returncode == 77:
            self.skipTest("the ports of a network namespace cannot be set")
        self.assertEqual(result.returncode, 0, result.stdout)

    def test_a_port_that_is_in_use(self):
        port = free_port()
        with socket.socket(socket.AF_INET6) as other:
            other.bind(("", port))
            other.listen()
            process = self.start(0, 2, port, "train", self.config(CONFIG))
            self.assertEqual(process.wait(support.TIMEOUT_SECONDS), support.CONFIG_ERROR, self.output(0))
        self.assert_says(self.output(0), f"comm: port {port}: expected a port that is free", "another MASTER_PORT")

    def test_a_variable_that_is_empty_or_missing(self):
        whole = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": str(free_port()), "LOCAL_RANK": "0"}
        config = self.config(CONFIG)
        for name in whole:
            result = self.command("train", config, env={**whole, name: ""})
            self.assertEqual(result.returncode, support.CONFIG_ERROR, result.output)
            self.assert_says(result.output, f"environment: {name}: expected a value", "found nothing: set, and empty")
        result = self.command("train", config, env={name: "" for name in whole})
        self.assertEqual(result.returncode, support.CONFIG_ERROR, result.output)
        for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
            result = self.command("train", config, env={other: value for other, value in whole.items() if other != name})
            self.assertEqual(result.returncode, support.CONFIG_ERROR, result.output)
            self.assert_says(result.output, f"environment: {name}: expected")
        self.assertFalse((self.folder / "run").exists())

    def test_another_number_of_processes_and_a_rank_twice(self):
        config = self.config(CONFIG)
        for numbers, world, words in (((0, 1), 3, "WORLD_SIZE: expected 2"), ((0, 1, 1), None, "RANK: expected each")):
            port, size = free_port(), len(numbers)
            first = self.start(0, size, port, "train", config)
            others = [self.start(rank, size, port, "train", config, world=world) for rank in numbers[1:]]
            self.assertEqual(first.wait(support.TIMEOUT_SECONDS), support.CONFIG_ERROR, self.output(0))
            self.assert_says(self.output(0), words)
            for other in others:
                self.assertIn(other.wait(support.TIMEOUT_SECONDS), (COMM_ERROR, support.CONFIG_ERROR))

    def wait_for_records(self, count):
        metrics = self.folder / "run" / "metrics.jsonl"
        deadline = time.monotonic() + support.TIMEOUT_SECONDS
        while not metrics.exists() or len(metrics.read_text().splitlines()) < count:
            self.assertLess(time.monotonic(), deadline, self.output(0))
            time.sleep(0.02)

    def test_a_network_that_fails(self):
        config = self.config({**CONFIG, "train.steps": 4000, "eval.every": 0, "checkpoint.every": 2, "comm.timeout": 3})
        for reset, words in ((False, "did not come"), (True, "ended without a word")):
            with self.subTest(reset=reset):
                shutil.rmtree(self.folder / "run", ignore_errors=True)
                port = free_port()
                cable = Cable(self, port)
                started = [self.start(0, 2, port, "train", config), self.start(1, 2, cable.port, "train", config)]
                self.wait_for_records(5)
                cable.cut(reset)
                for process in started:
                    self.assertEqual(process.wait(support.TIMEOUT_SECONDS), COMM_ERROR, self.output(0))
                self.assertRegex(self.output(0), f"comm: .*rank 1 .*{words}")
                # Neither side takes what did not arrive for a sum: the run goes on from a whole checkpoint.
                last = int(self.newest().name[5:])
                self.moh("train", config, "--resume", f"train.steps={last + 2}", "schedule.decay_steps=4000")

    def test_a_process_that_is_killed_is_named(self):
        config, port = self.config({**CONFIG, "train.steps": 4000, "eval.every": 0}), free_port()
        started = [self.start(rank, 2, port, "train", config) for rank in range(2)]
        self.wait_for_records(3)
        os.kill(started[1].pid, signal.SIGKILL)
        self.assertEqual(started[0].wait(support.TIMEOUT_SECONDS), COMM_ERROR, self.output(0))
        self.assertRegex(self.output(0), r"rank 1 .*ended without a word")


@unittest.skipUnless(shutil.which("torchrun", path=PYTORCH), "no torchrun; scripts/pytorch_venv.sh gets it")
class TheRealTorchrun(support.MohTest):
    """scripts/launch/torchrun.sh, with PyTorch's launcher."""

    def launch(self, *arguments):
        variables = {"PATH": f"{PYTORCH}:{os.environ['PATH']}", "MOH": os.path.abspath(shutil.which(support.MOH)),
                     "MASTER_PORT": str(free_port())}
        env = {name: value for name, value in support.environment(variables).items() if name != "OMP_NUM_THREADS"}
        self.log = self.folder / "launched.txt"
        with open(self.log, "wb") as output:
            process = subprocess.Popen([SOURCE / "scripts/launch/torchrun.sh", "2", *arguments], cwd=self.folder, env=env,
                                       stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        if process.poll() is None:  # its workers end with it
            process.terminate()
            process.wait(support.TIMEOUT_SECONDS)

    def wait_for_checkpoint(self):
        deadline = time.monotonic() + support.TIMEOUT_SECONDS
        while not self.checkpoints():
            self.assertLess(time.monotonic(), deadline, self.log.read_text())
            time.sleep(0.02)

    def worker(self, launcher, rank):
        """The process of a rank that the launcher started."""
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
                if int(parent) == launcher.pid and f"RANK={rank}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                    return int(entry.name)
            except (FileNotFoundError, ProcessLookupError):
                pass  # it has ended
        raise AssertionError(f"no process of rank {rank}:\n{self.log.read_text()}")

    def test_the_steps_are_those_of_one_process(self):
        config = self.config({**support.DENSE, **CONFIG, "threads": 0})
        self.moh("train", config, "output.dir=one")
        launched = self.launch(config, "output.dir=two")
        self.assertEqual(launched.wait(support.TIMEOUT_SECONDS), support.DONE, self.log.read_text())
        threads = max(1, len(os.sched_getaffinity(0)) // 2)
        self.assert_says(self.log.read_text(), f"comm: TCP, 2 processes on 1 host, {threads} threads each", "step 8/8")
        for one, two in zip(*(support.losses(self.folder / run) for run in ("one", "two")), strict=True):
            self.assertLess(abs(one - two), 1e-5 * one)

    def test_a_process_that_is_killed_is_started_again_with_the_others(self):
        steps = 1000  # a checkpoint is found and a process is killed long before the last
        config = self.config({**support.DENSE, **CONFIG, "train.steps": steps, "checkpoint.every": 50, "eval.every": 0})
        launched = self.launch(config)
        self.wait_for_checkpoint()
        os.kill(self.worker(launched, 1), signal.SIGKILL)
        self.assertEqual(launched.wait(support.TIMEOUT_SECONDS), support.DONE, self.log.read_text())
        self.assert_says(self.log.read_text(), "ended without a word", "resume: ")
        records = support.metrics(self.folder / "run")
        self.assertEqual([record["step"] for record in records if record["kind"] == "train"], list(range(1, steps + 1)))


if __name__ == "__main__":
    support.main()
