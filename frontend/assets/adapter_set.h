/*
 * The LoRA adapters of a model: their names in the API, and the memory in which workers find them
 * (proto/adapter_memory.h). The files are copied once, so later changes to them have no effect.
 *
 * A slot of the set:
 *
 *   FREE --begin--> FILLING --settle--> IN_USE --hide, or settle of another--> LEAVING --clear--> FREE
 *                      +-------------------clear--------------------------^
 *
 * The owner's thread changes states and may read the set; adapter_set_fill() may run on another thread, for
 * one slot at a time; adapter_set_take(), adapter_set_has(), adapter_share() and adapter_release() are safe
 * on every thread.
 */
#ifndef SHOAL_FRONTEND_ASSETS_ADAPTER_SET_H
#define SHOAL_FRONTEND_ASSETS_ADAPTER_SET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/adapter_memory.h"
#include "proto/result.h"
#include "proto/submit_record.h"

#define ADAPTER_PATH_BYTES 4096u

struct adapter {
    char name[LIMIT_ADAPTER_NAME_BYTES];
    char path[ADAPTER_PATH_BYTES]; /* as given */
    uint32_t number;               /* run_params.adapter: its slot + 1 */
    uint64_t content[2];           /* hash of its files: equal for equal adapters only */
    _Atomic uint32_t *users;       /* requests that name it */
};

struct adapter_set;

/* Empty. RESULT_IO if the memory cannot be created. */
enum result adapter_set_create(struct adapter_set **set, struct error_text *error) RESULT_CHECKED;
void adapter_set_destroy(struct adapter_set *set); /* NULL is allowed */

/*
 * Adds NAME=PATH before workers are started: begin, fill and settle. PATH is a PEFT folder
 * (adapter_config.json and adapter_model.safetensors) or a GGUF file; a worker checks the contents. The error text names
 * option and file.
 */
enum result adapter_set_add(struct adapter_set *set, const char *name_and_path,
                            struct error_text *error) RESULT_CHECKED;

/* Takes a slot for an adapter that requests do not find yet. RESULT_INVALID: not a name, or no path; RESULT_STALE:
 * another one has the name and is being loaded, or is in use and not to be `replaced`; RESULT_FULL: LIMIT_ADAPTERS slots are
 * taken. */
enum result adapter_set_begin(struct adapter_set *set, const char *name, const char *path,
                              bool replaces, uint32_t *slot,
                              struct error_text *error) RESULT_CHECKED;
/* Copies the files and writes the slot's entry, not in use. `*cancelled`: ends soon with RESULT_STALE. RESULT_TOO_LARGE,
 * RESULT_NOT_FOUND, RESULT_INVALID, RESULT_OUT_OF_MEMORY or RESULT_IO: the error text names the file. */
enum result adapter_set_fill(struct adapter_set *set, uint32_t slot, const atomic_bool *cancelled,
                             struct error_text *error) RESULT_CHECKED;
/* The slot's entry, for SUBMIT_ADAPTER. */
struct adapter_id adapter_set_id(const struct adapter_set *set, uint32_t slot);
const char *adapter_set_path(const struct adapter_set *set, uint32_t slot);
bool adapter_set_is_in_use(const struct adapter_set *set, uint32_t slot);
/* Requests find it from now on, and not the one that had its name. */
void adapter_set_settle(struct adapter_set *set, uint32_t slot);
/* Requests find it no longer. RESULT_NOT_FOUND: none in use has the name. */
enum result adapter_set_hide(struct adapter_set *set, const char *name) RESULT_CHECKED;
/* The first slot that is LEAVING and that no request names; LIMIT_ADAPTERS: there is none. */
uint32_t adapter_set_unused(const struct adapter_set *set);
bool adapter_set_is_leaving(const struct adapter_set *set); /* some slot */
/* Empties the entry and gives its memory back. */
void adapter_set_clear(struct adapter_set *set, uint32_t slot);

/* Of those in use, by slot; 0 for NULL, as in the next three. */
uint32_t adapter_set_count(const struct adapter_set *set);
const struct adapter *adapter_set_at(const struct adapter_set *set, uint32_t index);
/* NULL: none in use has the name. */
const struct adapter *adapter_set_find(const struct adapter_set *set, const char *name);
bool adapter_set_has(struct adapter_set *set, const char *name);
/* The same as find, for a request: to be released. */
const struct adapter *adapter_set_take(struct adapter_set *set, const char *name);
const struct adapter *adapter_share(const struct adapter *adapter); /* NULL is allowed */
void adapter_release(const struct adapter *adapter);                /* likewise */

/* The memory's descriptor, owned by the set; -1 for NULL. */
int adapter_set_memory(const struct adapter_set *set);

#endif
