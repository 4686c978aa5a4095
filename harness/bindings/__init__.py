"""`cuda.bindings` on the virtual CUDA runtime."""
