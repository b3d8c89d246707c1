# Writes model.gguf: random weights in the shape of a small Llama, with a vocabulary of bytes and short words.
import gguf
import numpy

WIDTH, LAYERS, HIDDEN, HEADS, WORDS = 512, 6, 1376, 8, 512

tokens = [b"<unk>", b"<s>", b"</s>"] + [b"<0x%02X>" % byte for byte in range(256)]
types = [gguf.TokenType.UNKNOWN] + [gguf.TokenType.CONTROL] * 2 + [gguf.TokenType.BYTE] * 256
for i in range(WORDS - len(tokens)):
    tokens.append(("\u2581" + chr(97 + i % 26) + chr(97 + i // 26)).encode())
    types.append(gguf.TokenType.NORMAL)

model = gguf.GGUFWriter("model.gguf", "llama")
model.add_context_length(1024)
model.add_embedding_length(WIDTH)
model.add_block_count(LAYERS)
model.add_feed_forward_length(HIDDEN)
model.add_head_count(HEADS)
model.add_head_count_kv(HEADS)
model.add_layer_norm_rms_eps(1e-5)
model.add_rope_dimension_count(WIDTH // HEADS)
model.add_vocab_size(WORDS)
model.add_file_type(gguf.LlamaFileType.ALL_F32)
model.add_tokenizer_model("llama")
model.add_token_list(tokens)
model.add_token_scores([-float(i) for i in range(WORDS)])
model.add_token_types(types)
model.add_bos_token_id(1)
model.add_eos_token_id(2)
model.add_unk_token_id(0)

random = numpy.random.default_rng(0)


def add(name, *shape):
    model.add_tensor(name + ".weight", (0.05 * random.standard_normal(shape)).astype(numpy.float32))


def add_norm(name):
    model.add_tensor(name + ".weight", numpy.ones(WIDTH, numpy.float32))


add("token_embd", WORDS, WIDTH)
for layer in range(LAYERS):
    block = f"blk.{layer}."
    add_norm(block + "attn_norm")
    for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
        add(block + part, WIDTH, WIDTH)
    add_norm(block + "ffn_norm")
    add(block + "ffn_gate", HIDDEN, WIDTH)
    add(block + "ffn_up", HIDDEN, WIDTH)
    add(block + "ffn_down", WIDTH, HIDDEN)
add_norm("output_norm")
add("output", WORDS, WIDTH)

model.write_header_to_file()
model.write_kv_data_to_file()
model.write_tensors_to_file()
model.close()
