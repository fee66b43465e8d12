/*
 * Which network addresses pictures may be fetched from: those of the public internet, and no
 * others. A name that a client chose may resolve to anything, so the question is asked of the very
 * address that is about to be connected to (image_fetch.h), for every redirect anew.
 */
#ifndef SHOAL_FRONTEND_IMAGE_MEDIA_ADDRESS_POLICY_H
#define SHOAL_FRONTEND_IMAGE_MEDIA_ADDRESS_POLICY_H

#include <sys/socket.h>

/* NULL where it is public, else in a word what it is ("loopback"); static. IPv6 addresses that
 * carry an IPv4 address (mapped, NAT64, 6to4) are what that one is. */
const char *media_address_policy_judge(const struct sockaddr *address, socklen_t address_bytes);

#endif
