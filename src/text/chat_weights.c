/* Weights of messages and conversations in the loss. */
#include "text/chat_work.h"

#include <float.h>

static eitp_status eitp__begin_weights(eitp__chat_encoding *work, eitp_error *error) {
    if (!eitp__reserve(work->host, (void **)&work->weights, &work->weight_capacity, work->count + 1,
                       sizeof *work->weights))
        return eitp__fail_memory(error, work->count * sizeof *work->weights, "the weights of a conversation");
    for (size_t i = 0; i < work->count; i++)
        work->weights[i] = work->trained[i] ? (float)work->conversation.weight : 0;
    return EITP_OK;
}

static void eitp__weigh_tokens(eitp__chat_encoding *work, size_t begin, size_t end, double weight) {
    for (size_t k = begin; k < end; k++)
        work->weights[k] = (float)(work->weights[k] * weight);
}

/* Multiplies the weights of a message's tokens by its weight, including the token that ends its turn, which may come
   after the message. */
static eitp_status eitp__weigh_message(eitp__chat_encoding *work, size_t number, double weight, eitp_error *error) {
    const eitp__chat_spans *spans = &work->rendered.spans;
    eitp_status status = EITP_OK;
    size_t weighed = 0; /* end of the last part */
    int is_found = 0;
    if (weight * work->conversation.weight > FLT_MAX)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "message %zu: weight %g times the row's weight is too large",
                          number + 1, weight);
    for (size_t i = 0; i < spans->count && !status; i++) {
        eitp__chat_range text, tokens = EITP__ZERO;
        if (spans->spans[i].kind != EITP__CHAT_SPAN_MESSAGE || spans->spans[i].message != number)
            continue;
        is_found = 1;
        text.begin = spans->spans[i].begin;
        text.end = spans->spans[i].end;
        status = eitp__chat_find_tokens(work, text, &tokens, error);
        eitp__weigh_tokens(work, tokens.begin, tokens.end, weight);
        weighed = tokens.end > weighed ? tokens.end : weighed;
    }
    for (size_t i = 0; i < work->answer_count; i++) {
        const eitp__chat_answer *answer = &work->answers[i];
        if (answer->message == number)
            eitp__weigh_tokens(work, answer->tokens.begin > weighed ? answer->tokens.begin : weighed,
                               answer->tokens.end, weight);
    }
    if (!status && (!is_found || spans->hidden))
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "message %zu has a weight, and the chat template does not tell which text is the message's; "
                          "write the messages in a loop over them, or remove the weight",
                          number + 1);
    return status;
}

EITP__PRIVATE eitp_status eitp__chat_apply_weights(eitp__chat_encoding *work, eitp_error *error) {
    const int takes_all = work->config->targets == EITP_CHAT_ALL;
    const eitp_json *message = work->conversation.messages->first_child;
    int has_weights = work->conversation.weight < 1 || work->conversation.weight > 1;
    eitp_status status = has_weights ? eitp__begin_weights(work, error) : EITP_OK;
    for (size_t number = 0; message && !status; message = message->next, number++) {
        double weight = 1;
        if (takes_all || eitp__message_is_answer(message))
            status = eitp__read_weight(message, &weight, error);
        if (status || !(weight < 1 || weight > 1))
            continue;
        if (!has_weights)
            status = eitp__begin_weights(work, error);
        has_weights = 1;
        if (!status)
            status = eitp__weigh_message(work, number, weight, error);
    }
    for (size_t i = 0; i < work->count && has_weights && !status; i++)
        work->trained[i] = work->weights[i] > 0;
    return status;
}
