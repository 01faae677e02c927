/* Any bytes as frame headers, as they are and with a checksum that holds (a fuzzer does not find
 * one): what is accepted encodes to the same bytes. */
#include "base/assert.h"
#include "base/hash.h"
#include "base/limits.h"
#include "wire/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void decode(const uint8_t *data, size_t size)
{
    struct frame_header header;
    uint8_t again[FRAME_HEADER_SIZE];

    if (frame_header_decode(bytes_of(data, size), &header) != FRAME_REASON_OK)
        return;
    ASSERT(header.body_size <= LIMIT_BODY_SIZE && header.payload_size <= LIMIT_PAYLOAD_SIZE);
    frame_header_encode(&header, again);
    ASSERT(memcmp(data, again, sizeof(again)) == 0);
    if (header.body_size <= size - FRAME_HEADER_SIZE)
        (void)frame_body_check(&header, bytes_of(data + FRAME_HEADER_SIZE, header.body_size));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t fixed[FRAME_HEADER_SIZE];

    decode(data, size);
    if (size < FRAME_HEADER_SIZE)
        return 0;
    memcpy(fixed, data, sizeof(fixed));
    uint32_t crc = crc32c(0, fixed, FRAME_HEADER_SIZE - 4);
    for (uint32_t i = 0; i < 4; i++)
        fixed[FRAME_HEADER_SIZE - 4 + i] = (uint8_t)(crc >> 8 * i);
    decode(fixed, sizeof(fixed));
    return 0;
}
