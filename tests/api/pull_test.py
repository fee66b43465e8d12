"""`shoal pull`, `list`, `rm`, `show` and `run` on Hugging Face's cache, from a local hub that cuts, stalls and lies. huggingface_hub judges the
cache: what it finds, and that it finds nothing half-written."""

import hashlib
import json
import os
import pathlib
import random
import re
import secrets
import signal
import subprocess

import pytest
import requests
from demo_model import FOLDER as DEMO
from hub_server import COMMIT, OTHER_COMMIT, Hub, Repository, git_hash
from huggingface_hub import HfApi, hf_hub_download, scan_cache_dir, snapshot_download, try_to_load_from_cache
from shoal_server import BUILD, PATIENCE_S, ROOT

SEED = random.SystemRandom().randrange(2**32)


def draw(size):
    return random.Random(f"{SEED} {size}").randbytes(size)


GGUF = {"name-Q4_K_M.gguf": draw(300_000), "name-Q8_0.gguf": draw(500_001), "UD/name-UD-Q4_K_M.gguf": draw(10), "mmproj-name-f16.gguf": draw(70_000),
        "mmproj-name-f32.gguf": draw(9), "README.md": b"# name\n", "split/name-Q2_K-00001-of-00002.gguf": draw(1000),
        "split/name-Q2_K-00002-of-00002.gguf": draw(1001), "imatrix.gguf": draw(5)}
FOLDER = {"config.json": b'{"model_type": "llama"}', "tokenizer.json": draw(2000), "model.safetensors.index.json": b"{}", "model-00001-of-00002.safetensors": draw(9000),
          "model-00002-of-00002.safetensors": draw(8000), "original/model.safetensors": draw(30), "consolidated.safetensors": draw(40), "pytorch_model.bin": draw(50),
          "1_Pooling/config.json": b"{ }", "generation_config.json": b""}
FOLDER_NEEDED = set(FOLDER) - {"original/model.safetensors", "consolidated.safetensors", "pytorch_model.bin"}


def gguf(commit=COMMIT, **changes):
    files = {**GGUF, **changes}
    return Repository(files, {name for name in files if name.endswith(".gguf")}, commit)


@pytest.fixture(name="hub")
def start_hub():
    hub = Hub({"org/name": {"main": gguf(), "v2": gguf(OTHER_COMMIT, **{"name-Q8_0.gguf": draw(4000)})},
               "org/folder": {"main": Repository(FOLDER, {name for name in FOLDER if name.endswith("safetensors")}, OTHER_COMMIT)}})
    yield hub
    hub.stop()


class Cache:
    def __init__(self, hub, path):
        self.hub, self.path = hub, path / "hub"

    def run(self, *arguments, status=0, environment=None, **more):
        environment = {"PATH": os.environ["PATH"], "HF_HUB_CACHE": str(self.path), "HF_ENDPOINT": self.hub.url, "no_proxy": "*", **(environment or {})}
        ended = subprocess.run([BUILD / "shoal", *map(str, arguments)], cwd=ROOT, env=environment, capture_output=True, timeout=PATIENCE_S,
                               check=False, **more)
        assert ended.returncode == status, (SEED, ended)
        return ended.stdout.decode(), ended.stderr.decode()

    def pull(self, model, *arguments, **more):
        return self.run("pull", model, "--stall-timeout", 1, "--retries", 1, *arguments, **more)

    def refuse(self, words, model="org/name:Q8_0", *arguments):
        """The error has the words, and no blob, snapshot or ref is left."""
        out, error = self.pull(model, *arguments, status=1)
        assert words in error.splitlines()[-1] and error.splitlines()[-1].startswith("shoal: ") and out == "", error
        kept = [path for path in self.path.rglob("*") if not path.is_dir() and path.suffix not in (".lock", ".incomplete")]
        assert kept == []
        return error

    def incomplete(self):
        return {path.name: path.stat().st_size for path in self.path.rglob("*.incomplete")}

    def files(self, repository="org/name", commit=COMMIT):
        """{name: bytes} of a snapshot."""
        top = self.path / f"models--{repository.replace('/', '--')}/snapshots/{commit}"
        return {str(path.relative_to(top)): path.read_bytes() for path in top.rglob("*") if path.is_file()}


@pytest.fixture(name="cache")
def make_cache(hub, tmp_path):
    return Cache(hub, tmp_path)


# --- what is downloaded ----------------------------------------------------------------------

