/* Beacons: what a loop that rests looks like to somebody else's loop.
 *
 * Idea.     An epoll descriptor is readable while one of those in it is.  A beacon is one that has
 *           the loop's own epoll in it, an event that can be lit and a timer.
 * Threads.  Its user's, one at a time.
 */
#include "env/linux.h"
#include "env/linux/body.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

struct env_beacon {
    int epoll;
    int light; /* eventfd */
    int timer; /* timerfd */
    bool lit;
    uint64_t at_ns; /* when the timer fires; UINT64_MAX: not */
};

static bool watch(const struct env_beacon *beacon, int descriptor)
{
    struct epoll_event event = {.events = EPOLLIN};

    return descriptor >= 0 && epoll_ctl(beacon->epoll, EPOLL_CTL_ADD, descriptor, &event) == 0;
}

enum snow_status env_beacon_create(struct env_loop *loop, struct env_beacon **made)
{
    struct env_beacon *beacon = calloc(1, sizeof *beacon);

    if (beacon == NULL)
        return SNOW_NO_MEMORY;
    beacon->at_ns = UINT64_MAX;
    beacon->epoll = descriptors_keep(epoll_create1(EPOLL_CLOEXEC));
    beacon->light = descriptors_keep(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    beacon->timer = descriptors_keep(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
    if (beacon->epoll < 0 || !watch(beacon, beacon->light) || !watch(beacon, beacon->timer) ||
        !watch(beacon, loop->epoll)) {
        env_beacon_destroy(beacon);
        return SNOW_LIMIT;
    }
    *made = beacon;
    return SNOW_OK;
}

void env_beacon_destroy(struct env_beacon *beacon)
{
    if (beacon->epoll >= 0)
        descriptors_close(beacon->epoll);
    if (beacon->light >= 0)
        descriptors_close(beacon->light);
    if (beacon->timer >= 0)
        descriptors_close(beacon->timer);
    free(beacon);
}

int env_beacon_descriptor(const struct env_beacon *beacon)
{
    return beacon->epoll;
}

void env_beacon_light(struct env_beacon *beacon, bool lit)
{
    uint64_t count = 1;

    if (lit == beacon->lit)
        return;
    beacon->lit = lit;
    if ((lit ? write(beacon->light, &count, sizeof count)
             : read(beacon->light, &count, sizeof count)) < 0)
        ASSERT(errno == EAGAIN || errno == EINTR);
}

void env_beacon_arm(struct env_beacon *beacon, uint64_t at_ns)
{
    struct itimerspec at = {{0}, {0}};

    if (at_ns == beacon->at_ns)
        return;
    beacon->at_ns = at_ns;
    if (at_ns != UINT64_MAX) {
        uint64_t due_ns = at_ns == 0 ? 1 : at_ns; /* 0 would disarm it */

        at.it_value.tv_sec = (time_t)(due_ns / NS_PER_S);
        at.it_value.tv_nsec = (long)(due_ns % NS_PER_S);
    }
    int failed = timerfd_settime(beacon->timer, TFD_TIMER_ABSTIME, &at, NULL);

    ASSERT(failed == 0);
}
