/*
 * Descriptors that are only held.
 *
 * For a CPU the vault is a memfd. It is created empty; the first worker sizes it, fills it and
 * seals it against every change (worker/backend/cpu/README.md), later ones map it. A worker that
 * finds another checkpoint's weights in it says so, and then the vault is replaced: descriptors
 * cannot be unsealed. Workers that still have the old one mapped keep it alive for as long as they
 * live.
 *
 * For other devices it is a pair of connected sockets. A worker sends one message, its allocations'
 * descriptors with a manifest, into one end; it waits in the kernel at the other end, where later
 * workers read it without taking it out. A message is there whole or not at all, and with both ends
 * open here it stays, and with it the memory.
 *
 * Refuses to do: looking inside. Whatever a worker left there, only workers read, and each checks
 * it against its own checkpoint.
 */
#include "frontend/serve/worker/weight_holder.h"

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

struct weight_holder {
    enum device_kind kind;
    struct weight_holder_fds fds;
    uint32_t generation;
};

static int memory_open(void)
{
    unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    int fd = memfd_create("shoal-weights", flags | MFD_NOEXEC_SEAL);
    if (fd < 0 && errno == EINVAL)
        fd = memfd_create("shoal-weights", flags);
    return fd;
}

static void vault_open(struct weight_holder *holder)
{
    int ends[2] = {-1, -1};
    if (holder->kind == DEVICE_CPU)
        ends[0] = memory_open();
    else if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        ends[0] = ends[1] = -1;
    holder->fds = (struct weight_holder_fds){.vault = ends[0], .send = ends[1]};
    if (ends[0] < 0)
        log_warn("nothing that outlives workers: %s; each will prepare its weights itself",
                 strerror(errno));
}

static void vault_close(struct weight_holder *holder)
{
    if (holder->fds.vault >= 0)
        close(holder->fds.vault);
    if (holder->fds.send >= 0)
        close(holder->fds.send);
}

struct weight_holder *weight_holder_create(enum device_kind kind)
{
    struct weight_holder *holder = must_alloc(1, sizeof *holder);
    holder->kind = kind;
    vault_open(holder);
    return holder;
}

void weight_holder_destroy(struct weight_holder *holder)
{
    if (!holder)
        return;
    vault_close(holder);
    free(holder);
}

struct weight_holder_fds weight_holder_fds(const struct weight_holder *holder)
{
    return holder->fds;
}

uint32_t weight_holder_generation(const struct weight_holder *holder)
{
    return holder->generation;
}

void weight_holder_replace(struct weight_holder *holder, uint32_t generation)
{
    if (generation != holder->generation)
        return;
    vault_close(holder);
    vault_open(holder);
    holder->generation++;
}
