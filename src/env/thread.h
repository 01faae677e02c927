/* Mutex and condition for the blocking face of client (client/turns.h), over env/linux alone. */
#ifndef ENV_THREAD_H
#define ENV_THREAD_H

#include <stdbool.h>
#include <stdint.h>

struct env_mutex;
struct env_condition;

struct env_mutex *env_mutex_create(void);
void env_mutex_destroy(struct env_mutex *mutex);
void env_mutex_lock(struct env_mutex *mutex);
void env_mutex_unlock(struct env_mutex *mutex);

struct env_condition *env_condition_create(void);
void env_condition_destroy(struct env_condition *condition);
/* Waits at most timeout_ns; false when that passed. */
bool env_condition_wait(struct env_condition *condition, struct env_mutex *mutex,
                        uint64_t timeout_ns);
void env_condition_wake_all(struct env_condition *condition);

/* Bumped in the child of a fork: a handle made by the parent is then refused. */
uint64_t env_fork_count(void);

#endif
