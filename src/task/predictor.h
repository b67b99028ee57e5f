/* Prediction: computes the scores of a classifier, or embeddings, for any number of inputs. Inputs are encoded and
   packed without padding into passes of bounded size. */
#ifndef EITP_PREDICTOR_H
#define EITP_PREDICTOR_H

#include "model/latent.h"
#include "text/text.h"

EITP_BEGIN_DECLARATIONS

/* The result computed for each input. */
typedef enum eitp_prediction {
    EITP_PREDICT_SCORES = 0,      /* scores of the labels: eitp_model_scores */
    EITP_PREDICT_EMBEDDINGS = 1,  /* one vector, pooled from the hidden states; a head is ignored */
    EITP_PREDICT_WORD_SCORES = 2, /* scores of the labels for each word: eitp_model_token_scores of the first token of
                                     the word that was not cut */
    EITP_PREDICT_MEANS = 3        /* mean of the latent variable of a model with an encoder, which reads the inputs. The
                                     tokenizer is the encoder's */
} eitp_prediction;

/* Pooling of the hidden states of an input's tokens, including special tokens, into its embedding. The names used by
   sentence-transformers are in parentheses (Reimers and Gurevych, "Sentence-BERT", arXiv 1908.10084). */
typedef enum eitp_embedding_pooling {
    EITP_EMBEDDING_MEAN = 0,            /* ("mean_tokens") */
    EITP_EMBEDDING_FIRST = 1,           /* hidden state of the first token ("cls_token") */
    EITP_EMBEDDING_MAX = 2,             /* largest value of each element ("max_tokens") */
    EITP_EMBEDDING_LAST = 3,            /* hidden state of the last token ("lasttoken") */
    EITP_EMBEDDING_MEAN_SQRT_LENGTH = 4 /* sum, divided by the square root of the number of tokens
                                           ("mean_sqrt_len_tokens") */
} eitp_embedding_pooling;

/* Number of values of eitp_embedding_pooling. */
#define EITP_EMBEDDING_POOLING_COUNT 5

/* The default of pass_tokens, unless max_length is larger. */
#define EITP_PASS_TOKENS 2048

/* Start from eitp_predictor_config_default(). */
typedef struct eitp_predictor_config {
    eitp_prediction prediction;
    eitp_embedding_pooling pooling; /* pooling of embeddings */
    int normalize;                  /* divide embeddings by their Euclidean norm */
    int64_t max_length;             /* maximum number of tokens of a sequence; longer ones are cut; 0: the model's
                                       positions */
    eitp_truncation truncation;     /* which text is cut */
    int truncate_left;              /* see eitp_sequence_defaults */
    /* Maximum number of tokens in a pass, at least max_length. A larger number takes more memory and fewer passes. 0:
       EITP_PASS_TOKENS, or max_length if that is larger. Results do not depend on it. */
    int64_t pass_tokens;
    int omit_special_tokens; /* see eitp_sequence_config */
} eitp_predictor_config;

/*
 * Returns the default configuration for a model and a tokenizer. It requests scores: of words if the model has a token
 * classifier; means instead if the model has an encoder. Embeddings, if you request them, are the normalized mean.
 * Sequences are built and cut according to the tokenizer's files (eitp_tokenizer_sequence_defaults): to the length of
 * "truncation", or else to model_max_length, and never longer than the positions of the model that reads them. Zeros
 * for NULL.
 */
EITP_API eitp_predictor_config eitp_predictor_config_default(const eitp_model *model, const eitp_tokenizer *tokenizer);

/*
 * Reads the embedding options of a sentence-transformers directory. Sets `prediction`; `pooling` from the config.json
 * in the directory named by modules.json ("1_Pooling" by default); and max_length from sentence_bert_config.json,
 * at most `positions`. If the directory has none of these files, only `prediction` is set. Modules other than
 * Transformer, Pooling and Normalize, and unknown or combined kinds of pooling, fail with EITP_ERROR_UNSUPPORTED, which
 * names them. `normalize` is not changed.
 */
EITP_API eitp_status eitp_embedding_config_read(const eitp_host *host, const char *directory, int64_t positions,
                                                eitp_predictor_config *config, eitp_error *error);

/* A predictor. After its creation, it allocates only what eitp_tokenizer_encode_sequence allocates. Model and tokenizer
   must outlive it. It belongs to the context's thread. */
typedef struct eitp_predictor eitp_predictor;

