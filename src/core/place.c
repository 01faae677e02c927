/* Placement: which extents of which nodes a new object gets.
 *
 * Problem.  A chain of objects is usable only to its first hole, so what belongs together should
 *           die together; yet all nodes are to be filled alike.
 * Idea.     The objects of a request go to one segment until 64 MiB, then to the next: the better
 *           of two random candidates (--placement=request); or each goes its own way (spread).
 *           What continues a chain that no other shares goes to its segment.
 *           An object goes into one extent when it can, else into pieces of that segment; into
 *           pieces of several when it is larger than one.  One of more than 64 MiB is striped over
 *           several nodes that have room.  What its writer wants in a segment of a name, or on its
 *           own host, goes there, while that has room or victims.  Copies go to different nodes,
 *           and to different failure domains, or at least hosts, when there are enough.
 * Threads.  The core's own. */
#include "core/group.h"

#include <string.h>

#define REQUEST_SHARE (64 * MIB)
#define PIECE_MIN (64 * KIB)
#define PIECE_MORE MIB /* beyond LIMIT_PARTS, an object may have one piece more for each of these */
#define STRIPE_TRIES 4u
#define DISTANCE_MAX 2u
#define NEARLY_FULL 50u /* per mille of a segment that is free */

bool core_segment_open(const struct core *core, const struct segment *segment)
{
    if (segment->space == NULL || space_is_recovering(segment->space))
        return false;
    const struct node *node = core->nodes[segment->node];

    return node->state == NODE_ALIVE && node->linked && !node->draining;
}

/* ---- choosing a segment ---- */

struct choice {
    const struct part *taken; /* parts of earlier replicas: other nodes, then other hosts */
    uint32_t taken_count;
    struct bytes name; /* preferred, may be empty */
    /* The writer's, when its own are preferred. */
    struct bytes host;    /* may be empty */
    uint64_t incarnation; /* of the node in its process; 0: none */
};

/* Which segments are looked at, the nearest first. */
enum nearness { NAMED, OWN_PROCESS, OWN_HOST, ANYWHERE };

static struct choice choice_of(const struct wire_put_start_req *put, const struct part *taken)
{
    return (struct choice){
        .taken = taken, .name = put->segment, .host = put->host, .incarnation = put->own_node};
}

static const struct node *node_of(const struct core *core, const struct part *part)
{
    return core->nodes[core->segments[part->segment]->node];
}

static bool may_serve(const struct core *core, const struct choice *choice,
                      const struct segment *segment)
{
    if (!core_segment_open(core, segment))
        return false;
    for (uint32_t i = 0; i < choice->taken_count; i++) {
        if (node_of(core, &choice->taken[i]) == core->nodes[segment->node])
            return false;
    }
    return true;
}

/* How far from the parts that are taken: 0 on the host of one, 1 in the failure domain of one, 2 in
 * neither. */
static uint32_t distance(const struct core *core, const struct choice *choice,
                         const struct segment *segment)
{
    const struct node *node = core->nodes[segment->node];
    uint32_t least = DISTANCE_MAX;

    for (uint32_t i = 0; i < choice->taken_count && least > 0; i++) {
        const struct node *other = node_of(core, &choice->taken[i]);

        if (strcmp(other->host, node->host) == 0)
            least = 0;
        else if (strcmp(other->domain, node->domain) == 0)
            least = 1;
    }
    return least;
}

static bool is_at(const struct core *core, const struct choice *choice,
                  const struct segment *segment, enum nearness where)
{
    const struct node *node = core->nodes[segment->node];

    switch (where) {
    case NAMED:
        return choice->name.size > 0 && bytes_equal(choice->name, bytes_of_string(segment->name));
    case OWN_PROCESS:
        return choice->incarnation != 0 && node->incarnation == choice->incarnation;
    case OWN_HOST:
        return choice->host.size > 0 && bytes_equal(choice->host, bytes_of_string(node->host));
    default:
        return true;
    }
}

