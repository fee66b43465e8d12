/*
 * Looks up filters.
 *
 * The filters are in one file for each kind of subject: text, numbers, sequences, selection (map,
 * select and similar) and order (sort, group, extremes). Not supported: filters for web pages
 * (urlize, xmlattr, striptags, wordwrap, filesizeformat), `random`, whose result cannot be tested,
 * and `pprint`.
 */
#include "frontend/prompt/jinja/jinja_filters.h"

#include "frontend/prompt/jinja/jinja_call.h"

const struct jinja_signature *jinja_filter_find(const char *name, size_t name_bytes)
{
    const struct jinja_signature *const tables[] = {jinja_filters_text, jinja_filters_number,
                                                    jinja_filters_sequence, jinja_filters_select,
                                                    jinja_filters_order};
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        const struct jinja_signature *found = jinja_call_find(tables[i], name, name_bytes);
        if (found != NULL)
            return found;
    }
    return NULL;
}
