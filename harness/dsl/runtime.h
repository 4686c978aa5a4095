/* The interface between the replacement runtime and Python (ctypes). */
#ifndef SIDESTREAM_RUNTIME_H
#define SIDESTREAM_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#define SS_EXPORT __attribute__((visibility("default")))

/* The few cudaError codes that are handed out. */
enum {
    SS_SUCCESS = 0,
    SS_INVALID_VALUE = 1,
    SS_INVALID_DEVICE = 101,
    SS_INVALID_HANDLE = 400,
    SS_SYMBOL_NOT_FOUND = 500,
    SS_LAUNCH_FAILURE = 719,
    SS_NOT_SUPPORTED = 801,
    SS_UNKNOWN = 999
};

/* One launch as the host program asked for it. Python mirrors this layout. */
typedef struct {
    const char *kernel;
    const void *image;
    uint32_t grid[3];
    uint32_t block[3];
    uint64_t dynamic_smem;
    uint64_t stream;
    void **params;
    const void *attributes; /* cudaLaunchAttribute[attribute_count], 72 bytes each */
    uint32_t attribute_count;
    int32_t max_dynamic_smem;
    int32_t nonportable_cluster;
} ss_launch;

typedef int (*ss_launch_fn)(const ss_launch *launch);
/* Answers whether `image` holds `name`, and its static shared memory in bytes. */
typedef int (*ss_kernel_fn)(const void *image, const char *name, int *static_smem);
/* Told of a blocking call of the host program. */
typedef int (*ss_block_fn)(const char *call, uint64_t stream);

/* Makes a device the calling thread's, 0 if it could; returns the current one for -1. */
typedef int (*ss_device_fn)(int device);

/* Keeps the reason of a failure for Python to read, and marks the thread failed. */
int ss_fail(int code, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
