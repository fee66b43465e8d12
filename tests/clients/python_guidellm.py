"""guidellm: a small load, as a whole reply and as a stream. A call is a request; it is good if guidellm counts it as successful and with all its tokens.

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


def load(streams):
    """(good requests, what went wrong or None)"""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "benchmarks.json"
        backend = {"kind": "openai_http", "target": os.environ["SHOAL_URL"], "model": os.environ["SHOAL_MODEL"], "stream": streams}
        data = {"kind": "synthetic_text", "prompt_tokens": 40, "output_tokens": TOKENS}
        line = [pathlib.Path(sys.executable).with_name("guidellm"), "run", "--backend", json.dumps(backend), "--data", json.dumps(data),
                "--tokenizer", json.dumps({"kind": "huggingface_auto", "model": str(TOKENIZER)}),
                "--profile", f"kind=concurrent,streams={os.environ['SHOAL_AT_ONCE']}", "--constraint", f"kind=max_requests,count={CALLS}",
                "--output", f"kind=json,path={file}", "--disable-console"]
        done = subprocess.run(line, capture_output=True, text=True, timeout=600, check=False)
        kinds = json.loads(file.read_text(encoding="utf-8"))["benchmarks"][0]["requests"] if file.exists() else {}
    right = [one for one in kinds.get("successful") or [] if one["output_tokens"] == TOKENS]
    wrong = [one for ended in kinds.values() for one in ended or [] if one not in right]
    return len(right), None if len(right) == CALLS else (str(wrong[:1]) + done.stdout + done.stderr)[-600:]


for feature, streams in (("chat: guidellm", False), ("stream: guidellm", True)):
    good, error = load(streams)
    print(json.dumps({"feature": feature, "good": good, "calls": CALLS, "error": error}), flush=True)
