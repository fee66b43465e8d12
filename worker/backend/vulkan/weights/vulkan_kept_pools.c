/*
 * Import, else export, else private memory. The vault is emptied before new memory is allocated, so
 * that two pools never have to fit the device at once.
 *
 * No lock is needed: the vault belongs to one worker at a time, and the frontend starts the next one,
 * or rings its standby, after the one before has ended and its device has finished its work
 * (shm/device_work.h), or was reaped, by when the driver has ended that work. So no kernel of it writes to the
 * memory any more.
 *
 * A standby (`in_use`) imports while the other process uses the memory, and never empties or fills the
 * vault.
 */
#include "worker/backend/vulkan/weights/vulkan_kept_pools.h"

#include <string.h>

#include "proto/must.h"
#include "worker/plan/content_hash.h"

static struct vulkan_vault vault_of(const struct vulkan_kept_pools *pools)
{
    return (struct vulkan_vault){.fd = pools->options.vault_fd, .send_fd = pools->options.send_fd};
}

static struct vulkan_pools_manifest describe(const struct vulkan_kept_pools *pools, uint64_t pool,
                                             uint32_t kv_chunks, uint32_t state_chunks)
{
    const struct vulkan_facts *facts = &pools->device->facts;
    struct vulkan_pools_manifest manifest = {.version = VULKAN_POOLS_VERSION,
                                             .kv_chunks = kv_chunks,
                                             .state_chunks = state_chunks,
                                             .pool = pool,
                                             .allocation_bytes = facts->max_allocation_bytes};
    memcpy(manifest.magic, VULKAN_POOLS_MAGIC, sizeof manifest.magic);
    memcpy(manifest.device_id, facts->device_id, sizeof manifest.device_id);
    memcpy(manifest.driver_id, facts->driver_id, sizeof manifest.driver_id);
    manifest.checksum =
        content_hash(&manifest, offsetof(struct vulkan_pools_manifest, checksum), 0);
    return manifest;
}

static enum result check(struct vulkan_kept_pools *pools)
{
    const struct vulkan_vault_message *message = &pools->message;
    struct vulkan_pools_manifest found;
    if (message->byte_count != sizeof found)
        return error_set(&pools->reason, RESULT_CORRUPT, "P1: its manifest has %zu bytes, not %zu",
                         message->byte_count, sizeof found);
    memcpy(&found, message->bytes, sizeof found);
    const struct vulkan_pools_manifest mine =
        describe(pools, pools->options.pool, found.kv_chunks, found.state_chunks);
    if (memcmp(found.magic, mine.magic, sizeof mine.magic) != 0 || found.version != mine.version ||
        found.checksum != content_hash(&found, offsetof(struct vulkan_pools_manifest, checksum), 0))
        return error_set(&pools->reason, RESULT_CORRUPT, "P1: its manifest is damaged");
    if (found.pool != mine.pool)
        return error_set(&pools->reason, RESULT_STALE, "P2: it is another pool's memory");
    if (memcmp(&found, &mine, sizeof mine) != 0)
        return error_set(&pools->reason, RESULT_STALE,
                         "P3: it is another device's or driver's memory");
    if (found.kv_chunks > message->fd_count ||
        found.state_chunks != message->fd_count - found.kv_chunks)
        return error_set(&pools->reason, RESULT_CORRUPT, "P4: it has %u descriptors for %u and %u",
                         message->fd_count, found.kv_chunks, found.state_chunks);
    pools->kv_chunks = found.kv_chunks;
    return RESULT_OK;
}

/* Reads the vault's message, which stays open if it can be imported. */
static enum result read_vault(struct vulkan_kept_pools *pools)
{
    const struct vulkan_vault vault = vault_of(pools);
    enum result result = vulkan_vault_peek(&vault, &pools->message, &pools->reason);
    if (result == RESULT_EMPTY)
        return error_set(&pools->reason, result, "its memory is gone");
    if (result != RESULT_OK)
        return result;
    result = check(pools);
    if (result != RESULT_OK)
        vulkan_vault_message_close(&pools->message);
    return result;
}

/* Export needs an empty vault. */
static void prepare_export(struct vulkan_kept_pools *pools)
{
    const struct vulkan_vault vault = vault_of(pools);
    struct error_text why;
    pools->attempt = VULKAN_POOLS_EXPORT;
    if (vulkan_vault_empty(&vault, &why) == RESULT_OK)
        return;
    pools->reason = why;
    pools->attempt = VULKAN_POOLS_PRIVATE;
}

void vulkan_kept_pools_begin(struct vulkan_kept_pools *pools, const struct vulkan_device *device,
                             const struct kept_pools *options)
{
    *pools = (struct vulkan_kept_pools){
        .device = device, .options = *options, .attempt = VULKAN_POOLS_PRIVATE};
    if (!options->is_given)
        return;
    if (!device->facts.external_memory || options->send_fd < 0) {
        (void)error_set(&pools->reason, RESULT_UNSUPPORTED,
                        "%.60s cannot share memory between processes", device->facts.name);
        return;
    }
    if ((options->adopt && read_vault(pools) == RESULT_OK) || options->in_use)
        pools->attempt = VULKAN_POOLS_IMPORT;
    else
        prepare_export(pools);
}