@pytest.mark.parametrize("model, wanted", [
    ("org/name", ("name-Q4_K_M.gguf", "mmproj-name-f16.gguf")),
    ("org/name:q8_0", ("name-Q8_0.gguf", "mmproj-name-f16.gguf")),
    ("org/name:UD-Q4_K_M", ("UD/name-UD-Q4_K_M.gguf", "mmproj-name-f16.gguf")),
    ("org/name:name-Q8_0.gguf", ("name-Q8_0.gguf", "mmproj-name-f16.gguf")),
    ("org/name:Q2_K", ("split/name-Q2_K-00001-of-00002.gguf", "split/name-Q2_K-00002-of-00002.gguf", "mmproj-name-f16.gguf")),
])
def test_a_quantization_with_its_projector(cache, model, wanted):
    out, _ = cache.pull(model)
    snapshot = cache.path / "models--org--name/snapshots" / COMMIT
    assert out == f"{snapshot / wanted[0]}\n"
    assert cache.files() == {name: GGUF[name] for name in wanted}
    for name in wanted:
        assert pathlib.Path(try_to_load_from_cache("org/name", name, cache_dir=cache.path)).read_bytes() == GGUF[name]
    assert try_to_load_from_cache("org/name", "README.md", cache_dir=cache.path) is None
    (found,) = scan_cache_dir(cache.path).repos
    assert found.repo_id == "org/name" and found.refs.keys() == {"main"} and not scan_cache_dir(cache.path).warnings
    assert {file.file_name for revision in found.revisions for file in revision.files} == {pathlib.PurePath(name).name for name in wanted}
    assert found.size_on_disk == sum(len(GGUF[name]) for name in wanted) and cache.incomplete() == {}


def test_a_folder_has_the_needed_files_only(cache, hub):
    out, error = cache.pull("org/folder")
    assert out == f"{cache.path / 'models--org--folder/snapshots' / OTHER_COMMIT}\n" and "config.json" in error
    assert cache.files("org/folder", OTHER_COMMIT) == {name: FOLDER[name] for name in FOLDER_NEEDED}
    blobs = cache.path / "models--org--folder/blobs"
    assert {path.name for path in blobs.iterdir()} == {
        hashlib.sha256(FOLDER[name]).hexdigest() if name.endswith("safetensors") else git_hash(FOLDER[name]) for name in FOLDER_NEEDED}
    hub.seen.clear()
    cache.pull("org/folder")  # nothing is missing
    assert [path.split("?")[0] for _, path, _ in hub.seen] == ["/api/models/org/folder/revision/main"]
    # huggingface_hub takes the snapshot for its own
    local = snapshot_download("org/folder", cache_dir=cache.path, local_files_only=True)
    assert pathlib.Path(local).name == OTHER_COMMIT


def test_huggingface_hub_and_this_program_share_a_cache(cache, hub, tmp_path):
    files = HfApi(endpoint=hub.url).model_info("org/folder", files_metadata=True).siblings  # the local hub has the API of the real one
    assert {file.rfilename: (file.size, file.lfs and file.lfs.sha256) for file in files} == {
        name: (len(data), hashlib.sha256(data).hexdigest() if name.endswith("safetensors") else None) for name, data in FOLDER.items()}
    paths = {name: hf_hub_download("org/folder", name, cache_dir=cache.path, endpoint=hub.url) for name in FOLDER_NEEDED}
    theirs = pathlib.Path(paths["config.json"]).parent
    hub.seen.clear()
    assert cache.pull("org/folder")[0] == f"{theirs}\n" and len(hub.seen) == 1  # all files are there
    ours = Cache(hub, tmp_path / "ours")
    ours.pull("org/folder")
    links = [{path.relative_to(one.path): os.readlink(path) for path in one.path.rglob("*") if path.is_symlink()} for one in (cache, ours)]
    assert links[1] == links[0] and len(links[1]) == len(FOLDER_NEEDED)
    (tmp_path / "org/folder").mkdir(parents=True)  # a local path of that name
    assert subprocess.run([BUILD / "shoal", "pull", "org/folder", "--endpoint", hub.url, "--hf-cache", cache.path], cwd=tmp_path, check=True,
                          capture_output=True, timeout=PATIENCE_S).stdout.decode() == f"{theirs}\n"


