/* The module mooncake._core. */
#include "engine.h"

static int traverse(PyObject *module, visitproc visit, void *arg)
{
    struct state *state = PyModule_GetState(module);

    Py_VISIT(state->store);
    Py_VISIT(state->handle);
    Py_VISIT(state->writer);
    Py_VISIT(state->engine);
    return 0;
}

static int clear(PyObject *module)
{
    struct state *state = PyModule_GetState(module);

    Py_CLEAR(state->store);
    Py_CLEAR(state->handle);
    Py_CLEAR(state->writer);
    Py_CLEAR(state->engine);
    return 0;
}

static int add_type(PyObject *module, PyTypeObject **to, PyTypeObject *(*make)(PyObject *module))
{
    *to = make(module);
    return *to == NULL ? -1 : PyModule_AddType(module, *to);
}

static int execute(PyObject *module)
{
    struct state *state = PyModule_GetState(module);

    if (add_type(module, &state->store, store_type) < 0 ||
        add_type(module, &state->handle, handle_type) < 0 ||
        add_type(module, &state->writer, writer_type) < 0 ||
        add_type(module, &state->engine, engine_type) < 0)
        return -1;
    return PyModule_AddStringConstant(module, "version", snow_version());
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)(uintptr_t)execute},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "mooncake._core",
    .m_doc = "The C library of Snowskin behind the package mooncake.",
    .m_size = sizeof(struct state),
    .m_slots = slots,
    .m_traverse = traverse,
    .m_clear = clear,
};

PyMODINIT_FUNC PyInit__core(void)
{
    return PyModuleDef_Init(&definition);
}
