"""CUDA without a device: what a kernel file says (`source.py`), and what a launch is (`launcher.py`).

Below both tiers that run launches and know nothing of each other: `gpu/`, which compiles with NVRTC, and `emulator/`.
"""
