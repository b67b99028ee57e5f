/* Suggestions for misspelt names. */
#include "tests/support/everything.h"

#include "tests/support/test.h"

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

/* A name may be a part of a longer text, and of two equally near ones the first is suggested. */
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

        TEST(near_names_are_suggested),
        TEST(hyphens_are_underscores),
        TEST(names_have_sizes),
        TEST(long_names_have_no_suggestion),
    };
    return RUN_TESTS(tests, argc, argv);
}
