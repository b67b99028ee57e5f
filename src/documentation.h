/*
 * eitp: trains Transformers inside the memory a machine really has. One C header.
 */
