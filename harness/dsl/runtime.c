/* A CUDA runtime for compiled CuTe DSL host functions that has no GPU.
 *
 * Compiled host functions reach CUDA through the C symbols below and nothing
 * else. This library answers them from a chip description and hands every
 * launch to Python. What it has no model for returns an error and leaves the
 * reason in a note, which Python turns into an exception: no call is quietly
 * accepted, none ends the process.
 */
#define _POSIX_C_SOURCE 200809L /* strdup */
#include "runtime.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ATTRIBUTE = 256 };
/* CUfunction_attribute values. */
enum {
    FUNC_MAX_THREADS = 0,
    FUNC_STATIC_SMEM = 1,
    FUNC_CONST_BYTES = 2,
    FUNC_LOCAL_BYTES = 3,
    FUNC_MAX_DYNAMIC_SMEM = 8,
    FUNC_CARVEOUT = 9,
    FUNC_NONPORTABLE_CLUSTER = 14
};
/* cudaDeviceAttr values used here. */
enum {
    DEV_MAX_THREADS = 1,
    DEV_MAJOR = 75,
    DEV_SMEM_BLOCK = 8,
    DEV_SMEM_OPTIN = 97,
    DEV_SMEM_SM = 81,
    DEV_RESERVED_SMEM = 111,
    DEV_THREADS_SM = 39,
    DEV_BLOCKS_SM = 106
};

typedef struct library {
    int unloaded;
    const void *image;
    struct library *next;
} library;

typedef struct kernel {
    library *owner;
    char *name;
    int static_smem;
    int max_dynamic_smem;
    int nonportable_cluster;
    struct kernel *next;
} kernel;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static library *libraries;
static kernel *kernels;
static int attribute_value[MAX_ATTRIBUTE];
static unsigned char attribute_known[MAX_ATTRIBUTE];
static ss_launch_fn on_launch;
static ss_kernel_fn on_kernel;
static ss_block_fn on_block;

static __thread char note[512];
static __thread int failed;

int ss_fail(int code, const char *format, ...) {
    /* The first reason of a call is the one that matters; later ones follow. */
    if (!note[0]) {
        va_list args;
        va_start(args, format);
        vsnprintf(note, sizeof note, format, args);
        va_end(args);
    }
    failed = code;
    return code;
}

static int unmodelled(const char *call) {
    return ss_fail(SS_NOT_SUPPORTED, "%s has no model on the virtual device", call);
}

/* ---- the Python side ---- */

SS_EXPORT void sidestream_callbacks(ss_launch_fn launch, ss_kernel_fn kernel_info,
                                    ss_block_fn block) {
    on_launch = launch;
    on_kernel = kernel_info;
    on_block = block;
}

SS_EXPORT int sidestream_attribute(int attribute, int value) {
    if (attribute < 0 || attribute >= MAX_ATTRIBUTE) return SS_INVALID_VALUE;
    attribute_value[attribute] = value;
    attribute_known[attribute] = 1;
    return SS_SUCCESS;
}

/* Copies and clears the calling thread's note; returns its error code. */
SS_EXPORT int sidestream_take_note(char *out, size_t size) {
    int code = failed;
    if (size) snprintf(out, size, "%s", note);
    note[0] = 0;
    failed = 0;
    return code;
}

/* The compute capability decides the format of tensor maps. */
int ss_compute_major(void) { return attribute_value[DEV_MAJOR]; }
int ss_smem_per_block(void) { return attribute_value[DEV_SMEM_OPTIN]; }

/* ---- errors ---- */

static const char *error_name(int code) {
    switch (code) {
    case SS_SUCCESS: return "cudaSuccess";
    case SS_INVALID_VALUE: return "cudaErrorInvalidValue";
    case SS_INVALID_DEVICE: return "cudaErrorInvalidDevice";
    case SS_INVALID_HANDLE: return "cudaErrorInvalidResourceHandle";
    case SS_SYMBOL_NOT_FOUND: return "cudaErrorSymbolNotFound";
    case SS_LAUNCH_FAILURE: return "cudaErrorLaunchFailure";
    case SS_NOT_SUPPORTED: return "cudaErrorNotSupported";
    default: return "cudaErrorUnknown";
    }
}

