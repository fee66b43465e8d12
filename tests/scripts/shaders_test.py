"""compile_shader and embed_shaders: modules, variants, what make is told, and which errors are only warnings."""

import subprocess

import pytest

from conftest import PATIENCE_S

SHADER = """#version 450
layout(local_size_x_id = 0) in;
layout(push_constant) uniform Push { uint n; } push;
void main() { uint twice = push.n * FACTOR; }
"""
PLAIN = SHADER.replace("FACTOR", "2")


@pytest.fixture
def shaders(repository, tmp_path):
    class Shaders:
        out = tmp_path / "out"

        def write(self, name, text):
            (tmp_path / name).write_text(text)

        def compile(self, name):
            return subprocess.run([repository / "scripts/compile_shader", tmp_path / name, self.out],
                                  capture_output=True, text=True, timeout=PATIENCE_S)

        def modules(self, stem):
            return (self.out / f"{stem}.list").read_text().split()

        def embed(self, *stems):
            table = self.out / "table.c"
            done = subprocess.run([repository / "scripts/embed_shaders", table, *(self.out / f"{s}.list" for s in stems)],
                                  capture_output=True, text=True, timeout=PATIENCE_S)
            return done, table

    return Shaders()


def test_a_shader_gives_a_module(shaders):
    shaders.write("plain.comp", PLAIN)
    done = shaders.compile("plain.comp")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert shaders.modules("plain") == ["plain"]
    assert (shaders.out / "plain.spv").read_bytes()[:4] == b"\x03\x02\x23\x07"


def test_variants_are_modules_of_their_own(shaders):
    shaders.write("scaled.comp", "// variant: two -DFACTOR=2\n// variant: wide -DFACTOR=3 -DWIDE\n" + SHADER)
    assert shaders.compile("scaled.comp").returncode == 0
    assert shaders.modules("scaled") == ["scaled_two", "scaled_wide"]
    assert (shaders.out / "scaled_two.spv").read_bytes() != (shaders.out / "scaled_wide.spv").read_bytes()


def test_make_learns_what_was_included(shaders, tmp_path):
    shaders.write("factor.glsl", "#define FACTOR 5\n")
    shaders.write("user.comp", SHADER.replace(
        "450\n", '450\n#extension GL_GOOGLE_include_directive : require\n#include "factor.glsl"\n'))
    assert shaders.compile("user.comp").returncode == 0
    makefile = tmp_path / "Makefile"
    makefile.write_text(f"{shaders.out}/user.list:\n\techo again\ninclude {shaders.out}/user.d\n")
    again = ["make", "-q", "-f", makefile, f"{shaders.out}/user.list"]
    assert subprocess.run(again, capture_output=True).returncode == 0
    shaders.write("factor.glsl", "#define FACTOR 6\n")
    assert subprocess.run(again, capture_output=True).returncode == 1
    (tmp_path / "factor.glsl").unlink()  # gone: made again, and then it is the compiler that complains
    assert subprocess.run(again, capture_output=True).returncode == 1


def test_an_error_is_an_error(shaders):
    shaders.write("wrong.comp", PLAIN.replace("push.n", "push.m"))
    done = shaders.compile("wrong.comp")
    assert done.returncode == 1
    assert "wrong.comp:4" in done.stderr
    assert not (shaders.out / "wrong.list").exists()


def test_a_module_that_no_longer_compiles_is_not_kept(shaders):
    shaders.write("once.comp", PLAIN)
    assert shaders.compile("once.comp").returncode == 0
    shaders.write("once.comp", PLAIN.replace("push.n", "push.m"))
    assert shaders.compile("once.comp").returncode == 1
    assert not (shaders.out / "once.list").exists()


UNKNOWN = PLAIN.replace("450\n", "450\n#extension GL_NOBODY_matrix : require\n")


def test_an_unknown_extension_is_an_error(shaders):
    shaders.write("new.comp", UNKNOWN)
    assert shaders.compile("new.comp").returncode == 1


def test_an_unknown_extension_that_was_announced_drops_the_module_loudly(shaders):
    shaders.write("new.comp", "// needs: GL_NOBODY_matrix\n" + UNKNOWN)
    done = shaders.compile("new.comp")
    assert done.returncode == 0
    assert "WARNING" in done.stderr and "GL_NOBODY_matrix: built without new" in done.stderr
    assert shaders.modules("new") == ["new"]
    assert (shaders.out / "new.spv").read_bytes() == b""


def test_another_error_is_one_even_where_an_extension_was_announced(shaders):
    shaders.write("new.comp", "// needs: GL_NOBODY_matrix\n" + PLAIN.replace("push.n", "push.m"))
    assert shaders.compile("new.comp").returncode == 1


def test_the_table_is_sorted_and_compiles(shaders, repository):
    shaders.write("b.comp", PLAIN)
    shaders.write("a.comp", "// needs: GL_NOBODY_matrix\n" + UNKNOWN)
    shaders.compile("a.comp")
    shaders.compile("b.comp")
    done, table = shaders.embed("b", "a")
    assert (done.returncode, done.stderr) == (0, "")
    text = table.read_text()
    assert '{"a", NULL, 0}' in text
    assert text.index('{"a"') < text.index('{"b", words_b, ')
    assert "vulkan_shader_count = 2;" in text
    subprocess.run(["gcc", "-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Werror", f"-I{repository}", "-c", table,
                    "-o", shaders.out / "table.o"], check=True)


def test_the_table_refuses_a_name_twice_and_what_is_not_spirv(shaders):
    shaders.write("one.comp", PLAIN)
    shaders.compile("one.comp")
    done, _ = shaders.embed("one", "one")
    assert done.returncode == 1 and "two shaders are named one" in done.stderr
    (shaders.out / "one.spv").write_bytes(b"text")
    done, _ = shaders.embed("one")
    assert done.returncode == 1 and "one.spv is not SPIR-V" in done.stderr