/* One that may serve, of these: the farthest from what is taken, from a random start on. */
static struct segment *random_segment(struct core *core, const struct choice *choice,
                                      enum nearness where)
{
    struct segment *best = NULL;
    uint32_t farthest = 0;
    uint32_t start;

    if (core->segment_count == 0)
        return NULL;
    start = (uint32_t)rng_below(&core->rng, core->segment_count);
    for (uint32_t i = 0; i < core->segment_count; i++) {
        struct segment *segment = core->segments[(start + i) % core->segment_count];

        if (!is_at(core, choice, segment, where) || !may_serve(core, choice, segment))
            continue;
        uint32_t far = distance(core, choice, segment);

        if (far == DISTANCE_MAX)
            return segment;
        if (best == NULL || far > farthest) {
            best = segment;
            farthest = far;
        }
    }
    return best;
}

/* Per mille of it, what it may grow by included. */
uint64_t core_place_free_share(const struct segment *segment)
{
    uint64_t bytes =
        space_free_bytes(segment->space) + (segment->size - space_size(segment->space));

    return bytes / SPACE_GRANULE * 1000 / (segment->size / SPACE_GRANULE);
}

/* Of one that is nearly full and one that is not: by lot, by their sizes. */
static struct segment *drawn(struct core *core, struct segment *full, struct segment *other)
{
    if (core_victim_next(core, full) == 0)
        return other;
    return rng_below(&core->rng, full->size + other->size) < full->size ? full : other;
}

/* The better of two candidates: more free, or when both are nearly full, the better victim.  Where
 * only one is, the other has joined empty: it gets its share of new objects, not all of them, since
 * who puts them soon reads them. */
static struct segment *better(struct core *core, struct segment *a, struct segment *b)
{
    uint64_t a_free = core_place_free_share(a);
    uint64_t b_free = core_place_free_share(b);

    if (a_free > NEARLY_FULL && b_free > NEARLY_FULL)
        return a_free >= b_free ? a : b;
    if (a_free > NEARLY_FULL || b_free > NEARLY_FULL)
        return a_free > NEARLY_FULL ? drawn(core, b, a) : drawn(core, a, b);
    uint32_t a_victim = core_victim_next(core, a);
    uint32_t b_victim = core_victim_next(core, b);

    if (a_victim == 0 || b_victim == 0)
        return a_victim == 0 ? b : a;
    return core->policy->before(core, b_victim, a_victim) ? b : a;
}

static struct segment *better_of_two(struct core *core, const struct choice *choice,
                                     enum nearness where)
{
    struct segment *one = random_segment(core, choice, where);

    if (core->segment_count < 2 || one == NULL)
        return one;
    /* As far as the first: there is none farther. */
    return better(core, one, random_segment(core, choice, where));
}

/* Where the writer wants it; NULL: it says nothing, or there is no such segment.  Copies of it have
 * to be far from that: they go anywhere. */
static struct segment *wanted_segment(struct core *core, const struct choice *choice)
{
    struct segment *segment = NULL;

    if (choice->name.size > 0)
        segment = better_of_two(core, choice, NAMED);
    for (int where = OWN_PROCESS; where < ANYWHERE && segment == NULL; where++) {
        if (choice->host.size > 0 && choice->taken_count == 0)
            segment = better_of_two(core, choice, (enum nearness)where);
    }
    return segment;
}

/* Where the request's objects go now: all to one segment, until they are many; when each goes
 * elsewhere, only where room was made for one. */
static uint16_t kept_segment(const struct core *core, const struct request *request)
{
    if (core->options.placement == CORE_PLACEMENT_SPREAD)
        return request->lacking_first ? request->lacking : UINT16_MAX;
    return request->placed < REQUEST_SHARE ? request->segment : UINT16_MAX;
}

static struct segment *choose(struct core *core, const struct request *request,
                              const struct choice *choice)
{
    bool first = choice->taken_count == 0;
    uint16_t kept = first ? kept_segment(core, request) : request->lacking;

    if (kept != UINT16_MAX && (first || !request->lacking_first) &&
        may_serve(core, choice, core->segments[kept]))
        return core->segments[kept];
    struct segment *wanted = wanted_segment(core, choice);

    return wanted != NULL ? wanted : better_of_two(core, choice, ANYWHERE);
}

