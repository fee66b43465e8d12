#!/usr/bin/env python3
"""Writes the required tests of the official JSON Schema test suite for two drafts, one file each.

usage: scripts/golden/json_schema_suite.py SUITE OUT
SUITE is a checkout of json-schema-org/JSON-Schema-Test-Suite. OUT/<draft>.json is a list of groups {file, description, schema,
texts, valid}; each text is one instance as JSON text. Schemas without $schema get the draft's.
"""

import json
import pathlib
import sys

DRAFTS = {
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
    "draft7": "http://json-schema.org/draft-07/schema#",
}


def text_of(value):
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        text = json.dumps(value)
    return text


def group_of(path, group, uri):
    schema = group["schema"]
    if isinstance(schema, dict) and "$schema" not in schema:
        schema = {"$schema": uri, **schema}
    return {
        "file": path.name,
        "description": group["description"],
        "schema": schema,
        "texts": [text_of(test["data"]) for test in group["tests"]],
        "valid": [test["valid"] for test in group["tests"]],
    }


def main():
    suite, out = map(pathlib.Path, sys.argv[1:3])
    for draft, uri in DRAFTS.items():
        groups = [
            group_of(path, group, uri)
            for path in sorted((suite / "tests" / draft).glob("*.json"))
            for group in json.loads(path.read_text(encoding="utf-8"))
        ]
        lines = ",\n".join(json.dumps(group, ensure_ascii=True, separators=(",", ":")) for group in groups)
        (out / f"{draft}.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
