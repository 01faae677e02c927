/* JSON answers of the master's pages. */
#ifndef MASTER_PAGE_JSON_H
#define MASTER_PAGE_JSON_H

#include "base/bytes.h"
#include "http/http.h"

#include <jansson.h>

/* Takes the value over; NULL: no memory. */
void page_json_reply(struct http_reply *reply, json_t *value);
void page_json_failure(struct http_reply *reply, uint32_t status, int code, const char *message);
/* Any bytes as a text that JSON can hold. */
json_t *page_json_bytes(struct bytes bytes);

#endif
