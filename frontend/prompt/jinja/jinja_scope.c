/*
 * Scopes.
 *
 * In jinja2 a `set` in a loop does not leak, a macro sees the variables around its definition and
 * not around its call, and a name that a later statement sets is already that scope's own (and
 * undefined until then), even if the caller passed a variable of that name.
 *
 * Two passes, as in jinja2's compiler. The first goes through a whole scope and gives every name in
 * it a slot and the source of its first value: a parameter, the caller's variable, the outer
 * scope's value, or nothing. The second binds names to (scopes up, slot) and handles inner scopes
 * the same way. At run time a name is in one known place; nothing is found through callers.
 */
#include "frontend/prompt/jinja/jinja_scope.h"

#include <string.h>

#include "proto/limits.h"

struct binder {
    struct jinja_arena *arena;
    struct error_text *error;
    enum result failure;
    size_t slots; /* of all scopes */
    uint32_t stores;
};

struct place {
    uint32_t depth; /* scopes up; UINT32_MAX: not found */
    uint32_t slot;
};

static bool binder_fail(struct binder *binder)
{
    if (binder->failure == RESULT_OK)
        binder->failure = error_set(binder->error, RESULT_TOO_LARGE, "template is too large");
    return false;
}

static struct place scope_find(const struct jinja_scope *scope, const struct jinja_node *name)
{
    for (uint32_t depth = 0; scope != NULL; scope = scope->outer, depth++)
        for (uint32_t slot = 0; slot < scope->count; slot++)
            if (scope->slots[slot].name_bytes == name->name_bytes &&
                memcmp(scope->slots[slot].name, name->name, name->name_bytes) == 0)
                return (struct place){depth, slot};
    return (struct place){UINT32_MAX, 0};
}

static struct jinja_slot *scope_add(struct binder *binder, struct jinja_scope *scope,
                                    const char *name, size_t name_bytes, enum jinja_load load)
{
    if (binder->slots == LIMIT_TEMPLATE_NAMES) {
        (void)binder_fail(binder);
        return NULL;
    }
    if (scope->count == scope->capacity) {
        size_t capacity = scope->capacity == 0 ? 4 : scope->capacity * 2;
        struct jinja_slot *grown =
            jinja_arena_take(binder->arena, capacity * sizeof(struct jinja_slot));
        if (grown == NULL) {
            (void)binder_fail(binder);
            return NULL;
        }
        if (scope->count > 0)
            memcpy(grown, scope->slots, scope->count * sizeof(*grown));
        scope->slots = grown;
        scope->capacity = capacity;
    }
    binder->slots++;
    struct jinja_slot *slot = &scope->slots[scope->count++];
    *slot = (struct jinja_slot){.name = name, .name_bytes = name_bytes, .load = load};
    return slot;
}

static struct jinja_scope *scope_make(struct binder *binder, struct jinja_scope *outer)
{
    struct jinja_scope *scope = jinja_arena_take(binder->arena, sizeof(*scope));
    if (scope == NULL) {
        (void)binder_fail(binder);
        return NULL;
    }
    *scope = (struct jinja_scope){.outer = outer};
    return scope;
}

/* --- first pass: which names a scope has
 * ---------------------------------------------------------------------- */

static bool declare_parameter(struct binder *binder, struct jinja_scope *scope,
                              const struct jinja_node *name)
{
    struct place place = scope_find(scope, name);
    struct jinja_slot *slot =
        place.depth == 0 ? &scope->slots[place.slot]
                         : scope_add(binder, scope, name->name, name->name_bytes, LOAD_PARAMETER);
    if (slot == NULL)
        return false;
    slot->load = LOAD_PARAMETER;
    slot->stored = true;
    slot->store_order = binder->stores++;
    return true;
}

static bool declare_hidden(struct binder *binder, struct jinja_scope *scope, const char *name,
                           uint32_t *slot)
{
    struct jinja_node node = {.name = name, .name_bytes = strlen(name)};
    if (!declare_parameter(binder, scope, &node))
        return false;
    *slot = scope_find(scope, &node).slot;
    return true;
}

static bool declare_load(struct binder *binder, struct jinja_scope *scope,
                         const struct jinja_node *name)
{
    return scope_find(scope, name).depth != UINT32_MAX ||
           scope_add(binder, scope, name->name, name->name_bytes, LOAD_GLOBAL) != NULL;
}

static void slot_alias(struct jinja_slot *slot, struct place outer)
{
    slot->load = LOAD_ALIAS;
    slot->alias_depth = outer.depth;
    slot->alias_slot = outer.slot;
}

static bool declare_store(struct binder *binder, struct jinja_scope *scope,
                          const struct jinja_node *name)
{
    struct place place = scope_find(scope, name);
    struct jinja_slot *slot = place.depth == 0 ? &scope->slots[place.slot] : NULL;
    if (slot == NULL) {
        slot = scope_add(binder, scope, name->name, name->name_bytes, LOAD_UNDEFINED);
        if (slot == NULL)
            return false;
        if (place.depth != UINT32_MAX)
            slot_alias(slot, place);
    }
    if (!slot->stored)
        slot->store_order = binder->stores++;
    slot->stored = true;
    return true;
}

