/* Conversations: text, tokens and answers compared with transformers, row formats, and refused input. */
#include "tests/support/everything.h"

#include "tests/support/faults.h"
#include "tests/support/test.h"

#define GOLDEN "tests/golden/chat/cases.json"

enum { MOST_IDS = 1024, MOST_BYTES = 8192 };

static eitp_error error_;

/* ---- Against transformers ---- */

static eitp_json_document *open_cases(void) {
    const eitp_host host = eitp_host_default();
    eitp_json_document *document = NULL;
    CHECK_THAT(!eitp__json_read_strict_file(&host, GOLDEN, 1 << 20, &document, &error_), "%s", error_.message);
    return document;
}

static const char *text_of(const eitp_json *object, const char *name) {
    return eitp_json_member(object, name)->text;
}

/* Loads a tokenizer of tests/golden and its chat template. */
static eitp_tokenizer *load_tokenizer(const eitp_host *host, const char *name, const char *text) {
    char path[128];
    eitp_tokenizer *tokenizer = NULL;
    eitp_status status;
    snprintf(path, sizeof path, "tests/golden/%s.json", name);
    status = eitp_tokenizer_load(host, path, &tokenizer, &error_);
    CHECK_THAT(status == EITP_OK, "%s: %s", path, error_.message);
    if (status)
        return NULL;
    CHECK(!text || !eitp_tokenizer_set_chat_template(tokenizer, text, strlen(text), &error_));
    return tokenizer;
}

static void check_text(const eitp_chat *chat, const eitp_json *entry, int adds_prompt) {
    const eitp_json *expected = eitp_json_member(entry, adds_prompt ? "prompted" : "text");
    const char *conversation = text_of(entry, "conversation");
    eitp_chat_config config = eitp_chat_config_default();
    char text[MOST_BYTES];
    size_t length = 0;
    config.add_generation_prompt = adds_prompt;
    CHECK_THAT(
        !eitp_chat_render(chat, conversation, strlen(conversation), &config, text, sizeof text, &length, &error_),
        "line %zu: %s", entry->line, error_.message);
    CHECK_THAT(length == expected->text_size && !memcmp(text, expected->text, length), "line %zu: '%.*s'", entry->line,
               (int)length, text);
}

static void check_tokens(const eitp_chat *chat, const eitp_json *entry, const char *variant) {
    const eitp_json *expected = eitp_json_member(entry, "ids"), *id = expected->first_child;
    const char *conversation = text_of(entry, "conversation"), *marks = text_of(entry, "trained");
    int32_t ids[MOST_IDS];
    unsigned char trained[MOST_IDS];
    eitp_chat_report report;
    size_t same = 0;
    const eitp_status status =
        eitp_chat_encode(chat, conversation, strlen(conversation), NULL, ids, trained, MOST_IDS, &report, &error_);
    CHECK_THAT(!status, "line %zu, %s: %s", entry->line, variant, error_.message);
    if (status)
        return;
    CHECK_THAT(report.count == expected->count && !report.cut, "line %zu, %s: %zu tokens", entry->line, variant,
               report.count);
    for (; id && same < report.count && id->integer == ids[same] && marks[same] == '0' + trained[same]; same++)
        id = id->next;
    CHECK_THAT(same == expected->count, "line %zu, %s: token %zu is %d, trained %d", entry->line, variant, same,
               (int)ids[same], (int)trained[same]);
}

/* Tests templates with and without the blocks that mark answers. */
static void conversations_are_those_of_transformers(void) {
    static const char *const variants[] = {"marked", "plain"};
    const eitp_host host = eitp_host_default();
    eitp_json_document *document = open_cases();
    size_t count = 0;
    REQUIRE(document);
    for (const eitp_json *entry = eitp_json_member(eitp_json_root(document), "cases")->first_child; entry;
         entry = entry->next) {
        const eitp_json *texts =
            eitp_json_member(eitp_json_member(eitp_json_root(document), "templates"), text_of(entry, "template"));
        for (size_t i = 0; i < EITP__COUNT(variants); i++) {
            eitp_tokenizer *tokenizer = load_tokenizer(&host, text_of(entry, "tokenizer"), text_of(texts, variants[i]));
            eitp_chat *chat;
            const eitp_json *special = eitp_json_member(entry, "special")->first_child;
            REQUIRE(tokenizer);
            tokenizer->special[EITP_BEGIN_OF_TEXT] = (int32_t)special->integer;
            tokenizer->special[EITP_END_OF_TEXT] = (int32_t)special->next->integer;
            REQUIRE_OK(eitp_chat_create(tokenizer, &chat, &error_), error_);
            check_text(chat, entry, 0);
            check_text(chat, entry, 1);
            check_tokens(chat, entry, variants[i]);
            eitp_chat_destroy(chat);
            eitp_tokenizer_destroy(tokenizer);
            count++;
        }
    }
    CHECK_THAT(count == 354, "%zu", count);
    eitp_json_release(document);
}

