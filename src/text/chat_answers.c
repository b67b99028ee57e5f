/* The answers of a conversation: which part of its text they are, and which tokens. */
#include "text/chat_work.h"

/* ---- Answers in the text ---- */

EITP__PRIVATE int eitp__chat_is_blank(const char *text, size_t size) {
    size_t i = 0;
    while (i < size && strchr(" \t\r\n", text[i]) && text[i])
        i++;
    return i == size;
}

/* The messages in order: true for answers. */
static int eitp__message_number_is_answer(const eitp_json *messages, size_t number) {
    const eitp_json *message = messages->first_child;
    for (size_t i = 0; i < number && message; i++)
        message = message->next;
    return message && eitp__message_is_answer(message);
}

static eitp_status eitp__add_answer(eitp__chat_work *work, size_t begin, size_t end, eitp_error *error) {
    const size_t size = sizeof *work->answers;
    if (!eitp__reserve(work->host, (void **)&work->answers, &work->answer_capacity, work->answer_count + 1, size))
        return eitp__fail_memory(error, (work->answer_count + 1) * size, "the answers of a conversation");
    work->answers[work->answer_count].begin = begin;
    work->answers[work->answer_count++].end = end;
    return EITP_OK;
}

/* What the template marks as generated. */
static eitp_status eitp__find_marked_answers(eitp__chat_work *work, eitp_error *error) {
    const eitp__chat_spans *spans = &work->rendered.spans;
    eitp_status status = EITP_OK;
    for (size_t i = 0; i < spans->count && !status; i++) {
        if (spans->spans[i].kind == EITP__CHAT_SPAN_GENERATION)
            status = eitp__add_answer(work, spans->spans[i].begin, spans->spans[i].end, error);
    }
    return status;
}

/* What is written for a message: the spans of it that follow on one another, from number *at on, which is set to that
   of the next one. */
static eitp__chat_range eitp__message_range(const eitp__chat_spans *all, size_t *at) {
    const eitp__chat_span *spans = all->spans;
    eitp__chat_range range;
    size_t i = *at;
    range.begin = spans[i].begin;
    range.end = spans[i].end;
    for (i++; i < all->count && spans[i].kind == EITP__CHAT_SPAN_MESSAGE && spans[i].message == spans[*at].message &&
              spans[i].begin == range.end;
         i++)
        range.end = spans[i].end;
    *at = i;
    return range;
}

/* What loops over the messages write for answers, without the generation prompt. */
static eitp_status eitp__find_written_answers(eitp__chat_work *work, eitp_error *error) {
    const eitp__chat_spans *spans = &work->rendered.spans;
    const char *text = work->rendered.text.data;
    eitp_status status = eitp__chat_find_prompt(work, error);
    for (size_t i = 0; i < spans->count && !status;) {
        const size_t message = spans->spans[i].message;
        const int is_message = spans->spans[i].kind == EITP__CHAT_SPAN_MESSAGE;
        eitp__chat_range range;
        size_t same = 0;
        if (!is_message || !eitp__message_number_is_answer(work->conversation.messages, message)) {
            i++;
            continue;
        }
        range = eitp__message_range(spans, &i);
        while (same < work->prompt.size && range.begin + same < range.end &&
               text[range.begin + same] == work->prompt.data[same])
            same++;
        if (!eitp__chat_is_blank(text + range.begin, range.end - range.begin))
            status = eitp__add_answer(work, range.begin + same, range.end, error);
    }
    return status;
}

EITP__PRIVATE eitp_status eitp__chat_find_answers(eitp__chat_work *work, eitp_chat_report *report, int *are_marked,
                                                  eitp_error *error) {
    eitp_status status = eitp__find_marked_answers(work, error);
    for (const eitp_json *message = work->conversation.messages->first_child; message; message = message->next)
        report->answers += (size_t)eitp__message_is_answer(message);
    *are_marked = work->answer_count > 0;
    if (!status && !*are_marked)
        status = eitp__find_written_answers(work, error);
    /* Of what was written into a variable first, the place in the text is unknown. */
    if (!status && report->answers && (!work->answer_count || work->rendered.spans.hidden) &&
        work->config->targets != EITP_CHAT_EVERYTHING)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "the chat template does not tell which text is the assistant's; put {%% generation %%} and "
                          "{%% endgeneration %%} around it, or train on everything");
    return status;
}

/* ---- Tokens ---- */

static eitp_status eitp__encode_all(eitp__chat_work *work, eitp_error *error) {
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

/* Sets work->offsets, and makes room for the marks. */
static eitp_status eitp__find_offsets(eitp__chat_work *work, eitp_error *error) {
    const eitp_tokenizer *tokenizer = work->chat->tokenizer;
    if (!eitp__reserve(work->host, (void **)&work->offsets, &work->offset_capacity, work->count + 1,
                       sizeof *work->offsets) ||
        !eitp__reserve(work->host, (void **)&work->trained, &work->trained_capacity, work->count + 1, 1))
        return eitp__fail_memory(error, work->count * (sizeof *work->offsets + 1), "the tokens of a conversation");
    work->offsets[0] = 0;
    for (size_t i = 0; i < work->count; i++)
        work->offsets[i + 1] = work->offsets[i] + tokenizer->vocabulary.tokens[work->ids[i]].size;
    memset(work->trained, work->config->targets == EITP_CHAT_EVERYTHING, work->count);
    return EITP_OK;
}

/* Where a place in the text is, in bytes of tokens. They differ where the tokenizer normalizes text, which it does to
   the text before the place in the same way. */
static eitp_status eitp__place_in_tokens(const eitp__chat_work *work, size_t place, size_t *found, eitp_error *error) {
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

/* The number of the token that has a byte of tokens; of one at the end, the number of tokens. */
static size_t eitp__token_at(const eitp__chat_work *work, size_t place) {
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

/* Leaves out white space after the special token that ends a turn: nothing generates it. */
static size_t eitp__cut_after_turn(const eitp__chat_work *work, size_t first, size_t end) {
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

static eitp_status eitp__mark_answers(eitp__chat_work *work, int are_marked, eitp_error *error) {
    const int takes_last = work->config->targets == EITP_CHAT_LAST_ANSWER;
    eitp_status status = EITP_OK;
    if (work->config->targets == EITP_CHAT_EVERYTHING)
        return EITP_OK;
    for (size_t i = takes_last && work->answer_count ? work->answer_count - 1 : 0; i < work->answer_count && !status;
         i++) {
        size_t begin, end, first, after;
        if (work->answers[i].begin >= work->answers[i].end)
            continue;
        status = eitp__place_in_tokens(work, work->answers[i].begin, &begin, error);
        if (!status)
            status = eitp__place_in_tokens(work, work->answers[i].end, &end, error);
        if (status || begin >= end)
            continue;
        first = eitp__token_at(work, begin);
        after = eitp__token_at(work, end - 1) + 1;
        after = after < work->count ? after : work->count;
        if (!are_marked)
            after = eitp__cut_after_turn(work, first, after);
        if (first < after)
            memset(work->trained + first, 1, after - first);
    }
    return status;
}

EITP__PRIVATE eitp_status eitp__chat_encode(eitp__chat_work *work, int are_marked, eitp_error *error) {
    eitp_status status = eitp__encode_all(work, error);
    if (!status)
        status = eitp__find_offsets(work, error);
    return status ? status : eitp__mark_answers(work, are_marked, error);
}
