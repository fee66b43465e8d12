"""test_list: every test is in one tier, sanitizers take what the tags say, and a wrong tag is an error."""

import shutil
import subprocess


def listed(repository, *arguments):
    done = subprocess.run([repository / "scripts/test_list", *arguments], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_the_tiers_divide_the_tests(repository):
    every = listed(repository, "runs")
    short, long_tier = listed(repository, "--tier", "short", "runs"), listed(repository, "--tier", "long", "runs")
    assert sorted(short + long_tier) == sorted(every) and not set(short) & set(long_tier)
    sources = sorted(str(path.relative_to(repository)) for path in (repository / "tests").rglob("*_test.c"))
    assert sorted(listed(repository, "sources")) == sources


def plant(tmp_path, repository, path, text):
    (tmp_path / "scripts").mkdir(exist_ok=True)
    shutil.copy(repository / "scripts/test_list", tmp_path / "scripts/test_list")
    target = tmp_path / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)


def test_tags_decide(tmp_path, repository):
    plant(tmp_path, repository, "tests/unit/a_test.c", "/* a */\n// tags: threads\n#include <x.h>\n")
    plant(tmp_path, repository, "tests/unit/b_test.c", "/* b */\n// tags: long no-sanitizers\n#include <x.h>\n")
    plant(tmp_path, repository, "tests/unit/c_test.c", "/* c */\n#include <x.h>\n// tags: long\n")
    plant(tmp_path, repository, "tests/vulkan/d_test.c", "// tags: native\n#include <x.h>\n")
    assert listed(tmp_path, "--tier", "short", "runs") == ["build/tests/unit/a_test", "build/tests/unit/c_test"]
    assert listed(tmp_path, "--tier", "long", "runs") == ["build/tests/unit/b_test", "native:build/tests/vulkan/d_test"]
    assert listed(tmp_path, "--sanitizers", "thread", "runs") == ["build/san-thread/tests/unit/a_test"]
    assert listed(tmp_path, "--sanitizers", "address,undefined", "sources") == [
        "tests/unit/a_test.c", "tests/unit/c_test.c", "tests/vulkan/d_test.c"]


def test_the_longest_start_first(tmp_path, repository):
    plant(tmp_path, repository, "tests/unit/a_test.c", "#include <x.h>\n")
    plant(tmp_path, repository, "tests/unit/b_test.c", "// tags: longest\n#include <x.h>\n")
    assert listed(tmp_path, "runs") == ["build/tests/unit/b_test", "build/tests/unit/a_test"]


def test_the_build_of_fuzz_targets_runs_the_tests_of_its_sanitizers(tmp_path, repository):
    plant(tmp_path, repository, "tests/unit/a_test.c", "#include <x.h>\n")
    plant(tmp_path, repository, "tests/unit/b_test.c", "// tags: no-address-sanitizer\n#include <x.h>\n")
    assert listed(tmp_path, "--sanitizers", "fuzz", "runs") == ["build/san-fuzz/tests/unit/a_test"]


def test_arm_tags_name_the_cpus(tmp_path, repository):
    plant(tmp_path, repository, "tests/unit/a_test.c", "// tags: threads arm\n#include <x.h>\n")
    plant(tmp_path, repository, "tests/unit/b_test.c", "// tags: arm-tiers\n#include <x.h>\n")
    plant(tmp_path, repository, "tests/unit/c_test.c", "#include <x.h>\n")
    plant(tmp_path, repository, "tests/unit/d_test.c", "// tags: arm-deaths\n#include <x.h>\n")
    assert listed(tmp_path, "--arm", "sources") == ["tests/unit/a_test.c", "tests/unit/b_test.c", "tests/unit/d_test.c"]
    b_test = "build/aarch64/tests/unit/b_test"
    assert listed(tmp_path, "--arm", "runs") == [
        "max:build/aarch64/tests/unit/a_test", f"max:{b_test}", f"neoverse-n1:{b_test}", f"cortex-a57:{b_test}",
        "max-deaths:build/aarch64/tests/unit/d_test"]
    assert "build/tests/unit/b_test" in listed(tmp_path, "--tier", "short", "runs")


def test_refuses_an_unknown_tag(tmp_path, repository):
    plant(tmp_path, repository, "tests/unit/a_test.c", "// tags: slow\n")
    done = subprocess.run([tmp_path / "scripts/test_list", "runs"], capture_output=True, text=True)
    assert done.returncode != 0 and "tests/unit/a_test.c: unknown tags: slow" in done.stderr
