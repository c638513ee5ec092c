"""Renders the templates of templates/ for the conversations of conversations.json, as transformers does, into golden.json.

The settings are those of transformers.utils.chat_template_utils: golden_test.py compares with its own function."""

import datetime
import json
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
NOON = datetime.datetime(2026, 11, 28, 12, tzinfo=datetime.timezone.utc)
TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}


def inputs():
    """(template's name, its text, conversation's name, its messages, add_generation_prompt)."""
    conversations = json.loads((HERE / "conversations.json").read_text())
    for path in sorted((HERE / "templates").glob("*.jinja")):
        for name, messages in conversations.items():
            for prompts in (False, True):
                yield path.stem, path.read_text(), name, messages, prompts


def environment():
    import jinja2
    import jinja2.ext
    import jinja2.sandbox

    class Generation(jinja2.ext.Extension):
        tags = {"generation"}

        def parse(self, parser):
            line = next(parser.stream).lineno
            body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
            return jinja2.nodes.CallBlock(self.call_method("_generation"), [], [], body).set_lineno(line)

        def _generation(self, caller):
            return caller()

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    made = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                                        extensions=[Generation, jinja2.ext.loopcontrols])
    made.filters["tojson"] = lambda x, ensure_ascii=False, indent=None, separators=None, sort_keys=False: json.dumps(
        x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
    made.globals.update(raise_exception=raise_exception, strftime_now=NOON.strftime)
    return made


def rendered(made, template, variables):
    """{"text": ...}, {"raised": the template's own refusal} or {"fails": true}."""
    import jinja2

    try:
        return {"text": made.from_string(template).render(**variables)}
    except (jinja2.exceptions.TemplateError, TypeError, AttributeError, ArithmeticError) as error:
        return {"raised": str(error)} if type(error) is jinja2.exceptions.TemplateError else {"fails": True}


def chats(made):
    for template, text, conversation, messages, prompts in inputs():
        variables = {"messages": messages, "tools": None, "documents": None, "add_generation_prompt": prompts, **TOKENS}
        yield {"template": template, "conversation": conversation, "add_generation_prompt": prompts, **rendered(made, text, variables)}


def expressions(made):
    """Pieces of templates, for what the chat templates do not show."""
    variables = {"items": [3, 1, 2], "names": ["b", "a"], "text": "  Straße du Café-au-lait \n", "none": None, "yes": True,
                 "object": {"b": 1, "a": [1.5, None, True, "x'y\"z\n"]}, "people": [{"name": "x", "age": 3}, {"name": "y"}]}
    lines = (HERE / "expressions.txt").read_text().splitlines()
    for line in lines:
        yield {"template": line, **rendered(made, line.replace("↵", "\n"), variables)}


def main():
    made = environment()
    for name, cases in (("golden.json", chats(made)), ("golden_expressions.json", expressions(made))):
        text = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
        (HERE / name).write_text(f"[\n{text}\n]\n")


if __name__ == "__main__":
    main()
