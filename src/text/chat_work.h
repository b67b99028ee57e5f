/* State of encoding a conversation: its text by the chat template, and then its tokens. */
#ifndef EITP_CHAT_WORK_H
#define EITP_CHAT_WORK_H

#include "template/chat_template.h"
#include "text/chat.h"
#include "text/conversation.h"
#include "text/tokenizer.h"

struct eitp_chat {
    const eitp_tokenizer *tokenizer;
    eitp__chat_template *text;
    int32_t end_of_turn;
    int reads_parts;   /* a content may be a list of text parts */
    int has_plain_end; /* around the token that ends an answer's turn the template writes only white space */
};

/* Output of a template, with its spans. */
typedef struct eitp__chat_output {
    eitp__buffer text;
    eitp__chat_spans spans;
} eitp__chat_output;

/* Bytes or tokens [begin, end). */
typedef struct eitp__chat_range {
    size_t begin, end;
} eitp__chat_range;

/* A part of the text that is written for an answer: [begin, end). */
typedef struct eitp__chat_answer {
    size_t message; /* index in the conversation */
    size_t begin, end;
    size_t content, content_end; /* if has_content: position of its content in the text */
    int has_content;
    eitp__chat_range tokens; /* tokens to train on; empty until they are known, and if the template marks answers */
} eitp__chat_answer;

/* A conversation being encoded. */
typedef struct eitp__chat_encoding {
    const eitp_chat *chat;
    const eitp_chat_config *config;
    const eitp_host *host;
    eitp__conversation conversation;
    eitp__chat_output rendered;
    eitp__buffer prompt; /* output for add_generation_prompt */
    eitp__chat_answer *answers;
    size_t answer_count, answer_capacity;
    int32_t *ids; /* ids of the whole text */
    size_t count, id_capacity;
    uint64_t unknown_bytes; /* see eitp_encoder_unknown_bytes */
    size_t *offsets;        /* [count + 1]: offset of each token, in bytes of tokens */
    size_t offset_capacity;
    unsigned char *trained; /* [count] */
    size_t trained_capacity;
    float *weights; /* [count]: weights in the loss; NULL: 1 for tokens that are trained on */
    size_t weight_capacity;
} eitp__chat_encoding;

EITP__PRIVATE void eitp__chat_encoding_init(eitp__chat_encoding *work, const eitp_chat *chat,
                                            const eitp_chat_config *config);
EITP__PRIVATE void eitp__chat_encoding_release(eitp__chat_encoding *work);

EITP__PRIVATE void eitp__chat_output_init(eitp__chat_output *output, const eitp_host *host);
EITP__PRIVATE void eitp__chat_output_release(eitp__chat_output *output);

/* Renders messages into an empty output, with the tools of the conversation. */
EITP__PRIVATE eitp_status eitp__chat_render(const eitp__chat_encoding *work, const eitp_json *messages, int adds_prompt,
                                            eitp__chat_output *output, eitp_error *error);

/* Parses a conversation and renders it. */
EITP__PRIVATE eitp_status eitp__chat_prepare(eitp__chat_encoding *work, const char *conversation, size_t size,
                                             eitp_error *error);

/* Finds the next part of the output that is written for a message of the assistant, starting at span *at. Advances *at
   past it. Returns 0 after the last one. Adjacent spans form one part. */
EITP__PRIVATE int eitp__chat_next_answer(const eitp_json *messages, const eitp__chat_output *output, size_t *at,
                                         eitp__chat_answer *answer);

/* Finds the contents of work->answers in the text, where the template writes them once and unchanged, and nothing else
   depends on them. */
EITP__PRIVATE eitp_status eitp__chat_find_contents(eitp__chat_encoding *work, eitp_error *error);

/* Moves the start of an answer past the template's output for the messages before it with a generation prompt.
   *is_found is 0 if the text does not start with that output. */
EITP__PRIVATE eitp_status eitp__chat_skip_prompt(const eitp__chat_encoding *work, eitp__chat_answer *answer,
                                                 int *is_found, eitp_error *error);

/* Sets work->prompt to the output that add_generation_prompt adds after a question. */
EITP__PRIVATE eitp_status eitp__chat_find_prompt(eitp__chat_encoding *work, eitp_error *error);

/* Sets chat->end_of_turn, the first special token after an answer or -1, and chat->has_plain_end. */
EITP__PRIVATE eitp_status eitp__chat_find_end_of_turn(eitp_chat *chat, eitp_error *error);

/* Sets chat->reads_parts. */
EITP__PRIVATE eitp_status eitp__chat_find_parts(eitp_chat *chat, eitp_error *error);

/* Finds the answers in the text. *are_marked is 1 if the template marks them. Sets report->answers. */
EITP__PRIVATE eitp_status eitp__chat_find_answers(eitp__chat_encoding *work, eitp_chat_report *report, int *are_marked,
                                                  eitp_error *error);

/* Encodes the text, and marks the tokens of the answers. */
EITP__PRIVATE eitp_status eitp__chat_encode(eitp__chat_encoding *work, int are_marked, eitp_error *error);

/* Finds the first token of a range of the text and the one after its last. Both are 0 if it has none. Requires the
   tokens. */
EITP__PRIVATE eitp_status eitp__chat_find_tokens(const eitp__chat_encoding *work, eitp__chat_range text,
                                                 eitp__chat_range *tokens, eitp_error *error);

/* Multiplies the weights of tokens that are trained on by the weights of their messages and of the conversation. Tokens
   of weight 0 are not trained on. */
EITP__PRIVATE eitp_status eitp__chat_apply_weights(eitp__chat_encoding *work, eitp_error *error);

/* Refuses tool calls that the template does not read. *unread is 1 if the conversation has tools that the template does
   not read, but no calls. */
EITP__PRIVATE eitp_status eitp__chat_check_tools(const eitp__chat_encoding *work, int *unread, eitp_error *error);

/* True if the text is only white space; true if the token is recognized in the text itself. */
EITP__PRIVATE int eitp__chat_is_blank(const char *text, size_t size);
EITP__PRIVATE int eitp__chat_is_special(const eitp_tokenizer *tokenizer, int32_t id);

#endif
