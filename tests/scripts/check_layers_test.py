"""check_layers: allowed includes pass, and each violation is reported at its line."""

import pytest

ALLOWED = [
    ("proto/limits_check.c", '"proto/result.h"'),
    ("shm/spsc_ring.c", '"shm/spsc_ring.h"'),
    ("frontend/serve/worker/worker_link.c", '"shm/spsc_ring.h"'),
    ("worker/schedule/frontend_link.c", '"shm/spsc_ring.h"'),
    ("frontend/serve/worker/worker_segment.c", '"shm/segment.h"'),
    ("frontend/serve/worker/worker_supervisor.c", '"shm/segment.h"'),
    ("tests/ring/order_test.c", '"shm/spsc_ring.h"'),
    ("frontend/http/http_server.c", "<event2/http.h>"),
    ("frontend/main.c", "<event2/event.h>"),
    ("worker/backend/cpu/matmul.c", "<cblas.h>"),
    ("worker/backend/vulkan/device/vulkan_device.c", "<vulkan/vulkan.h>"),
    ("tests/vulkan/vulkan_device_test.c", "<vulkan/vulkan.h>"),
    ("tests/support/vulkan_fixture.h", "<vulkan/vulkan.h>"),
    ("scripts/bench/vulkan_copy_bench.c", '"worker/backend/vulkan/device/vulkan_memory.h"'),
    ("worker/backend/vulkan/step/vulkan_backend.c", '"worker/backend/vulkan/device/vulkan_memory.h"'),
    ("worker/schedule/worker_process.c", '"worker/backend/host/vulkan_tier.h"'),
    ("frontend/image/jpeg_decoder.c", "<turbojpeg.h>"),
    ("worker/schedule/step_loop.c", '"worker/plan/plan.h"'),
    ("frontend/serve/engine/chat_engine.c", '"frontend/base/text_buffer.h"'),
    ("worker/backend/cpu/ops/cpu_linear.c", '"worker/plan/plan.h"'),
]

FORBIDDEN = [
    ("proto/limits_check.c", '"shm/doorbell.h"', "proto/ may include only"),
    ("shm/doorbell.c", '"frontend/prompt/tokenizer/tokenizer.h"', "shm/ may include only"),
    ("frontend/api/chat/chat_request.c", '"worker/plan/plan.h"', "frontend/ may include only"),
    ("worker/schedule/step_loop.c", '"frontend/prompt/tokenizer/tokenizer.h"', "worker/ may include only"),
    ("tests/unit/worker/plan_test.c", '"frontend/prompt/tokenizer/tokenizer.h"', "tests/unit/worker/ may include only"),
    ("frontend/serve/other_link.c", '"shm/spsc_ring.h"', "touch rings"),
    ("worker/schedule/step_loop.c", '"shm/spsc_ring.h"', "touch rings"),
    ("worker/model/llama.c", '"shm/segment.h"', "know the segment"),
    ("worker/model/llama.c", '"worker/backend/cpu/thread_pool.h"', "worker/model/ may include only"),
    ("worker/plan/plan_check.c", '"worker/model/model.h"', "worker/plan/ may include only"),
    ("frontend/base/text_buffer.c", '"frontend/prompt/tokenizer/tokenizer.h"', "frontend/base/ may include only"),
    ("frontend/api/chat/chat_request.c", '"frontend/serve/engine/chat_engine.h"', "frontend/api/chat/ may include only"),
    ("frontend/novel/thing.c", '"frontend/base/text_buffer.h"', "has no row in FOLDER_MAY_INCLUDE"),
    ("frontend/api/chat/chat_request.c", "<event2/http.h>", "libevent stays in"),
    ("worker/main.c", "<event2/event.h>", "libevent stays in"),
    ("frontend/api/chat/chat_request.c", "<png.h>", "libpng or libwebp stays in"),
    ("worker/main.c", "<webp/decode.h>", "libpng or libwebp stays in"),
    ("worker/model/llama.c", "<vulkan/vulkan.h>", "Vulkan stays in"),
    ("tests/ops/linear_test.c", "<vulkan/vulkan.h>", "Vulkan stays in"),
    ("worker/backend/vulkan/device/vulkan_listing.h", "<vulkan/vulkan.h>", "Vulkan stays in"),
    ("worker/backend/device_listing.c", '"worker/backend/vulkan/device/vulkan_memory.h"', "others know of the Vulkan backend only"),
    ("scripts/bench/step_bench.c", '"worker/backend/vulkan/device/vulkan_memory.h"', "others know of the Vulkan backend only"),
    ("worker/model/llama.c", "<cblas.h>", "OpenBLAS stays in"),
    ("frontend/api/chat/chat_request.c", '"chat_request.h"', "not a path from the top"),
    ("tests/unit/proto/result_test.c", '"proto/result.c"', "never included"),
]