/*
 * Creates a predictor. EITP_ERROR_UNSUPPORTED if the configuration requests scores and the model has no classifier.
 * EITP_ERROR_ARGUMENT if a member is invalid, which the message names, or if the tokenizer has more tokens than the
 * model's vocabulary.
 */
EITP_API eitp_status eitp_predictor_create(const eitp_model *model, const eitp_tokenizer *tokenizer,
                                           const eitp_predictor_config *config, eitp_predictor **predictor,
                                           eitp_error *error);

/* Destroys a predictor. NULL is harmless. */
EITP_API void eitp_predictor_destroy(eitp_predictor *predictor);

/*
 * Estimates the memory in bytes that a predictor needs in addition to the model and the tokenizer: its passes, whose
 * memory it shares with other plans of the context, and its buffers. The model may belong to a context with plans_only.
 */
EITP_API eitp_status eitp_predictor_estimate(const eitp_model *model, const eitp_predictor_config *config,
                                             size_t *bytes, eitp_error *error);

/* Returns the number of values for each input: the labels of the classifier, the width of the model, or the units of
   the latent variable. 0 for NULL. */
EITP_API int64_t eitp_predictor_width(const eitp_predictor *predictor);

/* Returns the configuration, with the actual max_length and pass_tokens. Zeros for NULL. */
EITP_API eitp_predictor_config eitp_predictor_get_config(const eitp_predictor *predictor);

/*
 * Returns the problem that the classifier solves: EITP_PROBLEM_TOKENS for a token classifier. If config.json does not
 * name the problem of another classifier: EITP_PROBLEM_SINGLE_LABEL with several labels, EITP_PROBLEM_MULTI_LABEL with
 * one label, as in the pipelines of transformers.
 */
EITP_API eitp_problem eitp_predictor_problem(const eitp_predictor *predictor);

/* An input: a text, or a pair of texts; for EITP_PREDICT_WORD_SCORES, the words of a text. */
typedef struct eitp_text_pair {
    eitp_text first;
    eitp_text second; /* `bytes` NULL: no second text */
    const eitp_text *words;
    size_t word_count;
} eitp_text_pair;

typedef struct eitp_prediction_report {
    int64_t tokens;    /* tokens computed */
    int64_t cut;       /* inputs that lost tokens, */
    int64_t cut_words; /* and words that lost all of their tokens */
    int64_t passes;
} eitp_prediction_report;

/*
 * Computes values[count][width] for `count` inputs, in order. With EITP_PREDICT_WORD_SCORES, values[n][width] for the n
 * words of all inputs, and -INFINITY for words without a token. With eitp's own matrix products, the values of an input
 * have the same bits regardless of the inputs computed with it. An input without tokens is computed as end-of-text.
 * Fills in *report, which may be NULL.
 *
 * Errors name the input by its number, from 1, among all inputs so far. EITP_ERROR_ARGUMENT for an input that cannot be
 * cut, or that has no tokens while the tokenizer has no end-of-text. *values is undefined after an error.
 */
EITP_API eitp_status eitp_predict(eitp_predictor *predictor, const eitp_text_pair *texts, int64_t count, float *values,
                                  eitp_prediction_report *report, eitp_error *error);

/* Turns scores[count][width] into probabilities: the softmax of each row, or the sigmoid of each score, depending on
   the problem. Predicted numbers and words without a token are unchanged. Both may be the same array. */
EITP_API void eitp_predictor_probabilities(const eitp_predictor *predictor, const float *scores, int64_t count,
                                           float *probabilities);

/*
 * Stores the most likely label of a text of `size` bytes and its probability, which may be NULL. The text may be NULL
 * if size is 0. The label's name belongs to the model (see eitp_model_label). The text is cut as with
 * eitp_predictor_config_default. Each call creates and destroys a predictor: to classify many texts, keep one predictor
 * and call eitp_predict.
 *
 * EITP_ERROR_UNSUPPORTED if the model does not choose one label for a text, because it labels words, predicts numbers,
 * allows several labels at a time, or has no classifier. The message names the function to use instead.
 * EITP_ERROR_NOT_FINITE if a score is not finite. Outputs are unchanged after an error.
 */
EITP_API eitp_status eitp_classify_text(const eitp_model *model, const eitp_tokenizer *tokenizer, const char *text,
                                        size_t size, const char **label, double *probability, eitp_error *error);

EITP_END_DECLARATIONS

#endif
