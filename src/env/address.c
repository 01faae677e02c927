#include "env/address.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <string.h>

static bool is_name_character(char c)
{
    return isalnum((unsigned char)c) || c == '.' || c == '-' || c == '_';
}

static bool parse_port(const char *text, bool port_0, uint16_t *port)
{
    unsigned value = 0;
    size_t size = strlen(text);

    if (size == 0 || size > 5)
        return false;
    for (size_t i = 0; i < size; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        value = value * 10 + (unsigned)(text[i] - '0');
    }
    if (value > UINT16_MAX || (value == 0 && !port_0))
        return false;
    *port = (uint16_t)value;
    return true;
}

enum snow_status env_address_split(const char *text, bool port_0, char *host, size_t host_size,
                                   uint16_t *port)
{
    const char *colon = strrchr(text, ':');
    const char *from = text;
    const char *end = colon;

    if (colon == NULL || !parse_port(colon + 1, port_0, port))
        return SNOW_INVALID;
    if (text[0] == '[') {
        from = text + 1;
        end = colon - 1;
        if (end <= from || *end != ']')
            return SNOW_INVALID;
    } else {
        for (const char *at = from; at < end; at++) {
            if (!is_name_character(*at))
                return SNOW_INVALID;
        }
    }
    size_t size = (size_t)(end - from);

    if (size == 0 || size >= host_size)
        return SNOW_INVALID;
    memcpy(host, from, size);
    host[size] = 0;
    struct in6_addr v6;

    if (text[0] == '[' && inet_pton(AF_INET6, host, &v6) != 1)
        return SNOW_INVALID;
    return SNOW_OK;
}

const char *env_address_local(const char *text)
{
    return strncmp(text, "unix:", 5) == 0 ? text + 5 : NULL;
}

enum snow_status env_address_local_check(const char *name, bool any)
{
    size_t size = strlen(name);

    if (size > ENV_LOCAL_NAME_MAX || (name[0] != '@' && name[0] != '/'))
        return SNOW_INVALID;
    if (size == 1)
        return any && name[0] == '@' ? SNOW_OK : SNOW_INVALID;
    for (size_t i = 1; i < size; i++) {
        if ((unsigned char)name[i] <= ' ' || name[i] == 0x7f)
            return SNOW_INVALID;
    }
    return SNOW_OK;
}
