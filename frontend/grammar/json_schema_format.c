/*
 * The values of "format" that are checked, as regular expressions over whole texts. Sources: RFC
 * 3339 (dates; Gregorian leap years; a leap second only at 23:59:60Z), ISO 8601 by RFC 3339
 * appendix A (duration), RFC 5321 (email without quoted local parts; at most 64 bytes before the @
 * and 253 after it), RFC 1123 (hostname, without A-labels), RFC 4291 (ipv6), RFC 4122 (uuid), RFC
 * 3986 and 3987 (uri, iri), RFC 6901 (json-pointer). A format that is not in the table asserts
 * nothing, as the specification says; one that only a program could check is refused.
 */
#include <cjson/cJSON.h>
#include <string.h>

#include "frontend/grammar/json_schema_parts.h"
#include "frontend/grammar/regex_compile.h"

#define LEAP "(?:\\d\\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
#define DATE                                                                                       \
    "(?:\\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)" \
    "|02-(?:0[1-9]|1\\d|2[0-8]))|" LEAP "-02-29)"
#define OFFSET "(?:[zZ]|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)"
#define TIME                                                                                       \
    "(?:(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d+)?" OFFSET "|23:59:60(?:\\.\\d+)?[zZ])"
#define LABEL "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
/* A label whose third and fourth characters are not both hyphens: a look-ahead for them would leave
 * states that only a long search proves dead. */
#define PLAIN_LABEL                                                                                \
    "[A-Za-z0-9](?:[A-Za-z0-9-]?[A-Za-z0-9]|[A-Za-z0-9-][A-Za-z0-9][A-Za-z0-9-]{0,59}[A-Za-z0-9]"  \
    "|[A-Za-z0-9-]-[A-Za-z0-9](?:[A-Za-z0-9-]{0,58}[A-Za-z0-9])?)?"
#define HOSTNAME "(?!.{254})" PLAIN_LABEL "(?:\\." PLAIN_LABEL ")*"
#define ATEXT    "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
#define OCTET    "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define IPV4     OCTET "(?:\\." OCTET "){3}"
#define H16      "[0-9A-Fa-f]{1,4}"
#define LS32     "(?:" H16 ":" H16 "|" IPV4 ")"
#define IPV6                                                                                       \
    "(?:(?:" H16 ":){6}" LS32 "|::(?:" H16 ":){5}" LS32 "|(?:" H16 ")?::(?:" H16 ":){4}" LS32      \
    "|(?:(?:" H16 ":){0,1}" H16 ")?::(?:" H16 ":){3}" LS32 "|(?:(?:" H16 ":){0,2}" H16             \
    ")?::(?:" H16 ":){2}" LS32 "|(?:(?:" H16 ":){0,3}" H16 ")?::" H16 ":" LS32 "|(?:(?:" H16       \
    ":){0,4}" H16 ")?::" LS32 "|(?:(?:" H16 ":){0,5}" H16 ")?::" H16 "|(?:(?:" H16 ":){0,6}" H16   \
    ")?::)"
#define ESCAPED "%[0-9A-Fa-f]{2}"
/* Of a URI; an IRI has also the characters that RFC 3987 calls ucschar. */
#define URI_CHARS "A-Za-z0-9._~!$&'()*+,;=\\-"
#define IRI_CHARS                                                                                  \
    URI_CHARS                                                                                      \
    "\\u00A0-\\uD7FF\\uF900-\\uFDCF\\uFDF0-\\uFFEF\\u{10000}-\\u{1FFFD}\\u{20000}-\\u{2FFFD}"      \
    "\\u{30000}-\\u{DFFFD}\\u{E1000}-\\u{EFFFD}"
#define PCHAR(chars) "(?:[" chars ":@]|" ESCAPED ")"
#define QUERY(chars)                                                                               \
    "(?:\\?(?:[" chars ":@/?]|" ESCAPED ")*)?(?:#(?:[" chars ":@/?]|" ESCAPED ")*)?"
