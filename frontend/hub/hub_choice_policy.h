/*
 * Which files of a repository make the model: a GGUF file with its parts and its projector, or a
 * Hugging Face folder's weights and settings.
 */
#ifndef SHOAL_FRONTEND_HUB_HUB_CHOICE_POLICY_H
#define SHOAL_FRONTEND_HUB_HUB_CHOICE_POLICY_H

#include <stdbool.h>

#include "frontend/hub/hub_listing.h"

struct hub_choice {
    uint32_t *files; /* indices into the listing, ascending, each once; malloc'd */
    uint32_t count;
    const char *model; /* name of the GGUF file, of a split one the first part; NULL: the folder */
    const char *projector; /* name of its mmproj file, or NULL; both point into the listing */
};

/*
 * `quant` is "" or what follows the colon of a model's name: a quantization as in the names of GGUF
 * files (case does not matter), or a file's name without folders. Without it a folder of safetensors
 * is preferred, then the GGUF file of the first type that is there of Q4_K_M, Q4_0, Q4_1, Q4_K_S,
 * Q5_K_M, Q8_0, Q6_K, F16, BF16, F32, then the first by name.
 *
 * RESULT_NOT_FOUND: there is no such file, or neither GGUF files nor safetensors; RESULT_CORRUPT:
 * parts are missing. On failure *choice is empty.
 */
enum result hub_choice_make(const struct hub_listing *listing, const char *quant,
                            struct hub_choice *choice, struct error_text *error) RESULT_CHECKED;
void hub_choice_fini(struct hub_choice *choice);

/* The name has "mmproj" in it and ends in .gguf. */
bool hub_name_is_projector(const char *file);
/* Of two projectors of one model: by the type in the name F16, BF16, Q8_0, F32, others; then by
 * name. */
bool hub_projector_comes_before(const char *file, const char *other);
/* Writes the type in the name of a GGUF file ("Q4_K_M"), or "". */
void hub_name_quant(const char *file, char quant[32]);

#endif
