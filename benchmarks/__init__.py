"""What the engine costs: our code as users run it, against a naive loop and against the limit, in one run.

python -m benchmarks [--quick] [W2 ...]
"""
