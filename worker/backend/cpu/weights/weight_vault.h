/*
 * The vault: a memfd that the frontend holds and every worker of its model inherits. The worker
 * that finds it empty fills it, seals it and then reads it like all later ones.
 *
 *            lock                 fill, seal
 *   EMPTY ----------> FILLING --------------------> SEALED: never changes again
 *     ^                  |
 *     +--- dies, fails --+
 *
 * The seals are the commit: a vault without them is empty, whatever it contains. The lock is a
 * process's (fcntl): the kernel releases it when the process dies.
 */
#ifndef SHOAL_WORKER_BACKEND_CPU_WEIGHTS_WEIGHT_VAULT_H
#define SHOAL_WORKER_BACKEND_CPU_WEIGHTS_WEIGHT_VAULT_H

#include <stdint.h>

#include "proto/result.h"
#include "worker/backend/host/backend_options.h"

/* A mapping of the whole vault, at an address where large pages are possible. */
struct weight_mapping {
    uint8_t *bytes; /* NULL: none */
    uint64_t byte_count;
    uint64_t prepared_bytes;      /* for which large pages were requested */
    uint32_t large_page_failures; /* after a few failures, no more are requested */
};

/* Waits while another process fills the vault, as long as it makes progress, and calls `progress`
 * with the bytes present of byte_count. RESULT_OK: it is sealed. RESULT_EMPTY: this process holds
 * the lock and must fill it. RESULT_INVALID: it is no vault. RESULT_TIMED_OUT: its filler makes no
 * progress. RESULT_IO. */
enum result weight_vault_acquire(int fd, uint64_t byte_count, backend_progress_fn *progress,
                                 void *context, struct error_text *error) RESULT_CHECKED;

/* The caller holds the lock: drops what an earlier filler left and maps byte_count writable zero
 * bytes. */
enum result weight_vault_map_empty(int fd, uint64_t byte_count, struct weight_mapping *mapping,
                                   struct error_text *error) RESULT_CHECKED;
/* Called before the bytes up to `end` are filled: gets large pages for them if the kernel gives
 * any. The bytes are zero before and after. */
void weight_mapping_prepare(struct weight_mapping *mapping, uint64_t end);
/* Unmaps and seals. RESULT_IO: another process has it mapped writable. */
enum result weight_vault_seal(int fd, struct weight_mapping *mapping,
                              struct error_text *error) RESULT_CHECKED;
/* Releases the lock; an unsealed vault is empty again and its memory is freed. */
void weight_vault_release(int fd);

/* Maps a sealed vault read-only. RESULT_STALE: it is not byte_count bytes long. */
enum result weight_vault_map_sealed(int fd, uint64_t byte_count, struct weight_mapping *mapping,
                                    struct error_text *error) RESULT_CHECKED;
void weight_mapping_close(struct weight_mapping *mapping);

#endif
