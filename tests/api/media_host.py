"""An HTTP host on loopback that serves images: tests check which of its addresses a server fetches."""

import http.server
import socket
import socketserver
import threading


class MediaHost(http.server.ThreadingHTTPServer):
    """Answers with `files[path]`, or a redirect to `redirects[path]`. `asked` lists the requested paths in order; `connections` counts
    every connection, with a request or without. A request for /silent is answered only once `silence` is set. The address "::"
    listens on all addresses of this machine, IPv4 and IPv6 if it has both."""

    def __init__(self, files, address="127.0.0.1"):
        everywhere = address == "::"
        dual = everywhere and socket.has_dualstack_ipv6()
        self.address_family = socket.AF_INET6 if dual else socket.AF_INET
        self.files = files
        self.redirects = {}
        self.asked = []
        self.connections = 0
        self.silence = threading.Event()
        self.thread = threading.Thread(target=self.serve_forever, daemon=True)
        super().__init__(("" if everywhere else address, 0), MediaHandler)

    def server_bind(self):
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        socketserver.TCPServer.server_bind(self)  # HTTPServer's version resolves this machine's name

    @property
    def name(self):
        return f"127.0.0.1:{self.port}"

    @property
    def port(self):
        return self.server_address[1]

    def verify_request(self, request, client_address):
        self.connections += 1
        return True

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.silence.set()
        self.shutdown()
        self.thread.join()
        self.server_close()


class MediaHandler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(self.path)
        if self.path == "/silent":
            self.server.silence.wait(20)
        target = self.server.redirects.get(self.path)
        body = self.server.files.get(self.path, b"")
        self.send_response_only(302 if target is not None else 200 if body else 404)
        if target is not None:
            self.send_header("Location", target)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass
