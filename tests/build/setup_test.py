"""scripts/setup.sh: what it does on machines that lack packages, rights or Debian.

The script runs with a PATH that holds nothing but the tools it uses and stand-ins for dpkg-query, apt-get, sudo and id,
which report what the case says and record how they were called.
"""

import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import unittest

SETUP = pathlib.Path(os.environ["MOH_SOURCE_DIR"], "scripts", "setup.sh")
TOOLS = ("bash", "cat", "cp", "dirname", "env", "grep", "mkdir", "mktemp", "mv", "rm", "sed", "tee")


class Machine:
    """A made-up machine: `lacks` names the packages that are not installed."""

    def __init__(self, folder, *, lacks=(), root=False, sudo=False, debian=True, install_fails=False):
        self.bin = pathlib.Path(folder, "bin")
        self.bin.mkdir()
        self.calls = pathlib.Path(folder, "calls")
        self.calls.touch()
        for tool in TOOLS:
            (self.bin / tool).symlink_to(shutil.which(tool))
        self.stand_in("id", f"echo {0 if root else 1000}")
        if sudo:
            self.stand_in("sudo", f'echo "sudo $*" >>{self.calls}\n[ "$1" = -n ] && shift\nexec "$@"')
        self.stand_in("true", "exit 0")
        if debian:
            # dpkg-query also knows packages that were removed, and complains about those that it never saw.
            lines = "\n".join(f'[ "$p" = {package} ] && echo "config-files $p" && continue' for package in lacks)
            self.stand_in("dpkg-query", f'shift 2\nfor p; do\n{lines}\necho "installed $p"\ndone\nexit {int(bool(lacks))}')
            failure = '[ "$*" = "${*/install/}" ] || exit 100' if install_fails else ""
            self.stand_in("apt-get", f'echo "apt-get $*" >>{self.calls}\n{failure}')

    def stand_in(self, name, body):
        path = self.bin / name
        path.write_text(f"#!{shutil.which('bash')}\n{body}\n")
        path.chmod(0o755)

    def run(self, *arguments, **environment):
        return subprocess.run(
            [shutil.which("bash"), str(SETUP), *arguments],
            env={"PATH": str(self.bin), **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )

    def apt_calls(self):
        return [line for line in self.calls.read_text().splitlines() if line.startswith("apt-get")]


class Setup(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def machine(self, **properties):
        return Machine(self.folder.name, **properties)

    def test_nothing_missing_is_quick_and_needs_no_rights(self):
        machine = self.machine()
        start = time.monotonic()
        result = machine.run()
        self.assertLess(time.monotonic() - start, 1.0)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(machine.apt_calls(), [])

    def test_root_installs_what_is_missing_and_only_that(self):
        machine = self.machine(lacks=("ninja-build", "catch2"), root=True)
        result = machine.run()
        self.assertEqual(result.returncode, 0, result.stderr)
        update, install = machine.apt_calls()
        self.assertTrue(update.endswith(" update"), update)
        self.assertTrue(install.endswith(" install -y --no-install-recommends ninja-build catch2"), install)

    def test_a_user_with_sudo_installs_through_it(self):
        machine = self.machine(lacks=("cmake",), sudo=True)
        result = machine.run()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(machine.apt_calls()), 2)
        self.assertIn("sudo env DEBIAN_FRONTEND=noninteractive apt-get", machine.calls.read_text())

    def test_a_user_without_rights_is_told_the_command(self):
        machine = self.machine(lacks=("cmake", "libeigen3-dev"))
        result = machine.run()
        self.assertEqual(result.returncode, 1)
        self.assertIn("missing Debian packages: cmake libeigen3-dev", result.stderr)
        self.assertIn("apt-get install --no-install-recommends cmake libeigen3-dev", result.stderr)
        self.assertEqual(machine.apt_calls(), [])

    def test_a_failed_installation_is_an_error(self):
        result = self.machine(lacks=("cmake",), root=True, install_fails=True).run()
        self.assertEqual(result.returncode, 1)
        self.assertIn("apt-get could not install: cmake", result.stderr)

    def test_another_system_is_told_the_packages_and_may_go_on(self):
        result = self.machine(debian=False).run()
        self.assertEqual(result.returncode, 0)
        self.assertIn("not a Debian system", result.stderr)
        self.assertIn("libyaml-cpp-dev", result.stderr)

    def with_cudnn(self, pip):
        """A machine with a toolkit that has cuDNN, and Python as a stand-in: `pip` is what a download does in "$folder"."""
        machine = self.machine()
        toolkit = pathlib.Path(self.folder.name, "cuda")
        (toolkit / "include").mkdir(parents=True)
        (toolkit / "include" / "cudnn.h").touch()
        machine.stand_in("python3", f'''echo "python3 $*" >>{machine.calls}
case "$2 $3" in
  "pip download") while [ "$1" != -d ]; do shift; done; folder=$2; {pip};;
  "zipfile -e") mkdir -p "$5/include" "$5/nanobind/cmake"
    echo "of $4" | tee "$5/include/cudnn_frontend.h" >"$5/nanobind/cmake/nanobind-config.cmake";;
esac''')
        return lambda: machine.run(CUDAToolkit_ROOT=str(toolkit), HOME=self.folder.name), machine

    def test_headers_of_cudnn_and_nanobind_are_fetched_once(self):
        run, machine = self.with_cudnn('echo >"$folder/a.whl"')
        for _ in range(2):
            result = run()
            self.assertEqual(result.returncode, 0, result.stderr)
        downloads = [line for line in machine.calls.read_text().splitlines() if "download" in line]
        self.assertEqual([line.split()[-1].partition("==")[0] for line in downloads], ["nanobind", "nvidia-cudnn-frontend"])
        config, = pathlib.Path(self.folder.name, ".cache", "moh").glob("nanobind-*/nanobind/cmake/nanobind-config.cmake")
        self.assertIn("a.whl", config.read_text())
        header, = pathlib.Path(self.folder.name, ".cache", "moh").glob("cudnn-frontend-*/include/cudnn_frontend.h")
        self.assertIn("a.whl", header.read_text())
        wanted = (SETUP.parent.parent / "cmake" / "MohDependencies.cmake").read_text()
        self.assertIn("MOH_NANOBIND_VERSION " + config.parents[2].name.rsplit("-", 1)[1] + ")", wanted)
        self.assertIn("MOH_CUDNN_FRONTEND_VERSION " + header.parent.parent.name.rsplit("-", 1)[1] + ")", wanted)

    def test_what_cannot_be_fetched_is_done_without(self):
        run, _ = self.with_cudnn("echo no network >&2; exit 1")
        result = run()
        self.assertEqual(result.returncode, 0)
        self.assertIn("no network", result.stderr)
        self.assertIn("could not be fetched", result.stderr)
        self.assertFalse(pathlib.Path(self.folder.name, ".cache").exists())

    def test_skipping_and_unknown_options(self):
        machine = self.machine(lacks=("cmake",))
        self.assertEqual(machine.run(MOH_SKIP_SETUP="1").returncode, 0)
        self.assertEqual(machine.run("--frobnicate").returncode, 2)
        self.assertIn("cmake\n", machine.run("--list").stdout)


if __name__ == "__main__":
    unittest.main()
