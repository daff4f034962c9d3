-- models: MLA attention of known models, as `--model NAME` fills a spec: heads of the whole model (one rank has heads / tp),
-- gate, rotation of the 64 rope columns, q_lora (0: there is no q_a projection, qf comes in ready).
-- All of them have kv_lora 512, nope 128, rope 64, v 128.
return {
  { name = "kimi-k3", heads = 96, gate = 1, rope = "none", q_lora = 1536,
    source = "lightseekorg/tokenspeed python/tokenspeed/runtime/configs/kimi_k3_config.py (mla_use_nope, mla_use_output_gate)" },
  { name = "kimi-k2", heads = 64, gate = 0, rope = "interleaved", q_lora = 1536,
    source = "moonshotai/Kimi-K2-Instruct config.json; rotation as DeepSeek-V3's modeling_deepseek.py" },
  { name = "deepseek-v3", heads = 128, gate = 0, rope = "interleaved", q_lora = 1536,
    source = "deepseek-ai/DeepSeek-V3 config.json; rotation: inference/model.py, apply_rotary_emb (pairs as complex numbers)" },
  { name = "kimi-linear", heads = 32, gate = 0, rope = "none", q_lora = 0,
    source = "moonshotai/Kimi-Linear-48B-A3B-Instruct config.json (q_lora_rank null, mla_use_nope)" },
  { name = "deepseek-v2-lite", heads = 16, gate = 0, rope = "interleaved", q_lora = 0,
    source = "deepseek-ai/DeepSeek-V2-Lite config.json (q_lora_rank null)" },
}
