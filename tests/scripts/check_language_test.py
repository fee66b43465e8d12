"""check_language: each mannerism of the house style is found in prose, and code and data may hold the same words."""

import pytest


@pytest.mark.parametrize("path,text,line,words", [
    ("proto/a.h", "/* a\n * whoever asks */\nint a;\n", 2, "whoever"),
    ("proto/a.h", "int a; // Refuses to be more\n", 1, "Refuses to"),
    ("proto/a.c", 'const char *words = "so to say";\n', 1, "so to say"),
    ("proto/README.md", "# proto\n\nThe picture is read.\n", 3, "picture"),
    ("scripts/tool.py", 'x = 1\n\n\ndef f():\n    """Of what it is."""\n', 5, "Of what"),
    ("scripts/tool", "#!/usr/bin/env bash\necho picture # nobody reads\n", 2, "nobody"),
    ("worker/a.c", "int kv_quantization_wish;\n", 1, "kv_quantization_wish"),
])
def test_finds(tree, path, text, line, words):
    tree.write(path, text)
    tree.assert_violation("check_language", f"{path}:{line}", words)


@pytest.mark.parametrize("path,text", [
    ("proto/a.c", 'int picture_count; const char *prompt = "What is in the picture?";\n'),
    ("proto/a.c", 'const char *glob = "/* picture */";\n'),
    ("scripts/tool.py", 'words = "nobody knows the picture"\n'),
    ("tests/golden/a/PROVENANCE.md", "whoever\n"),
    ("proto/README.md", "The image is read after the header.\n"),
])
def test_allows(tree, path, text):
    tree.write(path, text)
    tree.assert_clean("check_language")
