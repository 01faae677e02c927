/* Views of this client that have not ended.  Private to client/, over env/linux alone. */
#ifndef CLIENT_VIEWS_H
#define CLIENT_VIEWS_H

struct snow_client;

/* The client ends; its views stay until they are ended. */
void views_leave(struct snow_client *client);

#endif
