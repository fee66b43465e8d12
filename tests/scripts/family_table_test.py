"""The table of worker/model/family/README.md lists exactly the families that have golden data."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_the_table_lists_every_family():
    text = (ROOT / "worker/model/family/README.md").read_text()
    rows = text.split("<!-- family table -->\n")[1].split("<!-- end of family table -->")[0]
    listed = re.findall(r"^\| (\w+) \|", rows, re.M)[1:]
    golden = ROOT / "tests/golden/checkpoints"
    assert listed == sorted(folder.name for folder in golden.iterdir() if folder.is_dir())
    families = ROOT / "scripts/golden/families"
    assert listed == sorted(file.stem for file in families.glob("[a-z]*.py") if file.stem != "shared")
