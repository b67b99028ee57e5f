/* The answers of a conversation: their positions in the text, and their tokens. */
#include "text/chat_work.h"

/* ---- Answers in the text ---- */

static eitp_status eitp__add_answer(eitp__chat_encoding *work, const eitp__chat_answer *answer, eitp_error *error) {
    const size_t size = sizeof *work->answers;
    if (!eitp__reserve(work->host, (void **)&work->answers, &work->answer_capacity, work->answer_count + 1, size))
        return eitp__fail_memory(error, (work->answer_count + 1) * size, "the answers of a conversation");
    work->answers[work->answer_count++] = *answer;
    return EITP_OK;
}

/* Finds the answers that the template marks as generated. */
static eitp_status eitp__find_marked_answers(eitp__chat_encoding *work, eitp_error *error) {
    const eitp__chat_spans *spans = &work->rendered.spans;
    eitp_status status = EITP_OK;
    for (size_t i = 0; i < spans->count && !status; i++) {
        eitp__chat_answer answer = EITP__ZERO;
        answer.begin = spans->spans[i].begin;
        answer.end = spans->spans[i].end;
        if (spans->spans[i].kind == EITP__CHAT_SPAN_GENERATION)
            status = eitp__add_answer(work, &answer, error);
    }
    return status;
}

static int eitp__answer_is_blank(const eitp__chat_encoding *work, const eitp__chat_answer *answer) {
    return eitp__chat_is_blank(work->rendered.text.data + answer->begin, answer->end - answer->begin);
}

/* True if the answer starts with the generation prompt. */
static int eitp__begins_with_prompt(const eitp__chat_encoding *work, const eitp__chat_answer *answer) {
    const size_t size = work->prompt.size;
    return size && answer->end - answer->begin >= size &&
           !memcmp(work->rendered.text.data + answer->begin, work->prompt.data, size);
}

/* True if a message has content other than tool calls. */
static int eitp__has_text(const eitp__chat_encoding *work, const eitp__chat_answer *answer) {
    const eitp_json *message = work->conversation.messages->first_child;
    for (size_t i = 0; i < answer->message; i++)
        message = message->next;
    const eitp_json *content = eitp_json_member(message, "content"), *calls = eitp_json_member(message, "tool_calls");
    return content && (content->kind == EITP_JSON_STRING ? content->text_size > 0 : content->kind != EITP_JSON_NULL) &&
           (!calls || !calls->first_child);
}

/*
 * Removes the header of an answer. If the answer starts with the generation prompt, that is the header. Otherwise the
 * header is the text before the content, unless it is only white space and the template has no generation prompt: the
 * model then has to generate it. An answer without written content, such as tool calls, starts after the template's
 * output for the messages before it with a generation prompt.
 */
static eitp_status eitp__cut_header(const eitp__chat_encoding *work, eitp__chat_answer *answer, eitp_error *error) {
    const char *text = work->rendered.text.data + answer->begin;
    int is_found = 1;
    eitp_status status = EITP_OK;
    if (eitp__answer_is_blank(work, answer))
        answer->begin = answer->end;
    else if (eitp__begins_with_prompt(work, answer))
        answer->begin += work->prompt.size;
    else if (answer->has_content && (work->prompt.size || !eitp__chat_is_blank(text, answer->content - answer->begin)))
        answer->begin = answer->content;
    else if (!answer->has_content && work->prompt.size)
        status = eitp__chat_skip_prompt(work, answer, &is_found, error);
    else if (!answer->has_content)
        is_found = !eitp__has_text(work, answer);
    if (status || is_found)
        return status;
    return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                      "message %zu: the chat template does not tell which text is the assistant's: the text before "
                      "an answer is not the generation prompt, or depends on the answer; put {%% generation %%} and "
                      "{%% endgeneration %%} around the assistant's text, or train on everything",
                      answer->message + 1);
}

/* Finds the text that loops over the messages write for answers, without headers. */
static eitp_status eitp__find_written_answers(eitp__chat_encoding *work, eitp_error *error) {
    int needs_contents = !work->chat->has_plain_end;
    eitp_status status = eitp__chat_find_prompt(work, error);
    eitp__chat_answer answer;
    for (size_t at = 0;
         !status && eitp__chat_next_answer(work->conversation.messages, &work->rendered, &at, &answer);) {
        needs_contents |= !eitp__answer_is_blank(work, &answer) && !eitp__begins_with_prompt(work, &answer);
        status = eitp__add_answer(work, &answer, error);
    }
    if (!status && needs_contents && work->answer_count)
        status = eitp__chat_find_contents(work, error);
    for (size_t i = 0; i < work->answer_count && !status; i++)
        status = eitp__cut_header(work, &work->answers[i], error);
    return status;
}

