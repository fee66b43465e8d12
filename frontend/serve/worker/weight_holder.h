/*
 * Holds a vault: where workers leave their prepared weights, so that these outlive them.
 *
 * The frontend never looks inside. It keeps the vault's descriptors open, so that what is in it
 * stays, and gives them to every worker that it starts on the device; workers of one model on one
 * device share one holder, so their weights are there once. What a vault is depends on the device
 * (worker/backend/host/backend.h).
 */
#ifndef SHOAL_FRONTEND_SERVE_WORKER_WEIGHT_HOLDER_H
#define SHOAL_FRONTEND_SERVE_WORKER_WEIGHT_HOLDER_H

#include <stdint.h>

#include "proto/device_name.h"

/* Close-on-exec, the holder's; -1: none. */
struct weight_holder_fds {
    int vault; /* a memfd, or the socket at which the message waits */
    int send;  /* the other socket; -1 for a memfd */
};

struct weight_holder;

/* Never fails: where the kernel has no such thing, workers are started without. */
struct weight_holder *weight_holder_create(enum device_kind kind);
/* The weights go when the last worker that has them mapped is gone. */
void weight_holder_destroy(struct weight_holder *holder);

struct weight_holder_fds weight_holder_fds(const struct weight_holder *holder);
/* Counts the vaults: which one a worker was started with. */
uint32_t weight_holder_generation(const struct weight_holder *holder);
/* A worker that was started with this generation cannot use it: later ones get a new, empty one.
 * Said of an earlier generation it does nothing. */
void weight_holder_replace(struct weight_holder *holder, uint32_t generation);

#endif
