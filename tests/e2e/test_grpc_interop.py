"""What every client of gRPC may count on: the cases of gRPC's interoperability tests that a server of
models can show, with grpcio as it is, and the same over TLS."""
import fcntl
import os
import pty
import queue
import re
import select
import signal
import socket
import ssl
import subprocess
import termios
import threading

import grpc
import pytest

from conftest import EMBED, RERANK, Server, model_args, wait_for

Code = grpc.StatusCode
INFER = "/inference.GRPCInferenceService/"
HEALTH = "/grpc.health.v1.Health/"
TEI = "/tei.v1."


def varint(value):
    parts = []
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes([*parts, value])


def field(number, value):
    """A field of bytes, or of a text."""
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def infer_request(model, data, width, request_id=""):
    """A ModelInferRequest of a row of FP32."""
    tensor = field(1, "INPUT0") + field(2, "FP32") + field(3, varint(1) + varint(width))
    return field(1, model) + field(3, request_id) + field(5, tensor) + field(7, data)


def raw_output(answer):
    """The last field of a ModelInferResponse: raw_output_contents."""
    at, last = 0, b""
    while at < len(answer):
        tag, size, shift = answer[at], 0, 0
        at += 1
        while True:
            byte = answer[at]
            at += 1
            size |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        last = answer[at:at + size] if tag == 6 << 3 | 2 else last
        at += size
    return last


@pytest.fixture(scope="module")
def server_args():
    return (*model_args(("embedder", EMBED), ("reranker", RERANK)), "--model", "same=builtin:identity?type=FP32&shape=-1",
            "--model", "slow=builtin:slow?ms=300&shape=1", "--grpc-port", "0", "--max-body-bytes", 16 << 20)


def target(server):
    found = re.search(r"ready on \S+ and grpcs?://[^:]+:(\d+)", "".join(server.stdout))
    assert found, server.stdout
    return f"127.0.0.1:{found.group(1)}"


@pytest.fixture
def channel(server):
    with grpc.insecure_channel(target(server), options=[("grpc.max_receive_message_length", 64 << 20)]) as channel:
        yield channel


def failure(call):
    with pytest.raises(grpc.RpcError) as error:
        answer = call()
        if hasattr(answer, "__next__"):
            list(answer)
    return error.value


def in_flight(server):
    return server.metrics()["penstock_grpc_in_flight"]


def test_empty_unary(channel):
    assert channel.unary_unary(INFER + "ServerLive")(b"", timeout=30) == b"\x08\x01"


