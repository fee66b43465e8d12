"""A hub on loopback: the API of a list of files and the files themselves, with faults that a test names."""

import hashlib
import http.server
import json
import re
import threading
import time
import urllib.parse

COMMIT = "0123456789abcdef0123456789abcdef01234567"
OTHER_COMMIT = "76543210fedcba9876543210fedcba9876543210"


def git_hash(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Repository:
    """Files of one commit; those in `large` have a SHA-256, as with LFS, and are on the storage host."""

    def __init__(self, files, large=(), commit=COMMIT):
        self.files, self.large, self.commit = dict(files), set(large), commit

    def listing(self):
        siblings = []
        for name, data in self.files.items():
            entry = {"rfilename": name, "size": len(data), "blobId": git_hash(data)}
            if name in self.large:
                entry["lfs"] = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 134}
            siblings.append(entry)
        return {"id": "org/name", "sha": self.commit, "siblings": siblings}


class Hub:
    """`repositories` is {"org/name": {revision: Repository}}; `fault` is called with (handler, name, data, first byte) before a file is sent
    and returns True if it has replied itself. `seen` has (host, path, headers) of all requests."""

    def __init__(self, repositories):
        self.repositories, self.fault, self.listing_fault, self.token = repositories, None, None, None
        self.seen = []
        self.hub, self.storage = self.start("hub"), self.start("storage")
        self.url = f"http://127.0.0.1:{self.hub.server_address[1]}"
        self.storage_url = f"http://127.0.0.1:{self.storage.server_address[1]}"

    def start(self, host):
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                outer.seen.append((host, self.path, dict(self.headers)))
                try:
                    outer.reply(self, host)
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True

            do_HEAD = do_GET

            def log_message(self, *_):
                pass

            def send(self, status, body, headers=()):
                self.send_response(status)
                for name, value in headers:
                    self.send_header(name, value)
                if not any(name == "Content-Length" for name, _ in headers):
                    self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            def cut(self):
                """Ends the connection."""
                self.close_connection = True
                self.wfile.flush()

            def stall(self, seconds):
                self.wfile.flush()
                time.sleep(seconds)
                self.cut()

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            block_on_close = False

        server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        return server

    def stop(self):
        for server in (self.hub, self.storage):
            server.shutdown()
            server.server_close()

    def find(self, name, revision):
        revisions = self.repositories.get(name, {})
        by_commit = {repository.commit: repository for repository in revisions.values()}
        return revisions.get(revision) or by_commit.get(revision)

    def reply(self, handler, host):
        url = urllib.parse.urlsplit(handler.path)
        if self.token and host == "hub" and handler.headers.get("Authorization") != f"Bearer {self.token}":
            return handler.send(401, b"{}")
        listed = re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/revision/([^/]+))?", url.path)
        resolved = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", url.path)
        if listed:
            repository = self.find(listed[1], urllib.parse.unquote(listed[2] or "main"))
            if self.listing_fault and self.listing_fault(handler, repository):
                return None
            if not repository:
                return handler.send(404, b'{"error":"Repository not found"}')
            listing = repository.listing()
            if "blobs=" not in url.query.lower():
                listing["siblings"] = [{"rfilename": entry["rfilename"]} for entry in listing["siblings"]]
            return handler.send(200, json.dumps(listing).encode(), [("Content-Type", "application/json")])
        if not resolved or not (repository := self.find(resolved[1], urllib.parse.unquote(resolved[2]))):
            return handler.send(404, b"Entry not found")
        name = urllib.parse.unquote(resolved[3])
        if name not in repository.files:
            return handler.send(404, b"Entry not found")
        if host == "hub" and name in repository.large:
            digest = hashlib.sha256(repository.files[name]).hexdigest()
            return handler.send(302, b"moved", [("Location", f"{self.storage_url}{url.path}?signature=%2Fx"), ("X-Repo-Commit", repository.commit),
                                                ("X-Linked-Etag", f'"{digest}"'), ("X-Linked-Size", str(len(repository.files[name])))])
        if handler.command == "HEAD":
            data = repository.files[name]
            return handler.send(200, data, [("ETag", f'"{git_hash(data)}"'), ("X-Repo-Commit", repository.commit)])
        return self.send_file(handler, name, repository.files[name])

    def send_file(self, handler, name, data):
        span = re.fullmatch(r"bytes=(\d+)-", handler.headers.get("Range", ""))
        first = int(span[1]) if span else 0
        if self.fault and self.fault(handler, name, data, first):
            return None
        if span:
            return handler.send(206, data[first:], [("Content-Range", f"bytes {first}-{len(data) - 1}/{len(data)}")])
        return handler.send(200, data)
