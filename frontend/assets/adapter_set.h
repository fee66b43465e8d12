/*
 * The LoRA adapters of a model: their names in the API, and the memory in which workers find them
 * (proto/adapter_memory.h). The files are copied once, so later changes to them have no effect.
 * Reading a set is safe on every thread.
 */
#ifndef SHOAL_FRONTEND_ASSETS_ADAPTER_SET_H
#define SHOAL_FRONTEND_ASSETS_ADAPTER_SET_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/adapter_memory.h"
#include "proto/result.h"

#define ADAPTER_PATH_BYTES 4096u

struct adapter {
    char name[LIMIT_ADAPTER_NAME_BYTES];
    char path[ADAPTER_PATH_BYTES]; /* as given */
    uint32_t number;               /* run_params.adapter */
    uint64_t content[2];           /* hash of its files: equal for equal adapters only */
};

struct adapter_set;

/* Empty. RESULT_IO if the memory cannot be created. */
enum result adapter_set_create(struct adapter_set **set, struct error_text *error) RESULT_CHECKED;
void adapter_set_destroy(struct adapter_set *set); /* NULL is allowed */

/*
 * Adds NAME=PATH. PATH is a PEFT folder (adapter_config.json and adapter_model.safetensors) or a GGUF
 * file; a worker checks the contents. RESULT_INVALID for a bad name or one that the set has,
 * RESULT_TOO_LARGE, RESULT_NOT_FOUND or RESULT_IO for files; the error text names the file.
 */
enum result adapter_set_add(struct adapter_set *set, const char *name_and_path,
                            struct error_text *error) RESULT_CHECKED;

uint32_t adapter_set_count(const struct adapter_set *set); /* 0 for NULL, as in the next two */
const struct adapter *adapter_set_at(const struct adapter_set *set, uint32_t index);
/* NULL: there is none of that name. */
const struct adapter *adapter_set_find(const struct adapter_set *set, const char *name);
/* The memory's descriptor, owned by the set; -1 for NULL. */
int adapter_set_memory(const struct adapter_set *set);

#endif
