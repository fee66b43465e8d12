"""HTTPS: disconnects, limits and time-outs work as without TLS; certificates change under load."""

import shutil
import socket
import ssl
import subprocess
import threading
import time

import pytest

import demo_model
from shoal_server import BUILD, MODEL, PATIENCE_S, ROOT, ShoalServer, send_signal, wait_until

SERVER_MODEL = demo_model.FOLDER


def make_certificate(folder, name, common_name):
    """A self-signed pair: (certificate's path, key's path)."""
    cert, key = folder / f"{name}.crt", folder / f"{name}.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-days", "2", "-keyout", str(key), "-out", str(cert), "-subj", f"/CN={common_name}", "-addext",
                    "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True, timeout=PATIENCE_S)
    return cert, key


def client_context(*certificates):
    context = ssl.create_default_context()
    for certificate in certificates:
        context.load_verify_locations(certificate)
    return context


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    return {name: make_certificate(folder, name, name) for name in ("first", "second")}


@pytest.fixture(scope="module")
def secure(pairs):
    cert, key = pairs["first"]
    with ShoalServer("--tls-cert", str(cert), "--tls-key", str(key), "--request-timeout", "5",
                     tls=client_context(cert)) as running:
        running.wait_ready()
        yield running
        running.wait_idle()


def plain_socket(server):
    return socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S)


def test_chats_and_streams_work(secure):
    assert secure.chat("Hi", max_tokens=3).json["usage"]["completion_tokens"] <= 3
    text, finish = secure.open_stream("Name a colour.", max_tokens=8, temperature=0).text()
    assert text and finish in ("stop", "length")
    assert (text, finish) == secure.open_stream("Name a colour.", max_tokens=8, temperature=0).text()


def test_connections_are_kept_and_end_with_a_close_notify(secure):
    with secure.connect() as connection:
        for _ in range(3):
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        data = b""
        while True:
            part = connection.recv(65536)  # an end without close_notify raises SSLEOFError here
            if not part:
                break
            data += part
        assert data.startswith(b"HTTP/1.1 200 ")


def test_large_bodies_cross_records(secure):
    reply = secure.chat("word " * 60000, max_tokens=1)
    assert reply.status == 400 and reply.error["code"] == "context_length_exceeded"


def test_a_request_may_come_byte_by_byte(secure):
    with secure.connect() as connection:
        for byte in b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n":
            connection.sendall(bytes([byte]))
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")


def test_old_versions_and_other_protocols_are_refused(secure):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context.minimum_version = context.maximum_version = version
        with plain_socket(secure) as plain, context.wrap_socket(plain) as connection:
            assert connection.version() == version.name.replace("_", ".")
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    old.set_ciphers("DEFAULT:@SECLEVEL=0")
    old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    with plain_socket(secure) as plain, pytest.raises(ssl.SSLError):
        old.wrap_socket(plain)
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
    for cipher in ("ECDHE-ECDSA-AES128-SHA", "ECDHE-RSA-AES128-SHA256", "AES128-GCM-SHA256"):  # no authenticated encryption, no ECDHE
        context.set_ciphers(cipher)
        with plain_socket(secure) as plain, pytest.raises(ssl.SSLError):
            context.wrap_socket(plain)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    with plain_socket(secure) as plain, pytest.raises(ssl.SSLError):
        context.wrap_socket(plain)
    context.set_alpn_protocols(["h2", "http/1.1"])
    with plain_socket(secure) as plain, context.wrap_socket(plain) as connection:
        assert connection.selected_alpn_protocol() == "http/1.1"


