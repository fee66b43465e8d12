/*
 * literal_arguments: Python's and Gemma's notations as JSON, and the byte at which text that is
 * neither is refused. The expected values of Python's literals are what Python prints with
 * json.dumps().
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "frontend/reply/literal_arguments.h"

static const struct literal_syntax gemma = {
    .quotes = {"<|\"|>", "\""}, .bare_words = true, .assign = ':', .close = '}'};

static struct literal_arguments literal;
static struct call_writer writer;

struct outcome {
    enum call_step step;
    size_t taken; /* bytes; the others are read again */
};

/* Reads what follows the opening bracket up to the end of the arguments. */
static struct outcome read_bytes(const struct literal_syntax *syntax, const char *text,
                                 size_t length)
{
    struct outcome outcome = {CALL_MORE, 0};
    call_writer_clear(&writer);
    literal_arguments_begin(&literal, syntax);
    while (outcome.taken < length && outcome.step == CALL_MORE) {
        size_t unread = 99;
        outcome.step = literal_arguments_push(&literal, &writer, text[outcome.taken], &unread);
        assert_true(unread <= outcome.taken + 1);
        assert_true(outcome.step != CALL_BROKEN || unread > 0);
        outcome.taken += 1 - unread;
    }
    return outcome;
}

static void expect_json(const struct literal_syntax *syntax, const char *const cases[][2],
                        size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct outcome outcome = read_bytes(syntax, cases[i][0], strlen(cases[i][0]));
        if (outcome.step != CALL_DONE || outcome.taken != strlen(cases[i][0]))
            fail_msg("%s: step %d after %zu bytes", cases[i][0], (int)outcome.step, outcome.taken);
        assert_true(writer.is_whole);
        assert_string_equal(writer.arguments.bytes, cases[i][1]);
    }
}

struct broken_case {
    const char *text;
    size_t taken;
};

static void expect_broken(const struct literal_syntax *syntax, const struct broken_case *cases,
                          size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct outcome outcome = read_bytes(syntax, cases[i].text, strlen(cases[i].text));
        if (outcome.step != CALL_BROKEN || outcome.taken != cases[i].taken)
            fail_msg("%s: step %d after %zu bytes", cases[i].text, (int)outcome.step,
                     outcome.taken);
    }
}

#define EXPECT_JSON(syntax, cases)   expect_json(syntax, cases, sizeof(cases) / sizeof *(cases))
#define EXPECT_BROKEN(syntax, cases) expect_broken(syntax, cases, sizeof(cases) / sizeof *(cases))

static void python_values_become_json(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {")", "{}"},
        {"a=\"x\", b=[1, {'c': True}], d=None)", "{\"a\":\"x\",\"b\":[1,{\"c\":true}],\"d\":null}"},
        {" a = False , b\t=\n0)", "{\"a\":false,\"b\":0}"},
        {"a=true,b=false,c=null)", "{\"a\":true,\"b\":false,\"c\":null}"},
        {"a=[], b={}, c=())", "{\"a\":[],\"b\":{},\"c\":[]}"},
        {"a=(1, 'x'), b=[(2), []])", "{\"a\":[1,\"x\"],\"b\":[[2],[]]}"},
        {"a={\"k\" : 1, '' : {'l':[2]}})", "{\"a\":{\"k\":1,\"\":{\"l\":[2]}}}"},
        {"a=1,)", "{\"a\":1}"}, /* commas at the end */
        {"a=[1, ], b={'k': 2,}, c=(3,))", "{\"a\":[1],\"b\":{\"k\":2},\"c\":[3]}"},
        {"a=[[1], [2, 3], {'k': 4}, 'x'])", "{\"a\":[[1],[2,3],{\"k\":4},\"x\"]}"},
    };
    EXPECT_JSON(&literal_syntax_python, cases);
}

static void python_numbers_become_json(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"a=0, b=9, c=-12, d=3.25)", "{\"a\":0,\"b\":9,\"c\":-12,\"d\":3.25}"},
        {"a=+1, b=.5, c=5., d=-.5, e=-5., f=+.5)",
         "{\"a\":1,\"b\":0.5,\"c\":5.0,\"d\":-0.5,\"e\":-5.0,\"f\":0.5}"},
        {"a=1e3, b=2E-2)", "{\"a\":1e3,\"b\":2E-2}"},
    };
    static const struct broken_case broken[] = {
        {"a=.)", 3},   {"a=-)", 3},     {"a=+)", 3},     {"a=-.)", 4}, {"a=5.x)", 5},
        {"a=1 2)", 4}, {"a=1_0)", 5},   {"a=0x1)", 5},   {"a=01)", 4}, {"a=1e)", 4},
        {"a=--1)", 5}, {"a=+true)", 7}, {"a=1.5.2)", 7}, {"a=:)", 3},  {"a=/)", 3},
    };
    EXPECT_JSON(&literal_syntax_python, cases);
    EXPECT_BROKEN(&literal_syntax_python, broken);
}

