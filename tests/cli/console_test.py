"""The console: a progress bar on a terminal, plain lines in a pipe."""

import fcntl
import os
import pty
import re
import struct
import termios

import support


class Console(support.MohTest):
    # Long enough for the bar to be drawn more than once; log.every must not matter to it.
    SETTINGS = {"train.steps": 200, "log.every": 50, "eval.every": 100, "checkpoint.every": 0}

    def on_terminal(self, columns, **env):
        """What moh writes to a terminal of this width."""
        terminal, inside = pty.openpty()
        fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        process = support.start(self.folder, "train", self.config(self.SETTINGS), "--overwrite", stdout=inside,
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
        self.assertNotIn("step 50/200", output)  # the lines of a pipe
        self.assert_says(output, "step 100: validation loss", "finished at step 200")

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
        steps = re.findall(r"(?m)^step (\d+)/200  loss \d\S*  lr \S+  \S+ tok/s  heads 50%  ETA \d\S*$", output)
        self.assertEqual(steps, ["1", "50", "100", "150", "200"])


if __name__ == "__main__":
    support.main()
