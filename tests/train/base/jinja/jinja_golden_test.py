"""The golden files of templates, rendered again by the jinja2 and the transformers that are installed."""

import json
import pathlib
import sys
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[3] / "support"))
import python_packages  # noqa: E402

python_packages.require("jinja2", "transformers")

import make_golden  # noqa: E402
from transformers.utils import chat_template_utils  # noqa: E402


class Golden(unittest.TestCase):
    def check(self, name, cases):
        golden = json.loads((make_golden.HERE / name).read_text())
        for expected, found in zip(golden, cases, strict=True):
            self.assertEqual(found, expected)

    def test_the_golden_files_are_what_jinja2_renders(self):
        made = make_golden.environment()
        self.check("golden.json", make_golden.chats(made))
        self.check("golden_expressions.json", make_golden.expressions(made))

    def test_transformers_renders_the_same_texts(self):
        texts = {(case["template"], case["conversation"], case["add_generation_prompt"]): case["text"]
                 for case in json.loads((make_golden.HERE / "golden.json").read_text()) if "text" in case}
        compared = 0
        for template, text, conversation, messages, prompts in make_golden.inputs():
            key = (template, conversation, prompts)
            if key not in texts or "strftime_now" in text:
                continue
            rendered, _ = chat_template_utils.render_jinja_template(conversations=[messages], chat_template=text,
                                                                    add_generation_prompt=prompts, **make_golden.TOKENS)
            self.assertEqual(rendered[0], texts[key], key)
            compared += 1
        self.assertGreater(compared, 400)


if __name__ == "__main__":
    python_packages.main()
