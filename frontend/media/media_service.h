/*
 * The work of a media process: answers requests until the frontend closes the socket.
 */
#ifndef SHOAL_FRONTEND_MEDIA_MEDIA_SERVICE_H
#define SHOAL_FRONTEND_MEDIA_MEDIA_SERVICE_H

#include <stdbool.h>
#include <stdint.h>

/* The descriptors with which a media process starts. */
#define MEDIA_SOCKET_FD 3
#define MEDIA_AREA_FD   4 /* the shared area; not needed once it is mapped */

struct media_service {
    int socket;
    const uint8_t *file;  /* [LIMIT_SOURCE_IMAGE_BYTES] */
    uint8_t *pixels;      /* [MEDIA_PIXELS_BYTES] */
    const uint32_t *list; /* of MEDIA_LIST_BYTES */
};

/* Maps the area. False if the descriptors are not those of a frontend. */
bool media_service_open(struct media_service *service);
/* Sends the greeting with `sandbox` and answers one request after another. Returns the exit status:
 * 0 if the frontend closed its end, 1 if the socket failed or a request broke a rule. */
int media_service_run(const struct media_service *service, uint32_t sandbox);

#endif
