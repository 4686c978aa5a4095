"""torch on the virtual CUDA runtime: scripts written for `cuda` on a torch without it.

Device tensors are CPU tensors whose storage lies in memory of the runtime and that say
`cuda`. Against a wrapper class on a backend of its own this was judged by what runs:
autograd, optimizers and in-place calls use torch's C++ paths with real storages; a
kernel launcher finds the address through `data_ptr`, DLPack or torch's C exchange
table; modules, parameters, pickling and printing see plain tensors; and an operator
that has no rule of its own still has its CPU kernel. What C++ would do by device
(where a result goes, who may mix with whom, which stream) is done here, between
autograd and the kernels.
"""

from sidestream.harness.vtorch.virtual_torch import VirtualTorch

__all__ = ["VirtualTorch"]
