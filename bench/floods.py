#!/usr/bin/env python3
"""Floods a server with HTTP/2 frames that cost the sender little, and looks at what they cost it.

    bench/floods.py 127.0.0.1:8080 --pid "$(pidof penstock)" [--seconds 10] [--only 'reset|ping']
    bench/floods.py 127.0.0.1:8081 --grpc --livez http://127.0.0.1:8080/livez --pid ...

Each flood runs on --connections sockets for --seconds; a socket that the server closes is opened
again. Meanwhile /livez is asked for over HTTP/1.1 every 20 ms, and every 200 ms an honest call is
made over HTTP/2 on the flooded port. A line a flood says what was sent, how much the server's
resident memory has grown at most, the times of /livez and how many honest calls were answered. The
exit status is 1 if a bound was missed: --grown-mb, --p99-ms, every honest call, and with --stop that
SIGTERM, sent amid the last flood, ends the server within --stop-seconds.

Only the standard library: the frames are made by hand.
"""

import argparse
import http.client
import multiprocessing
import os
import re
import select
import signal
import socket
import struct
import sys
import threading
import time
import urllib.parse

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 2, 3, 4, 6, 7, 8, 9
END_STREAM, ACK, END_HEADERS = 1, 1, 4


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def integer(number, first=0, bits=7):
    """RFC 7541 5.1."""
    most = (1 << bits) - 1
    if number < most:
        return bytes([first | number])
    out = bytearray([first | most])
    number -= most
    while number >= 128:
        out.append(number % 128 | 128)
        number //= 128
    out.append(number)
    return bytes(out)


def field(name, value, first=0x00):
    return bytes([first]) + integer(len(name)) + name + integer(len(value)) + value


def request(method, path, *fields):
    block = (field(b":method", method) + field(b":scheme", b"http") + field(b":authority", b"127.0.0.1")
             + field(b":path", path))
    return block + b"".join(field(name, value) for name, value in fields)


HELLO = PREFACE + frame(SETTINGS, 0, 0) + frame(SETTINGS, ACK, 0)
OPEN = request(b"POST", b"/grpc.health.v1.Health/Check", (b"content-type", b"application/grpc"), (b"te", b"trailers"))


class Flood:
    """What is sent on one connection: first `begin`, then `next` again and again."""

    reads = True  # what the server answers

    def begin(self):
        return HELLO

    def ids(self, count):
        start = getattr(self, "stream", 1)
        self.stream = start + 2 * count
        return range(start, self.stream, 2)


class RapidReset(Flood):
    """streams opened and reset at once"""

    def next(self):
        return b"".join(frame(HEADERS, END_HEADERS, i, OPEN) + frame(RST_STREAM, 0, i, b"\0\0\0\x08")
                        for i in self.ids(100))


class MadeReset(Flood):
    """streams that the server is made to reset"""

    def next(self):
        return b"".join(frame(HEADERS, END_HEADERS, i, OPEN) + frame(WINDOW_UPDATE, 0, i, b"\x7f\xff\xff\xff")
                        for i in self.ids(100))


class NoAck(Flood):
    """streams without end, SETTINGS never acknowledged"""

    def begin(self):
        return PREFACE + frame(SETTINGS, 0, 0)

    def next(self):
        return b"".join(frame(HEADERS, END_HEADERS, i, OPEN) for i in self.ids(100))


class FullWindows(Flood):
    """bodies that fill the windows of all streams"""

    def begin(self):
        opened = b"".join(frame(HEADERS, END_HEADERS, i, OPEN) for i in range(1, 101, 2))
        return HELLO + opened + b"".join(frame(DATA, 0, i, bytes(16384)) for i in range(1, 101, 2))

    def next(self):
        time.sleep(0.1)
        return b""


class Literals(Flood):
    """a header list without end, of literals"""

    def begin(self):
        return HELLO + frame(HEADERS, 0, 1, OPEN)

    def next(self):
        return frame(CONTINUATION, 0, 1, field(b"x", b"v" * 16000)) * 8