def test_plain_http_and_noise_are_closed(secure):
    before = secure.metrics()["shoal_tls_handshakes_failed_total"]
    for noise in (b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n", bytes(range(256)), b"\x16\x03\x01\xff\xff" + b"x" * 9000):
        with plain_socket(secure) as connection:
            connection.sendall(noise)
            try:
                while connection.recv(4096):
                    pass
            except ConnectionResetError:
                pass
    wait_until(lambda: secure.metrics()["shoal_tls_handshakes_failed_total"] == before + 3, "three failures counted")


@pytest.mark.long
def test_a_handshake_that_stalls_is_ended(secure):
    start = time.monotonic()
    with plain_socket(secure) as connection:
        connection.sendall(b"\x16\x03\x01\x02")
        assert connection.recv(1) == b""
    assert time.monotonic() - start > 5


@pytest.mark.long
def test_a_slow_request_is_ended_with_tls_too(secure):
    with secure.connect() as connection:
        connection.sendall(b"POST /v1/chat")
        assert connection.recv(65536).startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize("how", ["close", "reset", "close_notify"])
def test_a_client_that_leaves_is_noticed(secure, how):
    with secure.expect_cancels():
        stream = secure.open_stream("Write a very long story.", max_tokens=4000, logit_bias={"2": -100})
        stream.wait_token()
        if how == "close":
            stream.answer.close()
            socket.socket(fileno=stream.socket.detach()).close()  # without a close_notify
        elif how == "reset":
            stream.reset()
        else:
            stream.socket.settimeout(0.01)
            try:
                stream.socket.unwrap()
            except (OSError, ValueError):
                pass  # the server does not wait for it either
            stream.close()


@pytest.mark.long
def test_a_slow_reader_is_cut_with_tls_too(pairs, start_server):
    cert, key = pairs["first"]
    running = start_server("--tls-cert", str(cert), "--tls-key", str(key), "--stream-buffer-bytes", "16K",
                           tls=client_context(cert))
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(("127.0.0.1", running.port))
    from shoal_server import EventStream
    stream = EventStream(running.tls.wrap_socket(connection, server_hostname="127.0.0.1"), {
        "messages": [{"role": "user", "content": "Go on."}], "stream": True, "logit_bias": {"2": -100},
        "max_tokens": 4000})
    wait_until(lambda: running.metrics()["shoal_slow_readers_cut_total"] == 1, "the slow reader to be cut")
    running.wait_idle()
    stream.close()


def peer_name(server, context):
    with plain_socket(server) as plain, context.wrap_socket(plain, server_hostname="127.0.0.1") as connection:
        subject = connection.getpeercert()["subject"]
    return dict(pair for entry in subject for pair in entry)["commonName"]


def test_certificates_change_without_dropping_connections(pairs, tmp_path, start_server):
    cert, key = tmp_path / "live.crt", tmp_path / "live.key"

    def install(cert_of, key_of):
        shutil.copy(pairs[cert_of][0], cert)
        shutil.copy(pairs[key_of][1], key)

    install("first", "first")
    context = client_context(pairs["first"][0], pairs["second"][0])
    running = start_server("--tls-cert", str(cert), "--tls-key", str(key), tls=context)
    assert peer_name(running, context) == "first"

    old = running.connect()
    stream = running.open_stream("Count slowly.", max_tokens=1500, logit_bias={"2": -100})
    stream.wait_token()
    result = []
    reader = threading.Thread(target=lambda: result.append(stream.text()))
    reader.start()
    install("second", "second")
    send_signal(running.process.pid, "SIGHUP")
    wait_until(lambda: "certificate read again" in running.log_text(), "the new certificate")
    assert peer_name(running, context) == "second"
    reader.join(PATIENCE_S)
    assert result and result[0][1] == "length"
    old.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert old.recv(65536).startswith(b"HTTP/1.1 200 ")
    old.close()

    install("first", "second")  # they do not belong together
    send_signal(running.process.pid, "SIGHUP")
    wait_until(lambda: "certificate stays as it was" in running.log_text(), "the refusal")
    assert peer_name(running, context) == "second"


@pytest.mark.parametrize("cert,key,words", [
    ("first", "second", "key"), ("first", None, "cannot use the key"), (None, "first", "cannot use the certificate")])
def test_a_bad_pair_ends_the_start(pairs, tmp_path, cert, key, words):
    cert_path = pairs[cert][0] if cert else tmp_path / "none.crt"
    key_path = pairs[key][1] if key else tmp_path / "none.key"
    done = subprocess.run([str(BUILD / "shoal"), "serve", "--device", "cpu", "--model", str(MODEL), "--port", "0", "--tls-cert",
                           str(cert_path), "--tls-key", str(key_path)], cwd=ROOT, capture_output=True, timeout=PATIENCE_S,
                          check=False)
    assert done.returncode == 1 and words in done.stderr.decode(), done.stderr


def test_a_key_with_a_password_is_refused_without_asking(pairs, tmp_path):
    locked = tmp_path / "locked.key"
    subprocess.run(["openssl", "ec", "-in", str(pairs["first"][1]), "-out", str(locked), "-aes128", "-passout",
                    "pass:secret"], check=True, capture_output=True, timeout=PATIENCE_S)
    done = subprocess.run([str(BUILD / "shoal"), "serve", "--device", "cpu", "--model", str(MODEL), "--port", "0", "--tls-cert",
                           str(pairs["first"][0]), "--tls-key", str(locked)], cwd=ROOT, capture_output=True,
                          stdin=subprocess.DEVNULL, timeout=PATIENCE_S, check=False)
    assert done.returncode == 1 and "cannot use the key" in done.stderr.decode()