EITP__PRIVATE eitp_status eitp__chat_find_answers(eitp__chat_encoding *work, eitp_chat_report *report, int *are_marked,
                                                  eitp_error *error) {
    eitp_status status = eitp__find_marked_answers(work, error);
    for (const eitp_json *message = work->conversation.messages->first_child; message; message = message->next)
        report->answers += (size_t)eitp__message_is_answer(message);
    *are_marked = work->answer_count > 0;
    if (status || work->config->targets == EITP_CHAT_ALL)
        return status;
    if (!*are_marked)
        status = eitp__find_written_answers(work, error);
    /* The position of text that was first written into a variable is unknown. */
    if (!status && report->answers && (!work->answer_count || work->rendered.spans.hidden))
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "the chat template does not tell which text is the assistant's; put {%% generation %%} and "
                          "{%% endgeneration %%} around it, or train on everything");
    return status;
}

/* ---- Tokens ---- */

static eitp_status eitp__encode_all(eitp__chat_encoding *work, eitp_error *error) {
    const eitp__buffer *text = &work->rendered.text;
    size_t guess = text->size / 3 + 16;
    eitp_status status;
    for (;;) {
        if (!eitp__reserve(work->host, (void **)&work->ids, &work->id_capacity, guess, sizeof *work->ids))
            return eitp__fail_memory(error, guess * sizeof *work->ids, "the tokens of a conversation");
        status = eitp__encode_text(work->chat->tokenizer, text->size ? text->data : "", text->size, work->ids,
                                   work->id_capacity, &work->count, &work->unknown_bytes, error);
        if (status || work->count <= work->id_capacity)
            return status;
        guess = work->count;
    }
}

/* Sets work->offsets, and allocates the marks. */
static eitp_status eitp__find_offsets(eitp__chat_encoding *work, eitp_error *error) {
    const eitp_tokenizer *tokenizer = work->chat->tokenizer;
    if (!eitp__reserve(work->host, (void **)&work->offsets, &work->offset_capacity, work->count + 1,
                       sizeof *work->offsets) ||
        !eitp__reserve(work->host, (void **)&work->trained, &work->trained_capacity, work->count + 1, 1))
        return eitp__fail_memory(error, work->count * (sizeof *work->offsets + 1), "the tokens of a conversation");
    work->offsets[0] = 0;
    for (size_t i = 0; i < work->count; i++)
        work->offsets[i + 1] = work->offsets[i] + tokenizer->vocabulary.tokens[work->ids[i]].size;
    memset(work->trained, work->config->targets == EITP_CHAT_ALL, work->count);
    return EITP_OK;
}

/* Converts a position in the text to an offset in bytes of tokens. The two differ if the tokenizer normalizes text. The
   text before the position is normalized in the same way. */
static eitp_status eitp__token_offset_of(const eitp__chat_encoding *work, size_t place, size_t *found,
                                         eitp_error *error) {
    const eitp_tokenizer *tokenizer = work->chat->tokenizer;
    int32_t *ids = NULL;
    size_t count = 0, capacity = 0;
    eitp_status status;
    *found = place;
    if (!place || work->offsets[work->count] == work->rendered.text.size)
        return EITP_OK;
    status = eitp_tokenizer_encode(tokenizer, work->rendered.text.data, place, NULL, 0, &count, error);
    if (!status && !eitp__reserve(work->host, (void **)&ids, &capacity, count, sizeof *ids))
        status = eitp__fail_memory(error, count * sizeof *ids, "the tokens of a conversation");
    if (!status)
        status = eitp_tokenizer_encode(tokenizer, work->rendered.text.data, place, ids, count, &count, error);
    *found = 0;
    for (size_t i = 0; i < count && !status; i++)
        *found += tokenizer->vocabulary.tokens[ids[i]].size;
    eitp__release(work->host, ids, capacity * sizeof *ids);
    return status;
}

