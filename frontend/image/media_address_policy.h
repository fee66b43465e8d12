/*
 * The network addresses that images may be fetched from: those of the public internet. A name that
 * a client chose can resolve to any address, so the check is made on the address that is about to
 * be connected to (image_fetch.h), again for every redirect.
 */
#ifndef SHOAL_FRONTEND_IMAGE_MEDIA_ADDRESS_POLICY_H
#define SHOAL_FRONTEND_IMAGE_MEDIA_ADDRESS_POLICY_H

#include <sys/socket.h>

/* NULL if it is public, else its kind ("loopback"), a static string. An IPv6 address that contains
 * an IPv4 address (mapped, NAT64, 6to4) has the kind of that address. */
const char *media_address_policy_judge(const struct sockaddr *address, socklen_t address_bytes);

#endif