static void python_strings_become_json(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"a=\"\", b='')", "{\"a\":\"\",\"b\":\"\"}"},
        {"a='\"', b=\"'\")", "{\"a\":\"\\\"\",\"b\":\"'\"}"},
        {"a=\"\"\"x\"y\"\"z\"\"\")", "{\"a\":\"x\\\"y\\\"\\\"z\"}"},
        {"a='''q'w''e\n''')", "{\"a\":\"q'w''e\\n\"}"},
        {"a='''''')", "{\"a\":\"\"}"},
        {"a='it\\'s', b=\"\\\"\")", "{\"a\":\"it's\",\"b\":\"\\\"\"}"},
        {"a=\"\\a\\b\\f\\n\\r\\t\\v\\0\\\\\")",
         "{\"a\":\"\\u0007\\u0008\\u000c\\n\\r\\t\\u000b\\u0000\\\\\"}"},
        {"a='x\\\ny')", "{\"a\":\"xy\"}"},         /* the line goes on */
        {"a='\\q\\d')", "{\"a\":\"\\\\q\\\\d\"}"}, /* kept, as Python does */
        {"a={'k\\n\\q': 1})", "{\"a\":{\"k\\n\\\\q\":1}}"},
    };
    EXPECT_JSON(&literal_syntax_python, cases);
}

static void python_code_points_become_json(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"a='\\x41\\xfFz')", "{\"a\":\"\\u0041\\u00ffz\"}"},
        {"a='\\u00e9\\uABCD0')", "{\"a\":\"\\u00e9\\uabcd0\"}"},
        {"a='\\U0001F600\\U00010000\\U0010ffff')",
         "{\"a\":\"\\ud83d\\ude00\\ud800\\udc00\\udbff\\udfff\"}"},
        {"a='\\U0000ffff\\U00000041')", "{\"a\":\"\\uffff\\u0041\"}"},
        {"a='\\ud83dx')", "{\"a\":\"\\ufffdx\"}"},
    };
    static const struct broken_case broken[] = {
        {"a='\\U00110000')", 12}, {"a='\\xg", 5},  {"a='\\xG", 5}, {"a='\\x@", 5},
        {"a='\\x\x10", 5},        {"a='\\u0x", 6}, {"a={'\\x", 5}, {"a={'\\u", 5},
    };
    EXPECT_JSON(&literal_syntax_python, cases);
    EXPECT_BROKEN(&literal_syntax_python, broken);
}

static void what_python_does_not_read_is_refused(void **state)
{
    (void)state;
    static const struct broken_case cases[] = {
        {",", 0},    {"=", 0},        {"]", 0},        {"}", 0},         {"\"a\"=1", 0},
        {"a,", 1},   {"a 1", 2},      {"a:1)", 3},     {"a=,", 2},       {"a=)", 2},
        {"a=1]", 3}, {"a=1}", 3},     {"a=[1)", 4},    {"a=[1}", 4},     {"a=(1]", 4},
        {"a=x)", 3}, {"a=b(1)", 3},   {"a=x\"y\"", 3}, {"a=x'", 3},      {"a=x[", 3},
        {"a=x{", 3}, {"a=x<", 3},     {"a=\"x\"y", 5}, {"a=[1 2]", 5},   {"a={k", 3},
        {"a={1", 3}, {"a={'k' 1", 7}, {"a={'k'=", 6},  {"a={'k':}", 7},  {"a={,", 3},
        {"a=[,", 3}, {"a=1;)", 4},    {"a=Truex)", 7}, {"a={'k':1]", 8}, {"a=<", 2},
    };
    static const char *const afterwards[][2] = {{"b=2)", "{\"b\":2}"}};
    EXPECT_BROKEN(&literal_syntax_python, cases);
    EXPECT_JSON(&literal_syntax_python, afterwards);
}

static void gemma_values_become_json(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"}", "{}"},
        {"a:<|\"|>x<|\"|>,b:[1,{c:true}]}", "{\"a\":\"x\",\"b\":[1,{\"c\":true}]}"},
        {" a : <|\"|><|\"|> , b : \"y\" }", "{\"a\":\"\",\"b\":\"y\"}"},
        {"<|\"|>a b<|\"|>:1,\"c\":{<|\"|>d<|\"|>:2}}", "{\"a b\":1,\"c\":{\"d\":2}}"},
        {"a:<|\"|>x\\n<|\"|>}", "{\"a\":\"x\\\\n\"}"}, /* no escapes */
        {"a:<|\"|><|\"b<|<|\"|>}", "{\"a\":\"<|\\\"b<|\"}"},
        {"a:<|\"|>\"<|\"|>,b:\"<|\"}", "{\"a\":\"\\\"\",\"b\":\"<|\"}"},
    };
    static const struct broken_case broken[] = {
        {"a:<|x", 2}, /* the begun quote is read again */
        {"a:[<|\"x", 3},
        {"a=1}", 3},
        {"a:1)", 3},
        {"a:1]", 3},
        {"a:(1", 2},
        {"a:it's", 4},
        {"a:x\"", 3},
        {"a:{b=}", 5},
        {"a b", 2},
        {"a:,", 2},
        {"a:<|\"|>x<|\"|>y", 13},
    };
    EXPECT_JSON(&gemma, cases);
    EXPECT_BROKEN(&gemma, broken);
}

