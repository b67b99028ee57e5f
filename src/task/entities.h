/* Entities in word labels such as B-PER, I-PER and O. */
#ifndef EITP_ENTITIES_H
#define EITP_ENTITIES_H

#include "base/base.h"

EITP_BEGIN_DECLARATIONS

/* An entity: consecutive words. */
typedef struct eitp_entity {
    const char *type;    /* label of the first word, without its prefix */
    int64_t first, last; /* words, from 0 */
} eitp_entity;

/* True if labels mark entities. Each label must be "O" (outside) or a type with one of the prefixes "B-" (first word of
   an entity), "I-" (inside it), "E-" (last word) and "S-" (single word), and at least one must have a prefix. */
EITP_API int eitp_labels_mark_entities(const char *const *names, int64_t count);

/*
 * Finds the entities in a sequence of word labels and stores them in order in `entities`, which has room for `count` of
 * them or is NULL. Returns their number. A NULL label stands for a word without a label, which is outside.
 *
 * An I or E label continues the entity of a B or I label before it if the types are the same. Any other label that is
 * not outside starts a new entity. These rules cover IOB1, IOB2 and BIOES, and also labels that follow none of these
 * schemes. They give the same entities as conlleval (Tjong Kim Sang and Buchholz, "Introduction to the CoNLL-2000
 * Shared Task: Chunking", 2000) and, by default, seqeval.
 */
EITP_API int64_t eitp_find_entities(const char *const *labels, int64_t count, eitp_entity *entities);

EITP_END_DECLARATIONS

#endif
