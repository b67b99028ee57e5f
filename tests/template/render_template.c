/*
 * Renders chat templates for tools/peers/chat_templates.py. Each file on the command line has the members `template`,
 * `context` and, for strftime_now, `now`. Prints a line of JSON for each: `text` and `spans`, or `error` with `status`.
 */
#include "tests/support/everything.h"

#include <stdio.h>

static void write_result(eitp_status status, const eitp__buffer *text, const eitp__chat_spans *spans,
                         const eitp_error *error) {
    const eitp_host host = eitp_host_default();
    eitp__buffer line;
    eitp__buffer_init(&line, &host);
    if (status != EITP_OK) {
        eitp__buffer_format(&line, "{\"status\":\"%s\",\"error\":", eitp_status_name(status));
        eitp__json_write_text(&line, error->message, strlen(error->message));
    } else {
        eitp__buffer_add_text(&line, "{\"text\":");
        eitp__json_write_text(&line, text->data ? text->data : "", text->size);
        eitp__buffer_format(&line, ",\"hidden\":%zu,\"spans\":[", spans->hidden);
        for (size_t i = 0; i < spans->count; i++)
            eitp__buffer_format(&line, "%s[\"%s\",%lld,%zu,%zu]", i ? "," : "",
                                spans->spans[i].kind == EITP__CHAT_SPAN_MESSAGE ? "message" : "generation",
                                (long long)spans->spans[i].message, spans->spans[i].begin, spans->spans[i].end);
        eitp__buffer_add_text(&line, "]");
    }
    eitp__buffer_add_text(&line, "}\n");
    fputs(line.data, stdout);
    eitp__buffer_release(&line);
}

static eitp_status render(const char *path, eitp__buffer *text, eitp__chat_spans *spans, eitp_error *error) {
    const eitp_host host = eitp_host_default();
    eitp_json_document *document;
    eitp__chat_template *chat_template = NULL;
    eitp__chat_context context = EITP__ZERO;
    const eitp_json *source;
    eitp_status status = eitp__json_read_strict_file(&host, path, 1 << 26, &document, error);
    if (status != EITP_OK)
        return status;
    source = eitp_json_member(eitp_json_root(document), "template");
    context.object = eitp_json_member(eitp_json_root(document), "context");
    status = eitp__json_get_integer(eitp_json_root(document), "now", 0, INT64_MAX, &context.now, error);
    if (status == EITP_OK)
        status = eitp__chat_template_parse(&host, source->text, source->text_size, &chat_template, error);
    if (status == EITP_OK)
        status = eitp__chat_template_render(chat_template, &context, text, spans, error);
    eitp__chat_template_release(chat_template);
    eitp_json_release(document);
    return status;
}

int main(int argc, char **argv) {
    const eitp_host host = eitp_host_default();
    for (int i = 1; i < argc; i++) {
        eitp__chat_spans spans = EITP__ZERO;
        eitp__buffer text;
        eitp_error error;
        eitp_status status;
        eitp__buffer_init(&text, &host);
        status = render(argv[i], &text, &spans, &error);
        write_result(status, &text, &spans, &error);
        eitp__chat_spans_release(&host, &spans);
        eitp__buffer_release(&text);
    }
    return 0;
}
