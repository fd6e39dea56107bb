"""The benchmark: the engine and PyTorch on the same work, side by side, interleaved, in one run.

cases.py says what is measured, ours.py and torch_peer.py do the work, worker.py runs one side in a process of its own,
race.py lets the two take turns, machine.py measures what this machine can do at best, charts.py draws. ranks.py and
ranks_worker.py measure several processes that train together.
"""
