/*
 * The vault of a Vulkan device: two connected Unix sockets (SOCK_SEQPACKET), both held by the
 * frontend and by every worker. What is in it is one message that waits at one end: a manifest with
 * the descriptors of the weights' allocations.
 *
 *            lock                 upload, export         send
 *   EMPTY ----------> FILLING ---------------------------------> COMPLETE
 *     ^                  |                                          |
 *     +--- dies, fails --+              lock, found to be of no use |
 *     +-------------------------------------------------------------+
 *
 * A message is in the queue whole or not at all, so that there is nothing between empty and
 * complete. Readers peek: they get descriptors of their own and the message stays. The lock is the
 * process's (fcntl), so that the kernel opens it when its holder dies.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_WEIGHTS_VULKAN_VAULT_H
#define SHOAL_WORKER_BACKEND_VULKAN_WEIGHTS_VULKAN_VAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/result.h"

#define VULKAN_VAULT_FDS_MAX   253u /* Linux passes no more with one message */
#define VULKAN_VAULT_BYTES_MAX 512u /* of a manifest */

struct vulkan_vault {
    int fd;      /* where the message waits */
    int send_fd; /* the other end */
};

struct vulkan_vault_message {
    uint8_t bytes[VULKAN_VAULT_BYTES_MAX];
    size_t byte_count;
    int fds[VULKAN_VAULT_FDS_MAX]; /* close-on-exec; closed by vulkan_vault_message_close() */
    uint32_t fd_count;
};

/* Whether a message waits. */
bool vulkan_vault_is_filled(const struct vulkan_vault *vault);
/* The first message, which stays. RESULT_EMPTY: there is none. RESULT_CORRUPT: it is longer than
 * any manifest. RESULT_INVALID: this is no such socket. RESULT_IO: not all its descriptors could be
 * had, because this process has too many. Only after RESULT_OK there is anything to close. */
enum result vulkan_vault_peek(const struct vulkan_vault *vault,
                              struct vulkan_vault_message *message,
                              struct error_text *error) RESULT_CHECKED;
void vulkan_vault_message_close(struct vulkan_vault_message *message);

/* RESULT_FULL: another process has it. RESULT_IO. */
enum result vulkan_vault_lock(const struct vulkan_vault *vault,
                              struct error_text *error) RESULT_CHECKED;
void vulkan_vault_unlock(const struct vulkan_vault *vault);

/* For the lock's holder: throws away whatever waits, and with it the memory that nobody else has.
 * RESULT_CORRUPT: it does not become empty. */
enum result vulkan_vault_empty(const struct vulkan_vault *vault,
                               struct error_text *error) RESULT_CHECKED;
/* For the lock's holder, of an empty vault: fills it. The descriptors stay the caller's.
 * RESULT_TOO_LARGE: more than VULKAN_VAULT_FDS_MAX. RESULT_IO. */
enum result vulkan_vault_leave(const struct vulkan_vault *vault,
                               const struct vulkan_vault_message *message,
                               struct error_text *error) RESULT_CHECKED;

#endif
