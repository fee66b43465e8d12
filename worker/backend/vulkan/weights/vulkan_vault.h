/*
 * The vault of a Vulkan device: two connected Unix sockets (SOCK_SEQPACKET), both held by the
 * frontend and by every worker. Its content is one message queued at one end: a manifest with the
 * descriptors of the weights' allocations.
 *
 *            lock                 upload, export         send
 *   EMPTY ----------> FILLING ---------------------------------> COMPLETE
 *     ^                  |                                          |
 *     +--- dies, fails --+              lock, content not usable    |
 *     +-------------------------------------------------------------+
 *
 * A message is in the queue whole or not at all, so there is no state between empty and complete.
 * Readers peek: they get descriptors of their own and the message stays. The lock is a process's
 * (fcntl): the kernel releases it when the process dies.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_WEIGHTS_VULKAN_VAULT_H
#define SHOAL_WORKER_BACKEND_VULKAN_WEIGHTS_VULKAN_VAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/result.h"

#define VULKAN_VAULT_FDS_MAX   253u /* Linux allows no more in one message */
#define VULKAN_VAULT_BYTES_MAX 512u /* of a manifest */

struct vulkan_vault {
    int fd;      /* the end at which the message is queued */
    int send_fd; /* the other end */
};

struct vulkan_vault_message {
    uint8_t bytes[VULKAN_VAULT_BYTES_MAX];
    size_t byte_count;
    int fds[VULKAN_VAULT_FDS_MAX]; /* close-on-exec; closed by vulkan_vault_message_close() */
    uint32_t fd_count;
};

/* Whether a message is queued. */
bool vulkan_vault_is_filled(const struct vulkan_vault *vault);
/* Reads the first message, which stays queued. RESULT_EMPTY: there is none. RESULT_CORRUPT: it is
 * longer than any manifest. RESULT_INVALID: not a socket of a vault. RESULT_IO: not all descriptors
 * could be received, because this process has too many. Only RESULT_OK leaves something to close.
 */
enum result vulkan_vault_peek(const struct vulkan_vault *vault,
                              struct vulkan_vault_message *message,
                              struct error_text *error) RESULT_CHECKED;
void vulkan_vault_message_close(struct vulkan_vault_message *message);

/* RESULT_FULL: another process holds it. RESULT_IO. */
enum result vulkan_vault_lock(const struct vulkan_vault *vault,
                              struct error_text *error) RESULT_CHECKED;
void vulkan_vault_unlock(const struct vulkan_vault *vault);

/* The caller holds the lock: discards all messages, and with them memory that no other process
 * holds. RESULT_CORRUPT: it does not become empty. */
enum result vulkan_vault_empty(const struct vulkan_vault *vault,
                               struct error_text *error) RESULT_CHECKED;
/* The caller holds the lock and the vault is empty: fills it. The descriptors stay the caller's.
 * RESULT_TOO_LARGE: more than VULKAN_VAULT_FDS_MAX. RESULT_IO. */
enum result vulkan_vault_leave(const struct vulkan_vault *vault,
                               const struct vulkan_vault_message *message,
                               struct error_text *error) RESULT_CHECKED;

#endif