/* ---- With a template that eitp knows ---- */

typedef struct fixture {
    eitp_tokenizer *tokenizer;
    eitp_chat *chat;
} fixture;

static int open_fixture(fixture *f) {
    const eitp_host host = eitp_host_default();
    memset(f, 0, sizeof *f);
    f->tokenizer = load_tokenizer(&host, "splits/qwen2", eitp__chat_template_named("chatml"));
    CHECK_THAT(f->tokenizer && !eitp_chat_create(f->tokenizer, &f->chat, &error_), "%s", error_.message);
    return f->chat != NULL;
}

static void close_fixture(fixture *f) {
    eitp_chat_destroy(f->chat);
    eitp_tokenizer_destroy(f->tokenizer);
}

/* Renders a conversation. The result is valid until the next call, and NULL if the conversation is refused. */
static const char *render(const fixture *f, const char *conversation) {
    static char text[MOST_BYTES];
    size_t length = 0;
    if (eitp_chat_render(f->chat, conversation, strlen(conversation), NULL, text, sizeof text - 1, &length, &error_))
        return NULL;
    text[length] = 0;
    return text;
}

#define QUESTION "<|im_start|>user\nq<|im_end|>\n"
#define ANSWER "<|im_start|>assistant\na<|im_end|>\n"
#define SYSTEM "<|im_start|>system\ns<|im_end|>\n"

static void rows_have_several_forms(void) {
    static const struct {
        const char *row, *text;
    } cases[] = {
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", \"content\": \"a\"}]}",
         QUESTION ANSWER},
        {"{\"conversations\": [{\"from\": \"human\", \"value\": \"q\"}, {\"from\": \"gpt\", \"value\": \"a\"}], "
         "\"system\": \"s\"}",
         SYSTEM QUESTION ANSWER},
        {"{\"conversations\": [{\"from\": \"system\", \"value\": \"s\"}, {\"from\": \"user\", \"value\": \"q\"}, "
         "{\"from\": \"assistant\", \"value\": \"a\"}], \"system\": \"\"}",
         SYSTEM QUESTION ANSWER},
        {"{\"conversations\": [{\"role\": \"user\", \"content\": \"q\"}]}", QUESTION},
        {"{\"prompt\": \"q\", \"completion\": \"a\"}", QUESTION ANSWER},
        {"{\"prompt\": [{\"role\": \"system\", \"content\": \"s\"}, {\"role\": \"user\", \"content\": \"q\"}], "
         "\"completion\": [{\"role\": \"assistant\", \"content\": \"a\"}]}",
         SYSTEM QUESTION ANSWER},
        {"{\"instruction\": \"q\", \"input\": \"\", \"output\": \"a\"}", QUESTION ANSWER},
        {"{\"instruction\": \"q\", \"output\": \"a\", \"system\": \"s\"}", SYSTEM QUESTION ANSWER},
        {"{\"instruction\": \"q\", \"input\": \"i\", \"output\": \"a\"}",
         "<|im_start|>user\nq\n\ni<|im_end|>\n" ANSWER},
        {"{\"question\": \"q\", \"answer\": \"a\", \"id\": 1}", QUESTION ANSWER},
        {"{\"question\": \"q\", \"context\": \"i\", \"answer\": \"a\"}", "<|im_start|>user\nq\n\ni<|im_end|>\n" ANSWER},
        {"{\"Instruction\": \"q\", \"Input\": \"i\", \"Response\": \"a\"}",
         "<|im_start|>user\nq\n\ni<|im_end|>\n" ANSWER},
        {"{\"instruction\": \"q\", \"context\": \"i\", \"response\": \"a\", \"category\": \"x\"}",
         "<|im_start|>user\nq\n\ni<|im_end|>\n" ANSWER},
        {"{\"instruction\": \"q\", \"context\": \"\", \"response\": \"a\"}", QUESTION ANSWER},
        {"{\"input\": \"q\", \"output\": \"a\"}", QUESTION ANSWER},
        {"{\"prompt\": \"q\", \"response\": \"a\"}", QUESTION ANSWER},
        {"{\"prompt\": \"q\", \"completion\": \"a\", \"label\": \"x\", \"images\": []}", QUESTION ANSWER},
        {"{\"messages\": [{\"role\": \"User\", \"content\": \"q\"}, {\"role\": \"ASSISTANT\", \"content\": \"a\"}]}",
         QUESTION ANSWER},
        {"{\"messages\": \"[{\\\"role\\\": \\\"user\\\", \\\"content\\\": \\\"q\\\"}]\"}", QUESTION},
        {"{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"q\"}]}, {\"role\": "
         "\"assistant\", \"content\": [{\"type\": \"text\", \"text\": \"\"}, {\"text\": \"a\"}]}]}",
         QUESTION ANSWER},
    };
    fixture f;
    REQUIRE(open_fixture(&f));
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        const char *text = render(&f, cases[i].row);
        CHECK_THAT(text && !strcmp(text, cases[i].text), "case %zu: %s", i, text ? text : error_.message);
    }
    close_fixture(&f);
}

