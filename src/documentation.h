/*
 * eitp: trains Transformers inside the memory a machine really has. One C header.
 *
 * Do this, in one C or C++ file, to make the implementation:
 *
 *     #define EITP_IMPLEMENTATION
 *     #include "eitp.h"
 *
 * and #include "eitp.h" without the #define wherever else you use it. Then compile:
 *
 *     cc -O2 file.c -lm                                                  a C11 compiler is all it needs
 *     cc -O2 -fopenmp file.c -lm                                         with threads
 *     cc -O2 -fopenmp -DEITP_WITH_OPENBLAS=1 file.c -lopenblas -lm       with OpenBLAS for matrix products
 *
 * -O2 is enough: which of plain C, AVX2 and AVX-512 runs is chosen when the program runs. -march and -ffast-math add
 * nothing but risk. Licence: MIT, at the end of the file.
 *
 * A WHOLE PROGRAM: save it as file.c beside eitp.h, compile it as above, run it where file.c is. It takes seconds.
 *
 * ```c
 * #define EITP_IMPLEMENTATION
 * #include "eitp.h"
 * #include <stdio.h>
 * int main(void) { // a small GPT-2 learns the text of this very file, byte by byte
 *     const char *path = __FILE__;
 *     eitp_context_config settings = eitp_context_config_default();
 *     eitp_trainer_config run = eitp_trainer_config_default();
 *     eitp_pack_config texts = {&path, 1, 0, 0, NULL, NULL};
 *     eitp_context *context = NULL;
 *     eitp_tokenizer *tokenizer = NULL;
 *     eitp_token_file *tokens = NULL;
 *     eitp_trainer *trainer = NULL;
 *     eitp_transformer_config shape;
 *     eitp_token_file_info info;
 *     eitp_token_range all, none;
 *     eitp_language_config text = {0};
 *     eitp_task task = {0};
 *     eitp_step_report step = {0};
 *     eitp_error error;
 *     // EITP_OK is 0: calls are chained with ||, the first that fails ends the chain, and `error` says why.
 *     int failed = eitp_context_create(&settings, &context, &error) ||
 *                  eitp_tokenizer_bytes(&settings.host, &tokenizer, &error) ||
 *                  eitp_pack(&settings.host, tokenizer, &texts, "text.tok", &info, &error) ||
 *                  eitp_token_file_open(&settings.host, "text.tok", 0, &tokens, &error) ||
 *                  eitp_split_tokens(info.token_count, 0, text.block_size = 64, &all, &none, &error) ||
 *                  eitp_transformer_config_named("tiny", &shape, &error);
 *     shape.vocabulary = 257; // the bytes and <|endoftext|>
 *     run.schedule.peak = 1e-3;
 *     text.tokenizer = tokenizer;
 *     text.training = eitp_token_file_source(tokens, all);
 *     failed = failed || eitp_model_create(context, &shape, &text.model, &error) ||
 *              eitp_model_initialize(text.model, 1, &error) || eitp_language_task(&text, &task, &error) ||
 *              eitp_trainer_create(&task, &run, &trainer, &error);
 *     while (!failed && step.step < 80) {
 *         failed = eitp_trainer_step(trainer, &step, &error) != EITP_OK;
 *         if (step.step % 10 == 0)
 *             printf("step %2d: loss %.3f nats per byte\n", (int)step.step, step.loss);
 *     }
 *     if (failed || eitp_trainer_save(trainer, "out", &error)) // makes out/checkpoint-80
 *         return fprintf(stderr, "%s\n", error.message), 1;
 *     printf("the best guess from how often each byte comes has %.3f\n", info.unigram_entropy);
 *     eitp_trainer_destroy(trainer); // what was made last goes first
 *     eitp_task_release(&task);
 *     eitp_model_destroy(text.model);
 *     eitp_token_file_close(tokens);
 *     eitp_tokenizer_destroy(tokenizer);
 *     eitp_context_destroy(context);
 *     return step.loss < info.unigram_entropy - 0.5 ? 0 : 1;
 * }
 * ```
 *
 * The directory out/checkpoint-80 that it leaves opens in Hugging Face's transformers, and in `eitp generate`. Further
 * programs are in examples/: a model of your own, a run that resumes, generation, an allocator of your own.
 *
 * WHAT IT DOES
 *     - language models of GPT-2's architecture: from random weights or from a Hugging Face directory, and back to one
 *     - models of your own from tensor ops and blocks; gradients are tensors, and can be differentiated again
 *     - tasks of your own: what a sample is, loss terms with weights of their own, measures
 *     - byte-level BPE: Hugging Face's tokenizer files, token for token; and learning one from text
 *     - text of any size: it is packed into a token file once, which is read in windows
 *     - AdamW with f32 or compact states, an update with next to no state, SGD with momentum, gradient accumulation,
 *       clipping by the global norm, schedules, dropout, evaluation, checkpoints; adapters (LoRA) and freezing
 *     - whole runs: resuming, evaluating, saving, keeping the best checkpoint, stopping early, records
 *     - a run fitted to a memory budget before anything is loaded, with the same results wherever that is possible, in
 *       memory or offloaded from a file, and made smaller while it goes on where memory becomes short
 *     - the same bits for any number of threads, and after a stop and a resume as without
 *     - generation with a key-value cache, temperature, top-k and top-p
 *
 * WHAT IT DOES NOT
 *     - print, exit, abort, install signal handlers, or keep state outside the objects it gives you
 *     - use the network: model directories and texts are files that you have already
 *     - allocate while a plan runs or a trainer makes a step
 *     - Windows, and compilers other than gcc and clang (it needs POSIX files and GNU attributes)
 *
 * NOT YET
 *     - CUDA, several machines
 *     - model directories of architectures other than GPT-2's, such as BERT; a task of text classification
 *     - tokenizers other than byte-level BPE
 *
 * STEP BY STEP, in the order of the calls
 *   Train a language model:
 *     1. eitp_context_config_default, eitp_context_create: device, threads, precision, memory, log. It owns the
 *        parameters.
 *     2. eitp_tokenizer_load, or eitp_tokenizer_train and eitp_tokenizer_save, or eitp_tokenizer_bytes.
 *     3. eitp_pack makes a token file; eitp_token_file_open opens it; eitp_split_tokens holds some back for validation.
 *     4. eitp_model_load for a Hugging Face directory; or eitp_transformer_config_named,
 *        eitp_transformer_config_read, or your own eitp_transformer_config, then eitp_model_create and
 *        eitp_model_initialize.
 *     5. eitp_language_task says what is trained on: eitp_token_file_source, eitp_token_memory_source, or a function
 *        of your own. eitp_trainer_config_default, eitp_trainer_create: takes all memory that training needs. To go on
 *        from a checkpoint: eitp_checkpoint_newest, eitp_trainer_resume.
 *     6. Your loop: eitp_trainer_step; now and then eitp_trainer_evaluate, eitp_trainer_save, eitp_checkpoint_prune.
 *        A step that fails has changed nothing, or eitp_trainer_is_torn: then resume from the last checkpoint. Or a
 *        run, as below, which does all of that.
 *     7. eitp_model_save writes a directory without the training state.
 *     8. What was made last is destroyed first.
 *   Run: eitp_run_config_default names the directory, the steps, and when to evaluate, save and stop early;
 *   eitp_run_create locks the directory and finds the checkpoint to resume from; eitp_run_train trains the trainer of
 *   step 5 to the end, and tells what happens to a listener, or else to the log. eitp_run_request_stop and
 *   eitp_run_request_save may be called in signal handlers. Destroy the run last: examples/run.c.
 *   Generate: eitp_generator_create, then in turn eitp_generator_feed and eitp_generator_sample; eitp_tokenizer_token
 *   gives the bytes of a token.
 *   Tasks, for a model or data of your own: an eitp_task, whose build makes inputs (eitp_pass_row_input), parameters
 *   (eitp_parameter), ops, blocks of a Transformer (eitp_block), loss terms (eitp_pass_term) and measures
 *   (eitp_pass_measure), and whose read fills in a sample. Trainer, planner and run do the rest: examples/hello.c.
 *   Compute without a trainer: eitp_graph_create, eitp_input, eitp_parameter, ops, eitp_output; eitp_gradients, or
 *   eitp_minimize for a step; eitp_plan_create; then in turn eitp_plan_write of every input (but those of
 *   eitp_keep_input, which are written once), eitp_plan_execute, eitp_plan_read.
 *   Building a graph computes nothing. eitp_variables_save and eitp_variables_load keep the parameters.
 *
 * MEMORY
 *   All of it comes from eitp_host.allocator, by default the C library's. A context has two large parts: variables
 *   (parameters, optimizer state, gradients: eitp_context_variable_bytes) and the arena, in which all its plans run
 *   one at a time, as large as the largest needs (eitp_context_arena_bytes; eitp_plan_statistics for one plan).
 *   Both are taken when a plan or a trainer is created; after that eitp_plan_execute, eitp_trainer_step and
 *   eitp_trainer_evaluate allocate nothing. Packing a text of any size, and training a tokenizer, need a bounded
 *   amount. What a training run will take, by component, is told before by eitp_rung_measure; eitp_fit_choose takes a
 *   budget (eitp_memory_budget_default of eitp_memory_info_read) and says which optimizer, how many micro-batches at a
 *   time and how much memory for plans make it fit. Make the context with the optimizer's eitp_parameter_form, and give
 *   the rest to eitp_trainer_create. A plan of its own is limited by eitp_plan_create_within. With
 *   eitp_context_config.offload variables are in a file, and in memory only while a plan uses them. Where others take
 *   memory while a run goes on (eitp_memory_is_short), eitp_trainer_shrink makes it smaller between two steps.
 *
 * PRECISION
 *   eitp_context_config.precision is "fp32", "bf16", "fp16" or "auto": bf16 where the processor has instructions for
 *   it, else fp32. In 16 bits models keep matrices and activations so; sums, norms, softmax, losses, biases, gradients
 *   of parameters and the optimizer are f32, and of each parameter what 16 bits lack of its f32 value is kept besides,
 *   so that files and updates have that. Losses are scaled in fp16, and a step that overflows is skipped.
 *
 * ERRORS
 *   What can fail returns an eitp_status, 0 (EITP_OK) for success, and fills an eitp_error with one line: what is
 *   wrong, where, what to do. NULL may be passed for it. After a failure nothing is half made: outputs are NULL or
 *   untouched. A failed allocation is an error like any other. Ops return tensors instead: NULL after a failure,
 *   and on NULL; the first failure is told by eitp_graph_status and eitp_plan_create. Destroying NULL is harmless.
 *   NULL for a required object is an error; functions that return no status return zeros.
 *
 * THREADS
 *   A context and what is made from it belong to one thread at a time; two contexts are independent. Tokenizers and
 *   open token files may be shared by threads. The callbacks (allocator, files, log, progress, tasks, sinks) are called
 *   from the thread that called eitp, but those that read and write an offloaded file, which a thread of its own does.
 *   With OpenMP a context uses config.threads of them; with OpenBLAS, making a context sets OpenBLAS itself to one
 *   thread, for the whole process, because eitp divides the work.
 *
 * SWITCHES: define them before the #include, or with -D
 *   EITP_IMPLEMENTATION   not defined   makes the implementation; in exactly one file. It is about forty thousand
 *                                       lines to compile, so give it a file of its own.
 *   EITP_API              extern        linkage of the public functions; in every file, alike. `static`, in a program
 *                                       of one file, hides all of eitp.
 *   EITP_FILE             its name      the name of this file in quotes, by which the implementation includes it again.
 *                                       Only needed if you rename the file and the compiler is gcc 11 or older.
 *   EITP_WITH_OPENBLAS    0             1: matrix products by OpenBLAS; where the implementation is. Needs cblas.h and
 *                                       -lopenblas.
 *   EITP_WITHOUT_AVX2     0             1: leaves out the kernels for AVX2: a smaller object, compiled faster; where
 *                                       the implementation is. The same for EITP_WITHOUT_AVX512 (then AVX512-BF16 and
 *                                       AMX are left out too), EITP_WITHOUT_AVX512BF16 and EITP_WITHOUT_AMX.
 *   -fopenmp              off           work is divided among threads; where the implementation is, and when linking.
 *
 * ENVIRONMENT VARIABLES
 *   EITP_ISA               ref, avx2, avx512, avx512bf16 or amx instead of the best that the processor has; one it
 *                          has not is an error
 *   EITP_PRODUCTS          own (without it) or openblas for matrix products
 *   EITP_BACKEND           the device where the program asks for "auto": cpu; or null, which computes nothing
 *   CUDA_VISIBLE_DEVICES   is read only to say why no CUDA device is used; there is no CUDA device yet
 *   OMP_NUM_THREADS        the number of threads where the program asks for 0; without it, one for each processor
 *   GOMP_SPINCOUNT         1000 keeps gcc's threads from spinning long while they wait; the command eitp sets it
 *   OMP_WAIT_POLICY        passive lets threads sleep while they wait: much faster where other programs run too
 *
 * FINDING THINGS
 *   The file is made of modules. Each begins with a line that has ">>" and the module's path, and ends with one
 *   that has "<<" and it: search for ">>" to see them all. First come the public headers (base, tensor, model,
 *   optim, text, data, io, task, train, run), where every function is documented; then the private ones; then the
 *   implementation; last the templates, which it includes by including this file again. Public names begin with
 *   eitp_ or EITP_, private ones with eitp__ or EITP__: those are not for you to use. The file is generated: to change
 *   it, change the modules in the repository. Only the part before the private headers is seen without
 *   EITP_IMPLEMENTATION.
 */
