#include "master/page_json.h"

#include "base/limits.h"

#include <stdlib.h>
#include <string.h>

void page_json_reply(struct http_reply *reply, json_t *value)
{
    char *text = value == NULL ? NULL : json_dumps(value, JSON_COMPACT);

    reply->type = "application/json";
    if (text == NULL || strlen(text) >= reply->body.size) {
        reply->status = 503;
        text_add(&reply->body, "{\"success\":false,\"error_message\":\"the answer is too large\"}");
    } else {
        text_add(&reply->body, "%s", text);
    }
    free(text);
    if (value != NULL)
        json_decref(value);
}

void page_json_failure(struct http_reply *reply, uint32_t status, int code, const char *message)
{
    reply->status = status;
    page_json_reply(reply, json_pack("{s:b,s:i,s:s}", "success", 0, "error_code", code,
                                     "error_message", message));
}

json_t *page_json_bytes(struct bytes bytes)
{
    json_t *text = json_stringn((const char *)bytes.at, bytes.size);
    char printed[LIMIT_NAME_SIZE * 4 + 16];
    struct text to;

    if (text != NULL)
        return text;
    text_init(&to, printed, sizeof(printed));
    text_add_bytes(&to, bytes, LIMIT_NAME_SIZE);
    return json_string(printed);
}

const struct wire_nodes_rep *page_nodes(struct master *master)
{
    struct wire_nodes_req request = {.first = 0};

    return master_ask(master, WIRE_nodes, &request);
}

struct bytes page_node_name(const struct wire_node_info *node)
{
    return node->name.size > 0 ? node->name : node->address;
}

bool page_node_is_served(const struct wire_node_info *node)
{
    return node->state != WIRE_NODE_DEAD;
}
