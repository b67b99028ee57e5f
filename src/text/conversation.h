/* Conversations in the forms used by files, converted to the form that chat templates read. */
#ifndef EITP_CONVERSATION_H
#define EITP_CONVERSATION_H

#include "base/json.h"

/* The documents of a conversation. `messages` is a list of objects, each with a role. `tools` is a list or NULL. */
typedef struct eitp__conversation {
    eitp_json_document *row, *made, *made_tools; /* as read; rewritten; tools that were given as a string */
    eitp_json_document *plain;                   /* messages with plain contents */
    const eitp_json *messages, *tools;
    double weight; /* weight of the row in the loss */
} eitp__conversation;

/* Parses a conversation from JSON (eitp_chat_render). EITP_ERROR_ARGUMENT if it has none of the forms. Release it even
   after a failure. */
EITP__PRIVATE eitp_status eitp__conversation_parse(const eitp_host *host, const char *text, size_t size,
                                                   eitp__conversation *conversation, eitp_error *error);
EITP__PRIVATE void eitp__conversation_release(eitp__conversation *conversation);

/* Reads an object's weight in the loss: 1 if "weight" is missing, null or an empty string. EITP_ERROR_ARGUMENT for any
   other value that is not a number of at least 0. */
EITP__PRIVATE eitp_status eitp__read_weight(const eitp_json *object, double *weight, eitp_error *error);

/* True if the model is to write the message. */
EITP__PRIVATE int eitp__message_is_answer(const eitp_json *message);

/* True if an object has the members of one of the forms. */
EITP__PRIVATE int eitp__has_conversation(const eitp_json *object);

/* Refuses a row whose form belongs to a kind of training that eitp does not support: pairs of preferred and rejected
   answers, rated answers, images, sound. EITP_ERROR_ARGUMENT. */
EITP__PRIVATE eitp_status eitp__refuse_other_training(const eitp_json *row, eitp_error *error);

/* Fails with EITP_ERROR_ARGUMENT because a row has none of the forms. The message lists its members, the forms, and the
   nearest form. `other` is another member that the row could have, or NULL. */
EITP__PRIVATE eitp_status eitp__fail_form(const eitp_host *host, const eitp_json *row, const char *other,
                                          eitp_error *error);

/* Fails because the caller's input, described by `what`, is not JSON. */
EITP__PRIVATE eitp_status eitp__fail_member(eitp_error *error, eitp_status status, const char *what);

#endif
