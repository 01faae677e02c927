/* Groups of puts: what a configuration says of the groups that its keys are members of.
 *
 * group_ids is that package's: one a key, "" for none; such groups are open.  group_sizes makes
 * them groups of a size, which can be complete; group_indexes says which members the keys are,
 * group_parents which groups come before theirs.  A number stands for a list of that number. */
#include "core.h"

/* The attribute as a tuple, or NULL: it is None.  False with an exception. */
static bool take_list(PyObject *config, const char *name, PyObject **to)
{
    PyObject *value = PyObject_GetAttrString(config, name);

    *to = value == NULL || value == Py_None ? NULL : args_items(value, name);
    Py_XDECREF(value);
    return PyErr_Occurred() == NULL;
}

/* The same of one that may be a number; then *same is that, and *to NULL. */
static bool take_numbers(PyObject *config, const char *name, PyObject **to, uint64_t *same)
{
    PyObject *value = PyObject_GetAttrString(config, name);
    bool good = value != NULL;

    *to = NULL;
    if (good && PyLong_Check(value))
        good = take_uint64(value, name, same);
    else if (good && value != Py_None)
        good = (*to = args_items(value, name)) != NULL;
    Py_XDECREF(value);
    return good;
}

/* A list's number at index, else `same`.  What is above 32 bits is out of range there too. */
static bool number_at(PyObject *list, const char *name, Py_ssize_t index, uint64_t same,
                      uint32_t *to)
{
    if (list != NULL && !take_uint64(PyTuple_GetItem(list, index), name, &same))
        return false;
    *to = same < UINT32_MAX ? (uint32_t)same : UINT32_MAX;
    return true;
}

static bool fits(PyObject *list, Py_ssize_t count)
{
    return list == NULL || PyTuple_Size(list) == count;
}

struct said {
    PyObject *sizes;
    PyObject *indexes;
    uint64_t size;
    uint64_t index;
};

static bool fill(const struct put_members *members, const struct said *said, Py_ssize_t i)
{
    struct snow_member *member = &members->at[i];

    *member = (struct snow_member){.flags = SNOW_GROUP_ADOPT};
    if (!args_key(PyTuple_GetItem(members->ids, i), &member->group) ||
        !number_at(said->sizes, "group_sizes", i, said->size, &member->size) ||
        !number_at(said->indexes, "group_indexes", i, said->index, &member->index) ||
        (members->parents != NULL &&
         !args_key(PyTuple_GetItem(members->parents, i), &member->parent)))
        return false;
    if (member->size == 0 && member->group.size > GROUP_ID_SIZE_MAX)
        member->group.size = 0; /* what is wrong with an open group fails no put */
    return true;
}

int members_take(PyObject *config, Py_ssize_t count, struct put_members *members)
{
    struct said said = {.index = SNOW_GROUP_INDEX_ANY};
    int good = -1;

    *members = (struct put_members){.at = NULL};
    if (take_list(config, "group_ids", &members->ids) &&
        take_list(config, "group_parents", &members->parents) &&
        take_numbers(config, "group_sizes", &said.sizes, &said.size) &&
        take_numbers(config, "group_indexes", &said.indexes, &said.index))
        good = fits(members->ids, count) && fits(members->parents, count) &&
               fits(said.sizes, count) && fits(said.indexes, count) &&
               (members->ids != NULL ||
                (members->parents == NULL && said.sizes == NULL && said.indexes == NULL &&
                 said.size == 0 && said.index == SNOW_GROUP_INDEX_ANY));
    if (good == 1 && members->ids != NULL) {
        members->at = PyMem_Calloc((size_t)count + 1, sizeof(*members->at));
        if (members->at == NULL)
            PyErr_NoMemory();
        good = members->at != NULL ? 1 : -1;
        for (Py_ssize_t i = 0; i < count && good == 1; i++)
            good = fill(members, &said, i) ? 1 : -1;
    }
    Py_XDECREF(said.sizes);
    Py_XDECREF(said.indexes);
    if (good != 1)
        members_drop(members);
    return good;
}

void members_drop(struct put_members *members)
{
    PyMem_Free(members->at);
    members->at = NULL;
    Py_CLEAR(members->ids);
    Py_CLEAR(members->parents);
}

const struct snow_member *members_of(const struct put_members *members, Py_ssize_t index)
{
    return members->at != NULL && members->at[index].group.size > 0 ? &members->at[index] : NULL;
}
