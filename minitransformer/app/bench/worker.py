"""One side of a case in a process of its own, so that memory and threads are its own too.

    python -m minitransformer.app.bench.worker CASE SIDE THREADS [DATA]

prepares the work, then answers each line on stdin with one on stdout: the seconds of each unit of a round, or at the
end the memory it took. A round begins with a unit that is not timed: the other side has just had the cores and their
caches, which in a training run nobody else has. SIDE is ours, torch, compiled or onnx. A peer's process must not load
Numba, whose threads make PyTorch's small operations ten times slower."""

import json
import resource
import sys
import time
from pathlib import Path

from minitransformer.app.bench.cases import CASES
from minitransformer.errors import UserError


def prepare(case_name: str, side: str, threads: int, data: str | None):
    case = CASES[case_name]
    if side == "ours":
        from minitransformer.app.bench import ours

        return getattr(ours, case.kind)(case.sizes, data)
    if side == "onnx":
        from minitransformer.app.bench import onnx_peer

        return getattr(onnx_peer, case.kind)(case.sizes, data, threads)
    import torch

    from minitransformer.app.bench import torch_peer

    torch.set_num_threads(threads)
    return getattr(torch_peer, case.kind)(case.sizes, data, side == "compiled")


def peak_megabytes() -> float:
    """Of this process. Linux counts that of its parent in `getrusage`, and this program's own in a line of its own."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next((line for line in status.read_text().splitlines() if line.startswith("VmHWM:")), None)
        if line is not None:
            return int(line.split()[1]) / 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 1024


def compiled() -> int:
    """How many kernels this process has compiled. The compiler needs memory, which a second process does not."""
    jit = sys.modules.get("kernels.cpu.jit")  # another backend does not load it
    return 0 if jit is None else jit.kernels_compiled()


def main(case_name: str, side: str, threads: str, data: str | None = None) -> None:
    work, repeats = prepare(case_name, side, int(threads), data), CASES[case_name].repeats
    before = peak_megabytes()
    start = time.perf_counter()
    for _ in range(2):  # compiles, and fills caches
        work()
    ready = {"ready": time.perf_counter() - start, "before": before, "compiled": side == "ours" and compiled()}
    print(json.dumps(ready), flush=True)
    for _line in sys.stdin:
        work()
        seconds = []
        for _ in range(repeats):
            start = time.perf_counter()
            work()
            seconds.append(time.perf_counter() - start)
        print(json.dumps(seconds), flush=True)
    print(json.dumps({"megabytes": peak_megabytes()}), flush=True)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit(130)
    except UserError as error:
        print(json.dumps({"error": str(error)}), flush=True)
