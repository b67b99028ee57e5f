/*
 * Locates the contents of answers in a template's output. Two conversations are rendered in which each answer differs
 * in its first and last character. The text around the differing characters is the template's output around an answer.
 */
#include "text/chat_work.h"

#include "base/json.h"

/* Contents of answers in the two renderings. They start and end with the characters that differ. */
static const char *const eitp__chat_variants[2] = {"A probe A", "B probe B"};

/* ---- Parts of answers ---- */

static int eitp__message_number_is_answer(const eitp_json *messages, size_t number) {
    const eitp_json *message = messages->first_child;
    for (size_t i = 0; i < number && message; i++)
        message = message->next;
    return message && eitp__message_is_answer(message);
}

EITP__PRIVATE int eitp__chat_next_answer(const eitp_json *messages, const eitp__chat_output *output, size_t *at,
                                         eitp__chat_answer *answer) {
    const eitp__chat_span *spans = output->spans.spans;
    const size_t count = output->spans.count;
    size_t i = *at;
    while (i < count &&
           (spans[i].kind != EITP__CHAT_SPAN_MESSAGE || !eitp__message_number_is_answer(messages, spans[i].message)))
        i++;
    *at = i;
    if (i == count)
        return 0;
    memset(answer, 0, sizeof *answer);
    answer->message = spans[i].message;
    answer->begin = spans[i].begin;
    answer->end = spans[i].end;
    for (i++; i < count && spans[i].kind == EITP__CHAT_SPAN_MESSAGE && spans[i].message == answer->message &&
              spans[i].begin == answer->end;
         i++)
        answer->end = spans[i].end;
    *at = i;
    return 1;
}

/* ---- Two conversations ---- */

/* Writes the content of an answer: a string, or a list with one text part if the message has a list. */
static void eitp__write_content(const eitp_json *content, const char *text, eitp__buffer *out) {
    const int is_list = content && content->kind == EITP_JSON_ARRAY;
    eitp__buffer_add_text(out, is_list ? "[{\"type\":\"text\",\"text\":" : "");
    eitp__json_write_text(out, text, strlen(text));
    eitp__buffer_add_text(out, is_list ? "}]" : "");
}

static void eitp__write_variant_message(const eitp_json *message, const char *text, eitp__buffer *out) {
    const char *separator = "{";
    for (const eitp_json *member = message->first_child; member; member = member->next) {
        if (!strcmp(member->name, "content"))
            continue;
        eitp__buffer_add_text(out, separator);
        eitp__json_write_text(out, member->name, member->name_size);
        eitp__buffer_add_text(out, ":");
        eitp__json_write_value(out, member);
        separator = ",";
    }
    eitp__buffer_add_text(out, separator);
    eitp__buffer_add_text(out, "\"content\":");
    eitp__write_content(eitp_json_member(message, "content"), text, out);
    eitp__buffer_add_text(out, "}");
}

/* Renders the first `count` messages, with `text` as the content of each answer unless it is NULL. If the template
   refuses them, the output stays empty. */
static eitp_status eitp__render_variant(const eitp__chat_encoding *work, size_t count, const char *text,
                                        int adds_prompt, eitp__chat_output *output, eitp_error *error) {
    const eitp_json *message = work->conversation.messages->first_child;
    eitp_json_document *document = NULL;
    eitp__buffer json;
    eitp_status status = EITP_OK;
    eitp__buffer_init(&json, work->host);
    eitp__buffer_add_text(&json, "[");
    for (size_t i = 0; i < count && message; i++, message = message->next) {
        eitp__buffer_add_text(&json, i ? "," : "");
        if (text && eitp__message_is_answer(message))
            eitp__write_variant_message(message, text, &json);
        else
            eitp__json_write_value(&json, message);
    }
    eitp__buffer_add_text(&json, "]");
    if (json.failed)
        status = eitp__fail_memory(error, json.size, "the messages of a conversation");
    if (!status)
        status = eitp_json_parse(work->host, json.data, json.size, &document, error);
    if (!status)
        status = eitp__chat_render(work, eitp_json_root(document), adds_prompt, output, error);
    eitp_json_release(document);
    eitp__buffer_release(&json);
    return status == EITP_ERROR_ARGUMENT ? EITP_OK : status;
}

