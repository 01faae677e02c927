#include "trace/contents.h"

#include <string.h>

static uint64_t next_word(uint64_t *state)
{
    uint64_t mixed = *state += UINT64_C(0x9e3779b97f4a7c15);

    mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94d049bb133111eb);
    return mixed ^ (mixed >> 31);
}

void trace_block_fill(uint64_t block, uint8_t *to, size_t size)
{
    uint64_t state = block * UINT64_C(0xd1342543de82ef95) + 1;

    while (size > 0) {
        uint64_t word = next_word(&state);
        size_t part = size < sizeof(word) ? size : sizeof(word);

        memcpy(to, &word, part);
        to += part;
        size -= part;
    }
}

uint64_t trace_block_differs(uint64_t block, const uint8_t *at, size_t size)
{
    uint64_t state = block * UINT64_C(0xd1342543de82ef95) + 1;
    uint64_t wrong = 0;

    while (size > 0) {
        uint64_t word = next_word(&state);
        size_t part = size < sizeof(word) ? size : sizeof(word);

        if (memcmp(at, &word, part) != 0) {
            for (size_t i = 0; i < part; i++)
                wrong += at[i] != ((const uint8_t *)&word)[i];
        }
        at += part;
        size -= part;
    }
    return wrong;
}
