/*
 * Dictionaries in order of insertion.
 *
 * Messages are small dictionaries (two to five keys) with many lookups, while a template or a
 * caller may build dictionaries of thousands of keys: an array of entries with their hashes, and
 * beyond eight of them an open-addressing index of positions. Colliding keys cost steps, so a
 * hostile table ends at the bound on steps.
 */
#include "frontend/prompt/jinja/jinja_dict.h"

#include <string.h>

#define LINEAR_ENTRIES 8u

uint64_t jinja_dict_hash_bytes(const char *bytes, size_t length)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)bytes[i]) * 0x100000001b3u;
    return hash ^ (hash >> 29);
}

bool jinja_dict_make(struct jinja_run *run, size_t capacity, struct jinja_dict **dict)
{
    struct jinja_dict *made = jinja_run_take(run, 1, sizeof(*made));
    if (made == NULL)
        return false;
    *made = (struct jinja_dict){.capacity = capacity};
    if (capacity > 0) {
        made->entries = jinja_run_take(run, capacity, sizeof(struct jinja_entry));
        if (made->entries == NULL)
            return false;
    }
    *dict = made;
    return true;
}

static void index_add(struct jinja_dict *dict, size_t position)
{
    size_t mask = dict->index_size - 1;
    size_t slot = (size_t)dict->entries[position].hash & mask;
    while (dict->index[slot] != 0)
        slot = (slot + 1) & mask;
    dict->index[slot] = (uint32_t)position + 1;
}

static bool index_rebuild(struct jinja_run *run, struct jinja_dict *dict, size_t entries)
{
    size_t size = 32;
    while (size < entries * 2)
        size *= 2;
    uint32_t *index = jinja_run_take(run, size, sizeof(uint32_t));
    if (index == NULL || !jinja_run_step(run, dict->count))
        return false;
    memset(index, 0, size * sizeof(uint32_t));
    dict->index = index;
    dict->index_size = size;
    for (size_t i = 0; i < dict->count; i++)
        index_add(dict, i);
    return true;
}

/* The index of the key's entry, or SIZE_MAX. */
static bool dict_locate(struct jinja_run *run, const struct jinja_dict *dict,
                        struct jinja_value key, uint64_t hash, size_t *position)
{
    size_t mask = dict->index_size - 1;
    size_t slot = (size_t)hash & mask;
    *position = SIZE_MAX;
    for (size_t i = 0;; i++) {
        size_t candidate = i;
        if (dict->index_size > 0) {
            if (dict->index[slot] == 0)
                return true;
            candidate = dict->index[slot] - 1;
            slot = (slot + 1) & mask;
        } else if (i == dict->count) {
            return true;
        }
        if (i >= LINEAR_ENTRIES && !jinja_run_step(run, 1))
            return false;
        if (dict->entries[candidate].hash != hash)
            continue;
        bool equal;
        if (!jinja_value_equal(run, dict->entries[candidate].key, key, &equal))
            return false;
        if (equal) {
            *position = candidate;
            return true;
        }
    }
}

static bool dict_grow(struct jinja_run *run, struct jinja_dict *dict)
{
    size_t capacity = dict->capacity == 0 ? 4 : dict->capacity * 2;
    struct jinja_entry *entries = jinja_run_take(run, capacity, sizeof(struct jinja_entry));
    if (entries == NULL)
        return false;
    if (dict->count > 0)
        memcpy(entries, dict->entries, dict->count * sizeof(struct jinja_entry));
    dict->entries = entries;
    dict->capacity = capacity;
    return true;
}

bool jinja_dict_set(struct jinja_run *run, struct jinja_dict *dict, struct jinja_value key,
                    struct jinja_value value)
{
    uint64_t hash;
    size_t position;
    if (!jinja_value_hash(run, key, &hash) || !dict_locate(run, dict, key, hash, &position))
        return false;
    if (position != SIZE_MAX) {
        dict->entries[position].value = value;
        return true;
    }
    if (dict->count == dict->capacity && !dict_grow(run, dict))
        return false;
    size_t added = dict->count;
    if (added + 1 > LINEAR_ENTRIES && (added + 1) * 2 > dict->index_size &&
        !index_rebuild(run, dict, (added + 1) * 2))
        return false;
    dict->entries[added] = (struct jinja_entry){.key = key, .value = value, .hash = hash};
    dict->count++;
    if (dict->index_size > 0)
        index_add(dict, added);
    return true;
}

bool jinja_dict_get(struct jinja_run *run, const struct jinja_dict *dict, struct jinja_value key,
                    struct jinja_value *found)
{
    uint64_t hash;
    size_t position;
    if (!jinja_value_hash(run, key, &hash) || !dict_locate(run, dict, key, hash, &position))
        return false;
    if (position != SIZE_MAX)
        *found = dict->entries[position].value;
    return true;
}

static bool entry_is(const struct jinja_entry *entry, uint64_t hash, const char *name,
                     size_t name_bytes)
{
    return entry->hash == hash && entry->key.kind == JINJA_STRING &&
           entry->key.as.string->length == name_bytes &&
           memcmp(entry->key.as.string->bytes, name, name_bytes) == 0;
}

const struct jinja_value *jinja_dict_find(const struct jinja_dict *dict, const char *name,
                                          size_t name_bytes)
{
    uint64_t hash = jinja_dict_hash_bytes(name, name_bytes);
    size_t mask = dict->index_size - 1;
    size_t slot = (size_t)hash & mask;
    for (size_t i = 0; i < dict->count; i++) {
        size_t candidate = i;
        if (dict->index_size > 0) {
            if (dict->index[slot] == 0)
                return NULL;
            candidate = dict->index[slot] - 1;
            slot = (slot + 1) & mask;
        }
        if (entry_is(&dict->entries[candidate], hash, name, name_bytes))
            return &dict->entries[candidate].value;
    }
    return NULL;
}
