/*
 * The table of families. A new architecture is a row here, a file that reads what is its own in the
 * checkpoint and a file that lists its ops; worker/model/README.md walks through it.
 *
 * Refuses to do: aliases. An architecture that is "almost llama" gets its own row, so that what
 * differs is written down.
 */
#include "worker/model/model_family.h"

#include <string.h>

static const struct model_family families[] = {
    {"llama", checkpoint_llama_read, family_llama_list_ops},
    {"gemma3", checkpoint_gemma3_read, family_gemma3_list_ops},
};

const struct model_family *model_family_find(struct gguf_string architecture)
{
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
        if (strlen(families[i].architecture) == architecture.length &&
            memcmp(families[i].architecture, architecture.bytes, architecture.length) == 0)
            return &families[i];
    return NULL;
}