SS_EXPORT const char *cuda_dialect_get_error_name(int code) { return error_name(code); }
SS_EXPORT const char *CuteDSLRT_GetErrorName(int code) { return error_name(code); }
SS_EXPORT const char *CuteDSLRT_GetErrorString(int code) {
    return note[0] ? note : error_name(code);
}

SS_EXPORT void cuda_dialect_assert_success(int code) {
    if (code) ss_fail(code, "the host function asserted success of %s", error_name(code));
}
SS_EXPORT void cuda_dialect_print_on_error(int code) {
    if (code) ss_fail(code, "the host function met %s", error_name(code));
}

typedef void (*raise_parts_fn)(const char *kind, const char **parts, int32_t count);

/* The message format is what the DSL's CUDADialectError parses. */
SS_EXPORT void CuteDSLRT_TVMFFISetRaisedCudaError(raise_parts_fn raise, int code) {
    char number[16];
    const char *parts[2] = {"CUDA Error Code: ", number};
    if (!raise) return;
    ss_fail(code, "the host function met %s", error_name(code));
    snprintf(number, sizeof number, "%d", code);
    raise("CUDADialectError", parts, 2);
}

SS_EXPORT void CuteDSLRT_TVMFFISetRaisedCudaLaunchError(
    raise_parts_fn raise, int gx, int gy, int gz, int bx, int by, int bz, int threads,
    int64_t smem, int device, int max_threads, int mbx, int mby, int mbz, int mgx,
    int mgy, int mgz, int max_smem, int max_optin, const char *violation,
    const char *file, int line, int col, int end_col) {
    char text[2048];
    const char *parts[3] = {"CUDA Error Code: ", "1", text};
    if (!raise) return;
    ss_fail(SS_INVALID_VALUE, "launch refused: %s", violation ? violation : "unknown");
    snprintf(text, sizeof text,
             "\nkind=cuda_launch;api=cudaLaunchKernelExC;error_name=cudaErrorInvalidValue;"
             "error_string=invalid argument;grid=%d,%d,%d;block=%d,%d,%d;"
             "block_threads=%d;dynamic_smem_bytes=%lld;stream=unknown;device=%d;"
             "max_threads_per_block=%d;max_block_dim=%d,%d,%d;max_grid_dim=%d,%d,%d;"
             "max_shared_mem_per_block_bytes=%d;"
             "max_shared_mem_per_block_optin_bytes=%d;violation=%s;source_file=%s;"
             "source_line=%d;source_col=%d;source_end_col=%d",
             gx, gy, gz, bx, by, bz, threads, (long long)smem, device, max_threads, mbx,
             mby, mbz, mgx, mgy, mgz, max_smem, max_optin, violation ? violation : "",
             file ? file : "", line, col, end_col);
    raise("CUDADialectError", parts, 3);
}

/* ---- libraries and kernels ---- */

static library *find_library(const void *handle) {
    library *l;
    pthread_mutex_lock(&lock);
    for (l = libraries; l && l != handle; l = l->next) {}
    pthread_mutex_unlock(&lock);
    return l && !l->unloaded ? l : NULL;
}

static kernel *find_kernel(const void *handle) {
    kernel *k;
    pthread_mutex_lock(&lock);
    for (k = kernels; k && k != handle; k = k->next) {}
    pthread_mutex_unlock(&lock);
    return k && !k->owner->unloaded ? k : NULL;
}

static int load_library(void **out, const void *image) {
    library *l;
    if (!out || !image) return ss_fail(SS_INVALID_VALUE, "library load without an image");
    l = calloc(1, sizeof *l);
    if (!l) return ss_fail(SS_UNKNOWN, "out of memory");
    l->image = image;
    pthread_mutex_lock(&lock);
    l->next = libraries;
    libraries = l;
    pthread_mutex_unlock(&lock);
    *out = l;
    return SS_SUCCESS;
}

