/* crc32c of two runs of bytes one behind the other, from the crc of each. */
#ifndef TRANSPORT_CRC_H
#define TRANSPORT_CRC_H

#include <stdint.h>

/* size: bytes of the second run. */
uint32_t crc_combine(uint32_t first, uint32_t second, uint64_t size);

#endif