def test_revisions_share_blobs_and_rm_keeps_what_is_shared(cache):
    cache.pull("org/name")
    cache.pull("org/name@v2")
    cache.pull("org/name:Q8_0@v2")
    cache.pull(f"org/name:Q8_0@{COMMIT}")
    refs = cache.path / "models--org--name/refs"
    assert {path.name: path.read_text() for path in refs.iterdir()} == {"main": COMMIT, "v2": OTHER_COMMIT}
    blobs = cache.path / "models--org--name/blobs"
    size = {path.name: path.stat().st_size for path in blobs.iterdir()}
    assert sorted(size.values()) == sorted([300_000, 70_000, 4000, 500_001])
    listed = json.loads(cache.run("list", "--json")[0])
    assert [(entry["commit"], entry["refs"], entry["weights"], entry["bytes"]) for entry in listed] == [
        (COMMIT, "main", ["mmproj", "Q4_K_M", "Q8_0"], 870_001), (OTHER_COMMIT, "v2", ["mmproj", "Q4_K_M", "Q8_0"], 374_000)]
    assert cache.run("rm", "org/name:Q8_0@v2")[0] == "org/name:Q8_0@v2 is removed, 4.0 kB are free.\n"
    assert set(cache.files(commit=OTHER_COMMIT)) == {"name-Q4_K_M.gguf", "mmproj-name-f16.gguf"}
    assert cache.run("rm", "org/name@v2")[0].endswith("removed, 0 B are free.\n")
    assert sorted(path.stat().st_size for path in blobs.iterdir()) == sorted([300_000, 70_000, 500_001]) and not (refs / "v2").exists()
    assert cache.run("rm", "org/name:Q4_K_M")[0].endswith("300.0 kB are free.\n")
    assert set(cache.files()) == {"name-Q8_0.gguf", "mmproj-name-f16.gguf"}
    assert not scan_cache_dir(cache.path).warnings
    assert "it has no GGUF file 'Q4_K_M', but name-Q8_0.gguf" in cache.run("rm", "org/name:Q4_K_M", status=1)[1]
    assert cache.run("rm", "org/name:Q8_0")[0].endswith("570.0 kB are free.\n")
    assert cache.run("list")[0] == f"There is no model in {cache.path}.\n" and not (cache.path / "models--org--name").exists()
    assert "it is not in" in cache.run("rm", "org/name", status=1)[1]


