"""Compiled functions that packages keep on disk: the virtual device cannot use them."""

SWITCHED_OFF = {
    "CUDNN_FRONTEND_DISABLE_COMPILED_CACHE": "1",
    "FLASH_ATTENTION_CUTE_DSL_CACHE_ENABLED": "0",
}
"""Environment variables, read when a package is imported, that let it compile in the
process. What it takes from a disk is machine code: its PTX would be unknown."""
