#!/usr/bin/env python3
"""Makes tests/golden/templates from Python's jinja2 with Hugging Face's settings.

Usage: scripts/golden/chat_templates.py [--source FOLDER --out FOLDER]
Needs jinja2 and transformers (without torch). Renders every *.jinja of the source folder with every conversation of
chat_conversations.py, and every snippet of jinja_snippets.py; writes inputs.json, snippets.json and one
expected/<template>.json per template. The environment is transformers' own (_compile_jinja_template); only
strftime_now is fixed to a point in time, so that the files can be compared.
"""
import argparse
import datetime
import json
import os
import pathlib

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
from transformers.utils import chat_template_utils  # noqa: E402

from chat_conversations import CONVERSATIONS  # noqa: E402
from jinja_snippets import SNIPPETS  # noqa: E402

NOW = datetime.datetime(2024, 7, 6, 9, 5, 3)
ROOT = pathlib.Path(__file__).resolve().parents[2]


def render(source, variables):
    """What rendering gives: the text, or the kind and words of the error."""
    try:
        template = chat_template_utils._compile_jinja_template(source)
        template.environment.globals["strftime_now"] = NOW.strftime
        text = template.render(**json.loads(json.dumps(variables)))
        text.encode()
        return {"output": text}
    except Exception as error:  # whatever a template may raise is what is recorded
        kind = type(error).__name__
        return {"error": kind, "message": str(error)} if kind in MESSAGES else {"error": kind}


# Kinds of errors whose words are part of the contract.
MESSAGES = ("TemplateError", "UndefinedError", "SecurityError")


def write(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data, ensure_ascii=False, indent=1, separators=(",", ":")) + "\n")


def main():
    golden = ROOT / "tests/golden/templates"
    options = argparse.ArgumentParser()
    options.add_argument("--source", type=pathlib.Path, default=golden / "source")
    options.add_argument("--out", type=pathlib.Path, default=golden)
    options = options.parse_args()
    write(options.out / "inputs.json", CONVERSATIONS)
    for path in sorted(options.source.glob("*.jinja")):
        source = path.read_bytes().decode()
        results = {name: render(source, variables) for name, variables in CONVERSATIONS.items()}
        write(options.out / "expected" / (path.stem + ".json"), results)
    write(options.out / "snippets.json",
          [{"template": template, "variables": variables, **render(template, variables)}
           for template, variables in SNIPPETS])


if __name__ == "__main__":
    main()