static void bad_rows_are_refused(void) {
    static const struct {
        const char *row, *message;
    } cases[] = {
        {"[]", "must be a JSON object"},
        {"{}",
         "the row has the members none; it must have messages, or conversations, or prompt and completion, or "
         "prompt and response, or instruction and output, or instruction and response, or question and answer, or "
         "input and output"},
        {"{\"role\": \"x\", \"conversation\": []}",
         "the row has the members role, conversation; it must have messages, "},
        {"{\"role\": \"x\", \"conversation\": []}", "; the nearest is conversations"},
        {"{\"a\\nb\": 1, \"prompt\": \"q\"}", "the row has the members a b, prompt; "},
        {"{\"prompt\": \"q\"}", "; the nearest is prompt and response"},
        {"{\"questions\": \"q\", \"answers\": \"a\"}", "; the nearest is question and answer"},
        {"{\"question\": [\"q\"], \"answer\": [\"a\"]}", "'question' must be a string"},
        {"{\"prompt\": \"q\", \"chosen\": \"a\", \"rejected\": \"b\"}",
         "rows with chosen and rejected are for preference training (DPO), which eitp does not support"},
        {"{\"prompt\": \"q\", \"completion\": \"a\", \"label\": false}",
         "rows with completion and a label true or false are for training on rated answers (KTO)"},
        {"{\"prompt\": \"q\", \"completion\": \"a\", \"label\": \"True\"}", "(KTO), which eitp does not support"},
        {"{\"prompt\": \"q\", \"completions\": [\"a\"], \"labels\": [true]}",
         "are for training reward models on steps"},
        {"{\"image\": \"a.png\", \"conversations\": []}", "rows with image are for training on images"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image\"}]}]}",
         "message 1: its content has a part of type 'image', and eitp trains only on text"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\"}]}]}",
         "message 1: a part of its content has no 'text'; a part is {"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", \"content\": 5}]}",
         "message 2: its content must be a string or a list of parts (got a number)"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": null}]}", "message 1: its content must be a string or"},
        {"{\"messages\": \"q\"}", "'messages': "},
        {"{\"messages\": {}}", "'messages' must be a list, or its JSON text"},
        {"{\"messages\": []}", "at least one message"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, {\"content\": \"a\"}]}", "message 2 has no 'role'"},
        {"{\"messages\": [{\"role\": \"user\"}]}", "message 1 has no 'content'"},
        {"{\"conversations\": [{\"from\": \"human\", \"value\": 1}]}", "message 1 of 'conversations' must have"},
        {"{\"conversations\": [{\"from\": \"nobody\", \"value\": \"q\"}]}",
         "is from 'nobody' (expected human, gpt, system or tool)"},
        {"{\"conversations\": {}}", "'conversations' must be a list"},
        {"{\"prompt\": 1, \"completion\": \"a\"}", "'prompt' must be a string or a list of messages"},
        {"{\"instruction\": \"q\", \"output\": 2}", "'output' must be a string"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}], \"tools\": \"[\"}", "'tools'"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}], \"tools\": {}}", "'tools' must be a list"},
    };
    fixture f;
    REQUIRE(open_fixture(&f));
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        CHECK_THAT(!render(&f, cases[i].row) && error_.status == EITP_ERROR_ARGUMENT, "case %zu: %s", i,
                   error_.message);
        CHECK_THAT(strstr(error_.message, cases[i].message), "%s, not %s", error_.message, cases[i].message);
    }
    CHECK(!render(&f, "{") && error_.status == EITP_ERROR_FORMAT);
    close_fixture(&f);
}

