/* Build switches that exclude features: see SWITCHES at the start. src/manifest lists the modules of each switch. A
   feature that depends on an excluded one is excluded too. */
#ifndef EITP_SWITCHES_H
#define EITP_SWITCHES_H

#ifndef EITP_WITHOUT_CUDA
#define EITP_WITHOUT_CUDA 0
#endif

/* Tokenizers, text files and sample files. */
#ifndef EITP_WITHOUT_TEXT
#define EITP_WITHOUT_TEXT 0
#endif

/* Model directories, checkpoints and their tensors. */
#ifndef EITP_WITHOUT_MODEL_FILES
#define EITP_WITHOUT_MODEL_FILES 0
#endif

/* GGUF files. */
#ifndef EITP_WITHOUT_GGUF
#define EITP_WITHOUT_GGUF EITP_WITHOUT_MODEL_FILES
#elif !EITP_WITHOUT_GGUF && EITP_WITHOUT_MODEL_FILES
#error "EITP_WITHOUT_GGUF is 0, but GGUF files require EITP_WITHOUT_MODEL_FILES to be 0"
#endif

/* Chat templates, and the conversations they format. */
#ifndef EITP_WITHOUT_TEMPLATES
#define EITP_WITHOUT_TEMPLATES EITP_WITHOUT_TEXT
#elif !EITP_WITHOUT_TEMPLATES && EITP_WITHOUT_TEXT
#error "EITP_WITHOUT_TEMPLATES is 0, but templates require EITP_WITHOUT_TEXT to be 0"
#endif

/* Tasks: losses and metrics of samples, predictors. */
#ifndef EITP_WITHOUT_TASKS
#define EITP_WITHOUT_TASKS (EITP_WITHOUT_TEXT || EITP_WITHOUT_MODEL_FILES)
#elif !EITP_WITHOUT_TASKS && (EITP_WITHOUT_TEXT || EITP_WITHOUT_MODEL_FILES)
#error "EITP_WITHOUT_TASKS is 0, but tasks require EITP_WITHOUT_TEXT and EITP_WITHOUT_MODEL_FILES to be 0"
#endif

/* The task that trains latent-variable models. */
#ifndef EITP_WITHOUT_LATENT
#define EITP_WITHOUT_LATENT EITP_WITHOUT_TASKS
#elif !EITP_WITHOUT_LATENT && EITP_WITHOUT_TASKS
#error "EITP_WITHOUT_LATENT is 0, but latent-variable models require EITP_WITHOUT_TASKS to be 0"
#endif

/* Regularizers, and measurements of trained models. */
#ifndef EITP_WITHOUT_OBJECTIVE
#define EITP_WITHOUT_OBJECTIVE EITP_WITHOUT_TASKS
#elif !EITP_WITHOUT_OBJECTIVE && EITP_WITHOUT_TASKS
#error "EITP_WITHOUT_OBJECTIVE is 0, but regularizers require EITP_WITHOUT_TASKS to be 0"
#endif

/* The trainer and its planner. */
#ifndef EITP_WITHOUT_TRAINER
#define EITP_WITHOUT_TRAINER EITP_WITHOUT_TASKS
#elif !EITP_WITHOUT_TRAINER && EITP_WITHOUT_TASKS
#error "EITP_WITHOUT_TRAINER is 0, but the trainer requires EITP_WITHOUT_TASKS to be 0"
#endif

/* The training loop with its directory and records. */
#ifndef EITP_WITHOUT_RUNS
#define EITP_WITHOUT_RUNS EITP_WITHOUT_TRAINER
#elif !EITP_WITHOUT_RUNS && EITP_WITHOUT_TRAINER
#error "EITP_WITHOUT_RUNS is 0, but runs require EITP_WITHOUT_TRAINER to be 0"
#endif

/* Records beyond JSON lines: CSV, TensorBoard, the summary; and the history of a run. */
#ifndef EITP_WITHOUT_REPORTING
#define EITP_WITHOUT_REPORTING EITP_WITHOUT_RUNS
#elif !EITP_WITHOUT_REPORTING && EITP_WITHOUT_RUNS
#error "EITP_WITHOUT_REPORTING is 0, but records require EITP_WITHOUT_RUNS to be 0"
#endif

/* Descriptions of runs. */
#ifndef EITP_WITHOUT_RECIPES
#define EITP_WITHOUT_RECIPES EITP_WITHOUT_RUNS
#elif !EITP_WITHOUT_RECIPES && EITP_WITHOUT_RUNS
#error "EITP_WITHOUT_RECIPES is 0, but recipes require EITP_WITHOUT_RUNS to be 0"
#endif

#endif
