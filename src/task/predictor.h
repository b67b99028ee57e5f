/*
 * Prediction: the scores of a classifier, or embeddings, for any number of texts. Texts are encoded, and packed without
 * padding into passes of bounded size.
 */
#ifndef EITP_PREDICTOR_H
#define EITP_PREDICTOR_H

#include "model/latent.h"
#include "text/text.h"

EITP_BEGIN_DECLARATIONS

/* What is computed for each text. */
typedef enum eitp_prediction {
    EITP_PREDICT_SCORES = 0,      /* what a classifier says of the labels: eitp_model_scores */
    EITP_PREDICT_EMBEDDINGS = 1,  /* one vector, the pooled hidden states; a head is ignored */
    EITP_PREDICT_WORD_SCORES = 2, /* what a classifier of tokens says of each word: eitp_model_token_scores, of the
                                     word's first token, or the first that is left of it */
    EITP_PREDICT_MEANS = 3        /* the mean of the latent variable of a model with an encoder, which reads the texts.
                                     The tokenizer is the encoder's */
} eitp_prediction;

/* How the hidden states of a text's tokens, special tokens included, become its embedding; in parentheses, the words of
   sentence-transformers (Reimers and Gurevych, "Sentence-BERT", arXiv 1908.10084). */
typedef enum eitp_embedding_pooling {
    EITP_EMBEDDING_MEAN = 0,            /* ("mean_tokens") */
    EITP_EMBEDDING_FIRST = 1,           /* that of the first token ("cls_token") */
    EITP_EMBEDDING_MAX = 2,             /* of each element the largest ("max_tokens") */
    EITP_EMBEDDING_LAST = 3,            /* that of the last token ("lasttoken") */
    EITP_EMBEDDING_MEAN_SQRT_LENGTH = 4 /* their sum, divided by the root of their number ("mean_sqrt_len_tokens") */
} eitp_embedding_pooling;

/* Number of values of eitp_embedding_pooling. */
#define EITP_EMBEDDING_POOLING_COUNT 5

/* The default of pass_tokens, unless max_length is more. */
#define EITP_PASS_TOKENS 2048

/* Start from eitp_predictor_config_default(). */
typedef struct eitp_predictor_config {
    eitp_prediction prediction;
    eitp_embedding_pooling pooling; /* of embeddings */
    int normalize;                  /* divide embeddings by their Euclidean norm */
    int64_t max_length;             /* tokens of a sequence; longer ones are cut; 0: the model's positions */
    eitp_truncation truncation;     /* what is cut of them */
    int truncate_left;              /* see eitp_sequence_defaults */
    /* Maximum number of tokens in a pass, at least max_length. More take more memory, and fewer passes. 0:
       EITP_PASS_TOKENS, or max_length if that is more. Results do not depend on it. */
    int64_t pass_tokens;
    int omit_special_tokens; /* see eitp_sequence_config */
} eitp_predictor_config;

/*
 * Scores, of words if the model has a classifier of tokens, means if it has an encoder, or the normalized mean, of
 * sequences as the tokenizer's files have them (eitp_tokenizer_sequence_defaults): cut to the length of "truncation",
 * else to model_max_length, and never longer than the positions of the model that reads them. Zeros for NULL.
 */
EITP_API eitp_predictor_config eitp_predictor_config_default(const eitp_model *model, const eitp_tokenizer *tokenizer);

/*
 * Sets what a directory of sentence-transformers says of embeddings: `prediction`, `pooling` from the config.json of
 * the directory that modules.json names, "1_Pooling" without one, and max_length from sentence_bert_config.json, at
 * most `positions`. A directory without these files only sets `prediction`. Modules other than Transformer, Pooling and
 * Normalize, and other kinds of pooling or several at a time, are EITP_ERROR_UNSUPPORTED and named. `normalize` is not
 * changed.
 */
EITP_API eitp_status eitp_embedding_config_read(const eitp_host *host, const char *directory, int64_t positions,
                                                eitp_predictor_config *config, eitp_error *error);

/*
 * A predictor. After its creation it allocates only what eitp_tokenizer_encode_sequence does. Model and tokenizer must
 * outlive it; it belongs to the context's thread.
 */
typedef struct eitp_predictor eitp_predictor;

