#include "gguf/tokenizer_merges.h"

#include "base/json.h"
#include "base/memory.h"
#include "base/sort.h"

#define EITP__GGUF_MERGES_KEY "tokenizer.ggml.merges"
#define EITP__GGUF_SCORES_KEY "tokenizer.ggml.scores"

/* Limits for small files that expand to many merges: four times as many as Gemma 3 has. */
#define EITP__GGUF_MAX_MERGES ((size_t)1 << 21)
#define EITP__GGUF_MAX_MERGE_BYTES ((size_t)64 << 20)

/* ---- Merges in the file ---- */

static const char eitp__gguf_not_a_merge[] = "key '%s': merge %zu, \"%.*s\", %s";

/* Checks a merge "left right", whose parts and result must be tokens. */
static eitp_status eitp__gguf_check_merge(const eitp__gguf_pieces *pieces, size_t rank, eitp__gguf_text merge,
                                          eitp_error *error) {
    const eitp__gguf_text none = {"", 0};
    const char *space = merge.size > 2 ? (const char *)memchr(merge.data + 1, ' ', merge.size - 2) : NULL;
    eitp__gguf_text left = merge, right = merge;
    if (!space)
        return eitp__fail(error, EITP_ERROR_FORMAT, eitp__gguf_not_a_merge, EITP__GGUF_MERGES_KEY, rank,
                          eitp__gguf_shown(merge), merge.data, "is not two tokens with a space between them");
    left.size = (size_t)(space - merge.data);
    right.data = space + 1;
    right.size = merge.size - left.size - 1;
    if (eitp__gguf_piece_find(pieces, left, none) >= 0 && eitp__gguf_piece_find(pieces, right, none) >= 0 &&
        eitp__gguf_piece_find(pieces, left, right) >= 0)
        return EITP_OK;
    return eitp__fail(error, EITP_ERROR_FORMAT, eitp__gguf_not_a_merge, EITP__GGUF_MERGES_KEY, rank,
                      eitp__gguf_shown(merge), merge.data, "has a part or result that is not among the tokens");
}

static eitp_status eitp__gguf_write_stored_merges(const eitp__gguf_tokenizer *tokenizer, eitp__buffer *text,
                                                  eitp_error *error) {
    const eitp__gguf_value *merges;
    const unsigned char *at;
    eitp_status status = eitp__gguf_get_array(tokenizer->gguf, EITP__GGUF_MERGES_KEY, 1, &merges, error);
    if (!status && !merges)
        status = eitp__fail(error, EITP_ERROR_FORMAT, "key '%s' is missing", EITP__GGUF_MERGES_KEY);
    if (status)
        return status;
    at = merges->at;
    for (size_t rank = 0; rank < merges->count && !status; rank++) {
        const eitp__gguf_text merge = eitp__gguf_next_text(&at);
        status = eitp__gguf_check_merge(&tokenizer->pieces, rank, merge, error);
        eitp__buffer_add_text(text, rank ? ",\n" : "\n");
        eitp__json_write_text(text, merge.data, merge.size);
    }
    return status;
}

/* ---- Merges from scores ---- */

typedef struct eitp__gguf_merge {
    double score;
    uint32_t id, left; /* the merged token; bytes of its left part */
    uint32_t left_characters, right_characters;
} eitp__gguf_merge;

typedef struct eitp__gguf_merge_list {
    const eitp__gguf_tokenizer *tokenizer;
    const eitp__gguf_value *scores; /* NULL: later tokens have lower scores */
    eitp__gguf_merge *merges;
    size_t count, capacity;
} eitp__gguf_merge_list;

/* Users' tokens had the score 0 in the SentencePiece model; the converter replaces it. */
static double eitp__gguf_score(const eitp__gguf_merge_list *list, size_t id) {
    if (!list->scores)
        return -(double)id;
    return eitp__gguf_piece_type(&list->tokenizer->pieces, id) == EITP__GGUF_USER_DEFINED
               ? 0
               : eitp__gguf_number_at(list->scores, id);
}

static int eitp__gguf_add_merge(void *user, size_t id, size_t left, size_t left_characters, size_t right_characters) {
    eitp__gguf_merge_list *list = (eitp__gguf_merge_list *)user;
    void *merges = list->merges;
    eitp__gguf_merge *merge;
    if (list->count == EITP__GGUF_MAX_MERGES ||
        !eitp__reserve(&list->tokenizer->gguf->host, &merges, &list->capacity, list->count + 1, sizeof *merge))
        return 0;
    list->merges = (eitp__gguf_merge *)merges;
    merge = &list->merges[list->count++];
    merge->score = eitp__gguf_score(list, id);
    merge->id = (uint32_t)id;
    merge->left = (uint32_t)left;
    merge->left_characters = (uint32_t)left_characters;
    merge->right_characters = (uint32_t)right_characters;
    return 1;
}

/* Orders merges like transformers: by falling score, then size of the left and of the right part, then rising id. */
static int eitp__gguf_compare_merges(const void *a, const void *b) {
    const eitp__gguf_merge *left = (const eitp__gguf_merge *)a, *right = (const eitp__gguf_merge *)b;
    if (left->score != right->score)
        return left->score > right->score ? -1 : 1;
    if (left->left_characters != right->left_characters)
        return left->left_characters > right->left_characters ? -1 : 1;
    if (left->right_characters != right->right_characters)
        return left->right_characters > right->right_characters ? -1 : 1;
    return left->id < right->id ? -1 : left->id > right->id;
}

