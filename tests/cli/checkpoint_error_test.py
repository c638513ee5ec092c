"""A damaged checkpoint is never used: moh says which file and tensor it is, and goes back only when told to."""

import json
import shutil
import struct
import unittest

import support

MODEL, OPTIMIZER = "model.safetensors", "optimizer-00000-of-00001.safetensors"


def place_of_tensor(path, name):
    """Where the bytes of a tensor begin in a safetensors file."""
    data = path.read_bytes()
    (header_size,) = struct.unpack("<Q", data[:8])
    return 8 + header_size + json.loads(data[8:8 + header_size])[name]["data_offsets"][0]


class DamagedCheckpoint(support.MohTest):
    def setUp(self):
        super().setUp()
        self.config_file = self.config()
        self.moh("train", self.config_file)
        self.older, self.newer = self.checkpoints()

    def flip(self, path, at, bit=3):
        with path.open("r+b") as file:
            file.seek(at)
            (byte,) = file.read(1)
            file.seek(at)
            file.write(bytes([byte ^ (1 << bit)]))

    def refused(self, *parts, resume_only=False):
        """All commands that read the checkpoint refuse it in the same words, and change nothing."""
        commands = [("train", self.config_file, "--resume")]
        if not resume_only:
            commands += [("eval", "--checkpoint", "run"), ("generate", "--checkpoint", "run", "--prompt", "a")]
        before = sorted(path.name for path in (self.folder / "run/checkpoints").iterdir())
        for arguments in commands:
            self.assert_says(self.moh(*arguments, code=support.INPUT_ERROR), "step_00000008", *parts)
        self.assertEqual(sorted(path.name for path in (self.folder / "run/checkpoints").iterdir()), before)

    def test_a_flipped_bit_in_a_weight(self):
        name = "model.layers.1.self_attn.q_proj.weight"
        self.flip(self.newer / MODEL, place_of_tensor(self.newer / MODEL, name) + 17)
        listed = json.loads((self.newer / "manifest.json").read_text())["files"]
        expected = next(file["tensors"][name] for file in listed if file["name"] == MODEL)
        self.refused(MODEL, f"{name}: expected checksum {expected}, found ", "damaged")

    def test_a_flipped_bit_in_the_optimizer_state(self):
        path = self.newer / OPTIMIZER
        self.flip(path, path.stat().st_size - 5)
        self.refused(OPTIMIZER, "expected checksum ", "damaged", resume_only=True)
        # The weights are sound, and no more is needed to use them.
        self.moh("eval", "--checkpoint", "run")

    def test_flipped_bits_in_the_other_files(self):
        for name in ("trainer.json", "config.yaml", "manifest.json"):
            with self.subTest(name=name):
                path = self.newer / name
                self.flip(path, path.stat().st_size // 2)
                self.refused(name)
                self.flip(path, path.stat().st_size // 2)
        self.moh("eval", "--checkpoint", "run")

    def test_files_of_another_length(self):
        for name in (MODEL, OPTIMIZER, "trainer.json", "manifest.json"):
            with self.subTest(name=name):
                path = self.newer / name
                whole = path.read_bytes()
                for contents in (whole[:-1], whole[:10], b"", whole + b"\0"):
                    path.write_bytes(contents)
                    self.refused(name)
                path.write_bytes(whole)
        self.moh("eval", "--checkpoint", "run")

    def test_a_file_full_of_zeros(self):
        path = self.newer / MODEL
        path.write_bytes(bytes(path.stat().st_size))
        self.refused(MODEL)

    def test_missing_and_foreign_files(self):
        whole = (self.newer / MODEL).read_bytes()
        (self.newer / MODEL).unlink()
        self.refused(MODEL)
        shutil.copy(self.older / MODEL, self.newer / MODEL)
        self.refused(MODEL, "expected checksum ")
        (self.newer / MODEL).write_bytes(whole)
        (self.newer / "extra.bin").write_bytes(b"?")
        self.refused("extra.bin")

    def test_a_renamed_folder(self):
        self.newer.rename(self.newer.with_name("step_00000009"))
        for command in (("train", self.config_file, "--resume"), ("eval", "--checkpoint", "run"),
                        ("convert", "--from", "run", "--to", "copy.safetensors")):
            output = self.moh(*command, code=support.INPUT_ERROR)
            self.assert_says(output, "step_00000009", "step: expected 9, found 8", "renamed")

    def test_allow_older_goes_back_and_arrives_at_the_same_end(self):
        self.moh("train", self.config_file, "output.dir=whole")
        self.flip(self.newer / MODEL, 1000)
        output = self.moh("train", self.config_file, "--resume", "--allow-older")
        self.assert_says(output, "warning: ", MODEL, "falling back to the previous checkpoint", "resume: from step 4")
        self.assert_same_state("whole", "run")
        self.assert_same_history("whole", "run")
        # What was damaged is not thrown away.
        self.assertEqual(len(list((self.folder / "run/checkpoints").glob("damaged-step_00000008*"))), 1)

    def test_allow_older_with_nothing_older_left(self):
        for folder in (self.older, self.newer):
            (folder / "manifest.json").unlink()
        before = sorted(path.name for path in (self.folder / "run/checkpoints").iterdir())
        metrics = (self.folder / "run/metrics.jsonl").read_bytes()
        output = self.moh("train", self.config_file, "--resume", "--allow-older", code=support.INPUT_ERROR)
        self.assert_says(output, "expected an intact checkpoint, found 2 damaged", "--overwrite")
        # A run is not begun anew by an option that goes back.
        self.assertEqual(sorted(path.name for path in (self.folder / "run/checkpoints").iterdir()), before)
        self.assertEqual((self.folder / "run/metrics.jsonl").read_bytes(), metrics)

    @unittest.skipUnless(support.build_has_failpoints(), "this build has no failure points")
    def test_a_checkpoint_that_the_system_does_not_let_read_is_not_damaged(self):
        before = sorted(path.name for path in (self.folder / "run/checkpoints").iterdir())
        refusals = 0
        for number in range(1, 40):
            for point, error in (("open", "EACCES"), ("read", "EIO")):
                result = self.command("train", self.config_file, "--resume", "--allow-older",
                                      env={"MOH_FAIL": f"io:{point}_{number}={error}"})
                with self.subTest(point=point, number=number, output=result.output):
                    self.assertIn(result.returncode, (support.DONE, support.INPUT_ERROR))
                    refusals += result.returncode == support.INPUT_ERROR
                    self.assertEqual(sorted(path.name for path in (self.folder / "run/checkpoints").iterdir()), before)
        self.assertGreater(refusals, 10)  # the points were met

    def test_another_folder_than_a_checkpoint(self):
        (self.folder / "empty").mkdir()
        for path, found in (("empty", "none of them"), ("missing", "no such file or folder"), ("text.txt", "another")):
            output = self.moh("eval", "--checkpoint", path, code=support.INPUT_ERROR)
            self.assert_says(output, f"{path}: expected ", f"found {found}")


if __name__ == "__main__":
    support.main()
