#include "base/status.h"

enum snow_verdict snow_status_verdict(enum snow_status status)
{
    switch (status) {
#define STATUS(name, code, verdict, text) \
    case SNOW_##name: \
        return SNOW_##verdict;
#include "snowskin/status.def"
#undef STATUS
    }
    return SNOW_FINAL;
}

const char *snow_status_name(enum snow_status status)
{
    switch (status) {
#define STATUS(name, code, verdict, text) \
    case SNOW_##name: \
        return #name;
#include "snowskin/status.def"
#undef STATUS
    }
    return "?";
}

const char *snow_status_text(enum snow_status status)
{
    switch (status) {
#define STATUS(name, code, verdict, text) \
    case SNOW_##name: \
        return text;
#include "snowskin/status.def"
#undef STATUS
    }
    return "?";
}

bool status_is_known(int32_t code)
{
    switch (code) {
#define STATUS(name, code, verdict, text) case (code):
#include "snowskin/status.def"
#undef STATUS
        return true;
    default:
        return false;
    }
}
