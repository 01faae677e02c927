/* Expands the tables in the file WIRE_TABLE to structs and the declarations of their functions, the
 * smallest encoded size of each record, and the numbers of the messages.  No guard: included once
 * for each set of tables (the product's, and the tests' own). */

/* ---- structs -------------------------------------------------------------------------------- */

#define WIRE_TYPE_u8 uint8_t
#define WIRE_TYPE_u16 uint16_t
#define WIRE_TYPE_u32 uint32_t
#define WIRE_TYPE_u64 uint64_t
#define WIRE_TYPE_i32 int32_t
#define WIRE_TYPE_bytes struct bytes

#define RECORD(name) struct wire_##name {
#define FIELD(type, name) WIRE_TYPE_##type name;
#define LIST(record, name) \
    struct wire_##record *name; \
    uint32_t name##_count;
#define LATER(since)
#define END(name) \
    } \
    ;
#define RPC(name, number, server, repeat)
#define ONEWAY(name, number, server)
#include WIRE_TABLE
#undef RECORD
#undef FIELD
#undef LIST
#undef LATER
#undef END

#undef WIRE_TYPE_u8
#undef WIRE_TYPE_u16
#undef WIRE_TYPE_u32
#undef WIRE_TYPE_u64
#undef WIRE_TYPE_i32
#undef WIRE_TYPE_bytes

/* ---- functions ------------------------------------------------------------------------------ */

#define RECORD(name) \
    void wire_##name##_encode(struct writer *writer, const struct wire_##name *message); \
    void wire_##name##_decode(struct reader *reader, struct arena *arena, \
                              struct wire_##name *message); \
    void wire_##name##_print(struct text *text, const struct wire_##name *message); \
    void wire_##name##_random(struct rng *rng, struct arena *arena, struct wire_##name *message);
#define FIELD(type, name)
#define LIST(record, name)
#define LATER(since)
#define END(name)
#include WIRE_TABLE
#undef RECORD
#undef FIELD
#undef LIST
#undef LATER
#undef END

/* ---- smallest sizes ------------------------------------------------------------------------- */

#define WIRE_SIZE_u8 1
#define WIRE_SIZE_u16 2
#define WIRE_SIZE_u32 4
#define WIRE_SIZE_u64 8
#define WIRE_SIZE_i32 4
#define WIRE_SIZE_bytes 2

#define RECORD(name) \
    __attribute__((unused)) static inline size_t wire_##name##_size_min(uint32_t version) \
    { \
        size_t size = 0; \
        (void)version;
#define FIELD(type, name) size += WIRE_SIZE_##type;
#define LIST(record, name) size += 2;
#define LATER(since) \
    if (version < (since)) \
        return size;
#define END(name) \
    return size; \
    }
#include WIRE_TABLE
#undef RECORD
#undef FIELD
#undef LIST
#undef LATER
#undef END
#undef RPC
#undef ONEWAY

#undef WIRE_SIZE_u8
#undef WIRE_SIZE_u16
#undef WIRE_SIZE_u32
#undef WIRE_SIZE_u64
#undef WIRE_SIZE_i32
#undef WIRE_SIZE_bytes