static struct vulkan_arena *arena(const struct vulkan_kept_pools *pools, uint64_t expected_bytes,
                                  uint32_t first_fd, uint32_t fd_count)
{
    if (pools->attempt != VULKAN_POOLS_IMPORT)
        return vulkan_arena_create(pools->device, expected_bytes,
                                   pools->attempt == VULKAN_POOLS_EXPORT);
    return vulkan_arena_create_imported(pools->device, expected_bytes,
                                        pools->message.fds + first_fd, fd_count);
}

struct vulkan_arena *vulkan_kept_pools_kv(const struct vulkan_kept_pools *pools,
                                          uint64_t expected_bytes)
{
    return arena(pools, expected_bytes, 0, pools->kv_chunks);
}

struct vulkan_arena *vulkan_kept_pools_state(const struct vulkan_kept_pools *pools,
                                             uint64_t expected_bytes)
{
    return arena(pools, expected_bytes, pools->kv_chunks,
                 pools->message.fd_count - pools->kv_chunks);
}

static enum result export_chunks(const struct vulkan_kept_pools *pools,
                                 const struct vulkan_arena *arena,
                                 struct vulkan_vault_message *message, struct error_text *error)
{
    enum result result = RESULT_OK;
    for (uint32_t i = 0; i < vulkan_arena_chunk_count(arena) && result == RESULT_OK; i++) {
        result = vulkan_buffer_export(pools->device, vulkan_arena_chunk(arena, i),
                                      &message->fds[message->fd_count], error);
        if (result == RESULT_OK)
            message->fd_count++;
    }
    return result;
}

static enum result leave(struct vulkan_kept_pools *pools, const struct vulkan_arena *kv,
                         const struct vulkan_arena *state, struct error_text *error)
{
    const struct vulkan_vault vault = vault_of(pools);
    uint32_t kv_chunks = vulkan_arena_chunk_count(kv);
    uint32_t state_chunks = vulkan_arena_chunk_count(state);
    uint64_t pool = pools->options.adopt ? pools->options.next_pool : pools->options.pool;
    if (kv_chunks + state_chunks > VULKAN_VAULT_FDS_MAX)
        return error_set(error, RESULT_TOO_LARGE, "%u allocations; at most %u can be kept",
                         kv_chunks + state_chunks, VULKAN_VAULT_FDS_MAX);
    const struct vulkan_pools_manifest manifest = describe(pools, pool, kv_chunks, state_chunks);
    struct vulkan_vault_message message = {.byte_count = sizeof manifest};
    memcpy(message.bytes, &manifest, sizeof manifest);
    enum result result = export_chunks(pools, kv, &message, error);
    if (result == RESULT_OK)
        result = export_chunks(pools, state, &message, error);
    if (result == RESULT_OK)
        result = vulkan_vault_leave(&vault, &message, error);
    vulkan_vault_message_close(&message);
    return result;
}

enum result vulkan_kept_pools_finish(struct vulkan_kept_pools *pools, const struct vulkan_arena *kv,
                                     const struct vulkan_arena *state, struct error_text *error)
{
    if (pools->attempt == VULKAN_POOLS_PRIVATE)
        return RESULT_OK;
    if (pools->attempt == VULKAN_POOLS_EXPORT)
        return leave(pools, kv, state, error);
    if (vulkan_arena_chunk_count(kv) == pools->kv_chunks &&
        vulkan_arena_chunk_count(state) == pools->message.fd_count - pools->kv_chunks)
        return RESULT_OK;
    return error_set(error, RESULT_CORRUPT, "P4: it has %u allocations, not %u and %u",
                     pools->message.fd_count, vulkan_arena_chunk_count(kv),
                     vulkan_arena_chunk_count(state));
}

bool vulkan_kept_pools_retry(struct vulkan_kept_pools *pools, const char *why)
{
    if (pools->attempt == VULKAN_POOLS_PRIVATE || pools->options.in_use)
        return false;
    (void)error_set(&pools->reason, RESULT_IO, "%.200s", why);
    vulkan_vault_message_close(&pools->message);
    pools->kv_chunks = 0;
    if (pools->attempt == VULKAN_POOLS_IMPORT)
        prepare_export(pools);
    else
        pools->attempt = VULKAN_POOLS_PRIVATE;
    return true;
}

void vulkan_kept_pools_end(struct vulkan_kept_pools *pools, enum kept_pools_origin *origin)
{
    static const enum kept_pools_origin origins[] = {
        [VULKAN_POOLS_IMPORT] = KEPT_POOLS_ADOPTED,
        [VULKAN_POOLS_EXPORT] = KEPT_POOLS_NEW,
        [VULKAN_POOLS_PRIVATE] = KEPT_POOLS_PRIVATE,
    };
    *origin = origins[pools->attempt];
    vulkan_vault_message_close(&pools->message);
}
