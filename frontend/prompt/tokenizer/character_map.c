/*
 * The trie is in the format of darts-clone: a unit has a label in bits 0 to 7, bit 8 if a key ends
 * here, and in bits 10 to 30 an offset, shifted by 8 if bit 9 is set; a leaf's lower 31 bits are a
 * value. Units come from a file, so each index is checked when it is used.
 */
#include "frontend/prompt/tokenizer/character_map.h"

#include <stdlib.h>
#include <string.h>

#include "frontend/base/base64.h"
#include "frontend/base/cancel_flag.h"
#include "frontend/prompt/tokenizer/pretokenizer_pattern.h"
#include "proto/utf8.h"

enum { UNIT_BYTES = 4, CLUSTER_BYTES = 6, MAP_BYTES_MAX = 16 << 20 };

struct character_map {
    uint8_t *bytes;      /* the decoded file */
    const uint8_t *trie; /* [unit_count] units of 4 bytes, little-endian */
    size_t unit_count;
    const char *texts; /* each ends with a NUL; the last byte is one */
    size_t text_bytes;
    struct pretokenizer_pattern *clusters;
};

static uint32_t load_u32(const uint8_t *bytes)
{
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

static uint32_t offset_of(uint32_t unit)
{
    return (unit >> 10) << ((unit & 1u << 9) >> 6);
}

static bool unit_at(const struct character_map *map, size_t index, uint32_t *unit)
{
    if (index >= map->unit_count)
        return false;
    *unit = load_u32(map->trie + index * UNIT_BYTES);
    return true;
}

/* The text of the shortest key that `chars` begins with; NULL: none. */
static const char *find(const struct character_map *map, const char *chars, size_t bytes)
{
    uint32_t unit;
    if (!unit_at(map, 0, &unit))
        return NULL;
    size_t node = offset_of(unit);
    for (size_t i = 0; i < bytes && chars[i] != 0; i++) {
        node ^= (uint8_t)chars[i];
        if (!unit_at(map, node, &unit) || (unit & (1u << 31 | 0xFF)) != (uint8_t)chars[i])
            return NULL;
        node ^= offset_of(unit);
        if (unit >> 8 & 1) {
            uint32_t value;
            if (!unit_at(map, node, &value) || (value & INT32_MAX) >= map->text_bytes)
                return NULL;
            return map->texts + (value & INT32_MAX);
        }
    }
    return NULL;
}

static enum result decode(const char *base64, struct character_map *map, struct error_text *error)
{
    size_t bytes = strlen(base64);
    if (bytes / 4 * 3 > MAP_BYTES_MAX)
        return error_set(error, RESULT_TOO_LARGE,
                         "tokenizer.json: precompiled_charsmap of %zu bytes", bytes);
    map->bytes = malloc(bytes + 1);
    if (!map->bytes)
        return RESULT_OUT_OF_MEMORY;
    memcpy(map->bytes, base64, bytes);
    enum result result = base64_decode(map->bytes, &bytes, NULL);
    if (result)
        return error_set(error, result, "tokenizer.json: precompiled_charsmap is no base64");
    size_t trie_bytes = bytes < UNIT_BYTES ? 0 : load_u32(map->bytes);
    if (trie_bytes == 0 || trie_bytes % UNIT_BYTES != 0 || trie_bytes >= bytes - UNIT_BYTES ||
        map->bytes[bytes - 1] != 0)
        return error_set(error, RESULT_INVALID, "tokenizer.json: malformed precompiled_charsmap");
    map->trie = map->bytes + UNIT_BYTES;
    map->unit_count = trie_bytes / UNIT_BYTES;
    map->texts = (const char *)map->trie + trie_bytes;
    map->text_bytes = bytes - UNIT_BYTES - trie_bytes;
    if (!utf8_is_valid(map->texts, map->text_bytes))
        return error_set(error, RESULT_INVALID,
                         "tokenizer.json: precompiled_charsmap has texts that are not UTF-8");
    return RESULT_OK;
}

enum result character_map_open(const char *base64, struct character_map **map,
                               struct error_text *error)
{
    struct character_map *opened = calloc(1, sizeof *opened);
    if (!opened)
        return RESULT_OUT_OF_MEMORY;
    enum result result = decode(base64, opened, error);
    if (!result)
        result = pretokenizer_pattern_open("\\X", 2, &opened->clusters, error);
    if (result)
        character_map_close(opened);
    else
        *map = opened;
    return result;
}

void character_map_close(struct character_map *map)
{
    if (!map)
        return;
    pretokenizer_pattern_close(map->clusters);
    free(map->bytes);
    free(map);
}

static enum result put(const char *mapped, const struct marked_text *text, size_t start, size_t end,
                       struct marked_text *out)
{
    if (!mapped)
        return marked_text_append_marked(out, text->bytes + start, text->trusted + start,
                                         end - start);
    /* A value may point into the middle of a character. */
    while (((uint8_t)*mapped & 0xC0) == 0x80)
        mapped++;
    uint8_t trusted = memchr(text->trusted + start, 0, end - start) == NULL;
    return marked_text_append(out, mapped, strlen(mapped), trusted);
}

static enum result apply_to_cluster(const struct character_map *map, const struct marked_text *text,
                                    size_t start, size_t end, struct marked_text *out)
{
    const char *mapped =
        end - start < CLUSTER_BYTES ? find(map, text->bytes + start, end - start) : NULL;
    if (mapped)
        return put(mapped, text, start, end, out);
    enum result result = RESULT_OK;
    for (size_t at = start; at < end && !result;) {
        size_t next = at + utf8_char_bytes(text->bytes[at]);
        result = put(find(map, text->bytes + at, next - at), text, at, next, out);
        at = next;
    }
    return result;
}

/* The end of the cluster that begins at `start`. Two ASCII characters in a row are two clusters,
 * except CR LF. PCRE2 sees nothing before `start`: it would count the flags there once more. */
static enum result cluster_end(const struct character_map *map, struct pattern_search *search,
                               const struct marked_text *text, size_t start, size_t *end)
{
    const char *bytes = text->bytes + start;
    size_t count = text->count - start, found, cluster_bytes;
    *end = start + 1;
    if (((uint8_t)bytes[0] < 0x80 && count == 1) ||
        ((uint8_t)bytes[0] < 0x80 && (uint8_t)bytes[1] < 0x80 && bytes[0] != '\r'))
        return RESULT_OK;
    enum result result =
        pretokenizer_pattern_find(map->clusters, search, bytes, count, 0, &found, &cluster_bytes);
    if (result == RESULT_NOT_FOUND || (!result && (found != 0 || cluster_bytes == 0)))
        return RESULT_UNSUPPORTED;
    *end = start + cluster_bytes;
    return result;
}

enum result character_map_apply(const struct character_map *map, const struct marked_text *text,
                                struct marked_text *out, const atomic_bool *cancelled)
{
    struct pattern_search *search = pattern_search_create();
    enum result result = search ? RESULT_OK : RESULT_OUT_OF_MEMORY;
    size_t looked = 0;
    for (size_t start = 0, end; start < text->count && !result; start = end) {
        if (start >= looked && cancel_flag_is_set(cancelled))
            result = RESULT_CANCELLED;
        if (start >= looked)
            looked = start + CANCEL_LOOK_UNITS;
        if (!result)
            result = cluster_end(map, search, text, start, &end);
        if (result)
            break;
        result = apply_to_cluster(map, text, start, end, out);
    }
    pattern_search_destroy(search);
    return result;
}