#define AUTHORITY(chars)                                                                           \
    "(?:(?:[" chars ":]|" ESCAPED ")*@)?(?:\\[(?:" IPV6 "|v[0-9A-Fa-f]+\\.[" URI_CHARS             \
    ":]+)\\]|(?:[" chars "]|" ESCAPED ")*)(?::\\d*)?"
#define SEGMENTS(chars) "(?:/" PCHAR(chars) "*)*"
#define HIER(chars)                                                                                \
    "(?://" AUTHORITY(chars) SEGMENTS(chars) "|/(?:" PCHAR(chars) "+" SEGMENTS(chars) ")?|" PCHAR( \
        chars) "+" SEGMENTS(chars) "|)"
#define SCHEME "[A-Za-z][A-Za-z0-9+.-]*:"
#define RELATIVE(chars)                                                                            \
    "(?://" AUTHORITY(chars) SEGMENTS(chars) "|/(?:" PCHAR(chars) "+" SEGMENTS(                    \
        chars) ")?|(?:[" chars "@]|" ESCAPED ")+" SEGMENTS(chars) "|)" QUERY(chars)
#define POINTER "(?:/(?:[^~/]|~[01])*)*"
/* Without \n, which "." leaves out: no look-ahead is needed. */
#define DURATION_TIME "T(?:\\d+H(?:\\d+M(?:\\d+S)?)?|\\d+M(?:\\d+S)?|\\d+S)"
#define DURATION                                                                                   \
    "P(?:\\d+W|(?:\\d+Y(?:\\d+M(?:\\d+D)?)?|\\d+M(?:\\d+D)?|\\d+D)(?:" DURATION_TIME               \
    ")?|" DURATION_TIME ")"

static const struct {
    const char *name;
    const char *pattern; /* NULL: refused */
} FORMATS[] = {
    {"date-time", DATE "[tT]" TIME},
    {"date", DATE},
    {"time", TIME},
    {"duration", DURATION},
    {"email", "(?![^@]{65})(?!.*@.{254})" ATEXT "(?:\\." ATEXT ")*@" LABEL "(?:\\." LABEL ")*"},
    {"hostname", HOSTNAME},
    {"ipv4", IPV4},
    {"ipv6", IPV6},
    {"uuid", "[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}"},
    {"uri", SCHEME HIER(URI_CHARS) QUERY(URI_CHARS)},
    {"uri-reference", "(?:" SCHEME HIER(URI_CHARS) QUERY(URI_CHARS) "|" RELATIVE(URI_CHARS) ")"},
    {"iri", SCHEME HIER(IRI_CHARS) QUERY(IRI_CHARS)},
    {"iri-reference", "(?:" SCHEME HIER(IRI_CHARS) QUERY(IRI_CHARS) "|" RELATIVE(IRI_CHARS) ")"},
    {"json-pointer", POINTER},
    {"relative-json-pointer", "(?:0|[1-9]\\d*)(?:#|" POINTER ")"},
    {"idn-email", NULL},
    {"idn-hostname", NULL},
    {"uri-template", NULL},
    {"regex", NULL},
};

regex_id schema_format(struct schema_compiler *compiler, const cJSON *schema, const char *name,
                       bool *known)
{
    static const struct regex_options options = {.json_spelling = true};
    regex_id regex = GRAMMAR_NONE;
    struct grammar_error error = {0};
    *known = false;
    for (size_t i = 0; i < sizeof(FORMATS) / sizeof(FORMATS[0]); i++) {
        if (strcmp(name, FORMATS[i].name) != 0)
            continue;
        const char *pattern = FORMATS[i].pattern;
        uint32_t *kept = node_table_find(compiler, &compiler->regexes, FORMATS[i].name);
        *known = true;
        if (!kept || *kept)
            return kept ? *kept - 1 : GRAMMAR_NONE;
        if (!pattern)
            schema_refuse(compiler, schema, "format", "this format is not supported");
        else if (!regex_compile(compiler->builder, pattern, strlen(pattern), &options, &regex,
                                &error))
            schema_refuse(compiler, schema, "format", error.message);
        else
            *kept = regex + 1;
    }
    return regex;
}