/* ---- taking ---- */

uint32_t core_place_distance(const struct core *core, const struct part *taken, uint32_t count,
                             const struct segment *segment)
{
    struct choice choice = {.taken = taken, .taken_count = count};

    return distance(core, &choice, segment);
}

/* What is to be placed. */
struct load {
    uint64_t size; /* bytes of the object */
    uint64_t tail; /* bytes of a long key, in the extent of part 0 */
    uint32_t owner;
    uint32_t parts_max; /* of one replica */
    uint64_t piece_min; /* bytes, but for the last */
    uint32_t width;     /* nodes that it is striped over; 1: it is not */
    uint32_t replicas;  /* that are asked for */
};

static uint64_t key_tail(const struct wire_put_start_req *put, uint32_t index)
{
    uint64_t size = put->items[index].key.size;

    if (put->members_count > 0)
        size += core_extra_bytes(put, index);
    return size > WIRE_KEY_INLINE ? size : 0;
}

uint64_t core_place_bytes(const struct wire_put_start_req *put, uint32_t index)
{
    return space_round(put->items[index].size + key_tail(put, index));
}

bool core_place_exceeds(const struct core *core, const struct segment *segment, uint64_t bytes)
{
    return bytes > segment->size - core_room_reserve(core, segment);
}

void core_place_undo(struct core *core, const struct part *parts, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct segment *segment = core->segments[parts[i].segment];

        core->free_bytes += space_capacity(segment->space, parts[i].slot);
        space_give(segment->space, parts[i].slot);
    }
}

/* size: bytes of the object; tail: bytes that its key needs behind them. */
bool core_place_one(struct core *core, struct segment *segment, uint64_t size, uint64_t tail,
                    uint32_t owner, struct part *part)
{
    uint32_t slot;

    if (space_take(segment->space, size + tail, owner, &slot) != SNOW_OK)
        return false;
    core->free_bytes -= space_capacity(segment->space, slot);
    *part = (struct part){
        .segment = (uint16_t)segment->index, .present = true, .slot = slot, .length = size};
    return true;
}

/* Several extents of one segment, largest runs first; adds to parts and returns the bytes still
 * missing. */
static uint64_t take_pieces(struct core *core, struct segment *segment, uint64_t left,
                            const struct load *load, struct part *parts, uint32_t *count)
{
    while (left > 0 && *count < load->parts_max) {
        uint64_t tail = *count == 0 ? load->tail : 0;
        uint64_t run = space_largest_run(segment->space) / SPACE_ALIGN * SPACE_ALIGN;
        uint64_t piece = run < left + tail ? run : left + tail;

        if (piece < left + tail && piece < load->piece_min)
            break;
        if (!core_place_one(core, segment, piece - tail, tail, load->owner, &parts[*count]))
            break;
        left -= piece - tail;
        (*count)++;
    }
    return left;
}

/* A part of a replica that is striped: on a node that has no other part of the object.  Adds to
 * parts; false: no such node has room for it. */
static bool take_stripe(struct core *core, const struct choice *choice, uint64_t size,
                        const struct load *load, struct part *parts, uint32_t *count)
{
    struct choice others = *choice;
    struct load stripe = *load;

    others.taken_count += *count; /* the parts of this replica stand behind those of the others */
    for (uint32_t try = 0; try < STRIPE_TRIES; try++) {
        struct segment *segment = better_of_two(core, &others, ANYWHERE);
        uint32_t before = *count;

        if (segment == NULL)
            return false;
        if (*count > 0)
            stripe.tail = 0;
        if (core_place_one(core, segment, size, stripe.tail, load->owner, &parts[*count])) {
            (*count)++;
            return true;
        }
        if (take_pieces(core, segment, size, &stripe, parts, count) == 0)
            return true;
        core_place_undo(core, &parts[before], *count - before);
        *count = before;
    }
    return false;
}

