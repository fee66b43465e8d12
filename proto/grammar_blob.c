/*
 * The check of a grammar blob. A corrupt blob must not make the worker read or loop out of bounds:
 * nodes refer only to earlier ones (no circle, bounded nesting), every index is below its count,
 * and productions tile the slots.
 */
#include "proto/grammar_blob.h"

#include <stdlib.h>

#include "proto/limits.h"

_Static_assert(sizeof(struct grammar_blob_header) == 64, "the byte map");
_Static_assert(sizeof(struct grammar_blob_node) == 20, "the byte map");
_Static_assert(sizeof(struct grammar_blob_repeat) == 12, "the byte map");
_Static_assert(sizeof(struct grammar_blob_group) == 28, "the byte map");
_Static_assert(sizeof(struct grammar_blob_choice) == 8, "the byte map");
_Static_assert(sizeof(struct regex_byte_set) == 32, "the byte map");

size_t grammar_blob_bytes(const struct grammar_blob_header *header)
{
    return sizeof *header + header->set_count * sizeof(struct regex_byte_set) +
           header->node_count * sizeof(struct grammar_blob_node) +
           header->terminal_count * sizeof(uint32_t) +
           header->repeat_count * sizeof(struct grammar_blob_repeat) +
           header->group_count * sizeof(struct grammar_blob_group) +
           header->choice_count * sizeof(struct grammar_blob_choice) +
           ((size_t)header->rule_count + 1) * sizeof(uint32_t) +
           ((size_t)header->production_count + 1) * sizeof(uint32_t) +
           header->slot_count * sizeof(uint32_t);
}

static enum result check_header(const struct grammar_blob_header *header, size_t size,
                                struct error_text *error)
{
    if (header->magic != GRAMMAR_BLOB_MAGIC || header->version != GRAMMAR_BLOB_VERSION)
        return error_set(error, RESULT_CORRUPT, "G1 the grammar is of another kind or version");
    for (size_t i = 0; i < sizeof header->reserved / sizeof header->reserved[0]; i++)
        if (header->reserved[i] != 0)
            return error_set(error, RESULT_CORRUPT, "G2 reserved word %zu is not zero", i);
    /* Every element has at least four bytes, so the sum below cannot overflow. */
    const uint32_t counts[] = {header->set_count,    header->node_count,  header->terminal_count,
                               header->repeat_count, header->rule_count,  header->production_count,
                               header->slot_count,   header->group_count, header->choice_count};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        if (counts[i] > LIMIT_GRAMMAR_BLOB_BYTES / sizeof(uint32_t))
            return error_set(error, RESULT_CORRUPT, "G3 count %zu is too large", i);
    if (header->bytes != size || grammar_blob_bytes(header) != size)
        return error_set(error, RESULT_CORRUPT, "G3 the counts need %zu bytes, not %zu",
                         grammar_blob_bytes(header), size);
    if (header->rule_count == 0)
        return error_set(error, RESULT_CORRUPT, "G3 no rules");
    return RESULT_OK;
}

static void view_init(struct grammar_blob_view *view, const void *bytes)
{
    const struct grammar_blob_header *header = bytes;
    view->header = header;
    view->sets = (const void *)(header + 1);
    view->nodes = (const void *)(view->sets + header->set_count);
    view->terminals = (const void *)(view->nodes + header->node_count);
    view->repeats = (const void *)(view->terminals + header->terminal_count);
    view->groups = (const void *)(view->repeats + header->repeat_count);
    view->choices = (const void *)(view->groups + header->group_count);
    view->rules = (const void *)(view->choices + header->choice_count);
    view->productions = view->rules + header->rule_count + 1;
    view->slots = view->productions + header->production_count + 1;
}

