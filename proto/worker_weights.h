/*
 * Where a worker's prepared weights are, as it tells the frontend, which holds the vault: memory
 * that outlives workers (worker/backend/host/backend.h).
 */
#ifndef SHOAL_PROTO_WORKER_WEIGHTS_H
#define SHOAL_PROTO_WORKER_WEIGHTS_H

enum worker_weights {
    WORKER_WEIGHTS_PRIVATE = 0, /* its own memory: it was given no vault, or could not fill it */
    WORKER_WEIGHTS_FILLED = 1,  /* in the vault, by its own work */
    WORKER_WEIGHTS_ADOPTED = 2, /* in the vault, as an earlier worker left them */
    WORKER_WEIGHTS_REFUSED = 3  /* its own memory: the vault holds something else and never will
                                   hold these; the next worker needs a new one */
};

#endif
