/*
 * The memory of LoRA adapters: a memfd that the frontend fills and every worker of the model maps
 * read-only, so that an adapter is the same for a worker and for the one that replaces it, whatever
 * happens to its files. It begins with the table; the contents of the files follow, each at a page.
 *
 * A slot's entry changes while no request names it. A worker that starts loads the entries that are in use; SUBMIT_ADAPTER makes it read one again
 * (submit_record.h), which is how an entry is tried before it is in use.
 *
 * Byte map of struct adapter_entry, 320 bytes. Written by the frontend.
 *
 *   offset  size  field          rule
 *   0       8     config_offset  A1: of adapter_config.json, a multiple of ADAPTER_ALIGN_BYTES; 0
 *                                    without one
 *   8       8     config_bytes   A2: <= LIMIT_CONFIG_BYTES; 0: the tensors are a GGUF file
 *   16      8     tensor_offset  A1: of the tensors' file, likewise
 *   24      8     tensor_bytes   A3: <= LIMIT_ADAPTER_BYTES; 0: the slot is empty
 *   32      256   name           A4: NUL-terminated, not empty
 *   288     4     version        any; differs from that of the slot's entry before
 *   292     4     in_use         A6: 0 or 1
 *   296     24    reserved       A5: zero
 */
#ifndef SHOAL_PROTO_ADAPTER_MEMORY_H
#define SHOAL_PROTO_ADAPTER_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/limits.h"
#include "proto/result.h"

#define ADAPTER_ALIGN_BYTES 65536u /* the largest page of the machines that run Shoal */

struct adapter_entry {
    uint64_t config_offset;
    uint64_t config_bytes;
    uint64_t tensor_offset;
    uint64_t tensor_bytes;
    char name[LIMIT_ADAPTER_NAME_BYTES];
    uint32_t version;
    uint32_t in_use;
    uint64_t reserved[3];
};
_Static_assert(sizeof(struct adapter_entry) == 320, "crosses shared memory: layout is fixed");

/* Slot s of the table at the memory's begin is adapter s + 1 of a request (run_params.adapter). */
#define ADAPTER_TABLE_BYTES (LIMIT_ADAPTERS * sizeof(struct adapter_entry))

/* Checks rules A1-A6 of an entry that is not empty against a memory of `memory_bytes`.
 * RESULT_CORRUPT, and the error text begins with the rule's name. */
enum result adapter_entry_check(const struct adapter_entry *entry, uint64_t memory_bytes,
                                struct error_text *error) RESULT_CHECKED;

#endif
