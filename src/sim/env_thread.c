/* A simulated process has loops and no threads: a lock is always free, and nothing can be waited
 * for.  The blocking face of the client links against these and is never used here. */
#include "env/linux.h"
#include "env/thread.h"

#include "base/assert.h"

#include <stdlib.h>

struct env_mutex {
    bool locked;
};

struct env_condition {
    bool unused;
};

struct env_mutex *env_mutex_create(void)
{
    return calloc(1, sizeof(struct env_mutex));
}

void env_mutex_destroy(struct env_mutex *mutex)
{
    free(mutex);
}

void env_mutex_lock(struct env_mutex *mutex)
{
    ASSERT(!mutex->locked);
    mutex->locked = true;
}

void env_mutex_unlock(struct env_mutex *mutex)
{
    mutex->locked = false;
}

struct env_condition *env_condition_create(void)
{
    return calloc(1, sizeof(struct env_condition));
}

void env_condition_destroy(struct env_condition *condition)
{
    free(condition);
}

bool env_condition_wait(struct env_condition *condition, struct env_mutex *mutex,
                        uint64_t timeout_ns)
{
    (void)condition;
    (void)mutex;
    (void)timeout_ns;
    return false;
}

void env_condition_wake_all(struct env_condition *condition)
{
    (void)condition;
}

uint64_t env_fork_count(void)
{
    return 0;
}

/* There is no real process to make an env of. */
struct env *env_linux_create(void)
{
    return NULL;
}

void env_linux_destroy(struct env *env)
{
    (void)env;
}