class LargeLists(Flood):
    """header lists of 120 KiB, one a stream"""

    def next(self):
        block = field(b"x", b"v" * 15000)
        return b"".join(frame(HEADERS, 0, i, OPEN) + frame(CONTINUATION, 0, i, block) * 7
                        + frame(CONTINUATION, END_HEADERS, i, block) for i in self.ids(4))


class References(Flood):
    """a byte of the header list stands for 4,000"""

    def begin(self):
        self.stream = 3
        return HELLO + frame(HEADERS, END_HEADERS | END_STREAM, 1, OPEN + field(b"x", b"v" * 4000, 0x40))

    def next(self):
        some = bytes([0x80 | 62]) * 16000
        return b"".join(frame(HEADERS, 0, i, OPEN) + frame(CONTINUATION, 0, i, some) * 7
                        + frame(CONTINUATION, END_HEADERS, i, some) for i in self.ids(4))


class InvalidReferences(Flood):
    """a byte stands for 4,000 of a field that is not valid"""

    def next(self):
        some = bytes([0x80 | 62]) * 16000
        return b"".join(frame(HEADERS, 0, i, OPEN + field(b"x", b"v" * 3990 + b"\x01", 0x40))
                        + frame(CONTINUATION, 0, i, some) * 6 + frame(CONTINUATION, END_HEADERS, i, some)
                        for i in self.ids(1))


class HeldLists(Flood):
    """header lists of 14 KiB on all streams, not ended"""

    def begin(self):
        def opened(i):
            block = OPEN + (field(b"x", b"v" * 3500, 0x40) if i == 1 else b"") + bytes([0x80 | 62]) * 4
            return frame(HEADERS, END_HEADERS, i, block)
        return HELLO + b"".join(opened(i) for i in range(1, 199, 2))

    def next(self):
        time.sleep(0.1)
        return b""


class EndlessNumber(Flood):
    """a number of the header list that does not end"""

    def begin(self):
        return HELLO + frame(HEADERS, 0, 1, b"\x7f")

    def next(self):
        return frame(CONTINUATION, 0, 1, b"\x80" * 16000) * 4


class EndlessString(Flood):
    """a string of the header list that does not end"""

    def begin(self):
        return HELLO + frame(HEADERS, 0, 1, b"\x40" + integer(1 << 30))

    def next(self):
        return frame(CONTINUATION, 0, 1, b"a" * 16000) * 4


class SlowList(Flood):
    """header lists that come byte by byte"""

    def begin(self):
        return HELLO + frame(HEADERS, 0, 1, OPEN)

    def next(self):
        time.sleep(0.05)
        return frame(CONTINUATION, 0, 1, b"")


class EmptyData(Flood):
    """empty DATA"""

    def begin(self):
        return HELLO + frame(HEADERS, END_HEADERS, 1, OPEN)

    def next(self):
        return frame(DATA, 0, 1) * 2000


class Pings(Flood):
    """PING"""

    def next(self):
        return frame(PING, 0, 0, b"12345678") * 2000


class PingsUnread(Pings):
    """PING, answers not read"""

    reads = False


class Settings(Flood):
    """SETTINGS"""

    def next(self):
        return frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 65535) * 10) * 500


class Priorities(Flood):
    """PRIORITY"""

    def next(self):
        return b"".join(frame(PRIORITY, 0, i, struct.pack(">IB", 0, 16)) for i in self.ids(1000))


class Windows(Flood):
    """WINDOW_UPDATE"""

    def next(self):
        return frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\x01") * 2000


class Unread(Flood):
    """calls whose answers are not read"""

    reads = False

    def next(self):
        return b"".join(frame(HEADERS, END_HEADERS | END_STREAM, i, request(b"GET", b"/livez")) for i in self.ids(100))


class NoWindow(Flood):
    """answers of 17 KiB that have no window"""

    def begin(self):
        hello = PREFACE + frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 0)) + frame(SETTINGS, ACK, 0)
        return hello + b"".join(frame(HEADERS, END_HEADERS | END_STREAM, i, request(b"GET", b"/ui/style.css"))
                                for i in range(1, 199, 2))

    def next(self):
        time.sleep(0.1)
        return b""