/* ---- Places ---- */

/* Stores the sizes of the equal text before and after the difference between two parts of equal size. Returns 0 unless
   the difference is exactly the variants. */
static int eitp__compare_variants(const char *one, const char *other, size_t size, size_t *before, size_t *after) {
    const size_t length = strlen(eitp__chat_variants[0]);
    size_t first = 0, last = size;
    while (first < size && one[first] == other[first])
        first++;
    while (last > first && one[last - 1] == other[last - 1])
        last--;
    *before = first;
    *after = size - last;
    return last - first == length && !memcmp(one + first, eitp__chat_variants[0], length) &&
           !memcmp(other + first, eitp__chat_variants[1], length);
}

/* Finds the content of an answer from its parts in the two renderings. */
static void eitp__place_content(const eitp__chat_encoding *work, eitp__chat_answer *answer, const char *one,
                                size_t one_size, const char *other, size_t other_size) {
    const char *text = work->rendered.text.data + answer->begin;
    const size_t size = answer->end - answer->begin;
    size_t before, after;
    if (one_size != other_size || !eitp__compare_variants(one, other, one_size, &before, &after) ||
        before + after > size || memcmp(text, one, before) != 0 ||
        memcmp(text + size - after, one + one_size - after, after) != 0)
        return;
    answer->content = answer->begin + before;
    answer->content_end = answer->end - after;
    answer->has_content = 1;
}

/* Finds the next part of a rendering, from index *at on, that is written for a message. Returns 0 if not found. */
static int eitp__find_variant(const eitp__chat_encoding *work, const eitp__chat_output *output, size_t message,
                              size_t *at, eitp__chat_answer *part) {
    size_t next = *at;
    while (eitp__chat_next_answer(work->conversation.messages, output, &next, part)) {
        if (part->message != message)
            continue;
        *at = next;
        return 1;
    }
    return 0;
}

EITP__PRIVATE eitp_status eitp__chat_find_contents(eitp__chat_encoding *work, eitp_error *error) {
    eitp__chat_output variants[2];
    size_t at[2] = {0, 0};
    eitp_status status = EITP_OK;
    for (int i = 0; i < 2; i++)
        eitp__chat_output_init(&variants[i], work->host);
    for (int i = 0; i < 2 && !status; i++)
        status = eitp__render_variant(work, SIZE_MAX, eitp__chat_variants[i], work->config->add_generation_prompt,
                                      &variants[i], error);
    for (size_t i = 0; i < work->answer_count && !status; i++) {
        eitp__chat_answer *answer = &work->answers[i], one, other;
        if (eitp__find_variant(work, &variants[0], answer->message, &at[0], &one) &&
            eitp__find_variant(work, &variants[1], answer->message, &at[1], &other))
            eitp__place_content(work, answer, variants[0].text.data + one.begin, one.end - one.begin,
                                variants[1].text.data + other.begin, other.end - other.begin);
    }
    for (int i = 0; i < 2; i++)
        eitp__chat_output_release(&variants[i]);
    return status;
}

EITP__PRIVATE eitp_status eitp__chat_skip_prompt(const eitp__chat_encoding *work, eitp__chat_answer *answer,
                                                 int *is_found, eitp_error *error) {
    eitp__chat_output asked;
    eitp__chat_output_init(&asked, work->host);
    eitp_status status = eitp__render_variant(work, answer->message, NULL, 1, &asked, error);
    const size_t size = asked.text.size;
    *is_found = !status && size >= answer->begin && size < answer->end && size &&
                !memcmp(work->rendered.text.data, asked.text.data, size);
    if (*is_found)
        answer->begin = size;
    eitp__chat_output_release(&asked);
    return status;
}
