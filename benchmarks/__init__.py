"""What Sidestream costs: `python -m benchmarks` prints every table."""
