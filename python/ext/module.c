#include "ext.h"

static int traverse(PyObject *module, visitproc visit, void *arg)
{
    struct state *state = PyModule_GetState(module);

    Py_VISIT(state->error);
    for (int i = 0; i < 4; i++)
        Py_VISIT(state->verdicts[i]);
    for (int i = 0; i < ERROR_COUNT; i++)
        Py_VISIT(state->errors[i]);
    Py_VISIT(state->store);
    Py_VISIT(state->view);
    Py_VISIT(state->queue);
    Py_VISIT(state->as_buffer);
    Py_VISIT(state->shower);
    return 0;
}

static int clear(PyObject *module)
{
    struct state *state = PyModule_GetState(module);

    Py_CLEAR(state->error);
    for (int i = 0; i < 4; i++)
        Py_CLEAR(state->verdicts[i]);
    for (int i = 0; i < ERROR_COUNT; i++)
        Py_CLEAR(state->errors[i]);
    Py_CLEAR(state->store);
    Py_CLEAR(state->view);
    Py_CLEAR(state->queue);
    Py_CLEAR(state->as_buffer);
    Py_CLEAR(state->shower);
    return 0;
}

struct state *state_of_type(PyTypeObject *type)
{
    PyObject *module;

    /* A subclass made in Python belongs to no module; one of its bases is ours. */
    while ((module = PyType_GetModule(type)) == NULL || PyModule_GetDef(module) == NULL ||
           PyModule_GetState(module) == NULL) {
        PyErr_Clear();
        type = (PyTypeObject *)PyType_GetSlot(type, Py_tp_base);
        if (type == NULL) {
            PyErr_SetString(PyExc_SystemError, "the type is not of this module");
            return NULL;
        }
    }
    return PyModule_GetState(module);
}

static int add_type(PyObject *module, PyTypeObject **to, PyTypeObject *(*make)(PyObject *module))
{
    *to = make(module);
    return *to == NULL ? -1 : PyModule_AddType(module, *to);
}

static int execute(PyObject *module)
{
    struct state *state = PyModule_GetState(module);

    if (errors_init(module, state) < 0 || add_type(module, &state->store, store_type) < 0 ||
        add_type(module, &state->view, view_type) < 0 ||
        add_type(module, &state->queue, queue_type) < 0 || batch_setup(module, state) < 0)
        return -1;
    return PyModule_AddStringConstant(module, "version", snow_version());
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)(uintptr_t)execute},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "snowskin._snowskin",
    .m_doc = "The C library of Snowskin. Use the package snowskin.",
    .m_size = sizeof(struct state),
    .m_methods = timing_methods,
    .m_slots = slots,
    .m_traverse = traverse,
    .m_clear = clear,
};

PyMODINIT_FUNC PyInit__snowskin(void)
{
    return PyModuleDef_Init(&definition);
}
