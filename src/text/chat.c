/* Conversations: the output of a chat template for the messages, as tokens, and which of these tokens are answers. The
   template engine records where each message is written, so that no part of the text needs to be recognized. */
#include "text/chat_work.h"

eitp_chat_config eitp_chat_config_default(void) {
    eitp_chat_config config = EITP__ZERO;
    return config;
}

/* ---- Creation ---- */

eitp_status eitp_chat_create(const eitp_tokenizer *tokenizer, eitp_chat **out, eitp_error *error) {
    size_t size = 0;
    const char *text = eitp_tokenizer_chat_template(tokenizer, &size);
    eitp_chat *chat;
    eitp_status status;
    if (!tokenizer || !out)
        return eitp__fail_null(error, "eitp_chat_create", "tokenizer and chat");
    *out = NULL;
    if (!text)
        return eitp__fail(
            error, EITP_ERROR_ARGUMENT,
            "the tokenizer has no chat template: it belongs to a base model, or chat_template.jinja is missing");
    if (tokenizer->model == EITP__MODEL_WORDPIECE)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "chat templates are not supported with WordPiece tokenizers");
    chat = (eitp_chat *)eitp__allocate(&tokenizer->host, sizeof *chat);
    if (!chat)
        return eitp__fail_memory(error, sizeof *chat, "a chat");
    chat->tokenizer = tokenizer;
    status = eitp__chat_template_parse(&tokenizer->host, text, size, &chat->text, error);
    if (!status)
        status = eitp__chat_find_end_of_turn(chat, error);
    if (!status)
        status = eitp__chat_find_parts(chat, error);
    if (status) {
        eitp_chat_destroy(chat);
        return status;
    }
    *out = chat;
    return EITP_OK;
}

void eitp_chat_destroy(eitp_chat *chat) {
    if (!chat)
        return;
    eitp__chat_template_release(chat->text);
    eitp__release(&chat->tokenizer->host, chat, sizeof *chat);
}

int32_t eitp_chat_end_of_turn(const eitp_chat *chat) {
    return chat ? chat->end_of_turn : -1;
}

/* ---- Public functions ---- */

static eitp_status eitp__check_chat_config(const eitp_chat_config *config, eitp_error *error) {
    if ((unsigned)config->targets > EITP_CHAT_ALL)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "unknown targets %d", (int)config->targets);
    if (config->max_length < 0)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "max_length must be at least 0 (got %ld)",
                          (long)config->max_length);
    return EITP_OK;
}

eitp_status eitp_chat_render(const eitp_chat *chat, const char *conversation, size_t size,
                             const eitp_chat_config *config, char *text, size_t capacity, size_t *length,
                             eitp_error *error) {
    const eitp_chat_config defaults = eitp_chat_config_default();
    eitp__chat_encoding work;
    int unread;
    eitp_status status;
    if (!chat || !conversation || !length || (capacity && !text))
        return eitp__fail_null(error, "eitp_chat_render", "chat, conversation, length, and text with a capacity");
    *length = 0;
    eitp__chat_encoding_init(&work, chat, config ? config : &defaults);
    status = eitp__check_chat_config(work.config, error);
    if (!status)
        status = eitp__chat_prepare(&work, conversation, size, error);
    if (!status)
        status = eitp__chat_check_tools(&work, &unread, error);
    if (!status) {
        *length = work.rendered.text.size;
        if (capacity && *length)
            memcpy(text, work.rendered.text.data, *length < capacity ? *length : capacity);
    }
    eitp__chat_encoding_release(&work);
    return status;
}

/* Output arrays for the tokens of a conversation; each may be NULL. */
typedef struct eitp__chat_arrays {
    int32_t *ids;
    unsigned char *trained;
    float *weights;
    size_t capacity;
} eitp__chat_arrays;

/* Copies the first `capacity` tokens to the arrays. */
static void eitp__report_tokens(const eitp__chat_encoding *work, const eitp__chat_arrays *arrays,
                                eitp_chat_report *report) {
    const size_t most = work->config->max_length ? (size_t)work->config->max_length : work->count;
    const size_t count = work->count < most ? work->count : most;
    const size_t stored = count < arrays->capacity ? count : arrays->capacity;
    report->count = count;
    report->cut = work->count - count;
    report->unknown_bytes = work->unknown_bytes;
    for (size_t i = 0; i < count; i++)
        report->trained += work->trained[i];
    while (report->before_trained < work->count && !work->trained[report->before_trained])
        report->before_trained++;
    if (arrays->ids && stored)
        memcpy(arrays->ids, work->ids, stored * sizeof *work->ids);
    if (arrays->trained && stored)
        memcpy(arrays->trained, work->trained, stored);
    for (size_t i = 0; arrays->weights && i < stored; i++)
        arrays->weights[i] = work->weights ? work->weights[i] : work->trained[i];
}

static eitp_status eitp__encode_conversation(const eitp_chat *chat, const char *conversation, size_t size,
                                             const eitp_chat_config *config, const eitp__chat_arrays *arrays,
                                             eitp_chat_report *report, eitp_error *error) {
    const eitp_chat_config defaults = eitp_chat_config_default();
    eitp__chat_encoding work;
    int are_marked = 0;
    eitp_status status;
    memset(report, 0, sizeof *report);
    eitp__chat_encoding_init(&work, chat, config ? config : &defaults);
    status = eitp__check_chat_config(work.config, error);
    if (!status)
        status = eitp__chat_prepare(&work, conversation, size, error);
    if (!status)
        status = eitp__chat_check_tools(&work, &report->unread_tools, error);
    if (!status)
        status = eitp__chat_find_answers(&work, report, &are_marked, error);
    if (!status)
        status = eitp__chat_encode(&work, are_marked, error);
    if (!status)
        status = eitp__chat_apply_weights(&work, error);
    if (!status)
        eitp__report_tokens(&work, arrays, report);
    eitp__chat_encoding_release(&work);
    return status;
}

eitp_status eitp_chat_encode(const eitp_chat *chat, const char *conversation, size_t size,
                             const eitp_chat_config *config, int32_t *ids, unsigned char *trained, size_t capacity,
                             eitp_chat_report *report, eitp_error *error) {
    const eitp__chat_arrays arrays = {ids, trained, NULL, capacity};
    if (!chat || !conversation || !report)
        return eitp__fail_null(error, "eitp_chat_encode", "chat, conversation and report");
    return eitp__encode_conversation(chat, conversation, size, config, &arrays, report, error);
}

eitp_status eitp_chat_encode_weights(const eitp_chat *chat, const char *conversation, size_t size,
                                     const eitp_chat_config *config, int32_t *ids, float *weights, size_t capacity,
                                     eitp_chat_report *report, eitp_error *error) {
    const eitp__chat_arrays arrays = {ids, NULL, weights, capacity};
    if (!chat || !conversation || !report)
        return eitp__fail_null(error, "eitp_chat_encode_weights", "chat, conversation and report");
    return eitp__encode_conversation(chat, conversation, size, config, &arrays, report, error);
}
