/*
 * Frames: the variables of scopes at run time.
 *
 * A macro may be called after the loop that defined it has ended, and reads the variables around
 * its definition as they are then. A frame is one arena piece with a slot per name and a pointer to
 * the enclosing frame; a macro keeps that pointer. Names were bound when the template was compiled,
 * so a lookup is a few hops and an index.
 */
#include "frontend/prompt/jinja/jinja_frame.h"

#include <string.h>

#include "frontend/prompt/jinja/jinja_cursor.h"
#include "frontend/prompt/jinja/jinja_dict.h"
#include "frontend/prompt/jinja/jinja_string.h"

bool jinja_frame_make(struct jinja_run *run, const struct jinja_scope *scope,
                      struct jinja_frame *outer, struct jinja_frame **frame)
{
    size_t bytes = sizeof(struct jinja_frame) + scope->count * sizeof(struct jinja_value);
    struct jinja_frame *made = jinja_run_take(run, 1, bytes);
    if (made == NULL || !jinja_run_step(run, 1 + scope->count))
        return false;
    memset(made, 0, bytes);
    made->outer = outer;
    made->scope = scope;
    *frame = made;
    return true;
}

bool jinja_frame_load(struct jinja_run *run, struct jinja_frame *frame)
{
    if (!jinja_run_step(run, 1 + frame->scope->count))
        return false;
    for (size_t i = 0; i < frame->scope->count; i++) {
        const struct jinja_slot *slot = &frame->scope->slots[i];
        const struct jinja_frame *outer = frame;
        const struct jinja_value *global = NULL;
        switch (slot->load) {
        case LOAD_PARAMETER: break;
        case LOAD_UNDEFINED: frame->slots[i] = (struct jinja_value){0}; break;
        case LOAD_ALIAS:
            for (uint32_t depth = 0; depth < slot->alias_depth; depth++)
                outer = outer->outer;
            frame->slots[i] = outer->slots[slot->alias_slot];
            break;
        case LOAD_GLOBAL:
            global = jinja_dict_find(run->globals, slot->name, slot->name_bytes);
            frame->slots[i] = global == NULL ? (struct jinja_value){0} : *global;
            break;
        }
    }
    return true;
}

struct jinja_value *jinja_frame_slot(struct jinja_frame *frame, const struct jinja_node *name)
{
    for (uint32_t depth = 0; depth < name->depth; depth++)
        frame = frame->outer;
    return &frame->slots[name->slot];
}

static bool assign_tuple(struct jinja_run *run, struct jinja_frame *frame,
                         const struct jinja_node *target, struct jinja_value value)
{
    struct jinja_list list;
    if (!jinja_cursor_can(value))
        return jinja_fail(run, "cannot unpack non-iterable %s object", jinja_value_type(value));
    if (!jinja_cursor_collect(run, value, &list))
        return false;
    if (list.count > target->count)
        return jinja_fail(run, "too many values to unpack (expected %zu)", target->count);
    if (list.count < target->count)
        return jinja_fail(run, "not enough values to unpack (expected %zu, got %zu)", target->count,
                          list.count);
    for (size_t i = 0; i < target->count; i++)
        if (!jinja_frame_assign(run, frame, target->items[i], list.items[i]))
            return false;
    return true;
}

static bool assign_member(struct jinja_run *run, const struct jinja_node *target,
                          struct jinja_value space, struct jinja_value value)
{
    const struct jinja_string *name = target->value.as.string;
    if (space.kind != JINJA_NAMESPACE)
        return jinja_fail(run, "cannot assign attribute on non-namespace object");
    if (name->length > 0 && name->bytes[0] == '_')
        return jinja_fail(run,
                          "Chat templates cannot store underscore-prefixed attributes on a "
                          "namespace, but got '%.*s'. Please rename the attribute.",
                          (int)(name->length > 60 ? 60 : name->length), name->bytes);
    return jinja_dict_set(run, space.as.names, target->value, value);
}

bool jinja_frame_assign(struct jinja_run *run, struct jinja_frame *frame,
                        const struct jinja_node *target, struct jinja_value value)
{
    if (target->type == NODE_TUPLE)
        return assign_tuple(run, frame, target, value);
    struct jinja_value *slot = jinja_frame_slot(frame, target);
    if (target->type == NODE_NAMESPACE_REF)
        return assign_member(run, target, *slot, value);
    *slot = value;
    return true;
}
