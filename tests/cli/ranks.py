"""Processes of one run that meet by TCP, as torchrun starts them, each where a test says."""

import subprocess

import support


class RanksTest(support.MohTest):
    def start(self, rank, size, port, *arguments, world=None, env=None, cwd=None):
        variables = {"RANK": str(rank), "WORLD_SIZE": str(world or size), "LOCAL_RANK": str(rank),
                     "MASTER_ADDR": "localhost", "MASTER_PORT": str(port), **(env or {})}
        output = open(self.folder / f"output{rank}.txt", "wb")
        self.addCleanup(output.close)
        process = subprocess.Popen([support.MOH, *map(str, arguments)], cwd=cwd or self.folder, stdin=subprocess.DEVNULL,
                                   env=support.environment(variables), stdout=output, stderr=subprocess.STDOUT)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.kill()
            process.wait()

    def output(self, rank):
        return (self.folder / f"output{rank}.txt").read_text(errors="replace")
