/*
 * What the operator lets clients name as a picture, beside the bytes in their own requests: by
 * default nothing.
 */
#ifndef SHOAL_FRONTEND_IMAGE_MEDIA_POLICY_H
#define SHOAL_FRONTEND_IMAGE_MEDIA_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/result.h"

/* Strings outlive it; immutable, shared by threads. */
struct media_policy {
    const char *const *hosts; /* [host_count] HOST or HOST:PORT, an IPv6 address in brackets */
    size_t host_count;
    bool allows_private; /* of those hosts, any address */
    const char *folder;  /* files below it; NULL: none */
    size_t most_bytes;   /* of one picture's file, wherever it comes from */
    uint32_t fetch_timeout_s;
};

/* Is each of the hosts one? For the start of a server. */
enum result media_policy_check(const struct media_policy *policy,
                               struct error_text *error) RESULT_CHECKED;
/* Whether a host of a URL (as libcurl's parser gives it: IPv4 as four numbers, IPv6 in brackets)
 * may be asked at this port. Without a port of its own a host is meant at `usual_port`. Hosts are
 * compared whole and without regard to case: one does not stand for those below it. */
bool media_policy_admits(const struct media_policy *policy, const char *host, uint16_t port,
                         uint16_t usual_port);

#endif
