/*
 * The image sources that the operator allows besides the bytes in a request; none by default.
 */
#ifndef SHOAL_FRONTEND_IMAGE_MEDIA_POLICY_H
#define SHOAL_FRONTEND_IMAGE_MEDIA_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/result.h"

/* Its strings outlive it; immutable, shared by threads. */
struct media_policy {
    const char *const *hosts; /* [host_count] HOST or HOST:PORT, an IPv6 address in brackets */
    size_t host_count;
    bool allows_private; /* those hosts may have any address */
    const char *folder;  /* files below it; NULL: none */
    size_t most_bytes;   /* of one image file from any source */
    uint32_t fetch_timeout_s;
};

/* RESULT_INVALID if a host is malformed; called at the start of a server. */
enum result media_policy_check(const struct media_policy *policy,
                               struct error_text *error) RESULT_CHECKED;
/* True if the host of a URL (as libcurl's parser gives it: IPv4 as four numbers, IPv6 in brackets)
 * is in the list with this port; a host without a port has `usual_port`. Hosts are compared whole
 * and without regard to case: a domain does not include its subdomains. */
bool media_policy_admits(const struct media_policy *policy, const char *host, uint16_t port,
                         uint16_t usual_port);

#endif
