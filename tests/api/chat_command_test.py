"""`shoal chat`: lines from a pipe and from a terminal, commands, images, saved conversations, and Ctrl-C, which ends an answer and keeps it."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import time

import pytest
from demo_model import FOLDER
from shoal_server import BUILD, MODEL, PATIENCE_S, ROOT, ShoalServer

DEMO = [BUILD / "shoal", "chat", "--device", "cpu", "--model", FOLDER, "--temperature", "0"]
IMAGE = ROOT / "tests/golden/demo/015-0.png"


def chat(*lines, command=DEMO):
    ended = subprocess.run(command, cwd=ROOT, input="".join(line + "\n" for line in lines).encode(), capture_output=True,
                           timeout=PATIENCE_S, check=False)
    return ended.returncode, ended.stdout.decode(), ended.stderr.decode()


@pytest.fixture(scope="module")
def answers():
    """Of the server to the same conversation."""
    with ShoalServer(model=FOLDER) as server:
        server.wait_ready()

        def ask(*turns):
            messages = [{"role": role, "content": text} for role, text in turns]
            reply = server.request("POST", "/v1/chat/completions", {"messages": messages, "temperature": 0}).json
            return reply["choices"][0]["message"]["content"]
        yield ask


def test_a_conversation_is_the_servers(answers):
    first = answers(("user", "Hello"))
    second = answers(("user", "Hello"), ("assistant", first), ("user", "And you?"))
    status, out, error = chat("Hello", "And you?", "/history", "/exit", "not read")
    assert (status, error) == (0, "")
    assert out == f"{first}\n{second}\nuser: Hello\nassistant: {first}\nuser: And you?\nassistant: {second}\n"


def test_commands(tmp_path, answers):
    kept = tmp_path / "kept.json"
    first = answers(("user", "Hello"))
    status, out, error = chat("Hello", f"/save {kept}", "/undo", "/history", f"/load {kept}", "/retry", "/clear", "/retry", "/nothing", "",
                              "/system Be short.", "one \\", "two", "/history", "/set temperature hot", "/help")
    assert status == 0 and error == ""
    assert json.loads(kept.read_text(encoding="utf-8")) == [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": first}]
    assert out.startswith(f"{first}\nThe conversation is in {kept}.\nThe last turn is removed.\n2 messages are loaded.\n{first}\n"
                          "The conversation is empty.\nThere is no turn.\nThere is no command /nothing; /help lists them.\n"
                          "The system message is set.\n")
    assert "system: Be short.\nuser: one \ntwo\nassistant: " in out
    assert "temperature needs a number, true or false.\n" in out and "/image" in out


def test_images_and_mistakes(tmp_path):
    status, out, error = chat("/image /nowhere.png", f"/image {IMAGE}", "What do you see?", "/set temperature 7", "Hello", "/history",
                              f"/load {IMAGE}", f"/save {tmp_path}")
    assert status == 0 and "shoal: temperature must be between 0 and 2\n" in error
    assert "/nowhere.png" in out and "red square" in out and "user: [image] What do you see?\n" in out
    assert "user: Hello" not in out  # a refused message is taken back
    assert "The file has no conversation.\n" in out and f"cannot write '{tmp_path}'" in out
    assert chat("x", command=[*DEMO[:4], "--model", "/nowhere"])[0] == 1
    assert chat("x", command=[*DEMO, "--bogus"])[0] == 2


def test_a_terminal_and_ctrl_c():
    leader, follower = pty.openpty()
    command = [BUILD / "shoal", "chat", "--device", "cpu", "--model", MODEL, "--temperature", "0", "--max-tokens", "4000"]
    process = subprocess.Popen(command, cwd=ROOT, stdin=follower, stdout=follower, stderr=follower, start_new_session=True)
    os.close(follower)
    seen = ""

    def read_until(pattern):
        nonlocal seen
        deadline = time.monotonic() + PATIENCE_S
        while not re.search(pattern, seen, re.DOTALL):
            assert time.monotonic() < deadline, seen
            if select.select([leader], [], [], 1)[0]:
                seen += os.read(leader, 65536).decode(errors="replace")
        found, seen = seen, ""
        return found

    try:
        assert "/help lists the commands." in read_until("> ")
        os.write(leader, b"Write a very long story about a lighthouse and its keeper.\n")
        read_until(r"keeper\.\r\n.*\w+ \w+ \w+")
        process.send_signal(signal.SIGINT)
        read_until("\r\n> ")
        os.write(leader, b"/history\n")
        assert re.search("assistant: .+", read_until("assistant: .*> "))
        process.send_signal(signal.SIGINT)  # nothing to end but the program
        assert process.wait(PATIENCE_S) == 128 + signal.SIGINT
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(leader)