class Malformed(Flood):
    """malformed requests"""

    def next(self):
        block = request(b"GET", b"/livez", (b"connection", b"close"))
        return b"".join(frame(HEADERS, END_HEADERS | END_STREAM, i, block) for i in self.ids(200))


class Nothing(Flood):
    """No flood: how the machine is without one."""

    def begin(self):
        return HELLO

    def next(self):
        time.sleep(0.1)
        return b""


class Silent(Flood):
    """connections without a preface"""

    def begin(self):
        return b"PRI"

    def next(self):
        time.sleep(0.1)
        return b""


FLOODS = [Nothing, RapidReset, MadeReset, NoAck, FullWindows, Literals, LargeLists, References, InvalidReferences,
          HeldLists, EndlessNumber, EndlessString, SlowList, EmptyData, Pings, PingsUnread, Settings, Priorities,
          Windows, Unread, NoWindow, Malformed, Silent]


class Run:
    def __init__(self, kind, arguments):
        self.kind, self.arguments = kind, arguments
        self.stop = multiprocessing.Event()
        self.lock = threading.Lock()
        self.sent, self.connects = multiprocessing.Value("Q"), multiprocessing.Value("Q")
        self.honest = self.honest_failed = self.grown = 0
        self.times = []

    def flood_all(self):
        """In a process of its own, so that the watchers need not wait for it."""
        threads = [threading.Thread(target=self.flood) for _ in range(self.arguments.connections)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def flood(self):
        while not self.stop.is_set():
            try:
                with socket.create_connection(self.arguments.address, timeout=5) as client:
                    with self.connects.get_lock():
                        self.connects.value += 1
                    self.flood_on(client, self.kind())
            except OSError:
                time.sleep(0.01)

    def flood_on(self, client, flood):
        client.setblocking(False)
        waiting = memoryview(flood.begin())
        while not self.stop.is_set():
            readable, writable, _ = select.select([client] if flood.reads else [], [client], [], 0.2)
            if readable and not client.recv(1 << 16):
                return
            if not writable:
                continue
            if not waiting:
                waiting = memoryview(flood.next())
                if not waiting:
                    continue
            count = client.send(waiting)
            waiting = waiting[count:]
            with self.sent.get_lock():
                self.sent.value += count

    def watch_livez(self):
        url = urllib.parse.urlsplit(self.arguments.livez)
        client = None
        while not self.stop.is_set():
            begin = time.monotonic()
            try:
                client = client or http.client.HTTPConnection(url.hostname, url.port, timeout=10)
                client.request("GET", url.path)
                answer = client.getresponse()
                answer.read()
                good = answer.status == 200
            except OSError:
                good, client = False, None
            self.times.append(time.monotonic() - begin if good else 10.0)
            self.stop.wait(0.02)

    def call(self):
        """An honest call. True: it was answered with status 200."""
        path, block = b"/livez", None
        if self.arguments.grpc:
            block, body = OPEN, frame(DATA, END_STREAM, 1, bytes(5))
        else:
            block, body = request(b"GET", path), b""
        flags = END_HEADERS | (0 if body else END_STREAM)
        with socket.create_connection(self.arguments.address, timeout=5) as client:
            client.sendall(HELLO + frame(HEADERS, flags, 1, block) + body)
            read = b""
            while True:
                while len(read) >= 9 and len(read) >= 9 + int.from_bytes(read[:3], "big"):
                    size = int.from_bytes(read[:3], "big")
                    kind, stream, payload = read[3], int.from_bytes(read[5:9], "big"), read[9:9 + size]
                    if kind == HEADERS and stream == 1:
                        return payload[:1] == b"\x88"  # ":status: 200" of the static table
                    if kind in (GOAWAY, RST_STREAM):
                        return False
                    read = read[9 + size:]
                some = client.recv(65536)
                if not some:
                    return False
                read += some

    def watch_calls(self):
        while not self.stop.is_set():
            try:
                good = self.call()
            except OSError:
                good = False
            with self.lock:
                self.honest += 1
                self.honest_failed += not good
            self.stop.wait(0.2)

    def watch_memory(self, before):
        while not self.stop.is_set():
            self.grown = max(self.grown, resident_kb(self.arguments.pid) - before)
            self.stop.wait(0.1)

    def go(self, last):
        before = resident_kb(self.arguments.pid)
        flooder = multiprocessing.Process(target=self.flood_all)
        flooder.start()
        threads = [threading.Thread(target=self.watch_livez), threading.Thread(target=self.watch_calls),
                    threading.Thread(target=self.watch_memory, args=(before,))]
        for thread in threads:
            thread.start()
        time.sleep(self.arguments.seconds)
        stopped = None
        times, honest, failed, grown = sorted(self.times), self.honest, self.honest_failed, self.grown
        if last and self.arguments.stop:
            stopped = stop_server(self.arguments.pid, self.arguments.stop_seconds)
        self.stop.set()
        for thread in (*threads, flooder):
            thread.join()
        p50, p99 = (1000 * times[int(len(times) * share)] for share in (0.5, 0.99))
        line = (f"{self.kind.__doc__:55} {self.sent.value / 2**20:8.1f} MiB {self.connects.value:6} connections  "
                f"resident {grown / 1024:+7.1f} MiB  /livez p50 {p50:6.1f} p99 {p99:7.1f} ms  "
                f"honest calls {honest - failed}/{honest}")
        missed = []
        if grown > self.arguments.grown_mb * 1024:
            missed.append("memory")
        if p99 > self.arguments.p99_ms:
            missed.append("/livez")
        if failed or not honest:
            missed.append("honest calls")
        if last and self.arguments.stop:
            line += f"  SIGTERM {'not obeyed' if stopped is None else f'{stopped:.1f} s'}"
            if stopped is None:
                missed.append("SIGTERM")
        print(line + ("  MISSED: " + ", ".join(missed) if missed else ""), flush=True)
        return not missed


def resident_kb(pid):
    try:
        with open(f"/proc/{pid}/status", encoding="ascii") as file:
            return int(re.search(r"VmRSS:\s+(\d+)", file.read())[1])
    except (OSError, TypeError):
        return 0


def stop_server(pid, seconds):
    """The seconds until it has ended; None: it has not."""
    begin = time.monotonic()
    os.kill(pid, signal.SIGTERM)
    while time.monotonic() - begin < seconds:
        if not os.path.exists(f"/proc/{pid}") or "\nState:\tZ" in open(f"/proc/{pid}/status", encoding="ascii").read():
            return time.monotonic() - begin
        time.sleep(0.05)
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("address", help="host:port that is flooded")
    parser.add_argument("--pid", type=int, required=True, help="of the server")
    parser.add_argument("--livez", help="default: http://ADDRESS/livez")
    parser.add_argument("--grpc", action="store_true", help="the port is one of gRPC")
    parser.add_argument("--seconds", type=float, default=10, help="of each flood")
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--only", default="", help="regular expression: floods by name or description")
    parser.add_argument("--grown-mb", type=float, default=32)
    parser.add_argument("--p99-ms", type=float, default=20)
    parser.add_argument("--stop", action="store_true", help="end with SIGTERM")
    parser.add_argument("--stop-seconds", type=float, default=10)
    arguments = parser.parse_args()
    arguments.livez = arguments.livez or f"http://{arguments.address}/livez"
    host, _, port = arguments.address.rpartition(":")
    arguments.address = (host, int(port))
    kinds = [kind for kind in FLOODS
             if re.search(arguments.only, f"{kind.__name__} {kind.__doc__}", re.IGNORECASE)]
    if not kinds:
        sys.exit("floods.py: --only matches none")
    results = [Run(kind, arguments).go(kind is kinds[-1]) for kind in kinds]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