/* Parts of equal size on several nodes; false: not all of them have room. */
static bool take_stripes(struct core *core, const struct choice *choice, const struct load *load,
                         struct part *parts, uint32_t *count)
{
    uint64_t stripe = (load->size / load->width + SPACE_ALIGN) / SPACE_ALIGN * SPACE_ALIGN;
    uint64_t left = load->size;

    *count = 0;
    while (left > 0) {
        uint64_t size = left < stripe ? left : stripe;

        if (!take_stripe(core, choice, size, load, parts, count)) {
            core_place_undo(core, parts, *count);
            *count = 0;
            return false;
        }
        left -= size;
    }
    core_count(core, CORE_METRIC_puts_striped, 1);
    return true;
}

/* One replica: one extent of the chosen segment, else pieces of it, else pieces of others too. */
static bool take_replica(struct core *core, struct segment *segment, const struct choice *choice,
                         const struct load *load, struct part *parts, uint32_t *count)
{
    *count = 0;
    if (load->width > 1 && take_stripes(core, choice, load, parts, count))
        return true;
    if (core_place_one(core, segment, load->size, load->tail, load->owner, &parts[0])) {
        *count = 1;
        return true;
    }
    uint64_t left = take_pieces(core, segment, load->size, load, parts, count);

    /* Elsewhere only when the segment is too small for it: else eviction there makes room. */
    bool elsewhere = core_place_exceeds(core, segment, load->size + load->tail);

    for (uint32_t i = 0; elsewhere && left > 0 && i < core->segment_count; i++) {
        struct segment *other = core->segments[i];

        if (other != segment && may_serve(core, choice, other))
            left = take_pieces(core, other, left, load, parts, count);
    }
    if (left == 0 && *count > 0)
        return true;
    core_place_undo(core, parts, *count);
    *count = 0;
    return false;
}

/* As many and as small pieces as there may be: where neither a run nor a window was found. */
static bool take_scraps(struct core *core, struct segment *segment, const struct choice *choice,
                        const struct request *request, const struct load *load, struct part *parts,
                        uint32_t *count)
{
    struct load scraps = *load;

    scraps.parts_max = LIMIT_EXTENTS / load->replicas;
    scraps.piece_min = SPACE_ALIGN;
    return request->scraps && take_replica(core, segment, choice, &scraps, parts, count);
}

static void number_parts(struct part *parts, uint32_t count, uint8_t replica)
{
    uint64_t offset = 0;

    for (uint32_t i = 0; i < count; i++) {
        parts[i].replica = replica;
        parts[i].part = (uint16_t)i;
        parts[i].parts = (uint16_t)count;
        parts[i].object_offset = offset;
        offset += parts[i].length;
    }
}

static void keep_segment(struct request *request, const struct segment *segment)
{
    if (request->segment != segment->index)
        request->placed = 0;
    request->segment = (uint16_t)segment->index;
}

/* Nodes that may take new objects. */
static uint32_t open_nodes(const struct core *core)
{
    uint32_t count = 0;
    uint32_t last = UINT32_MAX;

    for (uint32_t i = 0; i < core->segment_count; i++) {
        const struct segment *segment = core->segments[i]; /* those of a node are neighbours */

        if (segment->node == last || !core_segment_open(core, segment))
            continue;
        last = segment->node;
        count++;
    }
    return count;
}

/* Over how many nodes each copy is striped: one for each 64 MiB, as far as there are nodes for all
 * copies; not what its writer wants in one place. */
static uint32_t width_of(const struct core *core, const struct wire_put_start_req *put,
                         const struct wire_put_item *item)
{
    uint64_t width = (item->size + REQUEST_SHARE - 1) / REQUEST_SHARE;
    uint64_t nodes;

    if (width < 2 || put->segment.size > 0 || put->host.size > 0)
        return 1;
    nodes = open_nodes(core) / item->replicas;
    if (width > nodes)
        width = nodes;
    return width < 1 ? 1 : width > LIMIT_PARTS ? LIMIT_PARTS : (uint32_t)width;
}

