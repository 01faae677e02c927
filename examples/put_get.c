/* Puts three pages, gets them back, lists what is there, and shows how failures are told.
 *
 *   put_get [HOST:PORT]      of a master; `snowskin dev` starts one at 127.0.0.1:7600
 *
 * Exit status 0: all went as it should. */
#include <snowskin/snowskin.h>

#include <stdio.h>
#include <string.h>

#define PAGES 3
#define PAGE_SIZE ((size_t)64 * 1024)

static unsigned char pages[PAGES][PAGE_SIZE];
static unsigned char back[PAGES][PAGE_SIZE];

static struct snow_key key_of(const char *name)
{
    return (struct snow_key){.at = name, .size = strlen(name)};
}

/* Each item of a call has its own status; snow_reason adds what was in the way of the call. */
static int fails(const char *what, enum snow_status status)
{
    if (snow_status_verdict(status) == SNOW_DONE)
        return 0;
    fprintf(stderr, "%s: %s%s%s\n", what, snow_status_text(status),
            snow_reason()[0] == 0 ? "" : ": ", snow_reason());
    return 1;
}

static int on_row(void *owner, const struct snow_listed *row)
{
    ++*(int *)owner;
    printf("%8llu bytes  %.*s\n", (unsigned long long)row->size, (int)row->key.size,
           (const char *)row->key.at);
    return 0;
}

static int put_and_get(struct snow_client *client)
{
    const char *const names[PAGES] = {"example/page/0", "example/page/1", "example/page/2"};
    struct snow_put puts[PAGES];
    struct snow_get gets[PAGES];
    int listed = 0;

    for (size_t i = 0; i < PAGES; i++) {
        memset(pages[i], 'a' + (int)i, PAGE_SIZE);
        puts[i] = (struct snow_put){.key = key_of(names[i]),
                                    .from = pages[i],
                                    .size = PAGE_SIZE,
                                    .depth = (uint32_t)i}; /* its place along the prompt */
        gets[i] = (struct snow_get){.key = key_of(names[i]), .to = back[i], .room = PAGE_SIZE};
    }
    if (fails("put", snow_put(client, puts, PAGES, NULL)) ||
        fails("get", snow_get(client, gets, PAGES, NULL)))
        return 1;
    if (memcmp(pages, back, sizeof(pages)) != 0) {
        fprintf(stderr, "get: other bytes than those that were put\n");
        return 1;
    }
    if (fails("list", snow_list(client, key_of("example/"), on_row, &listed, NULL)))
        return 1;
    return listed == PAGES ? 0 : 1;
}

/* What is not there is a status, not an error of the program. */
static int get_what_is_not_there(struct snow_client *client)
{
    struct snow_get get = {.key = key_of("example/nothing")};

    snow_get(client, &get, 1, NULL);
    printf("%s: %s\n", snow_status_name(get.status), snow_status_text(get.status));
    return get.status == SNOW_NOT_FOUND ? 0 : 1;
}

int main(int argc, char **argv)
{
    struct snow_matched matched;
    struct snow_options options;
    struct snow_client *client;
    const char *reason;
    int failed;

    snow_options_init(&options);
    if (argc > 1)
        options.master = argv[1];
    if (snow_open(&options, &client, &reason) != SNOW_OK) {
        fprintf(stderr, "open: %s\n", reason);
        return 1;
    }
    printf("snowskin %s\n", snow_version());
    failed = put_and_get(client) || get_what_is_not_there(client);
    failed |= fails("remove", snow_remove_match(client, SNOW_MATCH_PREFIX, key_of("example/"), NULL,
                                                &matched));
    snow_close(client);
    return failed;
}