/* Sets `marks` to the tokens' marks for two turns, as "0" and "1". */
static void encode_turns(const fixture *f, const eitp_chat_config *config, char *marks, eitp_chat_report *report) {
    static const char row[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", "
                              "\"content\": \"a\"}, {\"role\": \"user\", \"content\": \"q\"}, {\"role\": "
                              "\"assistant\", \"content\": \"a\"}]}";
    unsigned char trained[MOST_IDS];
    CHECK_THAT(!eitp_chat_encode(f->chat, row, sizeof row - 1, config, NULL, trained, MOST_IDS, report, &error_), "%s",
               error_.message);
    for (size_t i = 0; i < report->count; i++)
        marks[i] = (char)('0' + trained[i]);
    marks[report->count] = 0;
}

static void targets_and_length_are_the_callers(void) {
    eitp_chat_config config = eitp_chat_config_default();
    char all[MOST_IDS], last[MOST_IDS], answers[MOST_IDS];
    eitp_chat_report report;
    size_t count;
    fixture f;
    REQUIRE(open_fixture(&f));
    encode_turns(&f, &config, answers, &report);
    CHECK(report.answers == 2 && report.trained == 4 && report.before_trained == strcspn(answers, "1"));
    count = report.count;
    config.targets = EITP_CHAT_LAST_ANSWER;
    encode_turns(&f, &config, last, &report);
    CHECK(report.trained == 2 && !strcmp(last + count / 2, answers + count / 2) && !strchr(last, '1') == 0);
    CHECK(strspn(last, "0") > count / 2);
    config.targets = EITP_CHAT_ALL;
    encode_turns(&f, &config, all, &report);
    CHECK(report.trained == count && strspn(all, "1") == count);
    config.targets = EITP_CHAT_ANSWERS;
    config.max_length = (int32_t)(count / 2);
    encode_turns(&f, &config, last, &report);
    CHECK(report.count == count / 2 && report.cut == count - count / 2 && report.trained == 2);
    CHECK(!strncmp(last, answers, count / 2));
    config.max_length = 3;
    encode_turns(&f, &config, last, &report);
    CHECK(!report.trained && report.before_trained == strcspn(answers, "1"));
    config.max_length = -1;
    CHECK(eitp_chat_encode(f.chat, "{}", 2, &config, NULL, NULL, 0, &report, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_chat_end_of_turn(f.chat) == 502 && eitp_chat_end_of_turn(NULL) == -1);
    close_fixture(&f);
}

/* ---- Weights ---- */

#define TURN(role, text, more) "{\"role\": \"" role "\", \"content\": \"" text "\"" more "}"
#define TURNS(weight, other, row)                                                                                      \
    "{\"messages\": [" TURN("user", "q", other) ", " TURN("assistant", "a", weight) ", " TURN(                         \
        "user", "q", "") ", " TURN("assistant", "b", "") "]" row "}"

/* Returns the sum of the token weights and checks the number of weighted tokens; -1 if the row is refused. */
static double weigh(const fixture *f, const eitp_chat_config *config, const char *row, eitp_chat_report *report) {
    static float weights[MOST_IDS];
    double sum = 0;
    size_t trained = 0;
    if (eitp_chat_encode_weights(f->chat, row, strlen(row), config, NULL, weights, MOST_IDS, report, &error_))
        return -1;
    for (size_t i = 0; i < report->count; i++) {
        sum += (double)weights[i];
        trained += weights[i] > 0;
    }
    CHECK(trained == report->trained);
    return sum;
}

/* Each answer is two tokens. */
static void messages_and_rows_have_weights(void) {
    static const struct {
        const char *row;
        double sum;
        size_t trained;
    } cases[] = {
        {TURNS("", "", ""), 4, 4},
        {TURNS(", \"weight\": 0", "", ""), 2, 2},
        {TURNS(", \"weight\": 1", ", \"weight\": 0", ", \"weight\": 1"), 4, 4},
        {TURNS(", \"weight\": 0.5", ", \"weight\": 7", ""), 3, 4},
        {TURNS(", \"weight\": 3e0", "", ", \"weight\": 0.25"), 2, 4},
        {TURNS(", \"weight\": null", "", ", \"weight\": \"\""), 4, 4},
        {TURNS("", "", ", \"weight\": 0"), 0, 0},
        {TURNS("", "", ", \"weight\": -0.0"), 0, 0},
        {"{\"conversations\": [{\"from\": \"human\", \"value\": \"q\", \"weight\": 0}, {\"from\": \"gpt\", \"value\": "
         "\"a\", \"weight\": 0}, {\"from\": \"human\", \"value\": \"q\"}, {\"from\": \"gpt\", \"value\": \"b\", "
         "\"weight\": 2}]}",
         4, 2},
        {"{\"question\": \"q\", \"answer\": \"a\", \"weight\": 1.5}", 3, 2},
    };
    static const struct {
        const char *row, *message;
    } wrong[] = {
        {TURNS(", \"weight\": -1", "", ""), "message 2: 'weight' must be a number of at least 0 (got -1)"},
        {TURNS("", ", \"weight\": -0.5", ""), "message 1: 'weight' must be a number of at least 0 (got -0.5)"},
        {TURNS(", \"weight\": true", "", ""), "message 2: 'weight' must be a number of at least 0"},
        {TURNS("", "", ", \"weight\": -2"), "'weight' must be a number of at least 0 (got -2)"},
        {TURNS("", "", ", \"weight\": \"much\""), "'weight' must be a number of at least 0"},
        {TURNS("", "", ", \"weight\": 1e39"), "'weight' must be a number of at least 0 (got 1e39)"},
        {TURNS(", \"weight\": 1e30", "", ", \"weight\": 1e30"), "message 2: weight 1e+30 times the row's weight"},
    };
    eitp_chat_config config = eitp_chat_config_default();
    eitp_chat_report report;
    size_t question = 0;
    fixture f;
    REQUIRE(open_fixture(&f));
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        const double sum = weigh(&f, &config, cases[i].row, &report);
        CHECK_THAT(fabs(sum - cases[i].sum) < 1e-9 && report.trained == cases[i].trained, "case %zu: %g of %zu", i, sum,
                   report.trained);
    }
    for (size_t i = 0; i < EITP__COUNT(wrong); i++) {
        CHECK(weigh(&f, &config, wrong[i].row, &report) < 0 && error_.status == EITP_ERROR_ARGUMENT);
        CHECK_THAT(strstr(error_.message, wrong[i].message), "%s", error_.message);
    }
    config.targets = EITP_CHAT_ALL;
    CHECK(weigh(&f, &config, TURNS("", ", \"weight\": 0", ""), &report) > 0);
    CHECK(!eitp_tokenizer_encode(f.tokenizer, QUESTION, sizeof QUESTION - 1, NULL, 0, &question, &error_));
    CHECK_THAT(report.count - report.trained == question, "%zu of %zu", report.trained, report.count);
    config.targets = EITP_CHAT_LAST_ANSWER;
    CHECK(fabs(weigh(&f, &config, TURNS(", \"weight\": 5", "", ", \"weight\": 3"), &report) - 6) < 1e-9);
    close_fixture(&f);
}

/* ---- Templates ---- */

static eitp_status open_with(const char *text, eitp_chat **chat, eitp_tokenizer **tokenizer) {
    const eitp_host host = eitp_host_default();
    *chat = NULL;
    *tokenizer = load_tokenizer(&host, "splits/smollm", text);
    return eitp_chat_create(*tokenizer, chat, &error_);
}

static void templates_that_hide_answers_are_refused(void) {
    static const char row[] = "{\"prompt\": \"q\", \"completion\": \"a\"}";
    eitp_chat_config config = eitp_chat_config_default();
    eitp_chat_report report;
    eitp_tokenizer *tokenizer;
    eitp_chat *chat;
    CHECK(open_with(NULL, &chat, &tokenizer) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error_.message, "no chat template"), "%s", error_.message);
    eitp_tokenizer_destroy(tokenizer);
    CHECK(open_with("{% for %}", &chat, &tokenizer) == EITP_ERROR_FORMAT);
    eitp_tokenizer_destroy(tokenizer);
    REQUIRE_OK(open_with("{{ messages[0].content }}{{ messages[1].content }}", &chat, &tokenizer), error_);
    CHECK(eitp_chat_encode(chat, row, sizeof row - 1, &config, NULL, NULL, 0, &report, &error_) ==
          EITP_ERROR_UNSUPPORTED);
    CHECK_THAT(strstr(error_.message, "{% generation %}"), "%s", error_.message);
    config.targets = EITP_CHAT_ALL;
    CHECK(!eitp_chat_encode(chat, row, sizeof row - 1, &config, NULL, NULL, 0, &report, &error_) &&
          report.trained == report.count);
    eitp_chat_destroy(chat);
    eitp_tokenizer_destroy(tokenizer);
    REQUIRE_OK(open_with("{% set text %}{% for message in messages %}{{ message.content }}{% endfor %}{% endset %}{{ "
                         "text | trim }}{% for message in messages %}{{ message.content }}{% endfor %}",
                         &chat, &tokenizer),
               error_);
    config.targets = EITP_CHAT_ANSWERS;
    CHECK(eitp_chat_encode(chat, row, sizeof row - 1, &config, NULL, NULL, 0, &report, &error_) ==
          EITP_ERROR_UNSUPPORTED);
    eitp_chat_destroy(chat);
    eitp_tokenizer_destroy(tokenizer);
}