/* Returns the index of the token that contains a byte of tokens; past the last byte, the number of tokens. */
static size_t eitp__token_at(const eitp__chat_encoding *work, size_t place) {
    size_t low = 0, high = work->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (work->offsets[middle + 1] <= place)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

EITP__PRIVATE eitp_status eitp__chat_find_tokens(const eitp__chat_encoding *work, eitp__chat_range text,
                                                 eitp__chat_range *tokens, eitp_error *error) {
    size_t begin = 0, end = 0;
    eitp_status status = EITP_OK;
    tokens->begin = tokens->end = 0;
    if (text.begin < text.end)
        status = eitp__token_offset_of(work, text.begin, &begin, error);
    if (!status && text.begin < text.end)
        status = eitp__token_offset_of(work, text.end, &end, error);
    if (status || begin >= end)
        return status;
    tokens->begin = eitp__token_at(work, begin);
    tokens->end = eitp__token_at(work, end - 1) + 1;
    tokens->end = tokens->end < work->count ? tokens->end : work->count;
    return EITP_OK;
}

/* Excludes white space after the special token that ends a turn, because a model does not generate it. */
static size_t eitp__cut_after_turn(const eitp__chat_encoding *work, size_t first, size_t end) {
    size_t last = end;
    while (last > first) {
        const eitp__token *token = &work->chat->tokenizer->vocabulary.tokens[work->ids[last - 1]];
        if (eitp__chat_is_special(work->chat->tokenizer, work->ids[last - 1]))
            return last;
        if (!eitp__chat_is_blank((const char *)eitp__token_bytes(work->chat->tokenizer, (size_t)work->ids[last - 1]),
                                 token->size))
            break;
        last--;
    }
    return end;
}

/* Finds the end of an answer's tokens: the first token after its content that ends a turn, which may be part of the
   text that follows. */
static eitp_status eitp__find_turn_end(const eitp__chat_encoding *work, const eitp__chat_answer *answer, size_t first,
                                       size_t *after, eitp_error *error) {
    const size_t end = *after;
    size_t place;
    eitp_status status;
    *after = eitp__cut_after_turn(work, first, end);
    if (!answer->has_content || work->chat->end_of_turn < 0)
        return EITP_OK;
    status = eitp__token_offset_of(work, answer->content_end, &place, error);
    for (size_t i = eitp__token_at(work, place); !status && i < work->count && i <= end; i++) {
        if (work->ids[i] != work->chat->end_of_turn)
            continue;
        *after = i + 1;
        break;
    }
    return status;
}

/* Marks the tokens of an answer. A token that is partly in the answer is trained on, unless it is the special token at
   the end of the header. */
static eitp_status eitp__mark_answer(eitp__chat_encoding *work, eitp__chat_answer *answer, int is_marked,
                                     eitp_error *error) {
    eitp__chat_range text, tokens;
    size_t begin = 0;
    eitp_status status;
    text.begin = answer->begin;
    text.end = answer->end;
    status = eitp__chat_find_tokens(work, text, &tokens, error);
    if (status || tokens.begin >= tokens.end)
        return status;
    if (!is_marked) {
        status = eitp__find_turn_end(work, answer, tokens.begin, &tokens.end, error);
        if (!status)
            status = eitp__token_offset_of(work, answer->begin, &begin, error);
        tokens.begin += work->offsets[tokens.begin] < begin &&
                        eitp__chat_is_special(work->chat->tokenizer, work->ids[tokens.begin]);
        answer->tokens = tokens;
    }
    if (!status && tokens.begin < tokens.end)
        memset(work->trained + tokens.begin, 1, tokens.end - tokens.begin);
    return status;
}

static eitp_status eitp__mark_answers(eitp__chat_encoding *work, int are_marked, eitp_error *error) {
    const int takes_last = work->config->targets == EITP_CHAT_LAST_ANSWER;
    eitp_status status = EITP_OK;
    if (work->config->targets == EITP_CHAT_ALL)
        return EITP_OK;
    for (size_t i = takes_last && work->answer_count ? work->answer_count - 1 : 0; i < work->answer_count && !status;
         i++) {
        if (work->answers[i].begin < work->answers[i].end)
            status = eitp__mark_answer(work, &work->answers[i], are_marked, error);
    }
    return status;
}

EITP__PRIVATE eitp_status eitp__chat_encode(eitp__chat_encoding *work, int are_marked, eitp_error *error) {
    eitp_status status = eitp__encode_all(work, error);
    if (!status)
        status = eitp__find_offsets(work, error);
    return status ? status : eitp__mark_answers(work, are_marked, error);
}
