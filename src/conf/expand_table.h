/* Expands a table of options to its rows.  No guard: included once for each table, after
 *   #define CONF_ROWS      name of the array of rows
 *   #define CONF_STRUCT    the module's struct
 *   #define CONF_FILE      "layer/layer_options.def" */

#define RANGE(low_value, high_value) \
    { \
        .low = (low_value), .high = (high_value), .choices = NULL \
    }
#define AMONG(...) \
    { \
        .low = 0, .high = sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *) - 1, \
        .choices = (const char *const[]) \
        { \
            __VA_ARGS__, NULL \
        } \
    }
#define ANY \
    { \
        .low = 0, .high = 1, .choices = NULL \
    }
#define SIM(low_value, high_value) \
    { \
        .low = (low_value), .high = (high_value), .choices = NULL \
    }
#define SIM_DEFAULT \
    { \
        .low = 1, .high = 0, .choices = NULL \
    }
#define LIVE true
#define START false

#define CONF_NUMBER(kind, field, value) \
    .type = CONF_##kind, .offset = offsetof(struct CONF_STRUCT, field), .default_number = (value)
#define CONF_ROW_DURATION(name, value) CONF_NUMBER(DURATION, name##_ns, value)
#define CONF_ROW_BYTES(name, value) CONF_NUMBER(BYTES, name##_bytes, value)
#define CONF_ROW_COUNT(name, value) CONF_NUMBER(COUNT, name, value)
#define CONF_ROW_PERCENT(name, value) CONF_NUMBER(PERCENT, name##_percent, value)
#define CONF_ROW_BOOL(name, value) CONF_NUMBER(BOOL, name, value)
#define CONF_ROW_CHOICE(name, value) CONF_NUMBER(CHOICE, name, value)
#define CONF_ROW_TEXT(name, value) \
    .type = CONF_TEXT, .offset = offsetof(struct CONF_STRUCT, name), .default_text = (value)

#define OPTION(kind, field, value, limits, draw, when, about) \
    {.name = #field, \
     CONF_ROW_##kind(field, value), \
     .range = limits, \
     .sim = draw, \
     .live = when, \
     .text = about},
static const struct conf_option CONF_ROWS[] = {
#include CONF_FILE
};
#undef OPTION

#undef RANGE
#undef AMONG
#undef ANY
#undef SIM
#undef SIM_DEFAULT
#undef LIVE
#undef START
#undef CONF_NUMBER
#undef CONF_ROW_DURATION
#undef CONF_ROW_BYTES
#undef CONF_ROW_COUNT
#undef CONF_ROW_PERCENT
#undef CONF_ROW_BOOL
#undef CONF_ROW_CHOICE
#undef CONF_ROW_TEXT
#undef CONF_ROWS
#undef CONF_STRUCT
#undef CONF_FILE