static int get_kernel(void **out, void *handle, const char *name) {
    library *l = find_library(handle);
    kernel *k;
    int static_smem = 0, status;
    if (!l) return ss_fail(SS_INVALID_HANDLE, "kernel %s of an unknown library", name);
    if (!on_kernel) return ss_fail(SS_UNKNOWN, "the virtual device is not active");
    status = on_kernel(l->image, name, &static_smem);
    if (status) return ss_fail(status, "kernel %s is not in the loaded library", name);
    k = calloc(1, sizeof *k);
    if (k) k->name = strdup(name);
    if (!k || !k->name) return ss_fail(SS_UNKNOWN, "out of memory");
    k->owner = l;
    k->static_smem = static_smem;
    k->max_dynamic_smem = attribute_value[DEV_SMEM_BLOCK] - static_smem;
    pthread_mutex_lock(&lock);
    k->next = kernels;
    kernels = k;
    pthread_mutex_unlock(&lock);
    *out = k;
    return SS_SUCCESS;
}

/* Records stay allocated, so that a stale handle is refused and not followed. */
static int unload_library(void *handle) {
    library *l = find_library(handle);
    if (!l) return SS_INVALID_HANDLE;
    l->unloaded = 1;
    return SS_SUCCESS;
}

SS_EXPORT int _cudaLibraryLoadData(void **out, const void *image, void *a, void **b,
                                   unsigned n, void *c, void **d, unsigned m) {
    (void)a, (void)b, (void)n, (void)c, (void)d, (void)m;
    return load_library(out, image);
}
SS_EXPORT int _cuLibraryLoadData(void **out, const void *image, void *a, void **b,
                                 unsigned n, void *c, void **d, unsigned m) {
    (void)a, (void)b, (void)n, (void)c, (void)d, (void)m;
    return load_library(out, image);
}
SS_EXPORT int _cudaLibraryGetKernel(void **out, void *lib, const char *name) {
    return get_kernel(out, lib, name);
}
SS_EXPORT int _cuLibraryGetKernel(void **out, void *lib, const char *name) {
    return get_kernel(out, lib, name);
}
SS_EXPORT int _cudaLibraryUnload(void *lib) { return unload_library(lib); }
SS_EXPORT int _cuLibraryUnload(void *lib) { return unload_library(lib); }

typedef int (*init_fn)(void *args);
typedef int (*load_fn)(void *args, int device);
typedef void (*raise_fn)(const char *kind, const char *message);

SS_EXPORT int cuda_dialect_init_library_once(void **state, void *init, void *load,
                                             raise_fn raise) {
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
    void *lib = NULL;
    int status = 0;
    pthread_mutex_lock(&once);
    if (!*state) {
        status = ((init_fn)init)(&lib);
        if (!status && load) status = ((load_fn)load)(&lib, 0);
        if (!status) *state = lib;
    }
    pthread_mutex_unlock(&once);
    if (!status) return 0;
    ss_fail(status, "loading the kernel library failed: %s", error_name(status));
    if (raise) raise("RuntimeError", note);
    return -1;
}

SS_EXPORT void cuda_dialect_unload_library_once(void **state) {
    if (*state) unload_library(*state);
    *state = NULL;
}

static int set_kernel_attribute(void *handle, int attribute, int value) {
    kernel *k = find_kernel(handle);
    if (!k) return ss_fail(SS_INVALID_HANDLE, "attribute %d of an unknown kernel", attribute);
    switch (attribute) {
    case FUNC_MAX_DYNAMIC_SMEM:
        if (value < 0 || value + k->static_smem > attribute_value[DEV_SMEM_OPTIN])
            return ss_fail(SS_INVALID_VALUE,
                           "%s: %d bytes of dynamic and %d of static shared memory pass the "
                           "%d bytes a block may have",
                           k->name, value, k->static_smem, attribute_value[DEV_SMEM_OPTIN]);
        k->max_dynamic_smem = value;
        return SS_SUCCESS;
    case FUNC_NONPORTABLE_CLUSTER: k->nonportable_cluster = value; return SS_SUCCESS;
    case FUNC_CARVEOUT: return SS_SUCCESS; /* a hint without effect on results */
    default:
        return ss_fail(SS_NOT_SUPPORTED, "kernel attribute %d has no model", attribute);
    }
}

SS_EXPORT int _cudaKernelSetAttributeForDevice(void *k, int attribute, int value, int dev) {
    (void)dev;
    return set_kernel_attribute(k, attribute, value);
}
SS_EXPORT int _cudaFuncSetAttribute(void *k, int attribute, int value) {
    return set_kernel_attribute(k, attribute, value);
}

