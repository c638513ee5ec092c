"""docs/ten_minutes.md works: its commands, in their order, as a new user gives them, with fewer steps and tokens."""

import os
import pathlib
import re
import shlex

import support

ROOT = pathlib.Path(os.environ["MOH_SOURCE_DIR"])
FEWER = {"train": ("train.steps=4", "train.batch_size=2", "eval.every=2", "eval.max_tokens=512", "checkpoint.every=4", "sample.tokens=2"),
         "eval": ("eval.max_tokens=512",), "analyze": ("--max-tokens", "512")}


class TenMinutes(support.MohTest):
    def test_the_commands(self):
        if not pathlib.Path("/usr/share/common-licenses/GPL-3").is_file():
            self.skipTest("moh test skipped: no /usr/share/common-licenses, which Debian has")
        page = (ROOT / "docs/ten_minutes.md").read_text(encoding="utf-8")
        (configuration,) = re.findall(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
        self.write("tune.yaml", configuration)
        (self.folder / "configs").symlink_to(ROOT / "configs")
        commands = [shlex.split(line, comments=True)[1:] for line in re.findall(r"^    moh .*", page, re.MULTILINE)]
        self.assertEqual([words[0] for words in commands],
                         ["train", "convert", "checkpoint", "eval", "plan", "train", "eval", "analyze", "generate", "convert"])
        for words in commands:
            output = self.moh(*words, *FEWER.get(words[0], ()))
            if words[0] == "train" and "tune.yaml" in words:
                self.assert_says(output, "router query_norm: KL divergence from the dense model", "75% of them active")
        for name in ("config.json", "model.safetensors", "tokenizer.json", "modeling_moh_llama.py"):
            self.assertTrue((self.folder / "moh-llama" / name).is_file(), name)


if __name__ == "__main__":
    support.main()