static enum result check_nodes(const struct grammar_blob_view *view, struct error_text *error)
{
    uint32_t count = view->header->node_count;
    uint16_t *depths = calloc((size_t)count + GRAMMAR_BLOB_FIRST_NODE, sizeof *depths);
    if (depths == NULL)
        return error_set(error, RESULT_OUT_OF_MEMORY, "out of memory");
    enum result result = RESULT_OK;
    for (uint32_t i = 0; i < count && result == RESULT_OK; i++) {
        const struct grammar_blob_node *node = &view->nodes[i];
        uint32_t id = i + GRAMMAR_BLOB_FIRST_NODE;
        bool is_set = node->kind == REGEX_KIND_SET, is_repeat = node->kind == REGEX_KIND_REPEAT;
        if (node->kind < REGEX_KIND_SET || node->kind >= REGEX_KIND_COUNT) {
            result = error_set(error, RESULT_CORRUPT, "G4 node %u has an unknown kind", id);
        } else if (node->a >= (is_set ? view->header->set_count : id) ||
                   node->b >= (is_set ? 1 : id)) {
            result = error_set(error, RESULT_CORRUPT, "G5 node %u has no such child", id);
        } else if (is_repeat ? node->minimum > node->maximum || node->minimum > LIMIT_GRAMMAR_COUNT
                             : node->minimum != 0 || node->maximum != 0) {
            result = error_set(error, RESULT_CORRUPT, "G6 node %u has impossible counts", id);
        } else if (!is_set) {
            uint32_t depth = depths[node->a] + 1u;
            depth = depth > depths[node->b] ? depth : depths[node->b];
            depths[id] = (uint16_t)depth;
            if (depth > LIMIT_GRAMMAR_DEPTH)
                result = error_set(error, RESULT_TOO_LARGE, "G7 node %u is nested too deep", id);
        }
    }
    free(depths);
    return result;
}

static bool symbol_exists(const struct grammar_blob_header *header, uint32_t slot)
{
    uint32_t value = slot & GRAMMAR_SLOT_VALUE;
    switch (slot & GRAMMAR_SLOT_KIND) {
    case GRAMMAR_SLOT_TERMINAL: return value < header->terminal_count;
    case GRAMMAR_SLOT_RULE: return value < header->rule_count;
    case GRAMMAR_SLOT_REPEAT: return value < header->repeat_count;
    case GRAMMAR_SLOT_GROUP: return value < header->group_count;
    case GRAMMAR_SLOT_TOKEN: return value < LIMIT_VOCAB_TOKENS;
    default: return false;
    }
}

static enum result check_symbols(const struct grammar_blob_view *view, struct error_text *error)
{
    const struct grammar_blob_header *header = view->header;
    for (uint32_t i = 0; i < header->terminal_count; i++)
        if (view->terminals[i] >= header->node_count + GRAMMAR_BLOB_FIRST_NODE)
            return error_set(error, RESULT_CORRUPT, "G8 terminal %u has no regex", i);
    for (uint32_t i = 0; i < header->repeat_count; i++) {
        const struct grammar_blob_repeat *repeat = &view->repeats[i];
        uint32_t kind = repeat->symbol & GRAMMAR_SLOT_KIND;
        if ((kind != GRAMMAR_SLOT_TERMINAL && kind != GRAMMAR_SLOT_RULE) ||
            !symbol_exists(header, repeat->symbol))
            return error_set(error, RESULT_CORRUPT, "G9 repeat %u has no symbol", i);
        if (repeat->maximum == 0 || repeat->minimum > repeat->maximum ||
            repeat->minimum > LIMIT_GRAMMAR_COUNT)
            return error_set(error, RESULT_CORRUPT, "G9 repeat %u has impossible counts", i);
    }
    return RESULT_OK;
}