/*
 * EITP_ERROR_UNSUPPORTED if the configuration asks for scores and the model has no classifier; EITP_ERROR_ARGUMENT
 * names an invalid member, and tells if the tokenizer has more tokens than the model's vocabulary.
 */
EITP_API eitp_status eitp_predictor_create(const eitp_model *model, const eitp_tokenizer *tokenizer,
                                           const eitp_predictor_config *config, eitp_predictor **predictor,
                                           eitp_error *error);

/* NULL is harmless. */
EITP_API void eitp_predictor_destroy(eitp_predictor *predictor);

/*
 * The bytes that a predictor of this configuration takes besides the model and the tokenizer: those of its passes,
 * which it shares with other plans of the context, and its buffers. The model may be one of a context with plans_only.
 */
EITP_API eitp_status eitp_predictor_estimate(const eitp_model *model, const eitp_predictor_config *config,
                                             size_t *bytes, eitp_error *error);

/* Number of values for each text: the labels of the classifier, the width of the model, or the units of the latent
   variable. 0 for NULL. */
EITP_API int64_t eitp_predictor_width(const eitp_predictor *predictor);

/* The configuration, with max_length and pass_tokens as they are used. Zeros for NULL. */
EITP_API eitp_predictor_config eitp_predictor_get_config(const eitp_predictor *predictor);

/* What a classifier's scores stand for: EITP_PROBLEM_TOKENS for one of tokens. Where the config.json of another does
   not say: EITP_PROBLEM_SINGLE_LABEL with several labels, EITP_PROBLEM_MULTI_LABEL with one, as in the pipelines of
   transformers. */
EITP_API eitp_problem eitp_predictor_problem(const eitp_predictor *predictor);

/* A text, or a pair of texts; or for EITP_PREDICT_WORD_SCORES the words of a text. */
typedef struct eitp_text_pair {
    eitp_text first;
    eitp_text second; /* `bytes` NULL: there is one text */
    const eitp_text *words;
    size_t word_count;
} eitp_text_pair;

typedef struct eitp_prediction_report {
    int64_t tokens;    /* computed */
    int64_t cut;       /* texts that lost tokens, */
    int64_t cut_words; /* and the words that lost all of them */
    int64_t passes;
} eitp_prediction_report;

/*
 * Computes values[count][width] for `count` texts, in their order; with EITP_PREDICT_WORD_SCORES values[n][width] for
 * the n words of all texts, -INFINITY for words without a token. With eitp's own matrix products, the values of a text
 * have the same bits whatever texts are computed with it. A text without any token is computed as end-of-text. Fills in
 * *report, which may be NULL.
 *
 * Errors name the text by its number, from 1, of all that the predictor has been given: EITP_ERROR_ARGUMENT for a text
 * that cannot be cut, or that has no token where the tokenizer has no end-of-text. *values is undefined after one.
 */
EITP_API eitp_status eitp_predict(eitp_predictor *predictor, const eitp_text_pair *texts, int64_t count, float *values,
                                  eitp_prediction_report *report, eitp_error *error);

/* Turns scores[count][width] into probabilities, by the problem: their softmax, or the sigmoid of each; predicted
   numbers stay, and so do words without a token. Both may be the same array. */
EITP_API void eitp_predictor_probabilities(const eitp_predictor *predictor, const float *scores, int64_t count,
                                           float *probabilities);

/*
 * Stores the likeliest label of a text of `size` bytes, and its probability, which may be NULL. The text may be NULL if
 * size is 0. The name of the label belongs to the model: see eitp_model_label. A text is cut as
 * with eitp_predictor_config_default. Each call creates and destroys a predictor: for many texts keep one, and call
 * eitp_predict.
 *
 * EITP_ERROR_UNSUPPORTED if the model does not choose one label for a text: it labels words, predicts numbers, gives
 * several labels at a time, or has no classifier; the message names the function to use instead.
 * EITP_ERROR_NOT_FINITE if a score is not finite. Outputs are unchanged after an error.
 */
EITP_API eitp_status eitp_classify_text(const eitp_model *model, const eitp_tokenizer *tokenizer, const char *text,
                                        size_t size, const char **label, double *probability, eitp_error *error);

EITP_END_DECLARATIONS

#endif
