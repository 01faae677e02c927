/* Store: the table of its calls.  mooncake/store.py makes MooncakeDistributedStore of it. */
#include "core.h"

/* The module that defined type, or a base of it: subclasses made in Python belong to none. */
static struct state *state_of(PyTypeObject *type)
{
    PyObject *module;

    while ((module = PyType_GetModule(type)) == NULL || PyModule_GetState(module) == NULL) {
        PyErr_Clear();
        type = (PyTypeObject *)PyType_GetSlot(type, Py_tp_base);
        if (type == NULL) {
            PyErr_SetString(PyExc_SystemError, "the type is not of this module");
            return NULL;
        }
    }
    return PyModule_GetState(module);
}

static PyObject *store_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {NULL};
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    struct state *state = state_of(type);
    struct store *store;

    if (state == NULL || !PyArg_ParseTupleAndKeywords(args, keywords, "", names))
        return NULL;
    store = (struct store *)allocate(type, 0);
    if (store != NULL)
        store->state = state;
    return (PyObject *)store;
}

static void dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    struct store *store = (struct store *)self;

    if (store->link != NULL)
        link_drop(store->link);
    release(self);
    Py_DECREF(type);
}

#define PUTS "A number: 0, or a negative code. A key that has a value keeps it, and that is 0."
#define EACH "\n\nAnswers a list, one number a key, in order."

static PyMethodDef methods[] = {
    {"_open", FAST(store_open), NULL},
    {"_hosted", store_hosted, METH_NOARGS, NULL},
    {"_counters", store_counters, METH_NOARGS, NULL},
    {"_nodes", store_nodes, METH_NOARGS, NULL},
    {"_read_ranges", FAST(store_read_ranges), NULL},
    {"_versions", FAST(store_versions), NULL},
    {"_batch_upsert_from_multi_buffers", FAST(store_batch_upsert_from_multi_buffers), NULL},
    {"_holders", FAST(store_holders), NULL},
    {"_task_start", FAST(store_task_start), NULL},
    {"_task", store_task, METH_O, NULL},
    {"_writer", FAST(store_writer), NULL},
    {"_close", store_close, METH_NOARGS, NULL},
    {"health_check", store_health, METH_NOARGS,
     "health_check()\n--\n\n0: healthy, 1: not set up, 2: the master is out of reach."},
    {"put", FAST(store_put),
     "put(key, value, config=None)\n--\n\nStore a value: any buffer.\n" PUTS},
    {"put_parts", FAST(store_put_parts),
     "put_parts(key, *parts, config=None)\n--\n\nStore parts, one after the other.\n" PUTS},
    {"put_batch", FAST(store_put_batch),
     "put_batch(keys, values, config=None)\n--\n\nStore many values: 0, or the first error."},
    {"put_from", FAST(store_put_from),
     "put_from(key, buffer_ptr, size, config=None)\n--\n\nStore what lies at an address.\n" PUTS},
    {"batch_put_from", FAST(store_batch_put_from),
     "batch_put_from(keys, buffer_ptrs, sizes, config=None)\n--\n\nput_from of many." EACH},
    {"batch_put_from_multi_buffers", FAST(store_batch_put_from_multi_buffers),
     "batch_put_from_multi_buffers(keys, all_buffer_ptrs, all_sizes, config=None)\n--\n\n"
     "put_from of many, each of pieces." EACH},
    {"upsert", FAST(store_upsert),
     "upsert(key, value, config=None)\n--\n\n"
     "Store a value in place of the one that is there: readers see either, never a mixture."},
    {"upsert_parts", FAST(store_upsert_parts),
     "upsert_parts(key, *parts, config=None)\n--\n\nupsert of parts."},
    {"upsert_batch", FAST(store_upsert_batch),
     "upsert_batch(keys, values, config=None)\n--\n\nupsert of many: 0, or the first error."},
    {"upsert_from", FAST(store_upsert_from),
     "upsert_from(key, buffer_ptr, size, config=None)\n--\n\nupsert of what lies at an address."},
    {"batch_upsert_from", FAST(store_batch_upsert_from),
     "batch_upsert_from(keys, buffer_ptrs, sizes, config=None)\n--\n\nupsert_from of many." EACH},
    {"get", FAST(store_get), "get(key)\n--\n\nThe value as bytes; b'' when there is none."},
    {"get_batch", FAST(store_get_batch), "get_batch(keys)\n--\n\nget of many: a list."},
    {"get_buffer", FAST(store_get_buffer),
     "get_buffer(key)\n--\n\nThe value as a BufferHandle; None when there is none."},
    {"batch_get_buffer", FAST(store_batch_get_buffer),
     "batch_get_buffer(keys)\n--\n\nget_buffer of many: a list."},
    {"get_into", FAST(store_get_into),
     "get_into(key, buffer_ptr, size)\n--\n\nFill memory: the bytes of the value, or a code."},
    {"batch_get_into", FAST(store_batch_get_into),
     "batch_get_into(keys, buffer_ptrs, sizes)\n--\n\nget_into of many." EACH},
    {"batch_get_into_multi_buffers", FAST(store_batch_get_into_multi_buffers),
     "batch_get_into_multi_buffers(keys, all_buffer_ptrs, all_sizes,\n"
     "                             prefer_alloc_in_same_node=False)\n--\n\n"
     "get_into of many, each into pieces." EACH},
    {"get_size", FAST(store_get_size), "get_size(key)\n--\n\nBytes of the value, or a code."},
    {"is_exist", FAST(store_is_exist), "is_exist(key)\n--\n\n1: there is a value; 0: none."},
    {"batch_is_exist", FAST(store_batch_is_exist),
     "batch_is_exist(keys)\n--\n\nis_exist of many." EACH},
    {"remove", FAST(store_remove),
     "remove(key, force=False)\n--\n\n0; -704: there is none; -706: it was read a moment ago."},
    {"batch_remove", FAST(store_batch_remove),
     "batch_remove(keys, force=False)\n--\n\nremove of many." EACH},
    {"remove_by_regex", FAST(store_remove_by_regex),
     "remove_by_regex(regex_pattern, force=False)\n--\n\nRemove keys in which the pattern is "
     "found: how many."},
    {"remove_all", FAST(store_remove_all),
     "remove_all(force=False)\n--\n\nRemove all that was not read a moment ago: how many."},
    {"register_buffer", FAST(store_register_buffer),
     "register_buffer(buffer_ptr, size)\n--\n\nMemory that will be used again and again: 0."},
    {"unregister_buffer", FAST(store_unregister_buffer),
     "unregister_buffer(buffer_ptr)\n--\n\nWaits for calls that use it: 0."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "The calls of a store; MooncakeDistributedStore is made of them."},
    {Py_tp_new, store_new},
    {Py_tp_dealloc, dealloc},
    {Py_tp_methods, methods},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "mooncake._core.Store",
    .basicsize = sizeof(struct store),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = slots,
};

PyTypeObject *store_type(PyObject *module)
{
    return (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