static enum result check_group(const struct grammar_blob_view *view, uint32_t index, uint32_t first,
                               struct error_text *error)
{
    const struct grammar_blob_header *header = view->header;
    const struct grammar_blob_group *group = &view->groups[index];
    if (group->choice_count > header->choice_count - first ||
        group->choice_count > GRAMMAR_GROUP_CHOICES)
        return error_set(error, RESULT_CORRUPT, "G15 group %u has no such choices", index);
    if (group->separator >= header->terminal_count ||
        (group->extra != GRAMMAR_NO_RULE && group->extra >= header->rule_count))
        return error_set(error, RESULT_CORRUPT, "G16 group %u has no such symbols", index);
    uint32_t required = 0;
    for (uint32_t i = 0; i < group->choice_count; i++) {
        const struct grammar_blob_choice *choice = &view->choices[first + i];
        if (choice->rule >= header->rule_count || choice->required > 1 ||
            (i > 0 && choice->rule <= choice[-1].rule))
            return error_set(error, RESULT_CORRUPT, "G17 choice %u of group %u is not in order", i,
                             index);
        required += choice->required;
    }
    if (group->required_count != required || group->maximum == 0 || required > group->maximum ||
        group->minimum > group->maximum || group->minimum > LIMIT_GRAMMAR_COUNT ||
        group->early > (group->extra == GRAMMAR_NO_RULE ? 0 : LIMIT_GRAMMAR_COUNT))
        return error_set(error, RESULT_CORRUPT, "G18 group %u has impossible counts", index);
    return RESULT_OK;
}

static enum result check_groups(const struct grammar_blob_view *view, struct error_text *error)
{
    const struct grammar_blob_header *header = view->header;
    uint32_t choice = 0;
    for (uint32_t i = 0; i < header->group_count; i++) {
        enum result result = check_group(view, i, choice, error);
        if (result != RESULT_OK)
            return result;
        choice += view->groups[i].choice_count;
    }
    if (choice != header->choice_count)
        return error_set(error, RESULT_CORRUPT, "G15 choices without a group");
    return RESULT_OK;
}

/* Rules tile the productions and productions the slots; each ends with the mark of its rule. */
static enum result check_rules(const struct grammar_blob_view *view, struct error_text *error)
{
    const struct grammar_blob_header *header = view->header;
    uint32_t production = 0, slot = 0;
    for (uint32_t rule = 0; rule < header->rule_count; rule++) {
        if (view->rules[rule] != production || view->rules[rule + 1] < production ||
            view->rules[rule + 1] > header->production_count)
            return error_set(error, RESULT_CORRUPT, "G10 rule %u has no such productions", rule);
        for (; production < view->rules[rule + 1]; production++) {
            uint32_t end = view->productions[production + 1];
            if (view->productions[production] != slot || end <= slot || end > header->slot_count)
                return error_set(error, RESULT_CORRUPT, "G11 production %u has no such slots",
                                 production);
            for (; slot < end - 1; slot++)
                if (!symbol_exists(header, view->slots[slot]))
                    return error_set(error, RESULT_CORRUPT, "G12 slot %u has no symbol", slot);
            if (view->slots[slot++] != (GRAMMAR_SLOT_END | rule))
                return error_set(error, RESULT_CORRUPT, "G13 production %u has no end", production);
        }
    }
    if (production != header->production_count || slot != header->slot_count ||
        view->productions[production] != slot)
        return error_set(error, RESULT_CORRUPT, "G14 slots without a rule");
    return RESULT_OK;
}

enum result grammar_blob_check(const void *bytes, size_t size, struct grammar_blob_view *view,
                               struct error_text *error)
{
    if (size > LIMIT_GRAMMAR_BLOB_BYTES)
        return error_set(error, RESULT_TOO_LARGE, "G3 the grammar has more than %u bytes",
                         LIMIT_GRAMMAR_BLOB_BYTES);
    if (size < sizeof(struct grammar_blob_header) || (uintptr_t)bytes % 8 != 0)
        return error_set(error, RESULT_CORRUPT, "G1 the grammar is cut or not aligned");
    enum result result = check_header(bytes, size, error);
    if (result != RESULT_OK)
        return result;
    view_init(view, bytes);
    result = check_nodes(view, error);
    if (result == RESULT_OK)
        result = check_symbols(view, error);
    if (result == RESULT_OK)
        result = check_groups(view, error);
    return result == RESULT_OK ? check_rules(view, error) : result;
}
