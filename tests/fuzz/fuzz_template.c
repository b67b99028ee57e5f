/*
 * Fuzzes chat templates. The result must be an error with a position, or text and spans within it. The input is a
 * template, optionally followed by a zero byte and a context in JSON.
 */
#include "tests/support/everything.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char conversation[] =
    "{\"bos_token\":\"<s>\",\"eos_token\":\"</s>\",\"add_generation_prompt\":true,\"tools\":[{\"type\":\"function\","
    "\"function\":{\"name\":\"f\",\"parameters\":{\"properties\":{\"a\":{\"type\":\"string\"}}}}}],\"messages\":["
    "{\"role\":\"system\",\"content\":\" "
    "S\xc3\xa9\\n\"},{\"role\":\"user\",\"content\":\"Hello\"},{\"role\":\"assistant\","
    "\"content\":null,\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":{\"a\":1.5,\"b\":[true,-7]}}}]},"
    "{\"role\":\"tool\",\"content\":[{\"type\":\"text\",\"text\":\"x\"}]}]}";

static void require(int condition, const char *what) {
    if (condition)
        return;
    fprintf(stderr, "%s\n", what);
    abort();
}

static void check_spans(const eitp__chat_spans *spans, size_t size) {
    size_t end = 0;
    for (size_t i = 0; i < spans->count; i++) {
        const eitp__chat_span *span = &spans->spans[i];
        require(span->begin <= span->end && span->end <= size, "a span outside the output");
        if (span->kind != EITP__CHAT_SPAN_MESSAGE)
            continue;
        require(span->begin < span->end && span->begin >= end, "spans of messages overlap or are empty");
        end = span->end;
    }
}

static void render(const eitp_host *host, const eitp__chat_template *chat_template, const eitp_json *object) {
    eitp__chat_context context = EITP__ZERO;
    eitp__chat_spans spans = EITP__ZERO;
    eitp__buffer text, again;
    eitp_error error;
    eitp_status status;
    eitp__buffer_init(&text, host);
    eitp__buffer_init(&again, host);
    context.object = object;
    context.now = 1709300345;
    context.output_limit = 1 << 18;
    status = eitp__chat_template_render(chat_template, &context, &text, &spans, &error);
    require(status == EITP_OK || ((status == EITP_ERROR_ARGUMENT || status == EITP_ERROR_UNSUPPORTED) &&
                                  error.status == status && strstr(error.message, "chat template, line ")),
            "a failure without a position");
    require(status == EITP_OK || (text.size == 0 && spans.count == 0), "something is left of a failure");
    require(text.size <= context.output_limit, "the output exceeds its limit");
    check_spans(&spans, text.size);
    require(eitp__chat_template_render(chat_template, &context, &again, NULL, NULL) == status &&
                again.size == text.size && (!text.size || !memcmp(again.data, text.data, text.size)),
            "a template renders differently the second time");
    eitp__chat_spans_release(host, &spans);
    eitp__buffer_release(&text);
    eitp__buffer_release(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const eitp_host host = eitp_host_default();
    const char *text = size ? (const char *)data : "";
    const char *end = size ? (const char *)memchr(text, 0, size) : NULL;
    const size_t length = end ? (size_t)(end - text) : size;
    eitp__chat_template *chat_template = NULL;
    eitp_json_document *document = NULL;
    eitp_error error;
    eitp_status status = eitp__chat_template_parse(&host, text, length, &chat_template, &error);
    if (status != EITP_OK) {
        require((status == EITP_ERROR_FORMAT || status == EITP_ERROR_UNSUPPORTED) && !chat_template &&
                    error.status == status && strstr(error.message, "chat template"),
                "a failure that says nothing");
        return 0;
    }
    if (!end || eitp_json_parse(&host, end + 1, size - length - 1, &document, &error) != EITP_OK)
        eitp_json_parse(&host, conversation, sizeof conversation - 1, &document, &error);
    render(&host, chat_template, eitp_json_root(document));
    eitp__chat_template_release(chat_template);
    eitp_json_release(document);
    return 0;
}
