"""The parts of scripts/bench_pytorch.py. `models` and `worker` need PyTorch; the others the standard library only."""
