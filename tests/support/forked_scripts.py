"""Runs scripts of Python in forks of a process that has imported what they need: for some the imports take longer than all the rest."""

import json
import pathlib
import subprocess
import sys
import tempfile

# Reads a job a line. Nothing but imports happens before a fork, so that a script finds what it would find in a process of its own. Its end
# leaves out that Python takes the modules apart.
TEMPLATE = """
import json, os, runpy, sys, traceback
{imports}

def run(job):
    for number, (path, how) in enumerate(((os.devnull, os.O_RDONLY), (job["out"], os.O_WRONLY), (job["err"], os.O_WRONLY))):
        os.dup2(os.open(path, how), number)
    if job["env"] is not None:
        os.environ.clear()
        os.environ.update(job["env"])
    os.chdir(job["cwd"])
    sys.argv = job["words"]
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0

for line in sys.stdin:
    child = os.fork()
    if child == 0:
        code = run(json.loads(line))
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class ForkedScripts:
    """A process with these imports, as lines of Python; to be used in a `with`."""

    def __init__(self, imports, folders=(), python=sys.executable):
        code = f"import sys\nsys.path[1:1] = {[str(folder) for folder in folders]}\n" + TEMPLATE.replace("{imports}", imports)
        self.process = subprocess.Popen([python, "-B", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.communicate()

    def run(self, *words, cwd=".", env=None):
        """Like subprocess.run() of Python with a script and its arguments, and with its output captured as text."""
        with tempfile.TemporaryDirectory() as folder:
            out, err = (pathlib.Path(folder, name) for name in ("out", "err"))
            out.touch()
            err.touch()
            job = {"words": list(map(str, words)), "cwd": str(pathlib.Path(cwd).absolute()), "env": env, "out": str(out), "err": str(err)}
            print(json.dumps(job), file=self.process.stdin, flush=True)
            answer = self.process.stdout.readline()
            if not answer:
                raise AssertionError("the process that forks has ended")
            return subprocess.CompletedProcess(words, int(answer), out.read_text(errors="replace"), err.read_text(errors="replace"))