/* Encodes a question and its answer. Counts the tokens at the end that are marked for training. */
static eitp_status train_on(const char *text, const char *row, size_t *trained) {
    unsigned char marks[MOST_IDS];
    eitp_chat_report report = EITP__ZERO;
    eitp_tokenizer *tokenizer;
    eitp_chat *chat = NULL;
    eitp_status status = open_with(text, &chat, &tokenizer);
    if (!status)
        status = eitp_chat_encode(chat, row, strlen(row), NULL, NULL, marks, MOST_IDS, &report, &error_);
    for (*trained = 0; *trained < report.count && marks[report.count - 1 - *trained]; ++*trained) {
    }
    CHECK(status || *trained == report.trained);
    eitp_chat_destroy(chat);
    eitp_tokenizer_destroy(tokenizer);
    return status;
}

/* The text before an answer is the template's generation prompt, or it is found by rendering other answers. */
static void headers_that_depend_on_answers_are_refused(void) {
#define ROW(answer) "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", " answer "}]}"
#define PROMPT "{% if add_generation_prompt %}>{% endif %}"
    static const char spoken[] = ROW("\"content\": \"zz\""), called[] = ROW("\"tool_calls\": [1]");
    static const char listed[] = ROW("\"content\": [{\"type\": \"text\", \"text\": \"zz\"}]");
    static const struct {
        const char *text, *row;
        size_t trained; /* 0: refused */
    } cases[] = {
        {"{% for m in messages %}#{{ m.content }}{% endfor %}" PROMPT, spoken, 2},
        {"{% for m in messages %}#{{ m.content }}{% endfor %}", spoken, 2},
        {"{% for m in messages %}#{{ m.content | trim }}!{% endfor %}", spoken, 3},
        {"{% for m in messages %}#{{ m.content[0].text or m.content }}{% endfor %}", listed, 2},
        {"{% for m in messages %}#{{ m.content | length }}{{ m.content }}{% endfor %}" PROMPT, spoken, 0},
        {"{% for m in messages %}#{{ m.content | length }}{{ m.content }}{% endfor %}", spoken, 0},
        {"{% for m in messages %}#{{ m.content }}{{ m.content }}{% endfor %}" PROMPT, spoken, 0},
        {"{% for m in messages %}#{{ m.content | upper }}{% endfor %}" PROMPT, spoken, 0},
        {"{% for m in messages %}{{ 'q#' if m.tool_calls else m.content }}{% endfor %}", called, 2},
        {"{% for m in messages %}{{ 'q#' if m.tool_calls else m.content }}{% endfor %}" PROMPT, called, 0},
        {"{% for m in messages %}{{ 'q#' if m.tool_calls else m.content }}{% endfor %}{% if messages[1] and not "
         "messages[1].tool_calls %}>{% endif %}",
         called, 2},
    };
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        size_t trained;
        const eitp_status status = train_on(cases[i].text, cases[i].row, &trained);
        CHECK_THAT(status == (cases[i].trained ? EITP_OK : EITP_ERROR_UNSUPPORTED), "case %zu: %s", i, error_.message);
        CHECK_THAT(status || trained == cases[i].trained, "case %zu: %zu", i, trained);
        CHECK_THAT(!status || strstr(error_.message, "message 2: the chat template does not tell"), "%s",
                   error_.message);
    }
}

