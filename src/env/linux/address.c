/* Addresses: sockaddr from host and port, and back to text. */
#include "env/linux/net.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool address_parse(const char *host, uint16_t port, struct address *address)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)&address->socket;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&address->socket;

    memset(address, 0, sizeof *address);
    if (inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(port);
        address->size = sizeof *v4;
        return true;
    }
    if (inet_pton(AF_INET6, host, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(port);
        address->size = sizeof *v6;
        return true;
    }
    return false;
}

uint32_t address_look_up(const char *host, uint16_t port, struct address *addresses,
                         uint32_t count_max)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    char service[8];
    uint32_t count = 0;

    snprintf(service, sizeof service, "%u", (unsigned)port);
    if (getaddrinfo(host, service, &hints, &found) != 0)
        return 0;
    for (struct addrinfo *at = found; at != NULL && count < count_max; at = at->ai_next) {
        if (at->ai_addrlen > sizeof addresses[count].socket)
            continue;
        memset(&addresses[count], 0, sizeof addresses[count]);
        memcpy(&addresses[count].socket, at->ai_addr, at->ai_addrlen);
        addresses[count].size = at->ai_addrlen;
        count++;
    }
    freeaddrinfo(found);
    return count;
}

static bool is_near_v4(uint32_t ip)
{
    return ip >> 24 == 127 || ip >> 24 == 10 || ip >> 20 == 0xac1 || ip >> 16 == 0xc0a8 ||
           ip >> 16 == 0xa9fe;
}

bool address_is_near(const struct address *address)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)&address->socket;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&address->socket;
    const uint8_t *bytes = v6->sin6_addr.s6_addr;

    if (address->socket.ss_family == AF_INET)
        return is_near_v4(ntohl(v4->sin_addr.s_addr));
    if (address->socket.ss_family != AF_INET6)
        return false;
    if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
        uint32_t ip;

        memcpy(&ip, bytes + 12, sizeof ip);
        return is_near_v4(ntohl(ip));
    }
    return IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr) || IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr) ||
           (bytes[0] & 0xfe) == 0xfc;
}

void address_print(const struct address *address, char *to, size_t size)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)&address->socket;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&address->socket;
    char host[INET6_ADDRSTRLEN] = "?";

    if (address->socket.ss_family == AF_INET) {
        inet_ntop(AF_INET, &v4->sin_addr, host, sizeof host);
        snprintf(to, size, "%s:%u", host, (unsigned)ntohs(v4->sin_port));
    } else if (address->socket.ss_family == AF_INET6) {
        inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof host);
        snprintf(to, size, "[%s]:%u", host, (unsigned)ntohs(v6->sin6_port));
    } else {
        snprintf(to, size, "?");
    }
}
