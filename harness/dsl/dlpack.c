/* DLPack for host memory that stands for device memory.
 *
 * Libraries that take tensors through tvm-ffi read the device and the stream from
 * the exchange table of the tensor's type (`__dlpack_c_exchange_api__`). This table
 * passes everything to the original one and then answers CUDA for data inside the
 * ranges it was told of, and the virtual device's current stream.
 */
#include "runtime.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { DL_CPU = 1, DL_CUDA = 2 };
enum { DEVICES = 64 };

/* The stable leading part of the DLPack 1.x structures. */
typedef struct {
    int32_t type, id;
} dl_device;
typedef struct {
    void *data;
    dl_device device;
    int32_t ndim;
    uint32_t dtype;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} dl_tensor;
typedef struct dl_managed {
    uint32_t version[2];
    void *context;
    void (*deleter)(struct dl_managed *self);
    uint64_t flags;
    dl_tensor tensor;
} dl_managed;
typedef struct {
    uint32_t version[2];
    void *older;
    void *allocate;
    int (*managed_from_object)(void *object, dl_managed **out);
    void *to_object;
    int (*tensor_from_object)(void *object, dl_tensor *out);
    int (*current_stream)(int32_t type, int32_t id, void **out);
} dl_exchange;

static const dl_exchange *original;
static dl_exchange wrapped;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct range {
    uint64_t start, end, device;
} *ranges;
static size_t range_count;
static __thread void *streams[DEVICES];

static void claim(dl_tensor *t) {
    uint64_t at = (uint64_t)(uintptr_t)t->data + t->byte_offset;
    size_t i;
    if (t->device.type != DL_CPU) return;
    pthread_mutex_lock(&lock);
    /* A tensor without elements has no address to tell it by: it counts as the
     * device's while there is a device, since host tensors rarely are exchanged. */
    for (i = 0; i < range_count; i++)
        if (!at || (at >= ranges[i].start && at < ranges[i].end)) {
            t->device.type = DL_CUDA;
            t->device.id = at ? (int32_t)ranges[i].device : 0;
            break;
        }
    pthread_mutex_unlock(&lock);
}

static int managed_from_object(void *object, dl_managed **out) {
    int status = original->managed_from_object(object, out);
    if (!status) claim(&(*out)->tensor);
    return status;
}

static int tensor_from_object(void *object, dl_tensor *out) {
    int status = original->tensor_from_object(object, out);
    if (!status) claim(out);
    return status;
}

static int current_stream(int32_t type, int32_t id, void **out) {
    if (type != DL_CUDA) return original->current_stream(type, id, out);
    *out = id >= 0 && id < DEVICES ? streams[id] : NULL;
    return 0;
}

/* Returns the table to use in place of `table`, which must outlive it. */
SS_EXPORT const void *sidestream_dlpack(const dl_exchange *table) {
    original = table;
    wrapped = *table;
    wrapped.managed_from_object = managed_from_object;
    if (table->tensor_from_object) wrapped.tensor_from_object = tensor_from_object;
    wrapped.current_stream = current_stream;
    return &wrapped;
}

/* Replaces the address ranges that count as device memory: start, end, index of the
 * device, start, ... */
SS_EXPORT int sidestream_device_ranges(const uint64_t *bounds, size_t count) {
    struct range *fresh = NULL;
    if (count) {
        fresh = malloc(count * sizeof *fresh);
        if (!fresh) return SS_UNKNOWN;
        memcpy(fresh, bounds, count * sizeof *fresh);
    }
    pthread_mutex_lock(&lock);
    free(ranges);
    ranges = fresh;
    range_count = count;
    pthread_mutex_unlock(&lock);
    return SS_SUCCESS;
}

/* Sets the calling thread's current stream of a device. */
SS_EXPORT void sidestream_stream(int32_t device, uint64_t handle) {
    if (device >= 0 && device < DEVICES) streams[device] = (void *)(uintptr_t)handle;
}