def include(target):
    return f"/* why */\n#include <stdio.h>\n#  include {target}\n"


@pytest.mark.parametrize("path,target", ALLOWED)
def test_allows(tree, path, target):
    tree.write(path, include(target))
    tree.assert_clean("check_layers")


@pytest.mark.parametrize("path,target,words", FORBIDDEN)
def test_refuses(tree, path, target, words):
    if target.endswith('.c"'):
        tree.write(target.strip('"'), "int defined;\n")
    tree.write(path, include(target))
    tree.assert_violation("check_layers", f"{path}:3", words)


def test_refuses_two_rules_at_once(tree):
    tree.write("worker/schedule/worker_process.c", include('"worker/backend/vulkan/device/vulkan_memory.h"'))
    code, lines = tree.check("check_layers")
    assert code == 1
    assert [words for words in ("worker/schedule/ may include only", "others know of the Vulkan backend only")
            if not any(words in line for line in lines)] == []


def test_refuses_a_circle_of_modules(tree):
    """A module is a .c and its .h: here the header of one and the source of the other close the circle."""
    tree.write("frontend/http/one.h", include('"frontend/http/two.h"'))
    tree.write("frontend/http/two.h", "int two;\n")
    tree.write("frontend/http/two.c", include('"frontend/http/one.h"'))
    tree.assert_violation("check_layers", "frontend/http/one.h:1", "a circle of includes: frontend/http/one, frontend/http/two")


def test_refuses_a_circle_of_folders(tree):
    """The rows of two folders that allow each other would: no file is part of a circle, the folders are."""
    tree.write("frontend/api/a.c", include('"frontend/serve/b.h"'))
    tree.write("frontend/serve/b.h", "int b;\n")
    tree.write("frontend/serve/c.c", include('"frontend/api/d.h"'))
    tree.write("frontend/api/d.h", "int d;\n")
    code, lines = tree.check("check_layers")
    assert code == 1
    assert "a circle of folders: frontend/api, frontend/serve" in "\n".join(lines)


def test_allows_the_named_circles_only_whole(tree):
    tree.write("frontend/prompt/jinja/jinja_a.h", include('"frontend/prompt/jinja/jinja_b.h"'))
    tree.write("frontend/prompt/jinja/jinja_b.h", include('"frontend/prompt/jinja/jinja_a.h"'))
    tree.assert_clean("check_layers")
    tree.write("frontend/serve/engine/engine_state.h", include('"frontend/serve/engine/other.h"'))
    tree.write("frontend/serve/engine/other.h", include('"frontend/serve/engine/engine_state.h"'))
    tree.assert_violation("check_layers", "frontend/serve/engine/engine_state.h:1", "a circle of includes")


def test_refuses_libjpeg_outside_its_file(tree):
    tree.write("frontend/image/jpeg_decoder.c", include("<turbojpeg.h>"))
    tree.write("frontend/image/thumbnail.c", include("<jpeglib.h>"))
    tree.assert_violation("check_layers", "frontend/image/thumbnail.c:3", "one file only")


def test_refuses_unknown_files_at_the_top(tree):
    tree.write("notes.txt", "x\n")
    tree.assert_violation("check_layers", "notes.txt:1", "top level")


def test_refuses_a_new_top_folder(tree):
    tree.write("common/util.h", "int x;\n")
    tree.assert_violation("check_layers", "common/util.h:1", "top level")


def test_wants_a_readme_in_each_folder(tree):
    (tree.root / "shm/README.md").unlink()
    tree.assert_violation("check_layers", "shm/README.md:1", "README.md")


def test_does_not_look_into_build(tree):
    tree.write("build/generated.c", include('"shm/spsc_ring.h"'))
    tree.assert_clean("check_layers")
