/*
 * What is left out of a build: see SWITCHES at the beginning. src/manifest says which modules each switch is about.
 * What needs something that is left out is left out with it.
 */
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

/* Chat templates, and the conversations that they write. */
#ifndef EITP_WITHOUT_TEMPLATES
#define EITP_WITHOUT_TEMPLATES EITP_WITHOUT_TEXT
#elif !EITP_WITHOUT_TEMPLATES && EITP_WITHOUT_TEXT
#error "EITP_WITHOUT_TEMPLATES is 0, but templates need what EITP_WITHOUT_TEXT leaves out"
#endif

/* Tasks: losses and metrics of samples, predictors. */
#ifndef EITP_WITHOUT_TASKS
#define EITP_WITHOUT_TASKS (EITP_WITHOUT_TEXT || EITP_WITHOUT_MODEL_FILES)
#elif !EITP_WITHOUT_TASKS && (EITP_WITHOUT_TEXT || EITP_WITHOUT_MODEL_FILES)
#error "EITP_WITHOUT_TASKS is 0, but tasks need what EITP_WITHOUT_TEXT or EITP_WITHOUT_MODEL_FILES leaves out"
#endif

/* The task that trains latent-variable models. */
#ifndef EITP_WITHOUT_LATENT
#define EITP_WITHOUT_LATENT EITP_WITHOUT_TASKS
#elif !EITP_WITHOUT_LATENT && EITP_WITHOUT_TASKS
#error "EITP_WITHOUT_LATENT is 0, but latent-variable models need what EITP_WITHOUT_TASKS leaves out"
#endif

/* Regularizers, and measurements of trained models. */
#ifndef EITP_WITHOUT_OBJECTIVE
#define EITP_WITHOUT_OBJECTIVE EITP_WITHOUT_TASKS
#elif !EITP_WITHOUT_OBJECTIVE && EITP_WITHOUT_TASKS
#error "EITP_WITHOUT_OBJECTIVE is 0, but regularizers need what EITP_WITHOUT_TASKS leaves out"
#endif

/* The trainer and its planner. */
#ifndef EITP_WITHOUT_TRAINER
#define EITP_WITHOUT_TRAINER EITP_WITHOUT_TASKS
#elif !EITP_WITHOUT_TRAINER && EITP_WITHOUT_TASKS
#error "EITP_WITHOUT_TRAINER is 0, but the trainer needs what EITP_WITHOUT_TASKS leaves out"
#endif

/* The training loop with its directory and records. */
#ifndef EITP_WITHOUT_RUNS
#define EITP_WITHOUT_RUNS EITP_WITHOUT_TRAINER
#elif !EITP_WITHOUT_RUNS && EITP_WITHOUT_TRAINER
#error "EITP_WITHOUT_RUNS is 0, but runs need what EITP_WITHOUT_TRAINER leaves out"
#endif

/* Records beyond JSON lines: CSV, TensorBoard, the summary; and the history of a run. */
#ifndef EITP_WITHOUT_REPORTING
#define EITP_WITHOUT_REPORTING EITP_WITHOUT_RUNS
#elif !EITP_WITHOUT_REPORTING && EITP_WITHOUT_RUNS
#error "EITP_WITHOUT_REPORTING is 0, but records need what EITP_WITHOUT_RUNS leaves out"
#endif

/* Descriptions of runs. */
#ifndef EITP_WITHOUT_RECIPES
#define EITP_WITHOUT_RECIPES EITP_WITHOUT_RUNS
#elif !EITP_WITHOUT_RECIPES && EITP_WITHOUT_RUNS
#error "EITP_WITHOUT_RECIPES is 0, but recipes need what EITP_WITHOUT_RUNS leaves out"
#endif

#endif
