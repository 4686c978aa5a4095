"""A package works on the second device, and a thread asks the driver for memory.

    python two_devices.py [stream | memory | left | thread]

Each word is a mistake: a launch on a stream of the other device, one for its memory
(flashinfer-ai/flashinfer#452), a current device that is not put back, and a call of the
driver on a thread without a context (NVIDIA/cudnn-frontend#626).
"""

import sys
import threading

import torch
from cuda.bindings import driver, runtime

from sidestream.scenarios.host_packages.placed import Placed

words = sys.argv[1:]
package = Placed(leaves_device="left" in words)
here = torch.zeros(64, dtype=torch.uint8, device="cuda")
torch.cuda.synchronize()
streams, memory = [], []
for device in (0, 1):
    runtime.cudaSetDevice(device)
    streams.append(int(runtime.cudaStreamCreateWithFlags(1)[1]))
    memory.append(int(runtime.cudaMalloc(64)[1]))
runtime.cudaSetDevice(0)
package.mark_at(here.data_ptr(), streams[0], device=0)
where = streams["stream" not in words]
package.mark_at(memory["memory" not in words], where, device=1)
for device in (0, 1):
    runtime.cudaSetDevice(device)
    runtime.cudaDeviceSynchronize()
runtime.cudaSetDevice(0)


def serve():
    """Get memory as a worker does."""
    if "thread" not in words:
        driver.cuCtxSetCurrent(context)
    status, address = driver.cuMemAlloc(64)
    if status == driver.CUresult.CUDA_SUCCESS:
        driver.cuMemFree(address)


context = driver.cuCtxGetCurrent()[1]
worker = threading.Thread(target=serve)
worker.start()
worker.join()
