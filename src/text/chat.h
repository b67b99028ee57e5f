/* Conversations: the messages of a chat as tokens, and the selection of tokens to train on. See
   docs/conversations.md. */
#ifndef EITP_CHAT_H
#define EITP_CHAT_H

#include "text/text.h"

EITP_BEGIN_DECLARATIONS

/*
 * Returns the chat template of a tokenizer: the Jinja source that turns the messages of a conversation into one string.
 * It is read from chat_template.jinja in the tokenizer's directory, or else from "chat_template" in
 * tokenizer_config.json. If that holds several, the one named "default" is used. Returns NULL without a template, and
 * for NULL. Otherwise *size, unless `size` is NULL, receives the length. The string belongs to the tokenizer.
 */
EITP_API const char *eitp_tokenizer_chat_template(const eitp_tokenizer *tokenizer, size_t *size);

/* Replaces the tokenizer's chat template with a copy of `text`, which is saved with the tokenizer as
   chat_template.jinja. Call this before anything else uses the tokenizer. */
EITP_API eitp_status eitp_tokenizer_set_chat_template(eitp_tokenizer *tokenizer, const char *text, size_t size,
                                                      eitp_error *error);

/* A tokenizer with its chat template. Any number of threads may use a chat at the same time, if the host's allocator is
   thread-safe. */
typedef struct eitp_chat eitp_chat;

/* Parses the chat template of a tokenizer, which must outlive the chat. EITP_ERROR_ARGUMENT if it has none.
   EITP_ERROR_FORMAT, with the line, if it is not valid Jinja. EITP_ERROR_UNSUPPORTED for Jinja that chat templates of
   models do not use (see the list in docs/conversations.md). */
EITP_API eitp_status eitp_chat_create(const eitp_tokenizer *tokenizer, eitp_chat **chat, eitp_error *error);

/* NULL is harmless. */
EITP_API void eitp_chat_destroy(eitp_chat *chat);

/* Tokens of a conversation that a model is trained on. */
typedef enum eitp_chat_targets {
    EITP_CHAT_ANSWERS = 0,     /* output of the assistant, and the token that ends its turn */
    EITP_CHAT_LAST_ANSWER = 1, /* only the assistant's last turn */
    EITP_CHAT_ALL = 2          /* all tokens */
} eitp_chat_targets;

/* Start from eitp_chat_config_default(). */
typedef struct eitp_chat_config {
    eitp_chat_targets targets;
    int32_t max_length;        /* the conversation is cut after this many tokens; 0: not cut */
    int add_generation_prompt; /* nonzero: append the start of an answer to the text */
    const char *values;        /* a JSON object of additional template variables, such as {"enable_thinking": false};
                                  NULL: none */
    int64_t now;               /* seconds since 1970 in UTC, for templates that print the date; 0: current time */
} eitp_chat_config;

/* Returns EITP_CHAT_ANSWERS, any length, no generation prompt, no values, the current time. */
EITP_API eitp_chat_config eitp_chat_config_default(void);

typedef struct eitp_chat_report {
    size_t count;           /* tokens of the conversation, excluding cut tokens */
    size_t trained;         /* number of these tokens that the model is trained on */
    size_t cut;             /* tokens that were cut */
    size_t before_trained;  /* tokens before the first one to train on, including cut ones; if none, all tokens */
    size_t answers;         /* turns of the assistant */
    uint64_t unknown_bytes; /* see eitp_encoder_unknown_bytes */
    int unread_tools;       /* 1: the conversation has tools but no calls, and the template does not read tools */
} eitp_chat_report;

/*
 * Renders a conversation as text. `conversation` is a JSON object, of `size` bytes, in the first of these forms whose
 * members it has:
 *   - {"messages": [{"role": "user", "content": "..."}, ...], "tools": [...]}: messages are passed to the template with
 *     all of their members. A content may be a list of parts of type "text", which are joined for a template that does
 *     not read lists; other parts are EITP_ERROR_ARGUMENT.
 *   - {"conversations": [{"from": "human", "value": "..."}, ...]} (ShareGPT), with "human" for "user" and "gpt" for
 *     "assistant"; or with "role" and "content". "system" may be a member of the object.
 *   - {"prompt": ..., "completion": ...} or {"prompt": ..., "response": ...}: each is a string or a list of messages.
 *   - {"instruction": "...", "input": "...", "output": "..."} (Alpaca), also with "response" for "output" or "context"
 *     for "input" (Dolly): the input follows the instruction after an empty line. "system" may be a member.
 *   - {"question": "...", "context": "...", "answer": "..."} and {"input": "...", "output": "..."}: likewise.
 * Names of members are case-insensitive.
 *
 * A message, and the conversation itself, may have a "weight" in the loss, a number of at least 0; null and an empty
 * string mean 1. Tool calls ("tool_calls", "function_call", and "tools" with calls) that the template does not read are
 * EITP_ERROR_ARGUMENT.
 *
 * Stores the length in *length and the first `capacity` bytes in `text`, without a terminating zero. `text` may be NULL
 * if capacity is 0. EITP_ERROR_ARGUMENT, with the reason, if the conversation has none of these forms, or the template
 * refuses it (raise_exception).
 */
EITP_API eitp_status eitp_chat_render(const eitp_chat *chat, const char *conversation, size_t size,
                                      const eitp_chat_config *config, char *text, size_t capacity, size_t *length,
                                      eitp_error *error);

/*
 * Encodes the text that eitp_chat_render produces, without adding special tokens, because the template contains those
 * that the model expects. Stores the first `capacity` ids in `ids`, and in `trained` 1 for ids that the model is
 * trained on and 0 for the others, and fills in *report. If report->count > capacity, the rest is missing. Either array
 * may be NULL. `config` may be NULL for the defaults.
 *
 * Answers are marked by {% generation %} blocks of the template, as in transformers. Without such blocks, an answer
 * is the output of a loop over the messages for a message of the assistant, without the header before it, and up to the
 * special token that ends the turn. A token that is partly in an answer is trained on. EITP_ERROR_UNSUPPORTED if the
 * template has neither, or a header depends on the answer (docs/conversations.md).
 */
EITP_API eitp_status eitp_chat_encode(const eitp_chat *chat, const char *conversation, size_t size,
                                      const eitp_chat_config *config, int32_t *ids, unsigned char *trained,
                                      size_t capacity, eitp_chat_report *report, eitp_error *error);

/* Like eitp_chat_encode, with the weight of each token in the loss: 0 for tokens that the model is not trained on;
   otherwise the message's weight times the conversation's. */
EITP_API eitp_status eitp_chat_encode_weights(const eitp_chat *chat, const char *conversation, size_t size,
                                              const eitp_chat_config *config, int32_t *ids, float *weights,
                                              size_t capacity, eitp_chat_report *report, eitp_error *error);

/* Returns the token that ends an answer in the template: a special token after its text. -1 without one, and for
   NULL. */
EITP_API int32_t eitp_chat_end_of_turn(const eitp_chat *chat);

EITP_END_DECLARATIONS

#endif
