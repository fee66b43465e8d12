/*
 * The names of tensors in one format. Families use GGUF's names ("blk.3.attn_q.weight"); a Hugging
 * Face checkpoint has other names ("model.layers.3.self_attn.q_proj.weight") after a prefix that
 * depends on the saved model class.
 */
#ifndef SHOAL_WORKER_PLAN_TENSOR_NAMING_H
#define SHOAL_WORKER_PLAN_TENSOR_NAMING_H

#include <stdbool.h>

#include "worker/plan/tensor_table.h"

/* The first '*' stands for a layer's number, a second for an expert's; in `stored` '^' stands for
 * the prefix. A '%' at the end of both stands for the rest of the name. */
struct tensor_name {
    const char *asked;
    const char *stored;
};

/* How a family's tensors are named in one format. */
struct tensor_naming {
    const struct tensor_name *names; /* ends with {NULL, NULL} */
    const struct tensor_name
        *usual;                  /* for names that no row of `names` matches; same end, or NULL */
    const char *const *prefixes; /* that may stand for '^', ends with NULL */
    const char *const *other_parts; /* beginnings of names in other parts of the model, such as a
                                       vision tower; ends with NULL; NULL: none */
};

#define STORED_NAME_BYTES 128u

struct stored_name {
    char text[STORED_NAME_BYTES];
};

/* What stands for '^', and NULL or what stands for the layer's number in all stored names, whichever is asked
 * for. */
struct naming_place {
    const char *prefix;
    const char *layer;
};

/* The prefix of this checkpoint: the first prefix with which the table has tensor `probe`; NULL if
 * it has it with none. */
const char *tensor_naming_find_prefix(const struct tensor_naming *naming,
                                      const struct tensor_table *table, const char *layer,
                                      const char *probe);

/* The tensor `asked`, under the first spelling that the table has; *stored is that spelling. NULL
 * if it has none; then *stored is the first spelling, or unchanged if no row matches. */
const struct checkpoint_tensor *tensor_naming_find(const struct tensor_naming *naming,
                                                   const struct tensor_table *table,
                                                   struct naming_place place, const char *asked,
                                                   struct stored_name *stored);

/* Whether the tensor belongs to another part of the model. */
bool tensor_naming_is_other_part(const struct tensor_naming *naming, struct gguf_string name);

#endif