def test_rm_follows_no_link_out_of_the_cache(cache, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    cache.pull("org/name")
    (cache.path / "models--org--name/snapshots" / COMMIT / "link").symlink_to(outside)
    (cache.path / "models--org--name/blobs/away").symlink_to(outside / "kept")
    cache.run("rm", "org/name")
    assert (outside / "kept").read_text() == "kept" and not (cache.path / "models--org--name").exists()


# --- cut, stalled and resumed ----------------------------------------------------------------

def test_a_cut_download_continues_in_the_same_call(cache, hub):
    sent = []

    def fault(handler, name, data, first):
        if name != "name-Q8_0.gguf":
            return False
        sent.append(first)
        part = data[first:first + 120_000]
        more = [("Content-Range", f"bytes {first}-{len(data) - 1}/{len(data)}")] if first else []
        handler.send(206 if first else 200, part, [*more, ("Content-Length", str(len(data) - first))])
        handler.cut()
        return True
    hub.fault = fault
    _, error = cache.pull("org/name:Q8_0")
    assert sent == [0, 120_000, 240_000, 360_000, 480_000] and cache.files()["name-Q8_0.gguf"] == GGUF["name-Q8_0.gguf"]
    assert error.count("trying again") == 4 and "name-Q8_0.gguf: complete (500.0 kB" in error and "\r" not in error


def cut_at(count, ranges=None):
    def fault(handler, name, data, first):
        if name != "name-Q8_0.gguf":
            return False
        if ranges is not None:
            ranges.append(first)
        handler.send(206 if first else 200, data[first:count], [("Content-Length", str(len(data) - first)),
                                                                ("Content-Range", f"bytes {first}-{len(data) - 1}/{len(data)}")])
        handler.cut()
        return True
    return fault


def test_a_later_call_continues_and_a_damaged_beginning_is_dropped(cache, hub):
    hub.fault = cut_at(200_000)
    cache.refuse("name-Q8_0.gguf: ")
    assert cache.incomplete() == {hashlib.sha256(GGUF["name-Q8_0.gguf"]).hexdigest() + ".incomplete": 200_000}
    assert try_to_load_from_cache("org/name", "name-Q8_0.gguf", cache_dir=cache.path) is None
    (part,) = cache.path.rglob("*.incomplete")
    good = part.read_bytes()
    hub.fault = None
    for beginning, ranges in ((good, ["bytes=200000-"]), (draw(100_000), ["bytes=100000-", None]), (draw(600_000), [None])):
        cache.run("rm", "org/name", status=0)
        part.parent.mkdir(parents=True)
        part.write_bytes(beginning)
        hub.seen.clear()
        cache.pull("org/name:Q8_0")
        assert [headers.get("Range") for host, path, headers in hub.seen if host == "storage" and "Q8_0" in path] == ranges
        assert cache.files()["name-Q8_0.gguf"] == GGUF["name-Q8_0.gguf"] and cache.incomplete() == {}


def test_a_server_without_ranges_starts_again(cache, hub):
    hub.fault = cut_at(200_000)
    cache.refuse("name-Q8_0.gguf: ")
    hub.fault = lambda handler, name, data, first: handler.send(200, data) or True
    cache.pull("org/name:Q8_0")
    assert cache.files()["name-Q8_0.gguf"] == GGUF["name-Q8_0.gguf"]


def test_a_stalled_server_is_given_up(cache, hub):
    def fault(handler, name, data, first):
        if name == "name-Q8_0.gguf":
            handler.send(200, data[:1000], [("Content-Length", str(len(data)))])
            handler.stall(4)
        return name == "name-Q8_0.gguf"
    hub.fault = fault
    _, error = cache.run("pull", "org/name:Q8_0", "--stall-timeout", 1, "--retries", 0, status=1)
    assert "name-Q8_0.gguf: its server sends nothing for 1 s" in error and set(cache.incomplete().values()) == {1000}, error


def test_an_overloaded_server_is_asked_again(cache, hub):
    replies = [503, 429]
    hub.listing_fault = lambda handler, _: bool(replies) and len(replies) == 2 and handler.send(replies.pop(), b"later") is None
    hub.fault = lambda handler, *_: bool(replies) and handler.send(replies.pop(), b"later") is None
    cache.pull("org/name:Q8_0")
    assert replies == [] and cache.files()["name-Q8_0.gguf"] == GGUF["name-Q8_0.gguf"]


# --- lies ------------------------------------------------------------------------------------

def lie(status, change, headers=()):
    """A reply for name-Q8_0.gguf whose bytes are change(data)."""
    def fault(handler, name, data, first):
        if name != "name-Q8_0.gguf":
            return False
        body = change(data)
        handler.send(status, body, [(key, value.format(len(body))) for key, value in headers])
        return True
    return fault


def endless(status):
    """Chunks without end, until the client leaves."""
    def fault(handler, name, data, first):
        if name != "name-Q8_0.gguf":
            return False
        handler.send_response(status)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        try:
            for _ in range(1000):
                handler.wfile.write(b"10000\r\n" + bytes(65536) + b"\r\n")
        except OSError:
            handler.close_connection = True
            return True
        raise AssertionError("the client read 65 MB")
    return fault


@pytest.mark.parametrize("fault, words", [
    (lie(200, lambda data: data[:-1]), "its server sends 500000 bytes instead of 500001"),
    (lie(200, lambda data: data + b"x"), "its server sends 500002 bytes instead of 500001"),
    (lie(200, lambda data: data[:-1] + bytes([data[-1] ^ 1])), "its hash is "),
    (lie(206, lambda data: data), "its server answers with status 206"),
    (lie(404, lambda data: b"no"), "its server does not have it (status 404)"),
    (lie(403, lambda data: b"no"), "it needs a token"),
    (lie(204, lambda data: b""), "its server answers with status 204"),
    (lie(302, lambda data: b"", [("Location", "file:///etc/passwd"), ("Content-Length", "0")]), "redirects to no URL of http or https"),
    (lie(302, lambda data: b"", [("Location", "http://me:pass@127.0.0.1/"), ("Content-Length", "0")]), "redirects to no URL of http or https"),
    (endless(200), "its server sends more than the 500001 bytes"),
    (endless(404), "its server does not have it"),
])
def test_lies_about_a_file(cache, hub, fault, words):
    hub.fault = fault
    assert "name-Q8_0.gguf: " in cache.refuse(words)
    assert cache.incomplete() in ({}, {hashlib.sha256(GGUF["name-Q8_0.gguf"]).hexdigest() + ".incomplete": 0})


def test_a_wrong_range_is_no_continuation(cache, hub):
    hub.fault = cut_at(200_000)
    cache.refuse("name-Q8_0.gguf: ")
    hub.fault = lie(206, lambda data: data[100:], [("Content-Range", "bytes 100-500000/500001"), ("Content-Length", "{}")])
    cache.refuse("its server sends other bytes than were requested")


def test_redirects_without_end(cache, hub):
    hub.fault = lie(302, lambda data: b"", [("Location", "/org/name/resolve/main/name-Q8_0.gguf"), ("Content-Length", "0")])
    cache.refuse("its server redirects more than 5 times")


def changed(change):
    def fault(handler, repository):
        listing = repository.listing()
        change(listing)
        handler.send(200, json.dumps(listing).encode())
        return True
    return fault


def rename(name):
    return changed(lambda listing: listing["siblings"][0].update(rfilename=name))


def body(data, status=200):
    return lambda handler, _: handler.send(status, data) is None


def endless_list(handler, _):
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    for _ in range(1000):
        handler.wfile.write(b"10000\r\n" + b" " * 65536 + b"\r\n")
    raise AssertionError("the client read 65 MB")


@pytest.mark.parametrize("fault, words", [
    *[(rename(name), "which is no path inside a repository") for name in ("../x.gguf", "a/../../x.gguf", "/etc/x.gguf", "a//x.gguf", "./x.gguf", "", "a/..",
                                                                         "x\n.gguf", "\x1b[2J.gguf", "a\\b.gguf", "/".join("a" * 20), "n" * 300)],
    (rename("n" * 600), "an entry without a name"),
    (rename(None), "an entry without a name"),
    (changed(lambda listing: listing.update(sha="../../../x")), "names no commit"),
    (changed(lambda listing: listing.update(siblings={})), "has no array 'siblings'"),
    (changed(lambda listing: listing["siblings"][1]["lfs"].update(sha256="../" * 21 + "x")), "no valid hash of 'name-Q8_0.gguf'"),
    (changed(lambda listing: listing["siblings"][5].update(blobId=None)), "no valid hash of 'README.md'"),
    (changed(lambda listing: listing["siblings"][1].update(size=-1)), "no valid size of 'name-Q8_0.gguf'"),
    (changed(lambda listing: listing["siblings"][1].update(size=2**60)), "no valid size of 'name-Q8_0.gguf'"),
    (changed(lambda listing: listing["siblings"][1].update(size=2**50)), "it needs 1.1 PB, and the file system of the cache has"),
    (changed(lambda listing: listing.update(siblings=[])), "it has no GGUF file"),
    (body(b"<!DOCTYPE html><title>Log in</title>"), "answers with a page (HTML) instead of a list of files"),
    (body(b'{"sha": "01'), "the list of files is not JSON"),
    (body(b"[" * 100_000), "the list of files is not JSON"),
    (body(b""), "the list of files is not JSON"),
    (body(b"{}", 401), "it needs a token"),
    (endless_list, "more than the 33554432 bytes"),
])
def test_lies_about_the_list(cache, hub, fault, words):
    hub.listing_fault = fault
    error = cache.refuse(words)
    assert "\x1b" not in error and cache.incomplete() == {} and not (cache.path / "models--org--name/snapshots").exists()


def test_a_hash_that_another_file_has_is_not_believed_by_its_size(cache, hub):
    cache.pull("org/name:Q8_0")
    (blob,) = [path for path in (cache.path / "models--org--name/blobs").iterdir() if path.stat().st_size == 500_001]
    blob.write_bytes(b"cut")
    cache.pull("org/name:Q8_0")
    assert cache.files()["name-Q8_0.gguf"] == GGUF["name-Q8_0.gguf"]


# --- tokens and names ------------------------------------------------------------------------

def test_the_token_stays_with_the_hub(cache, hub, tmp_path):
    hub.token = "hf_" + draw(16).hex()
    assert "it needs a token" in cache.refuse("it needs a token")
    cache.pull("org/name:Q8_0", environment={"HF_TOKEN": hub.token})
    hosts = {(host, headers.get("Authorization")) for host, _, headers in hub.seen[1:]}
    assert hosts == {("hub", f"Bearer {hub.token}"), ("storage", None)}
    file = tmp_path / "token"
    file.write_text(hub.token + "\n")
    hub.seen.clear()
    _, error = cache.pull("org/folder", "--token-file", file, environment={"HF_TOKEN": "other"})
    assert {(host, headers.get("Authorization")) for host, _, headers in hub.seen} == hosts and hub.token not in error
    assert "plain HTTP" in cache.pull("org/folder", "--token-file", file, "--endpoint", "http://hub.invalid", status=1)[1]
    file.write_text("a b\n")
    assert "the token has a character" in cache.pull("org/folder", "--token-file", file, status=1)[1]
    assert "--token-file" in cache.pull("org/folder", "--token-file", tmp_path / "none", status=1)[1]


def test_names_and_places(cache, hub, tmp_path):
    for model in ("name", "org/name/x", "../x", "org/..", "org/name:", "org/name@", "org/name@../x", "org/name:a/b", "org/name@x..y"):
        assert "is no model's name" in cache.pull(model, status=1)[1]
    assert "the name of a model is missing" in cache.run("pull", status=2)[1]
    assert "two models are given" in cache.run("pull", "org/name", "org/folder", status=2)[1]
    assert "status 404" in cache.pull("org/other", status=1)[1] and "status 404" in cache.pull("org/name@v3", status=1)[1]
    cache.refuse("it has no GGUF file 'Q5_0', but name-Q4_K_M.gguf, name-Q8_0.gguf", "org/name:Q5_0")
    assert "is no URL of http" in cache.pull("org/name", "--endpoint", "ftp://127.0.0.1", status=1)[1]
    hub.stop()
    assert "org/name: " in cache.pull("org/name", status=1)[1]
    for environment, place in (({"HF_HOME": str(tmp_path / "a")}, "a/hub"), ({"XDG_CACHE_HOME": str(tmp_path / "b")}, "b/huggingface/hub")):
        assert cache.run("list", environment={**environment, "HF_HUB_CACHE": ""})[0] == f"There is no model in {tmp_path / place}.\n"
    assert cache.run("list", "--hf-cache", tmp_path / "c")[0] == f"There is no model in {tmp_path / 'c'}.\n"


# --- show and run ----------------------------------------------------------------------------

@pytest.fixture(name="demo")
def make_demo(hub):
    files = {path.name: path.read_bytes() for path in pathlib.Path(ROOT / DEMO).iterdir() if path.is_file()}
    hub.repositories["org/demo"] = {"main": Repository(files, {"model.safetensors"})}
    return files


def test_run_downloads_serves_talks_and_ends(cache, demo):
    lines = b"Hello\n/exit\n"
    out, error = cache.run("run", "org/demo", "--device", "cpu", "--temperature", "0", input=lines)
    assert out.strip() and "model.safetensors: complete" in error
    assert cache.files("org/demo")["model.safetensors"] == demo["model.safetensors"]
    cache.hub.stop()  # it is there now
    command = [BUILD / "shoal", "run", "org/demo", "--device", "cpu", "--temperature", "0", "--hf-cache", cache.path]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            url = re.fullmatch(r"listening on (http://127\.0\.0\.1:\d+)\n", process.stderr.readline().decode())[1]
            process.stdin.write(b"Hello\n")
            process.stdin.flush()
            assert process.stdout.readline().decode() == out.splitlines(keepends=True)[0]
            assert [entry["id"] for entry in requests.get(f"{url}/v1/models", timeout=PATIENCE_S).json()["data"]] == ["org/demo"]
            body = {"messages": [{"role": "user", "content": "Hello"}], "temperature": 0}
            reply = requests.post(f"{url}/v1/chat/completions", json=body, timeout=PATIENCE_S).json()
            assert reply["choices"][0]["message"]["content"] + "\n" == out
            process.send_signal(signal.SIGUSR2)  # no successor has the conversation
            assert b"no successor is started" in process.stderr.readline()
            process.stdin.write(b"/exit\n")
            process.stdin.flush()
            assert process.wait(PATIENCE_S) == 0
        finally:
            process.kill()
    with pytest.raises(requests.ConnectionError):
        requests.get(f"{url}/health", timeout=PATIENCE_S)


@pytest.mark.parametrize("way", ["option", "file"])
def test_the_server_of_run_wants_its_key(cache, demo, tmp_path, way):
    """Requests need it, the conversation at the terminal does not, and the command line of the process does not show it."""
    assert demo
    key, other = (f"sk-{secrets.token_hex(8)}" for _ in range(2))
    keys = tmp_path / "keys"
    keys.write_text(f"{key}\n{other} requests=1\n", encoding="ascii")
    given = ["--api-key", key] if way == "option" else ["--api-key-file", keys]
    command = [BUILD / "shoal", "run", ROOT / DEMO, "--device", "cpu", "--temperature", "0", "--hf-cache", cache.path, *given]
    keys.chmod(0o644)
    if way == "file":
        ended = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S, check=False)
        assert ended.returncode == 1 and b"other users can read the API keys" in ended.stderr, ended.stderr
    keys.chmod(0o600)
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            url = re.fullmatch(r"listening on (http://127\.0\.0\.1:\d+)\n", process.stderr.readline().decode())[1]
            process.stdin.write(b"Hello\n")
            process.stdin.flush()
            said = process.stdout.readline().decode()

            def ask(headers):
                body = {"messages": [{"role": "user", "content": "Hello"}], "temperature": 0}
                return requests.post(f"{url}/v1/chat/completions", json=body, headers=headers, timeout=PATIENCE_S)
            assert ask({}).status_code == ask({"Authorization": "Bearer sk-0"}).status_code == 401
            reply = ask({"Authorization": f"Bearer {key}"})
            assert reply.status_code == 200 and reply.json()["choices"][0]["message"]["content"] + "\n" == said
            if way == "file":
                assert [ask({"Authorization": f"Bearer {other}"}).status_code for _ in range(2)] == [200, 429]
            assert key.encode() not in pathlib.Path(f"/proc/{process.pid}/cmdline").read_bytes()
            process.stdin.write(b"/exit\n")
            process.stdin.flush()
            assert process.wait(PATIENCE_S) == 0
        finally:
            process.kill()


