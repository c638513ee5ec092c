"""Pictures as untrusted data: archives whose samples are not sound, numbers of any size, and data that change between two runs."""

import io
import json
import os
import resource
import tarfile

import support

RUN = """\
task: image_classification
seed: 3
threads: 1
output: {dir: run}
model: {architecture: vit, classes: 2, image_size: 16, vit: {patch_size: 8, hidden: 16, layers: 1, heads: 2}}
augment: {rand_augment: none, mixing: 0, erasing: 0}
train: {steps: 2, batch_size: 2}
schedule: {warmup_steps: 0}
log: {every: 1}
eval: {every: 0}
checkpoint: {every: 1, keep_best: false}
"""

DIFFUSION = """\
task: diffusion
seed: 3
threads: 1
output: {dir: run}
model: {image_size: 8, patch_size: 4, channels: 3, classes: 2, layers: 1, hidden: 16, heads: 2}
train: {steps: 1, batch_size: 2}
schedule: {warmup_steps: 0}
eval: {every: 0}
sample: {pictures: 0}
"""


def plain(color, side=16):
    return support.png(side, side, (b"\0" + bytes(color) * side) * side)


RED, BLUE = plain((200, 10, 10)), plain((10, 10, 200))


class PictureData(support.MohTest):
    def setUp(self):
        super().setUp()
        self.write("run.yaml", RUN)

    def archive(self, *members, name="x.tar"):
        with tarfile.open(self.folder / name, "w", format=tarfile.USTAR_FORMAT) as archive:
            for member, contents in members:
                entry = tarfile.TarInfo(member)
                entry.size = len(contents)
                archive.addfile(entry, io.BytesIO(contents))
        return name

    def sound(self, name="x.tar", first=RED, second=BLUE):
        return self.archive(("0.png", first), ("0.cls", b"0"), ("1.png", second), ("1.cls", b"1"), name=name)

    def test_a_sample_with_two_pictures_is_refused_by_every_command(self):
        self.moh("train", "run.yaml", f"data.train={self.sound('sound.tar')}")
        self.write("dit.yaml", DIFFUSION)
        self.archive(("0.left.png", RED), ("0.right.png", RED), ("0.cls", b"0"), ("1.png", BLUE), ("1.cls", b"1"))
        for command in (("train", "run.yaml", "data.train=x.tar", "output.dir=other"),
                        ("train", "dit.yaml", "data.train=x.tar", "output.dir=other"), ("eval", "--checkpoint", "run", "data=x.tar"),
                        ("analyze", "--checkpoint", "run", "data=x.tar")):
            with self.subTest(command=command[:2]):
                said = self.moh(*command, code=support.INPUT_ERROR)
                self.assert_says(said, "x.tar: member 0.left.png: expected a picture of the key 0", "0.right.png")

    def test_labels_of_any_number_are_refused_at_once(self):
        for label in "2", "1000", "15075141", "2147483647", "9223372036854775807":
            with self.subTest(label=label):
                self.archive(("0.png", RED), ("0.cls", label.encode()))
                said = self.moh("train", "run.yaml", "data.train=x.tar", code=support.INPUT_ERROR)
                self.assert_says(said, "x.tar", "0.", "less than", f"found {label}")
        used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        self.assertLess(used, 1 << 20)  # KiB

    def test_labels_are_compared_with_the_classes_of_the_training(self):
        self.moh("train", "run.yaml", f"data.train={self.sound()}")
        self.archive(("7.png", RED), ("7.cls", b"7"), name="held_out.tar")
        said = self.moh("eval", "--checkpoint", "run", "data=held_out.tar", code=support.INPUT_ERROR)
        self.assert_says(said, "held_out.tar, picture 0 at byte 512, 7.png: label: expected less than 2", "found 7")

    def test_a_damaged_index_is_made_again(self):
        self.moh("train", "run.yaml", f"data.train={self.sound()}", "output.dir=whole")
        index = self.folder / ".x.tar.moh-index"
        contents = bytearray(index.read_bytes())
        header = 8 + int.from_bytes(contents[:8], "little")
        place = json.loads(contents[8:header])["labels"]["data_offsets"][0]
        contents[header + place] ^= 1  # the first label
        index.write_bytes(contents)
        said = self.moh("train", "run.yaml", "data.train=x.tar")
        self.assert_says(said, ".x.tar.moh-index: checksum: expected", "the index is made again")
        self.assert_same_state("whole", "run")

    def test_a_broken_picture_of_an_archive_is_named_by_its_member(self):
        self.archive(("a/0.png", RED), ("a/._0.png", b"AppleDouble"), ("b/1.png", b"no picture"), ("__MACOSX/b/._1.png", b"x"))
        said = self.moh("train", "run.yaml", "data.train=x.tar", code=support.INPUT_ERROR)
        self.assert_says(said, "x.tar, picture 1 at byte", ", b/1.png: picture: expected a JPEG or PNG file")

    def resumed(self, *settings, code):
        return self.moh("train", "run.yaml", *settings, "--resume", "--allow-changes" if code == support.DONE else "threads=1",
                        code=code)

    def test_pictures_that_changed_before_a_resume_are_noticed(self):
        for name, contents in ("a/0.png", RED), ("a/1.png", RED), ("b/0.png", BLUE), ("b/1.png", BLUE):
            self.write(f"d/{name}", contents)
        self.moh("train", "run.yaml", "data.train=d")
        classes, other = self.folder / "d", self.folder / "t"

        def swap():
            (classes / "a").rename(other)
            (classes / "b").rename(classes / "a")
            other.rename(classes / "b")
        swap()
        refused = self.resumed("data.train=d", code=support.INPUT_ERROR)
        self.assert_says(refused, "the data are not those that the checkpoint was trained on", "data.train: 4 pictures, 2 classes")
        swap()
        self.assert_says(self.moh("train", "run.yaml", "data.train=d", "--resume"), "from step 2")
        self.write("d/b/1.png", plain((10, 10, 200), 17))  # of another size
        self.resumed("data.train=d", code=support.INPUT_ERROR)
        self.assert_says(self.resumed("data.train=d", code=support.DONE), "results differ")

    def test_archives_that_changed_before_a_resume_are_noticed(self):
        one, two = self.sound("s1.tar"), self.sound("s2.tar", plain((200, 10, 11)), plain((10, 10, 201)))
        settings = (f"data.train=[{one}, {two}]",)
        self.moh("train", "run.yaml", *settings)
        time = (self.folder / two).stat()
        self.sound("s2.tar", plain((200, 10, 12)), plain((10, 10, 201)))  # of the same size and time
        os.utime(self.folder / two, ns=(time.st_atime_ns, time.st_mtime_ns))
        self.assertEqual((self.folder / two).stat().st_size, time.st_size)
        self.resumed(*settings, code=support.INPUT_ERROR)

    def test_an_evaluation_that_resizes_nothing(self):
        self.moh("train", "run.yaml", "data.drawn=8", "data.drawn_validation=8", "model.classes=8")
        self.assert_says(self.moh("eval", "--checkpoint", "run", "data.eval_crop=original", code=support.INPUT_ERROR),
                         "expected 16 x 16 for data.eval_crop: original, found 18 x 18")
        self.assert_says(self.moh("eval", "--checkpoint", "run", "data.eval_crop=original", "data.eval_resize=20",
                                  code=support.CONFIG_ERROR), "data.eval_resize: expected 0, as data.eval_crop: original")

    def test_many_classes_are_planned_and_evaluated_in_little_memory(self):
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        self.write("dit.yaml", DIFFUSION)
        self.moh("plan", "run.yaml", "model.classes=4194304", "data.drawn=8")
        self.moh("plan", "dit.yaml", "model.classes=16777216", "data.drawn=8")
        used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        self.assertLess(used, max(before, 200 << 10))  # KiB


if __name__ == "__main__":
    support.main()
