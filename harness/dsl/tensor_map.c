/* cuTensorMapEncodeTiled: writes the 128-byte descriptor that the TMA unit reads.
 *
 * The layout is not published. It was found by asking the CUDA driver and CuTe
 * DSL's inline encoder for many maps and comparing bits; recorded driver output
 * is the oracle of the test. The bytes matter, not only their meaning: kernels
 * edit descriptors in device memory with `tensormap.replace`.
 *
 * 32-bit words: 0-1 address; 2 rank-1 at bit 4, element type at 7, interleave at
 * 11, swizzle at 13, NaN fill at 15, TF32 rounding at 16, L2 promotion at 17, on
 * Blackwell a format version at 0 and the large-tensor flag at 21; 3-6 strides of
 * dimensions 1-4 in 16-byte units and 7 their upper four bits each; 8-12 extents
 * minus one; 13 element strides minus one (three bits each) and box 0 minus one
 * at bit 24; 14 boxes 1-4 minus one. Past the 64 bytes that the unit reads, the
 * driver notes the box size (16) and the shared-memory pattern (18) in bytes.
 */
#include "runtime.h"

#include <string.h>

enum { MAX_RANK = 5, BLACKWELL = 10 };

/* CUtensorMapDataType to bits of an element, type in the map, TF32 rounding. */
static const struct {
    uint8_t bits, code, tf32;
} element[13] = {{8, 0, 0},  {16, 1, 0}, {32, 2, 0},  {32, 3, 0}, {64, 4, 0},
                 {64, 5, 0}, {16, 6, 0}, {32, 7, 0},  {64, 9, 0}, {16, 10, 0},
                 {32, 8, 0}, {32, 7, 1}, {32, 8, 1}};
enum { FIRST_FLOAT = 6 };

/* Largest extent in bytes whose map has no large-tensor flag. */
static const uint64_t small_tensor_bytes = 0x1ffff;

int ss_compute_major(void);
int ss_smem_per_block(void);

SS_EXPORT int _cuTensorMapEncodeTiled(uint32_t *map, int type, uint32_t rank, void *address,
                                      const uint64_t *dims, const uint64_t *strides,
                                      const uint32_t *box, const uint32_t *steps,
                                      int interleave, int swizzle, int l2_promotion,
                                      int nan_fill) {
    uint32_t w[32] = {0}, i;
    uint64_t base = (uint64_t)(uintptr_t)address, extent, box_bytes, inner;
    if (!map || !dims || !box || !steps || (rank > 1 && !strides))
        return ss_fail(SS_INVALID_VALUE, "tensor map: a null argument");
    if ((uintptr_t)map % 64)
        return ss_fail(SS_INVALID_VALUE, "tensor map: the map itself is not on 64 bytes");
    if (type < 0 || type > 12)
        return ss_fail(SS_NOT_SUPPORTED, "tensor map: data type %d has no model", type);
    if (rank < 1 || rank > MAX_RANK)
        return ss_fail(SS_INVALID_VALUE, "tensor map: rank %u is not in 1..5", rank);
    if (interleave)
        return ss_fail(SS_NOT_SUPPORTED, "tensor map: interleave %d has no model", interleave);
    if (swizzle < 0 || swizzle > 3)
        return ss_fail(SS_NOT_SUPPORTED, "tensor map: swizzle %d has no model", swizzle);
    if (l2_promotion < 0 || l2_promotion > 3)
        return ss_fail(SS_INVALID_VALUE, "tensor map: L2 promotion %d", l2_promotion);
    if (nan_fill < 0 || nan_fill > 1 || (nan_fill && type < FIRST_FLOAT))
        return ss_fail(SS_INVALID_VALUE, "tensor map: fill %d of data type %d", nan_fill, type);
    if (base % 16)
        return ss_fail(SS_INVALID_VALUE, "tensor map: address %p is not on 16 bytes", address);
    extent = (element[type].bits * dims[0] + 7) / 8;
    box_bytes = element[type].bits / 8;
    for (i = 0; i < rank; i++) {
        if (dims[i] < 1 || dims[i] > (1ull << 32))
            return ss_fail(SS_INVALID_VALUE, "tensor map: extent %llu of dimension %u",
                           (unsigned long long)dims[i], i);
        if (box[i] < 1 || box[i] > 256)
            return ss_fail(SS_INVALID_VALUE, "tensor map: box %u of dimension %u", box[i], i);
        if (steps[i] < 1 || steps[i] > 8)
            return ss_fail(SS_INVALID_VALUE, "tensor map: element stride %u of dimension %u",
                           steps[i], i);
        if (i && (strides[i - 1] % 16 || strides[i - 1] >= (1ull << 40)))
            return ss_fail(SS_INVALID_VALUE, "tensor map: stride %llu of dimension %u",
                           (unsigned long long)strides[i - 1], i);
        if (i) extent += (dims[i] - 1) * strides[i - 1];
        box_bytes *= box[i] / steps[i];
    }
    inner = (uint64_t)box[0] * element[type].bits / 8;
    if (inner % 16)
        return ss_fail(SS_INVALID_VALUE, "tensor map: inner box of %llu bytes is not on 16",
                       (unsigned long long)inner);
    if (swizzle && inner > (16ull << swizzle))
        return ss_fail(SS_INVALID_VALUE, "tensor map: inner box of %llu bytes passes the %d of "
                       "its swizzle", (unsigned long long)inner, 16 << swizzle);
    if (box_bytes > (uint64_t)ss_smem_per_block())
        return ss_fail(SS_INVALID_VALUE, "tensor map: box of %llu bytes passes shared memory",
                       (unsigned long long)box_bytes);

    w[0] = (uint32_t)base;
    w[1] = (uint32_t)(base >> 32);
    w[2] = (rank - 1) << 4 | (uint32_t)element[type].code << 7 | (uint32_t)swizzle << 13 |
           (uint32_t)nan_fill << 15 | (uint32_t)element[type].tf32 << 16 |
           (uint32_t)l2_promotion << 17;
    if (ss_compute_major() >= BLACKWELL) {
        w[2] |= 2;
        if (extent > small_tensor_bytes) w[2] |= 1u << 21;
    }
    for (i = 0; i < rank; i++) {
        w[8 + i] = (uint32_t)(dims[i] - 1);
        w[13] |= (steps[i] - 1) << (3 * i);
        if (!i) continue;
        w[2 + i] = (uint32_t)(strides[i - 1] >> 4);
        w[7] |= (uint32_t)(strides[i - 1] >> 36) << (4 * (i - 1));
        w[14] |= (box[i] - 1) << (8 * (i - 1));
    }
    w[13] |= (box[0] - 1) << 24;
    w[16] = (uint32_t)box_bytes;
    w[18] = swizzle ? 128u << swizzle : 16u;
    memcpy(map, w, sizeof w);
    return SS_SUCCESS;
}
