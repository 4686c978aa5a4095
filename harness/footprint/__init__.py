"""Which bytes of global memory a launch reads and writes, seen while it executes."""