/* A weight can only be used if the position of its message is known. */
static void weights_need_the_place_of_a_message(void) {
    static const char row[] =
        "{\"messages\": [" TURN("user", "q", "") ", " TURN("assistant", "a", ", \"weight\": 2") "]}";
    eitp_chat_config config = eitp_chat_config_default();
    eitp_chat_report report;
    eitp_tokenizer *tokenizer;
    eitp_chat *chat;
    REQUIRE_OK(open_with("{{ messages[0].content }}{% generation %}{{ messages[1].content }}{% endgeneration %}", &chat,
                         &tokenizer),
               error_);
    CHECK(eitp_chat_encode(chat, row, sizeof row - 1, &config, NULL, NULL, 0, &report, &error_) ==
          EITP_ERROR_UNSUPPORTED);
    CHECK_THAT(strstr(error_.message, "message 2 has a weight, and the chat template does not tell"), "%s",
               error_.message);
    eitp_chat_destroy(chat);
    eitp_tokenizer_destroy(tokenizer);
}

/* ---- Tools ---- */

#define LOOP(body) "{% for message in messages %}<|im_start|>{{ message.role }} " body "<|im_end|>{% endfor %}"
#define CALL ", \"tool_calls\": [{\"type\": \"function\", \"function\": {\"name\": \"f\", \"arguments\": {}}}]"
#define TOOLS ", \"tools\": [{\"name\": \"f\"}]"
#define ASKED(answer, row) "{\"messages\": [" TURN("user", "q", "") ", " answer "]" row "}"

