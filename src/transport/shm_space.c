#include "transport/shm.h"

#include <stdlib.h>
#include <string.h>

struct shm_space *shm_space_create(struct env *env)
{
    struct shm_space *space = calloc(1, sizeof(*space));

    if (space == NULL)
        return NULL;
    if (env_memory_open(env, NULL, "snowskin-marks", sizeof(struct marks), &space->memory) !=
        SNOW_OK) {
        free(space);
        return NULL;
    }
    space->env = env;
    space->users = 1;
    space->marks = (struct marks *)(void *)space->memory.at;
    return space;
}

void shm_space_use(struct shm_space *space)
{
    __atomic_fetch_add(&space->users, 1, __ATOMIC_RELAXED);
}

void shm_space_release(struct shm_space *space)
{
    if (space == NULL || __atomic_sub_fetch(&space->users, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    for (uint32_t i = 0; i < space->segment_count; i++) {
        struct shm_segment *segment = &space->segments[i];

        if (segment->meta.at != NULL)
            env_memory_close(space->env, &segment->meta);
        if (segment->data.at != NULL)
            env_memory_close(space->env, &segment->data);
    }
    env_memory_close(space->env, &space->memory);
    free(space);
}

static enum snow_status fill_segment(struct shm_segment *segment, struct env_conn *stream,
                                     const struct wire_attached *attached)
{
    enum snow_status status = env_memory_take(stream, true, &segment->meta);

    if (status == SNOW_OK)
        status = env_memory_take(stream, true, &segment->data);
    if (status != SNOW_OK)
        return status == SNOW_NOT_READY ? SNOW_INVALID : status;
    if (segment->data.size < attached->size ||
        segment->meta.size < SEGMENT_HEADER_BYTES + attached->slot_count * sizeof(struct slot))
        return SNOW_INVALID;
    segment->slots = (const struct slot *)(void *)(segment->meta.at + SEGMENT_HEADER_BYTES);
    segment->slot_count = attached->slot_count;
    return SNOW_OK;
}

enum snow_status shm_space_fill(struct shm_space *space, struct env_conn *stream,
                                const struct wire_attach_rep *attached)
{
    enum snow_status status = SNOW_OK;

    if (attached->segments_count > LIMIT_SEGMENTS_PER_NODE)
        return SNOW_INVALID;
    space->writes = attached->write != 0;
    for (uint32_t i = 0; i < attached->segments_count && status == SNOW_OK; i++) {
        space->segment_count++; /* release closes what it has */
        status = fill_segment(&space->segments[i], stream, &attached->segments[i]);
    }
    return status;
}

enum snow_status shm_space_find(const struct shm_space *space, const struct wire_place *place,
                                const struct slot **slot, uint8_t **at)
{
    const struct shm_segment *segment;

    if (place->segment >= space->segment_count)
        return SNOW_INVALID;
    segment = &space->segments[place->segment];
    if (place->slot >= segment->slot_count || place->offset > segment->data.size ||
        place->length > segment->data.size - place->offset)
        return SNOW_INVALID;
    *slot = &segment->slots[place->slot];
    *at = segment->data.at + place->offset;
    return SNOW_OK;
}

uint32_t shm_space_key_id(const struct shm_space *space, uint32_t segment)
{
    const uint8_t *at = space->segments[segment].meta.at + SEGMENT_KEY_OFFSET;

    return __atomic_load_n((const uint32_t *)(const void *)at, __ATOMIC_ACQUIRE);
}

struct mark *shm_space_mark(struct shm_space *space, const struct wire_place *place, uint64_t gen)
{
    struct marks *marks = space->marks;

    for (uint32_t tries = 0; tries < MARKS_COUNT; tries++) {
        /* The lowest ones again and again: the node looks at no more than were ever used. */
        uint32_t index = (space->next_mark + tries) % MARKS_COUNT;
        struct mark *mark = &marks->marks[index];

        if (__atomic_load_n(&mark->gen, __ATOMIC_ACQUIRE) != 0)
            continue;
        space->next_mark = index + 1 == marks->end || tries > 0 ? 0 : index + 1;
        if (index >= marks->end)
            __atomic_store_n(&marks->end, index + 1, __ATOMIC_RELEASE);
        mark_set(mark, place->segment, place->slot, gen, place->offset, place->length);
        return mark;
    }
    return NULL;
}

/* ---- views ---------------------------------------------------------------------------------- */

enum snow_status shm_space_view(struct shm_space *space, const struct wire_place *place,
                                uint64_t gen, struct transport_view *view)
{
    const struct slot *slot;
    uint8_t *at;
    enum snow_status status = shm_space_find(space, place, &slot, &at);

    if (status != SNOW_OK)
        return status;
    view->mark = shm_space_mark(space, place, gen);
    if (view->mark == NULL)
        return SNOW_LIMIT;
    if (!slot_holds(slot, gen, place->offset, place->length)) {
        mark_clear(view->mark);
        return SNOW_STALE;
    }
    shm_space_use(space);
    view->space = space;
    view->at = at;
    return SNOW_OK;
}

void transport_view_end(struct transport_view *view)
{
    mark_clear(view->mark);
    shm_space_release(view->space);
    *view = (struct transport_view){0};
}