static eitp_status eitp__gguf_check_scores(const eitp__gguf_pieces *pieces, const eitp__gguf_value *scores,
                                           int *are_equal, eitp_error *error) {
    double first = 0;
    size_t found = 0;
    if (!scores)
        return eitp__fail(error, EITP_ERROR_FORMAT, "key '%s' is missing", EITP__GGUF_SCORES_KEY);
    if (scores->kind == EITP__GGUF_BOOL || scores->count != pieces->count)
        return eitp__fail(error, EITP_ERROR_FORMAT, "key '%s' must be an array of %zu numbers, one for each token",
                          EITP__GGUF_SCORES_KEY, pieces->count);
    *are_equal = 1;
    for (size_t id = 0; id < pieces->count; id++) {
        const double score = eitp__gguf_number_at(scores, id);
        if (!(score - score == 0))
            return eitp__fail(error, EITP_ERROR_FORMAT, "key '%s': the score of token %zu is not a finite number",
                              EITP__GGUF_SCORES_KEY, id);
        if (eitp__gguf_piece_type(pieces, id) != EITP__GGUF_NORMAL)
            continue;
        *are_equal = *are_equal && (!found++ || score == first);
        first = score;
    }
    return EITP_OK;
}

/* Reads the scores. If the converter did not know them, the tokens' order stands for them. */
static eitp_status eitp__gguf_read_scores(eitp__gguf_merge_list *list, eitp_error *error) {
    int are_equal = 0;
    eitp_status status = eitp__gguf_get_array(list->tokenizer->gguf, EITP__GGUF_SCORES_KEY, 0, &list->scores, error);
    if (!status)
        status = eitp__gguf_check_scores(&list->tokenizer->pieces, list->scores, &are_equal, error);
    if (are_equal)
        list->scores = NULL;
    return status;
}

static eitp_status eitp__gguf_find_merges(eitp__gguf_merge_list *list, eitp_error *error) {
    const eitp__gguf_pieces *pieces = &list->tokenizer->pieces;
    for (size_t id = 0; id < pieces->count; id++) {
        if (memchr(pieces->texts[id].data, ' ', pieces->texts[id].size))
            continue; /* no text has spaces when it is merged */
        if (eitp__gguf_piece_splits(pieces, id, eitp__gguf_add_merge, list))
            continue;
        return list->count < EITP__GGUF_MAX_MERGES
                   ? eitp__fail_memory(error, (list->count + 1) * sizeof *list->merges, "the merges of a GGUF file")
                   : eitp__fail(error, EITP_ERROR_UNSUPPORTED, "key '%s': the tokens have more than %zu merges",
                                EITP__GGUF_TOKENS_KEY, EITP__GGUF_MAX_MERGES);
    }
    eitp__sort(list->merges, list->count, sizeof *list->merges, eitp__gguf_compare_merges);
    return EITP_OK;
}

static eitp_status eitp__gguf_write_list(const eitp__gguf_merge_list *list, eitp__buffer *text, eitp_error *error) {
    const size_t begin = text->size;
    eitp__buffer both;
    eitp__buffer_init(&both, &list->tokenizer->gguf->host);
    for (size_t rank = 0; rank < list->count && text->size - begin < EITP__GGUF_MAX_MERGE_BYTES; rank++) {
        const eitp__gguf_merge *merge = &list->merges[rank];
        const eitp__gguf_text piece = list->tokenizer->pieces.texts[merge->id];
        eitp__buffer_clear(&both);
        eitp__buffer_add(&both, piece.data, merge->left);
        eitp__buffer_add_text(&both, " ");
        eitp__buffer_add(&both, piece.data + merge->left, piece.size - merge->left);
        text->failed |= both.failed;
        eitp__buffer_add_text(text, rank ? ",\n" : "\n");
        eitp__json_write_text(text, both.data, both.size);
    }
    eitp__buffer_release(&both);
    return text->size - begin < EITP__GGUF_MAX_MERGE_BYTES
               ? EITP_OK
               : eitp__fail(error, EITP_ERROR_UNSUPPORTED, "key '%s': the tokens' merges have more than %zu bytes",
                            EITP__GGUF_TOKENS_KEY, EITP__GGUF_MAX_MERGE_BYTES);
}

static eitp_status eitp__gguf_write_derived_merges(const eitp__gguf_tokenizer *tokenizer, eitp__buffer *text,
                                                   eitp_error *error) {
    eitp__gguf_merge_list list = EITP__ZERO;
    eitp_status status;
    list.tokenizer = tokenizer;
    status = eitp__gguf_read_scores(&list, error);
    if (!status)
        status = eitp__gguf_find_merges(&list, error);
    if (!status)
        status = eitp__gguf_write_list(&list, text, error);
    eitp__release(&tokenizer->gguf->host, list.merges, list.capacity * sizeof *list.merges);
    return status;
}

EITP__PRIVATE eitp_status eitp__gguf_write_merges(const eitp__gguf_tokenizer *tokenizer, eitp__buffer *text,
                                                  eitp_error *error) {
    eitp_status status;
    eitp__buffer_add_text(text, "[");
    status = tokenizer->kind == EITP__GGUF_BYTE_LEVEL ? eitp__gguf_write_stored_merges(tokenizer, text, error)
                                                      : eitp__gguf_write_derived_merges(tokenizer, text, error);
    eitp__buffer_add_text(text, "]");
    return status;
}
