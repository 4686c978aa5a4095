/* Every instruction family, in the order that gives an operation its number. */
#include "core.h"

extern const OpEntry ops_control[], ops_special[], ops_integer[];

const OpEntry *const all_ops[] = {
    ops_control, ops_special, ops_integer, 0,
};
