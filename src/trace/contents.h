/* Contents of the blocks of a trace: the same everywhere, different for each id. */
#ifndef TRACE_CONTENTS_H
#define TRACE_CONTENTS_H

#include <stddef.h>
#include <stdint.h>

void trace_block_fill(uint64_t block, uint8_t *to, size_t size);
/* Number of bytes that differ from those. */
uint64_t trace_block_differs(uint64_t block, const uint8_t *at, size_t size);

#endif