@pytest.mark.parametrize("size", [4, 271_828, 4_000_000, 15_000_000])
def test_large_unary(channel, size):
    data = bytes(range(256)) * (size // 256) + b"\x00" * (size % 256)
    answer = channel.unary_unary(INFER + "ModelInfer")(infer_request("same", data, size // 4), timeout=60)
    assert raw_output(answer) == data


def test_many_unary_at_once(channel):
    infer = channel.unary_unary(INFER + "ModelInfer")
    calls = [infer.future(infer_request("same", number.to_bytes(4, "little") * 50_000, 50_000)) for number in range(60)]
    for number, call in enumerate(calls):
        assert raw_output(call.result(60)) == number.to_bytes(4, "little") * 50_000


def test_client_streaming(channel):
    pairs = (field(1, "what") + field(2, text) for text in ("one", "two", "three"))
    answer = channel.stream_unary(TEI + "Rerank/RerankStream")(pairs, timeout=30, metadata=[("model", "reranker")])
    assert answer.count(b"\x0a") >= 3


def test_server_streaming(server, channel):
    changes = channel.unary_stream(HEALTH + "Watch")(b"", timeout=30)
    assert next(changes) == b"\x08\x01"
    changes.cancel()
    assert changes.code() == Code.CANCELLED
    assert wait_for(lambda: in_flight(server) == 0)


def test_ping_pong(channel):
    sizes, asked = [31415, 9, 2653, 58979, 400_000], queue.Queue()
    answers = channel.stream_stream(INFER + "ModelStreamInfer")(iter(asked.get, None), timeout=60)
    for size in sizes:
        data = b"\x3f" * (size // 4 * 4)
        asked.put(infer_request("same", data, size // 4))
        answer = next(answers)
        assert data in answer and len(answer) < len(data) + 200
    asked.put(None)
    assert list(answers) == [] and answers.code() == Code.OK


def test_reflection_of_both_versions(channel):
    for version in ("v1", "v1alpha"):
        ask = channel.stream_stream(f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo")
        services, file, symbol, unknown, nothing = ask(iter([
            field(7, ""), field(3, "grpc/inference.proto"), field(4, "tei.v1.Embed"), field(3, "none"), b""]), timeout=30)
        for name in ("inference.GRPCInferenceService", "tei.v1.Embed", "grpc.health.v1.Health",
                     "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"):
            assert name.encode() in services
        # Field 4 of the answer: files; the proto, and its import.
        assert b"inference.proto" in file and b"model_config.proto" in file and b"tei.proto" in symbol
        # Field 7: an error, which does not end the stream.
        assert field(7, b"\x08\x05" + field(2, "there is no none")) in unknown
        assert b"asks for nothing" in nothing


def test_empty_stream(channel):
    answers = channel.stream_stream(INFER + "ModelStreamInfer")(iter([]), timeout=30)
    assert list(answers) == [] and answers.code() == Code.OK


def test_half_duplex(channel):
    """The client sends all, then reads all: more than the windows hold."""
    requests = [infer_request("same", number.to_bytes(4, "little") * 20_000, 20_000) for number in range(100)]
    answers = list(channel.stream_stream(INFER + "ModelStreamInfer")(iter(requests), timeout=60))
    assert [answer.rstrip(b"\x00")[-1:] for answer in answers[1:]] == [bytes([n]) for n in range(1, 100)]


def test_cancel_after_begin(server, channel):
    call = channel.stream_unary(TEI + "Rerank/RerankStream").future(iter(threading.Event().wait, 1))
    assert wait_for(lambda: in_flight(server) == 1)
    call.cancel()
    assert call.code() == Code.CANCELLED
    assert wait_for(lambda: in_flight(server) == 0)


def test_cancel_after_first_response(server, channel):
    asked = queue.Queue()
    answers = channel.stream_stream(INFER + "ModelStreamInfer")(iter(asked.get, None))
    asked.put(infer_request("same", b"\x00" * 4, 1))
    next(answers)
    answers.cancel()
    assert answers.code() == Code.CANCELLED
    assert wait_for(lambda: in_flight(server) == 0)


def test_timeout_on_a_sleeping_server(server, channel):
    error = failure(lambda: channel.unary_unary(INFER + "ModelInfer")(infer_request("slow", b"\x00" * 4, 1), timeout=0.05))
    assert error.code() == Code.DEADLINE_EXCEEDED
    asked = queue.Queue()
    error = failure(lambda: channel.stream_stream(INFER + "ModelStreamInfer")(iter(asked.get, None), timeout=0.05))
    assert error.code() == Code.DEADLINE_EXCEEDED
    assert wait_for(lambda: in_flight(server) == 0)


def test_status_code_and_message(channel):
    name = "whitespace and Unicode BMP ☺ and non-BMP 😈 100% a%20b"
    error = failure(lambda: channel.unary_unary(INFER + "ModelInfer")(infer_request(name, b"", 0), timeout=30))
    assert error.code() == Code.NOT_FOUND and name in error.details()


def test_custom_metadata(channel):
    metadata = [("x-request-id", "mine"), ("x-grpc-test-echo-initial", "test_initial_metadata_value"),
                ("x-grpc-test-echo-trailing-bin", b"\xab\xab\xab\x00\xff"), *[(f"x-{i}", "v" * 100) for i in range(40)]]
    error = failure(lambda: channel.unary_unary(INFER + "ModelInfer")(infer_request("nobody", b"", 0), timeout=30,
                                                                      metadata=metadata))
    assert dict(error.trailing_metadata())["x-request-id"] == "mine"
    answer, call = channel.unary_unary(TEI + "Embed/Embed").with_call(field(1, "text"), timeout=30, metadata=metadata)
    assert answer and int(dict(call.initial_metadata())["x-compute-tokens"]) > 0


def test_metadata_that_is_too_large(channel):
    def large(size):
        return failure(lambda: channel.unary_unary(INFER + "ServerLive")(b"", timeout=30, metadata=[("x-large", "v" * size)]))
    error = large(20_000)
    assert error.code() == Code.RESOURCE_EXHAUSTED and "--max-header-bytes" in error.details(), error
    assert large(200_000).code() in (Code.RESOURCE_EXHAUSTED, Code.UNAVAILABLE)  # ends the connection
    assert channel.unary_unary(INFER + "ServerLive")(b"", timeout=30)


def test_unimplemented(channel):
    for path in (INFER + "Unimplemented", "/grpc.testing.UnimplementedService/UnimplementedCall"):
        assert failure(lambda: channel.unary_unary(path)(b"", timeout=30)).code() == Code.UNIMPLEMENTED
        assert failure(lambda: channel.stream_stream(path)(iter([b""]), timeout=30)).code() == Code.UNIMPLEMENTED
    assert channel.unary_unary(INFER + "ServerLive")(b"", timeout=30)


@pytest.mark.parametrize("size", [4, 100_000, 4_000_000])
def test_compressed_unary_and_stream(channel, size):
    data = b"\x00\x00\x80\x3f" * (size // 4)
    request = infer_request("same", data, size // 4)
    more = {"timeout": 60, "compression": grpc.Compression.Gzip}
    assert raw_output(channel.unary_unary(INFER + "ModelInfer")(request, **more)) == data
    answers = list(channel.stream_stream(INFER + "ModelStreamInfer")(iter([request] * 3), **more))
    assert len(answers) == 3 and all(data in answer for answer in answers)


def test_another_compression_is_refused(channel):
    error = failure(lambda: channel.unary_unary(INFER + "ModelInfer")(infer_request("same", b"\x00" * 100_000, 25_000),
                                                                      timeout=30, compression=grpc.Compression.Deflate))
    assert error.code() == Code.UNIMPLEMENTED


def test_what_a_compressed_message_unpacks_to_is_bounded(server, channel):
    bomb = infer_request("same", b"\x00" * (64 << 20), 16 << 20)
    error = failure(lambda: channel.unary_unary(INFER + "ModelInfer")(bomb, timeout=60, compression=grpc.Compression.Gzip))
    assert error.code() == Code.RESOURCE_EXHAUSTED and "--max-body-bytes" in error.details()
    assert wait_for(lambda: server.metrics()["penstock_inflight_bytes"] == 0)


def test_unary_calls_of_streams_and_streams_of_unary_calls(channel):
    """A client whose stub is wrong gets a code, not silence."""
    assert failure(lambda: channel.stream_unary(INFER + "ServerLive")(iter([b"", b""]), timeout=30)).code() == Code.INVALID_ARGUMENT
    assert failure(lambda: channel.stream_unary(INFER + "ServerLive")(iter([]), timeout=30)).code() == Code.INVALID_ARGUMENT


def test_connections_of_both_ports_share_a_limit():
    server = Server("--model", "same=builtin:identity?type=FP32&shape=-1", "--grpc-port", "0", "--max-connections", "8")
    held = []
    try:
        host, port = target(server).split(":")
        for _ in range(30):
            one = socket.create_connection((host, int(port)))
            held.append(one)
        # Idle connections of strangers leave some for HTTP.
        assert wait_for(lambda: server.get("/livez").status_code == 200)
        assert wait_for(lambda: server.metrics()["penstock_grpc_connections_refused_total"] == 24)
        assert server.metrics()["penstock_grpc_connections"] == 6
        held.pop(0).close()
        assert wait_for(lambda: server.metrics()["penstock_grpc_connections"] == 5)
    finally:
        for one in held:
            one.close()
        assert server.stop() == 0


def test_tls_1_3_alone(tmp_path):
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "2",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"], check=True,
                   capture_output=True)
    server = Server("--model", "same=builtin:identity?type=FP32&shape=-1", "--grpc-port", "0", "--tls-cert", cert,
                    "--tls-key", key, "--tls-min-version", "1.3")
    try:
        with grpc.secure_channel(target(server), grpc.ssl_channel_credentials(cert.read_bytes())) as channel:
            assert channel.unary_unary(INFER + "ServerLive")(b"", timeout=30) == b"\x08\x01"

        def handshake(newest):
            context = ssl.create_default_context(cafile=cert)
            context.maximum_version = newest
            context.set_alpn_protocols(["h2"])
            host, port = target(server).split(":")
            with (
                socket.create_connection((host, int(port)), timeout=10) as raw,
                context.wrap_socket(raw, server_hostname="localhost") as tls,
            ):
                return tls.selected_alpn_protocol()
        assert handshake(ssl.TLSVersion.TLSv1_3) == "h2"
        with pytest.raises(OSError):
            handshake(ssl.TLSVersion.TLSv1_2)
    finally:
        assert server.stop() == 0


def test_a_key_with_a_passphrase(tmp_path):
    """OpenSSL asks for it at the terminal, for each port."""
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-passout", "pass:sesame", "-keyout", key, "-out", cert,
                    "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"],
                   check=True, capture_output=True)
    assert "ENCRYPTED" in key.read_text()
    ours, terminal = pty.openpty()

    def sit_at_the_terminal():
        os.setsid()
        fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
    server = Server("--model", "same=builtin:identity?type=FP32&shape=-1", "--grpc-port", "0", "--tls-cert", cert, "--tls-key", key,
                    ready=False, before=sit_at_the_terminal)
    try:
        for _ in range(2):
            asked = b""
            while b"pass phrase" not in asked:
                assert select.select([ours], [], [], 60)[0], server.log
                asked += os.read(ours, 1000)
            os.write(ours, b"sesame\n")
        assert wait_for(lambda: "grpcs://" in "".join(server.stdout), 60)
        with grpc.secure_channel(target(server), grpc.ssl_channel_credentials(cert.read_bytes())) as channel:
            assert channel.unary_unary(INFER + "ServerLive")(b"", timeout=30) == b"\x08\x01"
        # It is not typed when the files are read again: what was read stays.
        server.process.send_signal(signal.SIGHUP)
        assert wait_for(lambda: any("gRPC: not reloaded" in line for line in server.log))
        with grpc.secure_channel(target(server), grpc.ssl_channel_credentials(cert.read_bytes())) as channel:
            assert channel.unary_unary(INFER + "ServerLive")(b"", timeout=30) == b"\x08\x01"
    finally:
        code = server.stop()
        os.close(ours)
        os.close(terminal)
        assert code == 0


def test_who_sees_that_the_server_is_ready_finds_grpc():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = Server("--model", "same=builtin:identity?type=FP32&shape=-1", "--grpc-port", str(port), ready=False)
    try:
        found = None
        while found is None:
            assert server.process.poll() is None
            lines = "".join(server.log)
            found = re.search(r"listening on http://\S*:(\d+)", lines)
        while True:
            try:
                with socket.create_connection(("127.0.0.1", int(found.group(1))), timeout=10) as http:
                    http.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                    if http.recv(100).startswith(b"HTTP/1.1 200"):
                        break
            except ConnectionError:
                continue
        socket.create_connection(("127.0.0.1", port), timeout=10).close()
        assert wait_for(lambda: "ready on" in "".join(server.stdout))
    finally:
        assert server.stop() == 0


def test_unknown_fields_take_no_memory_that_is_not_counted():
    """Two bytes of an unknown field are many in memory: they are refused before they are read."""
    server = Server("--model", "same=builtin:identity?type=FP32&shape=-1", "--grpc-port", "0", "--api-key", "secret-key-of-sixteen")

    def resident():
        return int(re.search(r"VmHWM:\s+(\d+)", open(f"/proc/{server.process.pid}/status").read()).group(1)) << 10
    try:
        with grpc.insecure_channel(target(server)) as channel:
            assert channel.unary_unary(INFER + "ServerLive")(b"", timeout=30)
            before = resident()
            bomb = b"\x7a\x00" * ((4 << 20) - 50)
            for _ in range(4):
                assert failure(lambda: channel.unary_unary(INFER + "ServerMetadata")(bomb, timeout=60)).code() == Code.UNAUTHENTICATED
            assert resident() - before < 16 << 20
            key = [("x-api-key", "secret-key-of-sixteen")]
            for _ in range(4):
                error = failure(lambda: channel.unary_unary(INFER + "ServerMetadata")(bomb, timeout=60, metadata=key))
                assert error.code() == Code.RESOURCE_EXHAUSTED
            assert resident() - before < 64 << 20
            assert channel.unary_unary(INFER + "ServerMetadata")(bomb[:2000], timeout=60, metadata=key)
    finally:
        assert server.stop() == 0
