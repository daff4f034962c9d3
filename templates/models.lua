-- models: MLA attention of known models, as `--model NAME` fills a spec: heads of the whole model (one rank has heads / tp),
-- gate, rotation of the 64 rope columns, q_lora (0: there is no q_a projection, qf comes in ready); and what its launches pass:
-- eps of the norms, softmax_scale (natural logarithm, before the q and k scales) = 192^-0.5, times m^2 with yarn, m = 0.1 * mscale_all_dim *
-- ln(factor) + 1, rope_theta (0: no rotation).
-- All of them have kv_lora 512, nope 128, rope 64, v 128.
return {
  { name = "kimi-k3", heads = 96, gate = 1, rope = "none", q_lora = 1536,
    eps = 1e-5, softmax_scale = 192 ^ -0.5, rope_theta = 0,
    source = "lightseekorg/tokenspeed python/tokenspeed/runtime/configs/kimi_k3_config.py (mla_use_nope, mla_use_output_gate)" },
  { name = "kimi-k2", heads = 64, gate = 0, rope = "interleaved", q_lora = 1536,
    eps = 1e-6, softmax_scale = 0.13086079996295005, rope_theta = 50000,
    source = "moonshotai/Kimi-K2-Instruct config.json; rotation as DeepSeek-V3's modeling_deepseek.py; yarn factor 32, mscale_all_dim 1 (the 0905 weights: factor 64)" },
  { name = "deepseek-v3", heads = 128, gate = 0, rope = "interleaved", q_lora = 1536,
    eps = 1e-6, softmax_scale = 0.1352337788608801, rope_theta = 10000,
    source = "deepseek-ai/DeepSeek-V3 config.json; rotation: inference/model.py, apply_rotary_emb (pairs as complex numbers); yarn factor 40, mscale_all_dim 1" },
  { name = "kimi-linear", heads = 32, gate = 0, rope = "none", q_lora = 0,
    eps = 1e-5, softmax_scale = 192 ^ -0.5, rope_theta = 0,
    source = "moonshotai/Kimi-Linear-48B-A3B-Instruct config.json (q_lora_rank null, mla_use_nope)" },
  { name = "deepseek-v2-lite", heads = 16, gate = 0, rope = "interleaved", q_lora = 0,
    eps = 1e-6, softmax_scale = 0.1147213867929261, rope_theta = 10000,
    source = "deepseek-ai/DeepSeek-V2-Lite config.json (q_lora_rank null); yarn factor 40, mscale_all_dim 0.707" },
}
