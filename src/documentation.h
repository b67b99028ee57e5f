/*
 * eitp: train Transformers inside the memory a machine really has. One C header.
 *
 * Create the implementation in one separate C file, for example eitp.c:
 *
 *     #define EITP_IMPLEMENTATION
 *     #include "eitp.h"
 *
 * Everywhere else, #include "eitp.h" alone. Then compile and link:
 *
 *     cc -O2 -c eitp.c                          once
 *     cc -O2 file.c eitp.o -lm
 *
 * For threads, add -fopenmp to both lines. -O2 is enough: kernels for AVX2, AVX-512, AVX512-BF16 and AMX are compiled
 * in, and the best that the processor supports is chosen at run time. Do not add -march or -ffast-math.
 *
 * Requirements: Linux (other POSIX systems are untested), gcc or clang, C11 or C++11 or later, the C library and -lm.
 * License: MIT, at the end of the file.
 *
 * A WHOLE PROGRAM: save it as file.c next to eitp.h, compile it as above, and run it there. It takes seconds.
 *
 * ```c
 * #include "eitp.h"
 * #include <stdio.h>
 *
 * int main(void) { // trains a small GPT-2 on the text of eitp.h, byte by byte
 *     const char *path = "eitp.h";
 *     eitp_context_config settings = eitp_context_config_default();
 *     eitp_trainer_config training = eitp_trainer_config_default();
 *     eitp_pack_config pack = eitp_pack_config_default();
 *     eitp_language_config language = eitp_language_config_default();
 *     eitp_transformer_config shape = eitp_transformer_config_default();
 *     eitp_sample_file_info info;
 *     eitp_token_range train, held_out;
 *     eitp_context *context = NULL;
 *     eitp_tokenizer *tokenizer = NULL;
 *     eitp_sample_file *tokens = NULL;
 *     eitp_trainer *trainer = NULL;
 *     eitp_task task = {0};
 *     eitp_step_report step = {0};
 *     eitp_error error;
 *     pack.texts.paths = &path;
 *     pack.texts.path_count = 1;
 *     language.block_size = 64;      // tokens in a sequence
 *     training.batch_size = 4;       // sequences in a micro-batch; a step has grad_accum (4) micro-batches
 *     training.schedule.peak = 1e-3; // learning rate
 *     // EITP_OK is 0: || stops at the first call that fails, and `error` has the reason.
 *     int failed = eitp_context_create(&settings, &context, &error) ||
 *                  eitp_tokenizer_create_bytes(&settings.host, &tokenizer, &error) ||
 *                  eitp_pack(&settings.host, tokenizer, &pack, "text.tok", &info, &error) ||
 *                  eitp_sample_file_open(&settings.host, "text.tok", 0, &tokens, &error) ||
 *                  eitp_split_tokens(info.token_count, 0, language.block_size, &train, &held_out, &error) ||
 *                  eitp_transformer_config_named("tiny", &shape, &error);
 *     shape.vocabulary = 257; // 256 bytes and the end-of-text token
 *     language.tokenizer = tokenizer;
 *     language.training = eitp_sample_file_token_source(tokens, train);
 *     failed = failed || eitp_model_create(context, &shape, &language.model, &error) ||
 *              eitp_model_initialize(language.model, 1, &error) || eitp_language_task(&language, &task, &error) ||
 *              eitp_trainer_create(&task, &training, &trainer, &error);
 *     while (!failed && step.step < 80) {
 *         failed = eitp_trainer_step(trainer, &step, &error) != EITP_OK;
 *         if (!failed && step.step % 10 == 0)
 *             printf("step %2d: loss %.3f nats per byte\n", (int)step.step, step.loss);
 *     }
 *     failed = failed || eitp_trainer_save(trainer, "out", &error); // writes out/checkpoint-80
 *     if (failed)
 *         fprintf(stderr, "%s\n", error.message);
 *     else
 *         printf("for comparison, the frequencies of bytes alone: %.3f nats per byte\n", info.unigram_entropy);
 *     eitp_trainer_destroy(trainer); // destroy in the opposite order of creation
 *     eitp_task_release(&task);
 *     eitp_model_destroy(language.model);
 *     eitp_sample_file_close(tokens);
 *     eitp_tokenizer_destroy(tokenizer);
 *     eitp_context_destroy(context);
 *     return failed;
 * }
 * ```
 *
 * The directory out/checkpoint-80 can be loaded by Hugging Face transformers and by `eitp generate`. More programs are
 * in examples/: a custom model, a run that survives being killed, generation, a custom allocator.
 *
 * WHAT EITP DOES
 *     - trains GPT-2, Llama, Mistral, Qwen, Gemma, BERT, RoBERTa and DistilBERT, from random weights or from a Hugging
 *       Face model directory, and writes such directories
 *     - trains custom models built from tensor ops and Transformer blocks; gradients are tensors and can be
 *       differentiated again
 *     - trains custom tasks: samples, weighted loss terms, metrics
 *     - reads Hugging Face tokenizers (byte-level BPE, BPE with byte fallback, WordPiece) and produces the same ids;
 *       trains byte-level BPE tokenizers
 *     - packs text of any size into a token file once, and reads it in windows; packs labelled data into a labelled
 *       file, and reads samples from it
 *     - AdamW with f32 or compact states, a factored optimizer with almost no state, SGD with momentum; gradient
 *       accumulation, clipping by global norm, schedules, dropout; LoRA adapters and frozen layers
 *     - fits a run into a memory budget before anything is loaded; can offload variables to a file, and shrink a run
 *       while it trains
 *     - plans, trains and resumes a run described by one struct or by JSON (eitp_recipe, examples/recipe.c)
 *     - manages whole runs: resume, evaluation, checkpoints, best checkpoint, early stopping, records
 *     - produces bit-identical results for any number of threads, and across stop and resume
 *     - generates text with a key-value cache, temperature, top-k and top-p
 *     - classifies and embeds text in batches, packed without padding
 *
 * WHAT EITP DOES NOT DO
 *     - print, exit, abort, install signal handlers, or keep global state
 *     - access the network: model directories and data are local files
 *     - allocate memory while a plan executes or a trainer makes a step
 *     - run on Windows, or compile with anything except gcc and clang: it needs POSIX files and GNU attributes
 *
 * NOT YET
 *     - training on several GPUs or machines; the CUDA backend has never run on a GPU
 *     - other architectures than those above
 *     - other tokenizers than BPE (byte-level or with byte fallback) and WordPiece
 *     - optimized kernels for processors other than x86-64, which run the portable C kernels
 *
 * STEP BY STEP, in the order of the calls
 *   The short way: eitp_recipe_default, then set its members or read them from JSON with eitp_recipe_read;
 *   eitp_training_open, eitp_training_run, eitp_training_close. The program at the top of README.md and
 *   examples/recipe.c do this. eitp_training_open_trained opens the trained model again for evaluation or use: see
 *   docs/recipes.md.
 *   Train a language model:
 *     1. eitp_context_config_default, eitp_context_create: device, threads, precision, memory, log. The context owns
 *        the parameters.
 *     2. eitp_tokenizer_load; or eitp_tokenizer_train and eitp_tokenizer_save; or eitp_tokenizer_create_bytes.
 *     3. eitp_pack creates a token file, eitp_sample_file_open opens it, eitp_split_tokens splits it into training and
 *        validation.
 *     4. eitp_model_load for a Hugging Face directory. For random weights: eitp_transformer_config_named,
 *        eitp_transformer_config_read or your own eitp_transformer_config, then eitp_model_create and
 *        eitp_model_initialize.
 *     5. eitp_language_task describes the data: eitp_sample_file_token_source, eitp_token_memory_source, or a callback.
 *        eitp_trainer_config_default, eitp_trainer_create: allocates all memory for training. To continue from a
 *        checkpoint: eitp_checkpoint_recover, eitp_trainer_resume.
 *     6. In your loop: eitp_trainer_step; at intervals eitp_trainer_evaluate, eitp_trainer_save,
 *        eitp_checkpoint_prune. A failed step changes nothing, unless eitp_trainer_is_inconsistent returns 1: then
 *        resume from the last checkpoint. A run (below) can replace this loop.
 *     7. eitp_model_save writes a model directory without the training state.
 *     8. Destroy everything in the opposite order of creation.
 *   Use a run: eitp_run_config_default sets directory, steps, and when to evaluate, save and stop early. eitp_run_open
 *   locks the directory and finds the checkpoint to resume from. eitp_run_train trains the trainer of step 5 to the end
 *   and reports events to a listener, or to the log. eitp_run_request_stop and eitp_run_request_save may be called from
 *   signal handlers. Close the run last. See examples/run.c.
 *   Keep your own loop, with the records and the guard of a run: eitp_watch_open after step 5, then eitp_watch_step and
 *   eitp_watch_evaluate instead of eitp_trainer_step and eitp_trainer_evaluate, and eitp_watch_save. Close the watch
 *   before the trainer is destroyed. See examples/own_loop.c.
 *   Inspect a run while it trains or afterwards: eitp_history_open, eitp_history_update, eitp_run_process_read. See
 *   examples/history.c.
 *   Generate: eitp_generator_create, then eitp_generate_text continues a prompt and returns the text in pieces as they
 *   are generated. For tokens, or a conversation, alternate eitp_generator_feed and eitp_generator_sample. Each
 *   conversation with a model needs its own generator. See examples/generate.c.
 *   Predict: eitp_classify_text returns the most likely label of one text. For larger amounts, other scores or
 *   embeddings: eitp_predictor_config_default, eitp_predictor_create, then eitp_predict. eitp_embedding_config_read
 *   reads the files of sentence-transformers.
 *   Several threads with one copy of the weights: eitp_model_share creates a model in a separate context for each. See
 *   examples/threads.c.
 *   Custom models and tasks: fill in an eitp_task. Its `build` adds inputs (eitp_pass_row_input), parameters
 *   (eitp_parameter), ops, Transformer blocks (eitp_block), loss terms (eitp_pass_term) and metrics
 *   (eitp_pass_metric) to a graph; its `read` fills in a sample. Trainer, planner and run work with it unchanged. See
 *   examples/hello.c.
 *   Compute without a trainer: eitp_graph_create, eitp_input, eitp_parameter, ops, eitp_output; eitp_gradients,
 *   eitp_jacobian_product, or eitp_minimize for an optimizer step; eitp_plan_create; then repeat eitp_plan_write for
 *   every input (once for inputs marked by eitp_keep_input), eitp_plan_execute, eitp_plan_read. Building a graph
 *   computes nothing. eitp_graph_format lists a graph and its plan, with the names set by eitp_tensor_set_name. See
 *   examples/graph.c.
 *   Store the parameters: eitp_variables_save, eitp_variables_load.
 *
 * MEMORY
 *   All memory comes from eitp_host.allocator, by default the C library's. A context has two large parts: variables
 *   (parameters, optimizer state, gradients: eitp_context_variable_bytes), and the arena, which its plans share and
 *   which is as large as the largest plan needs (eitp_context_arena_bytes; eitp_plan_statistics for one plan). Both are
 *   allocated when a plan or a trainer is created. After that eitp_plan_execute, eitp_trainer_step and
 *   eitp_trainer_evaluate allocate nothing. Packing text and training a tokenizer need a bounded amount of memory.
 *   To fit a run into a budget: eitp_memory_info_read and eitp_memory_budget_default return the budget. eitp_fit_choose
 *   chooses the sequence length, the optimizer, the micro-batches per pass and the plans' memory. eitp_fit_measure
 *   reports the run's bytes and arithmetic by component. (All are in src/train/planner.h below.) Then set
 *   eitp_context_config.parameters from eitp_optimizer_get, .precision and .offload as chosen, and copy
 *   micro_batches_per_pass and plan to the eitp_trainer_config, and the optimizer to its optimizer_config.
 *   eitp_plan_create_with limits a single plan.
 *   eitp_context_config.offload keeps variables in a file except while a plan uses them. If other programs use more
 *   memory during training (eitp_memory_is_short), eitp_trainer_shrink reduces the run between two steps.
 *
 * CONFIGURATIONS AND NAMES
 *   Initialize a struct of options with <struct>_default(), which returns the default values, then change members as
 *   needed. This applies to every eitp_*_config, eitp_sampling, eitp_schedule, eitp_fit, eitp_recipe, eitp_host and the
 *   inputs of attention and blocks. For programs that list or parse options, eitp_settings_of returns a table of a
 *   struct's members with names, defaults and bounds. Initialize other structs (text lists, ranges, arrays, and sets of
 *   callbacks such as tasks, sources and sinks) with {0}.
 *   Functions come in pairs: create and destroy for an object in memory, open and close for one that keeps a file open,
 *   load and save for an object with its values, read and write for a file or values alone. `init` fills in a struct of
 *   the program that needs no release; `release` frees what such a struct owns. eitp_directory_create and
 *   eitp_checkpoint_create create directories on disk. A function that ends in _with takes a configuration in addition
 *   to the arguments of the function without the ending. A property is a noun (eitp_plan_statistics), after get_ if the
 *   noun is also a type (eitp_sample_file_get_info).
 *   A choice is an enum. It is a string if its values depend on the machine or the build (device, isa, products,
 *   precision) or are names in a table or a model (shapes, optimizers in JSON, metrics, layers).
 *
 * VERSIONS
 *   EITP_VERSION_STRING is the version of this file, eitp_version() the version of the linked implementation. Public
 *   structs may grow with the major or minor version, so the versions of declarations and implementation must be equal.
 *   This is checked by the linker: functions that every program needs have the version in their linker names, such as
 *   eitp_context_create_0_1 for eitp_context_create. A program linked with an implementation of another version fails
 *   to link with an undefined symbol of this form; compile both with the same eitp.h. Bindings that look up functions
 *   by name, for example with dlsym, need these names. The functions are those defined with EITP__VERSIONED.
 *
 * PRECISION
 *   eitp_context_config.precision is "fp32", "bf16", "fp16" or "auto": bf16 if the processor has instructions for it,
 *   else fp32. The default is fp32; the command's is auto. In 16 bits, matrices and activations of models are stored in
 *   16 bits; sums, norms, softmax, losses, biases, parameter gradients and the optimizer are f32. With EITP_ADAMW and
 *   EITP_SGD the low bits of each 16-bit parameter's f32 value are stored separately, so updates and files are exact.
 *   In fp16, losses are scaled, and a step that overflows is skipped.
 *
 * ERRORS
 *   A function that can fail returns an eitp_status, 0 (EITP_OK) on success, and fills in an eitp_error: one line with
 *   the problem, its location, and a remedy. The error argument may be NULL. After a failure, outputs are NULL or
 *   unchanged, and everything partially created is released. A failed allocation is an error like any other. Ops return
 *   tensors instead: NULL on failure, and for NULL operands; eitp_graph_status and eitp_plan_create report the first
 *   failure. Passing NULL for a required object is an error (EITP_ERROR_ARGUMENT). Functions without a status return
 *   zeros for it, and destroying NULL does nothing.
 *
 * THREADS
 *   Use a context and everything created from it in one thread at a time. Different contexts are independent.
 *   Tokenizers and open sample files may be shared between threads. Callbacks (allocator, files, log, progress, tasks,
 *   sinks) are called in the thread that called eitp, with two exceptions, which are called in eitp's own threads: the
 *   file functions listed at eitp_files, and with eitp_trainer_config.data_workers a task's `read` and the file
 *   functions that it calls. With OpenMP a context computes with config.threads threads.
 *
 * SWITCHES: define them before the #include, or with -D
 *   EITP_IMPLEMENTATION    undefined   creates the implementation; in exactly one file.
 *   EITP_API               extern      linkage of the public functions; the same in every file. `static` makes all of
 *                                      eitp private to one file.
 *   EITP_SHARED            0           1 exports the public functions of a library built with -fvisibility=hidden.
 *   EITP_PART              undefined   1 to 6: the implementation in six files that compile in parallel, each with a
 *                                      different number and the same options: reference kernels (1); AVX2 (2);
 *                                      AVX-512 and AMX (3); the rest (4 to 6).
 *   EITP_WITHOUT_AVX2, EITP_WITHOUT_AVX512, EITP_WITHOUT_AVX512BF16, EITP_WITHOUT_AMX, EITP_WITHOUT_CUDA
 *                          0           1 leaves these kernels out, to compile faster; where the implementation is.
 *   EITP_WITHOUT_RECIPES, EITP_WITHOUT_REPORTING (records beyond JSON lines), EITP_WITHOUT_RUNS, EITP_WITHOUT_TRAINER,
 *   EITP_WITHOUT_OBJECTIVE, EITP_WITHOUT_LATENT (their task), EITP_WITHOUT_TASKS, EITP_WITHOUT_TEMPLATES (of chats),
 *   EITP_WITHOUT_TEXT, EITP_WITHOUT_GGUF, EITP_WITHOUT_MODEL_FILES
 *                          0           1 leaves out these functions and all that need them; the same in every file.
 *   EITP_FILE              its name    the name of this file in quotes, if you rename it and compile with gcc 11,
 *                                      clang 8 or older; newer compilers do not need it.
 *   -fopenmp               off         enables threads; where the implementation is, and when linking.
 *
 * ENVIRONMENT VARIABLES
 *   EITP_ISA               ref, avx2, avx512, avx512bf16 or amx: the kernels to use, instead of the best that the
 *                          processor supports. An unsupported set is an error.
 *   EITP_PRODUCTS          own (the default) or openblas: the implementation of fp32 matrix products. OpenBLAS is
 *                          opened when a context that requests it is created, and stays open. eitp sets it to one
 *                          thread, for the whole process, because eitp divides the work itself. Programs for glibc
 *                          before 2.34 need -Wl,-no-as-needed -ldl; static programs cannot open it.
 *                          OPENBLAS_NUM_THREADS=1 prevents OpenBLAS from starting threads. If address limits
 *                          (ulimit -v) do not leave enough room for them, eitp does not open it, because the process
 *                          would never end. If a thread cannot start for another reason (ulimit -u), OpenBLAS ends the
 *                          process.
 *   EITP_LIBOPENBLAS       name or path of OpenBLAS; default: libopenblas.so.0, then libopenblas.so
 *   EITP_BACKEND           the device if eitp_context_config.device is "auto" or NULL: cpu, or null, which computes
 *                          nothing
 *   EITP_LOCK_FD           number of an inherited descriptor that holds the lock of the output directory (flock). It
 *                          lets a supervisor that holds the lock start the training process; set by eitp safe-train
 *   OMP_NUM_THREADS        number of threads if the program requests 0; default: one for each processor that the
 *                          process may use (eitp_processor_info.usable), according to affinity, OMP_PLACES and the
 *                          quota of control groups, rounded up
 *   GOMP_SPINCOUNT         1000 makes idle threads of gcc's OpenMP sleep soon; the command sets it
 *   OMP_WAIT_POLICY        passive lets waiting threads sleep: much faster if other programs run on the same processors
 *
 * FINDING YOUR WAY
 *   This file is generated: to change it, change the modules in the repository. Each module starts with a line that
 *   contains ">>" and its path, and ends with one that contains "<<" and its path: search for ">>" for a table of
 *   contents. Below is an index with a line for each public type and function. The public headers come first (base,
 *   tensor, model, optim, text, data, io, task, train, run) and document every function; then the private headers; then
 *   the implementation. Public names start with eitp_ or EITP_, private ones with eitp__ or EITP__. Without
 *   EITP_IMPLEMENTATION only the public part is compiled.
 */
