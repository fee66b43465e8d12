/*
 * Finding filters.
 *
 * The filters themselves stand in the files of what they work on: text, numbers, sequences, choices
 * (map, select and kin) and order (sort, group, extremes). Not there: filters for web pages
 * (urlize, xmlattr, striptags, wordwrap, filesizeformat), `random`, whose answer cannot be tested,
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
