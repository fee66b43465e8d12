"""aiperf: a small load, as a whole reply and as a stream. A call is a request; it is good if aiperf counts it without error and with all its tokens.

The demo model's tokenizer makes the prompts, whichever model is served; the server counts the tokens of the answers.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

TOKENIZER = pathlib.Path(__file__).resolve().parents[1] / "model/demo"
CALLS = min(20, int(os.environ["SHOAL_CALLS"]))
TOKENS = 20


def profile(*options):
    """(good requests, what went wrong or None)"""
    with tempfile.TemporaryDirectory() as folder:
        line = [pathlib.Path(sys.executable).with_name("aiperf"), "profile", "--url", os.environ["SHOAL_URL"], "--model", os.environ["SHOAL_MODEL"],
                "--endpoint-type", "chat", "--tokenizer", TOKENIZER, "--request-count", str(CALLS), "--concurrency", os.environ["SHOAL_AT_ONCE"],
                "--isl", "40", "--osl", str(TOKENS), "--extra-inputs", "ignore_eos:true", "--use-server-token-count", "--artifact-dir", folder,
                "--ui", "none", "--no-gpu-telemetry", "--no-server-metrics", *options]
        done = subprocess.run(line, capture_output=True, text=True, timeout=600, check=False)
        file = pathlib.Path(folder) / "profile_export.jsonl"
        records = [json.loads(text) for text in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []
    right = [one for one in records if not one.get("error") and one["metrics"]["output_sequence_length"]["value"] == TOKENS]
    wrong = [one for one in records if one not in right]
    return len(right), None if len(right) == CALLS else str(wrong[:1] or done.stdout)[-600:]


for feature, options in (("chat: aiperf", []), ("stream: aiperf", ["--streaming"])):
    good, error = profile(*options)
    print(json.dumps({"feature": feature, "good": good, "calls": CALLS, "error": error}), flush=True)
