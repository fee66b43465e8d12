/*
 * Names decide, because nothing has been downloaded yet. Publishers write the type between
 * separators: model-Q4_K_M.gguf, model.Q4_K_M-00001-of-00003.gguf, Q4_K_M/model-00001-of-00003.gguf.
 * "Q4_K" therefore matches only as a whole word, where '_' is part of a word ("Q4_K_M", "IQ4_NL").
 *
 * Of a folder only the files that this program reads are taken: the weights that
 * model.safetensors.index.json or model.safetensors stand for, the settings by name, and the
 * modules of sentence-transformers (1_Pooling/config.json).
 */
#include "frontend/hub/hub_choice_policy.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "proto/limits.h"

#define PART_ENDING_BYTES 15u /* "-00001-of-00003" */

static const char *base_of(const char *file)
{
    const char *slash = strrchr(file, '/');
    return slash ? slash + 1 : file;
}

static bool ends_with(const char *text, const char *ending)
{
    size_t length = strlen(text), bytes = strlen(ending);
    return length >= bytes && strcasecmp(text + length - bytes, ending) == 0;
}

static bool is_word_byte(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* True if `word` occurs in `text` as a whole word, in any case. */
static bool has_word(const char *text, const char *word)
{
    size_t bytes = strlen(word);
    for (const char *at = strcasestr(text, word); at; at = strcasestr(at + 1, word))
        if ((at == text || !is_word_byte(at[-1])) && !is_word_byte(at[bytes]))
            return true;
    return false;
}

/* --- projectors ------------------------------------------------------------------------------- */

bool hub_name_is_projector(const char *file)
{
    const char *base = base_of(file);
    return strlen(base) > 5 && ends_with(base, ".gguf") && strcasestr(base, "mmproj") != NULL;
}

static uint32_t projector_rank(const char *name)
{
    static const char *const types[] = {"bf16", "f16", "q8_0", "f32"}; /* "bf16" has "f16" in it */
    static const uint32_t ranks[] = {1, 0, 2, 3};
    for (uint32_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (strcasestr(name, types[i]))
            return ranks[i];
    return UINT32_MAX;
}

bool hub_projector_comes_before(const char *file, const char *other)
{
    uint32_t rank = projector_rank(base_of(file)), other_rank = projector_rank(base_of(other));
    return rank < other_rank || (rank == other_rank && strcmp(file, other) < 0);
}

/* --- GGUF ------------------------------------------------------------------------------------- */

/* Reads "-00002-of-00003" before `ending`; false if the name has none. */
static bool part_numbers(const char *file, const char *ending, unsigned *part, unsigned *parts)
{
    size_t length = strlen(file), tail = PART_ENDING_BYTES + strlen(ending);
    int taken = 0;
    return length > tail && ends_with(file, ending) &&
           sscanf(file + length - tail, "-%5u-of-%5u%n", part, parts, &taken) == 2 && *part >= 1 &&
           *part <= *parts && taken == (int)PART_ENDING_BYTES;
}

static bool is_model(const char *file)
{
    unsigned part, parts;
    return ends_with(file, ".gguf") && !hub_name_is_projector(file) &&
           !strcasestr(base_of(file), "imatrix") &&
           (!part_numbers(file, ".gguf", &part, &parts) || part == 1);
}

static const char *const types[] = {"Q4_K_M", "Q4_0", "Q4_1", "Q4_K_S", "Q5_K_M",
                                    "Q8_0",   "Q6_K", "F16",  "BF16",   "F32"};
static const char *const other_types[] = {
    "Q4_K_L",  "Q5_K_S",    "Q5_K_L", "Q5_0",   "Q5_1",    "Q3_K_S", "Q3_K_M",  "Q3_K_L",
    "Q3_K_XL", "Q2_K",      "Q2_K_S", "Q2_K_L", "Q2_K_XL", "Q6_K_L", "Q6_K_XL", "Q8_K_XL",
    "Q4_K_XL", "Q5_K_XL",   "IQ1_S",  "IQ1_M",  "IQ2_XXS", "IQ2_XS", "IQ2_S",   "IQ2_M",
    "IQ3_XXS", "IQ3_XS",    "IQ3_S",  "IQ3_M",  "IQ4_XS",  "IQ4_NL", "TQ1_0",   "TQ2_0",
    "MXFP4",   "MXFP4_MOE", "Q4_K",   "Q5_K",   "Q3_K"};

void hub_name_quant(const char *file, char quant[32])
{
    quant[0] = '\0';
    for (size_t i = 0; i < sizeof types / sizeof types[0] && !quant[0]; i++)
        if (has_word(file, types[i]))
            snprintf(quant, 32, "%s", types[i]);
    for (size_t i = 0; i < sizeof other_types / sizeof other_types[0] && !quant[0]; i++)
        if (has_word(file, other_types[i]))
            snprintf(quant, 32, "%s", other_types[i]);
}

/* The shorter name is the plainer variant ("UD-" and "-imat" are additions). */
static bool comes_before(const char *file, const char *other)
{
    size_t bytes = strlen(file), other_bytes = strlen(other);
    return bytes < other_bytes || (bytes == other_bytes && strcmp(file, other) < 0);
}

static bool matches(const char *file, const char *quant)
{
    return has_word(file, quant) || strcasecmp(base_of(file), quant) == 0;
}

/* The best model file that matches `quant`; "": any. */
static const char *model_find(const struct hub_listing *listing, const char *quant)
{
    const char *best = NULL;
    for (uint32_t i = 0; i < listing->count; i++) {
        const char *file = listing->files[i].name;
        if (is_model(file) && (!quant[0] || matches(file, quant)) &&
            (!best || (quant[0] ? comes_before(file, best) : strcmp(file, best) < 0)))
            best = file;
    }
    return best;
}

static const char *model_choose(const struct hub_listing *listing, const char *quant)
{
    if (quant[0])
        return model_find(listing, quant);
    const char *found = NULL;
    for (size_t i = 0; i < sizeof types / sizeof types[0] && !found; i++)
        found = model_find(listing, types[i]);
    return found ? found : model_find(listing, "");
}

static const char *projector_choose(const struct hub_listing *listing)
{
    const char *best = NULL;
    for (uint32_t i = 0; i < listing->count; i++) {
        const char *file = listing->files[i].name;
        if (hub_name_is_projector(file) && (!best || hub_projector_comes_before(file, best)))
            best = file;
    }
    return best;
}

/* True if `file` is the first part itself or another part of the same split file. */
static bool is_part_of(const char *file, const char *first, unsigned parts)
{
    unsigned part, all;
    size_t stem = strlen(first) - PART_ENDING_BYTES - 5;
    return part_numbers(file, ".gguf", &part, &all) && all == parts &&
           strlen(file) == strlen(first) && strncmp(file, first, stem) == 0;
}

/* --- folders ---------------------------------------------------------------------------------- */

static bool is_setting(const char *file)
{
    static const char *const names[] = {"config.json",
                                        "generation_config.json",
                                        "tokenizer.json",
                                        "tokenizer.model",
                                        "tokenizer_config.json",
                                        "special_tokens_map.json",
                                        "added_tokens.json",
                                        "chat_template.json",
                                        "chat_template.jinja",
                                        "preprocessor_config.json",
                                        "processor_config.json",
                                        "video_preprocessor_config.json",
                                        "hf_quant_config.json",
                                        "quantize_config.json",
                                        "modules.json",
                                        "sentence_bert_config.json",
                                        "config_sentence_transformers.json",
                                        "model.safetensors.index.json"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(file, names[i]) == 0)
            return true;
    return false;
}

/* As 1_Pooling/config.json and 2_Dense/model.safetensors. */
static bool is_module_file(const char *file)
{
    size_t digits = strspn(file, "0123456789");
    const char *slash = strchr(file, '/');
    return digits > 0 && file[digits] == '_' && slash &&
           (strcmp(slash, "/config.json") == 0 || strcmp(slash, "/model.safetensors") == 0);
}

static bool listing_has(const struct hub_listing *listing, const char *name)
{
    for (uint32_t i = 0; i < listing->count; i++)
        if (strcmp(listing->files[i].name, name) == 0)
            return true;
    return false;
}

static bool is_weight_file(const char *file, bool indexed)
{
    unsigned part, parts;
    if (strchr(file, '/') || strncmp(file, "consolidated", 12) == 0)
        return false;
    return indexed ? part_numbers(file, ".safetensors", &part, &parts)
                   : strcmp(file, "model.safetensors") == 0;
}

/* An index whose shards have no numbers: all safetensors files beside it. */
static bool is_other_weight_file(const char *file)
{
    return !strchr(file, '/') && ends_with(file, ".safetensors") &&
           strncmp(file, "consolidated", 12) != 0;
}

/* --- the choice ------------------------------------------------------------------------------- */

static void take(struct hub_choice *choice, uint32_t file)
{
    choice->files[choice->count++] = file;
}

static enum result gguf_take(const struct hub_listing *listing, struct hub_choice *choice,
                             struct error_text *error)
{
    unsigned part, parts = 0, found = 0;
    bool split = part_numbers(choice->model, ".gguf", &part, &parts);
    for (uint32_t i = 0; i < listing->count; i++) {
        const char *file = listing->files[i].name;
        bool is_part = split ? is_part_of(file, choice->model, parts) : file == choice->model;
        found += is_part;
        if (is_part || file == choice->projector)
            take(choice, i);
    }
    if (split && found != parts)
        return error_set(error, RESULT_CORRUPT, "of %.120s only %u of %u parts are there",
                         choice->model, found, parts);
    return RESULT_OK;
}

static enum result folder_take(const struct hub_listing *listing, bool indexed,
                               struct hub_choice *choice, struct error_text *error)
{
    unsigned part, parts = 0, found = 0, other = 0;
    for (uint32_t i = 0; i < listing->count; i++)
        if (is_weight_file(listing->files[i].name, indexed)) {
            found++;
            (void)part_numbers(listing->files[i].name, ".safetensors", &part, &parts);
        }
    bool unnumbered = indexed && found == 0;
    for (uint32_t i = 0; i < listing->count; i++) {
        const char *file = listing->files[i].name;
        bool weight = unnumbered ? is_other_weight_file(file) : is_weight_file(file, indexed);
        other += weight;
        if (weight || is_setting(file) || is_module_file(file))
            take(choice, i);
    }
    if (other == 0 || (indexed && !unnumbered && found < parts))
        return error_set(error, RESULT_CORRUPT,
                         "of the weights of model.safetensors.index.json %u of %u files are there",
                         found, parts);
    return RESULT_OK;
}

static enum result refuse(const struct hub_listing *listing, const char *quant,
                          struct error_text *error)
{
    char names[160] = "";
    for (uint32_t i = 0; i < listing->count; i++) {
        const char *base = base_of(listing->files[i].name);
        size_t length = strlen(names);
        if (is_model(listing->files[i].name) && length + strlen(base) + 2 < sizeof names)
            snprintf(names + length, sizeof names - length, "%s%s", length ? ", " : "", base);
    }
    if (names[0])
        return error_set(error, RESULT_NOT_FOUND, "it has no GGUF file '%.40s', but %s", quant,
                         names);
    return error_set(error, RESULT_NOT_FOUND,
                     quant[0] ? "it has no GGUF file"
                              : "it has neither a GGUF file nor config.json with safetensors");
}

enum result hub_choice_make(const struct hub_listing *listing, const char *quant,
                            struct hub_choice *choice, struct error_text *error)
{
    *choice = (struct hub_choice){0};
    bool indexed = listing_has(listing, "model.safetensors.index.json");
    bool folder = !quant[0] && listing_has(listing, "config.json") &&
                  (indexed || listing_has(listing, "model.safetensors"));
    choice->model = folder ? NULL : model_choose(listing, quant);
    if (!folder && !choice->model)
        return refuse(listing, quant, error);
    choice->files = malloc((listing->count + 1) * sizeof choice->files[0]);
    if (!choice->files)
        return error_set(error, RESULT_OUT_OF_MEMORY, "out of memory");
    choice->projector = folder ? NULL : projector_choose(listing);
    enum result result =
        folder ? folder_take(listing, indexed, choice, error) : gguf_take(listing, choice, error);
    if (result != RESULT_OK)
        hub_choice_fini(choice);
    return result;
}

void hub_choice_fini(struct hub_choice *choice)
{
    free(choice->files);
    *choice = (struct hub_choice){0};
}