SS_EXPORT int _cuKernelGetAttribute(int *out, int attribute, void *handle, int dev) {
    kernel *k = find_kernel(handle);
    (void)dev;
    if (!k) return ss_fail(SS_INVALID_HANDLE, "attribute %d of an unknown kernel", attribute);
    switch (attribute) {
    case FUNC_MAX_THREADS: *out = attribute_value[DEV_MAX_THREADS]; return SS_SUCCESS;
    case FUNC_STATIC_SMEM: *out = k->static_smem; return SS_SUCCESS;
    case FUNC_CONST_BYTES:
    case FUNC_LOCAL_BYTES: *out = 0; return SS_SUCCESS;
    case FUNC_MAX_DYNAMIC_SMEM: *out = k->max_dynamic_smem; return SS_SUCCESS;
    case FUNC_NONPORTABLE_CLUSTER: *out = k->nonportable_cluster; return SS_SUCCESS;
    default:
        return ss_fail(SS_NOT_SUPPORTED, "kernel attribute %d has no model", attribute);
    }
}

/* ---- the device ---- */

static int device_count = 1;
static ss_device_fn on_device;

/* Says how many devices there are; without a callback device 0 is current. */
SS_EXPORT void sidestream_devices(int count, ss_device_fn device) {
    device_count = count;
    on_device = device;
}

SS_EXPORT int _cudaGetDevice(int *out) {
    *out = on_device ? on_device(-1) : 0;
    return SS_SUCCESS;
}
SS_EXPORT int _cuDeviceGet(int *out, int ordinal) {
    *out = ordinal;
    return ordinal < 0 || ordinal >= device_count ? SS_INVALID_DEVICE : SS_SUCCESS;
}
SS_EXPORT int _cudaSetDevice(int device) {
    if (device < 0 || device >= device_count)
        return ss_fail(SS_INVALID_DEVICE, "device %d of %d", device, device_count);
    return on_device ? on_device(device) : SS_SUCCESS;
}
SS_EXPORT int _cudaGetDeviceCount(int *out) {
    *out = device_count;
    return SS_SUCCESS;
}
SS_EXPORT int _cudaDeviceGetAttribute(int *out, int attribute, int device) {
    (void)device;
    if (attribute < 0 || attribute >= MAX_ATTRIBUTE || !attribute_known[attribute])
        return ss_fail(SS_NOT_SUPPORTED, "device attribute %d is not in the chip description",
                       attribute);
    *out = attribute_value[attribute];
    return SS_SUCCESS;
}

/* Registers are not known before assembly, so they never bound the answer. */
SS_EXPORT int _cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *out, void *handle,
                                                             int block, size_t smem) {
    kernel *k = find_kernel(handle);
    int blocks, bytes;
    if (!k) return ss_fail(SS_INVALID_HANDLE, "occupancy of an unknown kernel");
    if (block <= 0 || block > attribute_value[DEV_MAX_THREADS])
        return ss_fail(SS_INVALID_VALUE, "occupancy of a block of %d threads", block);
    blocks = attribute_value[DEV_THREADS_SM] / ((block + 31) / 32 * 32);
    if (blocks > attribute_value[DEV_BLOCKS_SM]) blocks = attribute_value[DEV_BLOCKS_SM];
    bytes = (int)smem + k->static_smem + attribute_value[DEV_RESERVED_SMEM];
    if (bytes > 0 && attribute_value[DEV_SMEM_SM] / bytes < blocks)
        blocks = attribute_value[DEV_SMEM_SM] / bytes;
    *out = blocks;
    return SS_SUCCESS;
}

static int block_on(const char *call, uint64_t stream) {
    if (!on_block) return unmodelled(call);
    return on_block(call, stream);
}
SS_EXPORT int _cudaDeviceSynchronize(void) { return block_on("cudaDeviceSynchronize", 0); }
SS_EXPORT int _cudaStreamSynchronize(void *stream) {
    return block_on("cudaStreamSynchronize", (uint64_t)(uintptr_t)stream);
}

/* ---- launches ---- */

typedef struct {
    uint32_t grid[3], block[3];
    size_t dynamic_smem;
    void *stream;
    const void *attributes;
    uint32_t attribute_count;
} launch_config; /* cudaLaunchConfig_t */

