/* crc32c of two runs of bytes one behind the other, from the crc of each. */
#ifndef TRANSPORT_CRC_H
#define TRANSPORT_CRC_H

#include <stddef.h>
#include <stdint.h>

/* size: bytes of the second run. */
uint32_t crc_combine(uint32_t first, uint32_t second, uint64_t size);

/* `before`, and then a run of size bytes, of which sums has the crc of each `step`. */
uint32_t crc_append(uint32_t before, const uint32_t *sums, size_t step, size_t size);

#endif
