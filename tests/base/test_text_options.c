/* Helpers for programs that parse options: byte counts, and suggestions for misspelled names. */
#include "tests/support/everything.h"

#include "tests/support/test.h"

static eitp_error error_;

/* ---- Bytes ---- */

static void bytes_are_read(void) {
    static const struct {
        const char *text;
        uint64_t bytes;
    } cases[] = {
        {"0", 0},
        {"0M", 0},
        {"1", 1},
        {"1000000B", 1000000},
        {"900M", 900000000},
        {"0.29GB", 290000000},
        {"1.1G", 1100000000},
        {"1.5Gi", 1610612736},
        {"1.0009Ki", 1025},
        {"0.00100000000000000000000001M", 1000},
        {"3T", 3000000000000},
        {"9007199254740993", UINT64_C(9007199254740992)},
        {"18446744073709551616", UINT64_MAX},
        {"99999999T", UINT64_MAX},
    };
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        uint64_t bytes = 7;
        CHECK_THAT(!eitp_parse_bytes(cases[i].text, &bytes, &error_), "%s", error_.message);
        CHECK_THAT(bytes == cases[i].bytes, "%s: %llu", cases[i].text, (unsigned long long)bytes);
    }
}

static void a_fraction_of_any_length_is_read(void) {
    char text[500];
    uint64_t bytes = 0;
    snprintf(text, sizeof text, "0.5%0400dG", 1);
    CHECK(!eitp_parse_bytes(text, &bytes, &error_) && bytes == 500000000);
    snprintf(text, sizeof text, "0.%0400dG", 1);
    CHECK(eitp_parse_bytes(text, &bytes, &error_) == EITP_ERROR_ARGUMENT);
}

static void other_texts_are_refused(void) {
    static const char *const texts[] = {"",       " ",    "B",    "M",   "1m",      "1g",
                                        "1KIB",   "1e9",  "1.5",  "1.",  "1.M",     ".5G",
                                        "1.5.5G", "1,5G", "0x10", "-1",  "+1G",     " 1G",
                                        "1 G",    "inf",  "nan",  "90%", "0.0001k", "0.00000000000000000001T"};
    uint64_t bytes = 7;
    for (size_t i = 0; i < EITP__COUNT(texts); i++) {
        char quoted[80];
        snprintf(quoted, sizeof quoted, "'%s' is not a number of bytes", texts[i]);
        CHECK_THAT(eitp_parse_bytes(texts[i], &bytes, &error_) == EITP_ERROR_ARGUMENT, "'%s'", texts[i]);
        CHECK_THAT(strstr(error_.message, quoted) == error_.message && bytes == 7, "%s", error_.message);
    }
    CHECK(eitp_parse_bytes(NULL, &bytes, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_parse_bytes("1", NULL, NULL) == EITP_ERROR_ARGUMENT);
}

/* ---- Names ---- */

static const char *const names[] = {"lr", "lr_schedule", "batch_size", "block_size", "steps"};

static const char *suggest(const char *wanted) {
    eitp_suggestion suggestion = EITP__ZERO;
    for (size_t i = 0; i < EITP__COUNT(names); i++)
        eitp_suggest_name(wanted, names[i], strlen(names[i]), &suggestion);
    CHECK(!suggestion.name || suggestion.size == strlen(suggestion.name));
    return suggestion.name ? suggestion.name : "none";
}

static void near_names_are_suggested(void) {
    static const char *const cases[][2] = {
        {"batchsize", "batch_size"},
        {"batch-size", "batch_size"},
        {"blocksize", "block_size"},
        {"step", "steps"},
        {"stpes", "steps"},
        {"l", "lr"},
        {"lr_shedule", "lr_schedule"},
        {"colour", "none"},
        {"", "none"},
        {"x", "none"},
    };
    for (size_t i = 0; i < EITP__COUNT(cases); i++)
        CHECK_THAT(!strcmp(suggest(cases[i][0]), cases[i][1]), "%s: %s", cases[i][0], suggest(cases[i][0]));
}

static void hyphens_are_underscores(void) {
    eitp_suggestion suggestion = EITP__ZERO;
    eitp_suggest_name("batch-size", "batch_size", 10, &suggestion);
    CHECK(suggestion.name && !suggestion.distance);
    eitp_suggest_name("batch_size", "batch-size", 10, &suggestion);
    CHECK(suggestion.name && !suggestion.distance);
}

/* A name may be part of a longer string. Of two names at the same distance the first is suggested. */
static void names_have_sizes(void) {
    eitp_suggestion suggestion = EITP__ZERO;
    eitp_suggest_name("stop", "steps and more", 4, &suggestion);
    CHECK(suggestion.name && suggestion.size == 4 && suggestion.distance == 1);
    eitp_suggest_name("stop", "shop", 4, &suggestion);
    CHECK(suggestion.name && !strncmp(suggestion.name, "step", 4));
    eitp_suggest_name("stop", "stop", 4, &suggestion);
    CHECK(!strcmp(suggestion.name, "stop") && !suggestion.distance);
}

static void long_names_have_no_suggestion(void) {
    char longest[64], longer[65];
    eitp_suggestion suggestion = EITP__ZERO;
    memset(longest, 'a', 63), longest[63] = 0;
    memset(longer, 'a', 64), longer[64] = 0;
    eitp_suggest_name(longer, longest, 63, &suggestion);
    eitp_suggest_name(longest, longer, 64, &suggestion);
    eitp_suggest_name(NULL, longest, 63, &suggestion);
    eitp_suggest_name(longest, NULL, 63, &suggestion);
    eitp_suggest_name(longest, longest, 63, NULL);
    CHECK(!suggestion.name);
    eitp_suggest_name(longest, longest, 63, &suggestion);
    CHECK(suggestion.name == longest && !suggestion.distance);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(bytes_are_read),
        TEST(a_fraction_of_any_length_is_read),
        TEST(other_texts_are_refused),
        TEST(near_names_are_suggested),
        TEST(hyphens_are_underscores),
        TEST(names_have_sizes),
        TEST(long_names_have_no_suggestion),
    };
    return RUN_TESTS(tests, argc, argv);
}
