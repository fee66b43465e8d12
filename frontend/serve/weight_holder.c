/*
 * A memfd that is only held.
 *
 * It is created empty; the first worker sizes it, fills it and seals it against every change
 * (worker/backend/cpu/README.md), later ones map it. A worker that finds another checkpoint's
 * weights in it says so, and then the vault is replaced: descriptors cannot be unsealed. Workers
 * that still have the old one mapped keep it alive for as long as they live.
 *
 * Refuses to do: looking inside. Whatever a worker wrote there, only workers read, and each checks
 * it against its own checkpoint.
 */
#include "frontend/serve/weight_holder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/log.h"
#include "proto/must.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U /* Linux 6.3; older C libraries do not name it */
#endif

struct weight_holder {
    int fd;
    uint32_t generation;
};

static int vault_open(void)
{
    unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    int fd = memfd_create("shoal-weights", flags | MFD_NOEXEC_SEAL);
    if (fd < 0 && errno == EINVAL)
        fd = memfd_create("shoal-weights", flags);
    if (fd < 0)
        log_warn("no memory that outlives workers: %s; each will prepare its weights itself",
                 strerror(errno));
    return fd;
}

struct weight_holder *weight_holder_create(void)
{
    struct weight_holder *holder = must_alloc(1, sizeof *holder);
    holder->fd = vault_open();
    return holder;
}

void weight_holder_destroy(struct weight_holder *holder)
{
    if (!holder)
        return;
    if (holder->fd >= 0)
        close(holder->fd);
    free(holder);
}

int weight_holder_fd(const struct weight_holder *holder)
{
    return holder->fd;
}

uint32_t weight_holder_generation(const struct weight_holder *holder)
{
    return holder->generation;
}

void weight_holder_replace(struct weight_holder *holder, uint32_t generation)
{
    if (generation != holder->generation)
        return;
    if (holder->fd >= 0)
        close(holder->fd);
    holder->fd = vault_open();
    holder->generation++;
}