static void words_without_quotes_are_strings(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"a:two words ,b:x}", "{\"a\":\"two words\",\"b\":\"x\"}"},
        {"a:true,b:trues,c:true x,d:tru}",
         "{\"a\":true,\"b\":\"trues\",\"c\":\"true x\",\"d\":\"tru\"}"},
        {"a:5 \n,b:+5,c:5 x,d:5}", "{\"a\":5,\"b\":5,\"c\":\"5 x\",\"d\":5}"},
        {"a:.,b:-,c:-x,d:1.5.2,e:+}",
         "{\"a\":\".\",\"b\":\"-\",\"c\":\"-x\",\"d\":\"1.5.2\",\"e\":\"+\"}"},
        {"a:+true,b:-true,c:+null}", "{\"a\":\"+true\",\"b\":\"-true\",\"c\":\"+null\"}"},
        {"a:x\\y}", "{\"a\":\"x\\\\y\"}"},
    };
    EXPECT_JSON(&gemma, cases);
}

/* A key of `length` bytes between `before` and `after`. */
static struct outcome read_key(const struct literal_syntax *syntax, const char *before,
                               size_t length, const char *after)
{
    char text[LIMIT_TOOL_NAME_BYTES + 64] = "";
    size_t begin = strlen(before);
    strcpy(text, before);
    memset(text + begin, 'k', length);
    strcpy(text + begin + length, after);
    return read_bytes(syntax, text, strlen(text));
}

static void keys_are_bounded(void **state)
{
    (void)state;
    static const char *const around[][2] = {{"", "=1)"}, {"a={'", "':1})"}};
    for (size_t i = 0; i < 2; i++) {
        size_t begin = strlen(around[i][0]);
        struct outcome outcome =
            read_key(&literal_syntax_python, around[i][0], LIMIT_TOOL_NAME_BYTES, around[i][1]);
        assert_int_equal(outcome.step, CALL_DONE);
        assert_true(writer.arguments.length > LIMIT_TOOL_NAME_BYTES);
        outcome =
            read_key(&literal_syntax_python, around[i][0], LIMIT_TOOL_NAME_BYTES + 1, around[i][1]);
        assert_int_equal(outcome.step, CALL_BROKEN);
        assert_int_equal(outcome.taken, begin + LIMIT_TOOL_NAME_BYTES);
    }
    /* An invalid escape is two bytes: the backslash and the byte. */
    struct outcome outcome =
        read_key(&literal_syntax_python, "a={'", LIMIT_TOOL_NAME_BYTES - 1, "\\q':1})");
    assert_int_equal(outcome.step, CALL_BROKEN);
    outcome = read_key(&literal_syntax_python, "a={'", LIMIT_TOOL_NAME_BYTES - 2, "\\q':1})");
    assert_int_equal(outcome.step, CALL_DONE);
}

static void depth_is_bounded(void **state)
{
    (void)state;
    char text[LIMIT_TOOL_DEPTH + 2] = "a=";
    memset(text + 2, '[', LIMIT_TOOL_DEPTH);
    struct outcome outcome = read_bytes(&literal_syntax_python, text, sizeof text);
    assert_int_equal(outcome.step, CALL_BROKEN);
    assert_int_equal(outcome.taken, 2 + LIMIT_TOOL_DEPTH - 1);
}

static void python_text_is_read_as_one_value(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"[1, 'x']", "[1,\"x\"]"},
        {" {'a': None} ", "{\"a\":null}"},
        {"[]", "[]"},
        {"(1,)", "[1]"},
        {"7", "7"},
    };
    static const char *const broken[] = {"",      " ", "[1", "[1]]", "[1], w=2",
                                         "[1]) ", ")", "x",  "[x]"};
    struct text_buffer out = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        text_buffer_clear(&out);
        assert_true(literal_arguments_read_python(cases[i][0], strlen(cases[i][0]), &out));
        assert_string_equal(out.bytes, cases[i][1]);
    }
    text_buffer_clear(&out);
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        if (literal_arguments_read_python(broken[i], strlen(broken[i]), &out))
            fail_msg("%s: %s", broken[i], out.bytes);
    }
    assert_int_equal(out.length, 0);
    assert_true(literal_arguments_read_python("[1]]", 3, &out)); /* `length` bytes are the text */
    assert_string_equal(out.bytes, "[1]");
    text_buffer_fini(&out);
}

static int forget(void **state)
{
    (void)state;
    literal_arguments_fini(&literal);
    call_writer_fini(&writer);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(python_values_become_json),
        cmocka_unit_test(python_numbers_become_json),
        cmocka_unit_test(python_strings_become_json),
        cmocka_unit_test(python_code_points_become_json),
        cmocka_unit_test(what_python_does_not_read_is_refused),
        cmocka_unit_test(gemma_values_become_json),
        cmocka_unit_test(words_without_quotes_are_strings),
        cmocka_unit_test(keys_are_bounded),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(python_text_is_read_as_one_value),
    };
    return cmocka_run_group_tests(tests, NULL, forget);
}
