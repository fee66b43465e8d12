/*
 * Holds a vault: memory of workers that outlives them.
 *
 * The frontend keeps the vault's descriptors open, so that its contents stay, and passes them to the
 * workers that it starts. Workers of one model on one device share one vault of weights; each worker
 * has vaults of its own for its KV cache. The kind of vault depends on the device
 * (worker/backend/host/backend.h, worker/cache/kv_vault.h).
 */
#ifndef SHOAL_FRONTEND_SERVE_WORKER_VAULT_HOLDER_H
#define SHOAL_FRONTEND_SERVE_WORKER_VAULT_HOLDER_H

#include <stdint.h>

#include "proto/device_name.h"

/* Close-on-exec, owned by the holder; -1: none. */
struct vault_holder_fds {
    int vault; /* a memfd, or the socket at which the message waits */
    int send;  /* the other socket; -1 for a memfd */
};

struct vault_holder;

/* A memfd of this name (a constant) for DEVICE_CPU, sockets for other devices. Never fails: if the
 * kernel does not support it, workers start without a vault. */
struct vault_holder *vault_holder_create(enum device_kind kind, const char *name);
/* The contents are freed when the last worker that maps them has ended. */
void vault_holder_destroy(struct vault_holder *holder);

struct vault_holder_fds vault_holder_fds(const struct vault_holder *holder);
/* The number of the current vault; a worker keeps the number that it was started with. */
uint32_t vault_holder_generation(const struct vault_holder *holder);
/* A worker that was started with this generation cannot use it: later workers get a new, empty
 * vault. Does nothing for an earlier generation. */
void vault_holder_replace(struct vault_holder *holder, uint32_t generation);

#endif
