/*
 * Keeps descriptors open: of prepared weights, and of KV caches.
 *
 * Of weights on a CPU the vault is a memfd. It is created empty; the first worker sizes it, fills it and
 * seals it against every change (worker/backend/cpu/README.md), later ones map it. If a worker
 * reports that it holds another checkpoint's weights, the vault is replaced, because a seal cannot
 * be removed. Workers that still have the old one mapped keep its memory alive.
 *
 * For other devices the vault is a pair of connected sockets. A worker sends one message, its
 * allocations' descriptors with a manifest, into one end; it waits in the kernel at the other end,
 * where later workers read it with MSG_PEEK. A message is complete or absent; as long as both ends
 * are open here, it and its memory stay.
 *
 * A KV cache has a memfd on every device, which its worker writes and never seals
 * (worker/cache/kv_vault.h), and sockets for memory of a device.
 *
 * The frontend never reads the contents: workers do, and each checks them against its own
 * checkpoint.
 */
#include "frontend/serve/worker/vault_holder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/log.h"
#include "proto/must.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U /* Linux 6.3; older C libraries do not name it */
#endif

struct vault_holder {
    enum device_kind kind;
    const char *name;
    struct vault_holder_fds fds;
    uint32_t generation;
};

static int memory_open(const char *name)
{
    unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    int fd = memfd_create(name, flags | MFD_NOEXEC_SEAL);
    if (fd < 0 && errno == EINVAL)
        fd = memfd_create(name, flags);
    return fd;
}

static void vault_open(struct vault_holder *holder)
{
    int ends[2] = {-1, -1};
    if (holder->kind == DEVICE_CPU)
        ends[0] = memory_open(holder->name);
    else if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        ends[0] = ends[1] = -1;
    holder->fds = (struct vault_holder_fds){.vault = ends[0], .send = ends[1]};
    if (ends[0] < 0)
        log_warn("%s: nothing outlives a worker: %s", holder->name, strerror(errno));
}

static void vault_close(struct vault_holder *holder)
{
    if (holder->fds.vault >= 0)
        close(holder->fds.vault);
    if (holder->fds.send >= 0)
        close(holder->fds.send);
}

struct vault_holder *vault_holder_create(enum device_kind kind, const char *name)
{
    struct vault_holder *holder = must_alloc(1, sizeof *holder);
    holder->kind = kind;
    holder->name = name;
    vault_open(holder);
    return holder;
}

void vault_holder_destroy(struct vault_holder *holder)
{
    if (!holder)
        return;
    vault_close(holder);
    free(holder);
}

struct vault_holder_fds vault_holder_fds(const struct vault_holder *holder)
{
    return holder->fds;
}

uint32_t vault_holder_generation(const struct vault_holder *holder)
{
    return holder->generation;
}

void vault_holder_replace(struct vault_holder *holder, uint32_t generation)
{
    if (generation != holder->generation)
        return;
    vault_close(holder);
    vault_open(holder);
    holder->generation++;
}
