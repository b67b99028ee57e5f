/* Entities in labels of words, such as B-PER, I-PER and O. */
#ifndef EITP_ENTITIES_H
#define EITP_ENTITIES_H

#include "base/base.h"

EITP_BEGIN_DECLARATIONS

/* Words that are one entity. */
typedef struct eitp_entity {
    const char *type;    /* of the label of the first word, what follows the prefix */
    int64_t first, last; /* words, from 0 */
} eitp_entity;

/*
 * True if labels mark entities: each is "O", for outside, or one of the prefixes "B-" (begins an entity), "I-" (is
 * inside it), "E-" (ends it) and "S-" (is one alone) with a type, and there is one of the latter.
 */
EITP_API int eitp_labels_mark_entities(const char *const *names, int64_t count);

/*
 * Finds the entities of a text from the labels of its words, in their order, and stores them in `entities`, which has
 * room for `count` of them or is NULL. Returns their number. NULL stands for a word without a label, which is outside.
 *
 * An I or E goes on with the entity of a B or I before it if the types are the same; any other label of a word that is
 * not outside begins one. These are the entities of IOB1, IOB2 and BIOES, and of labels that keep to none of them; they
 * are those of conlleval (Tjong Kim Sang and Buchholz, "Introduction to the CoNLL-2000 Shared Task: Chunking", 2000),
 * and of seqeval by default.
 */
EITP_API int64_t eitp_find_entities(const char *const *labels, int64_t count, eitp_entity *entities);

EITP_END_DECLARATIONS

#endif
