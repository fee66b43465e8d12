/*
 * Reads a checkpoint's settings with their ranges: the metadata keys of one architecture in a GGUF
 * ("llama.block_count" by "block_count"), or the members of a JSON object (config.json).
 *
 * The first key that is missing, of another type or out of range sets the reader's result and error
 * text; every later read then does nothing and returns its minimum. So a caller reads all its keys
 * and checks `result` once.
 */
#ifndef SHOAL_WORKER_MODEL_CHECKPOINT_CHECKPOINT_KEYS_H
#define SHOAL_WORKER_MODEL_CHECKPOINT_CHECKPOINT_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/gguf_file.h"
#include "proto/json_value.h"
#include "proto/result.h"

struct checkpoint_keys {
    const struct gguf_file *file; /* NULL: the keys are those of `object` */
    struct json_value object;
    char section[32]; /* prefix of every key's name: the architecture, or the name of this object in
                         its parent; may be empty */
    enum result result;
    struct error_text *error;
};

struct u32_range {
    uint32_t least;
    uint32_t most;
};
struct f32_range {
    float least;
    float most;
};

/* Required keys. */
uint32_t checkpoint_keys_u32(struct checkpoint_keys *keys, const char *name,
                             struct u32_range range);
float checkpoint_keys_f32(struct checkpoint_keys *keys, const char *name, struct f32_range range);

/* Optional keys: `absent` is returned unchecked when the key is not there. */
uint32_t checkpoint_keys_u32_or(struct checkpoint_keys *keys, const char *name,
                                struct u32_range range, uint32_t absent);
float checkpoint_keys_f32_or(struct checkpoint_keys *keys, const char *name, struct f32_range range,
                             float absent);
/* The same for a key whose JSON null means "none": returns 0 then. */
float checkpoint_keys_f32_or_null(struct checkpoint_keys *keys, const char *name,
                                  struct f32_range range, float absent);
bool checkpoint_keys_bool_or(struct checkpoint_keys *keys, const char *name, bool absent);
/* Element `index` of a GGUF array, which must have that element. A key that is a single count, as
 * converters write when all elements are equal, gives that count. */
uint32_t checkpoint_keys_u32_at(struct checkpoint_keys *keys, const char *name, uint32_t index,
                                struct u32_range range);
/* One count for all layers, or an array of `count` elements with at most LAYER_SIZES_MAX distinct
 * values: out [count]. If the key is absent, returns false and leaves `out` unchanged. */
#define LAYER_SIZES_MAX 4u
bool checkpoint_keys_u32_each(struct checkpoint_keys *keys, const char *name,
                              struct u32_range range, uint32_t count, uint32_t *out);
/* An absent string is empty. JSON strings are returned as spelled in the file; one that contains an
 * escape is refused. */
struct gguf_string checkpoint_keys_string_or_empty(struct checkpoint_keys *keys, const char *name);
bool checkpoint_keys_is(struct gguf_string value, const char *word);

/* The keys of a nested object: no keys if it is absent, RESULT_INVALID if it is not an object.
 * Errors are kept in the inner keys; checkpoint_keys_leave() copies them back. */
struct checkpoint_keys checkpoint_keys_enter(struct checkpoint_keys *keys, const char *name);
void checkpoint_keys_leave(struct checkpoint_keys *keys, const struct checkpoint_keys *inner);

/* For a key that changes the computation in a way that no family here implements: any value but
 * `neutral` is RESULT_UNSUPPORTED. Integer, float and bool keys. */
void checkpoint_keys_expect_neutral(struct checkpoint_keys *keys, const char *name, double neutral);
struct altering_key {
    const char *name;
    double neutral;
};
/* Checks a table of such keys except those in `own`, which the caller reads itself (ends with NULL;
 * NULL: none). */
void checkpoint_keys_expect_all_neutral(struct checkpoint_keys *keys,
                                        const struct altering_key *altering, size_t count,
                                        const char *const *own);

/* Records an error unless one is already recorded. */
void checkpoint_keys_refuse(struct checkpoint_keys *keys, enum result result, const char *format,
                            ...) __attribute__((format(printf, 3, 4)));

#endif
