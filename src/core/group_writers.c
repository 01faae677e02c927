/* Who is forming a group, and when it is given up.
 *
 * Problem.  Groups of dead writers would hold their room for a minute; those of slow ones are to
 *           have that time.
 * Idea.     Each session that put a member of a group that is being formed is a writer of it, while
 *           its connection stands.  The group is closed when no member came for its time, or when
 *           it had no writer for a while.
 * Invariants.
 *   R1  A FORMING group has a timer, armed for the earlier of the two.
 *   R2  Of each member that is being written the session is among the writers.
 *   R3  timer->linked = those of its writers whose connections stand.
 * Threads.  The core's own.   State.  Soft. */
#include "core/group.h"

struct group_writer {
    struct list_link of_group;   /* in timer->writers */
    struct list_link of_session; /* in session->group_writers */
    uint32_t timer;              /* in core->group_timers */
    uint32_t session;
};

void core_group_writers_init(struct core *core)
{
    pool_init(&core->group_writer_pool, &core->region, sizeof(struct group_writer), 8,
              INDEX_OBJECT_MAX);
}

static uint64_t hash_of(uint32_t timer, uint32_t session)
{
    return core_mix((uint64_t)session << 32 | timer);
}

static struct group_timer *timer_at(const struct core *core, uint32_t number)
{
    return pool_at(&core->group_timers, number);
}

static struct group_writer *find_writer(const struct core *core, uint32_t timer, uint32_t session,
                                        uint32_t *number)
{
    struct index_cursor cursor;

    *number = index_first(core->group_writers, hash_of(timer, session), &cursor);
    for (; *number != 0; *number = index_next(&cursor)) {
        struct group_writer *writer = pool_at(&core->group_writer_pool, *number);

        if (writer->timer == timer && writer->session == session)
            return writer;
    }
    return NULL;
}

/* R1. */
static void rearm(struct core *core, struct group_timer *timer)
{
    uint64_t end_ns = timer->progress_ns + timer->form_ns;
    uint64_t left_ns = timer->left_ns + core->options.group_abandoned_ns;

    wheel_arm(&core->wheel, &timer->timer,
              timer->linked == 0 && left_ns < end_ns ? left_ns : end_ns);
}

void core_group_progress(struct core *core, struct group *group)
{
    struct group_timer *timer;

    if (group->state != WIRE_GROUP_FORMING || group->timer == 0)
        return;
    timer = timer_at(core, group->timer);
    if (timer->progress_ns == core->now_ns && wheel_is_armed(&timer->timer))
        return; /* another member came in this step */
    timer->progress_ns = core->now_ns;
    rearm(core, timer);
}

static void come(struct core *core, struct group_timer *timer)
{
    if (timer->linked++ == 0)
        rearm(core, timer);
}

static void go(struct core *core, struct group_timer *timer)
{
    ASSERT(timer->linked > 0);
    if (--timer->linked > 0)
        return;
    timer->left_ns = core->now_ns;
    rearm(core, timer);
}

enum snow_status core_group_writer_add(struct core *core, const struct group *group,
                                       uint32_t session)
{
    struct group_writer *writer;
    uint32_t number;
    enum snow_status status;

    if (group->state != WIRE_GROUP_FORMING)
        return SNOW_OK;
    const struct list_link *last = list_last(&timer_at(core, group->timer)->writers);

    if ((last != NULL && list_entry(last, struct group_writer, of_group)->session == session) ||
        find_writer(core, group->timer, session, &number) != NULL)
        return SNOW_OK;
    status = pool_take(&core->group_writer_pool, &number);
    if (status != SNOW_OK)
        return status;
    status = index_insert(core->group_writers, hash_of(group->timer, session), number);
    if (status != SNOW_OK) {
        pool_give(&core->group_writer_pool, number);
        return status;
    }
    writer = pool_at(&core->group_writer_pool, number);
    *writer = (struct group_writer){.timer = group->timer, .session = session};
    list_push(&timer_at(core, group->timer)->writers, &writer->of_group);
    list_push(&core->sessions[session]->group_writers, &writer->of_session);
    if (core->sessions[session]->linked)
        come(core, timer_at(core, group->timer));
    return SNOW_OK;
}

static void free_writer(struct core *core, struct group_writer *writer)
{
    uint32_t number;

    ASSERT(find_writer(core, writer->timer, writer->session, &number) == writer);
    list_remove(&writer->of_group);
    list_remove(&writer->of_session);
    index_remove(core->group_writers, hash_of(writer->timer, writer->session), number);
    pool_give(&core->group_writer_pool, number);
}

void core_group_writers_end(struct core *core, struct group_timer *timer)
{
    struct list_link *link;

    while ((link = list_first(&timer->writers)) != NULL)
        free_writer(core, list_entry(link, struct group_writer, of_group));
    timer->linked = 0;
}

void core_writer_links(struct core *core, struct session *session, bool linked)
{
    list_each (&session->group_writers, link, next) {
        struct group_writer *writer = list_entry(link, struct group_writer, of_session);

        if (linked)
            come(core, timer_at(core, writer->timer));
        else
            go(core, timer_at(core, writer->timer));
    }
}

void core_writer_end(struct core *core, struct session *session)
{
    struct list_link *link;

    if (session->linked)
        core_writer_links(core, session, false);
    while ((link = list_first(&session->group_writers)) != NULL)
        free_writer(core, list_entry(link, struct group_writer, of_session));
}

/* ---- check ---- */

bool core_group_is_writer(const struct core *core, const struct group *group, uint32_t session)
{
    uint32_t number;

    return find_writer(core, group->timer, session, &number) != NULL;
}

void core_group_writers_check(const struct core *core, const struct group *group)
{
    const struct group_timer *timer = timer_at(core, group->timer);
    uint32_t linked = 0;

    list_each (&timer->writers, link, next) {
        const struct group_writer *writer = list_entry(link, struct group_writer, of_group);

        ASSERT(writer->timer == group->timer && core->sessions[writer->session] != NULL);
        linked += core->sessions[writer->session]->linked;
    }
    ASSERT(linked == timer->linked); /* R3 */
    ASSERT(wheel_is_armed(&timer->timer));
    ASSERT(timer->timer.at_ns <= timer->progress_ns + timer->form_ns); /* R1 */
    ASSERT(linked > 0 || timer->timer.at_ns <= timer->left_ns + core->options.group_abandoned_ns);
}