static void tools_that_a_template_ignores_are_refused(void) {
    static const char plain[] = LOOP("{{ message.content }}");
    static const char added[] = LOOP("{{ message.role + message.content }}");
    static const char calls[] =
        LOOP("{{ message.content }}{% for c in message.tool_calls %}{{ c.function.name }}{% endfor %}");
    static const char both[] = "{{ tools | tojson if tools }}" LOOP(
        "{{ message.content }}{{ message.tool_calls | tojson if message.tool_calls }}");
    static const char dumped[] = LOOP("{{ message | tojson }}");
    static const struct {
        const char *text, *row;
        const char *message; /* NULL: the row is accepted */
        int unread_tools;
    } cases[] = {
        {plain, ASKED(TURN("assistant", "a", ""), ""), NULL, 0},
        {plain, ASKED(TURN("assistant", "", CALL), ""),
         "message 2 has 'tool_calls', which the chat template never reads; use a template that writes calls of tools",
         0},
        {plain, ASKED("{\"role\": \"assistant\"" CALL "}", TOOLS), "message 2 has 'tool_calls'", 0},
        {added, ASKED("{\"role\": \"assistant\", \"content\": null" CALL "}", ""),
         "message 2 has 'tool_calls', which the chat template never reads; use a template that writes calls of tools",
         0},
        {plain, ASKED(TURN("assistant", "a", ", \"function_call\": {\"name\": \"f\"}"), ""),
         "message 2 has 'function_call', which", 0},
        {plain, ASKED(TURN("assistant", "a", ", \"tool_calls\": []"), ""), NULL, 0},
        {plain, ASKED(TURN("assistant", "a", ", \"tool_calls\": null"), TOOLS), NULL, 1},
        {plain, ASKED(TURN("assistant", "a", ""), ", \"functions\": [{\"name\": \"f\"}]"), NULL, 1},
        {plain, ASKED(TURN("assistant", "a", ""), ", \"tools\": []"), NULL, 0},
        {plain,
         "{\"conversations\": [{\"from\": \"human\", \"value\": \"q\"}, {\"from\": \"function_call\", \"value\": "
         "\"f\"}], "
         "\"tools\": \"[{\\\"name\\\": \\\"f\\\"}]\"}",
         "the conversation calls its 'tools', which the chat template never reads", 0},
        {plain,
         "{\"conversations\": [{\"from\": \"human\", \"value\": \"q\"}, {\"from\": \"gpt\", \"value\": \"f\"}], "
         "\"tools\": \"[{\\\"name\\\": \\\"f\\\"}]\"}",
         NULL, 1},
        {calls, ASKED(TURN("assistant", "a", CALL), ""), NULL, 0},
        {calls, ASKED(TURN("assistant", "a", CALL), TOOLS), "the conversation calls its 'tools', which", 0},
        {calls, ASKED(TURN("assistant", "a", ""), TOOLS), NULL, 1},
        {both, ASKED(TURN("assistant", "a", CALL), TOOLS), NULL, 0},
        {both, ASKED(TURN("assistant", "a", ""), TOOLS), NULL, 0},
        {dumped, ASKED(TURN("assistant", "a", CALL), ""), NULL, 0},
    };
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        const char *row = cases[i].row;
        eitp_chat_report report;
        eitp_tokenizer *tokenizer;
        eitp_chat *chat;
        eitp_status status;
        REQUIRE_OK(open_with(cases[i].text, &chat, &tokenizer), error_);
        status = eitp_chat_encode(chat, row, strlen(row), NULL, NULL, NULL, 0, &report, &error_);
        CHECK_THAT(status == (cases[i].message ? EITP_ERROR_ARGUMENT : EITP_OK), "case %zu: %s", i, error_.message);
        CHECK_THAT(!cases[i].message || strstr(error_.message, cases[i].message), "%s, not %s", error_.message,
                   cases[i].message);
        CHECK_THAT(status || report.unread_tools == cases[i].unread_tools, "case %zu", i);
        eitp_chat_destroy(chat);
        eitp_tokenizer_destroy(tokenizer);
    }
}

static void templates_are_saved_with_tokenizers(void) {
    const eitp_host host = eitp_host_default();
    const char *text = eitp__chat_template_named("chatml"), *kept;
    char directory[512];
    size_t size = 0;
    eitp_tokenizer *tokenizer = load_tokenizer(&host, "splits/llama3", text), *again = NULL;
    REQUIRE(tokenizer && scratch_make(directory));
    REQUIRE_OK(eitp_tokenizer_save(tokenizer, directory, &error_), error_);
    REQUIRE_OK(eitp_tokenizer_load(&host, directory, &again, &error_), error_);
    kept = eitp_tokenizer_chat_template(again, &size);
    CHECK(kept && size == strlen(text) && !memcmp(kept, text, size));
    CHECK(eitp_tokenizer_fingerprint(tokenizer) == eitp_tokenizer_fingerprint(again));
    eitp_tokenizer_destroy(again);
    eitp_tokenizer_destroy(tokenizer);
    scratch_remove(directory);
    CHECK(!eitp__chat_template_named("unknown") && !eitp__chat_template_named(NULL));
}

