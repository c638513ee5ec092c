"""The paper's benchmarks by lm-evaluation-harness and moh serve; see scripts/lm_eval.py."""