static int launch(void *handle, const launch_config *config, void **params) {
    kernel *k = find_kernel(handle);
    ss_launch l;
    int i, status;
    if (failed) return failed; /* an earlier call of this host function failed */
    if (!k) return ss_fail(SS_INVALID_HANDLE, "launch of an unknown kernel");
    if (!on_launch)
        return ss_fail(SS_UNKNOWN, "launch of %s while the virtual device is not active",
                       k->name);
    memset(&l, 0, sizeof l);
    l.kernel = k->name;
    l.image = k->owner->image;
    for (i = 0; i < 3; i++) {
        l.grid[i] = config->grid[i];
        l.block[i] = config->block[i];
    }
    l.dynamic_smem = config->dynamic_smem;
    l.stream = (uint64_t)(uintptr_t)config->stream;
    l.params = params;
    l.attributes = config->attributes;
    l.attribute_count = config->attribute_count;
    l.max_dynamic_smem = k->max_dynamic_smem;
    l.nonportable_cluster = k->nonportable_cluster;
    status = on_launch(&l);
    if (status) return ss_fail(status, "launch of %s failed", k->name);
    return SS_SUCCESS;
}

SS_EXPORT int _cudaLaunchKernelEx(const launch_config *config, void *handle, void **params) {
    return launch(handle, config, params);
}

SS_EXPORT int _cudaLaunchKernel(void *handle, int gx, int gy, int gz, int bx, int by, int bz,
                                void *stream, size_t smem, void **params) {
    launch_config config = {{(uint32_t)gx, (uint32_t)gy, (uint32_t)gz},
                            {(uint32_t)bx, (uint32_t)by, (uint32_t)bz},
                            smem, stream, NULL, 0};
    return launch(handle, &config, params);
}

/* ---- the rest of the surface: refused by name ---- */

#define UNMODELLED(symbol) \
    SS_EXPORT int symbol(void) { return unmodelled(#symbol); }

UNMODELLED(_cuLibraryGetGlobal)
UNMODELLED(_cuLibraryGetKernelCount)
UNMODELLED(_cuLibraryGetManaged)
UNMODELLED(_cuLibraryGetModule)
UNMODELLED(_cuLibraryGetUnifiedFunction)
UNMODELLED(_cuLibraryLoadFromFile)
UNMODELLED(_cudaEventCreate)
UNMODELLED(_cudaEventDestroy)
UNMODELLED(_cudaEventElapsedTime)
UNMODELLED(_cudaEventRecord)
UNMODELLED(_cudaFree)
UNMODELLED(_cudaFreeAsync)
UNMODELLED(_cudaFreeHost)
UNMODELLED(_cudaGetDeviceProperties)
UNMODELLED(_cudaGraphDestroy)
UNMODELLED(_cudaGraphExecDestroy)
UNMODELLED(_cudaGraphInstantiate)
UNMODELLED(_cudaGraphLaunch)
UNMODELLED(_cudaLibraryGetGlobal)
UNMODELLED(_cudaLibraryGetKernelCount)
UNMODELLED(_cudaLibraryGetManaged)
UNMODELLED(_cudaLibraryGetUnifiedFunction)
UNMODELLED(_cudaLibraryLoadFromFile)
UNMODELLED(_cudaMalloc)
UNMODELLED(_cudaMallocAsync)
UNMODELLED(_cudaMallocHost)
UNMODELLED(_cudaMallocManaged)
UNMODELLED(_cudaMemcpy)
UNMODELLED(_cudaMemcpyAsync)
UNMODELLED(_cudaMemset)
UNMODELLED(_cudaMemsetAsync)
UNMODELLED(_cudaProfilerStart)
UNMODELLED(_cudaProfilerStop)
UNMODELLED(_cudaStreamAddCallback)
UNMODELLED(_cudaStreamBeginCapture)
UNMODELLED(_cudaStreamCreate)
UNMODELLED(_cudaStreamDestroy)
UNMODELLED(_cudaStreamEndCapture)
UNMODELLED(_cudaStreamWaitEvent)
UNMODELLED(CuteDSLRT_Function_Run)
UNMODELLED(CuteDSLRT_Module_Create_From_Bytes)
UNMODELLED(CuteDSLRT_Module_Destroy)
UNMODELLED(CuteDSLRT_Module_Get_Function)