def test_run_ends_with_its_input_and_needs_a_model(cache, demo):
    command = [BUILD / "shoal", "run", ROOT / DEMO, "--device", "cpu", "--temperature", "0", "--hf-cache", cache.path]
    assert demo
    ended = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S, check=False)
    assert (ended.returncode, ended.stdout) == (0, b"")
    ended = subprocess.run([*command[:2], "/nowhere", "--device", "cpu"], cwd=ROOT, capture_output=True, timeout=PATIENCE_S, check=False)
    assert ended.returncode == 1 and b"/nowhere" in ended.stderr


def test_show(cache, demo):
    cache.pull("org/demo")
    shown = json.loads(cache.run("show", "org/demo", "--json")[0])
    config = json.loads(demo["config.json"])
    text = config.get("text_config", config)
    header = demo["model.safetensors"]
    tensors = json.loads(header[8:8 + int.from_bytes(header[:8], "little")])
    tensors.pop("__metadata__", None)
    bytes_of = {}
    for tensor in tensors.values():
        first, last = tensor["data_offsets"]
        bytes_of[tensor["dtype"]] = bytes_of.get(tensor["dtype"], 0) + last - first
    assert (shown["family"], shown["format"], shown["types"]) == (config["model_type"], "safetensors", bytes_of)
    assert (shown["layers"], shown["hidden_size"], shown["context"]) == (
        text["num_hidden_layers"], text["hidden_size"], text["max_position_embeddings"])
    assert shown["tensors"] == len(tensors) and shown["vision"] is True and shown["chat_template"]
    lines = cache.run("show", "org/demo")[0]
    assert f"family         {config['model_type']}\n" in lines and "chat template  " in lines
    assert cache.run("show", "org/demo", "--template")[0] == shown["chat_template"]
    assert "is not there" in cache.run("show", "org/demo@other", status=1)[1]


def test_progress_as_lines_of_json(cache):
    """In the form of Ollama's POST /api/pull."""
    out, error = cache.pull("org/name:Q8_0", "--json")
    lines = [json.loads(line) for line in out.splitlines()]
    assert error == "" and lines[0] == {"status": "pulling manifest"} and lines[-2:] == [{"status": "writing manifest"}, {"status": "success"}]
    digests = {f"sha256:{hashlib.sha256(GGUF[name]).hexdigest()}": len(GGUF[name]) for name in ("name-Q8_0.gguf", "mmproj-name-f16.gguf")}
    assert {line["digest"]: line["total"] for line in lines[1:-2]} == digests
    assert {line["digest"] for line in lines[1:-2] if line["completed"] == line["total"]} == set(digests)
    out, error = cache.pull("org/missing", "--json", status=1)
    assert error == "" and set(json.loads(out.splitlines()[-1])) == {"error"}
