/* Conversations as files have them, in the one form that chat templates read. */
#ifndef EITP_CONVERSATION_H
#define EITP_CONVERSATION_H

#include "base/json.h"

/* Its documents; `messages` is a list of objects, each with a role, and `tools` a list or NULL. */
typedef struct eitp__conversation {
    eitp_json_document *row, *made, *made_tools; /* as it was written; rewritten; tools that were a text */
    eitp_json_document *plain;                   /* messages with plain contents */
    const eitp_json *messages, *tools;
    double weight; /* of the row, in the loss */
} eitp__conversation;

/* Parses the JSON text of a conversation (eitp_chat_render). One that has none of the forms is EITP_ERROR_ARGUMENT.
   Release it even after a failure. */
EITP__PRIVATE eitp_status eitp__conversation_parse(const eitp_host *host, const char *text, size_t size,
                                                   eitp__conversation *conversation, eitp_error *error);
EITP__PRIVATE void eitp__conversation_release(eitp__conversation *conversation);

/* Reads the weight that an object has in the loss: 1 if "weight" is missing, null or an empty text. Anything else but a
   number of at least 0 is EITP_ERROR_ARGUMENT. */
EITP__PRIVATE eitp_status eitp__read_weight(const eitp_json *object, double *weight, eitp_error *error);

/* True if a message is one that the model says. */
EITP__PRIVATE int eitp__message_is_answer(const eitp_json *message);

/* True if an object has the members of one of the forms. */
EITP__PRIVATE int eitp__has_conversation(const eitp_json *object);

/* Refuses a row of a form that belongs to a kind of training that eitp does not have: pairs of preferred and rejected
   answers, judged answers, images, sound. EITP_ERROR_ARGUMENT. */
EITP__PRIVATE eitp_status eitp__refuse_other_training(const eitp_json *row, eitp_error *error);

/* Fails with EITP_ERROR_ARGUMENT because a row has none of the forms: the message has its members, the forms, and the
   nearest of them. `other` is another member that it could have; NULL: none. */
EITP__PRIVATE eitp_status eitp__fail_form(const eitp_host *host, const eitp_json *row, const char *other,
                                          eitp_error *error);

/* Fails because what the caller gave is not JSON, which is the caller's mistake; `what` it is. */
EITP__PRIVATE eitp_status eitp__fail_member(eitp_error *error, eitp_status status, const char *what);

#endif
