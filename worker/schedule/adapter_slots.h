/*
 * The adapters that the frontend keeps in a memory (proto/adapter_memory.h), loaded into the backend.
 */
#ifndef SHOAL_WORKER_SCHEDULE_ADAPTER_SLOTS_H
#define SHOAL_WORKER_SCHEDULE_ADAPTER_SLOTS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/limits.h"
#include "proto/result.h"
#include "worker/backend/host/backend.h"

struct adapter_slots {
    int memory_fd;           /* owned by the caller; -1: there are no adapters */
    const struct plan *plan; /* of the backend */
    struct backend *backend; /* loaded */
    bool loaded[LIMIT_ADAPTERS];
    uint32_t versions[LIMIT_ADAPTERS]; /* of the loaded entries */
};

/* Makes the backend have every entry that is in use, as it is now, and no other. Not while a step is
 * under way, like the next one. RESULT_UNSUPPORTED if the device computes without adapters; else
 * the error text names the adapter, and the errors are those of lora_file_open(). */
enum result adapter_slots_load(struct adapter_slots *slots,
                               struct error_text *error) RESULT_CHECKED;
/* The same for one entry, in use or not yet; an empty one leaves its slot empty, as a failure does. No
 * running request names the slot, unless it has this entry already: then nothing is done. */
enum result adapter_slots_read(struct adapter_slots *slots, uint32_t slot,
                               struct error_text *error) RESULT_CHECKED;

/* Whether a request may name it (run_params.adapter): none, or one that is loaded. */
bool adapter_slots_have(const struct adapter_slots *slots, uint32_t adapter);

#endif
