/*
 * The vault: a memfd that the frontend holds and every worker of its model inherits. The worker
 * that finds it empty fills it, seals it and uses it like those that come later.
 *
 *            lock                 fill, seal
 *   EMPTY ----------> FILLING --------------------> SEALED: never changes again
 *     ^                  |
 *     +--- dies, fails --+
 *
 * The seals are the commit: a vault without them is empty, whatever lies in it. The lock is the
 * process's (fcntl), so that the kernel opens it when its holder dies.
 */
#ifndef SHOAL_WORKER_BACKEND_CPU_WEIGHTS_WEIGHT_VAULT_H
#define SHOAL_WORKER_BACKEND_CPU_WEIGHTS_WEIGHT_VAULT_H

#include <stdint.h>

#include "proto/result.h"
#include "worker/backend/host/backend.h"

/* A mapping of the whole vault, at an address where large pages are possible. */
struct weight_mapping {
    uint8_t *bytes; /* NULL: none */
    uint64_t byte_count;
    uint64_t prepared_bytes;      /* for which large pages were asked */
    uint32_t large_page_failures; /* after a few, no more are asked for */
};

/* Waits while another process fills the vault, as long as it gets on: then `progress` is called
 * with what is there of byte_count. RESULT_OK: it is sealed. RESULT_EMPTY: it is this process's to
 * fill, locked. RESULT_INVALID: it is no vault, and never will be. RESULT_TIMED_OUT: its filler
 * stands still. RESULT_IO. */
enum result weight_vault_acquire(int fd, uint64_t byte_count, backend_progress_fn *progress,
                                 void *context, struct error_text *error) RESULT_CHECKED;

/* For the lock's holder: throws away what an earlier filler left, and maps byte_count writable
 * bytes of zeros. */
enum result weight_vault_map_empty(int fd, uint64_t byte_count, struct weight_mapping *mapping,
                                   struct error_text *error) RESULT_CHECKED;
/* Before the bytes up to `end` are filled: gets large pages for them where the kernel gives any.
 * The bytes are zeros before and after. */
void weight_mapping_prepare(struct weight_mapping *mapping, uint64_t end);
/* Unmaps, and seals for ever. RESULT_IO: somebody else has it mapped writable. */
enum result weight_vault_seal(int fd, struct weight_mapping *mapping,
                              struct error_text *error) RESULT_CHECKED;
/* Opens the lock; what is not sealed is empty again and its memory is given back. */
void weight_vault_release(int fd);

/* Maps a sealed vault read-only. RESULT_STALE: it is not byte_count bytes long. */
enum result weight_vault_map_sealed(int fd, uint64_t byte_count, struct weight_mapping *mapping,
                                    struct error_text *error) RESULT_CHECKED;
void weight_mapping_close(struct weight_mapping *mapping);

#endif