/* If tokenizer_config.json has several templates, the one named "default" is used. */
static void templates_are_found_in_configurations(void) {
    static const char config[] = "{\"tokenizer_class\": \"PreTrainedTokenizerFast\", \"chat_template\": [{\"name\": "
                                 "\"tool_use\", \"template\": \"t\"}, {\"name\": \"default\", \"template\": \"d\"}]}";
    const eitp_host host = eitp_host_default();
    char directory[512], path[600];
    eitp_tokenizer *tokenizer = load_tokenizer(&host, "splits/llama3", NULL), *again = NULL;
    const char *text;
    size_t size = 0;
    REQUIRE(tokenizer && scratch_make(directory));
    REQUIRE_OK(eitp_tokenizer_save(tokenizer, directory, &error_), error_);
    snprintf(path, sizeof path, "%s/tokenizer_config.json", directory);
    REQUIRE_OK(eitp__replace_file(&host, path, config, sizeof config - 1, &error_), error_);
    REQUIRE_OK(eitp_tokenizer_load(&host, directory, &again, &error_), error_);
    text = eitp_tokenizer_chat_template(again, &size);
    CHECK(text && size == 1 && *text == 'd');
    eitp_tokenizer_destroy(again);
    snprintf(path, sizeof path, "%s/chat_template.jinja", directory);
    REQUIRE_OK(eitp__replace_file(&host, path, "file", 4, &error_), error_);
    REQUIRE_OK(eitp_tokenizer_load(&host, directory, &again, &error_), error_);
    text = eitp_tokenizer_chat_template(again, &size);
    CHECK(text && size == 4 && !memcmp(text, "file", 4));
    eitp_tokenizer_destroy(again);
    eitp_tokenizer_destroy(tokenizer);
    scratch_remove(directory);
}

/* Uses a template whose headers are the generation prompt, and one whose headers have to be found. */
static void check_failures(const char *text, const char *row) {
    faults f;
    for (long n = 1;; n++) {
        eitp_tokenizer *tokenizer = NULL;
        eitp_chat *chat = NULL;
        eitp_chat_report report;
        int32_t ids[MOST_IDS];
        eitp_status status;
        faults_begin(&f);
        f.fail_allocation = n;
        status = eitp_tokenizer_load(&f.host, "tests/golden/splits/smollm.json", &tokenizer, &error_);
        if (!status)
            status = eitp_tokenizer_set_chat_template(tokenizer, text, strlen(text), &error_);
        if (!status)
            status = eitp_chat_create(tokenizer, &chat, &error_);
        if (!status)
            status = eitp_chat_encode(chat, row, strlen(row), NULL, ids, NULL, MOST_IDS, &report, &error_);
        eitp_chat_destroy(chat);
        eitp_tokenizer_destroy(tokenizer);
        CHECK_THAT(status == EITP_OK || status == EITP_ERROR_MEMORY, "allocation %ld: %s", n, error_.message);
        if (!faults_end(&f))
            break;
        CHECK_THAT(status == EITP_ERROR_MEMORY, "allocation %ld", n);
    }
}

static void failures_leave_nothing(void) {
    static const char turns[] = "{\"conversations\": [{\"from\": \"human\", \"value\": \"q\"}, {\"from\": \"gpt\", "
                                "\"value\": \"an answer\"}], \"tools\": \"[{}]\"}";
    static const char parts[] =
        "{\"messages\": [{\"role\": \"User\", \"content\": [{\"text\": \"q\"}, {\"text\": \"r\"}]}, "
        "{\"role\": \"assistant\", \"content\": null, \"tool_calls\": []}]}";
    check_failures(eitp__chat_template_named("chatml"), turns);
    check_failures("{% for m in messages %}#{{ m.content }}<|im_end|>!{% endfor %}", turns);
    check_failures("{% for m in messages %}{{ m.role + m.content }}<|im_end|>!{% endfor %}", parts);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(conversations_are_those_of_transformers),
        TEST(rows_have_several_forms),
        TEST(bad_rows_are_refused),
        TEST(targets_and_length_are_the_callers),
        TEST(messages_and_rows_have_weights),
        TEST(weights_need_the_place_of_a_message),
        TEST(tools_that_a_template_ignores_are_refused),
        TEST(templates_that_hide_answers_are_refused),
        TEST(headers_that_depend_on_answers_are_refused),
        TEST(templates_are_saved_with_tokenizers),
        TEST(templates_are_found_in_configurations),
        TEST(failures_leave_nothing),
    };
    return RUN_TESTS(tests, argc, argv);
}
