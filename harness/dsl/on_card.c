/* What stands in front of the DSL's runtime on a real GPU.
 *
 * Compiled host functions resolve their CUDA calls in the libraries of
 * CUTE_DSL_LIBS, in order. This one has the few calls that are of interest: it tells
 * Python of them and hands each on to the library behind it, unchanged.
 */
#define _GNU_SOURCE
#include "runtime.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LIBRARIES = 8 };

typedef struct library {
    const void *handle, *image;
    struct library *next;
} library;

typedef struct kernel {
    const void *handle, *image;
    char *name;
    struct kernel *next;
} kernel;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static library *libraries;
static kernel *kernels;
static void *behind[MOST_LIBRARIES];
static int behind_count;
static ss_launch_fn on_launch;
static ss_block_fn on_block;

/* ---- the Python side ---- */

/* Adds a library that calls are handed on to. */
SS_EXPORT int on_card_behind(const char *path) {
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle || behind_count == MOST_LIBRARIES) return SS_UNKNOWN;
    behind[behind_count++] = handle;
    return SS_SUCCESS;
}

SS_EXPORT void on_card_callbacks(ss_launch_fn launch, ss_block_fn block) {
    on_launch = launch;
    on_block = block;
}

/* ---- handing on ---- */

static void *find(const char *name) {
    void *found = NULL;
    int i;
    for (i = 0; i < behind_count && !found; i++) found = dlsym(behind[i], name);
    return found;
}

#define HAND_ON(type, name, ...)                          \
    ((type)find(name) ? ((type)find(name))(__VA_ARGS__) : SS_NOT_SUPPORTED)

typedef int (*load_fn)(void **, const void *, void *, void **, unsigned, void *, void **,
                       unsigned);
typedef int (*get_fn)(void **, void *, const char *);

static int load(const char *call, void **out, const void *image, void *a, void **b,
                unsigned n, void *c, void **d, unsigned m) {
    int status = HAND_ON(load_fn, call, out, image, a, b, n, c, d, m);
    library *made;
    if (status || !(made = malloc(sizeof *made))) return status;
    pthread_mutex_lock(&lock);
    *made = (library){*out, image, libraries};
    libraries = made; /* a handle that comes again is found here first */
    pthread_mutex_unlock(&lock);
    return status;
}

static int get(const char *call, void **out, void *owner, const char *name) {
    int status = HAND_ON(get_fn, call, out, owner, name);
    kernel *made;
    library *l;
    if (status || !(made = malloc(sizeof *made))) return status;
    pthread_mutex_lock(&lock);
    for (l = libraries; l && l->handle != owner; l = l->next) {}
    *made = (kernel){*out, l ? l->image : NULL, strdup(name), kernels};
    kernels = made;
    pthread_mutex_unlock(&lock);
    return status;
}

SS_EXPORT int _cudaLibraryLoadData(void **out, const void *image, void *a, void **b,
                                   unsigned n, void *c, void **d, unsigned m) {
    return load("_cudaLibraryLoadData", out, image, a, b, n, c, d, m);
}
SS_EXPORT int _cuLibraryLoadData(void **out, const void *image, void *a, void **b,
                                 unsigned n, void *c, void **d, unsigned m) {
    return load("_cuLibraryLoadData", out, image, a, b, n, c, d, m);
}
SS_EXPORT int _cudaLibraryGetKernel(void **out, void *owner, const char *name) {
    return get("_cudaLibraryGetKernel", out, owner, name);
}
SS_EXPORT int _cuLibraryGetKernel(void **out, void *owner, const char *name) {
    return get("_cuLibraryGetKernel", out, owner, name);
}

/* ---- launches and waits ---- */

typedef struct {
    uint32_t grid[3], block[3];
    size_t dynamic_smem;
    void *stream;
    const void *attributes;
    uint32_t attribute_count;
} launch_config; /* cudaLaunchConfig_t */

static int tell(const launch_config *config, const void *handle, void **params) {
    ss_launch l;
    kernel *k;
    int i;
    if (!on_launch) return SS_SUCCESS;
    pthread_mutex_lock(&lock);
    for (k = kernels; k && k->handle != handle; k = k->next) {}
    pthread_mutex_unlock(&lock);
    memset(&l, 0, sizeof l);
    l.kernel = k && k->name ? k->name : "";
    l.image = k ? k->image : NULL;
    for (i = 0; i < 3; i++) {
        l.grid[i] = config->grid[i];
        l.block[i] = config->block[i];
    }
    l.dynamic_smem = config->dynamic_smem;
    l.stream = (uint64_t)(uintptr_t)config->stream;
    l.params = params;
    l.attributes = config->attributes;
    l.attribute_count = config->attribute_count;
    return on_launch(&l);
}

typedef int (*launch_ex_fn)(const launch_config *, void *, void **);
typedef int (*launch_fn)(void *, int, int, int, int, int, int, void *, size_t, void **);

SS_EXPORT int _cudaLaunchKernelEx(const launch_config *config, void *handle, void **params) {
    int status = tell(config, handle, params);
    if (status) return status;
    return HAND_ON(launch_ex_fn, "_cudaLaunchKernelEx", config, handle, params);
}

SS_EXPORT int _cudaLaunchKernel(void *handle, int gx, int gy, int gz, int bx, int by, int bz,
                                void *stream, size_t smem, void **params) {
    launch_config config = {{(uint32_t)gx, (uint32_t)gy, (uint32_t)gz},
                            {(uint32_t)bx, (uint32_t)by, (uint32_t)bz},
                            smem, stream, NULL, 0};
    int status = tell(&config, handle, params);
    if (status) return status;
    return HAND_ON(launch_fn, "_cudaLaunchKernel", handle, gx, gy, gz, bx, by, bz, stream,
                   smem, params);
}

typedef int (*wait_fn)(void *);

SS_EXPORT int _cudaStreamSynchronize(void *stream) {
    if (on_block) on_block("cudaStreamSynchronize", (uint64_t)(uintptr_t)stream);
    return HAND_ON(wait_fn, "_cudaStreamSynchronize", stream);
}
SS_EXPORT int _cudaDeviceSynchronize(void) {
    if (on_block) on_block("cudaDeviceSynchronize", 0);
    return HAND_ON(wait_fn, "_cudaDeviceSynchronize", NULL);
}
