/* Contents of messages: texts, or lists of their parts, which not every chat template reads. */
#ifndef EITP_MESSAGE_CONTENTS_H
#define EITP_MESSAGE_CONTENTS_H

#include "text/conversation.h"

/* Refuses what a text model cannot read in messages of users, assistants and systems: contents that are neither texts
   nor lists of parts, and parts that are not texts. The messages have roles. EITP_ERROR_ARGUMENT. */
EITP__PRIVATE eitp_status eitp__check_contents(const eitp_json *messages, eitp_error *error);

/* What eitp__make_plain changes besides roles. */
typedef struct eitp__plain_contents {
    int joins_parts; /* a list of texts becomes one text */
    int fills_nulls; /* null, as of a message that calls tools, becomes the empty text */
} eitp__plain_contents;

/* Rewrites the messages of a conversation where a role is known but for the case of its letters, and as `how` says. */
EITP__PRIVATE eitp_status eitp__make_plain(const eitp_host *host, eitp__conversation *conversation,
                                           const eitp__plain_contents *how, eitp_error *error);

#endif
