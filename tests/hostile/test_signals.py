"""Signals at random moments of a command, from first import to last word: resumed, it ends with the same bytes."""

import os
import signal
import time

from command_support import TINY, command, start

from minitransformer.app.training.checkpoints import CheckpointError, RunFolder

LIVES = 12
RUN = ("pretrain", "--texts", "60", "--steps", "120", "--max-len", "12", *TINY)


def test_signals_at_random_moments(tmp_path, generator, share, record_property):
    assert command(tmp_path, *RUN, "--out", "whole").returncode == 0
    expected = (tmp_path / "whole" / "step-00000120.safetensors").read_bytes()
    sent, runs = 0, 0
    while sent < share(LIVES):
        name = f"run-{runs}"
        for life in range(8):
            resume = ["--resume"] if RunFolder(tmp_path / name).steps() else []
            process = start(tmp_path, *RUN, "--out", name, *resume)
            if life < 4:
                time.sleep(generator.uniform(0.0, 3.0))
                number = generator.choice([signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
                process.send_signal(number)
                if generator.random() < 0.3:
                    process.send_signal(generator.choice([signal.SIGHUP, signal.SIGTERM]))
                sent += 1
            _, error = process.communicate(timeout=120)
            # before Python reaches the program, a signal ends it as it ends any other: by itself, or in an import
            begun = "pretrain" in error or "step" in error
            assert not (begun and "Traceback" in error), error
            if os.path.isdir(tmp_path / name):
                try:
                    RunFolder(tmp_path / name).latest()
                except CheckpointError as missing:
                    assert "holds no checkpoint" in str(missing)
            if process.returncode == 0:
                break
        assert (tmp_path / name / "step-00000120.safetensors").read_bytes() == expected
        runs += 1
    record_property("hostile", f"signals: {sent} at random moments of {runs} runs, all resumed bit for bit")
