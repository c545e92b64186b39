"""A server in a control group whose quota leaves it a part of the processors."""
import os
import pathlib
import time

import pytest
import requests

MOUNT = pathlib.Path("/sys/fs/cgroup")
PERIOD_US = 100_000
PROCESSORS = os.cpu_count()


class Group:
    """A control group of the test's own, of version 2 or 1."""

    def __init__(self):
        self.version = 2 if (MOUNT / "cgroup.controllers").exists() else 1
        parent = MOUNT if self.version == 2 else MOUNT / "cpu"
        if self.version == 2 and "cpu" not in (MOUNT / "cgroup.subtree_control").read_text().split():
            raise OSError("cgroup.subtree_control does not have cpu")
        self.folder = parent / f"penstock-test-{os.getpid()}"
        self.folder.mkdir()

    file = property(lambda self: "cpu.max" if self.version == 2 else "cpu.cfs_quota_us")

    def limit(self, processors):
        quota = int(processors * PERIOD_US)
        if self.version == 2:
            (self.folder / "cpu.max").write_text(f"{quota} {PERIOD_US}")
        else:
            (self.folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (self.folder / "cpu.cfs_quota_us").write_text(str(quota))

    def add(self, pid):
        (self.folder / "cgroup.procs").write_text(str(pid))

    def remove(self):
        for _ in range(100):
            try:
                return self.folder.rmdir()
            except OSError:
                time.sleep(0.05)  # until its last process has ended


@pytest.fixture
def group():
    try:
        made = Group()
        made.limit(1)
    except OSError as error:
        pytest.skip(f"NOT TESTED: control groups with the controller cpu cannot be written here: {error}")
    yield made
    made.remove()


def threads_of(process):
    """Names of a process's threads, each with the processors it may use."""
    found = []
    for task in pathlib.Path(f"/proc/{process.pid}/task").iterdir():
        found.append(((task / "comm").read_text().strip(), os.sched_getaffinity(int(task.name))))
    return found


@pytest.mark.skipif(PROCESSORS < 2, reason="NOT TESTED: a quota of one processor cuts nothing here")
def test_threads_follow_the_quota(group, start):
    server = start("--threads", "0", before=lambda: group.add(os.getpid()))
    log = "".join(server.log)
    assert f"1 of {PROCESSORS} processors ({group.file})" in log, log
    assert "1 thread)" in "".join(server.stdout)
    names = [name for name, _ in threads_of(server.process)]
    assert not [name for name in names if name.startswith("compute-")], names
    assert server.post("/v1/embeddings", {"input": "hello"}).status_code == 200
    # What is asked for is done, and told. Nothing is bound to a processor.
    group.limit(1.5)
    more = start("--threads", str(PROCESSORS), "--pin", before=lambda: group.add(os.getpid()))
    assert f"--threads {PROCESSORS}: this process may use 1 of {PROCESSORS} processors ({group.file})" in "".join(more.log)
    found = threads_of(more.process)
    assert len([name for name, _ in found if name.startswith("compute-")]) == PROCESSORS - 1
    everywhere = os.sched_getaffinity(more.process.pid)
    assert all(processors == everywhere for _, processors in found), found
    assert more.post("/v1/embeddings", {"input": "hello"}).status_code == 200


def cores():
    """Cores that this process may use: hyper-threads of one are listed together."""
    return len({
        pathlib.Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").read_text()
        for cpu in os.sched_getaffinity(0)
    })


def test_a_quota_of_all_processors_cuts_nothing(group, start):
    group.limit(PROCESSORS)
    server = start("--threads", "0", before=lambda: group.add(os.getpid()))
    assert group.file not in "".join(server.log)
    names = [name for name, _ in threads_of(server.process)]
    assert len([name for name in names if name.startswith("compute-")]) == cores() - 1


def test_sigterm_waits_for_a_load_no_longer_than_for_requests(group, start):
    model = os.environ.get("PENSTOCK_SMOLLM2")
    if not model:
        pytest.skip("NOT TESTED: PENSTOCK_SMOLLM2 is not set, and small models load at once")
    server = start("--model", f"chat={model}", "--shutdown-timeout-s", "2", preload=False)
    # From here on the load takes minutes, and what ends the server some hundredths of a second.
    group.limit(0.02)
    body = {"model": "chat", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}
    group.add(server.process.pid)
    with pytest.raises(requests.exceptions.Timeout):
        requests.post(server.url + "/v1/chat/completions", json=body, timeout=2)
    time.sleep(2)  # the load could end meanwhile
    assert "loaded chat" not in "".join(server.log)
    began = time.monotonic()
    assert server.stop(timeout=60) == 0, "".join(server.log)
    assert time.monotonic() - began < 30
    assert "stopped while a model was being loaded" in "".join(server.log)


def test_what_leaves_is_told_where_it_is_preloaded(start):
    server = start()
    assert "model 'embed' is preloaded, and leaves after 300 s without a request" in "".join(server.log)
    for stays in (("--keep-alive=-1",), ("--pin-model", "embed")):
        assert "is preloaded, and leaves" not in "".join(start(*stays).log)
    assert "is preloaded, and leaves" not in "".join(start(preload=False).log)