/* Pieces that a copy may have: more than a few only where each is large. */
static uint32_t parts_max(uint64_t size, uint32_t replicas)
{
    uint64_t parts = LIMIT_PARTS + size / PIECE_MORE;
    uint32_t share = LIMIT_EXTENTS / replicas;

    return parts < share ? (uint32_t)parts : share;
}

enum snow_status core_place(struct core *core, struct request *request, uint32_t index,
                            uint32_t owner, struct part *parts, uint32_t *count)
{
    const struct wire_put_start_req *put = request->message;
    const struct wire_put_item *item = &put->items[index];
    struct load load = {.size = item->size,
                        .tail = key_tail(put, index),
                        .owner = owner,
                        .parts_max = parts_max(item->size, item->replicas),
                        .piece_min = PIECE_MIN,
                        .width = width_of(core, put, item),
                        .replicas = item->replicas};
    struct choice choice = choice_of(put, parts);

    *count = 0;
    if (core_session_is_full(core, core->sessions[request->session], item->size))
        return SNOW_NO_SPACE;
    for (uint8_t replica = 0; replica < item->replicas; replica++) {
        struct segment *segment;
        uint32_t taken = 0;

        choice.taken_count = FAULT(core->faults, copies_together) ? 0 : *count;
        segment = choose(core, request, &choice);
        if (segment == NULL && replica > 0)
            break; /* fewer nodes than copies: a shortfall */
        if (replica == 0 && segment != NULL)
            keep_segment(request, segment);
        if (segment == NULL ||
            (!take_replica(core, segment, &choice, &load, &parts[*count], &taken) &&
             !take_scraps(core, segment, &choice, request, &load, &parts[*count], &taken))) {
            core_place_undo(core, parts, *count);
            *count = 0;
            request->lacking = segment == NULL ? UINT16_MAX : (uint16_t)segment->index;
            request->lacking_first = replica == 0;
            return SNOW_NO_SPACE;
        }
        if (replica > 0 && distance(core, &choice, segment) < DISTANCE_MAX)
            core_count(core, CORE_METRIC_copies_near, 1);
        number_parts(&parts[*count], taken, replica);
        *count += taken;
    }
    request->placed += item->size;
    if (core->options.placement == CORE_PLACEMENT_SPREAD)
        request->lacking = UINT16_MAX; /* the next one begins anew */
    return SNOW_OK;
}

/* ---- where room is to be made ---- */

struct segment *core_place_lacking(struct core *core, struct request *request)
{
    const struct wire_put_start_req *put = request->message;
    struct choice choice = choice_of(put, NULL);

    if (request->lacking != UINT16_MAX && core_segment_open(core, core->segments[request->lacking]))
        return core->segments[request->lacking];
    struct segment *segment = choose(core, request, &choice);

    if (segment == NULL)
        return NULL;
    keep_segment(request, segment);
    request->lacking = request->segment;
    request->lacking_first = true;
    return segment;
}

static bool may_make_room(struct core *core, const struct request *request, struct segment *segment,
                          uint64_t bytes)
{
    if (segment->index == request->lacking || !core_segment_open(core, segment) ||
        (!request->lacking_first && segment->node == core->segments[request->segment]->node))
        return false;
    return core_victim_next(core, segment) != 0 || core_segment_can_grow(segment) ||
           space_largest_run(segment->space) >= bytes;
}

struct segment *core_place_elsewhere(struct core *core, struct request *request, uint64_t bytes)
{
    struct choice choice = choice_of(request->message, NULL);
    uint32_t start = (uint32_t)rng_below(&core->rng, core->segment_count);

    for (int where = choice.host.size > 0 && request->lacking_first ? OWN_HOST : ANYWHERE;
         where <= ANYWHERE; where++) {
        for (uint32_t i = 0; i < core->segment_count; i++) {
            struct segment *segment = core->segments[(start + i) % core->segment_count];

            if (!is_at(core, &choice, segment, (enum nearness)where) ||
                !may_make_room(core, request, segment, bytes))
                continue;
            if (request->lacking_first)
                keep_segment(request, segment);
            request->lacking = (uint16_t)segment->index;
            return segment;
        }
    }
    return NULL;
}
