/* Every bound of the project, in one place, tied by compile-time assertions. */
#ifndef BASE_LIMITS_H
#define BASE_LIMITS_H

#include <stdint.h>

#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)
#define TIB (1024 * GIB)

#define NS_PER_US UINT64_C(1000)
#define NS_PER_MS (1000 * NS_PER_US)
#define NS_PER_S (1000 * NS_PER_MS)

/* Names and values. */
#define LIMIT_KEY_SIZE 4096u                  /* bytes of a key, at least 1 */
#define LIMIT_GROUP_ID_SIZE 256u              /* bytes of a group's id, at least 1 */
#define LIMIT_GROUP_SIZE 65535u               /* members of a group */
#define LIMIT_GROUPS_ABSENT 65536u            /* parents that are not there */
#define LIMIT_GROUP_WAITING 1024u             /* children that wait for one of these */
#define LIMIT_EXTRA_SIZE 512u                 /* bytes of the extra block of a slot */
#define LIMIT_OBJECT_SIZE (UINT64_C(1) * TIB) /* bytes of an object */
#define LIMIT_NAME_SIZE 256u                  /* segment names, host names, addresses */
#define LIMIT_PATTERN_SIZE 1024u              /* bytes of a removal pattern */
#define LIMIT_REPLICAS 16u                    /* copies of an object: bits of a u16 */
#define LIMIT_PARTS 16u                       /* extents of a replica, and one more for each MiB */
#define LIMIT_EXTENTS 1024u                   /* extents of an object, all its copies together */
#define LIMIT_ITEM_BUFFERS 65536u             /* buffers of one item of a call */
#define LIMIT_QUEUE_ITEMS (1u << 20)          /* of one queue: under way, or not taken */
#define LIMIT_REGISTERED_RANGES 4096u         /* of memory that a client registers */
#define LIMIT_WRITE_RANGES 1024u              /* gaps of an open write, and one */
#define LIMIT_DEPTH 0x7fffffffu               /* position along a chain; one above = unknown */

/* Frames (wire). */
#define LIMIT_BATCH_ITEMS 1024u                 /* items of one message */
#define LIMIT_BODY_SIZE (1u * 1024u * 1024u)    /* bytes of a frame's body */
#define LIMIT_PAYLOAD_SIZE (UINT64_C(64) * MIB) /* bytes that follow a frame's body */

/* Connections and requests (rpc). */
#define LIMIT_CONNECTIONS 4096u               /* per process */
#define LIMIT_REQUESTS_PER_CONN 1024u         /* open requests of one connection, each way */
#define LIMIT_SEND_QUEUE (8u * 1024u * 1024u) /* bytes queued on one connection, payload apart */
#define LIMIT_RETRIES 64u                     /* attempts of one call */

/* Master. */
#define LIMIT_NODES 1024u
#define LIMIT_SEGMENTS 4096u /* over all nodes */
#define LIMIT_SEGMENTS_PER_NODE 64u
#define LIMIT_SEGMENT_SIZE (UINT64_C(1) * TIB)
#define LIMIT_SESSIONS 4096u
#define LIMIT_WAITERS_PER_SESSION 4096u /* put items that wait for room or for another writer */
#define LIMIT_WAITERS 65536u
#define LIMIT_OPEN_WRITE_SHARE 4u     /* open writes of a session: at most pool / this */
#define LIMIT_LEASE_SHARE 4u          /* leased bytes of a session: at most pool / this */
#define LIMIT_READS_PER_SESSION 64u   /* look-ups that `continues` can name */
#define LIMIT_HOLDS_PER_SESSION 4096u /* look-ups whose objects are viewed */
#define LIMIT_READ_ENTRIES 1000000u   /* keys of all these look-ups */
#define LIMIT_LIST_ROWS 200u          /* rows of one list reply: keys of 4 KiB fit in a frame */
#define LIMIT_INVENTORY_SLOTS 4096u   /* slots that one inventory message tells */
#define LIMIT_INVENTORY_ROWS 256u     /* rows of one inventory message */
#define LIMIT_VERIFY_PARTS 16u        /* of an object that nodes compare with their checksums */
#define LIMIT_VERIFY_BYTES (64 * MIB) /* of one of them: a few milliseconds of its node */
#define LIMIT_COPIES_PER_NODE 16u     /* under way to a node, and from one */
#define LIMIT_TASKS 256u              /* of operators: under way, or ended and still told of */
#define LIMIT_STEP_OBJECTS 256u       /* objects that one bounded step looks at */

#define LIMIT_HTTP_CONNECTIONS 64u /* to the pages of a server */
#define LIMIT_HTTP_IDLE_S 10u      /* of one of them, without a byte */
#define LIMIT_HTTP_BODY (1 * MIB)  /* bytes of an answer */
#define LIMIT_HTTP_ASKED 65536u    /* bytes of the body of a request */
#define LIMIT_DRAIN_JOBS 64u       /* that HTTP pages remember */
#define LIMIT_DRAIN_SEGMENTS 64u   /* of one of them */

#if LIMIT_INVENTORY_ROWS > LIMIT_BATCH_ITEMS
#error "an inventory message is a batch"
#endif
#if LIMIT_EXTENTS > LIMIT_BATCH_ITEMS
#error "the places of an object are a list of one message"
#endif

#endif
