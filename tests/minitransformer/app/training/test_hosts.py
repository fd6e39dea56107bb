"""Two hosts: network namespaces with addresses of their own, joined by a wire that can be cut.

Where there is no root or no iproute2, this is left out."""

import os
import shutil
import subprocess
import sys
import time
from contextlib import suppress

import pytest
from ranks_support import LIMIT, MPIEXEC, ONE_THREAD, ended, needs_mpi, pretrain, tiny, until

FIRST, SECOND = "10.77.13.1", "10.77.13.2"
TCP_ONLY = {"UCX_TLS": "tcp,self", "FI_PROVIDER": "tcp"}  # else MPI finds out that both share a memory
LAUNCHER = """#!/bin/sh
# HOST COMMAND...: what ssh would do
host=$1; shift
exec ip netns exec "{name}-$host" sh -c "$*"
"""


def ip(*arguments):
    return subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True, timeout=LIMIT).stdout


def can_make_hosts():
    name = f"mt-{os.getpid()}-try"
    with suppress(OSError, subprocess.CalledProcessError):
        ip("netns", "add", name)
        ip("netns", "del", name)
        return True
    return False


pytestmark = [
    pytest.mark.slow,
    needs_mpi,
    pytest.mark.skipif(shutil.which("ip") is None or not can_make_hosts(), reason="no root, or no network namespaces"),
]


def wait_for_wire(host, end):
    """Both ends were switched on; until the system has noticed, MPI finds nobody there."""
    limit = time.monotonic() + LIMIT
    while "state UP" not in ip("-n", host, "-o", "link", "show", "dev", end):
        assert time.monotonic() < limit, f"{end} of {host} does not come up"
        time.sleep(0.05)


@pytest.fixture
def hosts(tmp_path):
    """The names of two hosts and the file that starts programs there."""
    name, wire = f"mt-{os.getpid()}", f"mt{os.getpid() % 10**6}"
    launcher = tmp_path / "launcher"
    launcher.write_text(LAUNCHER.format(name=name))
    launcher.chmod(0o755)
    names = [f"{name}-{address}" for address in (FIRST, SECOND)]
    try:
        for one in names:
            ip("netns", "add", one)
        ip("link", "add", f"{wire}a", "netns", names[0], "type", "veth", "peer", "name", f"{wire}b", "netns", names[1])
        for one, end, address in zip(names, "ab", (FIRST, SECOND), strict=True):
            ip("-n", one, "addr", "add", f"{address}/24", "dev", f"{wire}{end}")
            ip("-n", one, "link", "set", "lo", "up")
            ip("-n", one, "link", "set", f"{wire}{end}", "up")
        for one, end in zip(names, "ab", strict=True):
            wait_for_wire(one, f"{wire}{end}")
        yield names[0], launcher, (names[1], f"{wire}b")
    finally:
        for one in names:
            subprocess.run(["ip", "netns", "del", one], capture_output=True, timeout=LIMIT)


def on_both(hosts, folder, *arguments):
    first, launcher, _ = hosts
    command = ["ip", "netns", "exec", first, MPIEXEC, "-launcher", "rsh", "-launcher-exec", str(launcher)]
    command += ["-hosts", f"{FIRST},{SECOND}", "-ppn", "1", "-n", "2", sys.executable, *tiny(folder)]
    return subprocess.Popen(
        [*command, *arguments], cwd=folder, env=os.environ | ONE_THREAD | TCP_ONLY,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def test_a_host_that_is_cut_off_ends_the_job_and_nothing_is_lost(hosts, tmp_path):
    run, (second, wire) = ("--steps", "500", "--out"), hosts[2]
    process = on_both(hosts, tmp_path, *run, "cut")
    until(lambda: any((tmp_path / "cut").glob("step-*[1-9]*.json")), process)
    ip("-n", second, "link", "set", wire, "down")
    result = ended(process)
    assert result.returncode != 0
    assert result.stderr.count("rank 1 of 2 on ") == 1 and "has not been reached for some" in result.stderr
    assert "Traceback" not in result.stderr
    ip("-n", second, "link", "set", wire, "up")
    for again in (on_both(hosts, tmp_path, *run, "cut", "--resume"), pretrain(tmp_path, 1, *run, "whole")):
        result = ended(again)
        assert result.returncode == 0, result.stderr
    cut, whole = (tmp_path / name / "step-00000500.safetensors" for name in ("cut", "whole"))
    assert cut.read_bytes() == whole.read_bytes()
