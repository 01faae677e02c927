/* What the expanded functions of records do with single values and lists.  Private to wire and to
 * the tests of its tables. */
#ifndef WIRE_VALUES_H
#define WIRE_VALUES_H

#include "base/arena.h"
#include "base/codec.h"
#include "base/limits.h"
#include "base/rng.h"
#include "base/text.h"

#define WIRE_LIST_COUNT_MAX LIMIT_BATCH_ITEMS
#define WIRE_PRINT_ITEMS 4u  /* items of a list that are printed */
#define WIRE_PRINT_BYTES 80u /* bytes of a field that are printed */

/* Zeroed room for *count items, NULL when there are none.
 * Without memory *count becomes 0 and the reader fails. */
void *wire_list_take(struct reader *reader, struct arena *arena, uint32_t *count, size_t item_size);

void wire_print_u8(struct text *text, uint8_t value);
void wire_print_u16(struct text *text, uint16_t value);
void wire_print_u32(struct text *text, uint32_t value);
void wire_print_u64(struct text *text, uint64_t value);
void wire_print_i32(struct text *text, int32_t value);
void wire_print_bytes(struct text *text, struct bytes value);

/* Mostly small numbers and short bytes, now and then the extremes. */
uint8_t wire_random_u8(struct rng *rng, struct arena *arena);
uint16_t wire_random_u16(struct rng *rng, struct arena *arena);
uint32_t wire_random_u32(struct rng *rng, struct arena *arena);
uint64_t wire_random_u64(struct rng *rng, struct arena *arena);
int32_t wire_random_i32(struct rng *rng, struct arena *arena);
struct bytes wire_random_bytes(struct rng *rng, struct arena *arena);
void *wire_random_list(struct rng *rng, struct arena *arena, uint32_t *count, size_t item_size);

#endif
