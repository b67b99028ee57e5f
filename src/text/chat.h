/* Conversations: the messages of a chat as tokens, and which of them the model is to say. See docs/conversations.md. */
#ifndef EITP_CHAT_H
#define EITP_CHAT_H

#include "text/text.h"

EITP_BEGIN_DECLARATIONS

/*
 * The chat template of a tokenizer: the Jinja text that makes one text of a conversation's messages. It is read from
 * chat_template.jinja, or else from "chat_template" in tokenizer_config.json, in the directory of the tokenizer; of
 * several that are named there it is the one named "default". NULL if there is none, and for NULL; else *size, unless
 * `size` is NULL, receives its length. The text belongs to the tokenizer.
 */
EITP_API const char *eitp_tokenizer_chat_template(const eitp_tokenizer *tokenizer, size_t *size);

/* Gives the tokenizer another chat template, which is copied, and saved with it as chat_template.jinja. Call it before
   anything else uses the tokenizer. */
EITP_API eitp_status eitp_tokenizer_set_chat_template(eitp_tokenizer *tokenizer, const char *text, size_t size,
                                                      eitp_error *error);

/* A tokenizer with its chat template. Any number of threads may use one at the same time, if the host's allocator is
   thread-safe. */
typedef struct eitp_chat eitp_chat;

/*
 * Parses the chat template of a tokenizer, which must outlive the chat. EITP_ERROR_ARGUMENT if it has none;
 * EITP_ERROR_FORMAT, with the line, if it is not Jinja; EITP_ERROR_UNSUPPORTED if it uses Jinja that chat templates of
 * models do not use (docs/conversations.md has the list).
 */
EITP_API eitp_status eitp_chat_create(const eitp_tokenizer *tokenizer, eitp_chat **chat, eitp_error *error);

/* NULL is harmless. */
EITP_API void eitp_chat_destroy(eitp_chat *chat);

/* Which tokens of a conversation a model is trained on. */
typedef enum eitp_chat_targets {
    EITP_CHAT_ANSWERS = 0,     /* what the assistant says, and the token that ends its turn */
    EITP_CHAT_LAST_ANSWER = 1, /* that of its last turn alone */
    EITP_CHAT_EVERYTHING = 2   /* all tokens */
} eitp_chat_targets;

/* Start from eitp_chat_config_default(). */
typedef struct eitp_chat_config {
    eitp_chat_targets targets;
    int32_t max_length;        /* tokens after the first so many are cut; 0: none */
    int add_generation_prompt; /* nonzero: the text ends with what begins an answer */
    const char *values;        /* a JSON object with further values for the template, such as {"enable_thinking":
                                  false}; NULL: none */
    int64_t now;               /* seconds since 1970 in UTC, for templates that print the date; 0: the present */
} eitp_chat_config;

/* EITP_CHAT_ANSWERS, any length, no generation prompt, no values, the present. */
EITP_API eitp_chat_config eitp_chat_config_default(void);

typedef struct eitp_chat_report {
    size_t count;           /* tokens of the conversation, those that were cut not counted */
    size_t trained;         /* tokens of these that the model is trained on */
    size_t cut;             /* tokens that were cut */
    size_t before_trained;  /* tokens before the first one that the model is trained on, which may have been cut; of a
                               conversation without one, all its tokens */
    size_t answers;         /* turns of the assistant */
    uint64_t unknown_bytes; /* see eitp_encoder_unknown_bytes */
    int unread_tools; /* 1: the conversation has tools, no calls of them, and a template that does not read tools */
} eitp_chat_report;

/*
 * Renders a conversation as a text. `conversation` is the JSON text of an object, of `size` bytes, in one of these
 * forms, of which the first that has its members counts:
 *   - {"messages": [{"role": "user", "content": "..."}, ...], "tools": [...]}: messages go to the template with all of
 *     their members. A content may be a list of parts of type "text", which are joined for a template that reads no
 *     lists; other parts are EITP_ERROR_ARGUMENT.
 *   - {"conversations": [{"from": "human", "value": "..."}, ...]} (ShareGPT), with "human" for "user" and "gpt" for
 *     "assistant"; or with "role" and "content". "system" may be a member of the object.
 *   - {"prompt": ..., "completion": ...} or {"prompt": ..., "response": ...}: each a text, or a list of messages.
 *   - {"instruction": "...", "input": "...", "output": "..."} (Alpaca), also with "response" for "output" or "context"
 *     for "input" (Dolly): the input follows the instruction after an empty line. "system" may be a member.
 *   - {"question": "...", "context": "...", "answer": "..."} and {"input": "...", "output": "..."}: the same with these
 *     names.
 * Names of members count in upper and lower case.
 *
 * A message, and the conversation itself, may have a "weight" in the loss, a number of at least 0; null and an empty
 * text are 1. Calls of tools ("tool_calls", "function_call", and "tools" with calls) that the template does not read
 * are EITP_ERROR_ARGUMENT.
 *
 * Stores the length in *length and the first `capacity` bytes in `text`, without a terminating zero; `text` may be NULL
 * if capacity is 0. EITP_ERROR_ARGUMENT, with the reason, if the conversation has none of the forms, or the template
 * refuses it (raise_exception).
 */
EITP_API eitp_status eitp_chat_render(const eitp_chat *chat, const char *conversation, size_t size,
                                      const eitp_chat_config *config, char *text, size_t capacity, size_t *length,
                                      eitp_error *error);

/*
 * Encodes what eitp_chat_render makes of a conversation, without adding special tokens: the template has those that the
 * model expects. Stores the first `capacity` ids in `ids`, 1 in `trained` for those that the model is trained on and 0
 * for the others, and fills in *report: if report->count > capacity, the rest is missing. Either array may be NULL.
 * `config` may be NULL for the defaults.
 *
 * The answers are what {% generation %} blocks of the template mark, as in transformers; in a template without them,
 * what a loop over the messages writes for those of the assistant, without the header that it writes before each, and
 * up to the special token that ends a turn. A token that is partly in an answer is trained on. EITP_ERROR_UNSUPPORTED
 * if the template has neither, or a header depends on the answer (docs/conversations.md).
 */
EITP_API eitp_status eitp_chat_encode(const eitp_chat *chat, const char *conversation, size_t size,
                                      const eitp_chat_config *config, int32_t *ids, unsigned char *trained,
                                      size_t capacity, eitp_chat_report *report, eitp_error *error);

/* The same with the weight of each token in the loss: 0 of tokens that the model is not trained on, 1 of the others,
   times the weights of their message and of the conversation. */
EITP_API eitp_status eitp_chat_encode_weights(const eitp_chat *chat, const char *conversation, size_t size,
                                              const eitp_chat_config *config, int32_t *ids, float *weights,
                                              size_t capacity, eitp_chat_report *report, eitp_error *error);

/* The token that ends an answer in the template: a special token after its text. -1 if there is none, and for NULL. */
EITP_API int32_t eitp_chat_end_of_turn(const eitp_chat *chat);

EITP_END_DECLARATIONS

#endif
