"""The console: a progress bar on a terminal, plain lines in a pipe."""

import fcntl
import os
import pty
import re
import signal
import struct
import termios
import time

import support


class Console(support.MohTest):
    # Long enough for the bar to be drawn more than once; log.every does not matter to it.
    SETTINGS = {"train.steps": 200, "log.every": 50, "eval.every": 100, "checkpoint.every": 0}

    def on_terminal(self, columns, *arguments, **env):
        """What moh writes to a terminal of this width, training where no arguments say otherwise."""
        terminal, inside = pty.openpty()
        fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        arguments = arguments or ("train", self.config(self.SETTINGS), "--overwrite")
        process = support.start(self.folder, *arguments, stdout=inside,
                                env={"TERM": "xterm", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", **env})
        self.addCleanup(process.kill)
        os.close(inside)
        output = b""
        try:
            while piece := os.read(terminal, 65536):
                output += piece
        except OSError:
            pass  # EIO: nobody writes to this terminal any more
        os.close(terminal)
        self.assertEqual(process.wait(support.TIMEOUT_SECONDS), support.DONE)
        return output.decode(errors="replace")

    @staticmethod
    def bars(output):
        """The states of the bar, without colours."""
        plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", output)
        return [piece for piece in re.split(r"[\r\n]+", plain) if re.match(r"\d+/200\b", piece)]

    def test_a_terminal_gets_a_bar(self):
        output = self.on_terminal(120)
        bars = self.bars(output)
        self.assertTrue(bars, output)
        self.assertRegex(bars[-1], r"200/200 .*loss \d+\.\d+ .*lr \S+ .*tok/s .*heads 50% .*ETA \d")
        self.assertTrue(all(len(bar) < 120 for bar in bars))
        steps = re.findall(r"(?:^|\n|\x1b\[K)step (\d+)/200  loss ", output)  # the lines of a pipe, above the bar
        self.assertEqual(steps, ["1", "50", "100", "150", "200"])
        self.assert_says(output, "step 100: validation loss", "finished at step 200")

    def test_evaluations_say_how_far_they_are(self):
        self.assertRegex(self.on_terminal(120), r"\rstep 100: evaluation: 0 of \d+ tokens, -:-- left")
        self.assertRegex(self.on_terminal(120, "eval", "--checkpoint", "run"), r"\reval: 0 of \d+ tokens, -:-- left")
        self.assertRegex(self.on_terminal(120, "analyze", "--checkpoint", "run"), r"\ranalyze: \d+ of \d+ tokens, .* left")

    def test_a_narrow_terminal_gets_a_short_one(self):
        bars = self.bars(self.on_terminal(40))
        self.assertTrue(bars)
        self.assertTrue(all(len(bar) < 40 for bar in bars), bars)
        self.assertRegex(bars[-1], r"200/200 .*loss \d+\.\d+")

    def test_no_colour_when_it_is_not_wanted(self):
        self.assertRegex(self.on_terminal(120), r"\x1b\[\d*m")
        self.assertNotRegex(self.on_terminal(120, NO_COLOR="1"), r"\x1b\[\d*m")

    def test_a_pipe_gets_plain_lines(self):
        output = self.train(self.SETTINGS)
        self.assertNotIn("\x1b", output)
        self.assertNotIn("\r", output)
        steps = re.findall(r"(?m)^step (\d+)/200  loss \d\S*  lr \S+  \S+ tok/s  heads 50%(?:  mfu \d+%)?  ETA \d\S*$", output)
        self.assertEqual(steps, ["1", "50", "100", "150", "200"])


    def test_a_log_file_has_all_lines_of_all_processes(self):
        first = self.train({**self.SETTINGS, "train.steps": 100, "schedule.decay_steps": 200}, "--log-level", "debug")
        second = self.train(self.SETTINGS, "--resume", "schedule.decay_steps=200")
        log = (self.folder / "run/moh.log").read_text()
        headers = re.findall(r"(?m)^--- host \S+, process \d+, since \S+Z ---\n", log)
        self.assertEqual(len(headers), 2)
        self.assertEqual(log, headers[0] + first + headers[1] + second)
        self.train(self.SETTINGS, "--overwrite")
        self.assertEqual((self.folder / "run/moh.log").read_text().count("--- host"), 1)


class NobodyReads(support.MohTest):
    """Standard output is a pipe that nobody drains: training goes on, and signals are answered."""

    SETTINGS = {"train.steps": 2000, "eval.every": 0, "checkpoint.every": 0, "model.dropout": 0.1}

    def test_training_goes_on_and_the_log_has_all(self):
        config = self.config(self.SETTINGS)
        run = support.Running(self, "train", config)
        self.assertEqual(run.process.wait(support.TIMEOUT_SECONDS), support.DONE)
        log = (self.folder / "run/moh.log").read_text()
        self.assertEqual(re.findall(r"(?m)^step (\d+)/", log), [str(step) for step in range(1, 2001)])
        self.assert_says(log, "finished at step 2000")

    def test_a_signal_is_answered(self):
        run = support.Running(self, "train", self.config({**self.SETTINGS, "train.steps": 1_000_000}))
        run.read_until("step 5/")
        run.wait_until_blocked()
        run.send(signal.SIGTERM)
        began = time.monotonic()
        self.assertEqual(run.process.wait(support.TIMEOUT_SECONDS), support.PREEMPTED)
        self.assertLess(time.monotonic() - began, 15)
        self.assertTrue(self.checkpoints())


if __name__ == "__main__":
    support.main()
