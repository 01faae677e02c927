/* Intrusive doubly linked list: being in a list costs no allocation and can not fail.
 *
 * Invariants.  L1  A link is either unlinked (both NULL) or in exactly one list.
 *              L2  A head is its own neighbour when the list is empty. */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include "base/assert.h"

#include <stddef.h>

struct list_link {
    struct list_link *prev;
    struct list_link *next;
};

struct list {
    struct list_link head;
};

/* The struct that contains a link. */
#define list_entry(link, type, member) ((type *)(void *)((char *)(link)-offsetof(type, member)))

static inline void list_init(struct list *list)
{
    list->head.prev = &list->head;
    list->head.next = &list->head;
}

static inline bool list_is_empty(const struct list *list)
{
    return list->head.next == &list->head;
}

static inline bool list_is_linked(const struct list_link *link)
{
    return link->next != NULL;
}

static inline void list_insert_after(struct list_link *at, struct list_link *link)
{
    ASSERT(!list_is_linked(link));
    link->prev = at;
    link->next = at->next;
    at->next->prev = link;
    at->next = link;
}

/* At the end. */
static inline void list_push(struct list *list, struct list_link *link)
{
    list_insert_after(list->head.prev, link);
}

/* At the front. */
static inline void list_push_front(struct list *list, struct list_link *link)
{
    list_insert_after(&list->head, link);
}

static inline void list_remove(struct list_link *link)
{
    ASSERT(list_is_linked(link));
    link->prev->next = link->next;
    link->next->prev = link->prev;
    link->prev = NULL;
    link->next = NULL;
}

/* The first link, or NULL. */
static inline struct list_link *list_first(const struct list *list)
{
    return list_is_empty(list) ? NULL : list->head.next;
}

/* The last link, or NULL. */
static inline struct list_link *list_last(const struct list *list)
{
    return list_is_empty(list) ? NULL : list->head.prev;
}

/* Removes and returns the first link, or NULL. */
static inline struct list_link *list_pop(struct list *list)
{
    struct list_link *link = list_first(list);

    if (link != NULL)
        list_remove(link);
    return link;
}

/* Moves all links of `from` to `to`, which is made empty first, in their order. */
static inline void list_take_all(struct list *to, struct list *from)
{
    list_init(to);
    if (list_is_empty(from))
        return;
    to->head = from->head;
    to->head.next->prev = &to->head;
    to->head.prev->next = &to->head;
    list_init(from);
}

/* The body may remove the current link. */
#define list_each(list, link, following) \
    for (struct list_link *link = (list)->head.next, *following = link->next; \
         link != &(list)->head; link = following, following = link->next)

#endif
