"""make_random_gguf: tensors and keys under the names that converters write, weights without a mean, the same file for a seed."""

import subprocess
import sys

import gguf
import numpy
import pytest

from conftest import PATIENCE_S, REPOSITORY

sys.path.insert(0, str(REPOSITORY / "scripts/golden"))
from families import gemma4_moe, qwen3_5, qwen3_5_moe, qwen3_moe  # noqa: E402


def make(path, *words):
    return subprocess.run([REPOSITORY / "scripts/make_random_gguf", path, *words], capture_output=True, text=True, timeout=PATIENCE_S)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("random")
    found = {}
    for name in ("30b-a3b-tiny", "26b-a4b-tiny", "qwen3.5-0.8b-tiny", "qwen3.5-27b-tiny", "qwen3.5-35b-a3b-tiny"):
        found[name] = folder / f"{name}.gguf"
        done = make(found[name], "--preset", name, "--like", "none")
        assert done.returncode == 0, done.stderr
        assert f"{found[name].stat().st_size} bytes" in done.stdout
    return found


@pytest.mark.parametrize("name,family,like_last", [("30b-a3b-tiny", qwen3_moe, -1), ("26b-a4b-tiny", gemma4_moe, -1),
                                                   ("qwen3.5-0.8b-tiny", qwen3_5, 1), ("qwen3.5-27b-tiny", qwen3_5, -1),
                                                   ("qwen3.5-35b-a3b-tiny", qwen3_5_moe, -1)])
def test_names_are_those_of_the_golden_checkpoints(files, name, family, like_last):
    """Compares tensor names of the first layer, of the last one (gemma4: a global one; qwen3_5: one with attention, or the one ahead), and
    outside layers."""
    config = family.CONFIG
    golden = set(family.gguf_tensors(config, {key: numpy.zeros(shape) for key, shape in family.shapes(config).items()}))
    golden.discard("rope_freqs.weight")
    reader = gguf.GGUFReader(files[name])
    assert reader.fields["general.architecture"].contents() == family.GGUF_ARCHITECTURE
    ours = {tensor.name for tensor in reader.tensors}

    def layer(names, number):
        return {key.split(".", 2)[2] for key in names if key.startswith(f"blk.{number}.")}

    layers = reader.fields[f"{family.GGUF_ARCHITECTURE}.block_count"].contents()
    assert layer(ours, 0) == layer(golden, 0)
    ahead = f"{family.GGUF_ARCHITECTURE}.nextn_predict_layers" in reader.fields
    assert layer(ours, layers - 1) == layer(golden, like_last % (config["num_hidden_layers"] + ahead))
    ends = {key for key in golden if "blk." not in key} - ({"output.weight"} if name == "qwen3.5-0.8b-tiny" else set())  # ours is tied
    assert {key for key in ours if "blk." not in key} - {"rope_freqs.weight"} == ends


def test_matrices_are_four_bits_without_a_mean(files):
    """With one, what rows have in common grows from layer to layer, and a batch wants no more experts than a row."""
    for path in files.values():
        for tensor in gguf.GGUFReader(path).tensors:
            if tensor.tensor_type != gguf.GGMLQuantizationType.Q4_0:
                assert tensor.tensor_type == gguf.GGMLQuantizationType.F32
                assert any(word in tensor.name for word in ("norm", "ffn_gate_inp", "scale", "rope", "ssm_"))
                continue
            blocks = numpy.asarray(tensor.data).reshape(-1, 18)
            nibbles = numpy.concatenate([blocks[:, 2:] & 15, blocks[:, 2:] >> 4]).astype(int) - 8
            assert nibbles.min() == -7 and nibbles.max() == 7
            assert abs(nibbles.mean()) < 5 * 4.3 / nibbles.size ** 0.5
            scales = blocks[:, :2].copy().view(numpy.float16)
            assert scales.min() > 0 and numpy.isfinite(scales).all()


def test_a_seed_is_a_file(files, tmp_path):
    name = "26b-a4b-tiny"
    again, other = tmp_path / "again.gguf", tmp_path / "other.gguf"
    assert make(again, "--preset", name, "--like", "none").returncode == 0
    assert make(other, "--preset", name, "--like", "none", "--seed", "2").returncode == 0
    assert again.read_bytes() == files[name].read_bytes() != other.read_bytes()


def test_sizes_can_be_said_one_by_one(files, tmp_path):
    """The preset's own numbers by hand are the preset's file."""
    path = tmp_path / "by-hand.gguf"
    done = make(path, "--shape", "2,128,4,2,32,32", "--experts", "16,2", "--vocab", "768", "--untied", "--like", "none")
    assert done.returncode == 0, done.stderr
    assert path.read_bytes() == files["30b-a3b-tiny"].read_bytes()


def test_what_does_not_fit_together_is_refused(tmp_path):
    path = tmp_path / "none.gguf"
    for words in (("--preset", "30b-a3b-tiny", "--untied"), ("--like", "none"), ("--preset", "9b"), ("--shape", "2,33,4,2,16,96"),
                  ("--shape", "2,64,4,2,16,96", "--experts", "4,5")):
        assert make(path, *words).returncode == 2, words
    assert not path.exists()