/* A name that only some branches set keeps its outer value in the others. */
static void settle_branches(struct jinja_scope *scope, uint32_t before)
{
    for (size_t i = 0; i < scope->count; i++) {
        struct jinja_slot *slot = &scope->slots[i];
        if (!slot->stored || slot->store_order < before)
            continue;
        struct jinja_node name = {.name = slot->name, .name_bytes = slot->name_bytes};
        struct place outer = scope_find(scope->outer, &name);
        slot->load = LOAD_GLOBAL;
        if (outer.depth != UINT32_MAX) {
            outer.depth++;
            slot_alias(slot, outer);
        }
    }
}

static bool look_through(struct binder *binder, struct jinja_scope *scope,
                         const struct jinja_node *node);

static bool look_through_arguments(struct binder *binder, struct jinja_scope *scope,
                                   const struct jinja_arguments *arguments)
{
    if (arguments == NULL)
        return true;
    for (size_t i = 0; i < arguments->positional_count; i++)
        if (!look_through(binder, scope, arguments->positional[i]))
            return false;
    for (size_t i = 0; i < arguments->keyword_count; i++)
        if (!look_through(binder, scope, arguments->keywords[i].value))
            return false;
    return look_through(binder, scope, arguments->star) &&
           look_through(binder, scope, arguments->double_star);
}

static bool look_through_items(struct binder *binder, struct jinja_scope *scope,
                               const struct jinja_node *node)
{
    for (size_t i = 0; i < node->count; i++)
        if (!look_through(binder, scope, node->items[i]))
            return false;
    return true;
}

static bool look_through_if(struct binder *binder, struct jinja_scope *scope,
                            const struct jinja_node *node)
{
    uint32_t before = binder->stores;
    if (!look_through_items(binder, scope, node))
        return false;
    settle_branches(scope, before);
    return true;
}

static bool look_through_with(struct binder *binder, struct jinja_scope *scope,
                              const struct jinja_node *node)
{
    for (size_t i = 1; i < node->count; i += 2)
        if (!look_through(binder, scope, node->items[i]))
            return false;
    return true;
}

static bool look_through(struct binder *binder, struct jinja_scope *scope,
                         const struct jinja_node *node)
{
    if (node == NULL)
        return true;
    switch (node->type) {
    case NODE_NAME:
        return node->store ? declare_store(binder, scope, node) : declare_load(binder, scope, node);
    case NODE_NAMESPACE_REF: return declare_load(binder, scope, node);
    case NODE_IF: return look_through_if(binder, scope, node);
    case NODE_FOR: return look_through(binder, scope, node->loop->iterable);
    case NODE_MACRO: return look_through(binder, scope, node->target);
    case NODE_CALL_BLOCK:
    case NODE_FILTER_BLOCK: return look_through(binder, scope, node->subject);
    case NODE_SET:
        return look_through(binder, scope, node->subject) &&
               look_through(binder, scope, node->target);
    case NODE_SET_BLOCK: return look_through(binder, scope, node->target);
    case NODE_WITH: return look_through_with(binder, scope, node);
    case NODE_SCOPE: return true;
    default:
        return look_through(binder, scope, node->subject) &&
               look_through_items(binder, scope, node) &&
               look_through_arguments(binder, scope, node->arguments);
    }
}

/* The names of a target, as parameters of the scope. */
static bool declare_target(struct binder *binder, struct jinja_scope *scope,
                           const struct jinja_node *target)
{
    if (target->type == NODE_NAME)
        return declare_parameter(binder, scope, target);
    for (size_t i = 0; i < target->count; i++)
        if (!declare_target(binder, scope, target->items[i]))
            return false;
    return true;
}

/* --- second pass: names to slots, and the scopes inside
 * ------------------------------------------------------- */

static bool bind(struct binder *binder, struct jinja_scope *scope, struct jinja_node *node);

static bool bind_items(struct binder *binder, struct jinja_scope *scope, struct jinja_node *node)
{
    for (size_t i = 0; i < node->count; i++)
        if (!bind(binder, scope, node->items[i]))
            return false;
    return true;
}

static bool bind_arguments(struct binder *binder, struct jinja_scope *scope,
                           struct jinja_arguments *arguments)
{
    if (arguments == NULL)
        return true;
    for (size_t i = 0; i < arguments->positional_count; i++)
        if (!bind(binder, scope, arguments->positional[i]))
            return false;
    for (size_t i = 0; i < arguments->keyword_count; i++)
        if (!bind(binder, scope, arguments->keywords[i].value))
            return false;
    return bind(binder, scope, arguments->star) && bind(binder, scope, arguments->double_star);
}

