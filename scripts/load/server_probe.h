/*
 * Before a run: finds the server's address and its model's name.
 */
#ifndef SHOAL_SCRIPTS_LOAD_SERVER_PROBE_H
#define SHOAL_SCRIPTS_LOAD_SERVER_PROBE_H

#include <sys/socket.h>

#include "proto/result.h"
#include "scripts/load/load_options.h"

struct server_address {
    struct sockaddr_storage address;
    socklen_t bytes;
};

/* The first of the host's addresses that accepts a connection; if none does, the first address, so
 * that a run against a dead server counts its failures. RESULT_NOT_FOUND: no such host. */
enum result server_probe_find(const struct load_options *options, struct server_address *address,
                              struct error_text *error) RESULT_CHECKED;
/* The first model of GET /v1/models. *model is malloc'd. */
enum result server_probe_read_model(const struct load_options *options,
                                    const struct server_address *address, char **model,
                                    struct error_text *error) RESULT_CHECKED;

#endif
