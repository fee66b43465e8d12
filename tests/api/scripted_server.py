"""A server whose worker answers what a test says, through the real frontend: tests/process/scripted_worker.c.

    with ScriptedServer(tmp_path, "--chat-template", "tests/golden/…/template.jinja") as server:
        server.wait_ready()
        server.says('<tool_call>{"name": "f", "arguments": {}}</tool_call>', "Done.")
        server.chat("Go.", tools=[...])     # gets the first answer
        server.chat("And now?")             # gets the second

Answers are taken in the order in which requests reach the worker; those that a test did not use stay for the next
request, so a test that shares a server uses all that it queued. An answer is a string or an object (scripted_worker.c).
"""

import json
import os
import pathlib
import shutil

from shoal_server import BUILD, ShoalServer


class ScriptedServer(ShoalServer):
    def __init__(self, folder, *options, **how):
        folder = pathlib.Path(folder)
        shutil.copy(BUILD / "shoal", folder / "shoal")
        (folder / "shoal-media").symlink_to(BUILD / "shoal-media")
        self.script = folder / "script.json"
        self.answers = []
        self.says()
        worker = folder / "shoal-worker"
        worker.write_text(f'#!/bin/sh\nexec "{BUILD}/tests/process/scripted_worker" "{self.script}" "$@"\n',
                          encoding="utf-8")
        worker.chmod(0o755)
        super().__init__(*options, programs=folder, **how)

    def says(self, *answers):
        """Queues answers behind those that were queued before."""
        self.answers += answers
        new = self.script.with_suffix(".new")
        new.write_text(json.dumps(self.answers), encoding="utf-8")
        os.replace(new, self.script)