static bool bind_loop(struct binder *binder, struct jinja_scope *scope,
                      struct jinja_loop_body *loop)
{
    loop->scope = scope_make(binder, scope);
    loop->test_scope = scope_make(binder, scope);
    loop->else_scope = scope_make(binder, scope);
    if (loop->scope == NULL || loop->test_scope == NULL || loop->else_scope == NULL)
        return false;
    if (loop->uses_loop && !declare_hidden(binder, loop->scope, "loop", &loop->loop_slot))
        return false;
    if (!bind(binder, scope, loop->iterable) ||
        !declare_target(binder, loop->scope, loop->target) ||
        !look_through(binder, loop->scope, loop->body) ||
        !bind(binder, loop->scope, loop->target) || !bind(binder, loop->scope, loop->body))
        return false;
    if (loop->test != NULL && (!declare_target(binder, loop->test_scope, loop->test_target) ||
                               !look_through(binder, loop->test_scope, loop->test) ||
                               !bind(binder, loop->test_scope, loop->test_target) ||
                               !bind(binder, loop->test_scope, loop->test)))
        return false;
    return look_through(binder, loop->else_scope, loop->otherwise) &&
           bind(binder, loop->else_scope, loop->otherwise);
}

static bool bind_macro(struct binder *binder, struct jinja_scope *outer,
                       struct jinja_macro_body *macro)
{
    struct jinja_scope *scope = scope_make(binder, outer);
    if (scope == NULL)
        return false;
    macro->scope = scope;
    for (size_t i = 0; i < macro->parameter_count; i++)
        if (!declare_parameter(binder, scope, macro->parameters[i].name))
            return false;
    if (macro->uses_caller && !declare_hidden(binder, scope, "caller", &macro->caller_slot))
        return false;
    if (macro->uses_kwargs && !declare_hidden(binder, scope, "kwargs", &macro->kwargs_slot))
        return false;
    if (macro->uses_varargs && !declare_hidden(binder, scope, "varargs", &macro->varargs_slot))
        return false;
    for (size_t i = 0; i < macro->parameter_count; i++)
        if (!look_through(binder, scope, macro->parameters[i].fallback))
            return false;
    if (!look_through(binder, scope, macro->body))
        return false;
    for (size_t i = 0; i < macro->parameter_count; i++)
        if (!bind(binder, scope, macro->parameters[i].name) ||
            !bind(binder, scope, macro->parameters[i].fallback))
            return false;
    return bind(binder, scope, macro->body);
}

static bool bind_with(struct binder *binder, struct jinja_scope *outer, struct jinja_node *node)
{
    node->scope = scope_make(binder, outer);
    if (node->scope == NULL)
        return false;
    for (size_t i = 0; i < node->count; i += 2)
        if (!declare_target(binder, node->scope, node->items[i]))
            return false;
    if (!look_through(binder, node->scope, node->body))
        return false;
    for (size_t i = 0; i < node->count; i += 2)
        if (!bind(binder, node->scope, node->items[i]) || !bind(binder, outer, node->items[i + 1]))
            return false;
    return bind(binder, node->scope, node->body);
}

/* Set, filter and generation blocks: a body (and filters around it) in a scope of its own. */
static bool bind_block(struct binder *binder, struct jinja_scope *outer, struct jinja_node *node)
{
    node->scope = scope_make(binder, outer);
    return node->scope != NULL && bind(binder, outer, node->target) &&
           look_through(binder, node->scope, node->body) &&
           look_through(binder, node->scope, node->subject) &&
           bind(binder, node->scope, node->body) && bind(binder, node->scope, node->subject);
}

static bool bind(struct binder *binder, struct jinja_scope *scope, struct jinja_node *node)
{
    if (node == NULL)
        return true;
    switch (node->type) {
    case NODE_NAME:
    case NODE_NAMESPACE_REF: {
        struct place place = scope_find(scope, node);
        node->depth = place.depth;
        node->slot = place.slot;
        return place.depth != UINT32_MAX || binder_fail(binder);
    }
    case NODE_FOR: return bind_loop(binder, scope, node->loop);
    case NODE_MACRO:
        return bind(binder, scope, node->target) && bind_macro(binder, scope, node->macro);
    case NODE_CALL_BLOCK:
        return bind(binder, scope, node->subject) && bind_macro(binder, scope, node->macro);
    case NODE_WITH: return bind_with(binder, scope, node);
    case NODE_SET_BLOCK:
    case NODE_FILTER_BLOCK:
    case NODE_SCOPE: return bind_block(binder, scope, node);
    default:
        return bind(binder, scope, node->subject) && bind(binder, scope, node->target) &&
               bind_items(binder, scope, node) && bind_arguments(binder, scope, node->arguments);
    }
}

enum result jinja_scope_bind(struct jinja_arena *arena, struct jinja_node *root,
                             struct jinja_scope **scope, struct error_text *error)
{
    struct binder binder = {.arena = arena, .error = error};
    *scope = scope_make(&binder, NULL);
    if (*scope != NULL && look_through(&binder, *scope, root))
        (void)bind(&binder, *scope, root);
    return binder.failure;
}
