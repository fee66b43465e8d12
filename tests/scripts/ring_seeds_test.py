"""golden/ring_seeds.py: the seeds in tests/fuzz/corpus are those of the records' byte maps now."""

import subprocess

CORPUS = "tests/fuzz/corpus"


def test_seeds_are_those_of_the_current_records(repository, tmp_path):
    subprocess.run([repository / "scripts/golden/ring_seeds.py", tmp_path], check=True)
    for folder in ("submit_ring", "ring_records"):
        made = {path.name: path.read_bytes() for path in (tmp_path / folder).iterdir()}
        kept = {path.name: path.read_bytes() for path in (repository / CORPUS / folder).iterdir()}
        assert made and made == kept
