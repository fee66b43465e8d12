/*
 * Where a worker's prepared weights are, as it reports to the frontend. The frontend holds the
 * vault: memory that outlives workers (worker/backend/host/backend.h).
 */
#ifndef SHOAL_PROTO_WORKER_WEIGHTS_H
#define SHOAL_PROTO_WORKER_WEIGHTS_H

enum worker_weights {
    WORKER_WEIGHTS_PRIVATE = 0, /* own memory: there is no vault, or it could not be filled */
    WORKER_WEIGHTS_FILLED = 1,  /* in the vault, filled by this worker */
    WORKER_WEIGHTS_ADOPTED = 2, /* in the vault, filled by an earlier worker */
    WORKER_WEIGHTS_REFUSED = 3  /* own memory: the vault holds other weights and cannot be
                                   refilled; the next worker needs a new vault */
};

#endif
