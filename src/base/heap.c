#include "base/heap.h"

#include "base/assert.h"

static bool comes_before(const struct heap_link *a, const struct heap_link *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

/* Joins two trees; either may be NULL.  The siblings of both are ignored and
 * those of the result are NULL. */
static struct heap_link *join(struct heap_link *a, struct heap_link *b)
{
    if (a == NULL || b == NULL)
        return a == NULL ? b : a;
    if (comes_before(b, a)) {
        struct heap_link *swap = a;

        a = b;
        b = swap;
    }
    b->before = a;
    b->next = a->child;
    if (b->next != NULL)
        b->next->before = b;
    a->child = b;
    a->next = NULL;
    a->before = NULL;
    return a;
}

/* Joins a list of siblings into one tree: pairs from left to right,
 * then all of them from right to left. */
static struct heap_link *join_siblings(struct heap_link *sibling)
{
    struct heap_link *pairs = NULL; /* in reverse, through next */
    struct heap_link *result = NULL;

    while (sibling != NULL) {
        struct heap_link *a = sibling;
        struct heap_link *b = a->next;

        sibling = b == NULL ? NULL : b->next;
        a->next = NULL;
        a->before = NULL;
        if (b != NULL) {
            b->next = NULL;
            b->before = NULL;
        }
        a = join(a, b);
        a->next = pairs;
        pairs = a;
    }
    while (pairs != NULL) {
        struct heap_link *following = pairs->next;

        pairs->next = NULL;
        result = join(result, pairs);
        pairs = following;
    }
    return result;
}

void heap_push(struct heap *heap, struct heap_link *link)
{
    ASSERT(!link->queued);
    link->queued = true;
    link->child = NULL;
    link->next = NULL;
    link->before = NULL;
    heap->first = join(heap->first, link);
    heap->count++;
}

void heap_remove(struct heap *heap, struct heap_link *link)
{
    ASSERT(link->queued);
    struct heap_link *children = join_siblings(link->child);

    if (link == heap->first) {
        heap->first = children;
    } else {
        if (link->before->child == link)
            link->before->child = link->next;
        else
            link->before->next = link->next;
        if (link->next != NULL)
            link->next->before = link->before;
        heap->first = join(heap->first, children);
    }
    link->child = NULL;
    link->next = NULL;
    link->before = NULL;
    link->queued = false;
    heap->count--;
}
