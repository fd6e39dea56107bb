"""The benchmark: the engine and its peers on the same work, side by side, interleaved, in one run.

cases.py says what is measured; ours.py, torch_peer.py and onnx_peer.py do it; worker.py runs one side in a process
of its own, race.py lets them take turns; startup.py times whole processes, machine.py measures what this machine can do
at best, charts.py draws. ranks.py and ranks_worker.py measure several processes that train together, ledger.py the
memory of a training step; smollm2.py and whisper.py run real models, which two_parts.py times.
"""
